"""Columns that only take some values, brought to the whole line: rates, probabilities, uniform priors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LINE, POSITIVE, BOX = "line", "positive", "box"
# A uniform column passes Kolmogorov and Smirnov's test at this level, from so many rows, and has at least
# this share of them in either outer fifth: in small samples the test alone would let a bell pass.
LEVEL, LEAST_ROWS, OUTER = 0.001, 30, 0.12


@dataclass(frozen=True)
class Support:
    """How each column is brought to the line: as it is, by its logarithm, or by its logit in a box.

    Attributes:
        kinds: ``"line"``, ``"positive"`` or ``"box"``, one a column.
        lower, upper: ends of the boxes, (d,).
    """

    kinds: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray

    def to_line(self, Z: np.ndarray) -> np.ndarray:
        """``Z`` (…, d) on the line; what lies outside its support is taken to the edge."""
        out = np.array(Z, dtype=np.float64)
        for j, kind in enumerate(self.kinds):
            if kind == POSITIVE:
                out[..., j] = np.log(np.maximum(out[..., j], self.lower[j]))
            elif kind == BOX:
                width = self.upper[j] - self.lower[j]
                share = np.clip((out[..., j] - self.lower[j]) / width, 1e-9, 1 - 1e-9)
                out[..., j] = np.log(share / (1 - share))
        return out

    def from_line(self, T: np.ndarray) -> np.ndarray:
        """Back again."""
        out = np.array(T, dtype=np.float64)
        for j, kind in enumerate(self.kinds):
            if kind == POSITIVE:
                out[..., j] = np.exp(np.minimum(out[..., j], 700.0))
            elif kind == BOX:
                half = 0.5 * (self.upper[j] - self.lower[j])
                out[..., j] = self.lower[j] + half * (1 + np.tanh(out[..., j] / 2))
        return out

    def log_stretch(self, T: np.ndarray) -> np.ndarray:
        """``log |dz/dt|`` of the columns in boxes, summed, at points ``T`` (n, d) of the line, (n,)."""
        out = np.zeros(len(T))
        for j, kind in enumerate(self.kinds):
            if kind == BOX:
                t = np.abs(T[:, j])
                out += np.log(self.upper[j] - self.lower[j]) - t - 2 * np.log1p(np.exp(-t))
        return out

    def without_boxes(self) -> Support:
        """The same with boxes left as they are: as an input of a regression a box needs no stretching."""
        return Support(tuple(LINE if k == BOX else k for k in self.kinds), self.lower, self.upper)


def find_support(Z: np.ndarray, boxes: bool = True) -> Support:
    """The support of a sample (n, d), column by column.

    A positive column less skewed in its logarithm is positive; one that looks uniform between its least and
    largest value is in a box, which goes beyond them by what is likely to be missing.
    """
    n, d = Z.shape
    kinds, lower, upper = [LINE] * d, Z.min(axis=0).astype(np.float64), Z.max(axis=0).astype(np.float64)
    for j in range(d):
        column = np.asarray(Z[:, j], dtype=np.float64)
        if boxes and n >= LEAST_ROWS and _looks_uniform(column):
            kinds[j] = BOX
            beyond = (upper[j] - lower[j]) / (n - 1)
            lower[j], upper[j] = lower[j] - beyond, upper[j] + beyond
        elif lower[j] > 0 and abs(_skewness(np.log(column))) < abs(_skewness(column)):
            kinds[j] = POSITIVE
            lower[j] = lower[j] / 10  # what an observation of zero or less is taken for
    return Support(tuple(kinds), lower, upper)


def _skewness(v: np.ndarray) -> float:
    u = v - v.mean()
    sd = np.sqrt((u**2).mean())
    return float((u**3).mean() / sd**3) if sd > 0 else 0.0


def _looks_uniform(v: np.ndarray) -> bool:
    """Whether the order statistics lie on a line between the least and the largest."""
    n, width = len(v), np.ptp(v)
    if not width > 0:
        return False
    u = np.sort((v - v.min()) / width)[1:-1]  # given its ends, a uniform sample is uniform between them
    expected = np.arange(1, n - 1)
    gap = np.maximum(expected / (n - 2) - u, u - (expected - 1) / (n - 2)).max()
    outer = min((u < 0.2).mean(), (u > 0.8).mean())
    return bool(gap < np.sqrt(-0.5 * np.log(LEVEL / 2) / (n - 2)) and outer >= OUTER)
