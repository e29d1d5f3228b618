"""Kernel Bayes' rule as first given [FSG13, Thm. 5; X22, eq. (2)]; KBR(b) of [SFG13].

``m = Ĉ_ZX (Ĉ_XX² + δI)⁻¹ Ĉ_XX ψ(x)`` with ``Ĉ_ZX = Σᵢ (γᵢ/n) φ(zᵢ)⊗ψ(xᵢ)`` and ``Ĉ_XX`` likewise. γ may be
negative, so that Ĉ_XX is not positive: hence the square.
"""

from __future__ import annotations

import numpy as np

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
    A = C @ C.T  # BLAS makes one half of a product like this
    if xp is np:
        A[np.diag_indices(len(A))] += reg
    else:
        A = A + reg * xp.eye(C.shape[0], dtype=C.dtype)
    return cholesky(A, "Ĉ_XX² + δI", "Raise reg.", overwrite=True).solve(C @ phi)
