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


def squared_distances(X: Array, Y: Array, xp: Namespace) -> Plan:
    """Plan of ``s[i, j] = ‖xᵢ − yⱼ‖²`` for ``X`` (n, d) and ``Y`` (m, d).

    With few columns the differences are summed, which is exact for close points. With many the
    square is multiplied out after centring; pairs so close that the expansion would lose half its
    digits are then summed directly (NumPy only: their number is not known under ``jit``; in JAX,
    points closer than rounding error are taken to coincide).
    """
    if X.shape[1] <= DIRECT_COLUMNS:
        return _direct(X, Y, xp, "sqeuclidean", lambda difference: difference**2)
    centre = Y.mean(axis=0)
    X, Y = X - centre, Y - centre
    x2, y2 = (X**2).sum(axis=1), (Y**2).sum(axis=1)

    def block(rows: slice) -> Array:
        size = x2[rows, None] + y2
        s = size - 2 * (X[rows] @ Y.T)
        if xp is not np:
            # Where the difference is all rounding error, its root would be noise of size √eps.
            noise = 2 * X.shape[1] ** 0.5 * float(xp.finfo(s.dtype).eps)
            return xp.where(s > noise * size, s, 0.0)
        close = np.nonzero(s <= 1e-6 * y2)
        for part in _threads.row_blocks(len(close[0]), X.shape[1]):
            i, j = close[0][part], close[1][part]
            s[i, j] = ((X[rows][i] - Y[j]) ** 2).sum(axis=1)
        return s

    return block


def city_distances(X: Array, Y: Array, xp: Namespace) -> Plan:
    """Plan of ``s[i, j] = Σₖ |xᵢₖ − yⱼₖ|`` for ``X`` (n, d) and ``Y`` (m, d)."""
    return _direct(X, Y, xp, "cityblock", xp.abs)


def _direct(X: Array, Y: Array, xp: Namespace, metric: Any, each: Callable[[Array], Array]) -> Plan:
    if xp is not np:  # XLA fuses the difference into the sum: no (n, m, d) array is made
        return lambda rows: xp.sum(each(X[rows, None, :] - Y[None, :, :]), axis=-1)
    from scipy.spatial.distance import cdist

    dtype = np.result_type(X, Y)
    return lambda rows: cdist(X[rows], Y, metric).astype(dtype, copy=False)
