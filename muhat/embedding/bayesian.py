"""The Bayesian kernel embedding: a Gaussian process over mean embeddings [F16, Section 3].

Prior ``μ ~ GP(0, r)`` with ``r(x, y) = ∫ k(x, u) k(u, y) ν(du)``, whose draws lie in the RKHS of k;
likelihood ``μ̂(z) | μ ~ N(μ(z), S/n)`` at points z, with ``S = τ² I`` in F16 or the covariance of k(X, z).
Both are Gaussian, hence the posterior is.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np

from muhat._array import Array, Namespace, column_sd, namespace
from muhat._linalg import Cholesky, cholesky
from muhat.kernels.algebra import Product, Restricted, Scaled
from muhat.kernels.base import Kernel, NoClosedForm
from muhat.kernels.delta import Delta
from muhat.kernels.distance import Plan

# Rows of the data that stand for ν when a kernel has no closed form.
NU_ROWS = 500
# Share of independent noise in the noise's covariance.
NUGGET = 1e-4


class SmoothedBy(Kernel):
    """r(x, y) = (1/M) Σₗ k(x, uₗ) k(uₗ, y): smoothing by itself under a sample u of ν [F16, eq. (4)]."""

    _parameters: ClassVar[tuple[str, ...]] = ("kernel",)
    _choices: ClassVar[tuple[str, ...]] = ("points",)

    def __init__(self, kernel: Kernel, points: Any) -> None:
        self.kernel, self.points = kernel, points

    def __repr__(self) -> str:
        return f"SmoothedBy({self.kernel!r}, {len(self.points)} points)"

    def _features(self, X: Array, xp: Namespace) -> Array:
        return self.kernel(X, xp.asarray(self.points, dtype=X.dtype)) / len(self.points) ** 0.5

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        F, G = self._features(X, xp), self._features(Y, xp)
        return lambda rows: F[rows] @ G.T

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return (self._features(X, xp) ** 2).sum(axis=1)


class Measure(NamedTuple):
    """ν: what k is smoothed by.

    Lebesgue measure divided by ``volume`` on numbers, the uniform measure on the categories of a Delta
    factor; a sample of the data for kernels that are not closed under either.

    Attributes:
        volume: the product of the columns' standard deviations, so that units do not matter. 1 for the
            Lebesgue measure of F16.
        levels: number of categories of each column that holds them.
        points: rows of the data, (M, d).
    """

    volume: float
    levels: dict[int, int]
    points: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, categorical: list[int], rng: np.random.Generator) -> Measure:
        """ν for the rows ``X`` (n, d)."""
        sd = column_sd(X)
        numeric = [j for j in range(X.shape[1]) if j not in categorical and sd[j] > 0]
        rows = rng.choice(len(X), min(len(X), NU_ROWS), replace=False)
        levels = {j: max(len(np.unique(X[:, j])), 2) for j in categorical}
        return cls(float(np.prod(sd[numeric])), levels, X[np.sort(rows)])


def prior_kernel(kernel: Kernel, d: int, nu: Measure) -> Kernel:
    """``r(x, y) = ∫ k(x, u) k(u, y) ν(du)`` [F16, eq. (4)]: in closed form where there is one."""
    try:
        return _closed(kernel, d, nu)
    except NoClosedForm:
        return SmoothedBy(kernel, nu.points)


def _closed(kernel: Kernel, d: int, nu: Measure) -> Kernel:
    if not nu.levels:
        return kernel.smoothed(d) * (1 / nu.volume)
    if not isinstance(kernel, Product):
        raise kernel._no("smoothing over categories", "multiply kernels on separate columns")
    scale, parts = kernel._factors(d, "smoothing by itself")
    factors = []
    for part in parts:
        c = part.indices(d)
        if len(c) == 1 and isinstance(part.kernel, Delta) and c[0] in nu.levels:
            smooth = _smoothed_delta(part.kernel, nu.levels[c[0]])
        elif not set(c) & set(nu.levels):
            smooth = part.kernel.smoothed(len(c))
        else:
            raise kernel._no("smoothing over categories", "use mh.Delta on each of them")
        factors.append(Restricted(smooth, c))
    return (scale**2 / nu.volume) * reduce(Product, factors)


def _smoothed_delta(kernel: Delta, levels: int) -> Kernel:
    """``(1/C) Σ_u k(x, u) k(u, y)`` over C categories: a Delta again."""
    q = kernel.rest
    same, other = 1 + (levels - 1) * q**2, 2 * q + (levels - 2) * q**2
    return Scaled(Delta(other / same), same / levels)


def noise_variance(K: Array) -> Array:
    """``τ²``: the variance of ``k(X, z)`` averaged over z, by the central limit theorem [F16, eq. (6)].

    ``K`` is ``k(xᵢ, zⱼ)``, (n, m).
    """
    return ((K - K.mean(axis=0)) ** 2).mean() * K.shape[0] / (K.shape[0] - 1)


def noise_covariance(K: Array) -> Array:
    """The covariance between ``k(X, zᵢ)`` and ``k(X, zⱼ)``, (m, m): eq. (6) of F16 at all z together.

    With ``NUGGET`` of the mean variance on the diagonal: smooth as it is, the sum of it and R could not be
    inverted. ``K`` is ``k(xᵢ, zⱼ)``, (n, m).
    """
    centred = K - K.mean(axis=0)
    S = centred.T @ centred / (K.shape[0] - 1)
    xp = namespace(S)
    return S + NUGGET * xp.diagonal(S).mean() * xp.eye(S.shape[0], dtype=S.dtype)


class Posterior(NamedTuple):
    """What the data says: factor of ``R_zz + S/n`` and ``α = (R_zz + S/n)⁻¹ μ̂(z)``, S the noise."""

    factor: Cholesky
    alpha: Array


def posterior(R: Array, mean: Array, noise: Array) -> Posterior:
    """The posterior of μ given μ̂ at points z [F16, eqs (7), (8)].

    Args:
        R: ``r(z, z)``, (m, m).
        mean: ``μ̂(z)``, (m,).
        noise: the variance ``τ²/n`` of μ̂(z) about μ(z), or its covariance, (m, m).
    """
    xp = namespace(R, noise)
    if xp.ndim(noise) == 0:
        noise = noise * xp.eye(R.shape[0], dtype=R.dtype)
    factor = cholesky(R + noise, "R + noise/n", "Raise noise, or use fewer points.")
    return Posterior(factor, factor.solve(mean))


def posterior_mean(cross: Array, post: Posterior) -> Array:
    """``E μ(x*) = r(x*, z) α``, (q,), from ``cross = r(x*, z)`` (q, m) [F16, eq. (8)]."""
    return cross @ post.alpha


def posterior_cov(own: Array, cross: Array, post: Posterior) -> Array:
    """``r(x*, x*) − r(x*, z) (R + (τ²/n)I)⁻¹ r(z, x*)``, (q, q) [F16, eq. (8)]."""
    half = post.factor.half_solve(cross.T)
    return own - half.T @ half


def posterior_var(own: Array, cross: Array, post: Posterior) -> Array:
    """The diagonal of :func:`posterior_cov` from that of r, (q,)."""
    half = post.factor.half_solve(cross.T)
    return namespace(own, half).maximum(own - (half**2).sum(axis=0), 0.0)


__all__ = [
    "Measure",
    "Posterior",
    "SmoothedBy",
    "noise_covariance",
    "noise_variance",
    "posterior",
    "posterior_cov",
    "posterior_mean",
    "posterior_var",
    "prior_kernel",
]
