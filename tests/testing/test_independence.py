"""The independence test: HSIC by every road, invariances, tables, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import muhat as mh
from muhat.testing import independence as module
from muhat.testing.independence import centred_factor, centred_gram
from muhat.testing.nulls import row_permutations

FEW = {"permutations": 99, "random_state": 0}


def pairs(n=60, noise=1.0, seed=0):
    """y is a bent function of the first column of x, plus noise."""
    rng = np.random.default_rng([n, seed])
    x = rng.normal(size=(n, 2))
    return x, np.c_[np.abs(x[:, 0]) + noise * rng.normal(size=n), rng.normal(size=n)]


def hsic(kernel_x, kernel_y, x, y):
    """tr(KHLH)/n², as it stands."""
    n = len(x)
    H = np.eye(n) - 1 / n
    return np.trace(kernel_x(x) @ H @ kernel_y(y) @ H) / n**2


class TestStatistic:
    KERNELS = (
        (mh.Gaussian(0.7), mh.Gaussian(1.3)),
        (mh.Laplace(1.0), mh.Linear()),
        (mh.Gaussian(0.7).on(0), mh.Polynomial(2)),
    )

    @pytest.mark.parametrize("kernels", KERNELS, ids=repr)
    @pytest.mark.parametrize("n", [4, 60, 300, 301, 500])
    @pytest.mark.parametrize("method", ["permutation", "gamma", "wild"])
    def test_is_the_trace(self, kernels, n, method):
        x, y = pairs(n)
        found = mh.independence_test(x, y, *kernels, method, permutations=19, random_state=0)
        assert_allclose(found.statistic, hsic(*kernels, x, y), rtol=1e-8)
        assert found.hsic == found.statistic

    @pytest.mark.parametrize("n", [7, 40])
    @pytest.mark.parametrize("dense", [False, True])
    def test_null_and_pvalue_by_doing_the_permutations(self, n, dense, monkeypatch):
        monkeypatch.setattr(module, "GATHER", 0 if dense else 10**9)  # one road, then the other
        x, y = pairs(n)
        kernels = mh.Gaussian(0.7), mh.Gaussian(1.3)
        found = mh.independence_test(x, y, *kernels, permutations=99, random_state=5)
        orders = row_permutations(n, 99, np.random.default_rng(5))
        expected = np.array([hsic(*kernels, x, y[order]) for order in orders])
        assert_allclose(found.null, expected[1:], rtol=1e-6)
        assert found.pvalue == (1 + np.sum(expected[1:] >= expected[0] - 1e-12)) / 100
        assert abs(found.error) < 1e-8 * found.statistic + 1e-12

    def test_factors_beyond_300_rows_have_the_error_they_state(self):
        x, y = pairs(400)
        kernels = mh.Gaussian(0.7), mh.Gaussian(1.3)
        truncated = mh.independence_test(x, y, *kernels, **FEW)
        exact = mh.independence_test(x, y, *kernels, representation=mh.Exact(), **FEW)
        assert_allclose(truncated.statistic, exact.statistic, rtol=1e-9)
        assert 0 <= truncated.error < 1e-3 * truncated.statistic
        assert_allclose(truncated.null, exact.null, rtol=2e-3)
        assert np.abs(truncated.null - exact.null).max() < 0.05 * exact.null.std()
        assert abs(truncated.pvalue - exact.pvalue) <= 0.01
        assert abs(exact.error) < 1e-5 * exact.statistic

    def test_centred_factor(self):
        x, _ = pairs(200)
        for kernel in (mh.Gaussian(0.7), mh.Linear(), mh.Laplace(1.0)):
            A = centred_gram(kernel, x)
            Phi = centred_factor(kernel, x, np.random.default_rng(0), 1e-3, 200, np.float64)
            assert_allclose(Phi.sum(axis=0), 0.0, atol=1e-9)
            left = A - Phi @ Phi.T
            assert np.linalg.eigvalsh(left).min() > -1e-8 * np.trace(A)
            assert np.trace(left) < 1.1e-3 * np.trace(A)
            assert (np.diff((Phi**2).sum(axis=0)) <= 1e-9).all()  # principal components, largest first
            assert_allclose(Phi.T @ Phi, np.diag((Phi**2).sum(axis=0)), atol=1e-8 * np.trace(A))

    def test_centred_factor_of_more_features_than_rows(self):
        x, _ = pairs(30)
        kernel = mh.Fourier(200).fit(mh.Gaussian(0.7), x, np.random.default_rng(0))
        A = centred_gram(kernel, x)
        Phi = centred_factor(kernel, x, np.random.default_rng(0), 1e-3, 200, np.float64)
        assert Phi.shape[1] < 30
        assert_allclose(Phi @ Phi.T, A, atol=1e-3 * np.trace(A))

    def test_centred_gram(self):
        x, _ = pairs(20)
        H = np.eye(20) - 1 / 20
        assert_allclose(centred_gram(mh.Gaussian(0.7), x), H @ mh.Gaussian(0.7)(x) @ H, atol=1e-14)

    @pytest.mark.slow
    def test_gamma_agrees_with_permutations(self):
        x, y = pairs(150, noise=3.0)
        kernels = mh.Gaussian(1.0), mh.Gaussian(1.0)
        gamma = mh.independence_test(x, y, *kernels, "gamma").pvalue
        many = mh.independence_test(x, y, *kernels, permutations=4999, random_state=0).pvalue
        assert_allclose(gamma, many, atol=0.025)
        assert 0.001 < gamma < 0.4

    @pytest.mark.parametrize("n", [100, 400])
    def test_a_large_constant_part_of_a_kernel(self, n):
        """Wide kernels, and linear ones far from the origin, are still exact and still see."""
        x, y = pairs(n)
        y[:, 1] += x[:, 1]
        near = mh.independence_test(x, y, mh.Linear(), mh.Linear(), **FEW)
        far = mh.independence_test(x + 1e4, y - 1e4, mh.Linear(), mh.Linear(), **FEW)
        assert_allclose(far.statistic, near.statistic, rtol=1e-4)
        assert_allclose(far.null, near.null, rtol=1e-3, atol=1e-3 * near.null.std())
        assert far.pvalue == near.pvalue == 0.01
        gamma = mh.independence_test(x + 1e4, y - 1e4, mh.Linear(), mh.Linear(), "gamma")
        assert_allclose(gamma.statistic, near.statistic, rtol=1e-4)
        wide = mh.independence_test(x, y, mh.Gaussian(1e3), mh.Gaussian(1e3), **FEW)
        assert wide.pvalue == 0.01

    @pytest.mark.parametrize("n", [100, 400])
    def test_a_kernel_that_does_not_vary_sees_nothing(self, n):
        x, y = pairs(n)
        x = np.c_[x, np.ones(n)]
        found = mh.independence_test(x, y, mh.Delta().on(2), mh.Gaussian(1.0), **FEW)
        assert found.pvalue == 1.0
        assert abs(found.statistic) < 1e-12

    def test_features(self):
        x, y = pairs(200)
        kernels = mh.Gaussian(0.7), mh.Gaussian(1.3)
        exact = mh.independence_test(x, y, *kernels, **FEW).statistic
        for representation, tolerance in ((mh.Nystrom(200), 1e-4), (mh.Fourier(600), 0.3)):
            found = mh.independence_test(x, y, *kernels, representation=representation, **FEW)
            assert_allclose(found.statistic, exact, rtol=tolerance)
            assert len(found.null) == 99

    def test_wild_multiplies_the_terms(self):
        """Independent centred multipliers: the mean of the null is tr(HM)/n², M = HKH ∘ HLH."""
        x, _ = pairs(80)
        y = x[:, :1]  # as dependent as can be: then it matters that the multipliers are centred
        kernels = mh.Gaussian(0.7), mh.Gaussian(1.3)
        found = mh.independence_test(x, y, *kernels, "wild", length=1e-3, permutations=1999, random_state=0)
        M = centred_gram(kernels[0], x) * centred_gram(kernels[1], y)
        assert_allclose(found.null.mean(), (np.trace(M) - M.mean() * 80) / 80**2, rtol=0.04)
        assert M.mean() * 80 > 0.09 * np.trace(M)


class TestEffectSize:
    def test_from_none_to_all(self):
        x, _ = pairs(200)
        rng = np.random.default_rng(0)
        none = mh.independence_test(x, rng.normal(size=200), "median", "median", **FEW).effect_size
        some = mh.independence_test(
            x[:, 0], x[:, 0] + rng.normal(size=200), "median", "median", **FEW
        ).effect_size
        same = mh.independence_test(x[:, 0], 7 * x[:, 0] - 3, "median", "median", **FEW).effect_size
        assert none < 0.03 < some < 0.9 < same
        assert_allclose(same, 1.0, atol=1e-6)


class TestWitnessAndColumns:
    def test_witness_is_the_joint_less_the_product(self):
        x, y = pairs()
        k, l = mh.Gaussian(0.7), mh.Gaussian(1.3)
        found = mh.independence_test(x, y, k, l, **FEW)
        K, L = k(x[:5], x), l(y[:5], y)
        assert_allclose(found.witness(x[:5], y[:5]), (K * L).mean(axis=1) - K.mean(axis=1) * L.mean(axis=1))
        # HSIC is its mean over the pairs, less that over all combinations.
        total = found.witness(x, y).mean()
        combined = np.mean([found.witness(x, np.tile(row, (60, 1))).mean() for row in y])
        assert_allclose(total - combined, found.statistic, rtol=1e-8)
        with pytest.raises(ValueError, match=r"x has 5 rows but y has 4"):
            found.witness(x[:5], y[:4])

    def test_columns_name_the_two_that_go_together(self):
        x, y = pairs(150, noise=0.3)
        table = pd.DataFrame(y, columns=["bent", "noise"])
        found = mh.independence_test(x, table, **FEW)
        columns = found.columns()
        assert {c.name for c in columns[:2]} == {"x[0]", "bent"}
        assert all(c.pvalue <= 0.02 for c in columns[:2])
        assert all(c.pvalue > 0.05 for c in columns[2:])
        assert found.columns() == columns

    def test_constant_and_categorical_columns(self):
        _, y = pairs(100, noise=0.3)
        left = pd.DataFrame({"c": np.where(y[:, 0] > 0.8, "high", "low"), "same": 1.0})
        columns = mh.independence_test(left, y, **FEW).columns()
        assert {c.name for c in columns[:2]} == {"c", "y[0]"}
        constant = next(c for c in columns if c.name == "same")
        assert constant.effect_size == 0
        assert constant.pvalue > 0.2


class TestProperties:
    @pytest.mark.parametrize("method", ["permutation", "wild"])
    def test_same_seed_same_answer(self, method):
        x, y = pairs()
        a, b, c = (
            mh.independence_test(x, y, method=method, permutations=99, random_state=s) for s in (3, 3, 4)
        )
        assert (a.pvalue, a.statistic) == (b.pvalue, b.statistic)
        assert_array_equal(a.null, b.null)
        assert not np.array_equal(a.null, c.null)

    @pytest.mark.slow
    @pytest.mark.parametrize("n", [60, 350])
    def test_swapping_x_and_y(self, n):
        x, y = pairs(n, noise=3.0)
        k, l = mh.Gaussian(0.7), mh.Laplace(1.3)
        a = mh.independence_test(x, y, k, l, permutations=999, random_state=0)
        b = mh.independence_test(y, x, l, k, permutations=999, random_state=0)
        assert_allclose(a.statistic, b.statistic, rtol=1e-9)
        assert_allclose(a.pvalue, b.pvalue, atol=0.06)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["permutation", "wild", "gamma"])
    @pytest.mark.parametrize("n", [60, 350])
    def test_units_and_origin_do_not_matter(self, method, n):
        """A width for y taken from x would fail here."""
        x, y = pairs(n, noise=2.0)
        plain = mh.independence_test(x, y, method=method, **FEW)
        for scale in (1e-4, 1e5):
            scaled = mh.independence_test(x, scale * y + [3.0, -100.0], method=method, **FEW)
            assert_allclose(scaled.pvalue, plain.pvalue, atol=1e-12 if n <= 300 else 0.011)
            one = mh.independence_test(x * [scale, 1.0], y, method=method, **FEW)
            assert_allclose(one.pvalue, plain.pvalue, atol=1e-12 if n <= 300 else 0.011)

    def test_not_blind_in_ten_dimensions(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(150, 10))
        y = x @ rng.normal(size=(10, 10)) + 2 * rng.normal(size=(150, 10))
        for kernel in (None, "median"):
            assert mh.independence_test(x, y, kernel, kernel, **FEW).pvalue == 0.01

    def test_range_of_pvalues(self):
        x, y = pairs(100, noise=0.1)
        for permutations in (19, 99):
            found = mh.independence_test(x, y, permutations=permutations, random_state=0)
            assert found.pvalue == 1 / (permutations + 1)
            assert len(found.null) == permutations

    def test_no_correlation_but_dependence(self):
        x = np.linspace(-1, 1, 100)
        y = x**2 + 0.1 * np.random.default_rng(0).normal(size=100)
        assert abs(np.corrcoef(x, y)[0, 1]) < 0.1
        assert mh.independence_test(x, y, **FEW).pvalue == 0.01

    def test_a_list_of_kernels_makes_every_pair(self):
        x, y = pairs(100, noise=0.3)
        found = mh.independence_test(
            x, y, [mh.Gaussian(1e-4), mh.Gaussian(1.0)], [mh.Linear(), mh.Gaussian(1.0)], **FEW
        )
        assert len(found.kernels) == 4
        assert found.kernel == found.kernels[found.best]
        assert found.kernel[0].lengthscale == 1.0
        assert found.pvalue == 0.01
        assert_allclose(found.hsic, hsic(*found.kernel, x, y), rtol=1e-8)

    @pytest.mark.parametrize("method", ["permutation", "wild", "gamma"])
    def test_odd_shapes(self, method):
        rng = np.random.default_rng(0)
        for x, y in (
            (rng.normal(size=(5, 1)), rng.normal(size=(5, 1))),
            (rng.normal(size=(8, 50)), rng.normal(size=(8, 1))),
            (rng.integers(2, size=60), rng.integers(3, size=60)),
            (np.r_[np.zeros(59), 1.0], rng.normal(size=60)),
            (np.repeat(rng.normal(size=(6, 2)), 60, axis=0), rng.normal(size=360)),
            (np.c_[rng.normal(size=50), np.ones(50)], rng.normal(size=50)),
        ):
            found = mh.independence_test(x, y, method=method, **FEW)
            assert 0 <= found.pvalue <= 1
            assert np.isfinite(found.null).all()
            assert -1 <= found.effect_size <= 1

    def test_results_say_what_was_found(self):
        x, y = pairs(100, noise=0.1)
        found = mh.independence_test(x, y, **FEW)
        assert str(found) == found.summary
        for word in ("depend on each other", "100 rows", "p = 0.01", "99 permutations"):
            assert word in found.summary
        rng = np.random.default_rng(2)
        assert "show no dependence" in mh.independence_test(x, rng.normal(size=100), **FEW).summary


class TestTables:
    def test_vectors_series_frames_and_arrays_agree(self):
        x, y = (z[:, 0] for z in pairs())
        expected = mh.independence_test(x[:, None], y[:, None], **FEW)
        for wrap in (
            lambda z: z,
            list,
            pd.Series,
            pl.Series,
            lambda z: pd.DataFrame({"a": z}),
            lambda z: pl.DataFrame({"a": z}),
        ):
            found = mh.independence_test(wrap(x), wrap(y), **FEW)
            assert (found.pvalue, found.statistic) == (expected.pvalue, expected.statistic)

    def test_categories(self):
        rng = np.random.default_rng(0)
        c = pd.Series(rng.choice(["p", "q", "r"], 120), name="c")
        codes = c.map({"p": 0.0, "q": 1.5, "r": 0.0}).to_numpy()
        y = codes + rng.normal(size=120)
        assert mh.independence_test(c, y, **FEW).pvalue == 0.01
        assert mh.independence_test(y, c, **FEW).pvalue == 0.01
        assert mh.independence_test(c, rng.permutation(y), **FEW).pvalue > 0.05
        other = pd.Series(np.where(rng.random(120) < 0.5, c, "p"), name="d")
        assert mh.independence_test(c, other, **FEW).pvalue == 0.01


X, Y = pairs()


class TestBadInput:
    @pytest.mark.parametrize(
        ("x", "y", "error", "message"),
        [
            (np.where(X > 2, np.nan, X), Y, ValueError, r"x contains NaN.*Drop or impute"),
            (X, Y[:-1], ValueError, r"x has 60 rows but y has 59: rows are pairs"),
            (X[:3], Y[:3], ValueError, r"x has 3 samples.*at least 4"),
            (X[None], Y, ValueError, r"x must be 2-dimensional"),
            (np.ones(60), Y, ValueError, r"every row of x is the same"),
            (X, np.ones((60, 3)), ValueError, r"every row of y is the same"),
            (X, np.array(["a"] * 60), TypeError, r"y must hold numbers"),
        ],
        ids=range(7),
    )
    def test_data(self, x, y, error, message):
        with pytest.raises(error, match="(?s)" + message):
            mh.independence_test(x, y, missing="refuse", **FEW)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"kernel_x": "gauss"}, ValueError, r"kernel_x must be one of.*got 'gauss'"),
            ({"kernel_y": "gauss"}, ValueError, r"kernel_y must be one of.*got 'gauss'"),
            ({"kernel_y": 3}, TypeError, r"kernel_y must be a kernel.*got 3"),
            ({"kernel_x": []}, ValueError, r"kernel_x is an empty list"),
            ({"kernel_x": [3]}, TypeError, r"kernel_x\[0\] must be a kernel"),
            ({"method": "exact"}, ValueError, r"method must be one of .*got 'exact'"),
            ({"permutations": 10}, ValueError, r"permutations must be at least 19, got 10"),
            (
                {"method": "gamma", "kernel_x": "aggregate"},
                ValueError,
                r'"gamma" takes one kernel for x and one for y',
            ),
            ({"method": "wild", "length": 0}, ValueError, r"length must be positive.*got 0"),
            ({"representation": 7}, (TypeError, ValueError), r"representation.*7"),
        ],
        ids=range(10),
    )
    def test_arguments(self, arguments, error, message):
        with pytest.raises(error, match="(?s)" + message):
            mh.independence_test(X, Y, **arguments)


def test_a_column_that_is_the_other_sample_has_the_whole_effect():
    x = np.random.default_rng(0).standard_normal((60, 2)) * [1.0, 100.0]
    found = mh.independence_test(x, 5.0 * x[:, [1]], "median", "median", **FEW).columns()
    effects = {column.name: column.effect_size for column in found}
    assert effects["x[1]"] == pytest.approx(1.0)
    assert effects["x[0]"] < 0.1
