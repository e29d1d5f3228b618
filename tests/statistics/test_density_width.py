"""The width of a reconstructed density is chosen from the data."""

import numpy as np
import pytest
from scipy.stats import gaussian_kde, norm

import muhat as mh

pytestmark = pytest.mark.statistics

GRID = np.linspace(-8, 10, 3601)[:, None]
STEP = 0.005


def normal(n, rng):
    return rng.standard_normal((n, 1))


def far_apart(n, rng):
    return (rng.choice([-2.0, 1.6], n) + 0.2 * rng.standard_normal(n))[:, None]


def skewed(n, rng):
    return rng.exponential(size=(n, 1))


TRUTH = {
    normal: norm.pdf(GRID[:, 0]),
    far_apart: 0.5 * norm.pdf(GRID[:, 0], -2, 0.2) + 0.5 * norm.pdf(GRID[:, 0], 1.6, 0.2),
    skewed: np.where(GRID[:, 0] > 0, np.exp(-np.abs(GRID[:, 0])), 0.0),
}


@pytest.mark.parametrize("draw", TRUTH, ids=lambda draw: draw.__name__)
def test_no_worse_than_a_kernel_density_estimate(draw):
    ours, theirs = [], []
    for seed in range(5):
        X = draw(500, np.random.default_rng(seed))
        ours.append(np.abs(mh.embed(X).density()(GRID) - TRUTH[draw]).sum() * STEP)
        theirs.append(np.abs(gaussian_kde(X.T)(GRID.T) - TRUTH[draw]).sum() * STEP)
    assert np.mean(ours) < 1.1 * np.mean(theirs)  # whose width is made for the normal


def test_the_width_follows_the_detail_and_not_the_spread():
    X = far_apart(1000, np.random.default_rng(0))
    assert mh.embed(X).density().kernel.lengthscale[0] < 0.4 < X.std()
