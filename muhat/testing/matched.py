"""Categories that two samples share more evenly than chance allows, as matched rows and panels do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muhat._tables import Encoder

ALPHA = 1e-4  # how rarely samples drawn apart look matched, at most, for one column
SLOPES = np.geomspace(0.03, 3e4, 40)  # θ of the bound


def evenness_pvalue(a: np.ndarray, b: np.ndarray) -> float:
    """A bound on the probability that samples drawn apart share levels as evenly as these, at any size.

    The statistic is ``S = Σₗ (aₗ − f tₗ)² / (tₗ f (1 − f))`` with ``tₗ = aₗ + bₗ`` and ``f = n / (n + m)``,
    far below the number of levels where they are shared evenly. If rows are exchangeable, aₗ are
    independent Binomial(tₗ, f), given their sum n, so that, for every θ,
    ``P(S ≤ s) ≤ exp(θs) Πₗ E exp(−θ Sₗ) / P(Σₗ aₗ = n)``.

    Args:
        a, b: rows of either sample in each level, (L,).
    """
    from scipy.special import gammaln

    a, b = np.array([a, b], dtype=np.int64)[:, np.add(a, b) > 0]
    n, m = int(a.sum()), int(b.sum())
    once = a + b == 1  # rows without any partner tell nothing: one level
    if once.any():
        a, b = (np.append(side[~once], side[once].sum()) for side in (a, b))
    if n == 0 or m == 0 or len(a) < 2:
        return 1.0
    t, f = a + b, n / (n + m)
    observed = float(((a - f * t) ** 2 / (t * f * (1 - f))).sum())
    if observed >= len(t):
        return 1.0

    def logs(rows: np.ndarray, of: np.ndarray) -> np.ndarray:
        """Logarithms of probabilities of Binomial(rows, f) at ``of``."""
        choose = gammaln(rows + 1) - gammaln(of + 1) - gammaln(rows - of + 1)
        return choose + of * np.log(f) + (rows - of) * np.log1p(-f)

    sizes, levels = np.unique(t, return_counts=True)
    starts = np.cumsum(sizes + 1) - (sizes + 1)
    rows = np.repeat(sizes, sizes + 1)
    taken = np.arange(len(rows)) - np.repeat(starts, sizes + 1)  # 0 to t for each size t
    chances = np.exp(logs(rows, taken))
    squares = (taken - f * rows) ** 2 / (rows * f * (1 - f))
    # Squares are less their least of each size, so that exp does not vanish.
    least = np.minimum.reduceat(squares, starts)
    squares = squares - np.repeat(least, sizes + 1)
    excess = max(observed - float(levels @ least), 0.0)
    given = float(logs(np.array([n + m]), np.array([n]))[0])
    bounds = [
        slope * excess + float(levels @ np.log(np.add.reduceat(chances * np.exp(-slope * squares), starts)))
        for slope in SLOPES
    ]
    return float(np.exp(min(min(bounds) - given, 0.0)))


def matched_columns(x: np.ndarray, y: np.ndarray, encoder: Encoder) -> list[int]:
    """Columns of categories that the rows of the samples share more evenly than chance allows."""
    out = []
    for j in sorted(set(encoder.categories) - set(encoder.indicators.values())):
        codes = np.unique(np.concatenate([x[:, j], y[:, j]]), return_inverse=True)[1].reshape(-1)
        sides = codes[: len(x)], codes[len(x) :]
        a, b = (np.bincount(side, minlength=codes.max() + 1) for side in sides)
        if evenness_pvalue(a, b) <= ALPHA:
            out.append(j)
    return out


def matched_words(names: Sequence[str]) -> str:
    """What such columns mean, in plain words; empty if there are none."""
    if not names:
        return ""
    more = f" and {len(names) - 6} more columns" if len(names) > 6 else ""
    one = len(names) == 1
    return (
        f"The values of {', '.join(names[:6])}{more} are the same in both samples, or nearly so, as where "
        f"rows are matched or the table is a panel: the effect leaves {'it' if one else 'them'} out, and "
        "where rows go in pairs a test of the paired differences would be stronger."
    )


__all__ = ["evenness_pvalue", "matched_columns", "matched_words"]
