"""Kernel Bayes' rule as first given [FSG13, Thm. 5; X22, eq. (2)]; KBR(b) of [SFG13].

``m = Ĉ_ZX (Ĉ_XX² + δI)⁻¹ Ĉ_XX ψ(x)`` with ``Ĉ_ZX = Σᵢ (γᵢ/n) φ(zᵢ)⊗ψ(xᵢ)`` and ``Ĉ_XX`` likewise. γ may be
negative, so that Ĉ_XX is not positive: hence the square.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from muhat._array import Array, namespace
from muhat._linalg import cholesky
from muhat.gram import Factored
from muhat.operators.bayes.pairs import Pairs, Prior, check_overlap

NAME = "kbr_b"
ON_PRIOR = False
SQUARED = True  # the regulariser is added to a squared operator


def posterior_weights(pairs: Pairs, prior: Prior, cross: Array | Factored, reg: float) -> Array:
    """Weights (batch, n) on the z of the pairs given observations with ``k(X, x)`` (n, batch)."""
    D = pairs.ratio(prior) / len(pairs)
    check_overlap(D)
    features = pairs.factor_x
    b = squared_solve(second_moment(features.Phi, D), features.project(cross), reg)
    return (D[:, None] * (features.Phi @ b)).T


def second_moment(Phi: Array, D: Array) -> Array:
    """``Σᵢ dᵢ ψ(xᵢ)⊗ψ(xᵢ)``, (r, r), for weights of any sign."""
    return Phi.T @ (D[:, None] * Phi)


def squared_solve(C: Array, phi: Array, reg: float) -> Array:
    """``(C² + δI)⁻¹ C φ`` for symmetric C (r, r) and φ (r, batch)."""
    xp = namespace(C, phi, reg)
    right = C @ phi
    if xp is not np:
        A = C @ C + reg * xp.eye(C.shape[0], dtype=C.dtype)
        return cholesky(A, "Ĉ_XX² + δI", "Raise reg.").solve(right)
    # One half of the square is enough, and a filter does this at every step: straight to BLAS and LAPACK.
    syrk, posv = _routines(np.result_type(C, phi).char)
    half = syrk(1.0, C.T, lower=True)
    half[np.diag_indices(len(half))] += reg
    _, found, info = posv(half, right, lower=True, overwrite_a=True)
    if info == 0 and np.isfinite(found).all():
        return found
    A = C @ C.T
    A[np.diag_indices(len(A))] += reg
    return cholesky(A, "Ĉ_XX² + δI", "Raise reg.", overwrite=True).solve(right)


@cache
def _routines(dtype: str) -> tuple[Any, Any]:
    empty = np.empty((0, 0), dtype)
    (syrk,), (posv,) = get_blas_funcs(("syrk",), (empty,)), get_lapack_funcs(("posv",), (empty,))
    return syrk, posv
