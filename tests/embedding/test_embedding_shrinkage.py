"""Spectral shrinkage of the mean embedding, S-KMSE."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.embedding.shrinkage import choose_shrinkage, leave_one_out_risk, shrinkage_weights
from muhat.gram import DenseGram, LowRankGram

KERNEL = mh.Laplace(1.5)


def rows(n, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def refit_risk(K, reg):
    """Leave-one-out by n refits: the ridge c = nλ is that of all points."""
    n = len(K)
    c, total = n * reg, 0.0
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        inner = K[np.ix_(rest, rest)]
        beta = np.linalg.solve(inner + c * np.eye(n - 1), inner @ np.ones(n - 1)) / (n - 1)
        total += beta @ inner @ beta - 2 * beta @ K[rest, i] + K[i, i]
    return total / n


@pytest.mark.parametrize("reg", [1e-4, 1e-2, 1.0])
def test_weights_equal_the_operator_formula(reg):
    X = rows(15)
    K = KERNEL(X)
    n = len(K)
    expected = np.linalg.solve(K + n * reg * np.eye(n), K @ np.ones(n)) / n
    assert_allclose(shrinkage_weights(DenseGram(K), reg), expected, rtol=1e-10)
    assert_allclose(mh.embed(X, KERNEL, shrink=reg).weights, expected, rtol=1e-10)


def test_weights_are_those_of_the_operator_in_feature_space():
    # Ĉ(Ĉ + λI)⁻¹ μ̂ with explicit features, against the same element written with weights.
    Phi, reg = rows(20, 4), 0.05
    C, mean = Phi.T @ Phi / 20, Phi.mean(axis=0)
    expected = C @ np.linalg.solve(C + reg * np.eye(4), mean)
    assert_allclose(shrinkage_weights(LowRankGram(Phi), reg) @ Phi, expected, rtol=1e-9)
    mu = mh.embed(Phi, mh.Linear(), shrink=reg)
    assert_allclose(mu.mean(), expected, rtol=1e-9)


def test_no_regularisation_is_the_plain_average():
    assert_allclose(mh.embed(rows(15), KERNEL, shrink=1e-13).weights, 1 / 15, rtol=1e-9)


def test_it_shrinks():
    X = rows(15)
    norms = [mh.embed(X, KERNEL, shrink=reg).norm() for reg in (1e-3, 1e-2, 1e-1)]
    assert mh.embed(X, KERNEL).norm() > norms[0] > norms[1] > norms[2] > 0


@pytest.mark.parametrize("reg", [1e-6, 1e-3, 1e-1, 1.0])
def test_closed_form_risk_equals_refits(reg):
    K = KERNEL(rows(12))
    assert_allclose(leave_one_out_risk(K, reg), refit_risk(K, reg), rtol=1e-9)


def test_closed_form_risk_with_duplicated_rows():
    X = rows(6)
    K = KERNEL(np.concatenate([X, X]))
    assert_allclose(leave_one_out_risk(K, 1e-2), refit_risk(K, 1e-2), rtol=1e-8)


@pytest.mark.parametrize("amplitude", [1.0, 100.0])
def test_choice_is_the_best_of_its_grid_by_refits(amplitude):
    K = amplitude * KERNEL(rows(12))
    grid = amplitude * np.logspace(-6, 0, 13)
    expected = grid[np.argmin([refit_risk(K, reg) for reg in grid])]
    assert_allclose(choose_shrinkage(K), expected, rtol=1e-10)
    assert grid[0] < expected < grid[-1]


def test_loo_uses_the_choice():
    X = rows(12)
    reg = choose_shrinkage(KERNEL(X))
    expected = mh.embed(X, KERNEL, shrink=reg).weights
    assert_allclose(mh.embed(X, KERNEL, shrink="loo").weights, expected, rtol=1e-12)


def test_in_a_low_rank_representation():
    X = rows(40)
    mu = mh.embed(X, KERNEL, representation=mh.Nystrom(10), shrink=0.05)
    K = mu.kernel(X)
    expected = np.linalg.solve(K + 40 * 0.05 * np.eye(40), K @ np.ones(40)) / 40
    assert_allclose(mu.weights, expected, rtol=1e-8)


@pytest.mark.slow
def test_more_points_than_the_choice_looks_at():
    X = rows(1200, 2)
    mu = mh.embed(X, mh.Gaussian(1.0), shrink="loo")
    assert 0.9 < mu.weights.sum() < 1
    assert_allclose(mu.weights, mh.embed(X, mh.Gaussian(1.0), shrink="loo").weights, rtol=0)
