"""Lengthscales from the data: the median of the pairwise distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._array import Array, is_traced

# Distances are taken among at most this many rows, drawn once with a fixed seed.
ROWS = 2000


def median_distance(X: Array, metric: Any = "euclidean") -> float:
    """Median of the distances between rows i < j of ``X`` (n, d), ``metric`` as in SciPy.

    When more than half of the pairs coincide the median of the positive distances is taken, so that
    ties do not make the scale vanish.
    """
    from scipy.spatial.distance import pdist

    A = _concrete(X)
    if len(A) < 2:
        raise ValueError(f'lengthscale="median" needs at least 2 rows, got {len(A)}: give a number instead.')
    distances = pdist(A, metric)
    median = float(np.median(distances))
    if median == 0.0 and distances.any():
        median = float(np.median(distances[distances > 0]))
    if median == 0.0:
        raise ValueError(
            'lengthscale="median" is undefined: all rows are the same, so every column it looks at is '
            "constant. Give a positive number, or leave the constant columns out."
        )
    return median


def scaled_distances(X: Array, metric: str = "euclidean") -> np.ndarray:
    """One scale a column: its standard deviation times the median distance in such units, (d,)."""
    A = _concrete(X)
    centre = A.mean(axis=0)
    sd = np.sqrt(np.mean((A - centre) ** 2, axis=0))
    # A constant column differs from nothing; rounding in the mean must not make it a signal.
    sd = np.where(sd > 1e-14 * np.abs(centre), sd, 0.0)
    if not sd.any():
        return np.full(A.shape[1], median_distance(A, metric))
    sd = np.where(sd > 0, sd, 1.0)
    return sd * median_distance((A - centre) / sd, metric)


def _concrete(X: Array) -> np.ndarray:
    if is_traced(X):
        raise ValueError(
            'lengthscale="median" needs the data itself and cannot be found under jit: call '
            "kernel.resolve(X) outside first, or give a number."
        )
    A = np.asarray(X, dtype=np.float64)
    if len(A) > ROWS:
        A = A[np.random.default_rng(0).choice(len(A), ROWS, replace=False)]
    return A
