"""Incomplete Cholesky: low rank to a stated error without making the matrix."""

from __future__ import annotations

import numpy as np

from muhat.kernels.base import Kernel


def incomplete_cholesky(
    kernel: Kernel, X: np.ndarray, tolerance: float, rank: int, about: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """``Φ`` (n, p) with ``ΦΦᵀ ≤ K``, greedily by the largest remaining diagonal entry [FS01].

    Args:
        kernel: k, with nothing left open.
        X: points, (n, d).
        tolerance: stop when the remaining trace is at most this share of the trace.
        rank: stop at this many columns.
        about: points S; features are then taken relative to their mean over S, i.e. K is that of
            ``⟨φ(x) − μ_S, φ(x') − μ_S⟩``, which loses nothing to a large constant part of the kernel.

    Returns:
        Φ and the remaining trace ``tr(K − ΦΦᵀ) ≥ 0``. Cost O(np²).
    """
    n = len(X)
    shift, constant = np.zeros(n), 0.0
    if about is not None:
        shift = np.asarray(kernel(X, about), dtype=np.float64).mean(axis=1)
        constant = float(np.mean(kernel(about)))
    rest = np.maximum(np.asarray(kernel.diag(X), dtype=np.float64) - 2 * shift + constant, 0.0)
    total, floor = float(rest.sum()), 1e-12 * float(rest.max())
    rows = np.empty((min(rank, n), n))  # Φᵀ: each new column is one contiguous row
    p = 0
    while p < len(rows):
        i = int(rest.argmax())
        if rest[i] <= floor or rest.sum() <= tolerance * total:
            break
        column = np.asarray(kernel(X, X[i : i + 1]), dtype=np.float64)[:, 0] - shift - shift[i] + constant
        rows[p] = (column - rows[:p, i] @ rows[:p]) / np.sqrt(rest[i])
        rest = np.maximum(rest - rows[p] ** 2, 0.0)
        rest[i] = 0.0
        p += 1
    return rows[:p].T.copy(), float(rest.sum())
