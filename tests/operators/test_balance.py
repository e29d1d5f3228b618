"""Weights of pairs that keep the prior's low moments."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from muhat.operators.bayes.balance import FEW, LEAST_SIZE, Balance, Tilt


def tilted(Z, points, weights=None, base=None, categories=None):
    weights = np.full(len(points), 1 / len(points)) if weights is None else weights
    balance = Balance.of(Z, points, weights, categories)
    base = np.ones(len(Z)) if base is None else base
    H = balance(Z)
    return base * Tilt.of(base, H, balance.means)(H)


def test_few_values_have_the_priors_shares():
    rng = np.random.default_rng(0)
    Z = rng.choice(4, (300, 1), p=[0.1, 0.2, 0.3, 0.4]).astype(float)
    points, shares = np.arange(4.0)[:, None], np.array([0.4, 0.3, 0.25, 0.05])
    for categories in (None, {0}):
        w = tilted(Z, points, shares, rng.gamma(3.0, size=300), categories)
        found = [w[Z[:, 0] == v].sum() / w.sum() for v in range(4)]
        assert_allclose(found, shares, atol=1e-3)


def test_a_gaussian_among_gaussians_is_their_ratio():
    Z = np.random.default_rng(1).standard_normal((4000, 1))
    grid = np.linspace(-4, 4, 801)[:, None]
    prior = np.exp(-0.5 * ((grid[:, 0] - 0.5) / 0.4) ** 2)
    w = tilted(Z, grid, prior / prior.sum())
    exact = np.exp(-0.5 * ((Z[:, 0] - 0.5) / 0.4) ** 2 + 0.5 * Z[:, 0] ** 2)
    assert_allclose(w / w.sum(), exact / exact.sum(), atol=0.05 * exact.max() / exact.sum())


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_mean_and_covariance_of_several_columns(unit):
    rng = np.random.default_rng(2)
    Z = unit * rng.standard_normal((2000, 2))
    points = unit * (rng.standard_normal((200, 2)) @ np.array([[0.5, 0.3], [0.0, 0.4]]) + 0.3)
    w = tilted(Z, points)
    w = w / w.sum()
    assert_allclose(w @ Z, points.mean(axis=0), atol=1e-3 * unit)
    C = (Z - w @ Z).T @ (w[:, None] * (Z - w @ Z))
    assert_allclose(C, np.cov(points.T, bias=True), atol=2e-3 * unit**2)


def test_the_sum_of_the_weights_stays():
    rng = np.random.default_rng(3)
    Z, base = rng.standard_normal((100, 1)), rng.gamma(1.0, size=100)
    base[:10] = 0.0
    w = tilted(Z, 0.5 * rng.standard_normal((30, 1)), None, base)
    assert_allclose(w.sum(), base.sum())
    assert_allclose(w[:10], 0.0)


@pytest.mark.parametrize("points", [np.full((5, 1), 3.5), np.array([[8.0], [9.0]]), np.full((1, 1), 0.123)])
def test_enough_points_are_left(points):
    """A prior at one point, or beside the pairs, is met as far as the pairs go."""
    Z = np.random.default_rng(4).standard_normal((200, 1))
    w = tilted(Z, points)
    assert w.sum() ** 2 / (w**2).sum() >= 0.99 * LEAST_SIZE
    w = w / w.sum()
    assert abs(w @ Z[:, 0] - points.mean()) < abs(Z.mean() - points.mean())


def test_negative_weights_of_a_prior_are_no_trouble():
    rng = np.random.default_rng(5)
    Z, points = rng.standard_normal((500, 1)), 0.5 * rng.standard_normal((50, 1))
    weights = np.full(50, 1 / 40)
    weights[40:] = -1 / 400
    w = tilted(Z, points, weights / weights.sum())
    assert np.isfinite(w).all()
    assert (w >= 0).all()


def test_numbers_of_many_values_are_not_taken_one_by_one():
    Z = np.c_[np.arange(40.0) % FEW, np.arange(40.0)]
    balance = Balance.of(Z, Z, np.full(40, 1 / 40))
    assert [j for j, _ in balance.values] == [0]
    assert balance.numbers.tolist() == [1]
    assert balance(Z).shape == (40, FEW + 2)
