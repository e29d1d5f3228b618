"""Kronecker Grams against the dense Kronecker product, ridge included [S20, A.3.2]."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

import muhat as mh
from muhat.gram import KroneckerGram


def factors(sizes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    kernels = [mh.Gaussian(0.6), mh.Laplace(1.0), mh.Matern(1.5, 0.8)]
    return [1.2 * k(rng.normal(size=(n, 1))) for k, n in zip(kernels, sizes, strict=False)]


SIZES = [(5,), (4, 6), (6, 4), (3, 4, 5), (1, 7)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_everything_against_the_dense_product(sizes: tuple[int, ...]) -> None:
    parts = factors(sizes)
    gram, K = KroneckerGram(parts), reduce(np.kron, parts)
    n = len(K)
    np.testing.assert_allclose(gram.dense(), K, rtol=1e-14)
    np.testing.assert_allclose(gram.diag(), np.diagonal(K), rtol=1e-14)
    B = np.random.default_rng(1).normal(size=(n, 3))
    np.testing.assert_allclose(gram @ B, K @ B, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(gram @ B[:, 0], K @ B[:, 0], rtol=1e-11, atol=1e-13)
    for c in (1.0, 1e-4):
        A = K + c * np.eye(n)
        ridge = gram.ridge(c)
        np.testing.assert_allclose(ridge.solve(B), np.linalg.solve(A, B), rtol=1e-8, atol=1e-10 / c)
        np.testing.assert_allclose(
            ridge.solve(B[:, 1]), np.linalg.solve(A, B[:, 1]), rtol=1e-8, atol=1e-10 / c
        )
        assert ridge.logdet() == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-10)
        np.testing.assert_allclose(ridge.inverse_diag(), np.diagonal(np.linalg.inv(A)), rtol=1e-8)


def test_the_ridge_is_not_that_of_the_factors() -> None:
    # Inverting factor by factor, as printed in [S20, A.3.2], solves another system.
    parts, c = factors((4, 6)), 0.1
    n = 24
    exact = np.linalg.inv(np.kron(*parts) + c * np.eye(n))
    ours = KroneckerGram(parts).ridge(c).solve(np.eye(n))
    np.testing.assert_allclose(ours, exact, rtol=1e-8, atol=1e-10)
    dropped = np.kron(*[np.linalg.inv(P) for P in parts])
    spread = np.kron(*[np.linalg.inv(P + c * np.eye(len(P))) for P in parts])
    for wrong in (dropped, spread):
        assert np.abs(wrong - exact).max() > 0.1 * np.abs(exact).max()


@pytest.mark.parametrize("sizes", [(4, 6), (3, 4, 5)], ids=str)
def test_weights_break_the_product_and_are_iterated(sizes: tuple[int, ...]) -> None:
    gram = KroneckerGram(factors(sizes))
    n = len(gram)
    rng = np.random.default_rng(2)
    weights = rng.gamma(1.0, size=n)
    weights[::5] = 0
    root = np.sqrt(weights)
    A = root[:, None] * gram.dense() * root + 0.05 * np.eye(n)
    B = rng.normal(size=(n, 3))
    ridge = gram.ridge(0.05, weights)
    np.testing.assert_allclose(ridge.solve(B), np.linalg.solve(A, B), rtol=1e-7, atol=1e-8)
    assert ridge.report.converged
    assert ridge.report.residual <= 1e-10
    assert ridge.logdet() == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-10)
    np.testing.assert_allclose(ridge.inverse_diag(), np.diagonal(np.linalg.inv(A)), rtol=1e-9)


def test_last_factor_varies_fastest() -> None:
    first, second = np.array([0.0, 1.0]), np.array([0.0, 2.0, 5.0])
    kernel = mh.Gaussian(1.0).on(0) * mh.Laplace(1.0).on(1)
    rows = np.array([[a, b] for a in first for b in second])
    gram = KroneckerGram([mh.Gaussian(1.0)(first[:, None]), mh.Laplace(1.0)(second[:, None])])
    np.testing.assert_allclose(gram.dense(), kernel(rows), rtol=1e-13)


def test_a_large_product_is_never_formed() -> None:
    # A million points: the dense matrix would take 8 TB.
    parts = factors((100, 100, 100))
    gram = KroneckerGram(parts)
    assert gram.shape == (10**6, 10**6)
    ridge = gram.ridge(0.1)
    b = np.random.default_rng(0).normal(size=10**6)
    x = ridge.solve(b)
    np.testing.assert_allclose(gram @ x + 0.1 * x, b, atol=1e-8)
    assert np.isfinite(ridge.logdet())
    # e_iᵀ A⁻¹ e_i for one i
    e = np.zeros(10**6)
    e[123_456] = 1
    assert ridge.inverse_diag()[123_456] == pytest.approx(ridge.solve(e)[123_456], rel=1e-8)


@pytest.mark.parametrize("bad", [[], [np.ones((2, 3))], [np.eye(2), np.ones(3)]], ids=range(3))
def test_factors_must_be_square(bad: list) -> None:
    with pytest.raises(ValueError, match=r"factors must be square matrices, got shapes"):
        KroneckerGram(bad)
