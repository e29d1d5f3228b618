"""Ridge regressions on shared features, against dense formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from muhat.learning.feature_ridge import REGULARISERS, FeatureRidge, GaussianFeatures, median_distance

RNG = np.random.default_rng(0)
PHI = RNG.standard_normal((60, 8)) * np.geomspace(1, 0.1, 8)
F = np.stack([PHI[:, 0] + 0.1 * RNG.standard_normal(60), RNG.standard_normal(60)], axis=1)


def dense(Phi, f, reg):
    """Coefficients of ridge regression of centred outputs on centred features."""
    A = Phi - Phi.mean(axis=0)
    unit = (A**2).sum()
    return np.linalg.solve(A.T @ A + reg * unit * np.eye(A.shape[1]), A.T @ (f - f.mean()))


def left_out(Phi, f, reg):
    """Mean squared error of rows that are left out, one after the other, by fits to all rows but one.

    The regulariser and the mean of the features are those of all rows, as in the closed form.
    """
    A = Phi - Phi.mean(axis=0)
    ridge = reg * (A**2).sum() * np.eye(A.shape[1])
    B = np.hstack([np.ones((len(A), 1)), A])
    G = np.zeros((B.shape[1],) * 2)
    G[1:, 1:] = ridge
    errors = []
    for i in range(len(f)):
        rest = np.arange(len(f)) != i
        beta = np.linalg.solve(B[rest].T @ B[rest] + G, B[rest].T @ f[rest])
        errors.append(f[i] - B[i] @ beta)
    return np.mean(np.square(errors))


def test_each_output_has_the_regulariser_of_least_leave_one_out_error():
    fit = FeatureRidge(PHI).fit(F)
    for j, f in enumerate(F.T):
        best = min(REGULARISERS, key=lambda reg, f=f: left_out(PHI, f, reg))
        assert_allclose(fit.coefficients[:, j], dense(PHI, f, best), rtol=1e-8, atol=1e-12)
    assert_allclose(fit(PHI).mean(axis=0), F.mean(axis=0))


def test_undersmoothing_divides_the_regulariser():
    f = F[:, [0]]
    best = min(REGULARISERS, key=lambda reg: left_out(PHI, f[:, 0], reg))
    fit = FeatureRidge(PHI).fit(f, undersmooth=8.0)
    assert_allclose(fit.coefficients[:, 0], dense(PHI, f[:, 0], best / 8), rtol=1e-8)


def test_features_without_any_spread_give_the_mean():
    fit = FeatureRidge(np.ones((10, 3))).fit(F[:10])
    assert_allclose(fit(np.ones((2, 3))), np.tile(F[:10].mean(axis=0), (2, 1)))


class TestGaussianFeatures:
    def test_are_exact_at_landmarks(self):
        X = RNG.standard_normal((40, 2))
        features = GaussianFeatures(X, 0.5)
        K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (2 * 0.5**2))
        assert_allclose(features(X) @ features(X).T, K, atol=1e-6)

    def test_gradient(self):
        X, x = RNG.standard_normal((30, 2)), RNG.standard_normal((5, 2))
        features = GaussianFeatures(X, 1.0)
        b = RNG.standard_normal(features(X).shape[1])
        h = 1e-5
        steps = [(features(x + h * e) - features(x - h * e)) @ b / (2 * h) for e in np.eye(2)]
        assert_allclose(features.gradient(x, b), np.stack(steps, axis=1), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("X", [np.zeros((5, 2)), np.zeros((1, 2))])
def test_median_distance_of_equal_rows(X):
    assert median_distance(X) == 1.0
