"""Cholesky: jitter only when needed, escalated and reported; failures that carry advice."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muhat as mh
from muhat._linalg import MAX_JITTER, Cholesky, cholesky, pivoted_cholesky, pivoted_factor
from muhat.gram import DenseGram

EPS = np.finfo(float).eps


@pytest.fixture(params=["numpy", "jax"])
def xp(request: pytest.FixtureRequest):
    with jax.enable_x64(True):
        yield np if request.param == "numpy" else jnp


def with_spectrum(values: object, seed: int = 0) -> np.ndarray:
    """A symmetric matrix with these eigenvalues."""
    values = np.asarray(values, dtype=float)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))
    A = (Q * values) @ Q.T
    return (A + A.T) / 2


def lower_of(factor: Cholesky) -> np.ndarray:
    return np.tril(np.asarray(factor.lower))


def test_a_definite_matrix_needs_no_jitter(xp) -> None:
    A = with_spectrum([1e-10, 1.0, 2.0, 3.0, 5.0])
    factor = cholesky(xp.asarray(A), "A", "help")
    assert float(factor.jitter) == 0.0
    L = lower_of(factor)
    np.testing.assert_allclose(L @ L.T, A, atol=1e-15)


def test_solves_determinants_and_diagonals(xp) -> None:
    A = with_spectrum(np.linspace(0.1, 3.0, 5))
    factor = cholesky(xp.asarray(A), "A", "help")
    B = np.random.default_rng(1).normal(size=(5, 3))
    np.testing.assert_allclose(factor.solve(xp.asarray(B)), np.linalg.solve(A, B), rtol=1e-11)
    np.testing.assert_allclose(factor.solve(xp.asarray(B[:, 0])), np.linalg.solve(A, B[:, 0]), rtol=1e-11)
    half = np.asarray(factor.half_solve(xp.asarray(B)))
    np.testing.assert_allclose(half.T @ half, B.T @ np.linalg.solve(A, B), rtol=1e-11)
    assert float(factor.logdet()) == pytest.approx(np.log(np.linspace(0.1, 3.0, 5)).sum(), rel=1e-12)
    np.testing.assert_allclose(factor.inverse_diag(), np.diagonal(np.linalg.inv(A)), rtol=1e-11)
    assert 1 < factor.condition() <= np.linalg.cond(A) * (1 + 1e-9)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("negative", [-1e-14, -1e-12, -1e-10, -2e-8])
def test_jitter_escalates_to_what_is_needed(xp, negative: float, overwrite: bool) -> None:
    A = with_spectrum([negative, 0.5, 1.0, 2.0, 1.5])
    before = A.copy()
    factor = cholesky(xp.asarray(A), "A", "help", overwrite=overwrite)
    jitter = float(factor.jitter)
    scale = np.diagonal(before).mean()
    assert -negative < jitter <= -10 * negative * (1 + 1e-6) + 10 * EPS * scale
    assert jitter <= MAX_JITTER * scale
    # A power of ten times rounding error.
    assert np.log10(jitter / (EPS * scale)) == pytest.approx(
        round(np.log10(jitter / (EPS * scale))), abs=1e-6
    )
    L = lower_of(factor)
    np.testing.assert_allclose(L @ L.T, before + jitter * np.eye(5), atol=1e-14)
    if not overwrite:
        np.testing.assert_array_equal(A, before)


def test_numpy_and_jax_add_the_same_jitter() -> None:
    with jax.enable_x64(True):
        for negative in (-1e-13, -1e-11, -1e-9, -1e-7):
            A = with_spectrum([negative, 1.0, 1.0, 1.0, 2.0])
            ours, theirs = (float(cholesky(a, "A", "help").jitter) for a in (A, jnp.asarray(A)))
            assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_overwriting_a_matrix_that_fails_first(overwrite: bool, order: str) -> None:
    # LAPACK destroys half of the matrix before it fails, at the last row here.
    n = 40
    X = np.random.default_rng(0).normal(size=(n - 1, 3))
    K = mh.Gaussian(1.0)(np.concatenate([X, X[:1]])) + np.diag(np.r_[1e-3, np.full(n - 2, 1e-3), -1e-9])
    K[0, -1] = K[-1, 0] = K[0, 0]
    K[-1, -1] = K[0, 0] - 1e-9
    before = K.copy()
    factor = cholesky(np.array(K, order=order), "K", "help", overwrite=overwrite)
    assert factor.jitter > 0
    L = lower_of(factor)
    np.testing.assert_allclose(L @ L.T, before + factor.jitter * np.eye(n), atol=1e-13)
    b = np.random.default_rng(1).normal(size=n)
    x = factor.solve(b)
    np.testing.assert_allclose((before + factor.jitter * np.eye(n)) @ x, b, atol=1e-5 * np.abs(x).max())


def test_an_indefinite_matrix_is_refused_with_advice(xp) -> None:
    A = with_spectrum([-1.0, 2.0, 3.0, 3.0, 4.0])
    with pytest.raises(
        mh.SingularSystem,
        match=r"K \+ cI \(5×5\) is not positive definite.*-1 to 4 \(condition about 4\.0e\+00\).*Raise it\.",
    ):
        cholesky(xp.asarray(A), "K + cI", "Raise it.")
    assert issubclass(mh.SingularSystem, np.linalg.LinAlgError)


def test_jitter_never_exceeds_its_limit(xp) -> None:
    A = with_spectrum([-1.5e-6, 1.0, 1.0, 1.0, 2.0])  # the next step, 2.2e-6, would do
    with pytest.raises(mh.SingularSystem, match=r"jitter up to 1e-06 of its diagonal did not help"):
        cholesky(xp.asarray(A), "A", "help")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(0, 0), (2, 2), (1, 2)])
@pytest.mark.parametrize("overwrite", [False, True])
def test_entries_that_are_not_finite(xp, value: float, place: tuple[int, int], overwrite: bool) -> None:
    A = 2 * np.eye(5)
    A[place] = A[place[::-1]] = value
    with pytest.raises(
        mh.SingularSystem, match=r"A \(5×5\) has entries that are not finite.*scale of the data"
    ):
        cholesky(xp.asarray(A), "A", "help", overwrite=overwrite)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_matrix_of_zeros(xp, overwrite: bool) -> None:
    with pytest.raises(mh.SingularSystem, match=r"A \(5×5\) is not positive definite.*help"):
        cholesky(xp.zeros((5, 5)), "A", "help", overwrite=overwrite)


def test_under_jit_a_failure_is_nan() -> None:
    # Nothing can be raised there.
    A = with_spectrum([-1.0, 2.0, 3.0, 3.0, 4.0])
    with jax.enable_x64(True):
        assert np.isnan(jax.jit(lambda a: cholesky(a, "A", "help").logdet())(A))


@pytest.mark.slow
def test_single_precision(xp) -> None:
    X = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    K = xp.asarray(mh.Gaussian(1.0)(X))  # numerically of low rank
    factor = cholesky(K, "K", "help")
    assert factor.lower.dtype == np.float32
    assert 0 < float(factor.jitter) < 1e-3
    L = lower_of(factor)
    np.testing.assert_allclose(L @ L.T, K + float(factor.jitter) * np.eye(200), atol=1e-5)


def test_the_search_compiles_once_for_every_shape() -> None:
    from muhat._linalg import _jax_jitter

    with jax.enable_x64(True):
        for seed in range(3):
            cholesky(jnp.asarray(with_spectrum([0.0, 1.0, 2.0, 3.0, 4.0], seed)), "A", "help")
        before = _jax_jitter()._cache_size()
        cholesky(jnp.asarray(with_spectrum([0.5, 1.0, 2.0, 3.0, 4.0])), "A", "help")
        assert _jax_jitter()._cache_size() == before


@pytest.mark.slow
def test_gradient_through_a_jittered_factor() -> None:
    with jax.enable_x64(True):
        U = np.random.default_rng(0).normal(size=(5, 2))

        def logdet(t):  # rank 2 of 5: jitter is needed, and is a constant to the derivative
            return cholesky(jnp.asarray(U @ U.T) * t, "A", "help").logdet()

        assert np.isfinite(jax.grad(logdet)(1.0))


def test_ridge_of_duplicates_needs_no_jitter() -> None:
    # n copies of a point: K is all ones, and the smallest eigenvalue is the ridge alone. The error of a
    # solve is a few times the condition number n/c by the rounding; how many times depends on the BLAS.
    n = 50
    for c in (1e-3, 1e-8, 1e-12):
        ridge = DenseGram(np.ones((n, n))).ridge(c)
        assert ridge.factor.jitter == 0
        np.testing.assert_allclose(ridge.solve(np.ones(n)), 1 / (n + c), rtol=5 * n * EPS / c)
        assert ridge.logdet() == pytest.approx(np.log(n + c) + (n - 1) * np.log(c), rel=1e-4)


def test_a_ridge_below_rounding_reports_its_jitter() -> None:
    X = np.random.default_rng(0).normal(size=(80, 1))
    ridge = mh.Exact().gram(mh.Gaussian(2.0), X).ridge(1e-20)
    assert 0 < ridge.factor.jitter < 1e-12
    assert ridge.factor.condition() > 1e10


@pytest.mark.parametrize("rank", [1, 4, 9])
def test_pivoted_factors(rank: int) -> None:
    U = np.random.default_rng(0).normal(size=(9, rank))
    A = U @ U.T
    F = pivoted_cholesky(A)
    assert F.shape == (9, rank)
    np.testing.assert_allclose(F @ F.T, A, atol=1e-11)
    L, kept = pivoted_factor(A)
    assert L.shape == (rank, rank)
    np.testing.assert_allclose(np.triu(L, 1), 0)
    np.testing.assert_allclose(L @ L.T, A[np.ix_(kept, kept)], atol=1e-11)
