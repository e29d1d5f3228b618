"""Products with a kernel matrix that is made block by block and never held."""

from __future__ import annotations

import numpy as np

from muhat import _threads
from muhat._array import Array, floating, namespace
from muhat.gram.base import Gram, Ridge
from muhat.gram.dense import DenseGram
from muhat.gram.iterative import IterativeRidge
from muhat.gram.landmarks import uniform_landmarks
from muhat.gram.lowrank import LowRankGram
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.base import Kernel

# Entries of the one block that is in memory: 64 MB in double precision.
BLOCK_ELEMENTS = 1 << 23
# With at most this many columns, blocks are multiplied while still in the cache.
FEW_COLUMNS = 4


def kernel_matmul(
    kernel: Kernel, X: Array, Y: Array, B: Array, block_elements: int = BLOCK_ELEMENTS
) -> Array:
    """``k(X, Y) @ B`` for ``B`` (m,) or (m, k), never holding more than one block of rows."""
    xp = namespace(X, Y, B, *kernel.leaves())
    X, Y, B = floating(X, xp), floating(Y, xp), floating(B, xp)
    kernel = kernel.resolve(X)
    if xp is not np:
        return _jax_matmul(kernel, X, Y, B, block_elements)
    n, m = len(X), len(Y)
    out = np.empty((n, *B.shape[1:]), np.result_type(X, Y, B))
    if B.ndim == 1 or B.shape[1] <= FEW_COLUMNS:
        plan = kernel._plan(X, Y, np)

        def work(rows: slice) -> None:
            out[rows] = plan(rows) @ B

        _threads.run_blocks(work, _threads.row_blocks(n, m))
        return out
    for rows in _threads.row_blocks(n, m, block_elements):
        out[rows] = kernel(X[rows], Y) @ B
    return out


def kernel_quadratic(kernel: Kernel, X: Array, w: Array) -> Array:
    """``Σᵢⱼ wᵢ wⱼ k(xᵢ, xⱼ)`` for ``w`` (n,): each pair is computed once."""
    if namespace(X, w, *kernel.leaves()) is not np:
        return w @ kernel_matmul(kernel, X, X, w)
    kernel = kernel.resolve(X)
    n = len(X)
    # Strips of rows against the columns from the strip on; wide enough to be worth a thread each.
    strips = _threads.row_blocks(n, n, max(BLOCK_ELEMENTS // 4, n))
    total = 0.0
    for rows in strips:
        inside = w[rows] @ kernel_matmul(kernel, X[rows], X[rows], w[rows])
        beyond = 0.0
        if rows.stop < n:
            beyond = w[rows] @ kernel_matmul(kernel, X[rows], X[rows.stop :], w[rows.stop :])
        total += inside + 2 * beyond
    return total


def _jax_matmul(kernel: Kernel, X: Array, Y: Array, B: Array, block_elements: int) -> Array:
    import jax
    import jax.numpy as jnp

    n, m = X.shape[0], Y.shape[0]
    rows = max(1, min(n, block_elements // m))
    if rows == n:
        return kernel(X, Y) @ B
    count = -(-n // rows)
    padded = jnp.concatenate([X, jnp.broadcast_to(X[:1], (count * rows - n, X.shape[1]))])
    # Checkpointed: the backward pass makes each block again instead of keeping them all.
    block = jax.checkpoint(lambda x: kernel(x, Y) @ B)
    out = jax.lax.map(block, padded.reshape(count, rows, -1))
    return out.reshape(count * rows, *B.shape[1:])[:n]


class BlockedGram(Gram):
    """K made block by block: exact, any n, memory of one block.

    Args:
        kernel: k.
        points: (n, d).
        block_elements: entries of one block.
        rank: of the Nyström preconditioner of the ridge.
        tolerance: relative residual at which a solve stops.
        max_iterations: where it gives up, with a warning.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        block_elements: int = BLOCK_ELEMENTS,
        rank: int = 500,
        tolerance: float = 1e-8,
        max_iterations: int = 1000,
    ) -> None:
        self.kernel, self.points = kernel.resolve(points), points
        self.block_elements, self.rank = block_elements, rank
        self.tolerance, self.max_iterations = tolerance, max_iterations

    @property
    def shape(self) -> tuple[int, int]:
        return (self.points.shape[0], self.points.shape[0])

    def __matmul__(self, B: Array) -> Array:
        return kernel_matmul(self.kernel, self.points, self.points, B, self.block_elements)

    def diag(self) -> Array:
        return self.kernel.diag(self.points)

    def evaluate(self, X: Array, coefficients: Array) -> Array:
        return kernel_matmul(self.kernel, X, self.points, coefficients, self.block_elements)

    def dense(self) -> Array:
        return self.kernel(self.points)

    def take(self, rows: Array) -> Gram:
        shape = (self.block_elements, self.rank, self.tolerance, self.max_iterations)
        return BlockedGram(self.kernel, self.points[rows], *shape)

    def _ridge(self, c: Array, root_weights: Array | None) -> Ridge:
        n = len(self)
        # A preconditioner only has to be near: fixed landmarks keep the answer reproducible.
        landmarks = uniform_landmarks(self.points, min(self.rank, max(1, n // 2)), np.random.default_rng(0))
        approximate = NystromKernel.fit(self.kernel, landmarks)
        low = LowRankGram(approximate.features(self.points))
        return IterativeRidge(
            lambda B: self @ B,
            n,
            c,
            root_weights,
            low._ridge(c, root_weights),
            lambda: DenseGram(self.dense())._ridge(c, root_weights),
            namespace(self.points, c, root_weights, *self.kernel.leaves()),
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
        )
