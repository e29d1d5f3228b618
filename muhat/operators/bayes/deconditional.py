"""The deconditional mean operator read as Bayes' rule [HR19, Def. 4.3, §6].

``m = (Ĉ_{X|Z} C̃_ZZ)* (Ĉ_{X|Z} C̃_ZZ Ĉ_{X|Z}* + εI)⁻¹ ψ(x)`` with ``C̃_ZZ = Σⱼ αⱼ φ(z̃ⱼ)⊗φ(z̃ⱼ)``. With
``M = Ĉ_{X|Z} [φ(z̃₁) …]``, the expected features of x at the prior's points, the weights on these are
``α Mᵀ (M α Mᵀ + εI)⁻¹ ψ(x)`` [HR19, Thm. 4.3].

It is Bayes' rule only where X is a function of Z: the evidence operator takes the spread of x given z for
zero, so that with noise the posterior leans too little on the prior (see the errata).
"""

from __future__ import annotations

from muhat._array import Array, namespace, root
from muhat.gram import Factored
from muhat.operators.bayes.pairs import Pairs, Prior
from muhat.operators.deconditional import deconditional_weights

NAME = "deconditional"
ON_PRIOR = True
SQUARED = False


def posterior_weights(pairs: Pairs, prior: Prior, cross: Array | Factored, reg: float) -> Array:
    """Weights (batch, m) on the prior's points given observations with ``k(X, x)`` (n, batch)."""
    features = pairs.factor_x
    A = pairs.ridge_z.regress(prior.cross)  # (n, m)
    M = features.Phi.T @ A
    s = root(prior.mass, namespace(M))
    W = deconditional_weights((M * s).T, features.project(cross), reg)
    return (s[:, None] * W).T
