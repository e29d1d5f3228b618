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
