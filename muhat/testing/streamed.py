"""Permutation tests in one pass over rows, which need not fit in memory: bins for MMD, windows for HSIC."""

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
# Rows a window, and groups that permutations move.
GROUPS = 16
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


# Dependence: sums over windows.


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
class WindowMoments:
    """Sums over pairs of rows in windows of G consecutive ones, each in the group that chance gave it.

    A permutation π of the G groups takes y of group π(g) to x of group g, in every window. These are
    permutations of the rows, and a subgroup of all, so that a test by some drawn from them has its exact
    level. The statistics of all of them are in the G² blocks ``Σ_w u_{w,g} v_{w,h}ᵀ``.

    Attributes:
        left, right: u of x and v of y, (r,) and (s,).
        blocks: (G, G, r, s).
        rest: ``Σ u vᵀ`` of the rows after the last whole window, which stay as they are, (r, s).
        means: of u and of v over all rows, (r,) and (s,).
        covariances: sums of squares of the centred u and v, (r, r) and (s, s).
        n: rows.
    """

    left: Components
    right: Components
    blocks: np.ndarray
    rest: np.ndarray
    means: tuple[np.ndarray, np.ndarray]
    covariances: tuple[np.ndarray, np.ndarray]
    n: int

    def permuted(self, orders: np.ndarray) -> np.ndarray:
        """``‖Σᵢ φ(xᵢ) ψ(y_π(i))ᵀ‖²``, centred, for every pair of kernels and order of groups, (pairs, B).

        ``orders`` are permutations of the groups, (B, G).
        """
        # Every permutation has all rows of u and of v, so that centring takes off the same from each.
        fixed = self.rest - self.n * np.outer(*self.means)
        M, N = self.left.metrics, self.right.metrics
        out = np.empty((len(M), len(N), len(orders)))
        groups = np.arange(len(self.blocks))
        for b, order in enumerate(orders):
            C = self.blocks[groups, order].sum(axis=0) + fixed
            out[:, :, b] = (M @ C).reshape(len(M), -1) @ (C @ N).reshape(len(N), -1).T  # tr(M C N Cᵀ)
        return out.reshape(-1, len(orders))

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


def window_moments(
    x: Any, y: Any, left: Components, right: Components, seed: int, groups: int = GROUPS
) -> WindowMoments:
    """The sums of :class:`WindowMoments`: one pass.

    A window may lie across two pieces of the rows. What is known of a piece therefore has its first and last
    rows beside its sums, and two pieces are joined by completing the window between them: where the rows are
    cut does not matter.

    Args:
        x, y: rows that belong together.
        left, right: components of each.
        seed: which groups rows are in.
        groups: G.
    """
    passing = _Windows(left, right, seed, groups)
    state = reduce_rows(
        passing, passing.join, x, y, names=("x", "y"), width=max(ROW_WIDTH, left.size + right.size)
    )
    blocks, gram_u, gram_v, u, v, at, *_, U, V = state
    n = int(at[1])
    G, r, s = groups, left.size, right.size
    means = u / n, v / n
    squares = gram_u - np.outer(u, u) / n, gram_v - np.outer(v, v) / n
    blocks = np.ascontiguousarray(blocks.reshape(G, r, G, s).transpose(0, 2, 1, 3))
    return WindowMoments(left, right, blocks, U.T @ V, means, squares, n)


class _Windows:
    """The sums of a piece of the rows and how two are joined.

    A piece is (products of whole windows, Gram of u, of v, sum of u, of v, its first row and its end, head of
    u, of v, tail of u, of v). The head goes up to the first window that begins in the piece, or to its end.
    """

    def __init__(self, left: Components, right: Components, seed: int, groups: int) -> None:
        self.left, self.right, self.seed, self.groups = left, right, seed, groups

    def __call__(self, start: int, A: np.ndarray, B: np.ndarray) -> State:
        U, V, G = self.left(A), self.right(B), self.groups
        stop = start + len(U)
        head = min(-start % G, len(U))
        last = head + (len(U) - head) // G * G
        products = self._products(start + head, U[head:last], V[head:last])
        sums = U.T @ U, V.T @ V, U.sum(axis=0), V.sum(axis=0)
        ends = U[:head].copy(), V[:head].copy(), U[last:].copy(), V[last:].copy()
        return (products, *sums, np.array([start, stop]), *ends)

    def join(self, a: State, b: State) -> State:
        G = self.groups
        (start, middle), (_, stop) = a[5], b[5]
        products = a[0] + b[0]
        sums = tuple(p + q for p, q in zip(a[1:5], b[1:5], strict=True))
        bounds = np.array([start, stop])
        # A piece that reaches no beginning of a window is all head.
        reaches_a, reaches_b = (-int(p[5][0]) % G <= p[5][1] - p[5][0] for p in (a, b))
        between = [np.concatenate(pair) for pair in zip(a[8:] if reaches_a else a[6:8], b[6:8], strict=True)]
        if not reaches_a:
            return (products, *sums, bounds, *between, *b[8:])
        if not reaches_b:
            return (products, *sums, bounds, *a[6:8], *between)
        if len(between[0]):
            products += self._products(int(middle) // G * G, *between)
        return (products, *sums, bounds, *a[6:8], *b[8:])

    def _products(self, start: int, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """``Σ_w u_{w,g} v_{w,h}ᵀ`` over whole windows for every g and h, (G r, G s)."""
        G = self.groups
        keys = row_keys(self.seed + start, self.seed + start + len(U)).reshape(-1, G)
        order = np.argsort(keys, axis=1)
        rows = (order + G * np.arange(len(order))[:, None]).ravel()
        left, right = (A[rows].reshape(len(order), G * A.shape[1]) for A in (U, V))
        return left.T @ right


__all__ = [
    "GROUPS",
    "BinSums",
    "Components",
    "SampleSums",
    "WindowMoments",
    "bin_size",
    "row_features",
    "sample_embedding",
    "sample_sums",
    "window_moments",
]
