"""What is read off an embedding: expectations, moments, quantiles, histograms, probability weights."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.embedding.simplex import project_simplex


def rows(n, d=2, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def signed(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


def embedding(n=12, d=2, weights=None):
    return mh.embed(rows(n, d), mh.Gaussian(1.0), weights=weights)


class TestExpect:
    @pytest.mark.parametrize("batch", [(), (3,)])
    def test_functions_and_arrays_of_values(self, batch):
        mu = embedding(weights=signed(*batch, 12))
        X, W = mu.points, mu.weights
        scalar = np.array([np.sin(x[0]) + x[1] for x in X])
        several = np.array([[x[0] * x[1], x[0] ** 2, 1.0] for x in X])
        assert_allclose(mu.expect(lambda z: np.sin(z[:, 0]) + z[:, 1]), W @ scalar, rtol=1e-12)
        assert_allclose(mu.expect(scalar), W @ scalar, rtol=1e-12)
        assert_allclose(
            mu.expect(lambda z: np.stack([z[:, 0] * z[:, 1], z[:, 0] ** 2, np.ones(len(z))], axis=1)),
            W @ several,
            rtol=1e-12,
        )
        assert mu.expect(several).shape == (*batch, 3)
        assert mu.expect(list(scalar)).shape == batch

    def test_indicator_is_a_probability(self):
        mu = embedding()
        assert_allclose(mu.expect(lambda z: z[:, 0] > 0), np.mean(mu.points[:, 0] > 0), rtol=1e-12)

    def test_expectation_of_a_function_of_the_rkhs_is_an_inner_product(self):
        mu, f = embedding(), mh.embed(rows(5, seed=4), mh.Gaussian(1.0), weights=signed(5))
        assert_allclose(mu.expect(f), mu.inner(f), rtol=1e-12)


class TestMoments:
    @pytest.mark.parametrize("d", [1, 3])
    def test_uniform_weights_are_numpy(self, d):
        mu = embedding(d=d)
        assert_allclose(mu.mean(), mu.points.mean(axis=0), rtol=1e-12, atol=1e-14)
        assert_allclose(mu.cov(), np.cov(mu.points.T, bias=True).reshape(d, d), rtol=1e-12, atol=1e-14)

    def test_probability_weights_are_numpy(self):
        w = np.random.default_rng(3).dirichlet(np.ones(12))
        mu = embedding(weights=w)
        assert_allclose(mu.mean(), np.average(mu.points, axis=0, weights=w), rtol=1e-12)
        assert_allclose(mu.cov(), np.cov(mu.points.T, aweights=w, bias=True), rtol=1e-11)

    @pytest.mark.parametrize("batch", [(), (4,)])
    def test_signed_unnormalised_weights_are_taken_as_they_are(self, batch):
        W = signed(*batch, 12) + 0.3
        mu = embedding(weights=W)
        Z = mu.points + 0.0
        first = W @ Z
        second = np.einsum("...i,ij,ik->...jk", W, Z, Z)
        assert_allclose(mu.mean(), first, rtol=1e-12)
        expected = second - first[..., :, None] * first[..., None, :]
        assert_allclose(mu.cov(), expected, rtol=1e-11, atol=1e-12)
        assert mu.cov().shape == (*batch, 2, 2)

    @pytest.mark.parametrize("n", [10, 999, 1000, 10_000])
    def test_a_large_offset_keeps_precision(self, n):
        X = np.round(rows(n) * 2**20) / 2**20  # X + 1e6 is then exact
        mu = mh.embed(X + 1e6, mh.Gaussian(1.0))
        assert_allclose(mu.cov(), np.cov(X.T, bias=True), rtol=1e-9, atol=1e-9)
        w = np.random.default_rng(3).dirichlet(np.ones(n))
        weighted = mh.embed(X + 1e6, mh.Gaussian(1.0), weights=np.stack([w, w[::-1]]))
        for one, p in zip(weighted.cov(), (w, w[::-1]), strict=True):
            assert_allclose(one, np.cov(X.T, aweights=p, bias=True), rtol=1e-9, atol=1e-9)

    def test_unnormalised_weights_with_an_offset(self):
        X, w = rows(12), np.full(12, 0.9 / 12)
        mu = mh.embed(X + 100, mh.Gaussian(1.0), weights=w)
        Z = X + 100
        expected = 0.9 * (Z.T @ Z) / 12 - 0.81 * np.outer(Z.mean(0), Z.mean(0))
        assert_allclose(mu.cov(), expected, rtol=1e-10)

    def test_factored_weights_give_the_dense_answer(self):
        X = rows(50)
        batch = (
            mh.ConditionalMean(mh.Gaussian(1.0), reg=1e-2, representation=mh.Nystrom(20)).fit(X, X).at(X[:4])
        )
        dense = mh.Embedding(batch.kernel, batch.points, batch.weights)
        assert_allclose(batch.mean(), dense.mean(), rtol=1e-10, atol=1e-12)
        assert_allclose(batch.cov(), dense.cov(), rtol=1e-10, atol=1e-12)
        assert_allclose(batch.expect(X[:, 0] ** 2), dense.expect(X[:, 0] ** 2), rtol=1e-10)


class TestQuantile:
    @pytest.mark.parametrize("n", [1, 7, 100])
    def test_uniform_weights_are_numpy(self, n):
        mu = embedding(n, 3)
        q = np.array([0.0, 0.05, 0.25, 0.5, 0.77, 0.95, 1.0])
        expected = np.quantile(mu.points, q, axis=0, method="inverted_cdf")
        assert_allclose(mu.quantile(q), expected, rtol=0)
        assert_allclose(mu.quantile(0.25), expected[2], rtol=0)

    def test_random_probability_weights_are_numpy(self):
        w = np.random.default_rng(3).dirichlet(np.ones(40))
        mu = embedding(40, 1, weights=w)
        q = np.linspace(0.01, 0.99, 57)
        expected = np.quantile(mu.points[:, 0], q, weights=w, method="inverted_cdf")
        assert_allclose(mu.quantile(q)[:, 0], expected, rtol=0)

    def test_known_weighted_case(self):
        mu = mh.embed([[3.0], [1.0], [2.0]], mh.Gaussian(1.0), weights=[0.5, 0.2, 0.3])
        # The distribution function is .2 at 1, .5 at 2, 1 at 3.
        q = [0.0, 0.1, 0.2, 0.21, 0.5, 0.51, 1.0]
        assert mu.quantile(q)[:, 0].tolist() == [1, 1, 1, 2, 2, 3, 3]

    def test_points_of_weight_zero_are_not_there(self):
        mu = mh.embed([[-9.0], [1.0], [2.0], [9.0]], mh.Gaussian(1.0), weights=[0.0, 0.5, 0.5, 0.0])
        assert mu.quantile([0.0, 0.5, 1.0])[:, 0].tolist() == [1, 1, 2]

    def test_exact_levels_are_not_lost_to_rounding(self):
        mu = mh.embed(np.arange(10.0)[:, None], mh.Gaussian(1.0))
        q = np.arange(1, 11) / 10
        assert mu.quantile(q)[:, 0].tolist() == list(range(10))

    def test_signed_weights_go_through_the_simplex(self):
        mu = mh.embed([[1.0], [2.0], [3.0]], mh.Gaussian(1.0), weights=[0.7, 0.7, -0.4])
        assert_allclose(mu.simplex().weights, [0.5, 0.5, 0.0], atol=1e-15)
        assert mu.quantile([0.5, 0.51])[:, 0].tolist() == [1, 2]

    def test_batch(self):
        W = np.random.default_rng(3).dirichlet(np.ones(12), 4)
        mu = embedding(weights=W)
        assert mu.quantile(0.3).shape == (4, 2)
        assert mu.quantile([0.3, 0.4, 0.5]).shape == (4, 3, 2)
        for b in range(4):
            assert_allclose(mu.quantile([0.3, 0.6])[b], mu[b].quantile([0.3, 0.6]), rtol=0)


class TestHistogram:
    def test_weighted_counts(self):
        W = np.random.default_rng(3).dirichlet(np.ones(50), 3)
        mu = embedding(50, 2, weights=W)
        heights, edges = mu.histogram(column=1, bins=8)
        assert heights.shape == (3, 8)
        assert edges.shape == (9,)
        assert_allclose((heights * np.diff(edges)).sum(axis=1), 1, rtol=1e-12)
        column = mu.points[:, 1]
        for b in range(3):
            inside = [
                W[b][(column >= lo) & ((column < hi) | (hi == edges[-1]))].sum() for lo, hi in pairwise(edges)
            ]
            assert_allclose(heights[b] * np.diff(edges), inside, rtol=1e-12)
        assert_allclose(mu[0].histogram(column=-1, bins=8)[0], heights[0], rtol=1e-12)

    def test_defaults_are_the_first_column_in_thirty_bins(self):
        mu = embedding(50)
        heights, edges = mu.histogram()
        expected = np.histogram(mu.points[:, 0], bins=30, density=True)
        assert_allclose(edges, expected[1])
        assert_allclose(heights, expected[0])


class TestWeights:
    def test_normalize(self):
        W = signed(3, 12) + 1
        mu = embedding(weights=W)
        assert_allclose(mu.normalize().weights, W / W.sum(axis=1, keepdims=True), rtol=1e-12)
        assert_allclose(mu[0].normalize().weights, W[0] / W[0].sum(), rtol=1e-12)

    def test_normalize_scales_the_coefficients_of_features(self):
        X = rows(30)
        mu = 4.0 * mh.embed(X, mh.Gaussian(1.0), representation=mh.Nystrom(10))
        mu.norm()
        plain = mh.embed(X, mh.Gaussian(1.0), representation=mh.Nystrom(10))
        assert_allclose(mu.normalize()(X), plain(X), rtol=1e-9)

    def test_simplex_of_features_forgets_old_coefficients(self):
        X = rows(30)
        mu = mh.embed(X, mh.Gaussian(1.0), weights=signed(30), representation=mh.Nystrom(10))
        mu.norm()
        projected = mu.simplex()
        assert_allclose(projected(X), projected.weights @ mu.kernel(X), rtol=1e-8)

    def test_effective_size(self):
        assert_allclose(embedding().effective_size(), 12, rtol=1e-12)
        W = np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.5, -0.5, 0, 0], [3, 1, 0, 0]])
        assert_allclose(embedding(4, weights=W).effective_size(), [1, 2, 2, 1.6], rtol=1e-12)


def nearest_by_supports(w):
    """The projection by trying every support: on it the answer is w minus a constant."""
    n, best, found = len(w), np.inf, None
    for size in range(1, n + 1):
        for support in combinations(range(n), size):
            p = np.zeros(n)
            p[list(support)] = w[list(support)] - (w[list(support)].sum() - 1) / size
            distance = ((p - w) ** 2).sum()
            if (p >= 0).all() and distance < best:
                best, found = distance, p
    return found


class TestSimplex:
    def test_equals_brute_force(self):
        W = np.concatenate([signed(30, 6), 3 * signed(30, 6, seed=2), 0.1 * signed(30, 6, seed=3)])
        expected = np.stack([nearest_by_supports(w) for w in W])
        assert_allclose(project_simplex(W), expected, atol=1e-12)

    @pytest.mark.parametrize("n", [1, 2, 500])
    def test_optimality_conditions(self, n):
        W = signed(20, n)
        P = project_simplex(W)
        assert_allclose(P.sum(axis=1), 1, rtol=1e-12)
        assert (P >= 0).all()
        for w, p in zip(W, P, strict=True):
            threshold = (w - p)[p > 0]
            assert_allclose(threshold, threshold[0], atol=1e-12)  # one multiplier on the support …
            assert (w[p == 0] <= threshold[0] + 1e-12).all()  # … and the others lie below it

    def test_is_idempotent_and_keeps_probabilities(self):
        P = np.random.default_rng(3).dirichlet(np.ones(9), 5)
        assert_allclose(project_simplex(P), P, atol=1e-14)
        once = project_simplex(signed(5, 9))
        assert_allclose(project_simplex(once), once, atol=1e-14)

    def test_batches_of_any_rank_row_by_row(self):
        W = signed(2, 3, 7)
        each = [[project_simplex(w) for w in part] for part in W]
        assert_allclose(project_simplex(W), each, rtol=0)

    @pytest.mark.parametrize("scale", [1e-8, 1e8])
    def test_extreme_weights(self, scale):
        P = project_simplex(scale * signed(7))
        assert_allclose(P.sum(), 1, rtol=1e-7)
        assert (P >= 0).all()

    def test_ties(self):
        assert_allclose(project_simplex(np.array([2.0, 2.0, 2.0])), 1 / 3, rtol=1e-12)
        assert_allclose(project_simplex(np.zeros(4)), 0.25, rtol=1e-12)

    def test_embedding_uses_it(self):
        W = signed(3, 12)
        assert_allclose(embedding(weights=W).simplex().weights, project_simplex(W), rtol=0)
