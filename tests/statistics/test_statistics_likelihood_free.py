"""Likelihood-free inference as statistics: error against exact posteriors, and calibration."""

import numpy as np
import pytest
from scipy import stats

import muhat as mh

pytestmark = pytest.mark.statistics


def exponential_gamma(n, rng):
    theta = rng.gamma(2, 2, (n, 1))
    return theta, rng.gamma(15, 1 / (15 * theta))


def wasserstein(mu, x):
    exact = stats.gamma(17, scale=1 / (0.5 + 15 * x))
    levels = (np.arange(1000) + 0.5) / 1000
    return np.abs(mu.quantile(levels)[:, 0] - exact.ppf(levels)).mean() / exact.std()


@pytest.mark.parametrize(("n", "most"), [(100, 0.30), (1000, 0.15), (2000, 0.10)])
def test_error_on_exponential_gamma(n, most):
    ours, plain = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        theta, x = exponential_gamma(n, rng)
        seen = rng.gamma(15, 1 / 45, (4, 1))  # the mean of 15 draws at θ = 3
        best = mh.LikelihoodFree().fit(theta, x).posterior(seen)
        rejection = mh.LikelihoodFree("rejection").fit(theta, x).posterior(seen)
        ours += [wasserstein(best[i], seen[i, 0]) for i in range(4)]
        plain += [wasserstein(rejection[i], seen[i, 0]) for i in range(4)]
    assert np.mean(ours) < most
    assert np.mean(ours) < np.mean(plain)


@pytest.mark.parametrize("method", ["adjusted", "surrogate"])
def test_posteriors_are_calibrated(method):
    # The rank of the true θ in its posterior is uniform over simulations from the prior.
    rng = np.random.default_rng(0)
    model = mh.LikelihoodFree(method).fit(*exponential_gamma(1000, rng))
    theta, x = exponential_gamma(200, rng)
    inside = (x[:, 0] > model.range_[0]) & (x[:, 0] < model.range_[1])
    mu = model.posterior(x[inside])
    ranks = [w @ (points[:, 0] < t) for (points, w), t in zip(mu.parts, theta[inside, 0], strict=True)]
    assert stats.kstest(ranks, "uniform").pvalue > 0.01


def test_two_modes_and_a_crescent():
    # Two moons [LBG21]: the observation (0, 0) has two crescents, mirror images of each other.
    rng = np.random.default_rng(0)
    theta = rng.uniform(-1, 1, (1000, 2))
    angle, radius = rng.uniform(-np.pi / 2, np.pi / 2, 1000), rng.normal(0.1, 0.01, 1000)
    moon = np.stack([radius * np.cos(angle) + 0.25, radius * np.sin(angle)], axis=1)
    shift = np.stack([-np.abs(theta.sum(axis=1)), theta[:, 1] - theta[:, 0]], axis=1) / np.sqrt(2)
    model = mh.LikelihoodFree().fit(theta, moon + shift)
    assert model.method_ == "surrogate"
    draws = model.sample([0.0, 0.0], 2000)
    s, d = draws.sum(axis=1) / np.sqrt(2), (draws[:, 1] - draws[:, 0]) / np.sqrt(2)
    # The balance of the modes is ½; over seeds and observations it was .50 on average, with sd .1.
    assert 0.2 < (s > 0).mean() < 0.8
    # |s| − 0.25 and d are on the half circle of radius 0.1 about the origin.
    size = np.hypot(np.abs(s) - 0.25, d)
    assert np.median(size) == pytest.approx(0.1, abs=0.02)
    assert np.quantile(np.abs(size - 0.1), 0.8) < 0.04
