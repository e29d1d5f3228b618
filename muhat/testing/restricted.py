"""Which rows of a test may change places, and what they weigh.

A permutation test is exact where rows are exchangeable. Where they are not, a design says what is:

- **strata** and **blocks** are two words for one thing: rows change places within a stratum only. Given both,
  rows move within their combinations. What is compared is what goes on within strata: labels and features
  are taken less their means in the stratum.
- **groups** hold rows that belong together (a person measured repeatedly, a household, a clinic). A group
  moves whole, in the order of its rows.
  In a test of dependence the rows of y of one group go to the place of another group with as many rows; where
  y (or x) is the same in all rows of each group, to one of any size. In a test of two samples the label of a
  whole group moves, whatever its size; a group with rows in both samples is a stratum of its own, in which
  labels of rows move. A group lies in one stratum.
- **weights** go with their rows. Labels of two samples move with the weights, as long as both samples have
  some. Where one has none, and in tests of dependence (where a weight belongs to x and y at once), rows are
  not exchangeable: the null then comes from random multipliers, one a row or one a group, of what each
  contributes to the statistic. That is a bootstrap, whose level is exact for many rows or groups only.

The functions here are pure: they take codes and draw arrangements. All arrangements are taken, each once, if
they are no more than the permutations asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import exp, inf, log
from typing import Any

import numpy as np

from muhat._words import percent
from muhat.testing.nulls import TIE

REACHED = 0.05  # a smallest p-value above this is warned of
COUNTED = log(1e9)  # arrangements beyond are many; their number is not told
SIGNS = 16  # units whose signs are counted; of more there are many


@dataclass(frozen=True)
class Design:
    """Codes of the rows of a test.

    Attributes:
        strata: the stratum of every row, (n,), from 0 on.
        groups: the group of every row, (n,), from 0 on; None if each row is its own.
        weights: of the rows, (n,), positive, with mean 1; None if all are the same.
    """

    strata: np.ndarray
    groups: np.ndarray | None = None
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.strata)

    @property
    def units(self) -> np.ndarray:
        """What moves whole: the group of every row, or the row, (n,)."""
        return np.arange(len(self)) if self.groups is None else self.groups

    @property
    def w(self) -> np.ndarray:
        """The weights, 1 if there are none, (n,)."""
        return np.ones(len(self)) if self.weights is None else self.weights

    @property
    def shares(self) -> np.ndarray:
        """The share of every row in its stratum, by weight, (n,)."""
        return self.w / np.bincount(self.strata, weights=self.w)[self.strata]

    def take(self, rows: np.ndarray) -> Design:
        """That of some rows."""
        parts = (None if a is None else a[rows] for a in (self.strata, self.groups, self.weights))
        strata, groups, weights = parts
        assert strata is not None
        return Design(codes(strata), None if groups is None else codes(groups), weights)

    def some(self, most: int, rng: np.random.Generator) -> np.ndarray:
        """Rows of randomly drawn whole groups, about ``most`` of them, sorted."""
        units = self.units
        order = rng.permutation(int(units.max()) + 1)
        sizes = np.bincount(units)[order]
        kept = order[: max(2, int(np.searchsorted(np.cumsum(sizes), most, side="right")))]
        return np.flatnonzero(np.isin(units, kept))

    def centre(self, F: np.ndarray) -> np.ndarray:
        """Rows of ``F`` (n, p) less the weighted mean of their stratum."""
        w = self.w.astype(F.dtype)
        if not self.strata.any():
            return F - w @ F / w.sum()
        order = np.argsort(self.strata, kind="stable")
        starts = np.flatnonzero(np.diff(self.strata[order], prepend=-1))
        sums = np.add.reduceat(w[order, None] * F[order], starts, axis=0)
        return F - (sums / np.add.reduceat(w[order], starts)[:, None])[self.strata]

    def centre_gram(self, K: np.ndarray) -> np.ndarray:
        """A Gram matrix (n, n) of features less their weighted means in strata."""
        return self.centre(self.centre(K).T)


def codes(labels: np.ndarray) -> np.ndarray:
    """Labels (n,) or rows of labels (n, k) as whole numbers from 0 on, in the order of their rows, (n,)."""
    _, first, at = np.unique(labels, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[at.reshape(-1)]


@dataclass(frozen=True)
class Cells:
    """Units that change places within cells.

    Attributes:
        unit: the unit of every row, (n,), from 0 on.
        cell: the cell of every unit, (units,).
        content: units of a cell with the same content may change places without effect, (units,).
    """

    unit: np.ndarray
    cell: np.ndarray
    content: np.ndarray

    @property
    def logs(self) -> float:
        """The logarithm of the number of distinct arrangements."""
        from scipy.special import gammaln

        both = np.stack([self.cell, self.content], axis=1)
        sizes, alike = np.bincount(self.cell), np.unique(both, axis=0, return_counts=True)[1]
        return float(gammaln(sizes + 1).sum() - gammaln(alike + 1).sum())

    @property
    def count(self) -> float:
        """The number of distinct arrangements; infinite if they are many."""
        return round(exp(self.logs)) if self.logs < COUNTED else inf

    @property
    def stuck(self) -> np.ndarray:
        """Rows that no arrangement moves, as their cell holds one content, (n,)."""
        low, high = np.full(self.cell.max() + 1, np.iinfo(np.int64).max), np.full(self.cell.max() + 1, -1)
        np.minimum.at(low, self.cell, self.content)
        np.maximum.at(high, self.cell, self.content)
        return (low == high)[self.cell][self.unit]

    def arrangements(self, permutations: int, rng: np.random.Generator) -> np.ndarray:
        """Which unit comes to the place of each, (1 + B, units): as observed first.

        At random, B being ``permutations``; or all distinct ones, if these are no more.
        """
        if self.count <= permutations + 1:
            return np.stack(list(self._all()))
        first = np.argsort(self.cell, kind="stable")
        out = np.empty((1 + permutations, len(self.cell)), dtype=np.int64)
        out[0] = np.arange(len(self.cell))
        for b in range(1, 1 + permutations):
            out[b, first] = np.argsort(self.cell + rng.random(len(self.cell)))
        return out

    def _all(self) -> Iterator[np.ndarray]:
        members = [np.flatnonzero(self.cell == c) for c in np.unique(self.cell)]
        each = [[units[p] for p in _distinct(self.content[units])] for units in members]
        for parts in product(*each):
            out = np.empty(len(self.cell), dtype=np.int64)
            for units, part in zip(members, parts, strict=True):
                out[units] = part
            yield out


def _distinct(content: np.ndarray) -> Iterator[np.ndarray]:
    """Orders of places that give distinct sequences of ``content`` (k,), the one as it is first."""
    values = list(dict.fromkeys(content.tolist()))
    own = {v: np.flatnonzero(content == v) for v in values}

    def place(left: list[int], todo: list[Any]) -> Iterator[dict[int, np.ndarray]]:
        if not todo:
            yield {}
            return
        value, rest = todo[0], todo[1:]
        kept = [i for i in left if content[i] == value]
        choices = combinations(left, len(own[value]))
        # Sequences as observed come first, so that the first of all is the observed one.
        for places in sorted(choices, key=lambda c: c != tuple(kept)):
            for others in place([i for i in left if i not in places], rest):
                yield {value: np.array(places), **others}

    for placed in place(list(range(len(content))), values):
        out = np.empty(len(content), dtype=np.int64)
        for value, places in placed.items():
            out[places] = own[value]
        yield out


def label_cells(design: Design, first: np.ndarray) -> tuple[Cells, np.ndarray]:
    """Units that labels of two samples move between, and the strata of rows that these make.

    Args:
        design: of the rows of both samples, (n,).
        first: rows of the first sample, (n,).
    """
    groups = design.groups
    if groups is None:
        unit = np.arange(len(design))
        return Cells(unit, design.strata, first.astype(np.int64)), design.strata
    sizes, inside = np.bincount(groups), np.bincount(groups, weights=first)
    split = ((inside > 0) & (inside < sizes))[groups]
    unit = codes(np.where(split, sizes.size + np.arange(len(groups)), groups))
    strata = codes(np.where(split, design.strata.max() + 1 + groups, design.strata))
    cell, label = np.empty(unit.max() + 1, np.int64), np.empty(unit.max() + 1, np.int64)
    cell[unit], label[unit] = strata, first
    return Cells(unit, cell, label), strata


def shared_groups(design: Design, first: np.ndarray) -> int:
    """How many groups have rows in both samples."""
    if design.groups is None:
        return 0
    return len(np.intersect1d(design.groups[first], design.groups[~first]))


def members_of(cells: Cells, arrangements: np.ndarray) -> np.ndarray:
    """Rows of the first sample under every arrangement, (1 + B, n)."""
    return (cells.content == 1)[arrangements][:, cells.unit]


def row_cells(design: Design, Y: np.ndarray) -> tuple[Cells, bool]:
    """Units that rows of y move by, and whether each group has one value of y, which moves to any size."""
    unit, strata = design.units, design.strata
    values = codes(Y)
    if design.groups is None:
        return Cells(unit, strata, values), True
    order, starts, sizes = _sorted(unit)
    value, stratum = values[order[starts]], strata[order[starts]]
    if (value[unit] == values).all():
        return Cells(unit, stratum, value), True
    cell = codes(np.stack([stratum, sizes], axis=1))
    content = np.empty(len(sizes), np.int64)
    made = 0
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        content[which] = made + codes(values[order[starts[which, None] + np.arange(size)]])
        made = content[which].max() + 1
    return Cells(unit, cell, content), False


def orders_of(cells: Cells, arrangements: np.ndarray, constant: bool) -> np.ndarray:
    """Which row of y comes to each row, (1 + B, n); with ``constant`` any row of the group that comes."""
    order, starts, _ = _sorted(cells.unit)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - starts[cells.unit[order]]
    out = order[starts[arrangements][:, cells.unit] + (0 if constant else rank)]
    out[0] = np.arange(len(order))
    return out


def _sorted(unit: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows sorted by unit, where each unit starts, and its size."""
    sizes = np.bincount(unit)
    return np.argsort(unit, kind="stable"), np.cumsum(sizes) - sizes, sizes


def signs_of(
    units: np.ndarray,
    draws: int,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
    sides: np.ndarray | None = None,
) -> np.ndarray:
    """A multiplier for each unit, all 1 first, (1 + B, n): at random, or all patterns if these are few.

    A pattern of signs and its opposite give the same statistic: one of the two is taken. With weights the
    squares of the multipliers vary, too, by κ: under signs alone ``Σᵤ ‖tᵤ‖²``, a part of the statistic that
    varies with heavy weights, would always be the same. κ is that of each of two ``sides`` (n,), if given.
    """
    count = int(units.max()) + 1
    if weights is None and count <= SIGNS and 2 ** (count - 1) <= draws + 1:
        return np.array(list(product([1.0], *[[1.0, -1.0]] * (count - 1))))[:, units]
    each = np.ones((1 + draws, count))
    each[1:] = rng.choice([-1.0, 1.0], (draws, count))
    if weights is not None:
        kappa = np.zeros(count)
        for side in (slice(None),) if sides is None else (sides, ~sides):
            p = np.bincount(units[side], weights=weights[side], minlength=count) ** 2
            inside = p > 0
            if inside.any():
                kappa[inside] = max(1 - p[inside].mean() ** 2 / (p[inside] ** 2).mean(), 0.0)
        each[1:] *= np.sqrt(1 + np.sqrt(kappa) * rng.choice([-1.0, 1.0], (draws, count)))
    return each[:, units]


def lost_by_centring(cell: np.ndarray, units: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """1/√(1 − 2pᵤ + Σᵥ pᵥ²) at every row, pᵤ the share of its unit u in its cell, (n,); 1 where u is alone.

    Less the mean of their cell, features of unit variance keep the variance 1 − 2pᵤ + Σᵥ pᵥ²: of k equal
    units, 1 − 1/k. With this factor random signs have the mean that independent features have.
    """
    total = np.bincount(cell, weights=weights)
    pairs = codes(np.stack([cell, units], axis=1))
    share = np.bincount(pairs, weights=weights / total[cell])
    of = np.empty(len(share), np.int64)
    of[pairs] = cell
    squares = np.bincount(of, weights=share**2, minlength=len(total))
    left = (1 - 2 * share + squares[of])[pairs]
    return 1 / np.sqrt(np.where(left < 1e-9, 1.0, left))


def multipliers(design: Design, draws: int, rng: np.random.Generator) -> np.ndarray:
    """1 for what was observed, then random signs of groups, scaled up for what centring lost, (1 + B, n)."""
    W = signs_of(design.units, draws, rng, design.weights)
    W[1:] *= lost_by_centring(design.strata, design.units, design.w)
    return W


@dataclass(frozen=True)
class Restriction:
    """What a design allowed.

    Attributes:
        groups: number of groups; 0 if rows move by themselves.
        strata: number of strata.
        shared: groups with rows in both samples, within which rows moved.
        weighted: whether rows have weights.
        signs: whether the null comes from random signs, not from rows that move.
        fixed: rows that cannot move.
        unweighted: rows of weight 0, which were left out.
        arrangements: how many distinct ones there are; infinite if more than can be told.
        complete: whether all of them were taken.
        smallest: the p-value that cannot be undercut.
    """

    groups: int = 0
    strata: int = 1
    shared: int = 0
    weighted: bool = False
    signs: bool = False
    fixed: int = 0
    unweighted: int = 0
    arrangements: float = inf
    complete: bool = False
    smallest: float = 0.0

    def after(self, values: np.ndarray, unweighted: int) -> Restriction:
        """With rows of weight 0, and the smallest p-value that statistics (1 + B,) allow.

        Warns if that is large.
        """
        out = replace(self, unweighted=unweighted)
        if self.complete:
            slack = TIE * float(values.std())
            out = replace(out, smallest=float(np.mean(values >= values.max() - slack)))
        if out.limit:
            warnings.warn(out.limit, UserWarning, stacklevel=4)
        return out

    @property
    def sentence(self) -> str:
        """In plain words."""
        within = f" within {self.strata} strata" if self.strata > 1 else ""
        if self.signs:
            what = f"{self.groups} groups" if self.groups else "rows"
            parts = [f"The null comes from random multipliers of {what}{within}."]
        else:
            whole = self.groups - self.shared
            parts = [
                f"Rows moved within {self.shared} groups that both samples have." if self.shared else "",
                f"{whole} groups of rows moved{within}, each as a whole." if whole else "",
                f"Rows moved{within} only." if within and not self.groups else "",
            ]
        if self.weighted:
            parts.append("Rows are weighted.")
        if self.unweighted:
            parts.append(f"{self.unweighted} rows of weight 0 were left out.")
        if self.fixed:
            parts.append(f"{self.fixed} rows cannot move, and add nothing.")
        parts.append(self.limit)
        return " ".join(part for part in parts if part)

    @property
    def limit(self) -> str:
        """What so few arrangements cannot show; empty if they are enough."""
        if self.smallest <= REACHED:
            return ""
        return (
            f"There are only {self.arrangements:.0f} arrangements: the smallest p-value is "
            f"{self.smallest:.2g}, so that nothing can be found at the level {percent(REACHED)}."
        )

    @property
    def record(self) -> dict[str, Any]:
        """For JSON."""
        many = self.arrangements == inf
        return {
            "groups": self.groups,
            "strata": self.strata,
            "weighted": self.weighted,
            "fixed_rows": self.fixed,
            "rows_of_weight_0": self.unweighted,
            "arrangements": None if many else int(self.arrangements),
            "all_arrangements": self.complete,
            "smallest_pvalue": self.smallest,
        }


def refuse_stuck(design: Design, stuck: np.ndarray, alike: Callable[[], str] | None = None) -> None:
    """Raise where no row can move, and say why."""
    if not stuck.all():
        return
    if design.groups is None and np.bincount(design.strata).max() == 1:
        raise ValueError(
            "every stratum has one row: no row can move. Take wider strata, or leave strata and blocks out."
        )
    raise ValueError(alike() if alike else "no row can move: take wider strata, or more groups in each.")


def restriction_of(design: Design, signs: bool, stuck: np.ndarray, count: float, made: int) -> Restriction:
    """What a design allowed: rows that are stuck, distinct arrangements, and how many were made."""
    groups = 0 if design.groups is None else int(design.groups.max()) + 1
    complete = count == made
    smallest = 1 / count if signs and not complete else 0.0
    return Restriction(
        groups=groups,
        strata=int(design.strata.max()) + 1,
        weighted=design.weights is not None,
        signs=signs,
        fixed=int(stuck.sum()),
        arrangements=count,
        complete=complete,
        smallest=smallest,
    )


def sign_patterns(units: np.ndarray) -> float:
    """Distinct patterns of signs, a pattern and its opposite being one."""
    count = len(np.unique(units))
    return 2.0 ** (count - 1) if count <= SIGNS else inf
