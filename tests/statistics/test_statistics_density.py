"""Reconstructed densities approach the truth, and beat the rule-of-thumb kernel density estimate."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import gaussian_kde, multivariate_normal, norm

import muhat as mh

pytestmark = pytest.mark.statistics

SIZES = (200, 2000, 20_000)
# The embedding's own kernel does not enter: the reconstruction chooses a finer one.
KERNEL = mh.Gaussian(1.0)


class OneDimension:
    """Two peaks of different width."""

    axis = np.linspace(-6, 7, 651)
    grid, cell, repetitions = axis[:, None], axis[1] - axis[0], 3

    @staticmethod
    def pdf(x):
        return 0.6 * norm.pdf(x[:, 0], -1, 0.4) + 0.4 * norm.pdf(x[:, 0], 1.2, 0.7)

    @staticmethod
    def draw(n, seed):
        rng = np.random.default_rng([n, seed])
        first, z = rng.random(n) < 0.6, rng.standard_normal(n)
        return np.where(first, -1 + 0.4 * z, 1.2 + 0.7 * z)[:, None]


class TwoDimensions:
    """A round peak and a tilted one."""

    axis = np.linspace(-6, 6, 41)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    cell, repetitions = (axis[1] - axis[0]) ** 2, 1
    tilt = np.array([[0.7, 0.35], [0.0, 0.42]])

    @classmethod
    def pdf(cls, x):
        round_ = multivariate_normal.pdf(x, [-1.5, 0], 0.25 * np.eye(2))
        return 0.5 * round_ + 0.5 * multivariate_normal.pdf(x, [1.5, 0.5], cls.tilt @ cls.tilt.T)

    @classmethod
    def draw(cls, n, seed):
        rng = np.random.default_rng([n, seed])
        first, z = rng.random((n, 1)) < 0.5, rng.standard_normal((n, 2))
        return np.where(first, [-1.5, 0.0] + 0.5 * z, [1.5, 0.5] + z @ cls.tilt.T)


@pytest.mark.parametrize("truth", [OneDimension, TwoDimensions])
def test_mixture(truth):
    error, mass = [], []
    for n in SIZES:
        densities = [mh.embed(truth.draw(n, seed), KERNEL).density() for seed in range(truth.repetitions)]
        values = np.stack([density.pdf(truth.grid) for density in densities])
        assert_allclose(values.sum(axis=1) * truth.cell, 1, atol=0.02)
        assert (values >= 0).all()
        error.append(np.abs(values - truth.pdf(truth.grid)).sum(axis=1).mean() * truth.cell)
        mass.append(np.mean([density.mass for density in densities]))
    assert error[0] > 1.3 * error[1] > 1.69 * error[2]
    rule_of_thumb = gaussian_kde(truth.draw(SIZES[-1], 0).T)(truth.grid.T)
    assert error[-1] < 0.8 * np.abs(rule_of_thumb - truth.pdf(truth.grid)).sum() * truth.cell
    gaps = np.abs(1 - np.array(mass))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.1


def test_negative_part_vanishes():
    parts = [mh.embed(OneDimension.draw(n, 0), KERNEL).density().negative for n in (200, 5000)]
    assert parts[1] < parts[0] < 0.05


def test_conditional_embedding_gives_conditional_densities():
    # Y | x ~ N(sin x, (.2 + .1 x²)²).
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.5, 1.5, (2000, 1))
    y = np.sin(x) + (0.2 + 0.1 * x**2) * rng.standard_normal((2000, 1))
    query, axis = np.array([[-1.0], [0.0], [1.0]]), np.linspace(-4, 4, 801)
    densities = mh.ConditionalMean(mh.Gaussian(0.3), reg=1e-3).fit(x, y).at(query).density()
    values = densities.pdf(axis[:, None])
    truth = norm.pdf(axis, np.sin(query), 0.2 + 0.1 * query**2)
    assert_allclose(values.sum(axis=1) * 0.01, 1, atol=0.02)
    assert (np.abs(values - truth).sum(axis=1) * 0.01 < 0.3).all()
