"""Bayes' rule by importance weighting [X22, Alg. 1].

The pairs are reweighted to look as if z came from the prior, and z is regressed on x: ``E_Q = argmin (1/n)
Σᵢ r̂ᵢ ‖φ(zᵢ) − E*ψ(xᵢ)‖² + λ‖E‖²`` with ``r̂ = max(0, γ)``. Weights on the z of the pairs:
``w = √D (√D G_X √D + λI)⁻¹ √D k(X, x)``, ``D = diag(r̂)/n``. (As printed, Alg. 1 has D = diag(r̂) with λ,
which is λ/n on the operator scale; see the errata.)
"""

from __future__ import annotations

import numpy as np

from muhat._array import Array, namespace
from muhat._linalg import cholesky
from muhat.gram import Factored, Gram, LowRankGram, as_dense
from muhat.gram.lowrank import second_moment
from muhat.operators.bayes.pairs import Pairs, Prior, truncate

NAME = "importance"
ON_PRIOR = False  # weights are on the z of the pairs
SQUARED = False
# Ratios below this share of the largest are dropped with the negative ones.
NEGLIGIBLE = 1e-10


def posterior_weights(pairs: Pairs, prior: Prior, cross: Array | Factored, reg: float) -> Array:
    """Weights (batch, n) of the posteriors given observations with ``k(X, x)`` (n, batch)."""
    return weighted_regression(pairs.gram_x, pairs.truncated(prior) / len(pairs), cross, reg)


def weighted_regression(gram_x: Gram, D: Array, cross: Array | Factored, reg: float) -> Array:
    """``√D (√D G_X √D + λI)⁻¹ √D k(X, x)``, (batch, n), solved on the rows of D (n,) that are not zero."""
    parts = (cross.left, cross.right) if isinstance(cross, Factored) else (cross,)
    if namespace(D, reg, *parts) is not np:
        return as_dense(gram_x.ridge(reg, D).regress(cross)).T
    D = np.where(NEGLIGIBLE * D.max() < D, D, 0.0)
    if isinstance(gram_x, LowRankGram) and isinstance(cross, Factored) and cross.left is gram_x.Phi:
        # D Ψ (ΨᵀDΨ + λI)⁻¹ ψ(x): one weighted product and a p×p solve.
        C = second_moment(gram_x.Phi, D)
        C[np.diag_indices(len(C))] += reg
        b = cholesky(C, "ΨᵀDΨ + λI", "Raise reg.", overwrite=True).solve(cross.right)
        return (D[:, None] * (gram_x.Phi @ b)).T
    active = np.flatnonzero(D)
    out = np.zeros((cross.shape[1], len(D)))
    part = gram_x if len(active) == len(D) else gram_x.take(active)
    seen = as_dense(cross)[active]
    out[:, active] = as_dense(part.ridge(reg, D[active]).regress(np.asfortranarray(seen))).T
    return out


__all__ = ["NAME", "ON_PRIOR", "SQUARED", "posterior_weights", "truncate", "weighted_regression"]
