"""Kernel herding, among candidates and by ascent."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh

KERNEL = mh.Gaussian(0.7)


def rows(n, d=2, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def herd_slowly(mu_values, K, n):
    """Chen, Welling & Smola (2010), written out: μ(z) − Σ k(z, z_s)/(t + 1)."""
    chosen = []
    for t in range(n):
        score = [mu_values[i] - sum(K[i, s] for s in chosen) / (t + 1) for i in range(len(K))]
        chosen.append(int(np.argmax(score)))
    return chosen


@pytest.mark.parametrize("weights", [None, "signed"])
def test_candidates_are_chosen_greedily(weights):
    X, Z = rows(30), rows(25, seed=2)
    w = None if weights is None else np.random.default_rng(1).standard_normal(30)
    mu = mh.embed(X, KERNEL, weights=w)
    own = herd_slowly(mu(X), KERNEL(X), 12)
    assert_allclose(mu.herd(12), X[own], rtol=0)
    other = herd_slowly(mu(Z), KERNEL(Z), 12)
    assert_allclose(mu.herd(12, candidates=Z), Z[other], rtol=0)


def test_first_sample_is_the_mode_of_the_embedding():
    mu = mh.embed(rows(40), KERNEL)
    assert_allclose(mu.herd(1)[0], mu.points[np.argmax(mu(mu.points))], rtol=0)


def test_a_candidate_may_be_taken_again():
    mu = mh.embed([[0.0], [10.0]], KERNEL, weights=[0.75, 0.25])
    assert sorted(mu.herd(8)[:, 0].tolist()) == [0.0] * 6 + [10.0] * 2


def test_low_rank_embedding_herds_with_its_features():
    X = rows(60)
    mu = mh.embed(X, KERNEL, representation=mh.Nystrom(15))
    assert_allclose(mu.herd(6), X[herd_slowly(mu(X), mu.kernel(X), 6)], rtol=0)


def test_batch_is_row_by_row():
    W = np.random.default_rng(3).dirichlet(np.ones(30), 3)
    mu = mh.embed(rows(30), KERNEL, weights=W)
    together = mu.herd(5)
    assert together.shape == (3, 5, 2)
    for b in range(3):
        assert_allclose(together[b], mu[b].herd(5), rtol=0)


class TestAscent:
    def test_every_step_is_a_stationary_point_no_worse_than_any_candidate(self):
        X = rows(40)
        mu = mh.embed(X, KERNEL)
        samples = mu.herd(6, continuous=True)

        def objective(z, t):
            return mu(z) - KERNEL(z, samples[:t]).sum(axis=1) / (t + 1)

        for t in range(6):
            at = objective(samples[t : t + 1], t)[0]
            assert at >= objective(X, t).max() - 1e-12
            nearby = samples[t] + 1e-2 * rows(200, seed=7)
            assert at >= objective(nearby, t).max() - 1e-6
        assert not any((s == X).all(axis=1).any() for s in samples)

    def test_first_sample_of_one_point_is_the_point(self):
        mu = mh.embed([[1.5, -2.0]], KERNEL)
        start = [[1.2, -2.3], [9.0, 9.0]]
        assert_allclose(mu.herd(1, candidates=start, continuous=True), [[1.5, -2.0]], atol=1e-4)

    def test_comes_closer_than_candidates(self):
        mu = mh.embed(rows(60), KERNEL)
        few = rows(15, seed=5)
        chosen, moved = mu.herd(20, few), mu.herd(20, few, continuous=True)
        assert mh.mmd(mu, moved) < 0.8 * mh.mmd(mu, chosen)

    def test_batch(self):
        W = np.random.default_rng(3).dirichlet(np.ones(20), 2)
        mu = mh.embed(rows(20), KERNEL, weights=W)
        together = mu.herd(2, continuous=True)
        assert together.shape == (2, 2, 2)
        assert_allclose(together[1], mu[1].herd(2, continuous=True), atol=1e-6)

    @pytest.mark.parametrize("offset", [0.0, 5.0, 1e9])
    def test_a_constant_column_stays_where_it_is(self, offset):
        X = np.c_[rows(20, 1), np.full(20, offset)]
        samples = mh.embed(X, mh.Gaussian([1.0, 1.0])).herd(3, continuous=True)
        assert_allclose(samples[:, 1], offset, rtol=1e-9, atol=1e-6)
        assert np.ptp(samples[:, 0]) > 0.1

    @pytest.mark.parametrize("scale", [1e-8, 1e8])
    def test_units_do_not_matter(self, scale):
        X = rows(20)
        plain = mh.embed(X).herd(3, continuous=True)
        scaled = mh.embed(scale * X).herd(3, continuous=True)
        assert_allclose(scaled / scale, plain, atol=1e-3)

    def test_leaves_the_precision_of_jax_alone(self):
        import jax

        before = jax.config.jax_enable_x64
        mh.embed(rows(10), KERNEL).herd(1, continuous=True)
        assert jax.config.jax_enable_x64 == before
