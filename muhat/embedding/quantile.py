"""Quantiles of a weighted sample."""

from __future__ import annotations

import numpy as np


def weighted_quantile(points: np.ndarray, weights: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Marginal quantiles of the points under probability weights.

    The smallest point at which the weights up to it reach q, column by column.

    Args:
        points: (n, d).
        weights: probability weights, (batch, n).
        q: levels in [0, 1], (k,).

    Returns:
        (batch, k, d).
    """
    out = np.empty((weights.shape[0], len(q), points.shape[1]))
    for j in range(points.shape[1]):
        order = np.argsort(points[:, j], kind="stable")
        cumulative = np.cumsum(weights[:, order], axis=1)
        # Rounding must neither step past the last point nor take one more at exact levels.
        level = np.clip(q, 0, 1) * cumulative[:, -1:] * (1 - 1e-12)
        level = np.maximum(level, np.finfo(float).tiny)  # level 0 is the first point that has weight
        for b in range(weights.shape[0]):
            at = np.searchsorted(cumulative[b], level[b], side="left")
            out[b, :, j] = points[order[np.minimum(at, len(order) - 1)], j]
    return out
