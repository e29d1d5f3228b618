"""The conditional mean operator [HR19, Def. 3.3; G15, conditional mean as regression].

``Ĉ_{Y|X} = Ĉ_YX (Ĉ_XX + λI)⁻¹ = Ψ (K + nλI)⁻¹ Φᵀ``: the embedding of Y given x has the weights
``(K + nλI)⁻¹ k(X, x)`` on the y. Everything is linear in the embedding of x, so that an uncertain x
(the kernel sum rule) and the joint of x and y (the chain rule) have weights of the same form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat._array import Array, is_jax, namespace
from muhat.gram import Factored, Gram, Ridge, as_dense


@dataclass(frozen=True)
class Groups:
    """Which rows share an input.

    Attributes:
        points: the distinct inputs, (g, d).
        inverse: for each row the index of its input, (n,).
        counts: how many rows each input has, (g,).
    """

    points: Array
    inverse: np.ndarray
    counts: np.ndarray

    def mean(self, F: Array) -> Array:
        """Average of the rows of ``F`` (n, k) within each group, (g, k)."""
        total = np.zeros((len(self.counts), *F.shape[1:]))
        np.add.at(total, self.inverse, np.asarray(F))
        return total / (self.counts[:, None] if F.ndim == 2 else self.counts)

    def spread(self, weights: Array | Factored) -> Array | Factored:
        """Weights on groups (batch, g) shared out among their rows, (batch, n)."""
        if isinstance(weights, Factored):
            return Factored(weights.left, (weights.right / self.counts)[:, self.inverse])
        return (weights / self.counts)[..., self.inverse]


def group_rows(X: Array) -> Groups | None:
    """The groups of equal rows of ``X`` (n, d), or None when all differ."""
    if is_jax(X) or X.shape[0] < 2 or len(np.unique(X[:, 0])) == X.shape[0]:
        return None
    points, inverse, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    return None if len(points) == X.shape[0] else Groups(points, inverse.reshape(-1), counts)


def conditional_ridge(gram: Gram, reg: Array, groups: Groups | None = None) -> Ridge:
    """The ridge of the conditional mean operator, whose ``regress`` gives its weights.

    Without groups ``(K + nλI)⁻¹``. With them the distinct inputs suffice [S20, A.3.1]:
    ``(K_g + nλ diag(1/n_g))⁻¹``, n the number of rows, gives the same answer exactly (the printed form
    holds for equal group sizes only; see the errata).
    """
    if groups is None:
        return gram.ridge(len(gram) * reg)
    n = groups.counts.sum()
    return gram.ridge(n * reg, groups.counts.astype(float))


def conditional_weights(
    ridge: Ridge, cross: Array | Factored, groups: Groups | None = None
) -> Array | Factored:
    """Weights on the y of the embeddings of Y given each x, (batch, n).

    Args:
        ridge: from :func:`conditional_ridge`.
        cross: ``k(X, x)``, (n, batch): columns are points, or any functions ``μ(X)`` of embeddings.
        groups: as given to :func:`conditional_ridge`.
    """
    weights = ridge.regress(cross).T
    return weights if groups is None else groups.spread(weights)


def complete_weights(
    weights: Array | Factored, mass: Array | float, base: Array | None = None
) -> Array | Factored:
    """Weights (batch, n) with what lacks of their mass (batch,) shared out: ``w + (m − Σw) π``.

    They are those of the regression of centred outputs: where the data say nothing, the answer is the
    distribution of all outputs, not zero.

    Args:
        weights: w.
        mass: m.
        base: π, (n,), of sum one; None for all outputs alike.
    """
    n = weights.shape[1]
    if base is not None:
        full = as_dense(weights)
        return full + (mass - full.sum(axis=1))[:, None] * base
    if isinstance(weights, Factored):
        rest = mass - weights @ np.ones(n)
        return Factored(
            np.concatenate([weights.left, rest[:, None]], axis=1),
            np.concatenate([weights.right, np.full((1, n), 1 / n)]),
        )
    return weights + ((mass - weights.sum(axis=1)) / n)[:, None]


def predictive_spread(gram: Gram, ridge: Ridge, x: Array) -> Array:
    """``√(1 + v(x)/c)``, ``v(x) = k(x, x) − k(x, X)(K + cD⁻¹)⁻¹k(X, x)``, at each row of ``x`` (q, d), (q,).

    By how much the error of a prediction exceeds the noise, were the regression a Gaussian process with noise
    c = nλ: near 1 amid the data, large where the kernel extrapolates.
    """
    cross = gram.cross(x)
    if isinstance(cross, Factored):
        cross = cross.dense()
    explained = (cross * ridge.regress(cross)).sum(axis=0)
    rest = np.maximum(np.asarray(gram.kernel.diag(x)) - np.asarray(explained), 0.0)
    return np.sqrt(1 + rest / np.asarray(ridge.c))


def leave_one_out(ridge: Ridge, F: Array, groups: Groups | None = None) -> Array:
    """Residuals ``F[i] − f̂⁽⁻ⁱ⁾(xᵢ)`` of the ridge regression without row i, in closed form, (n, k).

    ``(F − HF)ᵢ / (1 − Hᵢᵢ)`` with the hat matrix H, the regulariser ``c = nλ`` kept. In an RKHS, pass a
    factor F of the output Gram, ``L = FFᵀ``: the rows of the residuals then have the RKHS norms of
    ``ψ(yᵢ) − μ̂⁽⁻ⁱ⁾(xᵢ)``.
    """
    xp = namespace(F, ridge.c)
    free = ridge.c * ridge.inverse_diag()  # 1 − Hᵢᵢ, of groups: 1 − n_g Hᵢᵢ
    if groups is None:
        residual = ridge.c * ridge.solve(F)
        return residual / (free[:, None] if F.ndim == 2 else free)
    root = xp.sqrt(groups.counts)
    mean = groups.mean(F)
    scale = root[:, None] if F.ndim == 2 else root
    fitted = mean - ridge.c * ridge.solve(scale * mean) / scale
    each = 1 - (1 - free) / groups.counts
    residual = F - fitted[groups.inverse]
    return residual / (each[groups.inverse][:, None] if F.ndim == 2 else each[groups.inverse])
