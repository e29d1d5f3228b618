"""Posterior weights from simulations (θᵢ, xᵢ), one function a method; observations y come as rows.

Methods that know no prior but that of the simulations have weights on the θᵢ; the others on prior points.
"""

from __future__ import annotations

import numpy as np

from muhat._array import Array
from muhat.gram import Gram, as_dense
from muhat.kernels.base import Kernel
from muhat.operators.bayes import RULES, Pairs, Prior
from muhat.operators.conditional import conditional_ridge, conditional_weights


def rejection_weights(distances: np.ndarray, share: float) -> np.ndarray:
    """Equal weights on the nearest share of the simulations, (q, n), for distances (q, n) of x to y.

    Simulations at the same distance that are not all within the share have what is left of it together: which
    of them comes first says nothing.
    """
    n = distances.shape[1]
    count = min(n, max(1, round(share * n)))
    last = np.partition(distances, count - 1, axis=1)[:, [count - 1]]
    # Rounding is that of the distance, and that of the terms it is a difference of: they are of typical size.
    typical = np.partition(distances, n // 2, axis=1)[:, [n // 2]]
    slack = np.where(np.isfinite(last + typical), 1e-12 * np.abs(last) + 1e-14 * typical, 0.0)
    nearer = distances < last - slack
    level = (distances >= last - slack) & (distances <= last + slack)
    left = count - nearer.sum(axis=1, keepdims=True)
    return (nearer + level * left / level.sum(axis=1, keepdims=True)) / count


def k2abc_weights(squared_mmd: np.ndarray, scale: float) -> np.ndarray:
    """``wᵢ ∝ exp(−MMD²(y, xᵢ)/ε)`` [PJS16, eq. (4)], (q, n), for squared distances (q, n)."""
    W = np.exp(-(squared_mmd - squared_mmd.min(axis=1, keepdims=True)) / scale)
    return W / W.sum(axis=1, keepdims=True)


def squared_mmd(kernel: Kernel, y: Array, X: Array) -> np.ndarray:
    """``k(y, y) + k(x, x) − 2k(y, x)``, (q, n): the squared MMD of the point masses at y and at x."""
    own, theirs = np.asarray(kernel.diag(y)), np.asarray(kernel.diag(X))
    return np.maximum(own[:, None] + theirs - 2 * np.asarray(kernel(y, X)), 0.0)


def kabc_weights(gram_x: Gram, cross: Array, reg: float) -> np.ndarray:
    """``(K + nλI)⁻¹ k(X, y)`` [NFM13]: the conditional mean embedding of θ given x, (q, n)."""
    return np.asarray(as_dense(conditional_weights(conditional_ridge(gram_x, reg), cross)))


def dme_weights(
    gram_theta: Gram, gram_x: Gram, prior: Prior, cross: Array, reg: float, reg_prior: float
) -> np.ndarray:
    """``Aᵀ [K A Aᵀ + mδI]⁻¹ k(y)`` on the prior's points, (q, m) [HR19, Alg. 8.1, line 5].

    ``A = (L + nλI)⁻¹ L̃`` with λ = ``reg_prior`` and δ = ``reg``: the deconditional rule.
    """
    pairs = Pairs(gram_x, gram_theta, reg_prior)
    return np.asarray(RULES["deconditional"].posterior_weights(pairs, prior, cross, reg))


def surrogate_likelihood(gram_theta: Gram, prior_cross: Array, kappa: np.ndarray, reg: float) -> np.ndarray:
    """``κ_ε(y, X) (L + nλI)⁻¹ ℓ(Θ, θ̃)``: the kernel means likelihood at the prior's points, (q, m) [HRA19].

    Args:
        gram_theta: L.
        prior_cross: ``ℓ(Θ, θ̃)``, (n, m).
        kappa: ``κ_ε(y, xᵢ)``, (q, n).
        reg: λ.
    """
    A = as_dense(gram_theta.ridge(len(gram_theta) * reg).regress(prior_cross))
    return kappa @ np.asarray(A)


def kelfi_weights(likelihood: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``wⱼ ∝ αⱼ max(q(y | θ̃ⱼ), 0)``, (q, m); the prior itself where the likelihood is positive nowhere."""
    W = weights * np.maximum(likelihood, 0.0)
    total = W.sum(axis=1, keepdims=True)
    return np.where(total > 0, W / np.where(total > 0, total, 1.0), weights / weights.sum())


def approximate_marginal_likelihood(likelihood: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``q̄ = mean(Aᵀ κ_ε)`` [HR19, Alg. 8.1, line 11], (q,), with prior weights in place of 1/m.

    It depends neither on δ nor on k, unless k is tied to κ_ε (see the errata).
    """
    return likelihood @ (weights / weights.sum())


def epsilon_kernel(y: np.ndarray, X: np.ndarray, unit: np.ndarray, scale: float) -> np.ndarray:
    """``κ_ε(y, x) = N(y; x, ε² diag(unit²))``, (q, n): a density in y."""
    from muhat.kernels.stationary import Gaussian

    width = scale * unit
    constant = np.prod(np.sqrt(2 * np.pi) * width)
    return np.asarray(Gaussian(width)(y, X)) / constant


def kbr_weights(
    gram_theta: Gram, gram_x: Gram, prior: Prior, cross: Array, reg: float, reg_prior: float
) -> np.ndarray:
    """Kernel Bayes' rule [FSG13] on the θᵢ, (q, n)."""
    return np.asarray(
        RULES["kbr_b"].posterior_weights(Pairs(gram_x, gram_theta, reg_prior), prior, cross, reg)
    )


def importance_weights(
    gram_theta: Gram, gram_x: Gram, prior: Prior, cross: Array, reg: float, reg_prior: float
) -> np.ndarray:
    """Bayes' rule by importance weighting [X22] on the θᵢ, (q, n)."""
    pairs = Pairs(gram_x, gram_theta, reg_prior, 1.0)
    return np.asarray(RULES["importance"].posterior_weights(pairs, prior, cross, reg))


__all__ = [
    "approximate_marginal_likelihood",
    "dme_weights",
    "epsilon_kernel",
    "importance_weights",
    "k2abc_weights",
    "kabc_weights",
    "kbr_weights",
    "kelfi_weights",
    "rejection_weights",
    "squared_mmd",
    "surrogate_likelihood",
]
