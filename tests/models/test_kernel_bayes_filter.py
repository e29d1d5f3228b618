"""The kernel Bayes filter as an estimator: whole sequences, one step at a time, and back again."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from filter_cases import GIVEN, KERNEL_X, KERNEL_Z, PLAIN, TEST, DenseFilter, X, Z, rotation
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import muhat as mh
from muhat.models import Filtered
from muhat.operators.bayes import RULES

N = len(X)


def fitted(rule="importance", X=X, Z=Z, **changes):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message='rule="deconditional" is Bayes')
        return mh.KernelBayesFilter(rule, **{**GIVEN, **changes}).fit(X, Z)


class TestFilter:
    @pytest.mark.parametrize("rule", ["importance", "kbr_a", "kbr_b"])
    def test_is_algorithm_2(self, rule):
        got = mh.KernelBayesFilter(rule, **PLAIN).fit(X, Z).filter(TEST)
        assert_allclose(got.weights, DenseFilter(X, Z, rule=rule).filter(TEST), rtol=1e-5, atol=1e-8)

    def test_normalised_with_ratios_that_shrink_to_one(self):
        got = fitted().filter(TEST)
        assert_allclose(
            got.weights, DenseFilter(X, Z, target=1.0, normalize=True).filter(TEST), rtol=1e-6, atol=1e-9
        )
        assert_allclose(got.weights.sum(axis=1), 1.0)

    def test_first_observation_is_conditioned_on_the_initial_embedding_itself(self):
        bayes = {k: v for k, v in GIVEN.items() if k != "reg_transition"}
        alone = mh.KernelBayes(**bayes, target="zero", center=False).fit(X, Z).posterior(TEST[:1], Z)
        got = mh.KernelBayesFilter(**PLAIN).fit(X, Z).filter(TEST[:1])
        assert_allclose(got.weights, alone.weights, rtol=1e-6, atol=1e-10)

    def test_several_sequences_have_no_transition_between_them(self):
        cut = [(X[:15], Z[:15]), (X[15:17], Z[15:17]), (X[17:], Z[17:])]
        xs, zs = zip(*cut, strict=True)
        model = mh.KernelBayesFilter(**PLAIN).fit(list(xs), list(zs))
        assert model.lengths_ == [15, 2, 23]
        expected = DenseFilter(X, Z, [15, 2, 23]).filter(TEST)
        assert_allclose(model.filter(TEST).weights, expected, rtol=1e-6, atol=1e-9)
        assert np.abs(expected - DenseFilter(X, Z).filter(TEST)).max() > 1e-3
        one = mh.KernelBayesFilter(**PLAIN).fit([X], [Z])
        assert_allclose(one.filter(TEST).weights, DenseFilter(X, Z).filter(TEST), rtol=1e-6, atol=1e-9)

    def test_many_sequences_in_one_call(self):
        model = fitted()
        other = rotation(5, seed=4)[0]
        both = model.filter([TEST, other])
        assert len(both) == 2
        assert_allclose(both[0].weights, model.filter(TEST).weights)
        assert_allclose(both[1].weights, model.filter(other).weights)
        assert_allclose(model.filter((TEST, other))[1].weights, both[1].weights)

    def test_blocks_of_observations_do_not_matter(self, monkeypatch):
        expected = fitted().filter(TEST)
        monkeypatch.setattr("muhat.models.kernel_bayes_filter.BLOCK", 5)
        got = fitted().filter(TEST)
        assert_allclose(got.weights, expected.weights)
        assert_allclose(got.familiarity, expected.familiarity)

    def test_nested_lists_are_one_sequence(self):
        assert_allclose(fitted().filter(TEST.tolist()).weights, fitted().filter(TEST).weights)

    @pytest.mark.parametrize("rule", RULES)
    def test_tracks(self, rule):
        X, Z = rotation(150, seed=5)
        test, truth = rotation(60, seed=6)
        mean = fitted(rule, X, Z).filter(test).mean()
        raw = np.mean(((test - truth) ** 2).sum(axis=1))
        error = np.mean(((mean - truth) ** 2).sum(axis=1))
        assert error < (0.9 if rule != "deconditional" else 1.5) * raw

    def test_returns_a_batch_embedding_over_the_training_states(self):
        out = fitted().filter(TEST)
        assert isinstance(out, Filtered)
        assert isinstance(out, mh.Embedding)
        assert len(out) == len(TEST)
        assert_allclose(out.points, Z)
        assert out.kernel == KERNEL_Z
        assert out[3].mean().shape == (2,)


class TestRepresentations:
    @pytest.mark.parametrize("rule", RULES)
    def test_nystrom_with_all_points_is_exact(self, rule):
        exact, low = (fitted(rule, representation=r) for r in (None, mh.Nystrom(N)))
        assert_allclose(low.filter(TEST).weights, exact.filter(TEST).weights, rtol=1e-4, atol=1e-6)
        assert_allclose(low.forecast(3).weights, exact.forecast(3).weights, rtol=1e-4, atol=1e-6)
        exact.reg_backward_ = low.reg_backward_ = 1e-2
        assert_allclose(low.smooth(TEST).weights, exact.smooth(TEST).weights, rtol=1e-3, atol=1e-5)

    @pytest.mark.parametrize("both", [(mh.Nystrom(N), mh.Exact()), (mh.Exact(), mh.Nystrom(N))])
    def test_x_and_z_may_differ(self, both):
        low = fitted(representation=both)
        assert_allclose(low.filter(TEST).weights, fitted().filter(TEST).weights, rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize("rule", RULES)
    def test_fourier_features(self, rule):
        exact, low = (fitted(rule, reg=0.05, representation=r) for r in (None, mh.Fourier(300)))
        assert_allclose(low.filter(TEST).mean(), exact.filter(TEST).mean(), atol=0.35)

    def test_features_of_x(self):
        def phi(x):
            return np.c_[x, x**2, x[:, :1] ** 0]

        low = fitted(kernel_x=None, representation=mh.Features(phi)).filter(TEST)
        linear = fitted(kernel_x=mh.Linear(), X=phi(X)).filter(phi(TEST))
        assert_allclose(low.weights, linear.weights, rtol=1e-5, atol=1e-8)

    def test_few_landmarks_come_near(self):
        low = fitted(representation=mh.Nystrom(25)).filter(TEST)
        assert_allclose(low.mean(), fitted().filter(TEST).mean(), atol=0.1)


class TestOnline:
    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20)])
    @pytest.mark.parametrize("rule", RULES)
    def test_update_step_by_step_is_filter(self, rule, representation):
        model = fitted(rule, representation=representation)
        whole = fitted(rule, representation=representation).filter(TEST)
        for t, x in enumerate(TEST):
            mu = model.update(x)
            assert not mu.is_batch
            assert_allclose(mu.weights, whole.weights[t], rtol=1e-8, atol=1e-12)
            for name in ("familiarity", "mass", "observed"):
                assert_allclose(getattr(mu, name), getattr(whole, name)[t], rtol=1e-8)

    def test_an_observation_unlike_all_is_told_at_once(self):
        model = fitted()
        assert "unlike" not in model.update(TEST[0]).summary()
        mu = model.update(np.full(TEST.shape[1], 50.0))
        assert mu.familiarity < 1e-6
        assert list(mu.unlike) == [0]
        assert mu.summary().startswith("1 step, ")
        assert mu.summary().endswith("1 observation unlike anything in training.")
        assert np.isnan(model.update(None).familiarity)

    def test_steps_of_a_sequence_keep_what_is_told_of_them(self):
        whole = fitted().filter(TEST)
        some = whole[2:5]
        assert len(some) == 3
        assert_allclose(some.mass, whole.mass[2:5])
        assert_allclose(some.familiarity, whole.familiarity[2:5])
        assert_allclose(some.mean(), whole.mean()[2:5])

    def test_goes_on_from_filter_and_starts_anew_after_reset(self):
        model, whole = fitted(), fitted().filter(TEST)
        model.filter(TEST[:7])
        assert_allclose(model.update(TEST[7]).weights, whole.weights[7])
        assert_allclose(model.update(TEST[[8]]).weights, whole.weights[8])
        assert_allclose(model.reset().update(TEST[0]).weights, whole.weights[0])
        assert model.reset() is model
        assert model.state_ is None

    def test_missing_observation(self):
        model = fitted()
        gap = TEST.copy()
        gap[4] = np.nan
        whole = model.filter(gap, missing="predict")
        model.reset()
        for t in range(6):
            mu = model.update(None if t == 4 else TEST[t])
            assert_allclose(mu.weights, whole.weights[t], rtol=1e-9)

    def test_initial_counts_in_the_first_step_alone(self):
        model = fitted()
        start = mh.embed(Z, KERNEL_Z, weights=np.eye(N)[3])
        expected = model.filter(TEST[:2], initial=start)
        model.reset()
        assert_allclose(model.update(TEST[0], initial=start).weights, expected.weights[0])
        assert_allclose(model.update(TEST[1], initial=start).weights, expected.weights[1])

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20)])
    def test_forecast_is_repeated_prediction(self, representation):
        model = mh.KernelBayesFilter(**PLAIN, representation=representation).fit(X, Z)
        w = model.filter(TEST).weights[-1]
        ahead = model.forecast(4)
        if representation is None:
            dense = DenseFilter(X, Z)
            for t in range(4):
                w = dense.predict(w)
                assert_allclose(ahead.weights[t], w, rtol=1e-6, atol=1e-10)
        # and what filter does with missing rows
        gap = np.r_[TEST, np.full((4, 2), np.nan)]
        assert_allclose(
            ahead.weights, model.filter(gap, missing="predict").weights[-4:], rtol=1e-8, atol=1e-12
        )

    def test_forecast_is_normalised_and_leaves_the_state(self):
        model = fitted()
        model.filter(TEST)
        ahead = model.forecast(3)
        assert_allclose(ahead.weights.sum(axis=1), 1.0)
        assert_allclose(model.forecast(1).weights[0], ahead.weights[0])
        gap = np.r_[TEST, np.full((3, 2), np.nan)]
        assert_allclose(model.filter(gap, missing="predict").weights[-3:], ahead.weights, rtol=1e-8)


class TestMissingAndRestarts:
    def test_missing_rows_are_predictions(self):
        gap = TEST.copy()
        gap[[0, 5, 6], 1] = np.nan
        out = mh.KernelBayesFilter(**PLAIN).fit(X, Z).filter(gap, missing="predict")
        dense, w = DenseFilter(X, Z), np.full(N, 1 / N)
        for t in range(len(gap)):
            w = dense.predict(w) if t else w
            w = w if np.isnan(gap[t]).any() else dense.condition(w, gap[t])
            assert_allclose(out.weights[t], w, rtol=1e-5, atol=1e-8)
        assert_array_equal(np.flatnonzero(~out.observed), [0, 5, 6])
        assert_array_equal(np.flatnonzero(np.isnan(out.familiarity)), [0, 5, 6])
        assert_array_equal(np.flatnonzero(np.isnan(out.mass)), [0, 5, 6])

    def test_without_missing_rows_the_option_changes_nothing(self):
        model = fitted()
        assert_allclose(model.filter(TEST, missing="predict").weights, model.filter(TEST).weights)

    def test_all_missing(self):
        out = fitted().filter(np.full((3, 2), np.nan), missing="predict")
        assert_allclose(out.weights[0], 1 / N)
        assert not out.observed.any()

    def test_restarts_are_new_sequences(self):
        model = fitted()
        start = mh.embed(Z, KERNEL_Z, weights=np.eye(N)[3])
        for initial in (None, start):
            parts = [model.filter(part, initial).weights for part in (TEST[:4], TEST[4:9], TEST[9:])]
            whole = model.filter(TEST, initial, restarts=[4, 9]).weights
            assert_allclose(whole, np.concatenate(parts), rtol=1e-9, atol=1e-12)
        assert_allclose(model.filter(TEST, restarts=[0]).weights, model.filter(TEST).weights)


class TestInitial:
    def test_embedding_on_the_training_states_is_taken_as_it_is(self):
        model = mh.KernelBayesFilter(**PLAIN).fit(X, Z)
        w = np.random.default_rng(0).dirichlet(np.ones(N))
        start = mh.Embedding(KERNEL_Z, model.Z_, w)
        assert_allclose(
            model.filter(TEST, start).weights, DenseFilter(X, Z).filter(TEST, w), rtol=1e-5, atol=1e-8
        )
        last = model.filter(TEST)[-1]
        assert_allclose(
            model.filter(TEST, last).weights,
            DenseFilter(X, Z).filter(TEST, last.weights),
            rtol=1e-5,
            atol=1e-8,
        )

    def test_samples_are_projected_onto_the_training_states(self):
        model = fitted()
        samples = np.array([[1.0, 0.0]]) + 0.1 * np.random.default_rng(0).standard_normal((20, 2))
        blind = np.full((1, 2), np.nan)
        start = model.filter(blind, samples, missing="predict")
        assert_allclose(start.mean(), [[1.0, 0.0]], atol=0.15)
        again = model.filter(blind, mh.embed(samples, mh.Gaussian(5.0)), missing="predict")
        assert_allclose(again.weights, start.weights)

    def test_vector_of_states(self):
        model = fitted(Z=Z[:, 0])
        out = model.filter(TEST, initial=Z[:5, 0])
        assert_allclose(out.weights, model.filter(TEST, initial=Z[:5, :1]).weights)
        assert model.flat_z_


class TestSmoother:
    @pytest.mark.parametrize("rule", ["importance", "kbr_a", "kbr_b"])
    def test_is_bayes_rule_backwards(self, rule):
        model = mh.KernelBayesFilter(rule, **PLAIN).fit(X, Z)
        model.reg_backward_ = 0.01
        got = model.smooth(TEST)
        assert isinstance(got, Filtered)
        expected = DenseFilter(X, Z, rule=rule).smooth(TEST, 0.01)
        assert_allclose(got.weights, expected, rtol=1e-5, atol=1e-7)
        assert_allclose(got.weights[-1], model.filter(TEST).weights[-1])

    def test_regulariser_is_chosen_once_and_reported(self):
        model = fitted()
        assert model.reg_backward_ is None
        first = model.smooth(TEST).weights
        assert model.reg_backward_ > 0
        assert_allclose(fitted().smooth(TEST).weights, first)
        other = fitted()
        other.reg_backward_ = model.reg_backward_
        assert_allclose(other.smooth(TEST).weights, first)

    def test_of_many_sequences_and_with_missing_rows(self):
        model = fitted()
        gap = TEST.copy()
        gap[4] = np.nan
        both = model.smooth([TEST, gap], missing="predict")
        assert_allclose(both[0].weights, model.smooth(TEST).weights)
        assert not both[1].observed[4]
        truth = rotation(12, seed=1)[1]
        filtered = model.filter(gap, missing="predict")
        assert np.sum((both[1].mean()[4] - truth[4]) ** 2) < np.sum((filtered.mean()[4] - truth[4]) ** 2)


class TestDiagnostics:
    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20), mh.Fourier(40)])
    def test_an_observation_unlike_anything_in_training(self, representation):
        model = fitted(representation=representation)
        test = TEST.copy()
        test[5] = 100.0
        out = model.filter(test)
        assert np.isfinite(out.weights).all()
        assert_array_equal(out.unlike, [5])
        assert_allclose(out.familiarity, KERNEL_X(test, X).max(axis=1), atol=1e-12)
        assert "1 observation unlike anything in training" in out.summary()
        if representation is None:
            assert not out.observed[5]  # nothing to learn from it: the state is the prediction
            gap = test.copy()
            gap[5] = np.nan
            assert_allclose(out.weights, model.filter(gap, missing="predict").weights, rtol=1e-8, atol=1e-12)
            assert "1 predicted without an observation" in out.summary()

    def test_a_kernel_on_some_columns_looks_at_these(self):
        """The others may be anything: they say nothing of how familiar an observation is."""
        wide = np.c_[X, 100 * np.random.default_rng(0).standard_normal(N)]
        out = fitted(X=wide, kernel_x=KERNEL_X.on([0, 1])).filter(np.c_[TEST, np.full(12, 1e6)])
        assert_allclose(out.familiarity, KERNEL_X(TEST, X).max(axis=1))

    def test_mass_and_effective_size(self):
        out = fitted().filter(TEST)
        assert ((out.mass > 0.3) & (out.mass < 1.5)).all()
        assert out.observed.all()
        W = out.weights
        assert_allclose(out.effective_size(), np.abs(W).sum(axis=1) ** 2 / (W**2).sum(axis=1))
        assert out.summary().startswith("12 steps, carried by ")
        # An observation against the prediction leaves less of it.
        jump = TEST.copy()
        jump[6] = -TEST[6]
        assert fitted().filter(jump).mass[6] < 0.7 * out.mass[6]


class TestTables:
    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_numbers(self, frame):
        def table(A):
            return frame({"a": A[:, 0], "b": A[:, 1]})

        expected = fitted().filter(TEST).weights
        model = fitted(X=table(X), Z=table(Z))
        assert_allclose(model.filter(table(TEST)).weights, expected)
        parts = fitted(X=[table(X[:15]), table(X[15:])], Z=[table(Z[:15]), table(Z[15:])])
        assert parts.lengths_ == [15, 25]
        assert_allclose(parts.filter([table(TEST)])[0].weights, DenseFilter(
            X, Z, [15, 25], target=1.0, normalize=True
        ).filter(TEST), rtol=1e-6, atol=1e-9)  # fmt: skip
        mu = model.reset().update(table(TEST[:1]))
        assert_allclose(mu.weights, expected[0])

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_missing_cells_and_categories(self, frame):
        side = np.where(X[:, 1] > 0, "left", "right").tolist()
        x = frame({"a": X[:, 0].tolist(), "c": side})
        kernel = mh.Gaussian(0.7).on("a") * mh.Delta(0.3).on("c")
        model = fitted(X=x, kernel_x=kernel)
        query = {"a": TEST[:, 0].tolist(), "c": np.where(TEST[:, 1] > 0, "left", "right").tolist()}
        whole = model.filter(frame(query))
        assert whole.observed.all()
        query["a"][3] = None
        query["c"][6] = None
        out = model.filter(frame(query), missing="predict")
        assert_array_equal(np.flatnonzero(~out.observed), [3, 6])
        assert_allclose(out.weights[:3], whole.weights[:3], rtol=1e-9)
        with pytest.raises(
            ValueError, match=r'X contains NaN.*2 of 12 rows, first in row 3.*missing="predict"'
        ):
            model.filter(frame(query))

    def test_lists_of_vectors_of_states(self):
        parts = fitted(X=[X[:15], X[15:]], Z=[Z[:15, 0], Z[15:, 0]])
        assert parts.lengths_ == [15, 25]
        equal = fitted(X=[X[:20], X[20:]], Z=[Z[:20, 0], Z[20:, 0]])
        assert equal.lengths_ == [20, 20]
        assert equal.Z_.shape == (40, 1)

    def test_categories_of_states(self):
        z = pd.DataFrame({"side": np.where(Z[:, 1] > 0, "left", "right")})
        model = mh.KernelBayesFilter(
            kernel_x=KERNEL_X, kernel_z=mh.Delta(0.1), reg=5e-3, reg_prior=2e-3, reg_transition=1e-3
        )
        out = model.fit(X, z).filter(TEST)
        left = out.expect(lambda rows: rows[:, 0] == 0)
        truth = rotation(12, seed=1)[1][:, 1] > 0
        assert np.mean((left > 0.5) == truth) > 0.8


class TestEstimator:
    def test_clone_parameters_and_repr(self):
        model = mh.KernelBayesFilter("kbr_b", **PLAIN, representation=mh.Nystrom(9), random_state=4)
        twin = clone(model.fit(X, Z))
        assert twin.get_params() == model.get_params()
        assert set(model.get_params()) == {
            "rule", "kernel_x", "kernel_z", "reg", "reg_prior", "reg_transition", "target", "normalize",
            "representation", "method", "random_state",
        }  # fmt: skip
        assert not hasattr(twin, "choice_")
        assert repr(mh.KernelBayesFilter(reg=0.5)) == "KernelBayesFilter(reg=0.5)"

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20)])
    @pytest.mark.parametrize("rule", RULES)
    def test_copies_go_on_from_the_same_state(self, rule, representation):
        model = fitted(rule, representation=representation)
        model.filter(TEST[:7])
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        expected = model.update(TEST[7]).weights
        for twin in copies:
            assert_allclose(twin.update(TEST[7]).weights, expected, rtol=1e-6, atol=1e-9)
            assert_allclose(twin.forecast(2).weights, model.forecast(2).weights, rtol=1e-6, atol=1e-9)

    def test_refitting_forgets(self):
        model = fitted()
        model.smooth(TEST)
        model.fit(X[:20], Z[:20])
        assert model.state_ is None
        assert model.reg_backward_ is None
        with pytest.raises(
            ValueError, match=r"no state to go on from: call filter\(X\) or update\(x\) first"
        ):
            model.forecast()

    def test_not_fitted(self):
        model = mh.KernelBayesFilter()
        for call in (lambda: model.filter(X), lambda: model.update(X[0]), model.forecast, model.reset):
            with pytest.raises(NotFittedError):
                call()
        with pytest.raises(NotFittedError):
            model.smooth(X)
