"""Columns with bounds, brought to the whole line: rates, probabilities, uniform priors, simplices, counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from muhat.learning.supports import Support, infer_support, looks_uniform, skewness

LINE = "line"  # as it is
POSITIVE = "positive"  # logarithm of the distance to the one bound
SOFT = "soft"  # inverse of softplus: a logarithm near the bound, straight far from it
INTERVAL = "interval"  # logit between two bounds
BOX = "box"  # uniform between two bounds: logit as an output of a regression, as it is as an input
FLOOR = 1e-12  # least distance to a bound, in units of the width or of the typical distance
LARGEST = 700.0  # exponentials of more overflow


@dataclass(frozen=True)
class Coordinates:
    """How θ (n, p) is brought to the line, (n, p'): each column by its kind, a simplex by breaking a stick.

    A simplex of k columns has k − 1 coordinates, which come after those of all other columns: the logit of
    each share of what the shares before it leave (a stick that is broken). A share near zero then moves its
    own coordinate alone.

    Attributes:
        kinds: one a column; of columns in a simplex ``"line"``, which is not used.
        anchor: the lower bound, or the upper one where ``sign`` is −1, (p,).
        width: of intervals and boxes; the unit of ``"soft"``, (p,).
        floor: least distance to a bound that is told apart from it, (p,).
        sign: −1 for a column with an upper bound alone, else 1, (p,).
        support: that nothing leaves.
    """

    kinds: tuple[str, ...]
    anchor: np.ndarray
    width: np.ndarray
    floor: np.ndarray
    sign: np.ndarray
    support: Support

    @property
    def lower(self) -> np.ndarray:
        """Lower ends, (p,): of boxes and intervals."""
        return self.anchor

    @property
    def upper(self) -> np.ndarray:
        """Upper ends, (p,): of boxes and intervals."""
        return self.anchor + self.width

    @property
    def plain(self) -> np.ndarray:
        """Columns in no simplex."""
        tied = {j for group in self.support.simplex for j in group}
        return np.array([j for j in range(len(self.kinds)) if j not in tied], dtype=int)

    def to_line(self, Z: np.ndarray) -> np.ndarray:
        """``Z`` (…, p) on the line, (…, p'); what lies outside its support is taken to the edge."""
        Z = np.asarray(Z, dtype=np.float64)
        columns = [self._column_to_line(Z[..., j], j) for j in self.plain]
        for group in self.support.simplex:
            part = np.maximum(Z[..., list(group)], self.floor[list(group)])
            left = np.cumsum(part[..., ::-1], axis=-1)[..., ::-1]  # of the stick before each break
            columns.extend(np.moveaxis(np.log(part[..., :-1]) - np.log(left[..., 1:]), -1, 0))
        return np.stack(columns, axis=-1)

    def _column_to_line(self, z: np.ndarray, j: int) -> np.ndarray:
        kind, floor = self.kinds[j], self.floor[j]
        if kind == LINE:
            return z
        gap = self.sign[j] * (z - self.anchor[j])
        if kind in (POSITIVE, SOFT):
            gap = np.maximum(gap, floor)
            if kind == POSITIVE:
                return self.sign[j] * np.log(gap)
            u = gap / self.width[j]  # log(eᵘ − 1), without overflow
            return self.sign[j] * (u + np.log(-np.expm1(-u)))
        gap = np.clip(gap, floor, self.width[j] - floor)
        return np.log(gap / (self.width[j] - gap))

    def from_line(self, T: np.ndarray) -> np.ndarray:
        """Back again, inside the support."""
        T = np.asarray(T, dtype=np.float64)
        out = np.empty((*T.shape[:-1], len(self.kinds)))
        plain = self.plain
        for i, j in enumerate(plain):
            out[..., j] = self._column_from_line(T[..., i], j)
        start = len(plain)
        for group, total in zip(self.support.simplex, self.support.totals, strict=True):
            k = len(group)
            t, rest = T[..., start : start + k - 1], np.zeros(T.shape[:-1])
            logs = np.empty((*T.shape[:-1], k))
            for i in range(k - 1):
                logs[..., i] = rest - np.logaddexp(0.0, -t[..., i])
                rest = rest - np.logaddexp(0.0, t[..., i])
            logs[..., -1] = rest
            out[..., list(group)] = total * np.exp(logs)
            start += k - 1
        return self.support.clip(out)

    def _column_from_line(self, t: np.ndarray, j: int) -> np.ndarray:
        kind, sign, anchor, width = self.kinds[j], self.sign[j], self.anchor[j], self.width[j]
        if kind == LINE:
            return t
        if kind == POSITIVE:
            return anchor + sign * np.exp(np.minimum(sign * t, LARGEST))
        if kind == SOFT:
            return anchor + sign * width * np.logaddexp(0.0, sign * t)
        return anchor + 0.5 * width * (1 + np.tanh(t / 2))

    def log_stretch(self, T: np.ndarray) -> np.ndarray:
        """``log |dz/dt|`` of the columns in boxes, summed, at points ``T`` (n, p') of the line, (n,)."""
        out = np.zeros(len(T))
        for i, j in enumerate(self.plain):
            if self.kinds[j] == BOX:
                t = np.abs(T[:, i])
                out += np.log(self.width[j]) - t - 2 * np.log1p(np.exp(-t))
        return out

    def without_boxes(self) -> Coordinates:
        """The same with boxes left as they are: as an input of a regression a box needs no stretching."""
        return replace(self, kinds=tuple(LINE if k == BOX else k for k in self.kinds))

    @property
    def ends(self) -> np.ndarray:
        """Ends of the boxes as an input of a regression, (2, p'); infinite where there is no box."""
        boxes, plain = np.array([kind == BOX for kind in self.kinds]), self.plain
        rest = np.full(sum(len(group) - 1 for group in self.support.simplex), np.inf)  # of simplices
        lower = np.where(boxes, self.lower, -np.inf)[plain]
        upper = np.where(boxes, self.upper, np.inf)[plain]
        return np.stack([np.append(lower, -rest), np.append(upper, rest)])

    def ends_of(self, points: np.ndarray) -> np.ndarray:
        """Such ends for points of another prior (m, p): its own where a column is uniform, else these."""
        line = self.without_boxes()
        ends = self.ends
        for i, j in enumerate(self.plain):
            if looks_uniform(points[:, j]) and not self.support.integer[j]:
                own = infer_support(points[:, [j]])
                at = np.array([own.lower[0], own.upper[0]])
                ends[:, i] = np.sort(line._column_to_line(at, j))
        return ends


def find_coordinates(Z: np.ndarray, support: Support | None = None) -> Coordinates:
    """Coordinates that suit a sample (n, p) of parameters.

    A column between two bounds is in a box if it looks uniform there. With one bound it is taken by its
    logarithm if that is less skewed than the column, else by the inverse of softplus.

    Args:
        Z: the sample.
        support: that is known; None to infer it.
    """
    support = infer_support(Z) if support is None else support
    p = Z.shape[1]
    kinds, width, sign = [LINE] * p, np.ones(p), np.ones(p)
    anchor, floor = np.zeros(p), np.full(p, FLOOR)
    tied = {j: total for group, total in zip(support.simplex, support.totals, strict=True) for j in group}
    for j in range(p):
        column = np.asarray(Z[:, j], dtype=np.float64)
        if j in tied:
            floor[j] = _floor(column, tied[j])
            continue
        half = 0.5 if support.integer[j] else 0.0  # whole numbers stand for the unit about them
        low, high = support.lower[j] - half, support.upper[j] + half
        if np.isfinite(low) and np.isfinite(high):
            kinds[j] = BOX if looks_uniform(column, low, high) else INTERVAL
            anchor[j], width[j] = low, high - low
            gaps = np.minimum(column - low, high - column)
            # A box counts the same everywhere; elsewhere the tails near a bound matter.
            floor[j] = 1e-9 * width[j] if kinds[j] == BOX else _floor(gaps, width[j])
        elif np.isfinite(low) or np.isfinite(high):
            sign[j] = 1.0 if np.isfinite(low) else -1.0
            anchor[j] = low if np.isfinite(low) else high
            gaps = sign[j] * (column - anchor[j])
            width[j] = gaps.mean() if gaps.mean() > 0 else 1.0
            floor[j] = _floor(gaps, width[j])
            kinds[j] = _one_sided(np.maximum(gaps, floor[j]))
    return Coordinates(tuple(kinds), anchor, width, floor, sign, support)


def data_coordinates(X: np.ndarray) -> Coordinates:
    """Coordinates of simulated data (n, d): logarithms of positive columns that are less skewed so."""
    d = X.shape[1]
    kinds, floor = [LINE] * d, np.full(d, FLOOR)
    for j in range(d):
        column = np.asarray(X[:, j], dtype=np.float64)
        if column.min() > 0 and abs(skewness(np.log(column))) < abs(skewness(column)):
            kinds[j] = POSITIVE
            floor[j] = column.min() / 10  # what an observation of zero or less is taken for
    return Coordinates(tuple(kinds), np.zeros(d), np.ones(d), floor, np.ones(d), Support.free(d))


def _one_sided(gaps: np.ndarray) -> str:
    """Logarithms suit rates and scales; where they are the more skewed, many values lie at the bound."""
    return POSITIVE if abs(skewness(np.log(gaps))) < abs(skewness(gaps)) else SOFT


def _floor(gaps: np.ndarray, unit: float) -> float:
    """Half the least distance to a bound that is not zero: values on the bound are taken there."""
    positive = gaps[gaps > FLOOR * unit]
    return max(float(positive.min()) / 2 if len(positive) else FLOOR * unit, FLOOR * unit)
