"""The two-sample test: identities, invariances, tables, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import lfilter

import muhat as mh
from muhat.testing.nulls import label_permutations
from muhat.testing.result import ColumnEffect

FEW = {"permutations": 99, "random_state": 0}


def samples(n=40, m=30, d=2, shift=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(m, d)) + shift


def unbiased(kernel, x, y):
    """Gretton et al. (2012), eq. (3), as it stands."""
    n, m = len(x), len(y)
    K, L, M = kernel(x), kernel(y), kernel(x, y)
    np.fill_diagonal(K, 0.0)
    np.fill_diagonal(L, 0.0)
    return K.sum() / (n * (n - 1)) + L.sum() / (m * (m - 1)) - 2 * M.mean()


class TestStatistic:
    KERNELS = (
        mh.Gaussian(0.7),
        mh.Laplace([0.5, 2.0]),
        mh.Linear(),
        mh.Gaussian(1.0).on(0) + mh.Linear(),
        mh.Delta(0.3),
    )

    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    @pytest.mark.parametrize(("n", "m"), [(2, 3), (40, 30), (700, 400)])
    def test_biased_is_the_distance_of_the_embeddings(self, kernel, n, m):
        x, y = samples(n, m)
        found = mh.two_sample_test(x, y, kernel, biased=True, permutations=19, random_state=0)
        expected = float(mh.mmd(mh.embed(x, kernel), mh.embed(y, kernel))) ** 2
        assert_allclose(found.statistic, expected, rtol=1e-9 if n < 500 else 1e-4, atol=1e-14)
        assert found.mmd2 == found.statistic

    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    @pytest.mark.parametrize(("n", "m"), [(2, 3), (40, 30), (700, 400)])
    def test_unbiased_is_the_textbook_formula(self, kernel, n, m):
        x, y = samples(n, m)
        found = mh.two_sample_test(x, y, kernel, permutations=19, random_state=0)
        assert_allclose(
            found.statistic,
            unbiased(kernel, x, y),
            rtol=1e-9 if n < 500 else 1e-4,
            atol=1e-13 if n < 500 else 1e-7,
        )

    def test_gamma_and_wild_have_the_biased_one(self):
        x, y = samples()
        kernel = mh.Gaussian(0.7)
        expected = mh.two_sample_test(x, y, kernel, biased=True, **FEW).statistic
        for method in ("gamma", "wild"):
            assert_allclose(mh.two_sample_test(x, y, kernel, method, **FEW).statistic, expected, rtol=1e-12)

    @pytest.mark.parametrize("biased", [False, True])
    def test_null_and_pvalue_by_doing_the_permutations(self, biased):
        x, y = samples(12, 9)
        kernel = mh.Gaussian(0.7)
        found = mh.two_sample_test(x, y, kernel, biased=biased, permutations=199, random_state=5)
        Z = np.concatenate([x, y])
        expected = []
        for first in label_permutations(12, 9, 199, np.random.default_rng(5)):
            a, b = Z[first], Z[~first]
            expected.append(
                float(mh.mmd(mh.embed(a, kernel), mh.embed(b, kernel))) ** 2
                if biased
                else unbiased(kernel, a, b)
            )
        assert_allclose(found.statistic, expected[0], rtol=1e-10)
        assert_allclose(found.null, expected[1:], rtol=1e-8, atol=1e-12)
        assert found.pvalue == (1 + np.sum(np.array(expected[1:]) >= expected[0])) / 200

    def test_is_hsic_with_the_labels(self):
        """MMD² = (N²/(nm))² HSIC with the linear kernel on membership."""
        n, m = 40, 30
        x, y = samples(n, m)
        label = (np.arange(n + m) < n).astype(float)
        kernel = mh.Gaussian(0.7)
        mmd = mh.two_sample_test(x, y, kernel, "gamma")
        hsic = mh.independence_test(np.concatenate([x, y]), label, kernel, mh.Linear(), "gamma")
        factor = ((n + m) ** 2 / (n * m)) ** 2
        assert_allclose(mmd.statistic, factor * hsic.statistic, rtol=1e-10)
        assert_allclose(mmd.pvalue, hsic.pvalue, rtol=1e-7)
        assert_allclose(mmd.null, factor * hsic.null, rtol=1e-7)

    def test_wild_multiplies_each_sample(self):
        """Independent multipliers: the mean of the null is tr(HKH)/(n(n−1)) + tr(HLH)/(m(m−1))."""
        x, y = samples(60, 15)
        kernel = mh.Gaussian(0.7)
        found = mh.two_sample_test(x, y, kernel, "wild", length=1e-3, permutations=1999, random_state=0)
        expected = sum((1 - kernel(z).mean()) / (len(z) - 1) for z in (x, y))
        assert_allclose(found.null.mean(), expected, rtol=0.05)

    def test_gamma_agrees_with_permutations(self):
        x, y = samples(100, 80, shift=0.4)
        kernel = mh.Gaussian(1.0)
        gamma = mh.two_sample_test(x, y, kernel, "gamma").pvalue
        many = mh.two_sample_test(x, y, kernel, biased=True, permutations=4999, random_state=0)
        assert_allclose(gamma, many.pvalue, atol=0.02)

    def test_nystrom_with_all_points_is_exact(self):
        x, y = samples()
        exact = mh.two_sample_test(x, y, mh.Gaussian(0.7), **FEW)
        features = mh.two_sample_test(x, y, mh.Gaussian(0.7), representation=mh.Nystrom(70), **FEW)
        assert_allclose(features.statistic, exact.statistic, rtol=1e-5)
        asked = mh.two_sample_test(x, y, mh.Gaussian(0.7), representation=mh.Exact(), **FEW)
        assert asked.statistic == exact.statistic

    def test_fourier_comes_near(self):
        x, y = samples(300, 300)
        exact = mh.two_sample_test(x, y, mh.Gaussian(0.7), **FEW)
        features = mh.two_sample_test(x, y, mh.Gaussian(0.7), representation=mh.Fourier(2000), **FEW)
        assert_allclose(features.statistic, exact.statistic, rtol=0.15)

    def test_aggregate_with_features(self):
        """Kernels of the bank without Fourier features get landmarks."""
        x, y = samples(100, 100, shift=0.8)
        assert mh.two_sample_test(x, y, representation=mh.Fourier(100), **FEW).pvalue == 0.01


class TestWitness:
    def test_is_the_difference_of_means_of_the_kernel(self):
        x, y = samples()
        found = mh.two_sample_test(x, y, mh.Gaussian(0.7), **FEW)
        points = np.array([[0.0, 0.0], [1.0, -1.0], [3.0, 3.0]])
        kernel = mh.Gaussian(0.7)
        assert_allclose(
            found.witness(points), kernel(points, x).mean(axis=1) - kernel(points, y).mean(axis=1)
        )

    def test_of_a_vector(self):
        x, y = samples(d=1, shift=3.0)
        found = mh.two_sample_test(x[:, 0], y[:, 0], **FEW)
        low, high = found.witness(np.array([0.0, 3.0]))
        assert low > 0 > high

    def test_of_a_table(self):
        x, y = mixed(60, 0), mixed(60, 1, shift=2.0)
        found = mh.two_sample_test(x, y, **FEW)
        assert found.witness(x.head(5)).shape == (5,)
        with pytest.raises(ValueError, match=r"points has columns .* but .* were seen before"):
            found.witness(x[["c", "a"]])

    def test_embeddings_are_those_of_the_samples(self):
        x, y = samples()
        found = mh.two_sample_test(x, y, mh.Gaussian(0.7), biased=True, **FEW)
        assert_allclose(float(mh.mmd(*found.embeddings)) ** 2, found.statistic, rtol=1e-9)


class TestEffectSize:
    def test_alike_and_apart(self):
        x, y = samples(150, 150, shift=0.0)
        low, high = mh.two_sample_test(x, y, **FEW).effect_interval
        assert low < 0.5 < high < 0.7
        assert mh.two_sample_test(x, y + 8.0, **FEW).effect_size > 0.999
        assert_allclose(mh.two_sample_test(x, x, **FEW).effect_size, 0.5, rtol=1e-12)

    def test_of_a_shift(self):
        # P(X > Y) for a shift by δ standard deviations is Φ(δ/√2).
        x, y = samples(900, 900, d=1, shift=1.0)
        assert_allclose(mh.two_sample_test(x, y, "median", **FEW).effect_size, 0.760, atol=0.03)
        few = [
            mh.two_sample_test(*samples(25, 25, 1, 1.0, s), "median", **FEW).effect_size for s in range(30)
        ]
        assert_allclose(np.mean(few), 0.76, atol=0.04)


class TestColumns:
    def test_names_the_column_that_differs(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(100, 4)), rng.normal(size=(100, 4))
        y[:, 2] *= 3.0
        found = mh.two_sample_test(x, y, **FEW)
        columns = found.columns()
        assert [type(c) for c in columns] == [ColumnEffect] * 4
        assert columns[0].name == "x[2]"
        assert columns[0].pvalue == 0.01
        assert all(c.pvalue > 0.05 for c in columns[1:])
        assert columns[0].effect_size > max(c.effect_size for c in columns[1:])
        assert found.columns() == columns  # the same again

    def test_family_wise_level(self):
        """Of 12 columns without difference, some p-value is at most 0.1 in about a tenth of the cases."""
        rng = np.random.default_rng(1)
        hits = 0
        for _ in range(30):
            x, y = rng.normal(size=(20, 12)), rng.normal(size=(20, 12))
            result = mh.two_sample_test(x, y, mh.Linear(), permutations=39, random_state=rng)
            hits += min(c.pvalue for c in result.columns()) <= 0.1
        assert hits <= 9  # without adjustment about 21

    def test_of_a_table_with_a_constant(self):
        x, y = mixed(80, 0), mixed(80, 1)
        x["same"] = y["same"] = 1.0
        y["c"] = "p"
        columns = mh.two_sample_test(x, y, **FEW).columns()
        assert columns[0].name == "c"
        constant = next(c for c in columns if c.name == "same")
        assert constant.effect_size == 0.5
        assert constant.pvalue > 0.3


class TestProperties:
    @pytest.mark.parametrize("method", ["permutation", "wild"])
    def test_same_seed_same_answer(self, method):
        x, y = samples()
        a, b, c = (
            mh.two_sample_test(x, y, method=method, permutations=99, random_state=s) for s in (3, 3, 4)
        )
        assert (a.pvalue, a.statistic, a.effect_size) == (b.pvalue, b.statistic, b.effect_size)
        assert_array_equal(a.null, b.null)
        assert not np.array_equal(a.null, c.null)

    @pytest.mark.parametrize("n", [40, 600])
    def test_swapping_the_samples(self, n):
        x, y = samples(n, n - 10, shift=0.2)
        a, b = (
            mh.two_sample_test(*pair, mh.Gaussian(1.0), permutations=999, random_state=0)
            for pair in ((x, y), (y, x))
        )
        assert_allclose(a.statistic, b.statistic, rtol=1e-9 if n < 500 else 1e-4)
        assert_allclose(a.pvalue, b.pvalue, atol=0.05)
        assert_allclose(a.witness(x[:3]), -b.witness(x[:3]))

    @pytest.mark.parametrize("method", ["permutation", "wild"])
    @pytest.mark.parametrize("n", [60, 520])
    def test_units_and_origin_do_not_matter(self, method, n):
        x, y = samples(n, n, d=3, shift=0.1)
        plain = mh.two_sample_test(x, y, method=method, **FEW)
        scale, origin = np.array([1.0, 1e3, 1e-4]), np.array([5.0, -2e3, 1e-3])
        moved = mh.two_sample_test(x * scale + origin, y * scale + origin, method=method, **FEW)
        assert_allclose(moved.pvalue, plain.pvalue, atol=1e-12 if n < 500 else 0.011)
        assert_allclose(moved.statistic, plain.statistic, rtol=1e-6 if n < 500 else 1e-2)

    def test_far_from_the_origin(self):
        """Time stamps: a large offset is no difference, and hides none."""
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(520, 1)), rng.normal(size=(500, 1))
        near, far = (mh.two_sample_test(x + c, y + c, **FEW).pvalue for c in (0.0, 1.7e9))
        assert abs(near - far) < 0.05

    @pytest.mark.parametrize("kernel", [None, "median", mh.Gaussian(1.0), mh.Linear()])
    def test_the_order_of_the_rows_does_not_matter(self, kernel):
        x, y = samples()
        a = mh.two_sample_test(x, y, kernel, random_state=0)
        b = mh.two_sample_test(x[::-1], y[::-1], kernel, random_state=0)
        assert_allclose(a.mmd2, b.mmd2, rtol=1e-9)
        assert abs(a.pvalue - b.pvalue) < 0.07

    def test_range_of_pvalues(self):
        x, y = samples(30, 30)
        for permutations in (19, 99):
            apart = mh.two_sample_test(x, y + 9.0, permutations=permutations, random_state=0)
            assert apart.pvalue == 1 / (permutations + 1)
            assert len(apart.null) == permutations
            alike = mh.two_sample_test(x, x, permutations=permutations, random_state=0)
            assert 0.9 < alike.pvalue <= 1.0

    def test_not_blind_in_ten_dimensions(self):
        """A width that shrinks with the number of columns sees nothing here."""
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(100, 10)), rng.normal(size=(100, 10)) + 0.3
        for kernel in (None, "median"):
            assert mh.two_sample_test(x, y, kernel, **FEW).pvalue == 0.01

    def test_the_widths_are_not_taken_from_one_sample(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(60, 1)), 1e-3 * rng.normal(size=(60, 1))
        for pair in ((x, y), (y, x)):
            assert mh.two_sample_test(*pair, **FEW).pvalue == 0.01

    def test_constant_columns_are_ignored(self):
        x, y = samples(shift=0.15)
        plain = mh.two_sample_test(x, y, **FEW)
        more = mh.two_sample_test(*(np.c_[z, np.full(len(z), 7.1)] for z in (x, y)), **FEW)
        assert_allclose(more.pvalue, plain.pvalue, atol=1e-12)

    @pytest.mark.parametrize("kernel", [None, "median"])
    @pytest.mark.parametrize("method", ["permutation", "wild", "gamma"])
    def test_odd_shapes(self, kernel, method):
        rng = np.random.default_rng(0)
        for x, y in (
            (rng.normal(size=(2, 1)), rng.normal(size=(500, 1))),
            (rng.normal(size=(2, 1)), rng.normal(size=(2, 1))),
            (rng.normal(size=(8, 50)), rng.normal(size=(9, 50))),  # fewer rows than columns
            (rng.integers(2, size=(40, 1)), rng.integers(2, size=(50, 1))),  # ties
            (np.repeat(rng.normal(size=(3, 2)), 9, axis=0), rng.normal(size=(20, 2))),  # duplicates
            (np.r_[np.ones(29), 2.0], np.ones(30)),  # one row apart
        ):
            if method == "gamma" and (kernel is None or len(y) == 30):  # the last has no spread
                continue
            found = mh.two_sample_test(x, y, kernel, method, **FEW)
            assert 0 <= found.pvalue <= 1
            assert np.isfinite(found.null).all()
            assert np.isfinite(found.statistic)
            low, high = found.effect_interval
            assert 0 <= low <= found.effect_size <= high <= 1

    def test_two_rows_far_from_five_hundred(self):
        x, y = samples(2, 500)
        assert mh.two_sample_test(x + 9.0, y, **FEW).pvalue <= 0.02
        assert mh.two_sample_test(y, x + 9.0, **FEW).pvalue <= 0.02

    def test_a_list_of_kernels_is_aggregated(self):
        x, y = samples(100, 100, shift=0.8)
        kernels = [mh.Gaussian(1e-3), mh.Gaussian(1.0), mh.Laplace(1.0)]
        found = mh.two_sample_test(x, y, kernels, **FEW)
        assert len(found.kernels) == 3
        assert found.best in (1, 2)
        assert found.kernel is found.kernels[found.best]
        assert found.pvalue == 0.01

    def test_a_wild_bootstrap_with_memory_is_wider(self):
        """Series that remember have means of larger variance."""
        x, y = (lfilter([1.0], [1.0, -0.9], z, axis=0) for z in samples(300, 300, d=1, shift=0.0))
        short, long = (
            mh.two_sample_test(x, y, mh.Gaussian(1.0), "wild", length=l, permutations=199, random_state=0)
            for l in (1e-3, 30.0)
        )
        assert long.null.mean() > 3 * short.null.mean()

    def test_results_say_what_was_found(self):
        x, y = samples(shift=3.0)
        found = mh.two_sample_test(x, y, **FEW)
        assert str(found) == found.summary
        for word in ("The samples differ", "40 and 30 rows", "p = 0.01", "99 permutations", "kernels"):
            assert word in found.summary
        assert "No difference was found" in mh.two_sample_test(x, x, **FEW).summary
        assert "wild bootstrap" in mh.two_sample_test(x, y, method="wild", **FEW).summary
        assert "gamma" in mh.two_sample_test(x, y, method="gamma").summary


def mixed(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"a": rng.normal(size=n) + shift, "c": rng.choice(["p", "q", "r"], n), "b": 100 * rng.normal(size=n)}
    )


class TestTables:
    def test_vectors_series_frames_and_arrays_agree(self):
        x, y = (z[:, 0] for z in samples())
        expected = mh.two_sample_test(x[:, None], y[:, None], **FEW)
        for wrap in (
            lambda z: z,
            list,
            pd.Series,
            pl.Series,
            lambda z: pd.Series(z, name="a"),
            lambda z: pd.DataFrame({"a": z}),
            lambda z: pl.DataFrame({"a": z}),
        ):
            found = mh.two_sample_test(wrap(x), wrap(y), **FEW)
            assert (found.pvalue, found.statistic) == (expected.pvalue, expected.statistic)

    def test_pandas_and_polars_agree(self):
        x, y = mixed(50, 0), mixed(60, 1, 0.3)
        a = mh.two_sample_test(x, y, **FEW)
        b = mh.two_sample_test(pl.from_pandas(x), pl.from_pandas(y), **FEW)
        assert (a.pvalue, a.statistic) == (b.pvalue, b.statistic)

    def test_columns_in_another_order(self):
        x, y = mixed(50, 0), mixed(60, 1, 0.3)
        a, b = (mh.two_sample_test(x, z, **FEW) for z in (y, y[["b", "c", "a"]]))
        assert (a.pvalue, a.statistic) == (b.pvalue, b.statistic)

    def test_a_difference_in_categories_is_seen(self):
        x, y = mixed(80, 0), mixed(80, 1)
        assert mh.two_sample_test(x, y, **FEW).pvalue > 0.05
        y["c"] = np.random.default_rng(2).choice(["p", "q", "r"], 80, p=[0.8, 0.1, 0.1])
        assert mh.two_sample_test(x, y, **FEW).pvalue == 0.01
        assert mh.two_sample_test(x[["c"]], y[["c"]], **FEW).pvalue == 0.01

    def test_how_categories_go_with_numbers_is_seen(self):
        rng = np.random.default_rng(0)
        c = rng.choice(["p", "q"], 200)
        a = rng.normal(size=200)
        x = pd.DataFrame({"a": a[:100] + 2.0 * (c[:100] == "p"), "c": c[:100]})
        y = pd.DataFrame({"a": a[100:] + 2.0 * (c[100:] == "q"), "c": c[100:]})
        assert mh.two_sample_test(x, y, **FEW).pvalue == 0.01

    def test_categories_that_one_sample_lacks(self):
        x, y = mixed(80, 0), mixed(80, 1)
        y["c"] = y["c"].replace("r", "s")
        found = mh.two_sample_test(x, y, **FEW)
        assert found.pvalue == 0.01
        assert set(found.encoder.categories[1]) == {"p", "q", "r", "s"}

    def test_names_of_categories_do_not_matter(self):
        x, y = mixed(50, 0), mixed(60, 1, 0.3)
        names = {"p": "zebra", "q": "ant", "r": "cow"}
        a = mh.two_sample_test(x, y, **FEW)
        b = mh.two_sample_test(x.replace(names), y.replace(names), **FEW)
        assert_allclose([a.pvalue, a.statistic], [b.pvalue, b.statistic], rtol=1e-9)


X, Y = samples()


def spoiled(value):
    out = X.copy()
    out[3, 1] = value
    return out


class TestBadInput:
    @pytest.mark.parametrize(
        ("x", "y", "error", "message"),
        [
            (spoiled(np.nan), Y, ValueError, r"x contains NaN \(first at row 3, column 1.*Drop or impute"),
            (X, spoiled(np.inf), ValueError, r"y contains inf.*Drop or impute"),
            (X[None], Y, ValueError, r"x must be 2-dimensional.*\(1, 40, 2\)"),
            (X, Y[:, :1], ValueError, r"y has 1 columns but x has 2"),
            (X[:1], Y, ValueError, r"x has 1 sample .*at least 2"),
            (X, Y[:0], ValueError, r"y has 0 samples.*at least 2"),
            (np.ones((9, 2)), np.ones((7, 2)), ValueError, r"every row of both samples is the same"),
            (np.array(["a", "b"]), np.array(["a", "b"]), TypeError, r"x must hold numbers"),
            (
                mixed(9, 0),
                mixed(9, 0).assign(c=1.0),
                ValueError,
                r"\['c'\] hold categories in one sample and numbers.*convert",
            ),
            (
                mixed(9, 0),
                mixed(9, 0).assign(a="t"),
                ValueError,
                r"\['a'\] hold categories in one sample and numbers.*convert",
            ),
            (
                mixed(9, 0).assign(a=True),
                mixed(9, 0).assign(a="True"),
                ValueError,
                r"\['a'\].*or booleans.*'a' begins with True in x and 'True' in y.*convert",
            ),
            (mixed(9, 0), mixed(9, 0).assign(a=np.nan), ValueError, r"y\['a'\] contains NaN"),
            (
                mixed(9, 0).assign(when=pd.Timestamp("2020-01-01")),
                mixed(9, 0).assign(when=pd.Timestamp("2020-01-01")),
                TypeError,
                r"x\['when'\] must hold numbers, but holds dates.*days since a start.*df\['when'\] = ",
            ),
            (mixed(9, 0).assign(c=None), mixed(9, 0), (ValueError, TypeError), r"c"),
        ],
        ids=range(14),
    )
    def test_samples(self, x, y, error, message):
        with pytest.raises(error, match="(?s)" + message):
            mh.two_sample_test(x, y, missing="refuse", **FEW)

    def test_other_columns(self):
        """Numbers under other names are other variables."""
        x, y = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(Y, columns=["a", "c"])
        with pytest.raises(
            ValueError, match=r"different columns: \['b'\] only in x, \['c'\] only in y. Pass"
        ):
            mh.two_sample_test(x, y, **FEW)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (
                {"kernel": "gauss"},
                ValueError,
                r"kernel must be one of 'aggregate', 'median', 'learn'.*got 'gauss'",
            ),
            ({"kernel": 3}, TypeError, r"kernel must be a kernel.*got 3"),
            ({"kernel": []}, ValueError, r"kernel is an empty list: give at least one"),
            ({"kernel": [mh.Gaussian(1.0), "median"]}, TypeError, r"kernel\[1\] must be a kernel.*'median'"),
            ({"kernel": mh.Gaussian([1.0, 2.0, 3.0])}, ValueError, r"3.*2|2.*3"),
            ({"kernel": mh.Gaussian(1.0).on(5)}, (ValueError, IndexError), r"5"),
            (
                {"method": "bootstrap"},
                ValueError,
                r"method must be one of 'permutation', 'gamma', 'wild', got 'bootstrap'",
            ),
            ({"permutations": 18}, ValueError, r"permutations must be at least 19, got 18"),
            ({"permutations": 0}, ValueError, r"permutations must be at least 19, got 0"),
            ({"permutations": 99.5}, TypeError, r"permutations must be a whole number, got 99.5"),
            ({"permutations": True}, TypeError, r"permutations must be a whole number, got True"),
            (
                {"method": "gamma", "kernel": "aggregate"},
                ValueError,
                r'"gamma" takes one kernel: pass kernel="median"',
            ),
            (
                {"method": "gamma", "kernel": [mh.Linear(), mh.Gaussian(1.0)]},
                ValueError,
                r'"gamma" takes one kernel',
            ),
            ({"method": "wild", "length": -1.0}, ValueError, r"length must be positive.*got -1.0"),
            ({"method": "wild", "length": "long"}, TypeError, r"length must be a number, got 'long'"),
            ({"random_state": "seed"}, ValueError, r"random_state must be None.*got 'seed'"),
            ({"kernel": mh.Delta(), "representation": mh.Fourier(50)}, mh.NoClosedForm, r"Delta"),
            ({"representation": "fourier"}, (ValueError, TypeError), r"representation.*'fourier'"),
        ],
        ids=range(18),
    )
    def test_arguments(self, arguments, error, message):
        with pytest.raises(error, match="(?s)" + message):
            mh.two_sample_test(X, Y, **arguments)
