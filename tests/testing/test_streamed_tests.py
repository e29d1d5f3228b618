"""Tests on rows that are read in blocks: brute force, where the rows are cut, level and power."""

from functools import partial
from typing import ClassVar

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import muhat as mh
from muhat.engine import sample_indices, sample_rows
from muhat.testing import independence, samples, streamed, two_sample
from muhat.testing.forms import Bins, binned_mmd
from muhat.testing.nulls import label_permutations
from muhat.testing.samples import apart, pooled
from muhat.testing.streamed import Components, bin_size, row_features, sample_sums, signed_sums

FEW = {"permutations": 99, "random_state": 3}
SMALL = 400


@pytest.fixture
def small_sample(monkeypatch):
    """Choices are made from 400 rows, as they are from 20 000."""
    for module in (two_sample, independence):
        monkeypatch.setattr(module, "sample_indices", partial(sample_indices, size=SMALL))
        monkeypatch.setattr(module, "sample_rows", partial(sample_rows, size=SMALL))
    for module in (samples, streamed, independence):
        monkeypatch.setattr(module, "SAMPLE", SMALL)


def blocks(A, *sizes):
    """A generator of blocks of these sizes, again and again."""

    def make():
        start, k = 0, 0
        while start < len(A):
            yield A[start : start + sizes[k % len(sizes)]]
            start, k = start + sizes[k % len(sizes)], k + 1

    return make


def sources(A, tmp_path, name):
    """The same rows as other things."""
    np.save(tmp_path / f"{name}.npy", A)
    return {
        "path": tmp_path / f"{name}.npy",
        "memory map": np.load(tmp_path / f"{name}.npy", mmap_mode="r"),
        "generator": mh.open_rows(blocks(A, 37, 1, 200, 5)),
        "dask": da.from_array(A, chunks=(130, A.shape[1])),
    }


KINDS = ("path", "memory map", "generator", "dask")


def two_samples(n=700, m=900, d=2, shift=0.2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(m, d)) + shift


def pairs(n=1000, seed=0, strength=0.3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, strength * x[:, :1] ** 2 + rng.normal(size=(n, 1))


class TestBins:
    def test_every_row_has_a_bin(self):
        bins = Bins.draw(23, 31, 5, np.random.default_rng(0))
        assert bins.counts == (4, 6)
        assert_array_equal(np.bincount(bins.labels[0]), [5, 5, 5, 5, 3])
        assert_array_equal(np.bincount(bins.labels[1]), [5, 5, 5, 5, 5, 5, 1])

    @pytest.mark.parametrize(
        ("n", "m", "size"),
        [
            (5000, 6000, 2),
            (1_000_000, 1_000_000, 1953),
            (1_000_000, 1000, 61),
            (30_000, 50, 1),
            (30_000, 640, 10),
        ],
    )
    def test_the_smaller_sample_has_bins_to_move(self, n, m, size):
        assert bin_size(n, m) == size

    @pytest.mark.parametrize("biased", [False, True])
    @pytest.mark.parametrize("kernel", ["fourier", "nystrom"])
    def test_mmd_by_moving_the_rows(self, kernel, biased):
        x, y = two_samples(43, 57)
        represent = mh.Fourier(20) if kernel == "fourier" else mh.Nystrom(10)
        k = represent.fit(mh.Gaussian(1.0), np.concatenate([x, y]), 0)
        bins = Bins.draw(43, 57, 5, np.random.default_rng(1))
        members = label_permutations(*bins.counts, 7, np.random.default_rng(2))
        centre = np.array([0.3, -0.2])
        sums = [sample_sums([k], S, bins, i, centre, "x") for i, S in enumerate((x, y))]
        found = binned_mmd(sums[0].bins[0], sums[1].bins[0], members, 43, 57, biased)
        # Bins of x, then of y; the rows left over stay.
        of_x = np.append(np.arange(8), -1)[bins.labels[0]]
        of_y = np.append(8 + np.arange(11), -2)[bins.labels[1]]
        bin_of, Z = np.concatenate([of_x, of_y]), np.concatenate([x, y])
        for value, first in zip(found, members, strict=True):
            inside = np.isin(bin_of, np.flatnonzero(first)) | (bin_of == -1)
            a, b = k.features(Z[inside]), k.features(Z[~inside])
            assert len(a) == 43
            expected = ((a.mean(axis=0) - b.mean(axis=0)) ** 2).sum()
            if not biased:
                K, L = a @ a.T, b @ b.T
                expected = (K.sum() - np.trace(K)) / (43 * 42) + (L.sum() - np.trace(L)) / (57 * 56)
                expected -= 2 * (a @ b.T).mean()
            assert_allclose(value, expected, rtol=1e-10, atol=1e-14)

    def test_features_about_a_centre_in_single_precision(self):
        x, _ = two_samples(50)
        k = mh.Fourier(64).fit(mh.Gaussian(1.0), x, 0)
        far = 1e6 + x
        expected = k.features(x)
        Phi = row_features(k, far, np.full(2, 1e6), single=True)
        assert Phi.dtype == np.float32
        assert_allclose(Phi, expected, atol=1e-6)


@pytest.mark.usefixtures("small_sample")
class TestTwoSamples:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("represent", [None, mh.Nystrom(20)], ids=["default", "nystrom"])
    def test_the_same_as_in_memory(self, kind, represent, tmp_path):
        x, y = two_samples()
        represent = mh.Fourier(32) if represent is None else represent
        options = {"representation": represent, **FEW}
        expected = mh.two_sample_test(x, y, **options)
        found = mh.two_sample_test(
            sources(x, tmp_path, "x")[kind], sources(y, tmp_path, "y")[kind], **options
        )
        assert found.pvalue == expected.pvalue
        assert found.rows == expected.rows == (700, 900)
        for name in ("statistic", "mmd2", "effect_size", "null", "x", "y"):
            assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-8, atol=1e-10)
        points = x[:5]
        assert_allclose(found.witness(points), expected.witness(points), rtol=1e-7, atol=1e-10)
        assert found.columns(49) == expected.columns(49)

    def test_default_has_features(self):
        x, y = two_samples(120, 150)
        found = mh.two_sample_test(mh.open_rows(x), y, **FEW)
        assert {type(k).__name__ for k in found.kernels} == {"FourierKernel", "NystromKernel"}
        assert found.pvalue == mh.two_sample_test(x, y, representation=mh.Fourier(512), **FEW).pvalue

    def test_two_passes_and_what_is_kept(self):
        x, y = two_samples()
        X, Y = mh.open_rows(x), mh.open_rows(y)
        found = mh.two_sample_test(X, Y, "median", representation=mh.Fourier(64), **FEW)
        assert X.passes == Y.passes == 2
        assert len(found.x) == len(found.y) == SMALL
        assert "(700 and 900 rows;" in found.summary
        mu, nu = found.embeddings
        # Of all rows, not of those that are kept.
        assert_allclose(mu.mean(), x.mean(axis=0), rtol=1e-10)
        assert_allclose(nu.cov(), np.cov(y.T, bias=True), rtol=1e-10)
        phi = found.kernel.features
        expected = phi(x[:9]) @ (phi(x).mean(axis=0) - phi(y).mean(axis=0))
        assert_allclose(found.witness(x[:9]), expected, rtol=1e-4, atol=1e-7)
        found.plot()

    def test_a_difference_is_found(self):
        x, y = two_samples(shift=0.5)
        assert mh.two_sample_test(mh.open_rows(x), y, representation=mh.Fourier(32), **FEW).pvalue == 0.01

    def test_frames_beside_streams(self):
        x, y = two_samples(60, 70)
        frame = pd.DataFrame(y, columns=["a", "b"])
        found = mh.two_sample_test(mh.open_rows(x), frame, representation=mh.Fourier(32), **FEW)
        assert found.encoder.names == ["a", "b"]
        assert found.pvalue == mh.two_sample_test(x, y, representation=mh.Fourier(32), **FEW).pvalue


class TestChoices:
    def test_pooled_is_all_of_few(self):
        x, y = two_samples(10, 12)
        assert_array_equal(pooled(x, y, 10, 12, np.random.default_rng(0)), np.concatenate([x, y]))

    def test_pooled_takes_what_chance_gives_of_each(self, small_sample):
        x, y = np.zeros((SMALL, 1)), np.ones((SMALL, 1))
        rng = np.random.default_rng(0)
        shares = np.array([pooled(x, y, 1000, 3000, rng).sum() for _ in range(300)])
        # Hypergeometric: 400 of 1000 + 3000
        assert abs(shares.mean() - 300) < 3
        assert abs(shares.std() - np.sqrt(400 * 0.75 * 0.25 * 3600 / 3999)) < 1

    def test_apart_shares_as_many_as_two_draws_would(self):
        index = np.arange(400)[:, None]
        rng = np.random.default_rng(0)
        shared = []
        for _ in range(300):
            a, b = apart(index, index, 1000, rng)
            assert len(np.unique(a)) == len(np.unique(b)) == 200
            shared.append(len(np.intersect1d(a, b)))
        assert abs(np.mean(shared) - 40) < 1.5
        assert apart(index, index, 400, rng) == (index, index)


def components(Z, *kernels, rank=96):
    return Components.fit([mh.Nystrom(12, "uniform").fit(k, Z, 0) for k in kernels], Z, rank)


class TestSigns:
    def test_components_are_the_centred_kernels(self):
        x, _ = pairs(60)
        part = components(x, mh.Gaussian(1.0), mh.Linear())
        U = part(x)
        assert_allclose(U.mean(axis=0), 0, atol=1e-10)
        for kernel, M in zip(part.kernels, part.metrics, strict=True):
            Phi = kernel.features(x) - kernel.features(x).mean(axis=0)
            scale = np.trace(Phi @ Phi.T) / len(x)
            assert_allclose(U @ M @ U.T, Phi @ Phi.T, atol=0.02 * scale)  # the tolerance leaves 1e-4 out

    def test_a_kernel_that_does_not_vary_sees_nothing(self):
        x, _ = pairs(60)
        part = components(x, mh.Gaussian(1e9), mh.Gaussian(1.0))
        assert_array_equal(part.metrics[0], 0)
        assert part.metrics[1].any()
        found = mh.independence_test(mh.open_rows(x), x, mh.Gaussian(1e9), mh.Gaussian(1e9), **FEW)
        assert found.pvalue == 1
        assert found.effect_size == 0

    @pytest.mark.parametrize("n", [16, 83, 120])
    def test_statistics_by_signs_of_the_rows(self, n):
        x, y = pairs(n)
        left, right = components(x, mh.Gaussian(1.0), mh.Linear()), components(y, mh.Gaussian(0.7))
        seed, bins = 1 << 50, 7
        sums = signed_sums(x, y, left, right, seed, bins)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (9, bins))
        signs[0] = 1
        found = sums.signed(signs)
        U, V = left(x) - left(x).mean(axis=0), right(y) - right(y).mean(axis=0)
        label = (streamed.row_keys(seed, seed + n) * bins).astype(int)
        for b, drawn in enumerate(signs):
            C = U.T @ (drawn[label, None] * V)
            for k, M in enumerate(left.metrics):
                assert_allclose(found[k, b], np.trace(M @ C @ right.metrics[0] @ C.T), rtol=1e-9)

    def test_draws_in_parts_are_the_draws(self, monkeypatch):
        x, y = pairs(60)
        sums = signed_sums(x, y, components(x, mh.Linear()), components(y, mh.Linear()), 1 << 50, 5)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (10, 5))
        whole = sums.signed(signs)
        monkeypatch.setattr(streamed, "DRAWN", 3)
        assert_allclose(sums.signed(signs), whole, rtol=1e-12)

    @pytest.mark.parametrize("kind", KINDS)
    def test_where_the_rows_are_cut_does_not_matter(self, kind, tmp_path):
        x, y = pairs(1003)
        left, right = components(x, mh.Gaussian(1.0)), components(y, mh.Gaussian(0.7))
        whole = signed_sums(x, y, left, right, 1 << 50)
        if kind == "generator":
            X, Y = mh.open_rows(blocks(x, 1, 3, 16, 7, 40, 2)), y
        else:
            X, Y = sources(x, tmp_path, "x")[kind], sources(y, tmp_path, "y")[kind]
        found = signed_sums(mh.open_rows(X), mh.open_rows(Y) if Y is not y else Y, left, right, 1 << 50)
        assert found.n == whole.n == 1003
        for a, b in zip(
            (found.products, *found.covariances), (whole.products, *whole.covariances), strict=True
        ):
            assert_allclose(a, b, rtol=1e-9, atol=1e-9)

    def test_moments_are_those_of_the_centred_grams(self):
        x, y = pairs(90)
        left, right = components(x, mh.Gaussian(1.0)), components(y, mh.Gaussian(0.7))
        sums = signed_sums(x, y, left, right, 1 << 50)
        a, b = sums.moments(0, 0)
        for found, part, Z in ((a, left, x), (b, right, y)):
            U = part(Z) - part(Z).mean(axis=0)
            A = U @ part.metrics[0] @ U.T
            assert_allclose([found.trace, found.square], [np.trace(A), (A**2).sum()], rtol=1e-9)
        loss = sums.truncation(0, 0, x, y)
        assert abs(loss) < 1e-3 * sums.signed(np.ones((1, streamed.SIGN_BINS)))[0, 0] / 90**2


@pytest.mark.usefixtures("small_sample")
class TestDependence:
    OPTIONS: ClassVar = {"representation": mh.Nystrom(20), **FEW}

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_same_as_in_memory(self, kind, tmp_path):
        x, y = pairs()
        expected = mh.independence_test(x, y, **self.OPTIONS)
        found = mh.independence_test(
            sources(x, tmp_path, "x")[kind], sources(y, tmp_path, "y")[kind], **self.OPTIONS
        )
        assert found.pvalue == expected.pvalue
        assert found.rows == expected.rows == 1000
        for name in ("statistic", "hsic", "error", "effect_size", "null", "x", "y"):
            assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-8, atol=1e-10)
        assert_allclose(found.witness(x[:5], y[:5]), expected.witness(x[:5], y[:5]), rtol=1e-8, atol=1e-12)
        assert found.columns(49) == expected.columns(49)

    def test_sorted_rows_hide_nothing(self):
        """A table sorted by x, where rows near each other are alike."""
        x, y = pairs()
        order = np.argsort(x[:, 0])
        for a, b in ((x[order], y[order]), (mh.open_rows(x[order]), y[order])):
            assert mh.independence_test(a, b, **FEW).pvalue == 1 / (1 + FEW["permutations"])

    def test_none_takes_landmarks(self):
        x, y = pairs()
        found = mh.independence_test(x, y, **FEW)
        assert {type(k).__name__ for pair in found.kernels for k in pair} == {"NystromKernel"}
        assert found.pvalue == mh.independence_test(mh.open_rows(x), y, **FEW).pvalue == 0.01

    def test_exact_kernels_are_still_to_be_had(self):
        x, y = pairs(SMALL + 50)
        found = mh.independence_test(
            x, y, mh.Gaussian(1.0), mh.Gaussian(1.0), representation=mh.Exact(), **FEW
        )
        K, L = (independence.centred_gram(mh.Gaussian(1.0), Z) for Z in (x, y))
        assert_allclose(found.hsic, (K * L).sum() / len(x) ** 2, rtol=1e-9)
        assert len(found.x) == len(x)

    def test_two_passes_and_what_is_kept(self):
        x, y = pairs()
        X, Y = mh.open_rows(x), mh.open_rows(y)
        kernels = mh.Gaussian(1.0), mh.Gaussian(1.0)
        found = mh.independence_test(X, Y, *kernels, **self.OPTIONS)
        assert X.passes == Y.passes == 2
        assert len(found.x) == len(found.y) == SMALL
        assert "(1000 rows;" in found.summary
        # 20 landmarks in two dimensions leave little out.
        K, L = (independence.centred_gram(k, Z) for k, Z in zip(kernels, (x, y), strict=True))
        assert_allclose(found.hsic, (K * L).sum() / len(x) ** 2, rtol=0.05)
        assert found.statistic == found.hsic
        whole = mh.independence_test(x, y, *kernels, representation=mh.Exact(), **FEW)
        assert_allclose(found.effect_size, whole.effect_size, rtol=0.1)
        found.plot()


class TestBeyondTheSample:
    """More rows than choices are made from, with nothing replaced."""

    def test_two_samples(self):
        x, y = two_samples(21_000, 5_000, 1)
        options = {"kernel": "median", "representation": mh.Fourier(16), **FEW}
        expected = mh.two_sample_test(x, y, **options)
        found = mh.two_sample_test(
            mh.open_rows(blocks(x, 7001)), da.from_array(y, chunks=(999, 1)), **options
        )
        assert (len(found.x), len(found.y)) == (20_000, 5_000)
        assert_allclose(found.null, expected.null, rtol=1e-7, atol=1e-12)
        assert (found.pvalue, found.effect_size) == (expected.pvalue, expected.effect_size)

    def test_dependence(self):
        x, y = pairs(21_000, strength=0.02)
        options = {"kernel_x": "median", "kernel_y": "median", "representation": mh.Nystrom(16), **FEW}
        expected = mh.independence_test(x, y, **options)
        found = mh.independence_test(mh.open_rows(blocks(x, 7001)), y, **options)
        assert len(found.x) == len(expected.x) == 20_000
        assert_allclose(found.null, expected.null, rtol=1e-8)
        assert found.pvalue == expected.pvalue
        assert_allclose(found.effect_size, expected.effect_size, rtol=1e-6)


class TestRefused:
    @pytest.mark.parametrize("method", ["gamma", "wild"])
    @pytest.mark.parametrize("test", [mh.two_sample_test, mh.independence_test])
    def test_other_nulls(self, test, method):
        x, _ = pairs(50)
        with pytest.raises(ValueError, match=f"method='{method}' needs all rows in memory"):
            test(mh.open_rows(x), x, method=method)

    @pytest.mark.parametrize("test", [mh.two_sample_test, mh.independence_test])
    def test_exact_kernels(self, test):
        x, _ = pairs(50)
        with pytest.raises(ValueError, match="representation is exact, which needs all rows in memory"):
            test(mh.open_rows(x), x, representation=mh.Exact())

    def test_other_columns(self):
        x, y = pairs(50)
        with pytest.raises(ValueError, match="columns"):
            mh.two_sample_test(mh.open_rows(x), y)
        a, b = mh.open_rows(x), pd.DataFrame(x, columns=["a", "b"])
        a.names = ["b", "a"]
        with pytest.raises(ValueError, match="open the same columns in the same order"):
            mh.two_sample_test(a, b)

    def test_categories_beside_a_stream(self):
        x, _ = pairs(50)
        table = pd.DataFrame({"a": ["p", "q"] * 25, "b": x[:, 1]})
        with pytest.raises(TypeError, match="y has categories"):
            mh.two_sample_test(mh.open_rows(x), table)

    def test_too_few_rows(self):
        x, y = pairs(15)
        with pytest.raises(ValueError, match="x has 15 rows, but at least 16 are needed"):
            mh.independence_test(mh.open_rows(x), y)
        with pytest.raises(ValueError, match="y has 1 rows, but at least 2 are needed"):
            mh.two_sample_test(mh.open_rows(x), x[:1])

    def test_rows_that_are_no_pairs(self):
        x, y = pairs(50)
        with pytest.raises(ValueError, match="x has 50 rows but y has 49"):
            mh.independence_test(mh.open_rows(x), y[1:])

    @pytest.mark.parametrize("test", [mh.two_sample_test, mh.independence_test])
    def test_missing_numbers_and_constants(self, test):
        x, _ = pairs(50)
        bad = x.copy()
        bad[40, 0] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            test(mh.open_rows(blocks(bad, 20)), x)
        with pytest.raises(ValueError, match="is the same"):
            test(mh.open_rows(np.ones((50, 2))), np.ones((50, 2)))


@pytest.mark.statistics
class TestStatistics:
    """Where there is nothing to find, 5% are rejected; where there is, as many as in memory."""

    RUNS, BAND = 200, (0.01, 0.105)  # 99.7% of binomial rates

    @staticmethod
    def draw(rng, kind, n):
        if kind == 0:
            return rng.normal(size=(n, 1))
        if kind == 1:
            return rng.standard_t(1.5, size=(n, 2))
        return rng.poisson(1.0, size=(n, 1)).astype(float)

    def rate(self, pvalue):
        rng = np.random.default_rng(0)
        rate = float(np.mean([pvalue(rng, i % 3) <= 0.05 for i in range(self.RUNS)]))
        print(f"level {rate:.4f} over {self.RUNS}", flush=True)
        return rate

    def test_level_of_two_samples(self, small_sample):
        def pvalue(rng, kind):
            x, y = self.draw(rng, kind, 500), self.draw(rng, kind, 300)
            options = {
                "representation": mh.Fourier(32),
                "permutations": 99,
                "random_state": rng.integers(1 << 30),
            }
            found = mh.two_sample_test(x, y, **options).pvalue
            if kind == 0:  # a third of the runs is enough for this
                assert mh.two_sample_test(mh.open_rows(x), y, **options).pvalue == found
            return found

        assert self.BAND[0] <= self.rate(pvalue) <= self.BAND[1]

    @pytest.mark.parametrize("n", [100, 600], ids=["all rows chosen from", "some rows chosen from"])
    def test_level_of_dependence(self, n, small_sample):
        def pvalue(rng, kind):
            x, y = self.draw(rng, kind, n), self.draw(rng, (kind + 1) % 3, n)
            options = {
                "representation": mh.Nystrom(30),
                "permutations": 99,
                "random_state": rng.integers(1 << 30),
            }
            found = mh.independence_test(mh.open_rows(x), y, **options).pvalue
            if n > SMALL:
                assert mh.independence_test(x, y, **options).pvalue == found
            return found

        assert self.BAND[0] <= self.rate(pvalue) <= self.BAND[1]

    def test_power_of_dependence(self):
        found = []
        for seed in range(40):
            rng = np.random.default_rng(seed)
            x = rng.normal(size=(2000, 1))
            y = 0.06 * x + rng.normal(size=(2000, 1))
            options = {"permutations": 99, "random_state": seed}
            found.append([mh.independence_test(X, y, **options).pvalue <= 0.05 for X in (x, mh.open_rows(x))])
        memory, stream = np.mean(found, axis=0)
        print(f"power {memory:.2f} in memory, {stream:.2f} in blocks", flush=True)
        assert 0.3 < memory < 0.95
        assert abs(memory - stream) <= 0.11
