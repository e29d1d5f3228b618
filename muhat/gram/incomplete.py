"""Incomplete Cholesky: low rank to a stated error without making the matrix."""

from __future__ import annotations

import numpy as np

from muhat.kernels.base import Kernel


def incomplete_cholesky(
    kernel: Kernel, X: np.ndarray, tolerance: float, rank: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """``Φ`` (n, p) with ``ΦΦᵀ ≤ K``, greedily by the largest remaining diagonal entry [FS01].

    Args:
        kernel: k, with nothing left open.
        X: points, (n, d).
        tolerance: stop when the remaining trace is at most this share of the trace.
        rank: stop at this many columns.

    Returns:
        Φ, the indices of its p pivots, and the remaining trace ``tr(K − ΦΦᵀ) ≥ 0``. Cost O(np²).
    """
    n = len(X)
    rest = np.array(kernel.diag(X), dtype=np.float64)
    total = float(rest.sum())
    floor = 1e-12 * float(rest.max())
    rows = np.empty((min(rank, n), n))  # Φᵀ: each new column is one contiguous row
    pivots: list[int] = []
    for p in range(len(rows)):
        i = int(rest.argmax())
        if rest[i] <= floor or rest.sum() <= tolerance * total:
            break
        column = np.asarray(kernel(X, X[i : i + 1]))[:, 0].astype(np.float64)
        column -= rows[:p, i] @ rows[:p]
        rows[p] = column / np.sqrt(rest[i])
        rest = np.maximum(rest - rows[p] ** 2, 0.0)
        rest[i] = 0.0
        pivots.append(i)
    return rows[: len(pivots)].T.copy(), np.array(pivots, dtype=int), float(rest.sum())
