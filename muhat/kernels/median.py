"""Lengthscales from the data: the median of the pairwise distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._array import Array, is_traced

# Distances are taken among at most this many rows, drawn once with a fixed seed.
ROWS = 2000
# Metrics that are |x − x'| on a line.
LINE = ("euclidean", "cityblock", "chebyshev")


def median_distance(X: Array, metric: Any = "euclidean") -> float:
    """Median of the distances between rows i < j of ``X`` (n, d), ``metric`` as in SciPy.

    When more than half of the pairs coincide the median of the positive distances is taken, so that
    ties do not make the scale vanish.
    """
    from scipy.spatial.distance import pdist

    A = _concrete(X)
    if len(A) < 2:
        raise ValueError(f'lengthscale="median" needs at least 2 rows, got {len(A)}: give a number instead.')
    if A.shape[1] == 1 and metric in LINE:
        median = _median_gap(np.sort(A[:, 0]))
    else:
        distances = pdist(A, metric)
        median = float(np.median(distances, overwrite_input=True))
        if median == 0.0 and distances.any():
            median = float(np.median(distances[distances > 0]))
    if median == 0.0:
        raise ValueError(
            'lengthscale="median" is undefined: all rows are the same, so every column it looks at is '
            "constant. Give a positive number, or leave the constant columns out."
        )
    return median


def _median_gap(v: np.ndarray) -> float:
    """Median of ``v[j] − v[i]``, i < j, of sorted ``v`` (n,); of the positive ones if it would be 0."""
    n = len(v)
    pairs = n * (n - 1) // 2
    repeats = np.diff(np.flatnonzero(np.concatenate([[True], v[1:] > v[:-1], [True]])))
    zeros = int(np.sum(repeats * (repeats - 1) // 2))
    if zeros == pairs:
        return 0.0
    first = zeros if zeros > pairs // 2 else 0
    middle = {first + (pairs - first - 1) // 2, first + (pairs - first) // 2}
    return float(np.mean(_gaps_of_rank(v, sorted(middle))))


def _gaps_of_rank(v: np.ndarray, ranks: list[int]) -> np.ndarray:
    """The gaps of sorted ``v`` (n,) with these neighbouring ranks, counted from 0.

    Halving an interval that holds them until few gaps lie in it takes O(n log n) in place of n² distances.
    """
    rows = np.arange(len(v))
    low, high = 0.0, float(v[-1] - v[0])
    start, stop = rows + 1, np.full(len(v), len(v))  # v[j] − v[i] is in the interval for start ≤ j < stop
    for _ in range(40):
        if np.sum(stop - start) <= 4 * len(v):
            break
        centre = (low + high) / 2
        at = np.maximum(np.searchsorted(v, v + centre, side="right"), rows + 1)
        below = int(np.sum(at - rows - 1))
        if below <= ranks[0]:
            low, start = centre, at
        elif below > ranks[-1]:
            high, stop = centre, at
        else:  # it falls between two ranks
            break
    counts = stop - start
    i = np.repeat(rows, counts)
    j = np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(start, counts)
    inside = v[j] - v[i]
    wanted = [rank - int(np.sum(start - rows - 1)) for rank in ranks]
    return np.partition(inside, wanted)[wanted]


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
