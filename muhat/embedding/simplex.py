"""Signed weights onto the probability simplex."""

from __future__ import annotations

from muhat._array import Array, namespace


def project_simplex(weights: Array) -> Array:
    """The nearest probability weights (Euclidean) to each row of ``weights``, (…, n) → (…, n).

    ``max(w − θ, 0)`` with the θ that makes the sum 1, found by sorting [DU08].
    """
    xp = namespace(weights)
    n = weights.shape[-1]
    u = xp.flip(xp.sort(weights, axis=-1), axis=-1)
    excess = (xp.cumsum(u, axis=-1) - 1) / xp.arange(1, n + 1)
    count = (u > excess).sum(axis=-1, keepdims=True)
    threshold = xp.take_along_axis(excess, count - 1, axis=-1)
    return xp.maximum(weights - threshold, 0.0)
