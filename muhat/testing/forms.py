"""Quadratic forms vᵀKv of many kernels and many vectors, in blocks: what permutation tests are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from muhat import _threads
from muhat._array import Array
from muhat.gram.features import FeatureKernel
from muhat.gram.fourier import FourierKernel
from muhat.kernels.algebra import Product, Restricted
from muhat.kernels.base import Kernel
from muhat.kernels.distance import Plan, city_distances, squared_distances
from muhat.kernels.stationary import Stationary

# Entries of a block in each thread: 4 MB in single precision.
BLOCK_ELEMENTS = 1 << 20
# From this many rows on, kernels are evaluated and multiplied in single precision.
SINGLE_ROWS = 1000

Blocks = Callable[[slice], Iterator[Array]]


def kernel_blocks(kernels: list[Kernel], X: Array, Y: Array, dtype: Any = np.float64) -> Blocks:
    """A function from a slice of rows of ``X`` to that block of every ``k(X, Y)``, in order.

    Kernels that differ only in family and scale share their distances. These, and kernels that have none,
    are computed in the precision of the points; ``dtype`` is that of what follows.
    """
    plans: dict[tuple, Plan] = {}
    recipes: list[tuple[Stationary | None, tuple | None, float, tuple | None]] = []
    for kernel in kernels:
        leaf, columns, rest = _split(kernel)
        # By identity: kernels of a user's own may look alike and differ.
        key = ("rest", *map(id, rest)) if rest else None
        if key is not None and key not in plans:
            plans[key] = _product(rest)._plan(X, Y, np)
        if leaf is None:
            recipes.append((None, None, 1.0, key))
            continue
        ell = np.atleast_1d(np.asarray(leaf.lengthscale, dtype=np.float64))
        scale = float(ell.max())
        # To 12 digits, so that vectors which are multiples of one another are found to be.
        shape = tuple(float(f"{share:.12g}") for share in ell / scale)
        near = (leaf._metric, columns, shape)
        if near not in plans:
            distances = city_distances if leaf._metric == "cityblock" else squared_distances
            A, B = (X, Y) if columns is None else (X[:, list(columns)], Y[:, list(columns)])
            plans[near] = distances(A, B, np, np.asarray(shape, dtype=A.dtype))
        recipes.append((leaf, near, scale if leaf._metric == "cityblock" else scale**2, key))

    def blocks(rows: slice) -> Iterator[Array]:
        made: dict[tuple, Array] = {}

        def get(key: tuple) -> Array:
            if key not in made:
                made[key] = plans[key](rows)
            return made[key]

        def distances(key: tuple) -> Array:
            if ("as", key) not in made:
                made["as", key] = plans[key](rows).astype(dtype, copy=False)
            return made["as", key]

        for leaf, near, scale, key in recipes:
            if leaf is None or near is None:
                yield get(key).copy()  # type: ignore[arg-type]
                continue
            s = distances(near)
            block = leaf._of(s * s.dtype.type(1 / scale), np)
            yield block if key is None else block * get(key).astype(dtype, copy=False)

    return blocks


def _split(kernel: Kernel) -> tuple[Stationary | None, tuple[int, ...] | None, list[Kernel]]:
    """A kernel as (stationary leaf, its columns, the other factors)."""
    head, *rest = kernel.parts if isinstance(kernel, Product) else [kernel]
    columns = None
    if isinstance(head, Restricted):
        head, columns = head.kernel, tuple(int(c) for c in head.columns)
    return (head, columns, rest) if isinstance(head, Stationary) else (None, None, [kernel])


def _product(factors: list[Kernel]) -> Kernel:
    out = factors[0]
    for factor in factors[1:]:
        out = out * factor
    return out


@dataclass(frozen=True)
class Forms:
    """Off-diagonal sums of kernels.

    Attributes:
        values: ``Σ_{i≠j} vᵢ vⱼ k(zᵢ, zⱼ)`` for every kernel and vector, (kernels, B).
        rows: ``Σ_{j≠i} k(zᵢ, zⱼ)``, (kernels, N).
        diagonals: ``k(zᵢ, zᵢ)``, (kernels, N).
        squares: ``Σ_{i≠j} k(zᵢ, zⱼ)²``, (kernels,).
    """

    values: np.ndarray
    rows: np.ndarray
    diagonals: np.ndarray
    squares: np.ndarray

    def of(self, kernel: int) -> Forms:
        """Those of one kernel."""
        one = slice(kernel, kernel + 1)
        return Forms(self.values[one], self.rows[one], self.diagonals[one], self.squares[one])

    @classmethod
    def stack(cls, parts: list[Forms]) -> Forms:
        """Those of several."""
        names = ("values", "rows", "diagonals", "squares")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def quadratic_forms(kernels: list[Kernel], Z: np.ndarray, V: np.ndarray) -> Forms:
    """The off-diagonal quadratic forms of every kernel on ``Z`` (N, d) with every row of ``V`` (B, N).

    Each pair is visited once and no N×N matrix is held. With many rows the blocks are in single
    precision: a constant near the mean of the kernel is taken out of them first, so that the products
    lose nothing to cancellation, and distances and sums over blocks are in double.
    """
    N = len(Z)
    dtype = np.float32 if N >= SINGLE_ROWS else np.float64
    V = np.ascontiguousarray(V, dtype=dtype)
    centre = _centres(kernels, Z)
    # Strips of rows against the columns from the strip on: each pair once.
    height = max(32, min(512, BLOCK_ELEMENTS // N, N // 8))
    strips = [slice(i, min(i + height, N)) for i in range(0, N, height)]

    def work(strip: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        blocks = kernel_blocks(kernels, Z[strip], Z[strip.start :], dtype)
        h = strip.stop - strip.start
        upper = np.triu(np.ones((h, h), dtype=bool), 1)
        values = np.empty((len(kernels), len(V)))
        sums = np.zeros((len(kernels), N))
        squares = np.empty(len(kernels))
        for k, K in enumerate(blocks(slice(None))):
            K -= K.dtype.type(centre[k])
            K = K.astype(dtype, copy=False)
            K[:, :h] *= upper
            product = V[:, strip.start :] @ K.T
            product *= V[:, strip]
            values[k] = product.sum(axis=1, dtype=np.float64)
            sums[k, strip] = K.sum(axis=1)
            sums[k, strip.start :] += K.sum(axis=0)
            squares[k] = np.vdot(K, K)
        return values, sums, squares

    parts = _threads.run_blocks(work, strips)
    values, sums, squares = (np.sum([p[i] for p in parts], axis=0) for i in range(3))
    # Put the constants back: Σ_{i≠j} vᵢvⱼ = (Σv)² − Σv².
    pairs = V.sum(axis=1, dtype=np.float64) ** 2 - np.einsum("bi,bi->b", V, V, dtype=np.float64)
    return Forms(
        values=2 * values + centre[:, None] * pairs,
        rows=sums + centre[:, None] * (N - 1),
        diagonals=np.stack([np.asarray(k.diag(Z), dtype=np.float64) for k in kernels]),
        squares=2 * squares + 2 * centre * sums.sum(axis=1) + centre**2 * N * (N - 1),
    )


def feature_forms(kernel: FeatureKernel, Z: np.ndarray, V: np.ndarray) -> Forms:
    """The same for a kernel with features φ: ``vᵀKv = ‖Σ vᵢ φ(zᵢ)‖²``, linear in the rows."""
    dtype = np.float32 if len(Z) >= SINGLE_ROWS else np.float64
    if isinstance(kernel, FourierKernel):  # its products do not change when all rows move
        Z = (Z - Z.mean(axis=0)).astype(dtype)
    Phi = np.asarray(kernel.features(Z), dtype=dtype)
    diag = (Phi**2).sum(axis=1, dtype=np.float64)
    sums = (V.astype(dtype, copy=False) @ Phi).astype(np.float64)
    total = Phi.sum(axis=0, dtype=np.float64)
    second = (Phi.T @ Phi).astype(np.float64)
    return Forms(
        values=((sums**2).sum(axis=1) - np.square(V) @ diag)[None],
        rows=(Phi @ total.astype(dtype) - diag)[None].astype(np.float64),
        diagonals=diag[None],
        squares=np.array([(second**2).sum() - (diag**2).sum()]),
    )


@dataclass(frozen=True)
class Bins:
    """Rows of two samples in bins of one size, each of one sample, that permutations move whole.

    Moving bins is moving rows in a smaller group of permutations: a test keeps its exact level, and its cost
    for many permutations no longer grows with the rows. Rows beyond whole bins stay where they are.

    Attributes:
        labels: the bin of every row of the first sample and of the second, counted from 0 in each; rows left
            over have the number of bins.
        counts: bins of each sample.
        size: rows a bin.
    """

    labels: tuple[np.ndarray, np.ndarray]
    counts: tuple[int, int]
    size: int

    @classmethod
    def draw(cls, n: int, m: int, size: int, rng: np.random.Generator) -> Bins:
        """Rows put into bins at random: neighbours in a table may be alike."""
        size = max(1, min(size, n, m))
        labels = []
        for rows in (n, m):
            at = np.empty(rows, dtype=np.int32)
            at[rng.permutation(rows)] = np.minimum(np.arange(rows) // size, rows // size)
            labels.append(at)
        return cls((labels[0], labels[1]), (n // size, m // size), size)


@dataclass(frozen=True)
class BinSums:
    """Sums of the features of one kernel over the bins of one sample.

    Attributes:
        sums: ``Σ φ(zᵢ)``, (bins + 1, p); the last is of the rows left over.
        diagonals: ``Σ k(zᵢ, zᵢ)``, (bins + 1,).
    """

    sums: np.ndarray
    diagonals: np.ndarray


def binned_mmd(x: BinSums, y: BinSums, members: np.ndarray, n: int, m: int, biased: bool) -> np.ndarray:
    """MMD² for every row of ``members`` (B, bins), which bins make up the first sample of n rows, (B,)."""
    H = members.astype(np.float64)
    total = x.sums.sum(axis=0) + y.sums.sum(axis=0)
    inside = H @ np.concatenate([x.sums[:-1], y.sums[:-1]]) + x.sums[-1]
    own = H @ np.concatenate([x.diagonals[:-1], y.diagonals[:-1]]) + x.diagonals[-1]  # Σ_{i∈x} k(zᵢ, zᵢ)
    xx = (inside**2).sum(axis=1)
    xy = inside @ total - xx
    yy = total @ total - 2 * xy - xx
    if biased:
        return xx / n**2 + yy / m**2 - 2 * xy / (n * m)
    rest = x.diagonals.sum() + y.diagonals.sum() - own
    return (xx - own) / (n * (n - 1)) + (yy - rest) / (m * (m - 1)) - 2 * xy / (n * m)


def _centres(kernels: list[Kernel], Z: np.ndarray) -> np.ndarray:
    """A constant near the mean of each kernel, from a few evenly spaced rows."""
    some = Z[np.linspace(0, len(Z) - 1, min(len(Z), 64)).astype(int)]
    return np.array([float(np.mean(k(some))) for k in kernels])
