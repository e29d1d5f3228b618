"""Dependence that smooth kernels miss, by ranks: between neighbours, and between spreads.

A function that oscillates is smooth only between neighbours in x, and on a square or a circle the rows
that are far from the middle in x are near it in y. Statistics of ranks look for these, in all columns of
numbers of a side together; neither outliers nor units matter to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat import _threads
from muhat.testing.aggregate import normal_scores

# Weights of the nearest, second, third and fourth neighbour: the first find the fastest functions that so
# many rows can show, the second slower ones with more noise.
WEIGHTS = np.array([[1.0, 0.0, 0.0, 0.0], [0.8, 0.6, 0.4, 0.2]])
# Pairs of columns whose neighbours are looked at, at most: each costs about as much as a pair of kernels, and
# among more of them one that oscillates is lost in the sum.
MOST_PAIRS = 36
# Share of the weight of the aggregate that each statistic gets; the kernels get the rest.
SHARE = 0.1
# Numbers in a block of permuted ranks: 512 kB in single precision.
BLOCK_ELEMENTS = 1 << 17
# What each statistic sees, to be read after "It shows most in".
SEEN = (
    *["how y varies between neighbours in x"] * len(WEIGHTS),
    *["how x varies between neighbours in y"] * len(WEIGHTS),
    "how far x and y are from their middle",
)


def rank_statistics(X: np.ndarray, Y: np.ndarray, orders: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Five statistics for every permutation, (5, 1 + permutations); large for dependence.

    Two each way are ``−Σ w |u − u'|`` over pairs of neighbours, as in Chatterjee's ξ [C21], added over pairs
    of columns, u the ranks on the other side. The last is ``Σ cov(cos 2πu, cos 2πv)²``. Equal values have the
    same rank u, and are neighbours in a random order: its keys are drawn for each side apart, so that the
    sides are independent if the variables are.

    Args:
        X, Y: columns of numbers, (n, d) and (n, k).
        orders: row ``orders[b, i]`` of Y goes with row i of X, (1 + permutations, n).
        rng: orders equal values.
    """
    n = len(X)
    u, v = mid_ranks(X), mid_ranks(Y)
    key_x, key_y = rng.permutation(n), rng.permutation(n)
    out = np.zeros((len(SEEN), len(orders)))
    out[-1] = _between_spreads(u, v, orders)
    if X.shape[1] * Y.shape[1] <= MOST_PAIRS:
        inverse = np.empty_like(orders)
        np.put_along_axis(inverse, orders, np.broadcast_to(np.arange(n), orders.shape), axis=1)
        out[:2] = _between_neighbours(X, v, orders, key_x)
        out[2:4] = _between_neighbours(Y, u, inverse, key_y)
    return out


def beside_kernels(
    scores: np.ndarray, shares: np.ndarray, ranks: np.ndarray
) -> tuple[np.ndarray, np.ndarray, str]:
    """Scores and weights of the kernels and of the statistics of ranks, and what these see if they see more.

    Args:
        scores: normal scores of the kernels, (kernels, 1 + permutations).
        shares: their weights, which sum to 1.
        ranks: from :func:`rank_statistics`; no rows if none take part.
    """
    if not len(ranks):
        return scores, shares, ""
    extra = normal_scores(ranks)
    most = int(extra[:, 0].argmax())
    seen = SEEN[most] if extra[most, 0] > scores[:, 0].max() else ""
    shares = np.append((1 - SHARE * len(extra)) * shares, np.full(len(extra), SHARE))
    return np.concatenate([scores, extra]), shares, seen


def numbers(Z: np.ndarray, categories: dict[int, Any]) -> np.ndarray:
    """The columns of numbers that vary, (n, d)."""
    varies = np.ptp(Z, axis=0) > 0
    return Z[:, [j for j in range(Z.shape[1]) if varies[j] and j not in categories]]


def mid_ranks(Z: np.ndarray) -> np.ndarray:
    """Ranks of each column in (0, 1), the same for equal values."""
    from scipy.stats import rankdata

    return (rankdata(Z, axis=0) - 0.5) / len(Z)


def _between_neighbours(Z: np.ndarray, u: np.ndarray, orders: np.ndarray, key: np.ndarray) -> np.ndarray:
    """``Σ w (a(u) + a(u') − |u − u'|)`` over neighbours in each column of Z, (weights, 1 + permutations).

    a(u) is the mean distance of u from all ranks: rows at either end have fewer neighbours.
    """
    n = len(Z)
    weights = WEIGHTS[:, : n - 1]
    lags = range(1, 1 + weights.shape[1])
    degrees = np.zeros((n, len(weights)))
    for lag, w in zip(lags, weights.T, strict=True):
        degrees[lag:] += w
        degrees[: n - lag] += w
    away = np.sum([_mean_distances(column) for column in u.T], axis=0)
    sorts = [np.lexsort((key, column)) for column in Z.T]
    columns = np.ascontiguousarray(u.T, dtype=np.float32)
    out = np.zeros((len(orders), len(weights)))

    def work(block: slice) -> None:
        steps = np.zeros((len(lags), len(orders[block])))
        for sort in sorts:
            at = orders[block][:, sort]
            out[block] += away[at] @ degrees
            for column in columns:
                ranks = column[at]
                for lag, total in zip(lags, steps, strict=True):
                    step = ranks[:, lag:] - ranks[:, : n - lag]
                    total += np.abs(step, out=step).sum(axis=1, dtype=np.float64)
        out[block] -= (weights @ steps).T

    _threads.run_blocks(work, _threads.row_blocks(len(orders), n, BLOCK_ELEMENTS))
    return out.T


def _mean_distances(u: np.ndarray) -> np.ndarray:
    """``Σⱼ |uᵢ − uⱼ|/n`` for every i, (n,), by sorting."""
    n = len(u)
    order = np.argsort(u)
    s = u[order]
    below = np.cumsum(s) - s
    out = np.empty(n)
    out[order] = (s * (2 * np.arange(n) - n + 1) - 2 * below + s.sum() - s) / n
    return out


def _between_spreads(u: np.ndarray, v: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """``Σ cov(cos 2πu, cos 2πv)²`` over pairs of columns, (1 + permutations,)."""
    a, b = _spreads(u), np.ascontiguousarray(_spreads(v).T)
    out = np.zeros(len(orders))

    def work(block: slice) -> None:
        for column in b:
            out[block] += np.square(column[orders[block]] @ a).sum(axis=1)

    _threads.run_blocks(work, _threads.row_blocks(len(orders), len(u), BLOCK_ELEMENTS))
    return out


def _spreads(u: np.ndarray) -> np.ndarray:
    """cos 2πu of each column of ranks, centred; 0 where it does not vary (two values of equal number)."""
    waves = np.cos(2 * np.pi * u)
    waves -= waves.mean(axis=0)
    return np.where(np.abs(waves).max(axis=0) > 1e-9, waves, 0.0)
