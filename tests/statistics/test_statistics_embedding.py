"""Rates and risks of estimated embeddings, against what is known exactly for Gaussians."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh

pytestmark = pytest.mark.statistics

MEAN, COV = np.array([0.3, -0.2]), np.array([[0.5, 0.2], [0.2, 0.8]])


def slope(sizes, errors):
    """Of the errors in the sizes, both on a log scale."""
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


def draw(n, seed, mean=MEAN, cov=COV):
    return mean + np.random.default_rng([n, seed]).standard_normal((n, len(mean))) @ np.linalg.cholesky(cov).T


def squared_error(mu, kernel, mean, cov):
    """‖μ̂ − μ‖² in the RKHS, exactly, for the embedding μ of a Gaussian."""
    square = kernel.gaussian_embedding(np.zeros((1, len(mean))), np.zeros(len(mean)), 2 * cov)[0]
    return mu.norm() ** 2 - 2 * mu.expect(kernel.gaussian_embedding(mu.points, mean, cov)) + square


class TestConvergence:
    def test_mean_squared_error_is_the_variance_over_n(self):
        # E‖μ̂ − μ‖² = (E k(X, X) − E k(X, X'))/n.
        kernel, repetitions = mh.Gaussian(0.7), 200
        variance = 1 - kernel.gaussian_embedding(np.zeros((1, 2)), np.zeros(2), 2 * COV)[0]
        scaled = [
            n * squared_error(mh.embed(draw(n, seed), kernel), kernel, MEAN, COV)
            for n in (25, 100)
            for seed in range(repetitions)
        ]
        assert_allclose(np.mean(scaled), variance, atol=4 * np.std(scaled) / np.sqrt(2 * repetitions))
        assert np.std(scaled) < variance  # so that the bound above says something

    def test_rate_is_one_over_root_n(self):
        kernel, sizes = mh.Gaussian(0.7), [50, 100, 200, 400, 800]
        errors = [
            np.sqrt(
                np.mean([squared_error(mh.embed(draw(n, s), kernel), kernel, MEAN, COV) for s in range(30)])
            )
            for n in sizes
        ]
        assert_allclose(slope(sizes, errors), -0.5, atol=0.06)

    @pytest.mark.parametrize(
        "kernel",
        [mh.Gaussian([0.5, 1.5]), mh.Polynomial(3), mh.Linear(1.0), 2.0 * mh.Gaussian(1.0) + mh.Linear()],
        ids=repr,
    )
    def test_analytic_embedding_is_the_limit(self, kernel):
        X, points = draw(200_000, 0), draw(6, 1)
        expected = kernel.gaussian_embedding(points, MEAN, COV)
        off = np.array([np.std(kernel(points, X[:5000]), axis=1)]) / np.sqrt(200_000)
        assert (np.abs(mh.embed(X, kernel)(points) - expected) < 5 * off).all()

    @pytest.mark.parametrize(("representation", "off"), [(mh.Nystrom(150), 0.02), (mh.Fourier(1000), 0.05)])
    def test_low_rank_embeddings_have_the_same_limit(self, representation, off):
        kernel, points = mh.Gaussian(0.7), draw(20, 1)
        mu = mh.embed(draw(5000, 0), kernel, representation=representation)
        assert_allclose(mu(points), kernel.gaussian_embedding(points, MEAN, COV), atol=off)

    def test_mmd_between_equal_distributions_vanishes_at_the_rate(self):
        kernel, sizes = mh.Gaussian(0.7), [50, 200, 800]
        errors = [np.mean([mh.mmd(draw(n, s), draw(n, 1000 + s), kernel) for s in range(30)]) for n in sizes]
        assert_allclose(slope(sizes, errors), -0.5, atol=0.08)

    def test_mmd_between_gaussians_tends_to_the_exact_distance(self):
        kernel, other = mh.Gaussian(0.7), np.array([1.0, 0.5])

        def inner(a, b):
            return kernel.gaussian_embedding(a[None], b, 2 * COV)[0]

        exact = np.sqrt(inner(MEAN, MEAN) + inner(other, other) - 2 * inner(MEAN, other))
        got = mh.mmd(draw(5000, 0), draw(5000, 1, mean=other), kernel)
        assert_allclose(got, exact, rtol=0.05)


class TestShrinkage:
    @pytest.mark.parametrize(("d", "n"), [(10, 20), (10, 50), (20, 20)])
    def test_reduces_the_risk_at_small_n(self, d, n):
        kernel, zero, one = mh.Gaussian(np.sqrt(d)), np.zeros(d), np.eye(d)
        errors = np.array(
            [
                [
                    squared_error(mh.embed(X, kernel, shrink=shrink), kernel, zero, one)
                    for shrink in (None, "loo")
                ]
                for X in (draw(n, seed, zero, one) for seed in range(60))
            ]
        )
        gain = errors[:, 0] - errors[:, 1]
        assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))
        assert errors[:, 1].mean() < 0.96 * errors[:, 0].mean()

    def test_gain_vanishes_as_n_grows(self):
        kernel = mh.Gaussian(1.0)
        X = draw(400, 0)
        plain = squared_error(mh.embed(X, kernel), kernel, MEAN, COV)
        shrunk = squared_error(mh.embed(X, kernel, shrink="loo"), kernel, MEAN, COV)
        assert_allclose(shrunk, plain, rtol=0.25)
        assert mh.embed(X, kernel, shrink="loo").distance(mh.embed(X, kernel)) < 0.2 * np.sqrt(plain)


class TestHerding:
    """Errors are pooled over data sets: the slope of one herded sequence scatters by about 0.12."""

    sizes, sets, kernel = (10, 20, 40, 80, 160), 10, mh.Gaussian(1.0)

    def pooled(self, d, squared_error):
        """Root mean squared errors of super-samples and of draws, over the data sets, for each size."""
        herded, drawn = np.zeros(len(self.sizes)), np.zeros(len(self.sizes))
        for seed in range(self.sets):
            X = draw(400, seed, np.zeros(d), np.eye(d))
            mu = mh.embed(X, self.kernel)
            error = squared_error(mu)
            super_samples = mu.herd(max(self.sizes))
            for i, n in enumerate(self.sizes):
                herded[i] += error(super_samples[:n]) / self.sets
                for repetition in range(10):
                    rows = np.random.default_rng([n, seed, repetition]).integers(0, len(X), n)
                    drawn[i] += error(X[rows]) / (10 * self.sets)
        return np.sqrt(herded), np.sqrt(drawn)

    @pytest.mark.parametrize("d", [1, 2])
    def test_distance_to_the_embedding_falls_faster_than_of_draws(self, d):
        herded, drawn = self.pooled(d, lambda mu: lambda rows: mh.mmd(mu, rows) ** 2)
        assert slope(self.sizes, herded) < -0.75
        assert_allclose(slope(self.sizes, drawn), -0.5, atol=0.1)
        assert herded[-1] < 0.3 * drawn[-1]

    def test_integrals_of_smooth_functions_fall_faster_too(self):
        # Twenty functions of the RKHS, each a few bumps.
        random = np.random.default_rng(1)
        centres, heights = 1.5 * random.standard_normal((20, 5, 2)), random.standard_normal((20, 5))

        def values(z):
            return np.stack([self.kernel(z, c) @ h for c, h in zip(centres, heights, strict=True)], axis=1)

        def squared_error(mu):
            truth = mu.expect(values)
            return lambda rows: np.mean((values(rows).mean(axis=0) - truth) ** 2)

        herded, drawn = self.pooled(2, squared_error)
        assert slope(self.sizes, herded) < -0.75
        assert_allclose(slope(self.sizes, drawn), -0.5, atol=0.1)

    def test_ascent_from_few_starts_keeps_the_rate(self):
        X = draw(300, 0, np.zeros(2), np.eye(2))
        mu = mh.embed(X, mh.Gaussian(1.0))
        sizes = (5, 10, 20, 40)
        super_samples = mu.herd(max(sizes), candidates=X[:40], continuous=True)
        herded = [mh.mmd(mu, super_samples[:n]) for n in sizes]
        assert slope(sizes, herded) < -0.75
        chosen = mu.herd(max(sizes), candidates=X[:40])
        assert herded[-1] < mh.mmd(mu, chosen)
