"""What the Bayes' rules and the filter refuse: each names the argument, the value and the remedy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from filter_cases import GIVEN, KERNEL_X, KERNEL_Z, TEST, X, Z

import muhat as mh
from muhat.operators.bayes import NoOverlap

BAYES = {k: v for k, v in GIVEN.items() if k != "reg_transition"}
ESTIMATORS = [mh.KernelBayes, mh.KernelBayesFilter]


@pytest.fixture(scope="module")
def bayes():
    return mh.KernelBayes(**BAYES).fit(X, Z)


@pytest.fixture(scope="module")
def tracker():
    return mh.KernelBayesFilter(**GIVEN).fit(X, Z)


@pytest.mark.parametrize("estimator", ESTIMATORS)
class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (
                {"rule": "bayes"},
                ValueError,
                "rule must be one of 'importance', .*'deconditional', got 'bayes'",
            ),
            ({"rule": None}, ValueError, "rule must be one of .* got None"),
            ({"target": "two"}, ValueError, "target must be one of 'one', 'zero', got 'two'"),
            ({"reg": 0}, ValueError, "reg must be positive and finite, got 0: give a number > 0, or None"),
            ({"reg": -1e-3}, ValueError, "reg must be positive and finite, got -0.001"),
            ({"reg": np.inf}, ValueError, "reg must be positive and finite, got inf"),
            ({"reg": np.nan}, ValueError, "reg must be positive and finite, got nan"),
            ({"reg": [1e-3]}, TypeError, r"reg must be a number, got \[0.001\]"),
            ({"reg_prior": 0.0}, ValueError, "reg_prior must be positive and finite, got 0.0"),
            ({"reg_prior": "auto"}, TypeError, "reg_prior must be a number, got 'auto'"),
            ({"kernel_x": 1.0}, TypeError, "kernel_x must be a kernel or None, got 1.0"),
            ({"kernel_z": "gaussian"}, TypeError, "kernel_z must be a kernel or None, got 'gaussian'"),
            ({"representation": "nystrom"}, TypeError, "representation must be a representation or None"),
            ({"representation": (mh.Exact(), mh.Neural())}, TypeError, "mh.Neural has to be trained"),
            (
                {"kernel_x": mh.Delta(0.5), "representation": mh.Fourier(10)},
                ValueError,
                "no closed form for spectral samples: use mh.Nystrom",
            ),
            ({"random_state": -1}, ValueError, "random_state must be"),
        ],
    )
    def test_refused_in_fit(self, estimator, arguments, error, message):
        given = BAYES if estimator is mh.KernelBayes else GIVEN
        with pytest.raises(error, match=message):
            estimator(**{**given, **arguments}).fit(X, Z)

    def test_data(self, estimator):
        model = estimator(**(BAYES if estimator is mh.KernelBayes else GIVEN))
        bad = X.copy()
        bad[3, 1] = np.nan
        for arguments, message in [
            ((X, Z[:-1]), r"X has 40 rows but Z has 39"),
            ((bad, Z), r"X contains NaN.*first (at|in) row 3"),
            ((X, np.where(Z > 2, Z, np.inf)), r"Z contains (NaN or )?inf"),
            ((X[:, 0], Z), r"X must be 2-dimensional.*reshape\(-1, 1\)"),
            ((X[:, :, None], Z), "X must be 2-dimensional"),
            ((X[:1], Z[:1]), "X has 1 (sample|row)"),
        ]:
            with pytest.raises(ValueError, match=message):
                model.fit(*arguments)
        with pytest.raises(TypeError, match="X must hold numbers"):
            model.fit(np.full((40, 2), "a"), Z)
        with pytest.raises(ValueError, match="Z"):
            model.fit(X, None)

    def test_constant_data_need_a_scale(self, estimator):
        with pytest.raises(ValueError, match=r"constant|same|differ"):
            estimator().fit(np.ones((20, 2)), Z[:20])

    def test_deconditional_warns_where_a_user_would_be_misled(self, estimator):
        given = BAYES if estimator is mh.KernelBayes else GIVEN
        with pytest.warns(
            UserWarning, match=r"only where x is a function of z.*rule=\"importance\""
        ) as caught:
            estimator("deconditional", **given).fit(X, Z)
        assert caught[0].filename == __file__


class TestPosterior:
    @pytest.mark.parametrize(
        ("x", "message"),
        [
            ([[1.0]], "x has 1 features, but KernelBayes is expecting 2"),
            ([1.0, 2.0], "x must be 2-dimensional"),
            ([[1.0, np.nan]], "x contains NaN"),
            (np.empty((0, 2)), "x has 0 samples"),
        ],
    )
    def test_observations(self, bayes, x, message):
        with pytest.raises(ValueError, match=message):
            bayes.posterior(x, Z)

    @pytest.mark.parametrize(
        ("prior", "message"),
        [
            (np.ones((5, 3)), "prior has 3 columns but the Z seen in fit has 2"),
            (mh.embed(np.eye(3)), "prior.points has 3 columns but the Z seen in fit has 2"),
            (Z[:, 0], "prior must be 2-dimensional"),
            ([[np.nan, 0.0]], "prior contains NaN"),
            (np.empty((0, 2)), "prior has 0 samples"),
            (
                mh.embed(Z, weights=np.full((3, 40), 1 / 40)),
                "prior is a batch of 3 embeddings for 2 rows of x",
            ),
            (-1.0 * mh.embed(Z), "prior must be a distribution, but its weights sum to -1"),
            (pd.DataFrame({"a": ["u", "v"], "b": ["u", "v"]}), "prior"),
        ],
    )
    def test_priors(self, bayes, prior, message):
        with pytest.raises((ValueError, TypeError), match=message):
            bayes.posterior(X[:2], prior)

    @pytest.mark.parametrize("rule", ["importance", "kbr_a", "kbr_b"])
    @pytest.mark.parametrize("given", [True, False])
    def test_a_prior_where_there_are_no_pairs(self, rule, given):
        model = mh.KernelBayes(rule, **(BAYES if given else {})).fit(X, Z)
        with pytest.raises(NoOverlap, match=r"no mass near any z of the training pairs.*cover the prior"):
            model.posterior(X[:1], Z + 1e3)

    def test_batch_is_named_in_choose(self, bayes):
        with pytest.raises(ValueError, match=r"prior is a batch of 2 embeddings: .*prior\[0\]"):
            bayes.choose(mh.embed(Z, weights=np.full((2, 40), 1 / 40)))


class TestFilter:
    @pytest.mark.parametrize("bad", [0, -1.0, np.nan])
    def test_regulariser_of_the_transition(self, bad):
        with pytest.raises(
            ValueError, match=r"reg_transition must be positive and finite, got .*: give λ' > 0"
        ):
            mh.KernelBayesFilter(**{**GIVEN, "reg_transition": bad}).fit(X, Z)

    @pytest.mark.parametrize(
        ("xs", "zs", "message"),
        [
            (
                [X[:5], X[5:6]],
                [Z[:5], Z[5:6]],
                "X of sequence 1 has 1 row: .* at least 2 .* leave shorter ones out",
            ),
            ([X[:5], X[:0]], [Z[:5], Z[:0]], "X of sequence 1 has 0 rows"),
            (
                [X[:5], X[5:]],
                [Z[:6], Z[6:]],
                "X of sequence 0 has 5 rows but Z has 6: rows are moments in time",
            ),
            ([X[:5], X[5:]], [Z], "X has 2 sequences but Z has 1"),
            ([X[:5], X[5:]], Z, "X has 2 sequences but Z has 1"),
            ([X[:5], X[5:, :1]], [Z[:5], Z[5:]], "sequences have different columns"),
            (X, 3.0, r"Z must be a sequence \(T, d\), or a list of them, got 3.0"),
            (3.0, Z, "X must be a sequence"),
        ],
    )
    def test_sequences(self, xs, zs, message):
        with pytest.raises(ValueError, match=message):
            mh.KernelBayesFilter(**GIVEN).fit(xs, zs)

    def test_tables_with_different_columns(self):
        a, b = pd.DataFrame(X[:20], columns=["a", "b"]), pd.DataFrame(X[20:], columns=["a", "c"])
        with pytest.raises(
            ValueError, match=r"sequences have different columns, \[\('a', 'b'\), \('a', 'c'\)\]"
        ):
            mh.KernelBayesFilter(**GIVEN).fit([a, b], [Z[:20], Z[20:]])

    def test_missing_observations(self, tracker):
        gap = TEST.copy()
        gap[4, 1] = np.nan
        message = r'X contains NaN \(missing cells\) in 1 of 12 rows, first in row 4: pass missing="predict"'
        for call in (tracker.filter, tracker.smooth):
            with pytest.raises(ValueError, match=message):
                call(gap)
            with pytest.raises(ValueError, match="missing must be one of 'raise', 'predict', got 'skip'"):
                call(gap, missing="skip")
        with pytest.raises(
            ValueError, match=r"x contains NaN .*: pass None for an observation that is missing"
        ):
            tracker.update(gap[4])
        gap[2, 0] = np.inf  # not missing, but wrong
        message = (
            "X contains inf in 1 of 12 rows, first in row 2: give a number, or make it NaN and pass missing"
        )
        for call in (tracker.filter, tracker.smooth):
            with pytest.raises(ValueError, match=message) as caught:
                call(gap, missing="predict")
            assert "rop" not in str(caught.value)
        with pytest.raises(ValueError, match=r"x contains inf .*: give a number, or pass None for"):
            tracker.update(gap[2])

    @pytest.mark.parametrize("form", [np.array, pd.DataFrame, lambda A: pl.DataFrame(A, schema=["a", "b"])])
    def test_a_gap_splits_the_sequence(self, form):
        # Without the row, the steps before and after would be learned from as neighbours.
        a, b = X.copy(), Z.copy()
        a[7, 1], a[8, 0], b[20, 0] = np.nan, np.inf, np.nan
        message = "X contains NaN or inf in 2 of 40 rows, first in row 7. Do not drop these rows"
        names = {"X": form(a), "Z": form(b), "fit": mh.KernelBayesFilter(**GIVEN).fit}
        with pytest.raises(ValueError, match=message) as caught:
            names["fit"](names["X"], names["Z"])
        code = str(caught.value).split("pieces, ")[1].removesuffix(", or impute.")
        assert eval(code, names).lengths_ == [7, 11, 19]

    def test_a_gap_in_one_of_several_sequences(self):
        b = Z[20:].copy()
        b[3] = np.nan
        names = {"X": [X[:20], X[20:]], "Z": [Z[:20], b], "fit": mh.KernelBayesFilter(**GIVEN).fit}
        with pytest.raises(
            ValueError, match=r"^Z of sequence 1 contains NaN or inf in 1 of 20 rows"
        ) as caught:
            names["fit"](names["X"], names["Z"])
        code = str(caught.value).split("pieces, ")[1].removesuffix(", or impute.")
        assert eval(code, names).lengths_ == [20, 3, 16]

    def test_many_gaps_are_not_written_out(self):
        a = X.copy()
        a[2::3] = np.nan
        with pytest.raises(
            ValueError, match=r"in 13 of 40 rows.*pieces, fit\(\[X1, X2, …\], \[Z1, Z2, …\]\)"
        ):
            mh.KernelBayesFilter(**GIVEN).fit(a, Z)

    def test_gaps_of_categories_and_of_vectors(self):
        table = pd.DataFrame({"a": ["u", "v", None, "u"] * 10})
        with pytest.raises(
            ValueError, match=r"^X contains NaN or inf in 10 of 40 rows, first in row 2. Do not"
        ):
            mh.KernelBayesFilter().fit(table, Z)
        state = Z[:, 0].copy()
        state[5] = np.nan
        for form in (np.array, pd.Series):
            with pytest.raises(
                ValueError, match=r"^Z contains NaN or inf in 1 of 40 rows, first in row 5. Do not"
            ):
                mh.KernelBayesFilter(**GIVEN).fit(X, form(state))

    def test_gaps_in_rows_that_are_read_in_blocks(self):
        a = X.copy()
        a[7, 1] = np.nan
        with pytest.raises(ValueError, match=r"X contains NaN .*row 7.*Do not drop.*Split the sequence"):
            mh.KernelBayesFilter(**GIVEN).fit(mh.open_rows(a), mh.open_rows(Z))

    @pytest.mark.parametrize("missing", ["raise", "predict"])
    def test_observations_of_another_width(self, tracker, missing):
        for width in (1, 3):
            wide = np.zeros((4, width))
            with pytest.raises(
                ValueError, match=f"X has {width} features, but KernelBayesFilter is expecting 2"
            ):
                tracker.filter(wide, missing=missing)
        with pytest.raises(ValueError, match="X has 3 features"):
            tracker.filter(np.full((4, 3), np.nan), missing="predict")
        with pytest.raises(ValueError, match="X must be 2-dimensional"):
            tracker.filter(np.zeros(4), missing=missing)
        with pytest.raises(ValueError, match="X has 0 samples"):
            tracker.filter(np.empty((0, 2)), missing=missing)

    def test_update(self, tracker):
        with pytest.raises(ValueError, match="x has 3 features, but KernelBayesFilter is expecting 2"):
            tracker.update([1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="x has 2 rows, but update takes one"):
            tracker.update(TEST[:2])
        table = pd.DataFrame(X, columns=["a", "b"])
        named = mh.KernelBayesFilter(**GIVEN).fit(table, Z)
        with pytest.raises(ValueError, match=r"x has 3 rows, but update takes one: use filter\(X\)"):
            named.update(table[:3])

    @pytest.mark.parametrize(
        ("initial", "message"),
        [
            (np.ones((5, 3)), "initial has 3 columns but the Z seen in fit has 2"),
            (mh.embed(np.eye(3)), "initial.points has 3 columns"),
            ([[np.nan, 0.0]], "initial contains NaN"),
            (mh.embed(Z, weights=np.full((3, 40), 1 / 40)), r"initial is a batch of 3.*initial\[0\]"),
            (Z + 1e3, "no mass near any z of the training pairs"),
        ],
    )
    def test_initial(self, tracker, initial, message):
        with pytest.raises(ValueError, match=message):
            tracker.filter(TEST, initial=initial)

    @pytest.mark.parametrize("restarts", [[12], [-1]])
    def test_restarts(self, tracker, restarts):
        with pytest.raises(ValueError, match=r"restarts must be rows of X, from 0 to 11, got \["):
            tracker.filter(TEST, restarts=restarts)

    @pytest.mark.parametrize(
        ("h", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError)]
    )
    def test_forecast(self, tracker, h, error):
        tracker.filter(TEST)
        with pytest.raises(error, match="h must be"):
            tracker.forecast(h)


def test_kernels_that_do_not_fit_the_points():
    with pytest.raises(ValueError, match="lengthscale"):
        mh.KernelBayes(**{**BAYES, "kernel_x": mh.Gaussian([1.0, 1.0, 1.0])}).fit(X, Z)
    with pytest.raises(ValueError, match="column"):
        mh.KernelBayesFilter(**{**GIVEN, "kernel_z": KERNEL_Z.on([5])}).fit(X, Z)
    assert KERNEL_X(X).shape == (40, 40)
