"""The deconditional mean operator and the Gaussian posterior it is the mean of [HR19, §4 and §5].

``z = M f(x) + e`` with ``e ~ N(0, Σ)`` and ``f ~ GP(0, k)``: each of the m observations is a combination of
the values of f at n points. The posterior of f has three forms, of cost m³, n³ and p³:

- function space [HR19, Def. 4.4], by ``S = M K Mᵀ + Σ`` (m, m);
- the alternative of [HR19, Def. 4.4], linear in m for ``Σ = σ²I``, by ``I + MᵀM K/σ²`` (n, n). More accurate
  for small σ² is its symmetric square root: with ``M = QR`` the n numbers ``Qᵀz = R f(x) + e`` say of f all
  that z does, and function space does the rest;
- weight space [HR19, Def. 4.5], by features Φ with ``K = ΦΦᵀ`` and ``HᵀH + σ²I``, ``H = MΦ`` (p, p).

M is (m, n) here, one row an observation: the transpose of the paper's.

A task gives M and Σ [HR19, Thm. 5.3]: with y of the pairs (x, y), z seen at ỹ and ``g ~ GP(0, ℓ)``,
``M = ℓ(ỹ, y) (L + σ²I)⁻¹`` and ``Σ = ℓ(ỹ, ỹ) − ℓ(ỹ, y) (L + σ²I)⁻¹ ℓ(y, ỹ) + σ²I``, or ``σ²I`` where g is its
MAP estimate. ℓ carries its amplitude, so that ``nλ = σ²`` here and ``λ = σ²/(n·amp)`` for ℓ of amplitude 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf, log, pi
from typing import Any

import numpy as np

from muhat import _threads
from muhat._array import Array, namespace
from muhat._linalg import Cholesky, cholesky
from muhat.gram import Factored, FeatureMap, Gram, LowRankGram, Ridge, as_dense

REMEDY = "Raise the noise."
# Entries of a block of rows of H.
BLOCK_ELEMENTS = 1 << 23


def deconditional_weights(H: Array, phi: Array, reg: float) -> Array:
    """``H (HᵀH + εI)⁻¹ φ(x) = (HHᵀ + εI)⁻¹ H φ(x)``, (m, batch), by the smaller of the two systems.

    The deconditional mean of g at x is the sum of these weights times g(ỹ) [HR19, Thm. 4.3].

    Args:
        H: expected features of x at each ỹ, (m, r).
        phi: features of the x that are asked for, (r, batch).
        reg: ε, here mε where H is not an average.
    """
    if H.shape[1] <= H.shape[0]:
        return H @ _ridge(H.T @ H, reg).solve(phi)
    return _ridge(H @ H.T, reg).solve(H @ phi)


def _ridge(S: Array, c: Any, name: str = "H Hᵀ + εI") -> Cholesky:
    eye = namespace(S).eye(S.shape[0], dtype=S.dtype)
    return cholesky(S + c * eye, name, "Raise reg.", overwrite=True)


# -- posteriors -----------------------------------------------------------------------------------


class Deconditional:
    """The posterior of f in one of its forms.

    Attributes:
        log_likelihood: ``log N(z; 0, M K Mᵀ + Σ)``.
    """

    log_likelihood: Any

    def mean(self, cross: Array | Factored) -> Array:
        """Posterior mean at x with ``cross = k(X, x)`` (n, batch), (batch,)."""
        raise TypeError("write mean")

    def cov(self, cross: Array | Factored, prior: Array) -> Array:
        """Posterior covariance at x with ``prior = k(x, x)``: (batch, batch), or its diagonal (batch,)."""
        raise TypeError("write cov")


def _inner(half: Array, prior: Array) -> Array:
    """``halfᵀ half``, or its diagonal where ``prior`` is one."""
    return half.T @ half if prior.ndim == 2 else (half**2).sum(axis=0)


@dataclass(frozen=True)
class FunctionSpace(Deconditional):
    """The m×m form, for any Σ.

    Attributes:
        factor: of ``S = M K Mᵀ + Σ``.
        solved: ``S⁻¹ z``, (m,).
        M: (m, n), or factored; None for the identity.
    """

    factor: Cholesky
    solved: Array
    M: Array | Factored | None
    log_likelihood: Any

    def mean(self, cross: Array | Factored) -> Array:
        return self.mean_of(self.seen(as_dense(cross)))

    def cov(self, cross: Array | Factored, prior: Array) -> Array:
        return self.cov_of(self.seen(as_dense(cross)), prior)

    def seen(self, F: Array) -> Array:
        """``M F`` for functions with values ``F`` (n, batch) at the points, (m, batch)."""
        return F if self.M is None else self.M @ F

    def mean_of(self, C: Array) -> Array:
        """Posterior mean of anything with prior covariance ``C`` (m, batch) to z."""
        return C.T @ self.solved

    def cov_of(self, C: Array, prior: Array) -> Array:
        """Its posterior covariance, or variances."""
        return prior - _inner(self.factor.half_solve(C), prior)


def function_space(K: Array, M: Array | Factored | None, Sigma: Array, z: Array) -> FunctionSpace:
    """The m×m form.

    Args:
        K: k(X, X), (n, n).
        M: (m, n), or None for the identity: a plain Gaussian process.
        Sigma: Σ, (m, m), or variances (m,) or () of independent noise.
        z: (m,).
    """
    xp = namespace(K, Sigma, z)
    S = K if M is None else M @ (M @ K).T
    S = S + (Sigma if np.ndim(Sigma) == 2 else Sigma * xp.eye(S.shape[0], dtype=S.dtype))
    factor = cholesky(S, "M K Mᵀ + Σ", REMEDY)
    solved = factor.solve(z)
    value = -0.5 * (z @ solved + factor.logdet() + len(z) * log(2 * pi))
    return FunctionSpace(factor, solved, M, value)


def compress(blocks: Iterable[tuple[Array, Array]], variance: float) -> tuple[Array, Array, float]:
    """``R`` (r, n), ``q = Qᵀz`` (r,) and what they leave of ``log p(z)``, from ``M = QR`` and ``Σ = σ²I``.

    Args:
        blocks: pairs of rows of M (b, n) and of z (b,); one of them is in memory at a time.
        variance: σ².
    """
    stack: Any = None
    count = 0
    for M, z in blocks:
        rows = np.column_stack([M, z])
        count += len(z)
        stack = triangle(rows if stack is None else np.concatenate([stack, rows]))
    assert stack is not None
    return split_triangle(stack, count, variance)


def triangle(rows: Array) -> Array:
    """The triangular factor of rows of [M z], or these if few: all that a posterior needs of them."""
    return np.linalg.qr(rows, mode="r") if len(rows) > rows.shape[1] else rows


def split_triangle(stack: Array, count: int, variance: float) -> tuple[Array, Array, float]:
    """What :func:`compress` gives, from the triangle of ``count`` rows of [M z].

    Its last column is Qᵀz, and below it the norm of the rest of z.
    """
    n = stack.shape[1] - 1
    R, q, rest = stack[:n, :n], stack[:n, n], stack[n:, n]
    left = count - len(q)
    value = -0.5 * (float(rest @ rest) / variance + left * (log(2 * pi) + log(variance)))
    return R, q, value


def input_space(K: Array, blocks: Iterable[tuple[Array, Array]], variance: float) -> FunctionSpace:
    """The n×n form in its symmetric square root, for ``Σ = σ²I``; arguments as in :func:`compress`."""
    R, q, rest = compress(blocks, variance)
    found = function_space(K, R, np.asarray(variance), q)
    return replace(found, log_likelihood=found.log_likelihood + rest)


@dataclass(frozen=True)
class Sums:
    """What a form that is linear in m needs of the observations, with noise of unit variance.

    Attributes:
        HH: ``HᵀH``, (r, r).
        Hz: ``Hᵀz``, (r,).
        zz: ``zᵀz``.
        constant: ``m log 2π + log det Σ``.
    """

    HH: Array
    Hz: Array
    zz: Any
    constant: Any


def sums_of(H: Array, z: Array, variance: Array) -> Sums:
    """Sums over the rows of ``H`` (m, r) and ``z`` (m,) with noise variances (m,) or ()."""
    xp = namespace(H, z, variance)
    scale = 1 / xp.sqrt(xp.broadcast_to(xp.asarray(variance), z.shape))
    H, z = H * scale[:, None], z * scale
    return Sums(H.T @ H, H.T @ z, z @ z, len(z) * log(2 * pi) - 2 * xp.log(scale).sum())


def printed_log_likelihood(K: Array, sums: Sums) -> Array:
    """``log N(z; 0, M K Mᵀ + Σ)`` by the n×n alternative as printed [HR19, Thm. 5.3 (4)].

    ``det Σ · det(I + QK)`` with ``Q = MᵀΣ⁻¹M``. No factor of M or K is needed, both of which may be singular,
    so that its gradient is sound.

    Args:
        K: (n, n).
        sums: of M itself.
    """
    xp = namespace(K, sums.HH)
    system = xp.eye(K.shape[0], dtype=K.dtype) + sums.HH @ K
    alpha = xp.linalg.solve(system, sums.Hz)
    _, logdet = xp.linalg.slogdet(system)
    return -0.5 * (sums.zz - sums.Hz @ (K @ alpha) + logdet + sums.constant)


@dataclass(frozen=True)
class WeightSpace(Deconditional):
    """The p×p form: ``f = φᵀw``, ``w ~ N(0, I)``.

    Attributes:
        factor: of ``HᵀH + I``, with rows of H in units of the noise.
        weights: posterior mean of w, (r,); after the r weights of f those of what g has beside it.
        features: Φ, and the features of new points.
    """

    factor: Cholesky
    weights: Array
    features: FeatureMap
    log_likelihood: Any

    def mean(self, cross: Array | Factored) -> Array:
        phi = self.features.project(cross)
        return phi.T @ self.weights[: len(phi)]

    def cov(self, cross: Array | Factored, prior: Array) -> Array:
        phi = self.features.project(cross)
        # What f has outside the span of its features at X is as uncertain as before.
        outside = prior - _inner(phi, prior)
        if prior.ndim == 1:
            outside = namespace(outside).maximum(outside, 0.0)
        return self.cov_of(self._pad(phi), prior.ndim == 2) + outside

    def mean_of(self, phi: Array) -> Array:
        """Posterior mean of ``φᵀw`` with all the weights, ``phi`` (r, batch)."""
        return phi.T @ self.weights

    def cov_of(self, phi: Array, full: bool = True) -> Array:
        """Its posterior covariance, or variances."""
        half = self.factor.half_solve(phi)
        return half.T @ half if full else (half**2).sum(axis=0)

    def _pad(self, phi: Array) -> Array:
        more, xp = len(self.weights) - len(phi), namespace(phi)
        return xp.concatenate([phi, xp.zeros((more, phi.shape[1]), dtype=phi.dtype)]) if more else phi


def weight_space(features: FeatureMap, sums: Sums) -> WeightSpace:
    """The p×p form.

    Args:
        features: Φ, with ``K = ΦΦᵀ``.
        sums: of ``H = MΦ``, to which the features of what g has beside f may be joined.
    """
    xp = namespace(sums.HH)
    factor = cholesky(sums.HH + xp.eye(sums.HH.shape[0], dtype=sums.HH.dtype), "HᵀΣ⁻¹H + I", REMEDY)
    weights = factor.solve(sums.Hz)
    value = -0.5 * (sums.zz - sums.Hz @ weights + factor.logdet() + sums.constant)
    return WeightSpace(factor, weights, features, value)


def cheapest_form(n: int, m: int, p: int | None, dense_noise: bool) -> str:
    """``"function"``, ``"input"`` or, with features, ``"weight"``, by what it costs.

    Args:
        n: points of f.
        m: observations.
        p: features of f, None for an exact kernel.
        dense_noise: whether Σ has entries off its diagonal, which needs function space.
    """
    if dense_noise:
        return "function"
    cost = {
        "function": 2 * n * m * (n + m) + m**3 / 3,
        "input": 2 * m * n**2 + 4 * n**3 + n**3 / 3,
        "weight": inf if p is None else 2 * n * m * p + 2 * m * p**2 + p**3 / 3,
    }
    return min(cost, key=lambda form: cost[form])


# -- tasks ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transformation:
    """What pairs (x, y) say of z at any ỹ: ``M`` and ``Σ`` of [HR19, Thm. 5.3] there.

    Attributes:
        gram: of y, with ℓ.
        ridge: ``L + σ²I``.
        variance: σ².
        full: whether g has a posterior of its own, or is its MAP estimate.
    """

    gram: Gram
    ridge: Ridge
    variance: Any
    full: bool

    @classmethod
    def of(cls, gram: Gram, variance: Any, full: bool) -> Transformation:
        return cls(gram, gram.ridge(variance), variance, full)

    @property
    def low_rank(self) -> bool:
        return isinstance(self.gram, LowRankGram)

    def matrix(self, y: Array) -> Array | Factored:
        """M at ``y`` (m, d), (m, n)."""
        return self.ridge.regress(self.gram.cross(y)).T

    def blocks(self, y: Array, z: Array) -> Iterator[tuple[Array, Array]]:
        """Rows of M at ``y`` (m, d) and of ``z`` (m,), block by block."""
        for rows in _threads.row_blocks(len(z), len(self.gram), BLOCK_ELEMENTS):
            yield as_dense(self.matrix(y[rows])), z[rows]

    def beside(self, y: Array, other: Array | None = None) -> Array:
        """Covariance of what g has beside ``M f``, of ``y`` (m, d) and ``other`` (b, d), (m, b)."""
        left = self._half(y)
        right = left if other is None else self._half(other)
        if self.low_rank:  # ℓ(y, ·) − ℓ(y, Y) (L + σ²I)⁻¹ ℓ(Y, ·) = σ² ψ(y)ᵀ (ΨᵀΨ + σ²I)⁻¹ ψ(·)
            return self.variance * (left.T @ right)
        return self.gram.kernel(y, other) - left.T @ right

    def _half(self, y: Array) -> Array:
        factor: Cholesky = self.ridge.factor  # type: ignore[attr-defined]
        return factor.half_solve(self.gram.kernel.features(y).T if self.low_rank else self.gram.cross(y))

    def coefficients(self, Phi: Array) -> Array:
        """W with ``H = ψ(y) W`` (``ℓ(y, Y) W`` for an exact ℓ), (q, r).

        H has the expected features of x at y and, after them, in the full form with features of y, those
        of what g has beside f: ``Σ = U Uᵀ + σ²I`` with ``U = σ ψ(y) C⁻ᵀ``, ``C Cᵀ = ΨᵀΨ + σ²I``.
        """
        W = self.ridge.fit(Phi)
        if not self.full:
            return W
        factor: Cholesky = self.ridge.factor  # type: ignore[attr-defined]
        xp = namespace(W)
        inverse = factor.half_solve(xp.eye(W.shape[0], dtype=W.dtype)).T
        return xp.concatenate([W, xp.sqrt(self.variance) * inverse], axis=1)

    def sums(self, W: Array, y: Array, z: Array) -> Sums:
        """Sums over all observations, in blocks of rows: memory does not grow with m."""
        r = W.shape[1]
        width = max(W.shape)
        blocks = _threads.row_blocks(len(z), width, BLOCK_ELEMENTS)
        HH, Hz = np.zeros((r, r)), np.zeros(r)
        for rows in blocks:
            H = self.gram.evaluate(y[rows], W)
            HH += H.T @ H
            Hz += H.T @ z[rows]
        constant = len(z) * (log(2 * pi) + np.log(self.variance))
        return Sums(HH / self.variance, Hz / self.variance, z @ z / self.variance, constant)
