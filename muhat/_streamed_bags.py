"""Bags of a table that outgrows memory: sums over the points of each, wherever its rows are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from muhat._bags import Bags, Block, _check_column, _groups, target_of
from muhat.engine import Rows, open_rows, reduce_rows, sample_indices, sample_rows
from muhat.engine.sources import is_dask

# Numbers in the features of the bags that one pass is made for.
PASS_ELEMENTS = 1 << 22
# Numbers in the features of one block of points: 2 MB, which stay in a core's cache.
BLOCK_ELEMENTS = 1 << 18
# Whole numbers up to here are themselves as float64.
LARGEST = 2**53


class StreamedBags:
    """Bags of rows that are read in blocks; made by :meth:`muhat.Bags.from_table`.

    A bag may lie in many blocks or partitions. Its size and mean are found in one pass, when it is made.

    Attributes:
        labels: of the bags.
        sizes: number of points of each.
        effective_sizes: ``1/Σw²`` of each.
        means: of each, (n, d).
    """

    def __init__(
        self,
        source: Rows,
        keys: np.ndarray,
        labels: list[Any],
        key: int,
        columns: Sequence[int],
        weights: int | None,
    ) -> None:
        """Take in rows whose column ``key`` has the sorted ``keys`` of the bags."""
        self.source, self.keys, self.labels = source, keys, labels
        self.key, self.columns, self.weights_column = key, list(columns), weights
        self._shift: np.ndarray | None = None
        self._scale = np.ones(len(keys))
        found = self.grouped(_moments, len(self.columns) + 3)
        self.sizes, mass = found[:, 0].astype(int), found[:, 1]
        if not (mass > 0).all():
            label = labels[int(np.argmin(mass))]
            raise ValueError(f"The weights of bag {label!r} are all 0: drop it.")
        self.effective_sizes = mass**2 / found[:, 2]
        self.means = found[:, 3:] / mass[:, None]
        self._scale = 1 / mass

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def dimension(self) -> int:
        """d, the number of columns."""
        return len(self.columns)

    def centred(self) -> StreamedBags:
        """Every bag moved to mean 0."""
        out = copy(self)
        out._shift = -self.means
        return out

    def shifted(self, step: np.ndarray) -> StreamedBags:
        """Every bag moved by ``step`` (d,)."""
        out = copy(self)
        out._shift = np.broadcast_to(step, self.means.shape) + (0 if self._shift is None else self._shift)
        return out

    def pool(self, most: int = 2000) -> np.ndarray:
        """Points of all bags together, ``most`` of them: a pass over the rows."""
        return sample_rows(self.source, size=most, names=("table",))[1][0][:, self.columns]

    def batches(self, width: int) -> Iterator[StreamedBags]:
        """So many bags at a time as one pass makes ``width`` features of."""
        step = max(1, PASS_ELEMENTS // width)
        for a in range(0, len(self), step):
            some = slice(a, min(a + step, len(self)))
            out = copy(self)
            for name in ("keys", "labels", "sizes", "effective_sizes", "means", "_scale"):
                setattr(out, name, getattr(self, name)[some])
            yield out

    def grouped(
        self, function: Callable[[Block], np.ndarray], width: int, made: int | None = None
    ) -> np.ndarray:
        """Sums over the points of each bag, (n, width), in one pass over the rows.

        Args:
            function: makes a row of sums of each piece of a block of points.
            width: of these.
            made: numbers that it makes of a point on the way; ``width`` by default.
        """
        made = made or width
        rows = max(1, BLOCK_ELEMENTS // made)
        read = self._reader()

        def work(start: int, A: np.ndarray) -> tuple[np.ndarray, ...]:
            codes, X, w = read(A)
            known, inverse = np.unique(codes, return_inverse=True)
            out = np.zeros((len(known), width))
            for i in range(0, len(codes), rows):
                part = slice(i, i + rows)
                of, cuts = np.unique(inverse[part], return_index=True)
                out[of] += function(Block(X[part], w[part], cuts, known[of]))
            return known, out

        codes, sums = reduce_rows(work, _merge, self.source, names=("table",), width=made)
        out = np.zeros((len(self), width))
        out[codes] = sums
        return out

    def select(self, index: Any, most: int | None = None) -> Bags:
        """Some of the bags in memory, with at most ``most`` points each: a pass over the rows."""
        index = np.asarray(list(index), dtype=int)
        large = np.zeros(len(self), dtype=bool)
        if most is not None:
            large[index] = self.sizes[index] > most
        wanted = np.zeros(len(self), dtype=bool)
        wanted[index] = True
        read, weighted = self._reader(raw=True), self.weights_column is not None
        before = self._before(large) if large.any() else {}
        kept: dict[int, Any] = {
            int(i): sample_indices(int(self.sizes[i]), most or 0) for i in np.flatnonzero(large)
        }

        def work(start: int, A: np.ndarray) -> tuple[np.ndarray, ...]:
            codes, X, w = read(A)
            keep = wanted[codes]
            for i, count in before.get(start, {}).items():
                own = np.flatnonzero(codes == i)
                keep[own] = np.isin(count + np.arange(len(own)), kept[i], assume_unique=True)
            return codes[keep], X[keep], w[keep]

        codes, X, w = reduce_rows(work, _joined, self.source, names=("table",))
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(self) + 1))
        rows = [order[ends[i] : ends[i + 1]] for i in index]
        masses = [w[r] for r in rows] if weighted else None
        return Bags([X[r] for r in rows], masses, [self.labels[i] for i in index])

    def _before(self, large: np.ndarray) -> dict[int, dict[int, int]]:
        """How many points of large bags lie before each block, by its first row: one more pass."""
        read = self._reader(raw=True)

        def work(start: int, A: np.ndarray) -> tuple[np.ndarray, ...]:
            codes, _, _ = read(A)
            known, counts = np.unique(codes[large[codes]], return_counts=True)
            return np.full(len(known), start), known, counts

        out: dict[int, dict[int, int]] = {}
        so_far = np.zeros(len(self), dtype=int)
        for start, i, count in zip(*reduce_rows(work, _joined, self.source, names=("table",)), strict=True):
            out.setdefault(int(start), {})[int(i)] = int(so_far[i])
            so_far[i] += count
        return out

    def _reader(self, raw: bool = False) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
        """What makes of a block the numbers of the bags, their points and weights, bag by bag.

        ``raw`` are rows in their order, with weights as they come.
        """
        keys, key, columns, weights = self.keys, self.key, self.columns, self.weights_column
        scale, shift = self._scale, self._shift

        def read(A: np.ndarray) -> tuple[np.ndarray, ...]:
            codes = np.minimum(np.searchsorted(keys, A[:, key]), len(keys) - 1)
            inside = np.flatnonzero(keys[codes] == A[:, key])  # others are of no bag of these
            if not raw:
                inside = inside[np.argsort(codes[inside], kind="stable")]
            codes, A = codes[inside], A[inside]
            w = np.ones(len(A)) if weights is None else A[:, weights]
            if not np.isfinite(w).all() or (w < 0).any():
                raise ValueError("The column of weights must hold finite numbers of at least 0.")
            X = A[:, columns]
            if raw:
                return codes, X, w
            return codes, X if shift is None else X + shift[codes], w * scale[codes]

        return read


def _moments(block: Block) -> np.ndarray:
    """Of each piece: the number of points, and sums of weights, of their squares and of weighted points."""
    w = block.weights[:, None]
    return np.add.reduceat(np.hstack([np.ones_like(w), w, w * w, w * block.X]), block.cuts)


def _merge(a: Any, b: Any) -> tuple[np.ndarray, ...]:
    codes = np.union1d(a[0], b[0])
    out = np.zeros((len(codes), a[1].shape[1]))
    for known, sums in (a, b):
        out[np.searchsorted(codes, known)] += sums
    return codes, out


def _joined(a: Any, b: Any) -> tuple[np.ndarray, ...]:
    return tuple(np.concatenate(both) for both in zip(a, b, strict=True))


# -- tables ---------------------------------------------------------------------------------------


def is_streamed_table(table: Any) -> bool:
    """Whether a table is read in blocks: a path, opened rows, a Dask data frame."""
    return isinstance(table, (str, os.PathLike, Rows)) or is_dask(table)


def streamed_bags(table: Any, group: str, columns: Any, weights: str | None) -> StreamedBags:
    """As :meth:`muhat.Bags.from_table`, of a table that is read in blocks."""
    extra = [] if weights is None else [weights]
    if is_dask(table):
        names = _frame_names(table)
        for name in [group, *extra, *(columns or [])]:
            _check_column(name, names)
        numeric = [c for c in names if table.dtypes[c].kind in "biuf"]
        columns = _columns(columns, numeric, group, weights, names)
        for name in [*extra, *columns]:
            if name not in numeric:
                raise TypeError(f"Column {name!r} must hold numbers: leave it out.")
        seen = table[[group]].map_partitions(_distinct).compute()
        labels, _ = _groups(seen[group], group)
        return _of_frame(table, group, np.array(labels), columns, weights)
    source = _open(table, None if columns is None else [group, *extra, *columns])
    names = _row_names(source)
    for name in [group, *extra, *(columns or [])]:
        _check_column(name, names)
    columns = _columns(columns, names, group, weights, names)
    place = names.index(group)
    (keys,) = reduce_rows(_Distinct([place]), _union, source, names=("table",))
    keys = keys[:, 0]
    if np.abs(keys).max() >= LARGEST:
        raise ValueError(f"Column {group!r} has numbers beyond 2⁵³, which run together: number the groups.")
    labels = [int(k) if k == int(k) else float(k) for k in keys]
    at = [names.index(c) for c in columns]
    return StreamedBags(source, keys, labels, place, at, None if weights is None else names.index(weights))


def streamed_targets(table: Any, group: str, target: str) -> np.ndarray:
    """As :meth:`muhat.Bags.targets`, of a table that is read in blocks."""
    if is_dask(table):
        for name in (group, target):
            _check_column(name, _frame_names(table))
        seen = table[[group, target]].map_partitions(_distinct).compute()
        return target_of(seen, group, target)
    source = _open(table, [group, target])
    names = _row_names(source)
    for name in (group, target):
        _check_column(name, names)
    places = [names.index(group), names.index(target)]
    (seen,) = reduce_rows(_Distinct(places), _union, source, names=("table",))
    return target_of({group: seen[:, 0], target: seen[:, 1]}, group, target)


def _of_frame(
    table: Any, group: str, labels: np.ndarray, columns: list[Any], weights: str | None
) -> StreamedBags:
    import pandas as pd

    names = [f"c{j}" for j in range(1 + len(columns) + (weights is not None))]
    taken = [*columns, *([] if weights is None else [weights])]
    meta = pd.DataFrame({name: pd.Series(dtype=float) for name in names})
    coded = table.map_partitions(_coded, group, labels, taken, names, meta=meta)
    place = None if weights is None else len(names) - 1
    at = range(1, 1 + len(columns))
    return StreamedBags(open_rows(coded), np.arange(len(labels), dtype=float), labels.tolist(), 0, at, place)


def _coded(part: Any, group: str, labels: np.ndarray, taken: list[Any], names: list[str]) -> Any:
    """Rows of numbers: that of the group, then the columns."""
    import pandas as pd

    values = np.asarray(part[group])
    values = values.astype(str) if values.dtype == object else values
    codes = np.searchsorted(labels, values)
    rows = np.column_stack([codes, *(np.asarray(part[c], dtype=float) for c in taken)])
    return pd.DataFrame(rows, columns=names)


def _distinct(part: Any) -> Any:
    return part.drop_duplicates()


class _Distinct:
    def __init__(self, places: list[int]) -> None:
        self.places = places

    def __call__(self, start: int, A: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.unique(A[:, self.places], axis=0),)


def _union(a: Any, b: Any) -> tuple[np.ndarray, ...]:
    return (np.unique(np.concatenate([a[0], b[0]]), axis=0),)


def _open(table: Any, columns: list[Any] | None) -> Rows:
    return table if isinstance(table, Rows) else open_rows(table, columns)


def _frame_names(table: Any) -> list[Any]:
    if not hasattr(table, "columns"):
        raise TypeError("table must be a Dask data frame with named columns: make one of the array.")
    return list(table.columns)


def _row_names(source: Rows) -> list[str]:
    if source.names is None:
        raise TypeError(f"table has no names of columns ({source!r}): give a .parquet or .csv file.")
    return source.names


def _columns(
    columns: Any, numeric: list[Any], group: str, weights: str | None, names: list[Any]
) -> list[Any]:
    if columns is not None:
        return list(columns)
    found = [c for c in numeric if c not in (group, weights)]
    if not found:
        raise ValueError(
            f"The table has no numeric column besides {group!r}; it has {names}: name the columns."
        )
    return found


__all__ = ["StreamedBags", "is_streamed_table", "streamed_bags", "streamed_targets"]
