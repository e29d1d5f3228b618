"""Which of many messages to ask an oracle about."""

from __future__ import annotations

import numpy as np


def to_ask(half: np.ndarray, noise: float, limit: float) -> np.ndarray:
    """The fewest messages, greedily, after whose answers no variance is above ``limit``; their numbers.

    How sure an answer makes the operator depends on where it is, not on what it says, so that all questions
    of a batch are known before the first is asked: pivoted Cholesky of the posterior covariance.

    Args:
        half: L⁻¹ψᵀ of each message, (p, n): their posterior covariance is ``halfᵀ half``.
        noise: of an answer.
        limit: of the variance.
    """
    variance = (half**2).sum(axis=0)
    chosen: list[int] = []
    columns = np.empty((0, half.shape[1]))
    while len(chosen) < len(variance):
        left = variance.copy()
        left[chosen] = -np.inf  # an answer is used as it is
        i = int(np.argmax(left))
        if left[i] <= limit:
            break
        column = half.T @ half[:, i] - columns.T @ columns[:, i]
        column /= np.sqrt(max(variance[i], 0.0) + noise)
        variance = variance - column**2
        columns = np.vstack([columns, column])
        chosen.append(i)
    return np.sort(np.array(chosen, dtype=int))


__all__ = ["to_ask"]
