"""Features of bags, and Bayesian linear regression on them [G15].

A bag P becomes features ψ(P) with ψ(P)ᵀψ(Q) = K(P, Q), the kernel on distributions: in two stages of
random features, or exactly with the training bags as landmarks. Above them all is linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat._bags import AnyBags, GaussianBags
from muhat._linalg import Cholesky, cholesky
from muhat.gram.features import FeatureKernel
from muhat.gram.fourier import FourierKernel
from muhat.kernels.base import Kernel
from muhat.kernels.dot import Linear
from muhat.kernels.on_distributions import (
    OnDistributions,
    inner_products,
    outer_diag,
    outer_of,
    outer_slopes,
    squared_norms,
    values_at,
)

# Numbers in the features of one block of points: 32 MB.
BLOCK_ELEMENTS = 1 << 22


def mean_features(bags: AnyBags, first: FeatureKernel) -> np.ndarray:
    """``μ_{P,d} = E φ(x)`` of each bag, (n, d) [G15, distribution regression by Fourier features].

    For a Gaussian, E cos ωᵀx = exp(−½ ωᵀSω) cos ωᵀm, and with sine alike.
    """
    if isinstance(bags, GaussianBags):
        if not isinstance(first, FourierKernel):
            raise first._no("the mean features of a Gaussian", "use representation=mh.Fourier(p)")
        omega = np.asarray(first.frequencies)
        damping = np.exp(-0.5 * np.einsum("qd,nde,qe->nq", omega, bags.covs, omega))
        return first.features(bags.means) * np.tile(damping, 2)
    out = np.zeros((len(bags), first.size))
    for block in bags.blocks(max(1, BLOCK_ELEMENTS // first.size)):
        out[block.of] += block.sums(first.features(block.X))  # a bag is in a block once
    return out


def _spread(values: np.ndarray, weights: np.ndarray) -> float:
    """The variance of one value from weighted ones; 0 for a single point."""
    left = 1 - (weights**2).sum()
    if left <= 1e-12:
        return 0.0
    return float(weights @ (values - weights @ values) ** 2 / left)


@dataclass(frozen=True)
class TwoStage:
    """Bag → mean of d features → d' features [G15].

    Attributes:
        first: φ, the features of a point.
        second: ψ, those of a mean of features; None where the outer kernel is linear.
        bias: of the linear outer kernel.
    """

    first: FeatureKernel
    second: FourierKernel | None
    bias: float = 0.0

    @property
    def size(self) -> int:
        """d', the number of features of a bag."""
        return self.first.size + (self.bias > 0) if self.second is None else self.second.size

    def of(self, bags: AnyBags) -> np.ndarray:
        """ψ(P) of each bag, (n, d')."""
        return self._second(mean_features(bags, self.first))

    def _second(self, U: np.ndarray) -> np.ndarray:
        if self.second is not None:
            return self.second.features(U)
        return np.hstack([U, np.full((len(U), 1), self.bias**0.5)]) if self.bias else U

    def missing(self, bags: AnyBags, Psi: np.ndarray) -> np.ndarray:
        """``K(P, P) − ‖ψ(P)‖²``, what the features leave out: nothing, they are the kernel."""
        return np.zeros(len(bags))

    def spreads(self, bags: AnyBags, coef: np.ndarray) -> np.ndarray:
        """Variance over the points of each bag of the slope of ``f(P) = ψ(P)ᵀcoef`` towards φ(x), (n,)."""
        if isinstance(bags, GaussianBags):
            return np.zeros(len(bags))
        return self.both(bags, coef)[1]

    def both(self, bags: AnyBags, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``of`` and ``spreads`` together: features of points are made once where they fit in memory."""
        if isinstance(bags, GaussianBags):
            return self.of(bags), np.zeros(len(bags))
        rows = max(1, BLOCK_ELEMENTS // self.first.size)
        keep = bags.sizes.sum() <= 4 * rows
        U, held = np.zeros((len(bags), self.first.size)), []
        for block in bags.blocks(rows):
            Phi = self.first.features(block.X)
            U[block.of] += block.sums(Phi)
            held.append(Phi if keep else None)
        G = self._slopes(U, coef)
        values: list[list[np.ndarray]] = [[] for _ in range(len(bags))]
        for block, kept in zip(bags.blocks(rows), held, strict=True):
            Phi = self.first.features(block.X) if kept is None else kept
            for i, piece in zip(block.of, block.pieces(), strict=True):
                values[i].append(Phi[piece] @ G[i])
        spreads = [_spread(np.concatenate(v), bags.weights(i)) for i, v in enumerate(values)]
        return self._second(U), np.array(spreads)

    def _slopes(self, U: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Gradient of ``ψ(u)ᵀcoef`` at each row of ``U``, (n, d)."""
        if self.second is None:
            return np.broadcast_to(coef[: U.shape[1]], U.shape)
        omega = np.asarray(self.second.frequencies)
        q, angles = len(omega), U @ omega.T
        return self.second.scale * ((np.cos(angles) * coef[q:] - np.sin(angles) * coef[:q]) @ omega)


@dataclass(frozen=True)
class Landmarks:
    """ψ(P) = L⁻¹ K(Z, P) with LLᵀ = K(Z, Z) for landmark bags Z: exact on their span.

    Attributes:
        kernel: K, with nothing left to the data.
        bags: Z.
        norms: ‖μ_Z‖², (p,).
        lower: L, (p, p); its rows are the features of the landmarks themselves.
    """

    kernel: OnDistributions
    bags: AnyBags
    norms: np.ndarray
    lower: np.ndarray

    @classmethod
    def fit(cls, kernel: OnDistributions, bags: AnyBags, C: np.ndarray | None = None) -> Landmarks:
        """All ``bags`` as landmarks; ``C`` their inner products, if known."""
        if C is None:
            C = inner_products(bags, bags, kernel.inner)
        norms = np.diagonal(C).copy()
        K = outer_of(kernel.outer, C, norms, norms)
        remedy = "Are many bags the same? Use representation=mh.Fourier(500)."
        return cls(kernel, bags, norms, np.tril(cholesky(K, "The kernel matrix of the bags", remedy).lower))

    @property
    def size(self) -> int:
        """The number of features."""
        return len(self.bags)

    def of(self, bags: AnyBags) -> np.ndarray:
        """ψ(P) of each bag, (n, p)."""
        C = inner_products(bags, self.bags, self.kernel.inner)
        K = outer_of(self.kernel.outer, C, squared_norms(bags, self.kernel.inner), self.norms)
        return Cholesky(self.lower, 0.0).half_solve(K.T).T

    def missing(self, bags: AnyBags, Psi: np.ndarray) -> np.ndarray:
        """``K(P, P) − ‖ψ(P)‖²``, what the landmarks do not say of a bag, (n,)."""
        prior = outer_diag(self.kernel.outer, squared_norms(bags, self.kernel.inner))
        return np.maximum(prior - (Psi**2).sum(axis=1), 0.0)

    def spreads(self, bags: AnyBags, coef: np.ndarray) -> np.ndarray:
        """As :meth:`TwoStage.spreads`."""
        if isinstance(bags, GaussianBags):
            return np.zeros(len(bags))
        from scipy.linalg import solve_triangular

        beta = solve_triangular(self.lower, coef, lower=True, trans=1)
        inner = self.kernel.inner
        C, norms = inner_products(bags, self.bags, inner), squared_norms(bags, inner)
        along, across = outer_slopes(self.kernel.outer, C, norms, self.norms)
        # f changes by Σ β (∂K/∂⟨μ_P, μ_Z⟩ μ_Z(x) + ∂K/∂‖μ_P‖² 2 μ_P(x)) as P moves towards x.
        G, own = along * beta, 2 * (across @ beta)
        values: list[list[np.ndarray]] = [[] for _ in range(len(bags))]
        for block in bags.blocks(max(1, BLOCK_ELEMENTS // self.size)):
            V = values_at(block.X, self.bags, inner)
            for i, rows in zip(block.of, block.pieces(), strict=True):
                values[i].append(V[rows] @ G[i])
        out = np.empty(len(bags))
        for i, X in enumerate(bags.parts):
            itself = values_at(X, bags.select([i]), inner)[:, 0]
            out[i] = _spread(np.concatenate(values[i]) + own[i] * itself, bags.weights(i))
        return out

    def both(self, bags: AnyBags, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``of`` and ``spreads`` together."""
        return self.of(bags), self.spreads(bags, coef)


BagFeatures = TwoStage | Landmarks


def two_stage(first: FeatureKernel, outer: Kernel, p: int, rng: np.random.Generator) -> TwoStage:
    """The second stage above ``first``: ``p`` Fourier features of ``outer``, or none if it is linear."""
    from muhat.gram.fourier import fourier_kernel

    if isinstance(outer, Linear):
        return TwoStage(first, None, float(outer.bias))
    second = fourier_kernel(outer, p, first.size, rng)
    assert isinstance(second, FourierKernel)
    return TwoStage(first, second)


def bag_noise(spreads: np.ndarray, typical: float, sizes: np.ndarray) -> np.ndarray:
    """Variance of f at a bag because the bag is finite, (n,): its spread over its size [MR11].

    A small bag says little of its own spread: it is drawn to the ``typical`` one, which counts as one point.
    """
    known = np.isinf(sizes)
    sizes = np.where(known, 1.0, sizes)
    return np.where(known, 0.0, ((sizes - 1) * spreads + typical) / sizes**2)


@dataclass(frozen=True)
class Weights:
    """Posterior N(w, A⁻¹) of the coefficients of features, with prior N(0, I).

    Attributes:
        precision: A = I + Σ ψψᵀ/noise, (p, p).
        moment: Σ ψ y/noise, (p,).
        lower: Cholesky factor of A.
    """

    precision: np.ndarray
    moment: np.ndarray
    lower: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """w, (p,)."""
        return Cholesky(self.lower, 0.0).solve(self.moment)

    def variance(self, Psi: np.ndarray) -> np.ndarray:
        """``ψᵀA⁻¹ψ`` for each row, (n,)."""
        return (Cholesky(self.lower, 0.0).half_solve(Psi.T) ** 2).sum(axis=0)

    def updated(self, Psi: np.ndarray, y: np.ndarray, noise: np.ndarray) -> Weights:
        """With n more examples, by rank-one updates while n is small; free of the past in cost."""
        scaled = Psi / np.sqrt(noise)[:, None]
        precision = self.precision + scaled.T @ scaled
        moment = self.moment + Psi.T @ (y / noise)
        if len(Psi) > max(1, len(moment) // 16):
            return Weights(precision, moment, _factor(precision))
        lower = self.lower
        for row in scaled:
            lower = rank_one(lower, row)
        return Weights(precision, moment, lower)


def no_weights(p: int) -> Weights:
    """The prior N(0, I)."""
    return Weights(np.eye(p), np.zeros(p), np.eye(p))


def _factor(precision: np.ndarray) -> np.ndarray:
    remedy = "Raise noise, or use fewer features."
    return np.tril(cholesky(precision, "The precision of the coefficients", remedy).lower)


def rank_one(lower: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The Cholesky factor of ``LLᵀ + xxᵀ``, by one rotation a column, O(p²)."""
    L, x = np.asfortranarray(lower).copy(order="F"), np.array(x)
    for k in range(len(x)):
        r = np.hypot(L[k, k], x[k])
        c, s = L[k, k] / r, x[k] / r
        below = L[k:, k]
        turned = c * x[k:] - s * below
        L[k:, k] = c * below + s * x[k:]
        x[k:] = turned
    return L


__all__ = [
    "BagFeatures",
    "Landmarks",
    "TwoStage",
    "Weights",
    "bag_noise",
    "mean_features",
    "no_weights",
    "rank_one",
    "two_stage",
]
