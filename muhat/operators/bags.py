"""Features of bags, and Bayesian linear regression on them [G15].

A bag P becomes features ψ(P) with ψ(P)ᵀψ(Q) = K(P, Q), the kernel on distributions: in two stages of
random features, or exactly with the training bags as landmarks. Above them all is linear.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from muhat import _threads
from muhat._bags import AnyBags, Bags, Block, GaussianBags
from muhat._linalg import Cholesky, cholesky
from muhat._streamed_bags import StreamedBags
from muhat.gram.features import FeatureKernel
from muhat.gram.fourier import FourierKernel
from muhat.gram.nystrom import NystromKernel
from muhat.gram.octaves import OctaveKernel
from muhat.kernels.base import Kernel
from muhat.kernels.dot import Linear
from muhat.kernels.on_distributions import (
    OnDistributions,
    inner_products,
    located,
    norms,
    outer_diag,
    outer_of,
    outer_slopes,
    products,
    squared_norms,
    values_at,
)

# Numbers in the features of one block of points: 2 MB, which stay in a core's cache.
BLOCK_ELEMENTS = 1 << 18


def mean_features(bags: AnyBags, first: FeatureKernel) -> np.ndarray:
    """``μ_{P,d} = E φ(x)`` of each bag, (n, d) [G15, distribution regression by Fourier features].

    For a Gaussian, E cos ωᵀx = exp(−½ ωᵀSω) cos ωᵀm, and with sine alike.
    """
    if hasattr(bags, "mean_features"):  # they know better: muhat.messages.Tuples
        return bags.mean_features(first)  # type: ignore[attr-defined]
    if isinstance(bags, StreamedBags):
        return bags.grouped(lambda block: _sums(first, block), first.size)
    if isinstance(bags, GaussianBags):
        if isinstance(first, OctaveKernel):
            return first.features(bags.means) * first.damping(bags.covs)
        if not isinstance(first, FourierKernel):
            raise first._no("the mean features of a Gaussian", "use representation=mh.Fourier(p)")
        omega = np.asarray(first.frequencies)
        damping = np.exp(-0.5 * np.einsum("qd,nde,qe->nq", omega, bags.covs, omega))
        return first.features(bags.means) * np.tile(damping, 2)
    out = np.zeros((len(bags), first.size))

    def work(some: slice) -> None:
        sums = out[some]
        for block in bags.select(range(some.start, some.stop)).blocks(rows):
            sums[block.of] += _sums(first, block)  # a bag is in a block once

    rows = max(1, BLOCK_ELEMENTS // first.size)
    _threads.run_blocks(work, bags.slices(4 * rows))
    return out


def _sums(first: FeatureKernel, block: Block) -> np.ndarray:
    if isinstance(first, OctaveKernel):
        return first.sums(block.X, block.weights, block.pieces())
    return block.sums(first.features(block.X))


def _values(first: FeatureKernel, block: Block, G: np.ndarray) -> list[np.ndarray]:
    """``φ(x)ᵀg`` at the points of each piece, with the row g of ``G`` of its bag."""
    if isinstance(first, OctaveKernel):
        return first.values(block.X, G[block.of], block.pieces())
    Phi = first.features(block.X)
    return [Phi[rows] @ G[i] for i, rows in zip(block.of, block.pieces(), strict=True)]


def _moved(first: FeatureKernel, bags: Bags, U: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Slope of ``gᵀ E φ(x)`` as each bag moves along a column, for rows of ``G``, ``U = E φ(x)``; (n, d)."""
    if isinstance(first, (OctaveKernel, FourierKernel)):
        return first.drift(U, G)
    return np.stack(
        [
            (G * (mean_features(up, first) - mean_features(down, first))).sum(axis=1) / (2 * size)
            for up, down, size in _shifts(bags, bags)
        ],
        axis=1,
    )


def _shifts(bags: Bags, marks: AnyBags) -> Iterator[tuple[Bags, Bags, float]]:
    """Column by column the bags moved up and down by a little of its spread in ``marks``, and by how much."""
    for c, scale in enumerate(marks.pool().std(axis=0)):
        step = np.zeros(bags.dimension)
        step[c] = 1e-4 * scale if scale > 0 else 1e-4
        yield bags.shifted(step), bags.shifted(-step), float(step[c])


def _spread(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The variance of one value from weighted ones (n,) or (n, k); 0 for a single point."""
    left = 1 - (weights**2).sum()
    if left <= 1e-12:
        return np.zeros(values.shape[1:])
    return weights @ (values - weights @ values) ** 2 / left


def _streamed_spreads(
    first: FeatureKernel, bags: StreamedBags, U: np.ndarray, G: np.ndarray, H: np.ndarray | None
) -> np.ndarray:
    """:func:`_spread` of ``φ(x)ᵀg + xᵀh`` over the points of each bag, (n,), where ``U = E φ(x)``: a pass.

    With h the bags are centred, so that the means of the values are those of ``φ(x)ᵀg``.
    """
    means = (U * G).sum(axis=1)

    def squares(block: Block) -> np.ndarray:
        parts = zip(block.of, _values(first, block, G), block.pieces(), strict=True)
        values = [v - means[i] + (0 if H is None else block.X[rows] @ H[i]) for i, v, rows in parts]
        return block.sums(np.concatenate(values)[:, None] ** 2)

    left = 1 - 1 / bags.effective_sizes
    total = bags.grouped(squares, 1, first.size)[:, 0]
    return np.where(left <= 1e-12, 0.0, total / np.maximum(left, 1e-12))


@dataclass(frozen=True)
class TwoStage:
    """Bag → mean of d features → d' features [G15].

    Attributes:
        first: φ, the features of a point.
        second: ψ, those of a mean of features; None where the outer kernel is linear.
        bias: of the linear outer kernel.
        location: factors of the mean of a bag, (d,), which then goes before the mean features of its shape;
            None where bags are embedded where they are.
    """

    first: FeatureKernel
    second: FeatureKernel | None
    bias: float = 0.0
    location: np.ndarray | None = None

    @property
    def size(self) -> int:
        """d', the number of features of a bag."""
        if self.second is not None:
            return self.second.size
        return self.first.size + (0 if self.location is None else len(self.location)) + (self.bias > 0)

    def describe(self, bags: AnyBags) -> np.ndarray:
        """What the second stage sees of each bag, (n, d)."""
        if self.location is None:
            return mean_features(bags, self.first)
        return np.hstack([bags.means * self.location, mean_features(bags.centred(), self.first)])

    def of(self, bags: AnyBags) -> np.ndarray:
        """ψ(P) of each bag, (n, d')."""
        return self._second(self.describe(bags))

    def _second(self, U: np.ndarray) -> np.ndarray:
        if self.second is not None:
            return self.second.features(U)
        return np.hstack([U, np.full((len(U), 1), self.bias**0.5)]) if self.bias else U

    def missing(self, bags: AnyBags, Psi: np.ndarray) -> np.ndarray:
        """``K(P, P) − ‖ψ(P)‖²``, what landmarks leave out; Fourier features are the kernel."""
        if not isinstance(self.second, NystromKernel):
            return np.zeros(len(bags))
        return np.maximum(float(self.second.kernel.amplitude) - (Psi**2).sum(axis=1), 0.0)

    def spreads(self, bags: AnyBags, coef: np.ndarray) -> np.ndarray:
        """Variance over the points of each bag of the slope of ``f(P) = ψ(P)ᵀcoef`` towards x, (n,).

        For k functions, ``coef`` (k, p), it is (k, n).
        """
        if isinstance(bags, GaussianBags):
            return np.zeros((*coef.shape[:-1], len(bags)))
        U = self.describe(bags)
        if coef.ndim == 2:
            return np.stack([self._spreads(bags, U, one) for one in coef])
        return self._spreads(bags, U, coef)

    def both(self, bags: AnyBags, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``of`` and ``spreads`` together."""
        U = self.describe(bags)
        return self._second(U), self._spreads(bags, U, coef)

    def _spreads(self, bags: AnyBags, U: np.ndarray, coef: np.ndarray) -> np.ndarray:
        if isinstance(bags, GaussianBags):
            return np.zeros(len(bags))
        G, H = self._slopes(U, coef), None
        if self.location is not None:
            d = len(self.location)
            bags = bags.centred()
            G, H = G[:, d:], G[:, :d] * self.location
            H = H - _moved(self.first, bags, U[:, d:], G)  # the shape moves against the mean
        if isinstance(bags, StreamedBags):
            return _streamed_spreads(self.first, bags, U[:, U.shape[1] - G.shape[1] :], G, H)
        out = np.empty(len(bags))

        def work(some: slice) -> None:
            part = bags.select(range(some.start, some.stop))
            values: list[list[np.ndarray]] = [[] for _ in range(len(part))]
            for block in part.blocks(rows):
                found = _values(self.first, block, G[some])
                for i, v, piece in zip(block.of, found, block.pieces(), strict=True):
                    values[i].append(v if H is None else v + block.X[piece] @ H[some][i])
            out[some] = [_spread(np.concatenate(v), part.weights(i)) for i, v in enumerate(values)]

        rows = max(1, BLOCK_ELEMENTS // self.first.size)
        _threads.run_blocks(work, bags.slices(4 * rows))
        return out

    def _slopes(self, U: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Gradient of ``ψ(u)ᵀcoef`` at each row of ``U``, (n, d)."""
        second = self.second
        if second is None:
            return np.broadcast_to(coef[: U.shape[1]], U.shape)
        if isinstance(second, NystromKernel):
            Z, beta = np.asarray(second.landmarks), second.landmark_weights(coef)
            sizes = (U**2).sum(axis=1), (Z**2).sum(axis=1)
            along, across = outer_slopes(second.kernel, U @ Z.T, *sizes)
            return (along * beta) @ Z + 2 * (across @ beta)[:, None] * U
        assert isinstance(second, FourierKernel)
        omega = np.asarray(second.frequencies)
        q, angles = len(omega), U @ omega.T
        return second.scale * ((np.cos(angles) * coef[q:] - np.sin(angles) * coef[:q]) @ omega)


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
            C = products(bags, bags, kernel)
        own = np.diagonal(C).copy()
        K = outer_of(kernel.outer, C, own, own)
        remedy = "Are many bags the same? Use representation=mh.Fourier(500)."
        return cls(kernel, bags, own, np.tril(cholesky(K, "The kernel matrix of the bags", remedy).lower))

    @property
    def size(self) -> int:
        """The number of features."""
        return len(self.bags)

    def of(self, bags: AnyBags) -> np.ndarray:
        """ψ(P) of each bag, (n, p)."""
        K = outer_of(
            self.kernel.outer, products(bags, self.bags, self.kernel), norms(bags, self.kernel), self.norms
        )
        return Cholesky(self.lower, 0.0).half_solve(K.T).T

    def missing(self, bags: AnyBags, Psi: np.ndarray) -> np.ndarray:
        """``K(P, P) − ‖ψ(P)‖²``, what the landmarks do not say of a bag, (n,)."""
        prior = outer_diag(self.kernel.outer, norms(bags, self.kernel))
        return np.maximum(prior - (Psi**2).sum(axis=1), 0.0)

    def spreads(self, bags: AnyBags, coef: np.ndarray) -> np.ndarray:
        """As :meth:`TwoStage.spreads`."""
        if isinstance(bags, GaussianBags):
            return np.zeros((*coef.shape[:-1], len(bags)))
        from scipy.linalg import solve_triangular

        betas = solve_triangular(self.lower, np.atleast_2d(coef).T, lower=True, trans=1).T
        kernel, marks = self.kernel, self.bags
        along, across = outer_slopes(
            kernel.outer, products(bags, marks, kernel), norms(bags, kernel), self.norms
        )
        # f changes by Σ β (∂K/∂⟨P, Z⟩ d⟨P, Z⟩ + ∂K/∂‖P‖² d‖P‖²) as P moves towards x.
        G, own = along * betas[:, None], 2 * (betas @ across.T)
        H = np.zeros((len(betas), len(bags), bags.dimension))
        if kernel.location is not None:
            means = G @ located(marks, kernel) + own[..., None] * located(bags, kernel)
            bags, marks = bags.centred(), marks.centred()
            H = means / kernel.location - _drift(bags, marks, kernel.inner, G, own)
        values: list[list[np.ndarray]] = [[] for _ in range(len(bags))]
        for block in bags.blocks(max(1, BLOCK_ELEMENTS // self.size)):
            V = values_at(block.X, marks, kernel.inner)
            for i, rows in zip(block.of, block.pieces(), strict=True):
                values[i].append(V[rows] @ G[:, i].T + block.X[rows] @ H[:, i].T)
        out = np.empty((len(betas), len(bags)))
        for i, X in enumerate(bags.parts):
            itself = values_at(X, bags.select([i]), kernel.inner)
            out[:, i] = _spread(np.concatenate(values[i]) + itself * own[:, i], bags.weights(i))
        return out if np.ndim(coef) == 2 else out[0]

    def both(self, bags: AnyBags, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``of`` and ``spreads`` together."""
        return self.of(bags), self.spreads(bags, coef)


def _drift(bags: Bags, marks: AnyBags, inner: Kernel, G: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Slope of ``Σ G ⟨P, Z⟩ + ½ own ‖P‖²`` along each column, (k, n, p) and (k, n) → (k, n, d)."""
    out = np.empty((*own.shape, bags.dimension))
    for c, (up, down, size) in enumerate(_shifts(bags, marks)):
        sides = inner_products(up, marks, inner) - inner_products(down, marks, inner)
        sizes = squared_norms(up, inner) - squared_norms(down, inner)
        out[..., c] = ((G * sides).sum(axis=-1) + 0.5 * own * sizes) / (2 * size)
    return out


BagFeatures = TwoStage | Landmarks


def two_stage(
    first: FeatureKernel,
    outer: Kernel,
    p: int,
    rng: np.random.Generator,
    location: np.ndarray | None = None,
    landmarks: AnyBags | None = None,
) -> TwoStage:
    """The second stage above ``first``: ``p`` features of ``outer``, or none if it is linear.

    They are Fourier features, or with ``landmarks`` those of Nyström at that many of these bags.
    """
    from muhat.gram.fourier import fourier_kernel

    if isinstance(outer, Linear):
        return TwoStage(first, None, float(outer.bias), location)
    plain = TwoStage(first, None, 0.0, location)
    if landmarks is None:
        return TwoStage(first, fourier_kernel(outer, p, plain.size, rng), 0.0, location)  # type: ignore[arg-type]
    U = plain.describe(landmarks)
    if len(U) > p:
        U = U[np.sort(rng.choice(len(U), p, replace=False))]
    return TwoStage(first, NystromKernel.fit(outer, U), 0.0, location)


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
        moment: Σ ψ y/noise, (p,), or (p, k) for k outputs.
        lower: Cholesky factor of A.
    """

    precision: np.ndarray
    moment: np.ndarray
    lower: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """w, (p,) or (p, k)."""
        return Cholesky(self.lower, 0.0).solve(self.moment)

    def variance(self, Psi: np.ndarray) -> np.ndarray:
        """``ψᵀA⁻¹ψ`` for each row, (n,)."""
        return (Cholesky(self.lower, 0.0).half_solve(Psi.T) ** 2).sum(axis=0)

    def updated(self, Psi: np.ndarray, y: np.ndarray, noise: np.ndarray) -> Weights:
        """With n more examples, by rank-one updates while n is small; free of the past in cost."""
        scaled = Psi / np.sqrt(noise)[:, None]
        precision = self.precision + scaled.T @ scaled
        moment = self.moment + Psi.T @ (y.T / noise).T
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
