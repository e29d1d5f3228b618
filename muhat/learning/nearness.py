"""How near rows lie to those of training, whatever the kernel: what no lengthscale can tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from muhat._array import column_sd
from muhat.engine import sample_indices

# Points that distances are taken to, at most.
POINTS = 20_000
# Points whose distance to the nearest other one says what is usual, at most.
ASKED = 1000
# Distances up to this quantile of those between a training row and its nearest neighbour are familiar.
USUAL = 0.95
# Beyond, familiarity falls over at least this many standard deviations of a column; for single columns over
# more of them, since rare values are a matter of tails.
ROW_WIDTH = 0.5
COLUMN_WIDTH = 1.0
# A cell with another category is as far as this many standard deviations: as the two halves of a column.
OTHER = 2.0
# Share of the rows at either end that do not count for the standard deviation of a column.
TAIL = 0.01
# Distances that are made at a time.
BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Fall:
    """``exp(−½ (max(0, r − usual)/width)²)`` of a distance r."""

    usual: float
    width: float

    @classmethod
    def of(cls, distances: np.ndarray, least: float) -> Fall:
        """From distances of training rows, each left out; ``least`` is the smallest width."""
        usual, middle = (float(q) for q in np.quantile(distances, [USUAL, 0.5]))
        return cls(usual, max(least, usual - middle))

    def __call__(self, distances: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * (np.maximum(distances - self.usual, 0.0) / self.width) ** 2)


@dataclass(frozen=True)
class Nearness:
    """How familiar rows are, from 1 among the training rows to 0 far from all of them.

    Kernels with long lengthscales fit well amid the data, and call rows alike that lie far beyond them. This
    is a matter of the rows alone: of the distance to the nearest training row, columns in standard
    deviations without their tails, and compared with the distances between training rows. Among many columns
    one that is far away hardly shows in this, so that the distance in the column where it is largest counts
    as well, and the lesser familiarity is taken.

    Attributes:
        points: numbers of the training rows, in standard deviations, (n, d).
        codes: their categories, (n, c).
        numeric, categories: columns of the one and the other kind.
        scale: standard deviation of each numeric column, (d,).
        ordered: the values of each numeric column in order, in standard deviations, (n, d).
        row, column: how familiarity falls with the distance in all columns, and in one.
    """

    points: np.ndarray
    codes: np.ndarray
    numeric: np.ndarray
    categories: np.ndarray
    scale: np.ndarray
    ordered: np.ndarray
    row: Fall = Fall(0.0, ROW_WIDTH)
    column: Fall = Fall(0.0, COLUMN_WIDTH)

    @classmethod
    def of(cls, X: np.ndarray, categories: Iterable[int] = (), used: Iterable[int] | None = None) -> Nearness:
        """Of training rows ``X`` (n, d), with codes in the columns that are ``categories``.

        Columns that are not ``used`` may be anything; None uses all.
        """
        X = np.asarray(X, dtype=np.float64)
        X = X[sample_indices(len(X), POINTS)]
        seen = set(range(X.shape[1]) if used is None else used)
        columns = np.array(sorted(seen & set(categories)), dtype=int)
        numeric = np.array(sorted(seen - set(categories)), dtype=int)
        scale = _scales(X[:, numeric])
        points = X[:, numeric] / scale
        order = np.argsort(points, axis=0)
        ordered = np.take_along_axis(points, order, axis=0)
        out = cls(points, X[:, columns], numeric, columns, scale, ordered)
        if len(X) < 2:
            return out
        asked = np.arange(len(X))[sample_indices(len(X), ASKED)]
        row = Fall.of(out._distances(X[asked], asked), ROW_WIDTH)
        if not len(numeric):
            return replace(out, row=row)
        gaps = np.diff(ordered, axis=0)
        alone = np.empty_like(ordered)  # from each value to the nearest other one of its column
        both = np.minimum(np.vstack([gaps[:1], gaps]), np.vstack([gaps, gaps[-1:]]))
        np.put_along_axis(alone, order, both, axis=0)
        return replace(out, row=row, column=Fall.of(alone.max(axis=1), COLUMN_WIDTH))

    def at(self, x: np.ndarray) -> np.ndarray:
        """Familiarity of each row of ``x`` (q, d), (q,): 0 where a category was never seen."""
        x = np.asarray(x, dtype=np.float64)
        out = self.row(self._distances(x))
        if len(self.numeric):
            out = np.minimum(out, self.column(self._farthest(x[:, self.numeric] / self.scale)))
        for own, seen in zip(x[:, self.categories].T, self.codes.T, strict=True):
            out[~np.isin(own, seen)] = 0.0
        return out

    def _farthest(self, A: np.ndarray) -> np.ndarray:
        """From the values of each row of ``A`` (q, d) to the nearest of their columns, the largest, (q,)."""
        out = np.zeros(len(A))
        for own, seen in zip(A.T, self.ordered.T, strict=True):
            after = np.searchsorted(seen, own)
            ends = seen[np.maximum(after - 1, 0)], seen[np.minimum(after, len(seen) - 1)]
            out = np.maximum(out, np.minimum(*(np.abs(own - end) for end in ends)))
        return out

    def _distances(self, x: np.ndarray, own: np.ndarray | None = None) -> np.ndarray:
        """To the nearest training row, (q,), other than those numbered ``own``."""
        middle = self.points.mean(axis=0)  # or squares of large numbers would swallow small distances
        points, codes = self.points - middle, x[:, self.categories]
        A = x[:, self.numeric] / self.scale - middle
        sizes, out = (points**2).sum(axis=1), np.empty(len(x))
        rows = max(1, BLOCK_ELEMENTS // len(points))
        for i in range(0, len(x), rows):
            part = A[i : i + rows]
            D = sizes - 2 * part @ points.T
            D += (part**2).sum(axis=1)[:, None]
            for theirs, ours in zip(codes[i : i + rows].T, self.codes.T, strict=True):
                D += OTHER**2 * (theirs[:, None] != ours)
            if own is not None:
                D[np.arange(len(part)), own[i : i + rows]] = np.inf
            out[i : i + rows] = D.min(axis=1)
        return np.sqrt(np.maximum(out, 0.0))


def _scales(X: np.ndarray) -> np.ndarray:
    """Standard deviations without the tails, (d,); of a constant column that of the typical other one."""
    if not X.shape[1]:
        return np.ones(0)
    inside = column_sd(np.clip(X, *np.quantile(X, [TAIL, 1 - TAIL], axis=0)))
    sd = np.where(inside > 0, inside, column_sd(X))
    return np.where(sd > 0, sd, np.median(sd[sd > 0]) if (sd > 0).any() else 1.0)


__all__ = ["Nearness"]
