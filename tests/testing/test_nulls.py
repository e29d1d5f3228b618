"""Permutations, multipliers and moments: against enumeration, formulas and dense matrices."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare, gamma

import muhat as mh
from muhat.testing.forms import quadratic_forms
from muhat.testing.hadamard import cross_moments, hadamard_forms
from muhat.testing.nulls import (
    Moments,
    centred_multipliers,
    gamma_null,
    label_permutations,
    memory_length,
    permutation_mean_variance,
    permutation_pvalue,
    row_permutations,
    wild_multipliers,
)


def centred(K):
    H = np.eye(len(K)) - 1 / len(K)
    return H @ K @ H


def gram(n, seed, d=2, kernel=None):
    Z = np.random.default_rng(seed).normal(size=(n, d))
    return (mh.Gaussian(0.8) + mh.Linear(0.5) if kernel is None else kernel)(Z)


def moments(K):
    diag = np.diag(K)
    off = K - np.diag(diag)
    return Moments.of_sums(diag, off.sum(axis=1), float((off**2).sum()))


class TestPermutations:
    def test_labels(self):
        L = label_permutations(3, 5, 200, np.random.default_rng(0))
        assert L.shape == (201, 8)
        assert_array_equal(L[0], [True] * 3 + [False] * 5)
        assert_array_equal(L.sum(axis=1), 3)

    def test_all_labels_are_equally_likely(self):
        L = label_permutations(2, 3, 5000, np.random.default_rng(1))[1:]
        _, counts = np.unique(L @ (1 << np.arange(5)), return_counts=True)
        assert len(counts) == 10
        assert chisquare(counts).pvalue > 1e-3

    def test_many_rows_go_in_blocks(self):
        L = label_permutations(3000, 5000, 60, np.random.default_rng(0))
        assert_array_equal(L.sum(axis=1), 3000)
        # Rows are drawn apart: two share 3000²/8000 = 1125 members, give or take 25.
        assert (
            np.abs((L[1:].astype(float) @ L[1:].T.astype(float))[~np.eye(60, dtype=bool)] - 1125).max() < 160
        )

    def test_orders(self):
        P = row_permutations(4, 4800, np.random.default_rng(2))
        assert_array_equal(P[0], np.arange(4))
        assert_array_equal(np.sort(P, axis=1), np.tile(np.arange(4), (4801, 1)))
        _, counts = np.unique(P[1:] @ 4 ** np.arange(4), return_counts=True)
        assert len(counts) == 24
        assert chisquare(counts).pvalue > 1e-3


class TestPvalue:
    def test_counts_the_observed_among_the_others(self):
        assert permutation_pvalue(np.array([3.0, 1.0, 2.0, 4.0])) == 2 / 4
        assert permutation_pvalue(np.array([9.0, 1.0, 2.0, 4.0])) == 1 / 4
        assert permutation_pvalue(np.array([0.0, 1.0, 2.0, 4.0])) == 1.0

    def test_ties_count_whatever_rounding_did(self):
        assert permutation_pvalue(np.array([1.0, 1.0 - 1e-13, 0.0, 0.5])) == 2 / 4
        assert permutation_pvalue(np.full(20, 0.1)) == 1.0
        # ... but values that truly differ do not.
        assert permutation_pvalue(np.array([1.0, 1.0 - 1e-4, 0.0, 0.5])) == 1 / 4
        assert permutation_pvalue(1e-12 * np.array([1.0, 0.9, 0.0, 0.5])) == 1 / 4


class TestMultipliers:
    @pytest.mark.parametrize("length", [0.0, 1.5, 8.0])
    def test_covariance(self, length):
        W = wild_multipliers(12, 40_000, length, np.random.default_rng(0))
        t = np.arange(12)
        lag = np.abs(t - t[:, None])
        expected = np.exp(-lag / length) if length else np.eye(12)
        assert_allclose(W.T @ W / len(W), expected, atol=0.035)
        assert_allclose(W.mean(axis=0), 0.0, atol=0.025)

    @pytest.mark.parametrize("factors", [1, 2])
    @pytest.mark.parametrize("a", [0.0, 0.3, 0.6])
    def test_quadratic_forms_of_a_series_keep_their_mean(self, a, factors):
        """Σ wᵢwⱼ aᵗ is, on average, n times the long-run variance (1 + a)/(1 − a) of the series."""
        n, r = 200, a**factors
        length = 6 * 2 * a / (1 - a)
        W = centred_multipliers(n, 20_000, length, np.random.default_rng(0), factors)
        assert_allclose(W.mean(axis=1), 0.0, atol=1e-12)
        t = np.arange(n)
        C = r ** np.abs(t - t[:, None]) if r else np.eye(n)
        assert_allclose(((W @ C) * W).sum(axis=1).mean(), n * (1 + r) / (1 - r), rtol=0.05)

    @pytest.mark.parametrize("a", [0.5, 0.8])
    def test_memory_of_an_autoregression(self, a):
        # Six times 2 Σ aᵗ = 2a/(1−a).
        found = np.mean([memory_length(np.c_[autoregression(4000, a, s), white(4000, s)]) for s in range(10)])
        assert_allclose(found, 6 * 2 * a / (1 - a), rtol=0.15)
        assert memory_length(autoregression(50, 0.95, 0)[:, None]) <= 10

    def test_no_memory(self):
        lengths = [memory_length(white(400, s)[:, None]) for s in range(200)]
        assert np.mean(np.array(lengths) > 0) < 0.08
        assert memory_length(np.ones((50, 2))) == 0.0

    def test_memory_has_no_units(self):
        z = autoregression(500, 0.7, 0)[:, None]
        assert_allclose(memory_length(1e3 * z + 1e4), memory_length(z), rtol=1e-9)


def white(n, seed):
    return np.random.default_rng([1, seed]).normal(size=n)


def autoregression(n, a, seed):
    e, out = white(n + 100, seed), np.zeros(n + 100)
    for t in range(1, n + 100):
        out[t] = a * out[t - 1] + e[t]
    return out[100:]


class TestMoments:
    @pytest.mark.parametrize("n", [4, 7, 40])
    def test_of_sums(self, n):
        K = gram(n, 0)
        A = centred(K)
        found = moments(K)
        assert found.n == n
        assert_allclose(
            [found.trace, found.square, found.diagonal],
            [np.trace(A), (A**2).sum(), (np.diag(A) ** 2).sum()],
            rtol=1e-10,
        )

    @pytest.mark.parametrize(("n", "m"), [(2, 2), (2, 5), (30, 7)])
    def test_of_labels(self, n, m):
        h = (np.arange(n + m) < n) - n / (n + m)
        A = np.outer(h, h)
        found = Moments.of_labels(n, m)
        assert_allclose(
            [found.n, found.trace, found.square, found.diagonal],
            [n + m, np.trace(A), (A**2).sum(), (np.diag(A) ** 2).sum()],
            rtol=1e-12,
        )

    @pytest.mark.parametrize("n", [4, 5, 6])
    def test_mean_and_variance_over_all_permutations(self, n):
        K, L = gram(n, 1), gram(n, 2, kernel=mh.Laplace(1.0))
        A, B = centred(K), centred(L)
        every = np.array([(A * B[np.ix_(p, p)]).sum() for p in itertools.permutations(range(n))])
        mean, variance = permutation_mean_variance(moments(K), moments(L))
        assert_allclose(mean, every.mean(), rtol=1e-10)
        assert_allclose(variance, every.var(), rtol=1e-8)

    def test_mean_and_variance_over_all_labels(self):
        n, m = 2, 4
        K = gram(6, 3)
        every = []
        for chosen in itertools.combinations(range(6), n):
            h = np.isin(np.arange(6), chosen) - n / (n + m)
            every.append(h @ K @ h)
        mean, variance = permutation_mean_variance(moments(K), Moments.of_labels(n, m))
        assert_allclose(mean, np.mean(every), rtol=1e-10)
        assert_allclose(variance, np.var(every), rtol=1e-8)

    def test_too_few_rows(self):
        with pytest.raises(ValueError, match=r"at least 4 rows, got 3: use permutations"):
            permutation_mean_variance(moments(gram(3, 0)), moments(gram(3, 1)))

    def test_moments_from_forms(self):
        Z = np.random.default_rng(0).normal(size=(50, 2))
        forms = quadratic_forms([mh.Gaussian(0.7)], Z, np.zeros((1, 50)))
        found = Moments.of_sums(forms.diagonals[0], forms.rows[0], float(forms.squares[0]))
        expected = moments(mh.Gaussian(0.7)(Z))
        assert_allclose([found.trace, found.square], [expected.trace, expected.square], rtol=1e-10)


class TestGamma:
    def test_has_the_moments(self):
        shape, scale, quantiles = gamma_null(0.3, 0.02, 4000)
        assert_allclose([shape * scale, shape * scale**2], [0.3, 0.02])
        assert_allclose([quantiles.mean(), quantiles.var()], [0.3, 0.02], rtol=2e-2)
        assert_allclose(gamma.sf(quantiles[2000], shape, scale=scale), 0.5, atol=1e-3)

    @pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (np.nan, 1.0)])
    def test_undefined(self, mean, variance):
        with pytest.raises(ValueError, match=r'gamma approximation is undefined.*method="permutation"'):
            gamma_null(mean, variance)


class TestHadamard:
    @pytest.mark.parametrize("n", [4, 255, 256, 300, 700])
    def test_cross_moments(self, n):
        rng = np.random.default_rng(n)
        X, Y = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
        kernel_x, kernel_y = mh.Gaussian(0.8), mh.Laplace(0.5) + mh.Linear()
        K, L = kernel_x(X), kernel_y(Y)
        value, a, b = cross_moments(kernel_x, kernel_y, X, Y)
        assert_allclose(value, np.sum(centred(K) * L), rtol=1e-9)
        for found, M in ((a, K), (b, L)):
            assert_allclose(
                [found.trace, found.square, found.diagonal],
                [np.trace(centred(M)), (centred(M) ** 2).sum(), (np.diag(centred(M)) ** 2).sum()],
                rtol=1e-9,
            )

    def test_cross_moments_far_from_the_origin(self):
        rng = np.random.default_rng(0)
        X, Y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
        near = cross_moments(mh.Linear(), mh.Linear(), X, Y)
        far = cross_moments(mh.Linear(), mh.Linear(), X + 1e4, Y - 1e4)
        assert_allclose(far[0], near[0], rtol=1e-3)
        assert_allclose([far[1].square, far[2].square], [near[1].square, near[2].square], rtol=1e-3)

    @pytest.mark.parametrize("n", [5, 300, 600])
    def test_weighted_products(self, n):
        rng = np.random.default_rng(n)
        X, Y, W = rng.normal(size=(n, 2)), rng.normal(size=(n, 1)), rng.normal(size=(3, n))
        M = centred(mh.Gaussian(0.8)(X)) * centred(mh.Laplace(0.5)(Y))
        found = hadamard_forms(mh.Gaussian(0.8), mh.Laplace(0.5), X, Y, W)
        assert_allclose(found, np.einsum("bi,ij,bj->b", W, M, W, optimize=True), rtol=1e-8, atol=1e-8)


def test_numbers_whose_squares_vanish_have_no_memory():
    assert memory_length(1e-200 * autoregression(100, 0.9, 0)[:, None]) == 0
