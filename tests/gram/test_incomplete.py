"""Incomplete Cholesky: below the matrix, with the error it says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.gram.incomplete import incomplete_cholesky
from muhat.kernels.standard import Standardized

KERNELS = [
    mh.Gaussian(0.5),
    mh.Laplace(1.0),
    2.0 * mh.Gaussian(1.0).on(0) * mh.Delta(0.4).on(1),
    mh.Linear(0.3),
    Standardized(mh.Polynomial(2), [0.0, 1.0], [1.0, 2.0]),
]


def points(n=60, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    X[:, 1] = np.round(X[:, 1])
    X[5] = X[4]
    return X


def relative(kernel, X, S):
    """⟨φ(x) − μ_S, φ(x') − μ_S⟩, spelled out."""
    if S is None:
        return kernel(X)
    r = kernel(X, S).mean(axis=1)
    return kernel(X) - r - r[:, None] + kernel(S).mean()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("about", [None, slice(0, 60, 7), slice(None)], ids=["plain", "some", "all"])
@pytest.mark.parametrize("rank", [1, 4, 25])
def test_lies_below_with_the_stated_trace(kernel, about, rank):
    X = points()
    S = None if about is None else X[about]
    Phi, rest = incomplete_cholesky(kernel, X, 0.0, rank, S)
    K = relative(kernel, X, S)
    left = K - Phi @ Phi.T
    assert Phi.shape[0] == 60
    assert Phi.shape[1] <= rank
    assert np.linalg.eigvalsh(left).min() > -1e-9 * np.trace(K)
    assert_allclose(rest, np.trace(left), rtol=1e-7, atol=1e-9 * np.trace(K))
    assert rest >= 0


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_complete_it_is_the_matrix(kernel):
    X = points()
    Phi, rest = incomplete_cholesky(kernel, X, 0.0, 60)
    K = kernel(X)
    assert_allclose(Phi @ Phi.T, K, atol=1e-5 * np.abs(K).max())
    assert rest < 1e-9 * np.trace(K)


@pytest.mark.parametrize("tolerance", [0.3, 1e-2, 1e-5])
def test_stops_as_soon_as_it_may(tolerance):
    X = points()
    Phi, rest = incomplete_cholesky(mh.Gaussian(0.5), X, tolerance, 60)
    assert rest <= tolerance * 60
    _, before = incomplete_cholesky(mh.Gaussian(0.5), X, 0.0, Phi.shape[1] - 1)
    assert before > tolerance * 60


def test_takes_the_largest_first():
    X = np.array([[1.0], [3.0], [-2.0]])
    Phi, rest = incomplete_cholesky(mh.Linear(), X, 0.0, 1)
    assert_allclose(Phi[:, 0], [1.0, 3.0, -2.0])  # x xᵀ is of rank 1: one pivot, at 3, is all
    assert rest < 1e-14


def test_rank_of_few_distinct_points():
    X = np.repeat(np.random.default_rng(0).normal(size=(4, 2)), 10, axis=0)
    Phi, rest = incomplete_cholesky(mh.Gaussian(0.5), X, 0.0, 40)
    assert Phi.shape[1] == 4
    assert rest < 1e-10


def test_a_large_constant_part_is_no_excuse():
    """The tolerance is that of what varies when features are taken about their mean."""
    X = points()
    kernel = mh.Gaussian(1000.0)
    Phi, rest = incomplete_cholesky(kernel, X, 1e-2, 30, X)
    centred = relative(kernel, X, X)
    assert rest <= 1.01e-2 * np.trace(centred)
    assert_allclose(np.sum(Phi**2), np.trace(centred), rtol=0.02)


def test_a_constant_kernel_has_no_features_about_its_mean():
    Phi, rest = incomplete_cholesky(mh.Delta(), np.ones((5, 1)), 1e-3, 5, np.ones((5, 1)))
    assert Phi.shape == (5, 0)
    assert rest == 0
