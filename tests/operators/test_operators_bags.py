"""Features of bags: closed forms, what landmarks leave out, spreads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.operators.bags import TwoStage, _spread, mean_features

RNG = np.random.default_rng(0)
BAGS = mh.Bags(list(RNG.standard_normal((12, 30, 2)) + RNG.standard_normal((12, 1, 2))))
FIRST = mh.Fourier(40).fit(mh.Gaussian(1.0), BAGS.pool(), np.random.default_rng(1))


def test_mean_features_of_gaussians_are_characteristic_functions():
    """E cos ωᵀx = cos ωᵀm · exp(−½ ωᵀSω), and likewise the sine."""
    rng = np.random.default_rng(2)
    bags = mh.GaussianBags(rng.standard_normal((3, 2)), rng.uniform(0.2, 1.0, (3, 2)))
    sds = np.sqrt(np.diagonal(bags.covs, axis1=1, axis2=2))
    draws = [m + sd * rng.standard_normal((20_000, 2)) for m, sd in zip(bags.means, sds, strict=True)]
    assert_allclose(mean_features(bags, FIRST), mean_features(mh.Bags(draws), FIRST), atol=0.01)


def test_landmarks_leave_out_what_the_features_lack():
    U = mean_features(BAGS, FIRST)
    outer = mh.Gaussian(0.3)
    stages = TwoStage(FIRST, mh.Nystrom(landmarks=U[:4]).fit(outer, U, np.random.default_rng(0)))
    Psi = stages.of(BAGS)
    missing = stages.missing(BAGS, Psi)
    assert_allclose(missing, np.diag(outer(U) - Psi @ Psi.T), atol=1e-6)
    assert_allclose(missing[:4], 0, atol=1e-6)
    assert (missing[4:] > 1e-3).all()


def test_fourier_features_leave_nothing_out():
    U = mean_features(BAGS, FIRST)
    stages = TwoStage(FIRST, mh.Fourier(30).fit(mh.Gaussian(0.3), U, np.random.default_rng(0)))
    assert_allclose(stages.missing(BAGS, stages.of(BAGS)), 0)


@pytest.mark.parametrize("shape", [(5,), (5, 3)])
def test_spread_is_the_unbiased_variance(shape):
    values = np.random.default_rng(3).standard_normal(shape)
    assert_allclose(_spread(values, np.full(5, 0.2)), values.var(axis=0, ddof=1))
    one = _spread(values[:1], np.ones(1))
    assert one.shape == shape[1:]
    assert (one == 0).all()
