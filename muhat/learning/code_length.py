"""The shorter description of a pair of variables, x first or y first [MV17].

Measured values lie on grids and repeat. If x causes y, describing x and then y given x should take fewer
bits than the reverse: given x, y follows one simple function with normal noise, and where a value of x
repeats, the law of y there may be worth a function of its own (of the rank of y among those with this x).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from muhat.learning.causal_pairs import standardize

FINEST, COARSEST = 1e-5, 1e-2  # of the resolution, in units of the range
REPEATED = 5  # times a value must appear for a function of its own
SLACK = 1e-6  # below which a number passes for a whole one: else the last digit of a slope could cost bits
SPAN = 5.0  # ranks at a repeated value run from −SPAN to SPAN


def unit(v: np.ndarray) -> np.ndarray:
    """In units of the range, from 0 to 1."""
    return (v - v.min()) / np.ptp(v)


def whole_bits(z: np.ndarray) -> np.ndarray:
    """Bits of whole numbers ≥ 1 in Rissanen's universal code: log₂ 2.865 + log₂ z + log₂ log₂ z + …"""
    rest = np.log2(np.maximum(np.ceil(z - SLACK), 1.0))
    bits = np.log2(2.865064) + rest
    for _ in range(4):  # the next would be nothing for all z below 2^65536
        rest = np.log2(np.maximum(rest, 1.0))
        bits += rest
    return bits


def coefficient_bits(c: np.ndarray) -> np.ndarray:
    """A sign, four digits, and the place of the last of them."""
    size = np.maximum(np.abs(c), 1e-12)
    places = np.maximum(np.ceil(np.log10(1000 / size) - SLACK), 0.0)
    return 1 + whole_bits(size * 10.0**places) + whole_bits(1 + places)


def rest_bits(squares: np.ndarray, n: Any, resolution: float) -> np.ndarray:
    """n values of a normal law whose squares sum to this, to the resolution; no less than nothing."""
    variance = np.maximum(squares / np.maximum(n, 1), 1e-300)
    return np.maximum(n / 2 * (1 / np.log(2) + np.log2(2 * np.pi * variance)) - n * np.log2(resolution), 0.0)


def choose_bits(n: int, k: Any) -> Any:
    """``log₂ C(n, k)``."""
    return (gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) / np.log(2)


def functions(x: np.ndarray, mirrored: np.ndarray, resolution: float) -> np.ndarray:
    """Powers, exponential and inverses of x and of x mirrored, less their means, (11, n)."""
    out = [x]
    for v in (x, mirrored):
        away = np.where(np.abs(v) < resolution, resolution, v)
        out += [v**2, v**3, np.exp(v), 1 / away, 1 / away**2]
    F = np.stack(out)
    return F - F.mean(axis=1, keepdims=True)


def lines(Y: np.ndarray, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and squares left, (g, 11), of rows of Y (g, m) on a constant and each function F (11, m)."""
    norms = np.maximum((F**2).sum(axis=1), 1e-300)
    slopes = Y @ F.T / norms
    total = ((Y - Y.mean(axis=1, keepdims=True)) ** 2).sum(axis=1, keepdims=True)
    return slopes, np.maximum(total - slopes**2 * norms, 0.0)


def line_bits(
    slopes: np.ndarray, left: np.ndarray, means: np.ndarray, n: Any, resolution: float
) -> np.ndarray:
    """Of coefficients and of what lines leave, (g, 11); the mean costs the same for y and 1 − y."""
    both = coefficient_bits(slopes) + coefficient_bits(np.maximum(means, 1 - means))[:, None]
    return both + rest_bits(left, n, resolution)


def conditional_bits(x: np.ndarray, y: np.ndarray, resolutions: tuple[float, float]) -> float:
    """Of y given x, both from 0 to 1, with resolutions ``resolutions``."""
    n = len(y)
    F = functions(x, 1 - x, resolutions[0])
    slopes, left = lines(y[None], F)
    bits = line_bits(slopes, left, y.mean(keepdims=True), n, resolutions[1])[0]
    best = int(bits.argmin())
    squares = (y - y.mean() - slopes[0, best] * F[best]) ** 2
    coefficients = float(bits[best] - rest_bits(left[0, best], n, resolutions[1]))

    # Sorted by value of x, and by y within: each repeated value is a run.
    keys = np.round(x / FINEST)
    order = np.lexsort((y, keys))
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1.0))
    counts = np.diff(starts, append=n)
    totals = np.add.reduceat(squares[order], starts)
    runs = np.flatnonzero(counts >= REPEATED)
    sizes = counts[runs]
    slopes, left = np.empty((2, len(runs), len(F)))
    for m in np.unique(sizes):  # one design for all runs of a length
        same = sizes == m
        ranks = np.linspace(-SPAN, SPAN, m)
        Y = y[order][starts[runs[same], None] + np.arange(m)]
        slopes[same], left[same] = lines(Y, functions(ranks, -ranks, resolutions[0]))
    means = np.add.reduceat(y[order], starts)[runs] / sizes
    local = line_bits(slopes, left, means, sizes[:, None], resolutions[1])

    # Runs in the order of what they save; the best number of them to code by themselves.
    variance = max(float(squares.mean()), 1e-300)
    shared = sizes / 2 * np.log2(2 * np.pi * variance) + totals[runs] / (2 * variance * np.log(2))
    saved = (shared - sizes * np.log2(resolutions[1]))[:, None] - local
    k = np.arange(len(runs) + 1)
    which = choose_bits(n - 1, k) + np.log2(k + 1)
    least = np.inf
    for f in range(len(F)):
        chosen = np.argsort(-saved[:, f], kind="stable")
        points, gone, own = (
            np.concatenate([[0.0], np.cumsum(v[chosen])]) for v in (sizes, totals[runs], local[:, f])
        )
        rest = rest_bits(np.maximum(squares.sum() - gone, 0.0), n - points, resolutions[1])
        least = min(least, float((rest + own + which).min()))
    return coefficients + least


def bits_saved(x: np.ndarray, y: np.ndarray) -> float:
    """By which x → y is shorter than y → x; −bits_saved(y, x).

    Scale, sign and place of x and y, and the order of the points, do not matter. A variable alone is coded by
    a uniform law at its resolution, its smallest step.
    """
    a, b = (unit(standardize(v)) for v in (x, y))
    steps = [np.diff(np.unique(np.round(v / FINEST))).min() * FINEST for v in (a, b)]
    s, t = (float(min(step, COARSEST)) for step in steps)
    forward = conditional_bits(a, b, (s, t)) - len(a) * np.log2(s)
    backward = conditional_bits(b, a, (t, s)) - len(a) * np.log2(t)
    return float(backward - forward)


def code_evidence(x: np.ndarray, y: np.ndarray) -> float:
    """The signed root of bits saved per point, between −1 and 1: as that of any likelihood ratio."""
    bits = bits_saved(x, y) / len(x)
    return float(np.sign(bits) * np.sqrt(min(abs(bits), 1.0)))
