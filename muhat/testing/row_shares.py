"""Effect sizes of two samples whose rows count differently, or belong together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat.testing.separation import INFLATION, Z_SCORE, Separation, newcombe


@dataclass(frozen=True)
class RowShares:
    """Rows that count differently, or are not independent.

    Attributes:
        weights: of the rows of both samples, (N,).
        units: groups of rows, which are held out whole, (N,).
    """

    weights: np.ndarray
    units: np.ndarray

    def part(self, f: np.ndarray, held: np.ndarray, first: np.ndarray) -> tuple[float, float, np.ndarray]:
        """AUC of scores ``f`` of held-out rows, its variance over groups [OBU97], and its sizes.

        The sizes are the weights of the pairs, and the effective numbers of groups of either sample.
        """
        w, units, first = self.weights[held], np.unique(self.units[held], return_inverse=True)[1], first[held]
        distinct, at = np.unique(f, return_inverse=True)
        a, b = (np.bincount(at, weights=w * side, minlength=len(distinct)) for side in (first, ~first))
        n, m = a.sum(), b.sum()
        below, above = (np.cumsum(b) - 0.5 * b) / m, 1 - (np.cumsum(a) - 0.5 * a) / n
        auc = float(a @ below / n)
        apart = w * np.where(first, (below[at] - auc) / n, (above[at] - auc) / m)
        sums = np.bincount(units, weights=apart)
        count = len(sums)
        sides = [np.bincount(units, weights=w * side) for side in (first, ~first)]
        sizes = [s.sum() ** 2 / (s**2).sum() for s in sides]
        return auc, float((sums**2).sum() * count / max(count - 1, 1)), np.array([n * m, *sizes])

    def folds(self, keys: np.ndarray, first: np.ndarray, folds: int) -> np.ndarray:
        """The fold of every row, whole groups in each and as many of each kind as can be."""
        count = int(self.units.max()) + 1
        kind, key = np.zeros(count, np.int64), np.full(count, len(keys))
        for bit, side in ((1, first), (2, ~first)):
            kind[np.unique(self.units[side])] += bit
        np.minimum.at(key, self.units, keys)
        out = np.empty(count, np.int64)
        for k in np.unique(kind):
            rows = np.flatnonzero(kind == k)
            out[rows[np.argsort(key[rows])]] = np.arange(len(rows)) % folds
        return out[self.units]

    @staticmethod
    def combine(parts: list[tuple[float, float, np.ndarray]]) -> Separation:
        """Mean AUC of folds of whole groups, with an interval made as for independent rows."""
        if not parts:
            return Separation(0.5, (0.0, 1.0))
        share = np.array([p[2][0] for p in parts])
        share = share / share.sum()
        auc = float(share @ [p[0] for p in parts])
        half = Z_SCORE * float(np.sqrt(INFLATION * (share**2 @ [p[1] for p in parts])))
        n, m = np.sum([p[2][1:] for p in parts], axis=0)
        low, high = newcombe(auc, n, m)
        low, high = max(min(low, auc - half), 0.0), min(max(high, auc + half), 1.0)
        return Separation(auc, (low, high)) if high >= 0.5 else Separation(0.5, newcombe(0.5, n, m))


__all__ = ["RowShares"]
