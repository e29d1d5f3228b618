"""The support of parameters: bounds, whole numbers, simplices; given, or inferred from a sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

LEVEL = 0.001  # of Kolmogorov and Smirnov's test, which a uniform column passes
LEAST_ROWS = 30  # fewer rows say nothing about a support
OUTER = 0.12  # share in either outer fifth of a uniform column: in small samples the test lets bells pass
NEAR_ROWS = 0.05  # share of rows that says how dense a sample is near its end
GAPS = 6.0  # a sample reaches a bound within so many gaps of its last rows; where it does, e⁻⁶ would miss it
TOP_SHARE = 0.01  # at least this share lies in the upper tenth of [0, 1] where 1 is a bound,
TOP_GAPS = 18.0  # and the gap to it may be larger: the density of Beta(a, 2) falls to zero there
MARGIN = 3.0  # gaps beyond the ends of a uniform sample within which its bounds lie, at the level e⁻³; of
ROUND_MARGIN = 7.0  # bounds at 0 and at powers of ten, which priors often have, few may be missed: e⁻⁷
REMEDY = "Give the prior or bounds that theta was drawn from, or leave prior out to infer them."
SUM = 1e-6  # relative tolerance of the sum of a simplex


@dataclass(frozen=True, eq=False)
class Support:
    """Where parameters can be: bounds of each column, whole numbers, and columns that form a simplex.

    ``Support([0, 0], [1, np.inf])`` is a probability and a positive number. A closed set: bounds belong to
    it.

    Attributes:
        lower, upper: bounds, (p,); infinite where there is none. A number counts for every column.
        integer: which columns hold whole numbers, (p,).
        simplex: groups of columns that are not negative and have a fixed sum, e.g. ``[(0, 1, 2)]``.
        totals: these sums; 1 by default.
        names: of the columns.
        inferred: which columns were inferred from a sample and not given, (p,).
    """

    lower: Any
    upper: Any
    integer: Any = False
    simplex: Any = ()
    totals: Any = None
    names: Any = None
    inferred: Any = False

    def __post_init__(self) -> None:
        sizes = [np.size(v) for v in (self.lower, self.upper, self.integer)]
        sizes.append(1 + max((j for group in self.simplex for j in group), default=0))
        p = max(*sizes, len(self.names or ()))

        def spread(value: Any, name: str, kind: type) -> np.ndarray:
            value = np.array(value, dtype=kind)
            if value.size not in (1, p):
                raise ValueError(f"{name} has {value.size} entries where others have {p}: give one a column.")
            return np.broadcast_to(value.reshape(-1), (p,)).copy()

        names = list(self.names or ([f"theta{j + 1}" for j in range(p)] if p > 1 else ["theta"]))
        lower, upper = spread(self.lower, "lower", float), spread(self.upper, "upper", float)
        groups = tuple(tuple(int(j) for j in group) for group in self.simplex)
        totals = tuple(float(t) for t in (self.totals or [1.0] * len(groups)))
        for group, total in zip(groups, totals, strict=True):
            lower[list(group)], upper[list(group)] = 0.0, total
        bad = np.flatnonzero(~(lower < upper))
        if len(bad):
            j = bad[0]
            raise ValueError(
                f"lower must be below upper, but is {lower[j]:g} to {upper[j]:g} in {names[j]}: give bounds "
                "in order, infinite ones where there is none."
            )
        tied = [j for group in groups for j in group]
        if len(set(tied)) < len(tied) or any(len(group) < 2 for group in groups):
            raise ValueError(
                f"simplex must be groups of two or more columns that do not overlap, got {groups}."
            )
        for name, value in {
            "lower": lower,
            "upper": upper,
            "integer": spread(self.integer, "integer", bool),
            "inferred": spread(self.inferred, "inferred", bool),
            "simplex": groups,
            "totals": totals,
            "names": names,
        }.items():
            object.__setattr__(self, name, value)

    @classmethod
    def free(cls, p: int) -> Support:
        """The whole space."""
        return cls(np.full(p, -np.inf), np.full(p, np.inf))

    def __len__(self) -> int:
        return len(self.lower)

    def named(self, names: Any) -> Support:
        """The same with other names."""
        return replace(self, names=[str(name) for name in names])

    # -- points ------------------------------------------------------------------------------------

    def contains(self, theta: Any, whole: bool = True) -> np.ndarray:
        """Which rows of ``theta`` (n, p) lie in it, (n,).

        Args:
            theta: points.
            whole: whether columns of whole numbers must be whole; False for means.
        """
        theta = np.asarray(theta, dtype=np.float64)
        return np.asarray(~self._strays(theta, whole).any(axis=-1))

    def _strays(self, theta: np.ndarray, whole: bool = True) -> np.ndarray:
        """Which entries lie outside, (n, p); of a simplex with another sum, all of the group."""
        out = ~((theta >= self.lower) & (theta <= self.upper))
        if whole:
            out |= self.integer & (theta != np.round(theta))
        for group, total in zip(self.simplex, self.totals, strict=True):
            columns = list(group)
            wrong = np.abs(theta[..., columns].sum(axis=-1) - total) > SUM * total
            out[..., columns] |= wrong[..., None]
        return out

    def clip(self, theta: np.ndarray) -> np.ndarray:
        """Points (…, p) just inside the bounds, rounded where they are whole.

        What a transform gives is inside but for rounding: 1 − 10⁻²⁰ is 1.
        """
        inside = np.nextafter(self.lower, self.upper), np.nextafter(self.upper, self.lower)
        lower = np.where(self.integer, self.lower, inside[0])
        upper = np.where(self.integer, self.upper, inside[1])
        return np.clip(np.where(self.integer, np.round(theta), theta), lower, upper)

    def reflect(self, theta: np.ndarray) -> np.ndarray:
        """Points (…, p) mirrored at bounds they lie beyond, then clipped; a simplex is scaled to its sum."""
        out = np.array(theta, dtype=np.float64)
        out = np.where(out < self.lower, 2 * self.lower - out, out)
        out = np.where(out > self.upper, 2 * self.upper - out, out)
        for group, total in zip(self.simplex, self.totals, strict=True):
            part = np.maximum(out[..., list(group)], 1e-300)
            out[..., list(group)] = total * part / part.sum(axis=-1, keepdims=True)
        return self.clip(out)

    def meet(self, other: Support) -> Support:
        """What lies in both; where nothing would, this one."""
        lower, upper = np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper)
        kept = lower < upper
        lower, upper = np.where(kept, lower, self.lower), np.where(kept, upper, self.upper)
        return replace(self, lower=lower, upper=upper)

    def check(self, theta: np.ndarray, remedy: str = REMEDY) -> None:
        """ValueError if a row of ``theta`` (n, p) lies outside, which ends in what to do about it."""
        if len(self) != theta.shape[1]:
            raise ValueError(
                f"The support has {len(self)} columns ({', '.join(self.names)}) but theta has "
                f"{theta.shape[1]}: give a prior or bounds for each column of theta."
            )
        strays = self._strays(theta)
        if not strays.any():
            return
        i, j = (int(k) for k in np.argwhere(strays)[0])
        raise ValueError(
            f"theta has {int(strays.any(axis=1).sum())} of {len(theta)} rows outside the support: "
            f"{self.names[j]} (column {j}) is {theta[i, j]:.6g} in row {i}, but must be {self._where(j)}. "
            f"{remedy}"
        )

    # -- words -------------------------------------------------------------------------------------

    def _where(self, j: int) -> str:
        for group, total in zip(self.simplex, self.totals, strict=True):
            if j in group:
                return f"not negative, with sum {total:g} over {', '.join(self.names[i] for i in group)}"
        low, high = self.lower[j], self.upper[j]
        what = "a whole number " if self.integer[j] else ""
        if np.isfinite(low) and np.isfinite(high):
            return f"{what}within {low:.6g} to {high:.6g}"
        if np.isfinite(low):
            return f"{what}of at least {low:.6g}" if low or what else "positive"
        if np.isfinite(high):
            return f"{what}of at most {high:.6g}"
        return what.strip() or "any number"

    def _parts(self, columns: Any) -> str:
        """Columns in words, a simplex once."""
        done: set[int] = set()
        parts = []
        for j in columns:
            group = next((g for g in self.simplex if j in g), (j,))
            if j not in done:
                parts.append(f"{', '.join(self.names[i] for i in group)} {self._where(j)}")
            done |= set(group)
        return "; ".join(parts)

    @property
    def words(self) -> str:
        """Every column in words, without a full stop."""
        return self._parts(range(len(self)))

    @property
    def _bounded(self) -> np.ndarray:
        return np.isfinite(self.lower) | np.isfinite(self.upper) | self.integer

    @property
    def guess(self) -> str:
        """What was inferred, in a sentence; empty if nothing was."""
        columns = np.flatnonzero(self.inferred & self._bounded)
        if not len(columns):
            return ""
        return f"The support was not given and is taken from the simulations: {self._parts(columns)}."

    @property
    def summary(self) -> str:
        """In plain words, with what was inferred and how to correct it."""
        given, rest = np.flatnonzero(~self.inferred), np.flatnonzero(self.inferred & ~self._bounded)
        out = [f"The support is {self._parts(given)}."] if len(given) else []
        if self.guess:
            out.append(f"{self.guess} If that is wrong, give the prior or mh.Support.")
        if len(rest):
            which = ", ".join(self.names[j] for j in rest)
            out.append(f"No bounds were given or found for {which}: give the prior if there are any.")
        return " ".join(out)

    def __str__(self) -> str:
        return self.summary


# -- from a sample -----------------------------------------------------------------------------------


def infer_support(Z: np.ndarray, names: Any = None, hard: bool = False) -> Support:
    """The support of a sample (n, p), cautiously.

    Columns that look uniform lie in a box, which goes a little beyond their least and largest value, to a
    round number there if there is one. Columns that are not negative and come close to zero are positive;
    those within [0, 1] that come close to 1 stay there. Whole numbers stay whole and within those seen. Rows
    of neighbouring columns that are not negative and always have the same sum form a simplex.

    Args:
        Z: the sample.
        names: of the columns.
        hard: whether only bounds that a few more draws would not move are wanted: those at 0 and 1, and
            simplices.
    """
    n, p = Z.shape
    lower, upper, integer = np.full(p, -np.inf), np.full(p, np.inf), np.zeros(p, dtype=bool)
    if n < LEAST_ROWS:
        return Support(lower, upper, names=names, inferred=True)
    groups = _simplices(Z)
    tied = {j for group in groups for j in group}
    for j in range(p):
        column = np.asarray(Z[:, j], dtype=np.float64)
        if j in tied or not np.ptp(column) > 0:
            continue
        low, high = column.min(), column.max()
        if (column == np.round(column)).all():
            if not hard:
                integer[j], lower[j], upper[j] = True, low, high
            continue
        if looks_uniform(column) and not hard:
            lower[j], upper[j] = _box(low, high, n)
        elif low >= 0 and high <= 1 and _reaches_one(column):
            lower[j], upper[j] = 0.0, 1.0
        elif low >= 0 and _reaches_zero(column):
            lower[j] = 0.0
    totals = [float(np.median(Z[:, list(group)].sum(axis=1))) for group in groups]
    return Support(lower, upper, integer, groups, totals, names, True)


def _simplices(Z: np.ndarray) -> list[tuple[int, ...]]:
    """Shortest runs of neighbouring columns, not negative, with a constant sum."""
    p, groups, start = Z.shape[1], [], 0
    good = (Z >= 0).all(axis=0) & (np.ptp(Z, axis=0) > 0)
    while start < p:
        found = 0
        total = np.zeros(len(Z))
        for end in range(start, p):
            if not good[end]:
                break
            total = total + Z[:, end]
            if end > start and np.ptp(total) <= SUM * np.abs(total).max():
                found = end + 1
                break
        whole = found and (Z[:, start:found] == np.round(Z[:, start:found])).all()
        if found and not whole:  # counts of a fixed sum are no simplex of shares
            groups.append(tuple(range(start, found)))
            start = found
        else:
            start += 1
    return groups


def _reaches_zero(v: np.ndarray) -> bool:
    """Whether a column that is not negative ends at zero, and not just happens to lie above it."""
    if v.min() == 0:
        return True
    if v.min() < 0.5 * np.median(v) and abs(skewness(np.log(v))) < abs(skewness(v)):
        return True
    return _close(np.sort(v), GAPS)


def _reaches_one(v: np.ndarray) -> bool:
    return bool((v > 0.9).mean() >= TOP_SHARE) and (v.max() == 1 or _close(np.sort(1 - v), TOP_GAPS))


def _close(ordered: np.ndarray, gaps: float) -> bool:
    """Whether the gap from zero to the least value is at most so many of those between the next ones."""
    k = max(5, int(NEAR_ROWS * len(ordered)))
    gap = (ordered[k] - ordered[0]) / k
    return bool(ordered[0] <= gaps * gap)


def _box(low: float, high: float, n: int) -> tuple[float, float]:
    """Bounds of a uniform sample: round ones where they may be, else beyond its ends by the usual gap."""
    gap = (high - low) / (n - 1)
    below = _power_within(low - ROUND_MARGIN * gap, low)
    above = _power_within(high, high + ROUND_MARGIN * gap)
    below = _round_within(low - MARGIN * gap, low) if below is None else below
    above = _round_within(high, high + MARGIN * gap) if above is None else above
    return (low - gap if below is None else below), (high + gap if above is None else above)


def _power_within(a: float, b: float) -> float | None:
    """Zero or a power of ten of either sign in [a, b]; None if there is none."""
    if a <= 0 <= b:
        return 0.0
    least, largest = sorted((abs(a), abs(b)))
    power = float(f"1e{int(np.floor(np.log10(largest)))}")
    return float(np.copysign(power, a)) if least <= power else None


def _round_within(a: float, b: float) -> float | None:
    """A number of one or two digits in [a, b]; None if there is none."""
    if a <= 0 <= b:
        return 0.0
    top = int(np.floor(np.log10(max(abs(a), abs(b)))))
    for step in (10.0**top, 10.0**top / 2, 10.0 ** (top - 1)):
        candidate = float(f"{np.ceil(a / step) * step:.12g}")
        if a <= candidate <= b:
            return candidate
    return None


def skewness(v: np.ndarray) -> float:
    u = v - v.mean()
    sd = np.sqrt((u**2).mean())
    return float((u**3).mean() / sd**3) if sd > 0 else 0.0


def looks_uniform(v: np.ndarray, low: float | None = None, high: float | None = None) -> bool:
    """Whether the order statistics lie on a line between the bounds; by default the least and the largest."""
    v = np.asarray(v, dtype=np.float64)
    n = len(v)
    if n < LEAST_ROWS or not np.ptp(v) > 0:
        return False
    if low is None or high is None:
        u = np.sort((v - v.min()) / np.ptp(v))[1:-1]  # given its ends, a uniform sample is uniform between
    else:
        u = np.sort((v - low) / (high - low))
    m = len(u)
    expected = np.arange(1, m + 1)
    gap = np.maximum(expected / m - u, u - (expected - 1) / m).max()
    outer = min((u < 0.2).mean(), (u > 0.8).mean())
    return bool(gap < np.sqrt(-0.5 * np.log(LEVEL / 2) / m) and outer >= OUTER)
