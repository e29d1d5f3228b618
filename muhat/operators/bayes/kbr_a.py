"""KBR(a) of [SFG13]: the joint by the chain rule, so that the posterior lies on the prior's points.

``m = Ĉ^π_ZX (Ĉ_XX² + δI)⁻¹ Ĉ_XX ψ(x)`` with ``Ĉ^π_ZX = Ĉ^π_ZZ (Ĉ_ZZ + ηI)⁻¹ Ĉ_ZX``: z̃ⱼ has the weight αⱼ
times the regression on z of the observation's features, at z̃ⱼ. Ĉ_XX is that of KBR(b).
"""

from __future__ import annotations

from muhat._array import Array
from muhat.gram import Factored
from muhat.operators.bayes.kbr_b import second_moment, squared_solve
from muhat.operators.bayes.pairs import Pairs, Prior, check_overlap

NAME = "kbr_a"
ON_PRIOR = True  # weights are on the points of the prior
SQUARED = True  # the regulariser is added to a squared operator


def posterior_weights(pairs: Pairs, prior: Prior, cross: Array | Factored, reg: float) -> Array:
    """Weights (batch, m) on the prior's points given observations with ``k(X, x)`` (n, batch)."""
    D = pairs.ratio(prior) / len(pairs)
    check_overlap(D)
    features = pairs.factor_x
    b = squared_solve(second_moment(features.Phi, D), features.project(cross), reg)
    # (G_Z + nηI)⁻¹ is symmetric: k(z̃, Z) (G_Z + nηI)⁻¹ f is the regression of f, at z̃.
    regression = pairs.ridge_z.regress(prior.cross).T @ (features.Phi @ b)
    return (prior.weights[:, None] * regression).T
