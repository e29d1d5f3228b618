"""Tests in one pass over rows, which need not fit in memory: bins that are permuted, or that get signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from muhat._tables import Encoder
from muhat.embedding.moments import MomentEmbedding
from muhat.engine import SAMPLE, reduce_rows, sum_rows
from muhat.engine.passes import State
from muhat.engine.sample import row_keys
from muhat.gram import FeatureKernel
from muhat.gram.fourier import FourierKernel
from muhat.testing.forms import SINGLE_ROWS, Bins, BinSums
from muhat.testing.nulls import Moments

# Numbers that one row of a block stands for. Blocks are long, so that adding up their sums, which are wide,
# costs little beside making them.
ROW_WIDTH = 64
# Features made at a time.
FEATURE_ELEMENTS = 1 << 18
# About the first number of bins up to SAMPLE rows, else the second; more, up to the third, where the smaller
# sample would have fewer than FEWEST_BINS.
BINS, FEWEST_BINS = (4000, 1024, 16_384), 64
# Bins that get a sign each, and draws of signs at a time.
SIGN_BINS, DRAWN = 256, 64
# Principal features that the kernels of a side share, at most, and the share of variance they may leave out.
RANK, TOLERANCE = 96, 1e-4
# A kernel whose features vary by less than this share of their mean square does not vary: what is left is
# rounding, which must not be blown up to the size of the others.
CONSTANT = 1e-12


# Two samples: sums over bins.


def bin_size(n: int, m: int) -> int:
    """Rows a bin, for samples of n and m rows."""
    few, some, many = BINS
    if n + m <= SAMPLE:
        return (n + m) // few
    return max((n + m) // many, min((n + m) // some, min(n, m) // FEWEST_BINS))


@dataclass(frozen=True)
class SampleSums:
    """What the pass over one sample leaves.

    Attributes:
        bins: sums over bins, one a kernel.
        moments: ``Σ(zᵢ − c)`` and ``Σ(zᵢ − c)(zᵢ − c)ᵀ`` about the centre c.
        cells: of each column, rows in each bin and cell.
    """

    bins: list[BinSums]
    moments: tuple[np.ndarray, np.ndarray]
    cells: list[np.ndarray]


def sample_sums(
    kernels: list[FeatureKernel],
    source: Any,
    bins: Bins,
    side: int,
    centre: np.ndarray,
    name: str,
    cells: Sequence[Any] = (),
) -> SampleSums:
    """Sums of the features of every kernel over the bins of one sample, and its ``cells``: one pass.

    With many rows Fourier features are in single precision, about ``centre``; all sums are in double.
    """
    labels, count = bins.labels[side], bins.counts[side] + 1
    single = sum(map(len, bins.labels)) >= SINGLE_ROWS
    edges = np.cumsum([0, *(k.size for k in kernels)])
    height = max(64, FEATURE_ELEMENTS // max(k.size for k in kernels))

    def work(A: np.ndarray, L: np.ndarray) -> State:
        order = np.argsort(L[:, 0], kind="stable")
        L, A = L[order, 0].astype(np.int64), A[order].astype(np.float64)
        sums, diagonals = np.zeros((count, edges[-1])), np.zeros((count, len(kernels)))
        for start in range(0, len(A), height):
            part, at = A[start : start + height], L[start : start + height]
            cuts = [*np.flatnonzero(np.diff(at, prepend=-1)), len(at)]
            for k, kernel in enumerate(kernels):
                Phi = row_features(kernel, part, centre, single)
                squares = np.einsum("ij,ij->i", Phi, Phi)
                for a, b in pairwise(cuts):
                    target = sums[at[a], edges[k] : edges[k + 1]]
                    target += np.add.reduce(Phi[a:b], axis=0, dtype=np.float64)
                    diagonals[at[a], k] += squares[a:b].sum(dtype=np.float64)
        counted = [part.count(A, L, count) for part in cells]
        A -= centre
        return sums, diagonals, A.sum(axis=0), A.T @ A, *counted

    sums, diagonals, first, second, *counted = sum_rows(
        work, source, labels, names=(name, "labels"), width=max(ROW_WIDTH, len(centre))
    )
    parts = [BinSums(sums[:, a:b], diagonals[:, k]) for k, (a, b) in enumerate(pairwise(edges))]
    return SampleSums(parts, (first, second), counted)


def row_features(kernel: FeatureKernel, A: np.ndarray, centre: np.ndarray, single: bool) -> np.ndarray:
    """Features of rows (n, d); those of a Fourier kernel about ``centre``, which changes no product."""
    if not isinstance(kernel, FourierKernel):
        return np.asarray(kernel.features(A))
    # Angles are in double precision all the same, so that no row depends on those it is read with.
    angles = (A - centre) @ np.asarray(kernel.frequencies).T
    if single:
        angles = angles.astype(np.float32)
    out = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    out *= out.dtype.type(kernel.scale)
    return out


def sample_embedding(
    kernel: FeatureKernel,
    sums: BinSums,
    moments: tuple[np.ndarray, np.ndarray],
    points: np.ndarray,
    n: int,
    centre: np.ndarray,
    encoder: Encoder,
) -> MomentEmbedding:
    """The mean embedding of all n rows of a sample, some of which are ``points``."""
    theta = sums.sums.sum(axis=0) / n
    if isinstance(kernel, FourierKernel):  # back from features about the centre
        turn = np.asarray(kernel.frequencies) @ centre
        c, s = np.split(theta, 2)
        theta = np.concatenate([np.cos(turn) * c - np.sin(turn) * s, np.sin(turn) * c + np.cos(turn) * s])
    first, second = moments
    return MomentEmbedding(kernel, points, theta, (np.array(1.0), first / n, second / n), centre, encoder)


# Dependence: sums over bins.


@dataclass(frozen=True)
class Components:
    """Principal features that several kernels on one variable share: ``k(z, z') ≈ u(z)ᵀ M u(z')``, centred.

    Attributes:
        kernels: whose features they are combined from.
        means: of these features on the rows they were chosen from, (P,).
        vectors: from features to components, (P, r).
        metrics: M of every kernel, (kernels, r, r).
    """

    kernels: list[FeatureKernel]
    means: np.ndarray
    vectors: np.ndarray
    metrics: np.ndarray

    @classmethod
    def fit(cls, kernels: list[FeatureKernel], Z: np.ndarray, rank: int = RANK) -> Components:
        """The directions in which the features of rows ``Z`` vary most, all kernels having the same share."""
        edges = np.cumsum([0, *(k.size for k in kernels)])
        Phi = np.concatenate([np.asarray(k.features(Z), dtype=np.float64) for k in kernels], axis=1)
        means, size = Phi.mean(axis=0), _traces(Phi, edges)
        Phi -= means
        traces = _traces(Phi, edges)
        varies = traces > CONSTANT * size
        shares = np.sqrt(np.divide(1.0, traces, out=np.zeros_like(traces), where=varies))
        scales = np.repeat(shares, np.diff(edges))
        Phi *= scales
        values, V = np.linalg.eigh(Phi.T @ Phi)
        values = np.maximum(values, 0.0)
        dropped = int(np.searchsorted(np.cumsum(values), TOLERANCE * values.sum()))
        dropped = min(max(dropped, len(values) - rank), len(values) - 1)
        V = np.ascontiguousarray(V[:, dropped:][:, ::-1])
        parts = [
            V[a:b] / s if s > 0 else 0 * V[a:b] for a, b, s in zip(edges[:-1], edges[1:], shares, strict=True)
        ]
        return cls(kernels, means, V * scales[:, None], np.stack([B.T @ B for B in parts]))

    @property
    def size(self) -> int:
        return self.vectors.shape[1]

    def __call__(self, A: np.ndarray) -> np.ndarray:
        """u of every row, (n, r)."""
        edges = np.cumsum([0, *(k.size for k in self.kernels)])
        height = max(64, FEATURE_ELEMENTS // int(np.diff(edges).max()))
        out = np.empty((len(A), self.size))
        out[:] = -self.means @ self.vectors
        for i in range(0, len(A), height):
            part = np.asarray(A[i : i + height], dtype=np.float64)
            for kernel, (a, b) in zip(self.kernels, pairwise(edges), strict=True):
                out[i : i + height] += np.asarray(kernel.features(part)) @ self.vectors[a:b]
        return out


def _traces(Phi: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Mean square of the features of every kernel."""
    return np.add.reduceat(np.einsum("ij,ij->j", Phi, Phi), edges[:-1]) / len(Phi)


@dataclass(frozen=True)
class SignedSums:
    """Sums of products of what the rows say, over bins to which chance assigns the rows.

    If x and y are independent, the centred sums of the bins have mean 0, and random signs of the bins draw
    from the distribution of the statistic. Where the rows stand does not matter: permutations of rows that
    are near each other would leave a table that is sorted as it is.

    Attributes:
        left, right: u of x and v of y, (r,) and (s,).
        products: ``Σ (u − ū)(v − v̄)ᵀ`` of every bin, (bins, r, s).
        covariances: sums of squares of the centred u and v, (r, r) and (s, s).
        n: rows.
    """

    left: Components
    right: Components
    products: np.ndarray
    covariances: tuple[np.ndarray, np.ndarray]
    n: int

    def signed(self, signs: np.ndarray) -> np.ndarray:
        """``‖Σᵢ ε φ(xᵢ) ψ(yᵢ)ᵀ‖²``, centred, for every pair of kernels and row ε of ``signs``, (pairs, B).

        ``signs`` has a sign for each bin, (B, bins).
        """
        M, N = self.left.metrics, self.right.metrics
        out = np.empty((len(M), len(N), len(signs)))
        flat = self.products.reshape(len(self.products), -1)
        for start in range(0, len(signs), DRAWN):
            drawn = signs[start : start + DRAWN] @ flat
            for b, C in enumerate(drawn.reshape(-1, *self.products.shape[1:]), start):
                # tr(M C N Cᵀ)
                out[:, :, b] = (M @ C).reshape(len(M), -1) @ (C @ N).reshape(len(N), -1).T
        return out.reshape(-1, len(signs))

    def moments(self, i: int, j: int) -> tuple[Moments, Moments]:
        """Sums over the centred Gram matrices of kernel i of x and kernel j of y."""
        products = self.left.metrics[i] @ self.covariances[0], self.right.metrics[j] @ self.covariances[1]
        # The sum of the squared diagonal is not known; the mean over permutations does not need it.
        a, b = (Moments(self.n, float(np.trace(P)), float(np.vdot(P, P.T)), np.nan) for P in products)
        return a, b

    def truncation(self, i: int, j: int, X: np.ndarray, Y: np.ndarray) -> float:
        """What HSIC of some pairs of rows with kernels i of x and j of y loses to components."""
        left, right = self.left, self.right
        whole = _cross(left.kernels[i].features(X), right.kernels[j].features(Y))
        C = _cross(left(X), right(Y))
        part = np.vdot(left.metrics[i] @ C, C @ right.metrics[j])
        return float(np.vdot(whole, whole) - part) / len(X) ** 2


def _cross(U: Any, V: Any) -> np.ndarray:
    return (U - U.mean(axis=0)).T @ (V - V.mean(axis=0))


def signed_sums(
    x: Any, y: Any, left: Components, right: Components, seed: int, bins: int = SIGN_BINS
) -> SignedSums:
    """The sums of :class:`SignedSums`: one pass.

    Args:
        x, y: rows that belong together.
        left, right: components of each.
        seed: which bins rows are in, whatever blocks they are read in.
        bins: how many.
    """

    def work(start: int, A: np.ndarray, B: np.ndarray) -> State:
        U, V = left(A), right(B)
        label = (row_keys(seed + start, seed + start + len(U)) * bins).astype(np.int64)
        order = np.argsort(label, kind="stable")
        cuts = np.searchsorted(label[order], np.arange(bins + 1))
        products = np.zeros((bins, left.size, right.size))
        for b in np.flatnonzero(np.diff(cuts)):
            rows = order[cuts[b] : cuts[b + 1]]
            products[b] = U[rows].T @ V[rows]
        each = np.zeros((bins, left.size)), np.zeros((bins, right.size))
        np.add.at(each[0], label, U)
        np.add.at(each[1], label, V)
        return products, *each, np.bincount(label, minlength=bins), U.T @ U, V.T @ V

    products, u, v, counts, gram_u, gram_v = reduce_rows(
        work, _added, x, y, names=("x", "y"), width=max(ROW_WIDTH, left.size + right.size)
    )
    n = int(counts.sum())
    mean_u, mean_v = u.sum(axis=0) / n, v.sum(axis=0) / n
    products -= u[:, :, None] * mean_v + mean_u[:, None] * v[:, None]
    products += counts[:, None, None] * np.outer(mean_u, mean_v)
    squares = gram_u - n * np.outer(mean_u, mean_u), gram_v - n * np.outer(mean_v, mean_v)
    return SignedSums(left, right, products, squares, n)


def _added(a: State, b: State) -> State:
    return tuple(p + q for p, q in zip(a, b, strict=True))


__all__ = [
    "BinSums",
    "Components",
    "SampleSums",
    "SignedSums",
    "bin_size",
    "row_features",
    "sample_embedding",
    "sample_sums",
    "signed_sums",
]
