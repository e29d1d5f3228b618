"""How familiar an observation is, whatever the number of points it is asked of."""

import numpy as np
import pytest

import muhat as mh
from muhat.models import posterior

X = np.random.default_rng(0).normal(size=(3000, 2))
FAR = np.array([[0.0, 0.0], [30.0, 30.0]])


@pytest.mark.parametrize("some", [False, True])
def test_points_near_and_far(some, monkeypatch):
    if some:  # as beyond 20 000 points
        monkeypatch.setattr(posterior, "sample_indices", lambda n: np.arange(0, n, 3))
    kernel = mh.Gaussian(0.5)
    gram = mh.Nystrom(50).gram_of(mh.Nystrom(50).fit(kernel, X, 0), X)
    near, far = posterior.familiarity(gram, FAR, gram.cross(FAR))
    points = X[::3] if some else X
    assert near == pytest.approx(float(np.asarray(kernel(FAR[:1], points)).max()), abs=1e-12)
    assert far < 1e-12
