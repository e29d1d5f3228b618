"""Pairwise distances between rows, in NumPy and in JAX.

A *plan* does once what all blocks share and returns a function from a slice of rows to that block
of the distance matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from muhat import _threads
from muhat._array import Array, Namespace

Plan = Callable[[slice], Array]

# Up to this many columns differences are summed directly: exact, and as fast as a product.
DIRECT_COLUMNS = 32


def squared_distances(X: Array, Y: Array, xp: Namespace, unit: Array = 1.0) -> Plan:
    """Plan of ``s[i, j] = ‖(xᵢ − yⱼ)/unit‖²`` for ``X`` (n, d) and ``Y`` (m, d).

    With few columns the differences are summed, which is exact for close points. With many the
    square is multiplied out after centring; pairs so close that the expansion would lose half its
    digits are then summed directly (NumPy only: their number is not known under ``jit``; in JAX,
    points closer than rounding error are taken to coincide).
    """
    if X.shape[1] <= DIRECT_COLUMNS:
        return _direct(X, Y, xp, unit, "sqeuclidean", lambda difference: difference**2)
    centre = Y.mean(axis=0)
    X, Y = (X - centre) / unit, (Y - centre) / unit
    x2, y2 = (X**2).sum(axis=1), (Y**2).sum(axis=1)

    def block(rows: slice) -> Array:
        size = x2[rows, None] + y2
        s = size - 2 * (X[rows] @ Y.T)
        if xp is not np:
            # Where the difference is all rounding error, its root would be noise of size √eps.
            noise = 2 * X.shape[1] ** 0.5 * float(xp.finfo(s.dtype).eps)
            return xp.where(s > noise * size, s, 0.0)
        close = np.nonzero(s <= 1e-6 * y2)
        for part in _threads.row_blocks(len(close[0]), X.shape[1], 8 * _threads.BLOCK_ELEMENTS):
            i, j = close[0][part], close[1][part]
            s[i, j] = ((X[rows][i] - Y[j]) ** 2).sum(axis=1)
        return s

    return block


def city_distances(X: Array, Y: Array, xp: Namespace, unit: Array = 1.0) -> Plan:
    """Plan of ``s[i, j] = Σₖ |xᵢₖ − yⱼₖ|/unitₖ`` for ``X`` (n, d) and ``Y`` (m, d)."""
    # |u| with derivative 0 at 0, between the two slopes (that of jnp.abs is 1).
    return _direct(X, Y, xp, unit, "cityblock", lambda difference: difference * xp.sign(difference))


def _direct(
    X: Array, Y: Array, xp: Namespace, unit: Array, metric: Any, each: Callable[[Array], Array]
) -> Plan:
    if xp is not np:  # XLA fuses the difference into the sum: no (n, m, d) array is made
        # Scaled after the difference, which is then exactly 0 for equal points however XLA rounds.
        return lambda rows: xp.sum(each((X[rows, None, :] - Y[None, :, :]) * (1 / unit)), axis=-1)
    from scipy.spatial.distance import cdist

    X, Y = X / unit, Y / unit
    dtype = np.result_type(X, Y)
    return lambda rows: cdist(X[rows], Y, metric).astype(dtype, copy=False)
