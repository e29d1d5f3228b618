"""Blocks and conjugate gradients: convergence, its report, estimates beyond the dense size, memory."""

from __future__ import annotations

import tracemalloc
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import muhat as mh
from muhat import _threads
from muhat.gram import BlockedGram

N = 300
X = np.random.default_rng(0).normal(size=(N, 2))
KERNEL = mh.Matern(1.5, 0.8)
K = KERNEL(X)
WEIGHTS = np.random.default_rng(1).gamma(1.0, size=N)
B = np.random.default_rng(2).normal(size=(N, 3))


def system(c: float, weights: np.ndarray | None) -> np.ndarray:
    root = np.ones(N) if weights is None else np.sqrt(weights)
    return root[:, None] * K * root + c * np.eye(N)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("tolerance", [1e-4, 1e-8, 1e-12])
def test_report_of_a_solve(tolerance: float, weights: np.ndarray | None) -> None:
    ridge = BlockedGram(KERNEL, X, rank=40, tolerance=tolerance).ridge(0.05, weights)
    assert ridge.report is None
    solution = ridge.solve(B)
    report = ridge.report
    assert report.converged
    assert 0 < report.iterations < 200
    assert report.residual <= tolerance
    # The residual it claims is the residual there is.
    residual = np.linalg.norm(system(0.05, weights) @ solution - B, axis=0) / np.linalg.norm(B, axis=0)
    assert residual.max() == pytest.approx(report.residual, rel=0.05, abs=1e-13)
    assert residual.max() > 1e-5 * tolerance


def test_a_better_preconditioner_needs_fewer_steps() -> None:
    steps = []
    for rank in (1, 20, 150):
        ridge = BlockedGram(KERNEL, X, rank=rank).ridge(0.01)
        ridge.solve(B)
        steps.append(ridge.report.iterations)
    assert steps[0] > 1.5 * steps[1] > 1.5 * steps[2]


def test_giving_up_warns_with_advice_and_reports() -> None:
    ridge = BlockedGram(KERNEL, X, rank=2, max_iterations=3).ridge(1e-4)
    with pytest.warns(
        ConvergenceWarning, match=r"stopped after 3 steps at relative residual .*regulariser.*rank.*max_iter"
    ):
        solution = ridge.solve(B)
    assert not ridge.report.converged
    assert ridge.report.iterations == 3
    residual = np.linalg.norm(system(1e-4, None) @ solution - B, axis=0) / np.linalg.norm(B, axis=0)
    assert ridge.report.residual == pytest.approx(residual.max(), rel=1e-6)


@pytest.mark.slow
def test_giving_up_warns_in_jax_too() -> None:
    with jax.enable_x64(True):
        ridge = BlockedGram(KERNEL, jnp.asarray(X), rank=2, max_iterations=3).ridge(1e-4)
        with pytest.warns(ConvergenceWarning, match=r"stopped after 3 steps.*max_iterations"):
            solution = np.asarray(ridge.solve(jnp.asarray(B)))
    assert not ridge.report.converged
    residual = np.linalg.norm(system(1e-4, None) @ solution - B, axis=0) / np.linalg.norm(B, axis=0)
    assert ridge.report.residual == pytest.approx(residual.max(), rel=1e-6)


def test_enough_steps_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BlockedGram(KERNEL, X, rank=20).ridge(1e-2).solve(B)


def test_columns_converge_one_by_one() -> None:
    # An eigenvector converges at once; the others go on and still come out right.
    _, vectors = np.linalg.eigh(K)
    easy = np.column_stack([vectors[:, -1], B, np.zeros(N)])
    ridge = BlockedGram(KERNEL, X, rank=5, tolerance=1e-10).ridge(0.05)
    np.testing.assert_allclose(
        ridge.solve(easy), np.linalg.solve(system(0.05, None), easy), rtol=1e-6, atol=1e-7
    )


def test_the_same_solve_twice_is_the_same() -> None:
    first, second = (BlockedGram(KERNEL, X, rank=20).ridge(0.05).solve(B) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_estimates_beyond_the_dense_size(monkeypatch: pytest.MonkeyPatch, weights: np.ndarray | None) -> None:
    A = system(0.05, weights)
    logdet, inverse_diag = np.linalg.slogdet(A)[1], np.diagonal(np.linalg.inv(A))
    ridge = BlockedGram(KERNEL, X, rank=60, tolerance=1e-10).ridge(0.05, weights)
    assert ridge.logdet() == pytest.approx(logdet, rel=1e-9)
    np.testing.assert_allclose(ridge.inverse_diag(), inverse_diag, rtol=1e-8)

    monkeypatch.setattr("muhat.gram.iterative.SMALL", 10)
    monkeypatch.setattr(ridge, "dense", lambda: pytest.fail("the dense matrix was asked for"))
    estimate = ridge.logdet()
    assert estimate != pytest.approx(logdet, rel=1e-12)  # an estimate, not the answer
    assert estimate == pytest.approx(logdet, rel=1e-2)
    # Closer than the preconditioner alone, and within the spread of the probes.
    assert abs(estimate - logdet) < 0.3 * abs(ridge.preconditioner.logdet() - logdet)
    assert ridge.logdet(probes=64) == pytest.approx(logdet, rel=5e-3)
    diagonal = ridge.inverse_diag()
    alone = ridge.preconditioner.inverse_diag()
    error, error_alone = (np.sqrt(np.mean((d / inverse_diag - 1) ** 2)) for d in (diagonal, alone))
    assert error < 0.25
    assert error < 0.5 * error_alone
    np.testing.assert_array_equal(diagonal, ridge.inverse_diag())  # a fixed seed


@pytest.mark.slow
def test_more_probes_are_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muhat.gram.iterative.SMALL", 10)
    ridge = BlockedGram(KERNEL, X[:100], rank=10, tolerance=1e-10).ridge(0.05)
    A = K[:100, :100] + 0.05 * np.eye(100)
    logdet, inverse_diag = np.linalg.slogdet(A)[1], np.diagonal(np.linalg.inv(A))

    def spread(probes: int) -> tuple[float, float]:
        """Root mean squared errors, which fall like probes^(-1/2)."""
        a = [(ridge.logdet(probes=probes, seed=s) - logdet) ** 2 for s in range(16)]
        b = [(ridge.inverse_diag(probes=probes, seed=s) - inverse_diag) ** 2 for s in range(4)]
        return float(np.sqrt(np.mean(a))), float(np.sqrt(np.mean(b)))

    few, many = spread(4), spread(64)
    assert many[0] < 0.5 * few[0]
    assert many[1] < 0.4 * few[1]


def test_lanczos_is_exact_when_the_preconditioner_is(monkeypatch: pytest.MonkeyPatch) -> None:
    # Five distinct points: K has rank 5, so that the Krylov space ends after a few steps.
    monkeypatch.setattr("muhat.gram.iterative.SMALL", 10)
    D = np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 10, axis=0)
    ridge = BlockedGram(KERNEL, D, rank=20).ridge(0.1)
    A = KERNEL(D) + 0.1 * np.eye(50)
    assert ridge.logdet() == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-8)
    np.testing.assert_allclose(ridge.inverse_diag(), np.diagonal(np.linalg.inv(A)), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 8])
@pytest.mark.parametrize("d", [2, 40])
def test_products_hold_about_one_block(columns: int, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # On one thread: of two, on a busy core, one may hold a block while it waits.
    monkeypatch.setattr(_threads._inside, "flag", True, raising=False)
    n, block = 3000, 100_000
    points = np.random.default_rng(0).normal(size=(n, d))
    gram = BlockedGram(mh.Gaussian(1.0), points, block_elements=block)
    V = np.ones((n, columns))
    gram @ V  # caches are made outside the count
    tracemalloc.start()
    out = gram @ V
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(out).all()
    rows = 3 * 8 * points.size + 4 * V.nbytes
    assert peak < 3 * 8 * block + rows
    assert peak < 0.15 * 8 * n * n


@pytest.mark.slow
def test_a_solve_holds_no_matrix() -> None:
    n, rank = 2500, 40
    points = np.random.default_rng(0).normal(size=(n, 2))
    gram = BlockedGram(mh.Matern(1.5, 1.0), points, block_elements=100_000, rank=rank)
    tracemalloc.start()
    ridge = gram.ridge(10.0)
    x = ridge.solve(np.ones(n))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ridge.report.converged
    np.testing.assert_allclose(gram @ x + 10.0 * x, 1.0, atol=1e-6)
    assert peak < 0.2 * 8 * n * n
