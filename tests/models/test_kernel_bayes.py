"""Bayes' rule as an estimator: priors of every kind, chains of rules, every readout."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import muhat as mh
from muhat.learning.held_out import BayesChoice
from muhat.models import Posterior
from muhat.operators.bayes import RULES

KERNELS = {"kernel_x": mh.Gaussian(0.8), "kernel_z": mh.Gaussian(0.7)}
GIVEN = {**KERNELS, "reg": 1e-3, "reg_prior": 1e-3}
N = 70


def pairs(n=N, seed=0):
    rng = np.random.default_rng([n, seed])
    z = rng.uniform(-2, 2, (n, 1))
    return np.c_[z, z**2] + 0.3 * rng.standard_normal((n, 2)), z


X, Z = pairs()
QUERY = np.array([[0.5, 0.3], [-1.0, 1.1], [0.0, 0.0]])
SHIFT = np.array([0.3, 0.0])
PRIOR = 0.5 * np.random.default_rng(1).standard_normal((40, 1)) + 0.5


def fitted(rule="importance", **changes):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message='rule="deconditional" is Bayes')
        return mh.KernelBayes(rule, **{**GIVEN, **changes}).fit(X, Z)


@pytest.mark.parametrize("rule", RULES)
class TestEveryRule:
    def test_is_its_pure_function(self, rule):
        from muhat.gram import DenseGram
        from muhat.operators.bayes import Pairs, Prior

        target = 1.0 if rule == "importance" else 0.0
        gram_x, gram_z = DenseGram(KERNELS["kernel_x"](X)), DenseGram(KERNELS["kernel_z"](Z))
        cross = KERNELS["kernel_z"](Z, PRIOR)
        prior = Prior(cross.mean(axis=1, keepdims=True), PRIOR, np.full(40, 1 / 40), cross)
        given = Pairs(gram_x, gram_z, 1e-3, target)
        expected = RULES[rule].posterior_weights(given, prior, KERNELS["kernel_x"](X, QUERY), 1e-3)
        mu = fitted(rule, center=False).posterior(QUERY, PRIOR)
        assert_allclose(mu.weights, expected, rtol=1e-6, atol=1e-9)
        # By default what they lack of mass is the prior's, as it lies on these points.
        base = np.full(40, 1 / 40) if RULES[rule].ON_PRIOR else np.maximum(given.ratio(prior), 0)
        whole = expected + (1 - expected.sum(axis=1))[:, None] * base / base.sum()
        assert_allclose(fitted(rule).posterior(QUERY, PRIOR).weights, whole, rtol=1e-6, atol=1e-9)
        assert_allclose(mu.points, PRIOR if RULES[rule].ON_PRIOR else Z)
        assert mu.kernel == KERNELS["kernel_z"]

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20)])
    @pytest.mark.parametrize("given", [True, False])
    def test_moves_with_z(self, rule, representation, given):
        """z may be a temperature, whose 0 means nothing: mass that is lost must not pull the mean there."""
        model, prior = fitted(rule, representation=representation), PRIOR if given else None
        mu = model.posterior(QUERY, prior)
        moved = clone(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nu = moved.fit(X, Z + 300).posterior(QUERY, PRIOR + 300 if given else None)
        assert_allclose(nu.mean(), mu.mean() + 300, rtol=1e-6)
        assert_allclose(nu.cov(), mu.cov(), rtol=1e-4, atol=1e-5)

    def test_target_is_for_the_importance_rule_alone(self, rule):
        one, zero = (fitted(rule, target=t).posterior(QUERY, PRIOR).weights for t in ("one", "zero"))
        assert np.allclose(one, zero) is (rule != "importance")

    def test_prior_as_samples_or_embedding(self, rule):
        model = fitted(rule)
        expected = model.posterior(QUERY, PRIOR).weights
        for prior in (
            mh.embed(PRIOR, KERNELS["kernel_z"]),
            mh.embed(PRIOR, mh.Laplace(0.3)),  # only points and weights count
            mh.embed(PRIOR, weights=np.full((1, 40), 1 / 40)),
            PRIOR.tolist(),
            pd.DataFrame({"z": PRIOR[:, 0]}),
            pl.DataFrame({"z": PRIOR[:, 0]}),
        ):
            assert_allclose(model.posterior(QUERY, prior).weights, expected, rtol=1e-9, atol=1e-12)

    def test_no_prior_is_that_of_the_pairs(self, rule):
        model = fitted(rule)
        assert_allclose(
            model.posterior(QUERY).weights, model.posterior(QUERY, Z).weights, rtol=1e-6, atol=1e-6
        )

    def test_rows_of_x_are_independent(self, rule):
        model = fitted(rule)
        whole = model.posterior(QUERY, PRIOR)
        for i in range(3):
            one = model.posterior(QUERY[[i]], PRIOR)
            assert_allclose(one.weights[0], whole.weights[i], rtol=1e-8, atol=1e-12)

    def test_one_prior_for_each_row(self, rule):
        model = fitted(rule)
        weights = np.random.default_rng(2).dirichlet(np.ones(40), 3)
        batch = mh.embed(PRIOR, weights=weights)
        got = model.posterior(QUERY, batch)
        assert len(got) == 3
        for i in range(3):
            expected = model.posterior(QUERY[[i]], batch[i])
            assert_allclose(got.weights[i], expected.weights[0], rtol=1e-9)
            assert_allclose(got.points, expected.points)
        assert_allclose(got.familiarity, model.posterior(QUERY, PRIOR).familiarity)

    def test_nystrom_with_all_points_is_exact(self, rule):
        exact = fitted(rule).posterior(QUERY, PRIOR)
        low = fitted(rule, representation=mh.Nystrom(N)).posterior(QUERY, PRIOR)
        assert_allclose(low.weights, exact.weights, rtol=1e-4, atol=1e-6)

    def test_fourier_features(self, rule):
        reg = 0.02
        exact = fitted(rule, reg=reg).posterior(QUERY, PRIOR)
        low = fitted(rule, reg=reg, representation=mh.Fourier(400)).posterior(QUERY, PRIOR)
        assert_allclose(low.mean(), exact.mean(), atol=0.2)

    def test_features_of_x_with_exact_z(self, rule):
        def phi(x):
            return np.c_[x, x**2, x[:, :1] ** 0]

        W = fitted(rule, kernel_x=None, representation=mh.Features(phi)).posterior(QUERY, PRIOR).weights
        linear = clone(fitted(rule, kernel_x=mh.Linear()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = linear.fit(phi(X), Z).posterior(phi(QUERY), PRIOR).weights
        assert_allclose(W, expected, rtol=1e-5, atol=1e-8)

    def test_posterior_is_nearer_to_the_truth_than_the_prior(self, rule):
        mu = fitted(rule, center=False).posterior(QUERY[:2], PRIOR).normalize()
        assert_allclose(mu.mean()[:, 0], [0.5, -0.9], atol=0.45)

    def test_chains(self, rule):
        """Posterior → sum rule → posterior."""
        model = fitted(rule)
        first = model.posterior(QUERY, PRIOR)
        motion = mh.ConditionalMean(mh.Gaussian(0.7), KERNELS["kernel_z"], 1e-4).fit(Z, Z + 0.3)
        moved = motion.push(first.normalize())
        assert_allclose(moved.mean(), first.normalize().mean() + 0.3, atol=0.15)
        second = model.posterior(QUERY + SHIFT, moved)
        assert len(second) == 3
        assert np.isfinite(second.mean()).all()
        alone = model.posterior(QUERY[[1]] + SHIFT, moved[1])
        assert_allclose(second.weights[1], alone.weights[0], rtol=1e-8)

    def test_every_readout(self, rule):
        mu = fitted(rule).posterior(QUERY, PRIOR)
        assert isinstance(mu, mh.Embedding)
        assert mu.mean().shape == (3, 1)
        assert mu.cov().shape == (3, 1, 1)
        assert mu.quantile([0.1, 0.5, 0.9]).shape == (3, 3, 1)
        assert mu.herd(5).shape == (3, 5, 1)
        assert mu.density(reg=1e-2, kernel=mh.Gaussian(0.5))(np.zeros((2, 1))).shape == (3, 2)
        assert mu.norm().shape == (3,)
        assert (mu[0] - mu[1])(np.zeros((2, 1))).shape == (2,)


class TestFamiliarity:
    @pytest.mark.parametrize("representation", [None, mh.Nystrom(N), mh.Nystrom(10), mh.Fourier(50)])
    def test_says_how_far_an_observation_lies_from_all_pairs(self, representation):
        model = fitted(representation=representation)
        queries = np.array([X[0], X[0] + np.array([0.8, 0.0]), [50.0, 0.0]])
        mu = model.posterior(queries, PRIOR)
        assert isinstance(mu, Posterior)
        expected = KERNELS["kernel_x"](queries, X).max(axis=1)
        assert_allclose(mu.familiarity, expected, atol=1e-12)
        assert mu.familiarity[0] == 1.0
        assert_allclose(mu.unlike, [2])

    def test_far_from_all_pairs_it_is_the_prior(self):
        mu = fitted().posterior([[50.0, 0.0]], PRIOR)
        assert_allclose(mu.weights.sum(), 1)
        assert_allclose(mu.mean()[0], PRIOR.mean(axis=0), atol=0.02)

    def test_far_from_all_pairs_the_plain_form_has_no_mass(self):
        mu = fitted(center=False).posterior([[50.0, 0.0]], PRIOR)
        assert np.isfinite(mu.weights).all()
        assert abs(mu.weights.sum()) < 1e-9
        with pytest.raises(ValueError, match="far from the data"):
            mu.quantile(0.5)

    def test_amplitudes_and_columns_of_the_kernel_do_not_matter(self):
        on = mh.Gaussian(0.8).on([0])
        for kernel in (on, 7.0 * on):
            mu = fitted(kernel_x=kernel).posterior([[X[0, 0], 1e3]], PRIOR)
            assert_allclose(mu.familiarity, 1.0)

    def test_of_features(self):
        model = fitted(kernel_x=None, representation=mh.Features(lambda x: np.c_[x, x**2]))
        mu = model.posterior(QUERY[:1], PRIOR)
        phi = np.c_[X, X**2] / np.linalg.norm(np.c_[X, X**2], axis=1, keepdims=True)
        q = np.r_[QUERY[0], QUERY[0] ** 2]
        assert_allclose(mu.familiarity, (phi @ q / np.linalg.norm(q)).max())


class TestChoice:
    def test_given_is_kept_and_nothing_is_searched(self):
        choice = fitted().choose(PRIOR)
        assert isinstance(choice, BayesChoice)
        assert (choice.reg, choice.reg_prior) == (1e-3, 1e-3)
        assert (choice.kernel_x, choice.kernel_z) == (KERNELS["kernel_x"], KERNELS["kernel_z"])
        assert np.isnan(choice.score)
        assert len(choice.path) == 0

    @pytest.mark.parametrize("free", ["reg", "reg_prior", "kernel_x", "kernel_z"])
    def test_what_is_free_is_chosen_and_the_rest_kept(self, free):
        model = fitted(**{free: None})
        choice = model.choose(PRIOR)
        for name in set(GIVEN) - {free}:
            assert getattr(choice, name) == GIVEN[name]
        assert choice.score > 0
        tried = {"reg": 11, "kernel_x": 4}.get(free, 1)
        assert len(choice.path) == tried
        # The posterior uses what was chosen; a ratio that is chosen is tilted, too (test_kernel_bayes_prior).
        if free == "reg_prior":
            return
        again = fitted(**{free: getattr(choice, free)}).posterior(QUERY, PRIOR)
        assert_allclose(model.posterior(QUERY, PRIOR).weights, again.weights, rtol=1e-6, atol=1e-10)

    def test_depends_on_the_prior_and_is_made_once_for_each(self, monkeypatch):
        calls = []
        import muhat.models.kernel_bayes as module

        def count(task, rng, original=module.choose_bayes):
            calls.append(len(task.points))
            return original(task, rng)

        monkeypatch.setattr(module, "choose_bayes", count)
        model = fitted(reg=None)
        model.posterior(QUERY, PRIOR)
        model.posterior(QUERY[:1], PRIOR.copy())
        model.choose(mh.embed(PRIOR))
        assert calls == [40]
        model.posterior(QUERY)
        assert calls == [40, N]

    def test_a_prior_changed_in_place_is_a_new_prior(self):
        model, prior = fitted(reg_prior=None), Z.copy()
        first = model.choose(prior)
        prior *= 0.1
        fresh = fitted(reg_prior=None).choose(prior.copy())
        assert fresh.reg_prior != first.reg_prior
        assert model.choose(prior).reg_prior == fresh.reg_prior

    def test_grams_are_factored_once_when_nothing_is_free(self, monkeypatch):
        from muhat.gram import DenseGram

        calls = []
        original = DenseGram._ridge
        monkeypatch.setattr(DenseGram, "_ridge", lambda *a: calls.append(a[2] is None) or original(*a))
        model = fitted()
        for seed in range(4):
            model.posterior(QUERY, np.random.default_rng(seed).standard_normal((20, 1)))
        assert calls.count(True) == 1  # G_Z + nηI; those with weights differ from prior to prior

    def test_a_choice_made_from_all_defaults_beats_the_prior_mean(self):
        model = mh.KernelBayes().fit(X, Z)
        z = np.linspace(-0.3, 1.2, 9)[:, None]
        error = model.posterior(np.c_[z, z**2], PRIOR).normalize().mean() - z
        assert np.sqrt(np.mean(error**2)) < 0.35

    def test_the_same_seed_gives_the_same_answer(self):
        a, b = (mh.KernelBayes(random_state=5).fit(X, Z).posterior(QUERY, PRIOR).weights for _ in range(2))
        assert_allclose(a, b, rtol=0, atol=0)


def test_features_of_z_are_their_own_kernel():
    """Where the features of z are given, the density ratio and its regulariser are chosen for them."""
    both = (mh.Exact(), mh.Features(lambda z: np.c_[z, z**2, z**0]))
    model = mh.KernelBayes(kernel_x=KERNELS["kernel_x"], reg=1e-3, representation=both).fit(X, Z)
    choice = model.choose(PRIOR)
    assert_allclose(choice.kernel_z(Z), (Z @ Z.T) + (Z**2 @ Z.T**2) + 1)
    assert np.isfinite(model.posterior(QUERY, PRIOR).mean()).all()


@pytest.mark.slow
def test_a_network_is_trained_once_for_all_priors(monkeypatch):
    calls = []
    original = mh.Neural.train
    monkeypatch.setattr(mh.Neural, "train", lambda *a, **k: calls.append(1) or original(*a, **k))
    network = mh.Neural.mlp((8,), features=4, epochs=3)
    model = mh.KernelBayes(kernel_z=KERNELS["kernel_z"], reg=1e-3, reg_prior=1e-3, representation=network)
    model.fit(X, Z)
    first = model.posterior(QUERY, PRIOR).weights
    model.posterior(QUERY, PRIOR + 0.2)
    assert_allclose(model.posterior(QUERY, PRIOR).weights, first)
    assert len(calls) == 1
    assert isinstance(model.kernel_x_, type(model.choose(PRIOR).kernel_x))


class TestTables:
    """Categories in x, names of columns, vectors of z."""

    rng = np.random.default_rng(0)
    z = rng.standard_normal(90)
    table = pd.DataFrame({
        "a": z + 0.5 * rng.standard_normal(90),
        "c": np.where(z + 0.3 * rng.standard_normal(90) > 0, "up", "down"),
    })  # fmt: skip
    query = pd.DataFrame({"a": [0.2, 0.2], "c": ["up", "down"]})

    def test_categories_in_x(self):
        model = mh.KernelBayes(reg=1e-3, reg_prior=1e-3).fit(self.table, self.z)
        up, down = model.posterior(self.query, self.z).normalize().mean()[:, 0]
        assert up > down + 0.3
        polars = pl.DataFrame(self.table.to_dict("list"))
        other = mh.KernelBayes(reg=1e-3, reg_prior=1e-3).fit(polars, self.z)
        mean = other.posterior(pl.DataFrame(self.query.to_dict("list")), self.z).normalize().mean()
        assert_allclose(mean[:, 0], [up, down], rtol=1e-6)

    def test_z_as_a_vector(self):
        plain = mh.KernelBayes(**GIVEN).fit(X, Z)
        flat = mh.KernelBayes(**GIVEN).fit(X, Z[:, 0])
        expected = plain.posterior(QUERY, PRIOR).weights
        for prior in (PRIOR[:, 0], PRIOR, PRIOR[:, 0].tolist(), pd.Series(PRIOR[:, 0]), mh.embed(PRIOR)):
            assert_allclose(flat.posterior(QUERY, prior).weights, expected, rtol=1e-9, atol=1e-12)

    def test_series_of_categories(self):
        z = pd.Series(np.where(self.z > 0, "high", "low"), name="state")
        model = mh.KernelBayes("kbr_b", mh.Gaussian(0.7), mh.Delta(0.0), 1e-6, 1e-6).fit(
            self.z[:, None] + 0.8 * self.rng.standard_normal((90, 1)), z
        )
        prior = pd.Series(["high"] * 9 + ["low"], name="state")
        mu = model.posterior([[0.0]], prior).normalize()
        high = mu.expect(lambda rows: rows[:, 0] == 0)  # codes follow the alphabet
        even = model.posterior([[0.0]], pd.Series(["high", "low"], name="state")).normalize()
        assert high[0] > even.expect(lambda rows: rows[:, 0] == 0)[0] + 0.2
        with pytest.raises(ValueError, match="mean needs numbers"):
            mu.mean()

    def test_prior_table_with_other_columns(self):
        model = mh.KernelBayes(**GIVEN).fit(X, pd.DataFrame({"z": Z[:, 0]}))
        with pytest.raises(ValueError, match=r"prior has columns \['y'\] but \['z'\] were seen"):
            model.posterior(QUERY, pd.DataFrame({"y": PRIOR[:, 0]}))


class TestEstimator:
    def test_clone_parameters_and_repr(self):
        model = mh.KernelBayes("kbr_b", **GIVEN, target="zero", representation=mh.Nystrom(9), random_state=4)
        twin = clone(model.fit(X, Z))
        assert twin.get_params() == model.get_params()
        assert set(model.get_params()) == {
            "rule", "kernel_x", "kernel_z", "reg", "reg_prior", "target", "center", "representation",
            "random_state",
        }  # fmt: skip
        assert not hasattr(twin, "X_")
        assert repr(mh.KernelBayes(reg=0.5)) == "KernelBayes(reg=0.5)"

    def test_copies_of_a_fitted_model(self):
        import copy
        import pickle

        model = fitted()
        expected = model.posterior(QUERY, PRIOR).weights
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert_allclose(twin.posterior(QUERY, PRIOR).weights, expected)

    def test_not_fitted(self):
        for call in ("posterior", "choose"):
            with pytest.raises(NotFittedError):
                getattr(mh.KernelBayes(), call)(*([QUERY] if call == "posterior" else []))

    def test_refitting_forgets(self):
        model = fitted()
        model.posterior(QUERY, PRIOR)
        other = pairs(50, seed=3)
        again = model.fit(*other).posterior(QUERY, PRIOR)
        assert_allclose(again.weights, mh.KernelBayes(**GIVEN).fit(*other).posterior(QUERY, PRIOR).weights)
