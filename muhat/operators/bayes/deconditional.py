"""The deconditional mean operator read as Bayes' rule [HR19, Def. 4.3, §6].

``m = (Ĉ_{X|Z} C̃_ZZ)* (Ĉ_{X|Z} C̃_ZZ Ĉ_{X|Z}* + εI)⁻¹ ψ(x)`` with ``C̃_ZZ = Σⱼ αⱼ φ(z̃ⱼ)⊗φ(z̃ⱼ)``. With
``M = Ĉ_{X|Z} [φ(z̃₁) …]``, the expected features of x at the prior's points, the weights on these are
``α Mᵀ (M α Mᵀ + εI)⁻¹ ψ(x)`` [HR19, Thm. 4.3].

It is Bayes' rule only where X is a function of Z: the evidence operator takes the spread of x given z for
zero, so that with noise the posterior leans too little on the prior (see the errata).
"""

from __future__ import annotations

from typing import Any

from muhat._array import Array, namespace, root
from muhat._linalg import Cholesky, cholesky
from muhat.gram import Factored
from muhat.operators.bayes.pairs import Pairs, Prior

NAME = "deconditional"
ON_PRIOR = True
SQUARED = False


def posterior_weights(pairs: Pairs, prior: Prior, cross: Array | Factored, reg: float) -> Array:
    """Weights (batch, m) on the prior's points given observations with ``k(X, x)`` (n, batch)."""
    features = pairs.factor_x
    A = pairs.ridge_z.regress(prior.cross)  # (n, m)
    M = features.Phi.T @ A
    xp = namespace(M)
    s = root(prior.mass, xp)
    M = M * s
    # The smaller of the two systems; both are symmetric and positive.
    if M.shape[0] <= M.shape[1]:
        factor = _factor(M @ M.T, reg, xp)
        return (s[:, None] * (M.T @ factor.solve(features.project(cross)))).T
    factor = _factor(M.T @ M, reg, xp)
    return (s[:, None] * factor.solve(M.T @ features.project(cross))).T


def _factor(S: Array, reg: float, xp: Any) -> Cholesky:
    return cholesky(S + reg * xp.eye(S.shape[0], dtype=S.dtype), "M α Mᵀ + εI", "Raise reg.", overwrite=True)
