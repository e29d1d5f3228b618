"""How familiar an observation is, whatever the number of points it is asked of."""

import numpy as np
import pytest

import muhat as mh
from muhat.models import posterior

X = np.random.default_rng(0).normal(size=(3000, 2))
ROWS = np.array([X[1], [30.0, 30.0]])  # one of the points, and far from all


@pytest.mark.parametrize("some", [False, True])
def test_points_near_and_far(some, monkeypatch):
    if some:  # as beyond 20 000 points
        monkeypatch.setattr(posterior, "sample_indices", lambda n: np.arange(0, n, 3))
    kernel = mh.Gaussian(0.5)
    gram = mh.Nystrom(50).gram_of(mh.Nystrom(50).fit(kernel, X, 0), X)
    near, far = map(float, posterior.familiarity(gram, ROWS, gram.cross(ROWS)))
    points = X[::3] if some else X
    assert (near < 1) is some  # the point itself is not among every third
    assert near == pytest.approx(float(np.asarray(kernel(ROWS[:1], points)).max()), abs=1e-12)
    assert far < 1e-12


@pytest.mark.parametrize(
    "kernel",
    [
        mh.Gaussian([0.5, 2.0]),
        mh.Laplace(0.5),
        mh.Matern(1.5, 0.7),
        mh.Cauchy(0.5),
        2.0 * mh.Gaussian(0.5),
        mh.Gaussian(0.5) + mh.Linear(),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_the_largest_normalised_value(kernel):
    gram = mh.Nystrom(50).gram_of(mh.Nystrom(50).fit(kernel, X, 0), X)
    rows = np.random.default_rng(1).normal(size=(40, 2))
    scale = np.sqrt(np.outer(kernel.diag(rows), kernel.diag(X)))
    expected = (np.asarray(kernel(rows, X)) / scale).max(axis=1)
    np.testing.assert_allclose(posterior.familiarity(gram, rows, gram.cross(rows)), expected, rtol=1e-12)
