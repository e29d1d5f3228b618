"""Sums over entrywise products of two centred Gram matrices, in blocks."""

from __future__ import annotations

import numpy as np

from muhat import _threads
from muhat.kernels.base import Kernel
from muhat.testing.forms import BLOCK_ELEMENTS
from muhat.testing.nulls import Moments


def cross_moments(
    kernel_x: Kernel, kernel_y: Kernel, X: np.ndarray, Y: np.ndarray
) -> tuple[float, Moments, Moments]:
    """``tr(HKH L)`` and the moments of the centred K and L (n, n), visiting each pair once.

    What depends on one row alone drops out of centred matrices, so its mean over a few rows is taken out
    of the entries first: nothing is lost to a large constant part of a kernel.
    """
    n = len(X)
    shift_x, shift_y = shifts = [_row_part(k, Z) for k, Z in ((kernel_x, X), (kernel_y, Y))]
    # Low strips stay in the cache, and a first call has fewer new pages to touch.
    height = max(16, min(48, BLOCK_ELEMENTS // (4 * n)))
    strips = [slice(i, min(i + height, n)) for i in range(0, n, height)]

    def work(strip: slice) -> tuple[np.ndarray, np.ndarray]:
        h = strip.stop - strip.start
        sums, rows = np.empty(3), np.zeros((2, n))
        K, L = (
            np.asarray(k._plan(Z[strip], Z[strip.start :], np)(slice(None)), dtype=np.float64)
            for k, Z in ((kernel_x, X), (kernel_y, Y))
        )
        upper = np.triu(np.ones((h, h), dtype=bool), 1)
        for i, M in enumerate((K, L)):
            M -= shifts[i][strip, None]
            M -= shifts[i][strip.start :]
            M[:, :h] *= upper
            rows[i, strip] = M.sum(axis=1)
            rows[i, strip.start :] += M.sum(axis=0)
        sums[:] = np.vdot(K, L), np.vdot(K, K), np.vdot(L, L)
        return 2 * sums, rows

    parts = _threads.run_blocks(work, strips)
    product, square_x, square_y = np.sum([p[0] for p in parts], axis=0)
    rows = np.sum([p[1] for p in parts], axis=0)
    diag_x = np.asarray(kernel_x.diag(X), dtype=np.float64) - 2 * shift_x
    diag_y = np.asarray(kernel_y.diag(Y), dtype=np.float64) - 2 * shift_y
    a, b = rows[0] + diag_x, rows[1] + diag_y
    value = product + diag_x @ diag_y - 2 / n * (a @ b) + a.sum() * b.sum() / n**2
    return (
        float(value),
        Moments.of_sums(diag_x, rows[0], float(square_x)),
        Moments.of_sums(diag_y, rows[1], float(square_y)),
    )


def _row_part(kernel: Kernel, Z: np.ndarray) -> np.ndarray:
    """About ``mean(K)ᵢ − mean(K)/2``, from a few columns, (n,)."""
    some = Z[np.linspace(0, len(Z) - 1, min(len(Z), 64)).astype(int)]
    return np.asarray(kernel(Z, some), dtype=np.float64).mean(axis=1) - 0.5 * float(np.mean(kernel(some)))


def hadamard_forms(
    kernel_x: Kernel, kernel_y: Kernel, X: np.ndarray, Y: np.ndarray, W: np.ndarray
) -> np.ndarray:
    """``Σᵢⱼ wᵢ wⱼ (HKH)ᵢⱼ (HLH)ᵢⱼ`` for every row w of ``W`` (B, n)."""
    means = []
    for kernel, Z in ((kernel_x, X), (kernel_y, Y)):
        mean = np.zeros(len(Z))
        plan = kernel._plan(Z, Z, np)

        def row_means(rows: slice, mean: np.ndarray = mean, plan=plan) -> None:
            mean[rows] = plan(rows).mean(axis=1)

        _threads.run_blocks(row_means, _threads.row_blocks(len(Z), len(Z)))
        means.append(mean)

    def work(rows: slice) -> np.ndarray:
        blocks = []
        for kernel, Z, mean in ((kernel_x, X, means[0]), (kernel_y, Y, means[1])):
            block = kernel._plan(Z[rows], Z, np)(slice(None))
            blocks.append(block - mean - mean[rows, None] + mean.mean())
        return ((W @ (blocks[0] * blocks[1]).T) * W[:, rows]).sum(axis=1)

    return np.sum(_threads.run_blocks(work, _threads.row_blocks(len(X), len(X), BLOCK_ELEMENTS // 4)), axis=0)
