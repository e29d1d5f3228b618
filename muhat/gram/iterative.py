"""A ridge by preconditioned conjugate gradients, for Grams that are only ever multiplied with."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from muhat._array import Array, Namespace, is_traced, namespace
from muhat.gram.base import Factored, Ridge

# Up to this size (128 MB) determinants and inverse diagonals are exact, from the dense matrix.
SMALL = 4096


@dataclass(frozen=True)
class Convergence:
    """How an iterative solve ended.

    Attributes:
        converged: whether every right-hand side reached the tolerance.
        iterations: how many steps were taken (−1 in JAX, where they are not kept).
        residual: the largest relative residual ‖b − Ax‖/‖b‖ over the right-hand sides.
    """

    converged: bool
    iterations: int
    residual: float


class IterativeRidge(Ridge):
    """``A = √D K √D + c I`` known only through products.

    Args:
        product: B ↦ K B.
        n: size.
        c: the ridge.
        root_weights: √D, or None.
        preconditioner: a ridge of an approximation of K, whose ``solve`` is cheap.
        dense: makes the exact ridge in memory: for small n, and for determinants under JAX.
        xp: the namespace of the Gram.
        tolerance: relative residual at which a solve stops.
        max_iterations: where it gives up (with a warning).

    Attributes:
        report: :class:`Convergence` of the latest solve.
    """

    def __init__(
        self,
        product: Callable[[Array], Array],
        n: int,
        c: Array,
        root_weights: Array | None,
        preconditioner: Ridge,
        dense: Callable[[], Ridge],
        xp: Namespace,
        tolerance: float = 1e-10,
        max_iterations: int = 1000,
    ) -> None:
        self.product, self.n, self.c, self.root_weights = product, n, c, root_weights
        self.preconditioner, self.dense, self.xp = preconditioner, dense, xp
        self.tolerance, self.max_iterations = tolerance, max_iterations
        self.report: Convergence | None = None

    def apply(self, B: Array) -> Array:
        """``A B``."""
        s = self.root_weights
        if s is None:
            return self.product(B) + self.c * B
        s = s[:, None] if B.ndim == 2 else s
        return s * self.product(s * B) + self.c * B

    def solve(self, B: Array | Factored) -> Any:
        if isinstance(B, Factored):
            return Factored(self.solve(B.left), B.right)
        if B.ndim == 1:
            return self.solve(B[:, None])[:, 0]
        if self.xp is np and namespace(B) is np:
            X, steps, residuals = self._conjugate_gradients(B)
            self._report(steps, residuals, self.tolerance)
            return X
        return self._jax_solve(B)

    def _conjugate_gradients(self, B: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
        """All right-hand sides at once; a column that has converged drops out."""
        size = np.linalg.norm(B, axis=0)
        size[size == 0] = 1.0
        out = np.zeros(B.shape)
        active = np.arange(B.shape[1])
        X, R = np.zeros(B.shape), np.array(B)
        Z = self.preconditioner.solve(R)
        P, rz = Z.copy(), (R * Z).sum(axis=0)
        residuals = np.linalg.norm(R, axis=0) / size
        for step in range(1, self.max_iterations + 1):
            AP = self.apply(P)
            curvature = (P * AP).sum(axis=0)
            alpha = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
            X += alpha * P
            R -= alpha * AP
            residuals[active] = np.linalg.norm(R, axis=0) / size[active]
            open_ = residuals[active] > self.tolerance
            out[:, active] = X
            if not open_.any():
                return out, step, residuals
            if not open_.all():
                active, X, R, P, rz = (
                    active[open_],
                    X[:, open_],
                    R[:, open_],
                    P[:, open_],
                    rz[open_],
                )
            Z = self.preconditioner.solve(R)
            rz, previous = (R * Z).sum(axis=0), rz
            P = Z + np.divide(rz, previous, out=np.zeros_like(rz), where=previous > 0) * P
        return out, self.max_iterations, residuals

    def _report(self, steps: int, residuals: np.ndarray, tolerance: float) -> None:
        worst = float(residuals.max(initial=0.0))
        self.report = Convergence(worst <= tolerance, steps, worst)
        if not self.report.converged:
            from sklearn.exceptions import ConvergenceWarning  # all else in a Gram does without scikit-learn

            shown = self.max_iterations if steps < 0 else steps
            warnings.warn(
                f"Conjugate gradients stopped after {shown} steps at relative residual {worst:.1e} "
                f"(tolerance {tolerance:g}): raise the regulariser, the rank of the "
                "preconditioner, or max_iterations.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _jax_solve(self, B: Array) -> Array:
        import jax

        # Below rounding error the recursion drifts away again.
        tolerance = max(self.tolerance, 1e4 * float(np.finfo(B.dtype).eps))

        def run(apply: Callable[[Array], Array], b: Array) -> Array:
            precondition = self.preconditioner.solve
            return _jax_conjugate_gradients(apply, b, precondition, tolerance, self.max_iterations)

        # The derivative of a solve is another solve: no step of the iteration is differentiated.
        X = jax.lax.custom_linear_solve(self.apply, B, run, symmetric=True)
        if not is_traced(X):
            residual = self.apply(X) - B
            size = np.linalg.norm(np.asarray(B), axis=0)
            residuals = np.linalg.norm(np.asarray(residual), axis=0) / np.where(size > 0, size, 1)
            self._report(-1, residuals, 10 * tolerance)  # steps are not kept
        return X

    def logdet(self, probes: int = 16, steps: int = 40, seed: int = 0) -> Array:
        """``log det A``; exact for small n, else by stochastic Lanczos quadrature.

        The preconditioner takes the large part exactly; the trace of what remains is averaged over
        ``probes`` random vectors.
        """
        if self.n <= SMALL or self.xp is not np:
            return self.dense().logdet()
        from muhat.gram.lowrank import LowRankRidge

        if not isinstance(self.preconditioner, LowRankRidge):
            return self.dense().logdet()
        half = _inverse_root(self.preconditioner)
        Q = np.random.default_rng(seed).choice([-1.0, 1.0], size=(self.n, probes))
        values = _lanczos_log(lambda V: half(self.apply(half(V))), Q, steps)
        return self.preconditioner.logdet() + values.mean()

    def inverse_diag(self, probes: int = 64, seed: int = 0) -> Array:
        """Diagonal of ``A⁻¹``; exact for small n, else the preconditioner's plus an average.

        The difference ``A⁻¹ − P⁻¹`` is estimated by Hutchinson's method with ``probes`` vectors.
        """
        if self.n <= SMALL or self.xp is not np:
            return self.dense().inverse_diag()
        Z = np.random.default_rng(seed).choice([-1.0, 1.0], size=(self.n, probes))
        difference = self.solve(Z) - self.preconditioner.solve(Z)
        return self.preconditioner.inverse_diag() + (Z * difference).mean(axis=1)


def _jax_conjugate_gradients(
    apply: Callable[[Array], Array],
    B: Array,
    precondition: Callable[[Array], Array],
    tolerance: float,
    max_iterations: int,
) -> Array:
    import jax
    import jax.numpy as jnp

    size = jnp.linalg.norm(B, axis=0)

    def ratio(a: Array, b: Array) -> Array:
        return jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), 0.0)

    def going(state: tuple) -> Array:
        step, _, R, _, _ = state
        return (step < max_iterations) & (jnp.linalg.norm(R, axis=0) > tolerance * size).any()

    def advance(state: tuple) -> tuple:
        step, X, R, P, rz = state
        AP = apply(P)
        alpha = ratio(rz, (P * AP).sum(axis=0))
        X, R = X + alpha * P, R - alpha * AP
        Z = precondition(R)
        new = (R * Z).sum(axis=0)
        return step + 1, X, R, Z + ratio(new, rz) * P, new

    Z = precondition(B)
    start = (0, jnp.zeros_like(B), B, Z, (B * Z).sum(axis=0))
    return jax.lax.while_loop(going, advance, start)[1]


def _inverse_root(ridge: Ridge) -> Callable[[np.ndarray], np.ndarray]:
    """``(ΦΦᵀ + cI)^{-1/2}`` as a function, from the eigenvectors of ΦᵀΦ."""
    Phi, c = ridge.Phi, float(ridge.c)  # type: ignore[attr-defined]
    s, V = np.linalg.eigh(Phi.T @ Phi)
    outer = np.sqrt(np.maximum(s, 0) + c)
    shrink = -1 / (outer * np.sqrt(c) * (np.sqrt(c) + outer))  # ((s+c)^{-1/2} − c^{-1/2}) / s
    U = Phi @ V
    return lambda X: X / np.sqrt(c) + U @ (shrink[:, None] * (U.T @ X))


def _lanczos_log(apply: Callable[[np.ndarray], np.ndarray], Z: np.ndarray, steps: int) -> np.ndarray:
    """``zᵀ log(M) z`` for every column z of ``Z``, by Lanczos with full reorthogonalisation."""
    n, k = Z.shape
    steps = min(steps, n)
    norms = np.linalg.norm(Z, axis=0)
    basis = [Z / norms]
    alpha, beta = np.zeros((steps, k)), np.zeros((steps, k))
    for j in range(steps):
        W = apply(basis[j])
        alpha[j] = (basis[j] * W).sum(axis=0)
        for _ in range(2):
            for V in basis:
                W = W - V * (V * W).sum(axis=0)
        beta[j] = np.linalg.norm(W, axis=0)
        basis.append(W / np.maximum(beta[j], 1e-300))
    out = np.empty(k)
    for i in range(k):
        # The Krylov space ends where beta vanishes.
        end = int(np.argmax(np.append(beta[:, i], 0.0) < 1e-10 * max(1.0, abs(alpha[0, i])))) + 1
        end = min(end, steps)
        T = np.diag(alpha[:end, i]) + np.diag(beta[: end - 1, i], 1) + np.diag(beta[: end - 1, i], -1)
        values, vectors = np.linalg.eigh(T)
        out[i] = norms[i] ** 2 * (vectors[0] ** 2 @ np.log(np.maximum(values, 1e-300)))
    return out
