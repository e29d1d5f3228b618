"""The gradient of the full marginal likelihood [HR19, Thm. 5.3 (2)–(3)] in the kernel matrices, by hand.

Twice as fast as to differentiate through its factors: every product is needed once, and BLAS makes it. For
the other forms, two functions of matrices in JAX whose derivatives avoid those of a Cholesky factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import log, pi
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, get_lapack_funcs

from muhat._array import Array


class Matrices(NamedTuple):
    """What the likelihood depends on, or its derivatives in them.

    Attributes:
        K: k(x, x), (n, n).
        L: ℓ(y, y), (n, n).
        cross: ℓ(y, ỹ), (n, m).
        prior: ℓ(ỹ, ỹ), (m, m).
        variance: σ².
    """

    K: np.ndarray
    L: np.ndarray
    cross: np.ndarray
    prior: np.ndarray
    variance: np.ndarray


def full_log_likelihood(at: Matrices, z: np.ndarray) -> tuple[float, Matrices | None]:
    """``log N(z; 0, S)`` and its derivatives; NaN and None where a matrix is not positive definite.

    With ``N = (L + σ²I)⁻¹`` and ``A = N ℓ(y, ỹ)``, ``S = Aᵀ(KA − ℓ(y, ỹ)) + ℓ(ỹ, ỹ) + σ²I``. With
    ``S' = ∂/∂S = ½(aaᵀ − S⁻¹)``, ``a = S⁻¹z``, and ``E = A S' Aᵀ``, the derivatives are E in K, S' in
    ℓ(ỹ, ỹ), ``2(NK − I) A S'`` in ℓ(y, ỹ) and ``E − NKE − EKN`` in L.
    """
    K, L, cross, prior, variance = at
    n, m = cross.shape
    potrf, potri = get_lapack_funcs(("potrf", "potri"), (K,))
    lower, failed = potrf(L + variance * np.eye(n), lower=True, overwrite_a=True, clean=False)
    if failed:
        return float("nan"), None
    A = cho_solve((lower, True), cross, check_finite=False)
    S = A.T @ (K @ A - cross)
    S += prior
    S[np.diag_indices(m)] += variance
    root, failed = potrf(S.T, lower=True, overwrite_a=True, clean=False)
    if failed or not np.isfinite(root[-1, -1]):
        return float("nan"), None
    a = cho_solve((root, True), z, check_finite=False)
    if not np.abs(a).max() < 1e150:
        return float("nan"), None
    value = -0.5 * (z @ a + 2 * np.log(np.diagonal(root)).sum() + m * log(2 * pi))
    slope, _ = potri(root, lower=True, overwrite_c=True)
    slope = np.tril(slope)
    slope = 0.5 * (np.outer(a, a) - (slope + np.tril(slope, -1).T))
    D = A @ slope
    E = D @ A.T
    NK = cho_solve((lower, True), K, check_finite=False)
    T = NK @ E
    in_L = E - T - T.T
    NK[np.diag_indices(n)] -= 1
    in_variance = np.trace(slope) + np.trace(in_L)
    return float(value), Matrices(E, in_L, 2 * (NK @ D), slope, np.asarray(in_variance))


@dataclass(frozen=True)
class Smooth:
    """Two functions of matrices whose derivatives need one inverse, not those of a Cholesky factor."""

    inverse: Callable[[Array], Array]
    logpdf: Callable[[Array, Array], Array]


@cache
def smooth() -> Smooth:
    """The two functions, made when JAX is there."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import cho_solve

    def solve(lower: Array) -> Array:
        return cho_solve((lower, True), jnp.eye(lower.shape[0], dtype=lower.dtype))

    @jax.custom_vjp
    def inverse(A: Array) -> Array:
        return solve(jnp.linalg.cholesky(A))

    def inverse_forward(A: Array) -> tuple[Array, Array]:
        out = inverse(A)
        return out, out

    def inverse_backward(out: Array, bar: Array) -> tuple[Array]:
        return (-out @ bar @ out,)

    inverse.defvjp(inverse_forward, inverse_backward)

    @jax.custom_vjp
    def logpdf(S: Array, z: Array) -> Array:
        return logpdf_forward(S, z)[0]

    def logpdf_forward(S: Array, z: Array) -> tuple[Array, tuple[Array, Array]]:
        lower = jnp.linalg.cholesky(S)
        solved = cho_solve((lower, True), z)
        logdet = 2 * jnp.log(jnp.diagonal(lower)).sum()
        return -0.5 * (z @ solved + logdet + len(z) * log(2 * pi)), (lower, solved)

    def logpdf_backward(kept: tuple[Array, Array], bar: Array) -> tuple[Array, Array]:
        lower, solved = kept
        return 0.5 * bar * (jnp.outer(solved, solved) - solve(lower)), -bar * solved

    logpdf.defvjp(logpdf_forward, logpdf_backward)
    return Smooth(inverse, logpdf)


__all__ = ["Matrices", "Smooth", "full_log_likelihood", "smooth"]
