"""Distributions of single columns, for quantiles where weights are signed.

The weights of a regression are right for means. They are signed, and clipping them throws away the
cancellation that made the mean good, so that quantiles of clipped weights are far too wide. A batch of
:class:`Marginals` mixes them with the regression itself as a location, about which residuals scatter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from muhat._array import Array
from muhat.gram import Factored, as_dense

# Weights that are held at once while quantiles are found.
WEIGHTS = 1 << 22
# Halvings of the range in which a quantile lies: to 1e-15 of it.
HALVINGS = 50
# Share of the outputs' own distribution in the shape between masses: it decides where the rest is flat.
FLAT = 0.02

Side = Literal["left", "right"]  # P(Y < t) or P(Y ≤ t), where there are jumps
Component = Callable[[np.ndarray, Side], np.ndarray]


@dataclass(frozen=True)
class Scatter:
    """What is known of the columns of outputs apart from x.

    Attributes:
        outputs: the training outputs, (n, k).
        residuals: leave-one-out residuals in order, in their own units and in units of their spread at x,
            each (m, k).
        shares: of the components in each column, (k, 3): weights on the outputs, residuals, and residuals in
            units of their spread.
        atoms: for each column its values in order, if they are few; else None.
        masses: for each column the values that a good share of the rows take, in order, (m,); they may be
            none. Such a column is no atom's: an outcome that is often 0 and continuous otherwise, say.
    """

    outputs: np.ndarray
    residuals: tuple[np.ndarray, np.ndarray]
    shares: np.ndarray
    atoms: tuple[np.ndarray | None, ...]
    masses: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class Marginals:
    """A batch of distributions of each column, one for each point x, or mixtures of them.

    Attributes:
        scatter: what the batch shares.
        mean: location, (q, k).
        scale: spread, (q, k).
        lost: share of the marginal distribution of the outputs, (q,): 0 at the data, 1 far from them.
        weights: signed, on the outputs, (q, n); None where no column uses them.
        mixing: weights of the points in each member of the batch, (batch, q); None for one member a point.
        jumps: for each column P(Y < v) and P(Y ≤ v) at each of its masses v, (q, m, 2), from the regression
            of these indicators on x.
        wider: what residuals are multiplied by, (q,): more than 1 where the regression extrapolates; None
            for 1.
    """

    scatter: Scatter
    mean: np.ndarray
    scale: np.ndarray
    lost: np.ndarray
    weights: Array | Factored | None
    mixing: np.ndarray | None = None
    jumps: tuple[np.ndarray, ...] = ()
    wider: np.ndarray | None = None

    def __getitem__(self, index: Any) -> Marginals:
        """A smaller batch."""
        if self.mixing is not None:
            return replace(self, mixing=np.atleast_2d(self.mixing[index]))
        rows = np.atleast_1d(np.arange(len(self.mean))[index])
        return self._take(rows)

    def _take(self, rows: np.ndarray) -> Marginals:
        W: Any = self.weights
        if isinstance(W, Factored):
            W = Factored(W.left[rows], W.right)
        elif W is not None:
            W = W[rows]
        jumps = tuple(G[rows] for G in self.jumps)
        return replace(
            self,
            mean=self.mean[rows],
            scale=self.scale[rows],
            lost=self.lost[rows],
            weights=W,
            jumps=jumps,
            wider=None if self.wider is None else self.wider[rows],
        )

    def cdf(self, column: int, t: np.ndarray) -> np.ndarray:
        """P(Y ≤ t) of one column at thresholds (batch, m), (batch, m)."""
        return self._cdf(column)(t)

    def _cdf(self, column: int) -> Callable[[np.ndarray], np.ndarray]:
        """The function from thresholds to probabilities, with what all thresholds share."""
        s, j = self.scatter, column
        order = np.argsort(s.outputs[:, j], kind="stable")
        y, C = s.outputs[order, j], None
        if s.shares[j, 0] > 0 and self.weights is not None:
            C = _cumulative(np.asarray(as_dense(self.weights))[:, order], y)
        mean, lost = self.mean[:, [j]], self.lost[:, None]
        wider = np.ones((len(mean), 1)) if self.wider is None else self.wider[:, None]
        scale = self.scale[:, [j]] * wider
        masses = s.masses[j] if s.masses else np.empty(0)

        def apart(t: np.ndarray, side: Side) -> np.ndarray:
            return _share_below(s.residuals[0][:, j], (_above(s.atoms[j], t) - mean) / wider)

        def spread(t: np.ndarray, side: Side) -> np.ndarray:
            return _share_below(s.residuals[1][:, j], (_above(s.atoms[j], t) - mean) / scale)

        def weighted(t: np.ndarray, side: Side) -> np.ndarray:
            return np.take_along_axis(C, np.searchsorted(y, t, side=side), axis=1)  # type: ignore[arg-type]

        parts: list[tuple[float, Component]] = [(s.shares[j, 1], apart), (s.shares[j, 2], spread)]
        if C is not None:
            parts.append((s.shares[j, 0], weighted))
        parts = [(share, part) for share, part in parts if share > 0]
        if len(masses):
            parts = [(share, _with_jumps(part, y, masses, self.jumps[j])) for share, part in parts]

        def at_points(t: np.ndarray) -> np.ndarray:
            shape = sum(share * part(t, "right") for share, part in parts)
            return (1 - lost) * shape + lost * np.searchsorted(y, t, side="right") / len(y)

        mixing = self.mixing
        if mixing is None:
            return at_points
        return lambda t: np.stack(
            [m @ at_points(np.tile(row, (len(mean), 1))) for m, row in zip(mixing, t, strict=True)]
        )

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """The least value whose cumulative probability reaches each level, (batch, m, k)."""
        if self.mixing is None:
            rows = max(1, WEIGHTS // len(self.scatter.outputs))
            q = np.arange(len(self.mean))
            parts = [self._take(q[i : i + rows])._quantile(levels) for i in range(0, len(q), rows)]
            return np.concatenate(parts)
        return self._quantile(levels)

    def _quantile(self, levels: np.ndarray) -> np.ndarray:
        s, k = self.scatter, self.mean.shape[1]
        batch = len(self.mean) if self.mixing is None else len(self.mixing)
        out = np.empty((batch, len(levels), k))
        for j in range(k):
            y, atoms = s.outputs[:, j], s.atoms[j]
            if atoms is not None:
                F = self.cdf(j, np.tile(atoms, (batch, 1)))
                # Rounding must not take one more at exact levels.
                reached = F[:, None, :] >= np.minimum(levels, 1.0)[None, :, None] - 1e-9
                out[:, :, j] = atoms[np.where(reached.any(axis=2), reached.argmax(axis=2), len(atoms) - 1)]
                continue
            ends = [s.residuals[0][[0, -1], j], s.residuals[1][[0, -1], j]]
            wider = np.ones(len(self.mean)) if self.wider is None else self.wider
            lower, upper = (
                self.mean[:, j] + wider * take(ends[0][i], self.scale[:, j] * ends[1][i])
                for i, take in ((0, np.minimum), (1, np.maximum))
            )
            low = np.full((batch, len(levels)), min(lower.min(), y.min()))
            high = np.full((batch, len(levels)), max(upper.max(), y.max()))
            cdf = self._cdf(j)
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                reached = cdf(middle) >= levels - 1e-9
                low, high = np.where(reached, low, middle), np.where(reached, middle, high)
            for v in s.masses[j] if s.masses else ():
                # A jump at v is found from either side of it: the quantile is v itself.
                high = np.where((low <= v) & (v <= high), v, high)
            out[:, :, j] = high
        return out

    def probabilities(self, column: int = 0) -> np.ndarray:
        """Of the atoms of a column that has them, (batch, m)."""
        atoms = self.scatter.atoms[column]
        assert atoms is not None
        batch = len(self.mean) if self.mixing is None else len(self.mixing)
        F = self.cdf(column, np.tile(atoms, (batch, 1)))
        F[:, -1] = 1.0
        return np.diff(F, axis=1, prepend=0.0)


def _cumulative(W: np.ndarray, y: np.ndarray) -> np.ndarray:
    """P(Y ≤ y) after 0, 1, …, n outputs in order, from signed weights (q, n): (q, n + 1).

    The signed sums are right but need not rise. Sorting them makes them rise and brings them nearer to any
    distribution function [CFG09]; clipping the weights instead would lose what they cancel.
    """
    W = W + (1 - W.sum(axis=1, keepdims=True)) / W.shape[1]
    sums = np.clip(np.cumsum(W, axis=1), 0.0, 1.0)
    last = np.append(y[1:] != y[:-1], True)  # of equal outputs
    values = np.sort(sums[:, last], axis=1)
    values[:, -1] = 1.0
    # Before the last of equal outputs no threshold ever looks.
    return np.concatenate([np.zeros((len(W), 1)), values[:, np.cumsum(last) - last]], axis=1)


def _with_jumps(smooth: Component, y: np.ndarray, masses: np.ndarray, jumps: np.ndarray) -> Component:
    """A distribution function that takes the values ``jumps`` at the masses, and has a shape between them.

    Args:
        smooth: the shape, a distribution function of thresholds (q, m).
        y: outputs in order, which give the shape where ``smooth`` is flat.
        masses: values, (m,).
        jumps: P(Y < v) and P(Y ≤ v) of each, (q, m, 2).
    """
    q, m = len(jumps), len(masses)
    steps = np.maximum.accumulate(np.clip(jumps, 0.0, 1.0).reshape(q, 2 * m), axis=1)
    low = np.concatenate([np.zeros((q, 1)), steps[:, 1::2]], axis=1)  # at the start of each stretch
    high = np.concatenate([steps[:, ::2], np.ones((q, 1))], axis=1)  # before its end

    def shape(t: np.ndarray, side: Side) -> np.ndarray:
        own = np.searchsorted(y, t, side=side) / len(y)
        return (1 - FLAT) * smooth(t, side) + FLAT * own

    at = np.tile(masses, (q, 1))
    start = np.concatenate([np.zeros((q, 1)), shape(at, "right")], axis=1)
    end = np.concatenate([shape(at, "left"), np.ones((q, 1))], axis=1)

    def cdf(t: np.ndarray, side: Side) -> np.ndarray:
        k = np.searchsorted(masses, t, side=side)  # the stretch that t lies in
        a, b, c, d = (np.take_along_axis(part, k, axis=1) for part in (start, end, low, high))
        share = np.clip((shape(t, side) - a) / np.maximum(b - a, 1e-12), 0.0, 1.0)
        return c + (d - c) * share

    return cdf


def _above(atoms: np.ndarray | None, t: np.ndarray) -> np.ndarray:
    """Where a location-scale component is cut for P(Y ≤ t): at t, or half way to the atom after it."""
    if atoms is None:
        return t
    ends = np.concatenate([[-np.inf], (atoms[1:] + atoms[:-1]) / 2, [np.inf]])
    return ends[np.searchsorted(atoms, t, side="right")]


def _share_below(ordered: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.searchsorted(ordered, t, side="right") / len(ordered)
