"""Bayes' rule by importance weighting [X22, Alg. 1].

The pairs are reweighted to look as if z came from the prior, and z is regressed on x: ``E_Q = argmin (1/n)
Σᵢ r̂ᵢ ‖φ(zᵢ) − E*ψ(xᵢ)‖² + λ‖E‖²`` with ``r̂ = max(0, γ)``. Weights on the z of the pairs:
``w = √D (√D G_X √D + λI)⁻¹ √D k(X, x)``, ``D = diag(r̂)/n``. (As printed, Alg. 1 has D = diag(r̂) with λ,
which is λ/n on the operator scale; see the errata.)
"""

from __future__ import annotations

import numpy as np

from muhat._array import Array, is_traced, namespace
from muhat.gram import Factored, Gram, as_dense
from muhat.operators.bayes.pairs import Pairs, Prior, check_overlap

NAME = "importance"
ON_PRIOR = False  # weights are on the z of the pairs
SQUARED = False
# Ratios below this share of the largest are dropped with the negative ones.
NEGLIGIBLE = 1e-10


def posterior_weights(pairs: Pairs, prior: Prior, cross: Array | Factored, reg: float) -> Array:
    """Weights (batch, n) of the posteriors given observations with ``k(X, x)`` (n, batch)."""
    return weighted_regression(pairs.gram_x, truncate(pairs.ratio(prior)) / len(pairs), cross, reg)


def truncate(ratio: Array) -> Array:
    """``max(0, γ)`` [X22, Alg. 1, step 2]."""
    if not is_traced(ratio):
        check_overlap(ratio)
    return namespace(ratio).maximum(ratio, 0.0)


def weighted_regression(gram_x: Gram, D: Array, cross: Array | Factored, reg: float) -> Array:
    """``√D (√D G_X √D + λI)⁻¹ √D k(X, x)``, (batch, n), solved on the rows of D (n,) that are not zero."""
    if namespace(D) is not np:
        return as_dense(gram_x.ridge(reg, D).regress(cross)).T
    active = np.flatnonzero(D > NEGLIGIBLE * D.max())
    batch = cross.shape[1]
    out = np.zeros((batch, len(D)))
    if len(active) == len(D):
        out[:] = as_dense(gram_x.ridge(reg, D).regress(cross)).T
        return out
    part = gram_x.take(active)
    ridge = part.ridge(reg, D[active])
    if isinstance(cross, Factored):
        right = ridge.regress(Factored(part.Phi, cross.right))  # type: ignore[attr-defined]
        out[:, active] = as_dense(right).T
    else:
        out[:, active] = as_dense(ridge.regress(np.asfortranarray(cross[active]))).T
    return out
