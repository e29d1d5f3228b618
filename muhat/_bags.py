"""Bags: one example is a sample of points, or a Gaussian."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from muhat._array import Array
from muhat._tables import is_frame
from muhat._validation import as_rows, check_same_columns, refuse_dates


class Block(NamedTuple):
    """Consecutive points, cut into pieces of bags.

    Attributes:
        X: points, (m, d).
        weights: of the points within their bags, (m,).
        cuts: where each piece begins among the points.
        of: the bag of each piece.
    """

    X: np.ndarray
    weights: np.ndarray
    cuts: np.ndarray
    of: np.ndarray

    def pieces(self) -> list[slice]:
        """The points of each piece."""
        return [slice(a, b) for a, b in pairwise([*self.cuts, len(self.X)])]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Weighted sums over the pieces of ``values`` (m, ...)."""
        # One product a piece: faster than np.add.reduceat, and nothing of the size of ``values`` is made.
        return np.stack([self.weights[rows] @ values[rows] for rows in self.pieces()])


class Bags:
    """Samples of points, one a bag; sizes may differ.

    Args:
        bags: a sequence of arrays (nᵢ, d), or (nᵢ,) for points on the line.
        weights: for each bag its weights (nᵢ,), non-negative; they are divided by their sum. None for equal
            ones. They say how much a point counts in the mean, not how often it was seen: a bag is as sure
            as ``1/Σw²`` points.
        labels: a name for each bag, used in messages; their numbers by default.
    """

    def __init__(self, bags: Any, weights: Any = None, labels: Any = None) -> None:
        bags = _sequence(bags)
        self.labels = list(range(len(bags))) if labels is None else list(labels)
        if len(self.labels) != len(bags):
            raise ValueError(f"labels has {len(self.labels)} entries for {len(bags)} bags: pass one a bag.")
        if len(set(self.labels)) < len(self.labels):
            twice = next(label for label in self.labels if self.labels.count(label) > 1)
            raise ValueError(f"labels has {twice!r} twice: join these bags, or give each its own name.")
        self.parts = [_points(bag, label) for bag, label in zip(bags, self.labels, strict=True)]
        for part, label in zip(self.parts, self.labels, strict=True):
            check_same_columns(part, self.parts[0].shape[1], f"Bag {label!r}", f"bag {self.labels[0]!r}")
        self.masses: list[np.ndarray] | None = None
        if weights is not None:
            weights = list(weights)
            if len(weights) != len(bags):
                raise ValueError(
                    f"weights has {len(weights)} entries for {len(bags)} bags: pass an array (nᵢ,) a bag."
                )
            self.masses = [
                _mass(w, len(part), label)
                for w, part, label in zip(weights, self.parts, self.labels, strict=True)
            ]

    @classmethod
    def from_table(cls, table: Any, group: str, columns: Any = None, weights: str | None = None) -> Any:
        """The rows of a table (pandas, polars, a dict of columns) as bags, by the column ``group``.

        A table that outgrows memory, a Dask data frame or the path of a Parquet or CSV file, is read in
        blocks, and a bag may lie in several: twice here, for the groups and for the sizes and means of the
        bags, and again by those who use them (see :meth:`muhat.DistributionRegressor.fit`).

        Args:
            table: one row a point.
            group: the column that says which bag a row belongs to; bags are in its sorted order.
            columns: of the points; all numeric ones but ``group`` and ``weights`` by default. A numeric
                target is in the table like any other column: name the columns, without it.
            weights: a column of weights, or None.
        """
        from muhat._streamed_bags import is_streamed_table, streamed_bags

        if is_streamed_table(table):
            return streamed_bags(table, group, columns, weights)
        names = _column_names(table)
        for name in [group, *([weights] if weights is not None else []), *(columns or [])]:
            _check_column(name, names)
        labels, rows = _groups(table[group], group)
        if columns is None:
            others = [c for c in names if c not in (group, weights)]
            columns = [c for c in others if np.asarray(table[c]).dtype.kind in "biuf"]
            if not columns:
                raise ValueError(
                    f"The table has no numeric column besides {group!r}; it has {names}: name the columns."
                )
        X = np.stack([_numbers(table[c], c) for c in columns], axis=1)
        masses = None if weights is None else [_numbers(table[weights], weights)[r] for r in rows]
        return cls([X[r] for r in rows], masses, labels)

    @staticmethod
    def targets(table: Any, group: str, target: str) -> np.ndarray:
        """The value of the column ``target`` for each bag of :meth:`from_table`; a group must have one."""
        from muhat._streamed_bags import is_streamed_table, streamed_targets

        if is_streamed_table(table):
            return streamed_targets(table, group, target)
        return target_of(table, group, target)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def dimension(self) -> int:
        """d, the number of columns."""
        return self.parts[0].shape[1]

    @property
    def sizes(self) -> np.ndarray:
        """Number of points of each bag."""
        return np.array([len(part) for part in self.parts])

    @property
    def effective_sizes(self) -> np.ndarray:
        """``1/Σw²`` of each bag: its size, for equal weights."""
        if self.masses is None:
            return self.sizes.astype(float)
        return np.array([1 / (w**2).sum() for w in self.masses])

    def weights(self, i: int) -> np.ndarray:
        """The weights of bag i, which add up to one."""
        n = len(self.parts[i])
        return np.full(n, 1 / n) if self.masses is None else self.masses[i]

    @property
    def means(self) -> np.ndarray:
        """The mean of each bag, (n, d)."""
        if self.masses is None:
            return np.array([part.mean(axis=0, dtype=np.float64) for part in self.parts])
        return np.array([w @ part for w, part in zip(self.masses, self.parts, strict=True)])

    def centred(self) -> Bags:
        """Every bag moved to mean 0."""
        out = self.select(range(len(self)))
        out.parts = [part - mean for part, mean in zip(self.parts, self.means, strict=True)]
        return out

    def shifted(self, step: np.ndarray) -> Bags:
        """Every bag moved by ``step`` (d,)."""
        out = self.select(range(len(self)))
        out.parts = [part + step for part in self.parts]
        return out

    def select(self, index: Any) -> Bags:
        """Some of the bags."""
        out = object.__new__(Bags)
        out.parts = [self.parts[i] for i in index]
        out.masses = None if self.masses is None else [self.masses[i] for i in index]
        out.labels = [self.labels[i] for i in index]
        return out

    def thinned(self, most: int) -> Bags:
        """At most ``most`` points of each bag, the same ones for bags of the same size."""
        from muhat.engine import sample_indices

        if self.sizes.max() <= most:
            return self
        out = self.select(range(len(self)))
        rows = [sample_indices(len(part), most) for part in self.parts]
        out.parts = [part[r] for part, r in zip(self.parts, rows, strict=True)]
        if self.masses is not None:
            kept = [w[r] for w, r in zip(self.masses, rows, strict=True)]
            out.masses = [_mass(w, len(w), label) for w, label in zip(kept, self.labels, strict=True)]
        return out

    def joined(self, other: Bags) -> Bags:
        """These bags and then the others."""
        check_same_columns(other.parts[0], self.dimension, f"Bag {other.labels[0]!r}", "the bags before")
        out = self.select(range(len(self)))
        out.parts, out.labels = out.parts + other.parts, out.labels + other.labels
        if self.masses is not None or other.masses is not None:
            out.masses = [bags.weights(i) for bags in (self, other) for i in range(len(bags))]
        return out

    def pool(self, most: int = 2000) -> np.ndarray:
        """Points of all bags together, at most about ``most``, drawn with a fixed seed."""
        rng, share = np.random.default_rng(0), max(2, most // len(self))
        index = range(len(self)) if len(self) <= most else rng.choice(len(self), most, replace=False)
        return np.concatenate(
            [
                part if len(part) <= share else part[rng.choice(len(part), share, replace=False)]
                for part in (self.parts[i] for i in index)
            ]
        )

    def batches(self, rows: int) -> Iterator[Bags]:
        """Whole bags, about ``rows`` points at a time."""
        for index in _batched(self.sizes, rows):
            yield self.select(index)

    def slices(self, rows: int) -> list[slice]:
        """Consecutive bags of about ``rows`` points, as slices."""
        return [slice(r.start, r.stop) for r in _batched(self.sizes, rows)]

    def blocks(self, rows: int) -> Iterator[Block]:
        """All points in order, at most ``rows`` at a time; large bags come in pieces."""
        pieces: list[tuple[int, slice]] = []
        held = 0
        for i, part in enumerate(self.parts):
            start = 0
            while start < len(part):
                stop = min(len(part), start + rows - held)
                pieces.append((i, slice(start, stop)))
                held, start = held + stop - start, stop
                if held == rows:
                    yield self._block(pieces)
                    pieces, held = [], 0
        if pieces:
            yield self._block(pieces)

    def _block(self, pieces: list[tuple[int, slice]]) -> Block:
        X = np.concatenate([self.parts[i][s] for i, s in pieces])
        lengths = [s.stop - s.start for _, s in pieces]
        if self.masses is None:
            weights = np.repeat([1 / len(self.parts[i]) for i, _ in pieces], lengths)
        else:
            weights = np.concatenate([self.masses[i][s] for i, s in pieces])
        return Block(X, weights, np.cumsum([0, *lengths[:-1]]), np.array([i for i, _ in pieces]))


class GaussianBags:
    """Gaussians N(mᵢ, Sᵢ) in place of samples: known distributions, embedded in closed form.

    Args:
        means: mᵢ, (n, d).
        covs: Sᵢ, (n, d, d), or variances of uncorrelated columns, (n, d).
    """

    def __init__(self, means: Any, covs: Any) -> None:
        self.means = as_rows(means, "means")
        n, d = self.means.shape
        covs = np.asarray(covs, dtype=np.float64)
        if covs.shape == (n, d):
            covs = covs[:, :, None] * np.eye(d)
        if covs.shape != (n, d, d):
            raise ValueError(
                f"covs has shape {covs.shape}, but means has {self.means.shape}: pass ({n}, {d}, {d}), or "
                f"variances ({n}, {d})."
            )
        for i, S in enumerate(covs):
            if not np.isfinite(S).all() or not np.allclose(S, S.T) or np.linalg.eigvalsh(S)[0] <= 0:
                raise ValueError(
                    f"Bag {i} has no covariance matrix, got {S.tolist()}: it must be finite, symmetric and "
                    "positive definite (every variance above 0)."
                )
        self.covs = covs
        self.labels = list(range(n))

    def __len__(self) -> int:
        return len(self.means)

    @property
    def dimension(self) -> int:
        """d, the number of columns."""
        return self.means.shape[1]

    @property
    def sizes(self) -> np.ndarray:
        """One for each: what it costs, in points."""
        return np.ones(len(self), dtype=int)

    @property
    def effective_sizes(self) -> np.ndarray:
        """Infinite: a Gaussian is known exactly."""
        return np.full(len(self), np.inf)

    def centred(self) -> GaussianBags:
        """Every Gaussian moved to mean 0."""
        out = self.select(range(len(self)))
        out.means = np.zeros_like(out.means)
        return out

    def select(self, index: Any) -> GaussianBags:
        """Some of the bags."""
        index = np.asarray(list(index), dtype=int)
        out = object.__new__(GaussianBags)
        out.means, out.covs = self.means[index], self.covs[index]
        out.labels = [self.labels[i] for i in index]
        return out

    def joined(self, other: GaussianBags) -> GaussianBags:
        """These bags and then the others."""
        check_same_columns(other.means, self.dimension, "The new bags", "the bags before")
        out = self.select(range(len(self)))
        out.means, out.covs = np.vstack([out.means, other.means]), np.vstack([out.covs, other.covs])
        out.labels = out.labels + other.labels
        return out

    def pool(self, most: int = 2000) -> np.ndarray:
        """Draws from the Gaussians together, with a fixed seed: data that have their spread."""
        rng, share = np.random.default_rng(0), max(2, most // len(self))
        factors = np.linalg.cholesky(self.covs)
        draws = rng.standard_normal((len(self), share, self.dimension))
        X = self.means[:, None] + draws @ np.swapaxes(factors, 1, 2)
        return X.reshape(-1, self.dimension)[: max(most, 2)]

    def batches(self, rows: int) -> Iterator[GaussianBags]:
        """Some bags at a time."""
        for index in _batched(self.sizes, rows):
            yield self.select(index)


AnyBags = Bags | GaussianBags


def as_bags(bags: Any, dimension: int | None = None) -> Any:
    """``bags`` as :class:`Bags` or what stands for them, of ``dimension`` columns where it is given."""
    out = bags if is_bags(bags) else Bags(bags)
    if dimension is not None and out.dimension != dimension:
        raise ValueError(
            f"The bags have {out.dimension} columns, but {dimension} were seen before: pass the same columns "
            "in the same order."
        )
    return out


def is_bags(bags: Any) -> bool:
    """Whether these are bags already: samples, Gaussians, or a table that is read in blocks."""
    from muhat._streamed_bags import StreamedBags

    return isinstance(bags, (Bags, GaussianBags, StreamedBags))


def batches_of(bags: Any, rows: int, dimension: int | None = None) -> Iterator[AnyBags]:
    """Whole bags, about ``rows`` points at a time; ``bags`` may be an iterator, which is never held whole."""
    if is_bags(bags) or not isinstance(bags, Iterator):
        yield from as_bags(bags, dimension).batches(rows)
        return
    held: list[np.ndarray] = []
    i, first, count = -1, 0, 0
    for i, bag in enumerate(bags):
        held.append(_points(bag, i))
        count += len(held[-1])
        if count >= rows:
            yield as_bags(Bags(held, labels=range(first, i + 1)), dimension)
            held, first, count = [], i + 1, 0
    if held:
        yield as_bags(Bags(held, labels=range(first, first + len(held))), dimension)
    elif i < 0:
        raise ValueError("bags is an iterator without bags: is it used up? Pass it anew.")


def target_of(table: Any, group: str, target: str) -> np.ndarray:
    """The value of the column ``target`` in each group of a table, groups in sorted order.

    A group must have one value.
    """
    names = _column_names(table)
    for name in (group, target):
        _check_column(name, names)
    labels, rows = _groups(table[group], group)
    values = np.asarray(table[target])
    for label, r in zip(labels, rows, strict=True):
        seen = set(values[r].tolist())
        if len(seen) > 1:
            raise ValueError(
                f"Group {label!r} has {len(seen)} values of {target!r}, e.g. {sorted(map(str, seen))[:2]}: a "
                "bag has one target, so make it constant within the group, or give two bags two names."
            )
    return values[[r[0] for r in rows]]


def _sequence(bags: Any) -> Sequence[Any]:
    if is_frame(bags) or isinstance(bags, dict):
        raise TypeError(
            "bags must be a list of arrays, one a bag, got a table: use mh.Bags.from_table(table, group=...)."
        )
    if isinstance(bags, np.ndarray) and bags.dtype != object and bags.ndim != 3:
        raise ValueError(
            f"bags must be a list of arrays, one a bag, or one array (bags, points, d), got shape "
            f"{bags.shape}."
        )
    if isinstance(bags, (str, bytes)) or not isinstance(bags, Iterable):
        raise TypeError(f"bags must be a list of arrays, one a bag, got {bags!r}.")
    bags = list(bags)
    if not bags:
        raise ValueError("bags is empty: pass at least one bag.")
    return bags


def _points(bag: Any, label: Any) -> np.ndarray:
    if not is_frame(bag):
        A = bag if isinstance(bag, np.ndarray) else np.asarray(bag)
        bag = A.reshape(-1, 1) if A.ndim == 1 else A
    if len(bag) == 0:
        raise ValueError(f"Bag {label!r} is empty: drop it, with its label.")
    return np.asarray(as_rows(bag, f"Bag {label!r}"))


def _mass(weights: Any, n: int, label: Any) -> np.ndarray:
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or not w.sum() > 0:
        raise ValueError(
            f"The weights of bag {label!r} must be {n} finite numbers of at least 0, not all 0; got shape "
            f"{w.shape}, {w.tolist()[:5]}."
        )
    return w / w.sum()


def _batched(sizes: np.ndarray, rows: int) -> Iterator[range]:
    start = count = 0
    for i, size in enumerate(sizes):
        if count and count + size > rows:
            yield range(start, i)
            start, count = i, 0
        count += int(size)
    yield range(start, len(sizes))


def _column_names(table: Any) -> list[str]:
    if isinstance(table, dict):
        return list(table)
    if not is_frame(table):
        raise TypeError(f"table must be a data frame or a dict of columns, got {type(table).__name__}.")
    return list(table.columns)


def _check_column(name: Any, names: list[str]) -> None:
    if name not in names:
        raise ValueError(f"The table has no column {name!r}; it has {names}: check the name.")


def _groups(column: Any, name: str) -> tuple[list[Any], list[np.ndarray]]:
    values = np.asarray(column)
    if len(values) == 0:
        raise ValueError(f"The table has no rows: column {name!r} is empty.")
    missing = [i for i, v in enumerate(values.tolist()) if v is None or (v == v) is not True]  # NaN, NA
    if missing:
        raise ValueError(
            f"Column {name!r} is missing at row {missing[0]} ({len(missing)} in all): drop these."
        )
    texts = values.astype(str) if values.dtype == object else values
    labels, inverse = np.unique(texts, return_inverse=True)
    if values.dtype == object and len(set(values.tolist())) > len(labels):  # 1 and "1"
        kinds = sorted({type(v).__name__ for v in values.tolist()})
        raise ValueError(
            f"Column {name!r} holds different values with the same name, of types {kinds}: make it text or "
            "numbers throughout."
        )
    order = np.argsort(inverse, kind="stable")
    return labels.tolist(), np.split(order, np.cumsum(np.bincount(inverse))[:-1])


def _numbers(column: Any, name: Any) -> Array:
    values = np.asarray(column)
    if values.dtype.kind not in "biuf":
        refuse_dates(column, f"Column {name!r}", name)
        raise TypeError(f"Column {name!r} must hold numbers, but has dtype {values.dtype}: leave it out.")
    return values.astype(np.float64)


__all__ = ["AnyBags", "Bags", "Block", "GaussianBags", "as_bags", "batches_of", "is_bags", "target_of"]
