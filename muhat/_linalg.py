"""Factor once, solve often: Cholesky in NumPy and in JAX, with jitter only when needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from muhat._array import Array, is_traced, namespace

# Jitter starts at rounding error and grows tenfold up to this share of the mean diagonal (in single
# precision, up to 10⁴ rounding errors).
MAX_JITTER = 1e-6


class SingularSystem(np.linalg.LinAlgError):
    """A matrix that must be positive definite is not, even with jitter."""


@dataclass(frozen=True)
class Cholesky:
    """``A + jitter·I = L Lᵀ``.

    Attributes:
        lower: L, of which only the lower triangle is meant.
        jitter: what had to be added to the diagonal, usually 0.
    """

    lower: Array
    jitter: Array

    def solve(self, B: Array) -> Array:
        """``A⁻¹ B`` for ``B`` (n,) or (n, k)."""
        if namespace(self.lower, B) is np:
            from scipy.linalg import get_lapack_funcs

            # SciPy's cho_solve takes longer to look at its arguments than a filter's step should take.
            (potrs,) = get_lapack_funcs(("potrs",), (self.lower, B))
            return potrs(self.lower, B, lower=True)[0]
        from jax.scipy.linalg import cho_solve as jax_cho_solve

        return jax_cho_solve((self.lower, True), B)

    def half_solve(self, B: Array) -> Array:
        """``L⁻¹ B``."""
        if namespace(self.lower, B) is np:
            from scipy.linalg import solve_triangular

            return solve_triangular(self.lower, B, lower=True, check_finite=False)
        from jax.scipy.linalg import solve_triangular as jax_solve_triangular

        return jax_solve_triangular(self.lower, B, lower=True)

    def logdet(self) -> Array:
        """``log det A``."""
        xp = namespace(self.lower)
        return 2 * xp.log(xp.diagonal(self.lower)).sum()

    def inverse_diag(self) -> Array:
        """Diagonal of ``A⁻¹``."""
        if namespace(self.lower) is np:
            from scipy.linalg import get_lapack_funcs

            (potri,) = get_lapack_funcs(("potri",), (self.lower,))
            inverse, _ = potri(self.lower, lower=True)
            return np.diagonal(inverse).copy()
        half = self.half_solve(namespace(self.lower).eye(self.lower.shape[0], dtype=self.lower.dtype))
        return (half**2).sum(axis=0)

    def condition(self) -> float:
        """A cheap estimate (from below) of the condition number of ``A``."""
        diagonal = np.diagonal(np.asarray(self.lower))
        return float((diagonal.max() / diagonal.min()) ** 2)


def cholesky(A: Array, name: str, remedy: str, overwrite: bool = False) -> Cholesky:
    """Cholesky factor of a symmetric positive semi-definite ``A`` (n, n).

    Jitter is tried only when the plain factorisation fails, from rounding error upwards.

    Args:
        A: the matrix; destroyed if ``overwrite``.
        name: what the matrix is, for the error message.
        remedy: what the user can change when it cannot be factored.
        overwrite: whether ``A`` may be destroyed (NumPy only).

    Raises:
        SingularSystem: if no jitter up to ``MAX_JITTER`` of the mean diagonal helps.
    """
    if namespace(A) is not np:
        return _jax_cholesky(A, name, remedy)
    from scipy.linalg import get_lapack_funcs

    (potrf,) = get_lapack_funcs(("potrf",), (A,))
    diagonal = np.diagonal(A).copy()
    scale = float(np.abs(diagonal).mean())
    jitter, step = 0.0, float(np.finfo(A.dtype).eps) * scale
    limit = _max_jitter(A.dtype) * scale
    while True:
        # LAPACK wants columns: the transpose of a symmetric row-major matrix costs nothing.
        work = A.T if overwrite else A.T.copy(order="F")
        if jitter:
            np.fill_diagonal(work, diagonal + jitter)
        lower, info = potrf(work, lower=True, overwrite_a=True, clean=False)
        if info == 0 and np.isfinite(np.diagonal(lower)).all():
            return Cholesky(lower, jitter)
        if info == 0:  # LAPACK lets NaN through
            raise _singular(A, np.diagonal(lower), name, remedy)
        if overwrite:  # potrf reads and wrote the lower triangle of Aᵀ: the other half is intact
            upper = np.triu(A.T, 1)
            A = upper + upper.T
            np.fill_diagonal(A, diagonal)
            overwrite = False
        jitter = step if jitter == 0.0 else jitter * 10
        if not (0 < scale < np.inf) or jitter > limit:
            raise _singular(A, diagonal, name, remedy)


def _max_jitter(dtype: Any) -> float:
    return max(MAX_JITTER, 1e4 * float(np.finfo(dtype).eps))


def _singular(A: np.ndarray, diagonal: np.ndarray, name: str, remedy: str) -> SingularSystem:
    if not np.isfinite(diagonal).all() or not np.isfinite(A).all():
        return SingularSystem(
            f"{name} ({len(A)}×{len(A)}) has entries that are not finite: check the scale of the data "
            f"and of the kernel's parameters."
        )
    values = np.linalg.eigvalsh(A, UPLO="U")
    condition = values[-1] / max(abs(values[0]), 1e-300)
    return SingularSystem(
        f"{name} ({len(A)}×{len(A)}) is not positive definite: its eigenvalues run from "
        f"{values[0]:.3g} to {values[-1]:.3g} (condition about {condition:.1e}), "
        f"and jitter up to {_max_jitter(A.dtype):.2g} of its diagonal did not help. {remedy}"
    )


def _jax_cholesky(A: Array, name: str, remedy: str) -> Cholesky:
    import jax
    import jax.numpy as jnp

    # The search is not differentiated: jitter is a constant of the problem.
    jitter = _jax_jitter()(jax.lax.stop_gradient(A))
    lower = jnp.linalg.cholesky(A + jitter * jnp.eye(A.shape[0], dtype=A.dtype))
    if not is_traced(lower) and not bool(jnp.isfinite(lower).all()):
        dense = np.asarray(A, dtype=np.float64)
        raise _singular(dense, np.diagonal(dense), name, remedy)
    return Cholesky(lower, jitter)


@cache
def _jax_jitter() -> Callable[[Array], Array]:
    """The least jitter with which ``A`` has a Cholesky factor, compiled once for every shape."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def find(A: Array) -> Array:
        scale = jnp.abs(jnp.diagonal(A)).mean()
        limit, eye = _max_jitter(A.dtype) * scale, jnp.eye(A.shape[0], dtype=A.dtype)

        def failed(jitter: Array) -> Array:
            return ~jnp.isfinite(jnp.linalg.cholesky(A + jitter * eye)).all()

        def harder(jitter: Array) -> Array:
            return jnp.where(jitter == 0, jnp.finfo(A.dtype).eps * scale, 10 * jitter)

        return jax.lax.while_loop(
            lambda jitter: failed(jitter) & (harder(jitter) <= limit) & (scale > 0) & (scale < jnp.inf),
            harder,
            jnp.zeros((), dtype=A.dtype),
        )

    return find


def pivoted_cholesky(A: np.ndarray, tolerance: float = 1e-12) -> np.ndarray:
    """``F`` (n, r) with ``F Fᵀ = A`` up to ``tolerance`` times the largest diagonal entry, r ≤ n."""
    lower, pivots, rank = _pivoted(A, tolerance)
    factor = np.empty((len(A), rank), A.dtype)
    factor[pivots] = lower[:, :rank]
    return factor


def pivoted_factor(A: np.ndarray, tolerance: float = 1e-12) -> tuple[np.ndarray, np.ndarray]:
    """``L`` (r, r) and r indices with ``L Lᵀ = A[kept, kept]``, whose columns span those of ``A``."""
    lower, pivots, rank = _pivoted(A, tolerance)
    return np.asfortranarray(lower[:rank, :rank]), pivots[:rank]


def _pivoted(A: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray, int]:
    from scipy.linalg import get_lapack_funcs

    (pstrf,) = get_lapack_funcs(("pstrf",), (A,))
    largest = float(np.diagonal(A).max())
    if not (np.isfinite(A).all() and largest > 0):
        raise SingularSystem(
            f"A kernel matrix ({len(A)}×{len(A)}) is zero or not finite: check the scale of the data and "
            "of the kernel's parameters."
        )
    tolerance = max(tolerance, 10 * float(np.finfo(A.dtype).eps))
    lower, pivots, rank, _ = pstrf(A.T, tol=tolerance * largest, lower=True)
    return np.tril(lower), pivots - 1, int(rank)
