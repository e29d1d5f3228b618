"""Distributions on a few values."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muhat._validation import (
    as_generator,
    as_rows,
    check_count,
    check_levels,
    check_same_columns,
    check_share,
)
from muhat.embedding.familiar import Familiar
from muhat.embedding.reconstruction import OutsideBox


@dataclass(frozen=True)
class Atoms(Familiar):
    """Probabilities of a few values of one column, or a batch of such distributions.

    It has the readouts of a :class:`Density`. ``pdf`` is the probability of a value: that of the atom it is,
    0 elsewhere.

    Attributes:
        values: the atoms in order, (m,).
        probabilities: (m,) or (batch, m).
        familiarity: of conditional ones, how near each x is to those of training, as :class:`Familiar` says.
    """

    values: np.ndarray
    probabilities: np.ndarray
    familiarity: np.ndarray | None = None

    @property
    def is_batch(self) -> bool:
        """Whether these are several distributions on the same values."""
        return self.probabilities.ndim == 2

    def __len__(self) -> int:
        if not self.is_batch:
            raise TypeError("A single distribution has no length; a batch has the number of its rows.")
        return len(self.probabilities)

    def __getitem__(self, index: Any) -> Atoms:
        """One distribution of a batch, or a smaller batch."""
        if not self.is_batch:
            raise TypeError("A single distribution has no rows; only a batch can be indexed.")
        near = None if self.familiarity is None else self.familiarity[index]
        return replace(self, probabilities=self.probabilities[index], familiarity=near)

    def _squeeze(self, out: np.ndarray) -> np.ndarray:
        return out if self.is_batch else out[0]

    @property
    def _rows(self) -> np.ndarray:
        return np.atleast_2d(self.probabilities)

    def _points(self, x: Any) -> np.ndarray:
        points = np.asarray(as_rows(x, "x"), dtype=np.float64)
        check_same_columns(points, 1, "x", "the values")
        return points[:, 0]

    def pdf(self, x: Any) -> np.ndarray:
        """The probability of each row of ``x`` (n, 1), (n,) or (batch, n): 0 of what is no atom."""
        return self._squeeze(self._rows @ (self.values[:, None] == self._points(x)))

    __call__ = pdf

    def logpdf(self, x: Any) -> np.ndarray:
        """Log probability; −inf of what is no atom."""
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(x))

    def paired(self, x: Any) -> np.ndarray:
        """Of a batch: the i-th distribution at the i-th row of ``x``, (batch,)."""
        points = self._points(x)
        if len(points) != len(self):
            raise ValueError(f"x has {len(points)} rows, but there are {len(self)} distributions.")
        known = points[:, None] == self.values
        if strange := int((~known.any(axis=1)).sum()):
            warnings.warn(
                f"{strange} of {len(points)} values are none of the {len(self.values)} seen in training, and "
                "have probability 0: their log density is -inf.",
                OutsideBox,
                stacklevel=3,
            )
        return (self.probabilities * known).sum(axis=1)

    def mean(self) -> np.ndarray:
        """(1,) or (batch, 1)."""
        return self._squeeze((self._rows @ self.values)[:, None])

    def var(self) -> np.ndarray:
        """(1,) or (batch, 1)."""
        centred = self.values - (self._rows @ self.values)[:, None]
        return self._squeeze((self._rows * centred**2).sum(axis=1)[:, None])

    def cov(self) -> np.ndarray:
        """(1, 1) or (batch, 1, 1)."""
        return self.var()[..., None]

    def cdf(self, x: Any, column: int = 0) -> np.ndarray:
        """The probability of at most ``x`` (n,): (n,) or (batch, n)."""
        at = np.atleast_1d(np.asarray(x, dtype=np.float64))
        return self._squeeze(self._rows @ (self.values[:, None] <= at))

    def quantile(self, q: Any) -> np.ndarray:
        """The least value whose cumulative probability reaches each level: (1,), or (m, 1) for several.

        With a leading (batch,) for a batch.
        """
        levels = check_levels(q, "q")
        # Rounding must not take one more at exact levels.
        reached = np.cumsum(self._rows, axis=1)[:, None, :] >= levels[:, None] - 1e-9
        last = len(self.values) - 1
        out = self.values[np.where(reached.any(axis=2), reached.argmax(axis=2), last)][..., None]
        return self._squeeze(out[:, 0] if np.ndim(q) == 0 else out)

    def interval(self, level: float = 0.9) -> np.ndarray:
        """The interval between the quantiles (1 ± level)/2: (1, 2) or (batch, 1, 2)."""
        level = check_share(level, "level", "give e.g. 0.9")
        return np.moveaxis(self.quantile([(1 - level) / 2, (1 + level) / 2]), -2, -1)

    def _reaches(self) -> np.ndarray:
        """How far out each atom lies, (batch, m): its middle in cumulative probability, less ½."""
        return np.abs(np.cumsum(self._rows, axis=1) - self._rows / 2 - 0.5)

    def reach(self, x: Any) -> np.ndarray:
        """Of a batch: how far out the i-th row of ``x`` lies, (batch, 1): 0 at the median, ½ at the ends.

        What is no atom is taken as the nearest; beyond the ends 1.
        """
        points = self._points(x)
        nearest = np.abs(points[:, None] - self.values).argmin(axis=1)
        out = self._reaches()[np.arange(len(points)), nearest]
        beyond = (points < self.values[0]) | (points > self.values[-1])
        return np.where(beyond, 1.0, out)[:, None]

    def within(self, reach: float, column: int = 0) -> np.ndarray:
        """The atoms at most so far out, as intervals, (batch, 2)."""
        if reach >= 1:
            return np.tile([-np.inf, np.inf], (len(self._rows), 1))
        far = self._reaches()
        near = far <= np.maximum(reach + 1e-12, far.min(axis=1, keepdims=True))
        first, last = near.argmax(axis=1), near.shape[1] - 1 - near[:, ::-1].argmax(axis=1)
        return np.stack([self.values[first], self.values[last]], axis=1)

    def sample(self, n: int, random_state: Any = None) -> np.ndarray:
        """``n`` draws, (n, 1) or (batch, n, 1)."""
        n, rng = check_count(n, "n"), as_generator(random_state)
        draws = [rng.choice(self.values, n, p=p / p.sum()) for p in self._rows]
        return self._squeeze(np.stack(draws)[..., None])

    def plot(self, labels: Any = None, names: Any = None, level: float = 0.9) -> Any:
        """A figure of the probabilities; see :func:`muhat.report.density.density`."""
        from muhat.report.density import density

        return density(self, labels, names, level)
