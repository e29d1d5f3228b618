"""Passes over Dask collections: blocks stay where they are, only sums travel."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from muhat import _threads
from muhat.engine.sources import ArrayRows, Rows

# Sums that are added by one task.
FAN = 8


class DaskRows(Rows):
    """Rows of a Dask array, data frame or series; each chunk of rows is one block."""

    def __init__(self, collection: Any, columns: Sequence[Any] | None = None, flat: bool = False) -> None:
        self.frame = hasattr(collection, "divisions")
        self.flat = flat or collection.ndim == 1
        if columns is not None:
            collection = collection[list(columns)] if self.frame else collection[:, list(columns)]
        if self.frame:
            collection = collection.to_frame() if collection.ndim == 1 else collection
            self.names = [str(c) for c in collection.columns]
            width, lengths = len(self.names), None
        else:
            if collection.ndim not in (1, 2):
                raise ValueError(
                    f"A Dask array must be (n, d), but has shape {collection.shape}: reshape it."
                )
            collection = _column(collection) if collection.ndim == 1 else collection
            width = int(collection.shape[1])
            collection = collection.rechunk({1: width})  # a block has whole rows
            lengths = None if np.isnan(collection.shape[0]) else collection.chunks[0]
        self.collection = collection
        if lengths is None:
            lengths = self._measure()
        self.bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
        self.shape = (int(self.bounds[-1]), width)

    def _measure(self) -> Sequence[int]:
        dask = _dask()
        return dask.compute(*[dask.delayed(len)(block) for block in self.delayed()])

    def delayed(self) -> list[Any]:
        """The blocks, each (m, d), as tasks."""
        parts = self.collection.to_delayed()
        return list(parts if self.frame else parts.ravel())

    def read(self, start: int, stop: int) -> np.ndarray:
        if self.frame:
            raise TypeError("A Dask data frame is read by its partitions.")
        return np.asarray(self.collection[start:stop].compute())


def reduce(work: Any, combine: Any, rows: tuple[Rows, ...], names: Sequence[str], size: int) -> Any:
    """The pass of :func:`muhat.engine.reduce_rows` as a graph: one task a chunk, then a tree of sums.

    A task whose worker dies is done again by another, from its chunk.
    """
    dask = _dask()
    lead = next(r for r in rows if isinstance(r, DaskRows))
    bounds: Any = lead.bounds
    columns = [_aligned(r, lead, name) for r, name in zip(rows, names, strict=False)]
    merge = dask.delayed(combine, pure=False)
    given = dask.delayed(work, pure=False), merge, list(names), size
    pieces = (_fused if all(_is_array(c) for c in columns) else _separate)(columns, bounds, given)
    todo = [piece for k, piece in enumerate(pieces) if bounds[k + 1] > bounds[k]]
    if not todo:
        raise ValueError(f"{names[0]} has no rows: give at least one.")
    while len(todo) > 1:
        todo = [dask.delayed(_merge)(merge, todo[i : i + FAN]) for i in range(0, len(todo), FAN)]
    return dask.compute(todo[0])[0]


def map_blocks(function: Callable[[np.ndarray], np.ndarray], source: DaskRows, name: str) -> Any:
    """``function`` of the rows as a Dask array, made when it is asked for."""
    import dask.array as da

    dask = _dask()
    bounds: Any = source.bounds
    shape = function(np.zeros((1, source.shape[1]))).shape[1:]
    run = dask.delayed(function, pure=False)
    parts = [
        da.from_delayed(
            dask.delayed(_apply)(run, block, int(bounds[k]), name),
            (int(bounds[k + 1] - bounds[k]), *shape),
            float,
        )
        for k, block in enumerate(source.delayed())
    ]
    return da.concatenate(parts)


def _fused(columns: list[Any], bounds: Any, given: Any) -> list[Any]:
    """A task for each chunk of arrays, which also makes the chunk: nothing is sent in between.

    Dask merges tasks of arrays that keep all axes: the results are an array of objects with the same ones.
    """
    import dask.array as da

    work, combine, names, size = given
    pieces = da.map_blocks(
        _array_piece,
        *columns,
        starts=bounds[:-1].tolist(),
        work=work,
        merge=combine,
        names=names,
        size=size,
        dtype=object,
        meta=np.empty((0, 0), dtype=object),
    )
    return list(pieces.to_delayed().ravel())


def _separate(columns: list[Any], bounds: Any, given: Any) -> list[Any]:
    """The same with tasks of their own that make the blocks."""
    dask = _dask()
    blocks = [DaskRows(c).delayed() if _is_array(c) else c for c in columns]
    return [
        dask.delayed(_piece)(int(bounds[k]), list(parts), *given)
        for k, parts in enumerate(zip(*blocks, strict=True))
    ]


def _is_array(blocks: Any) -> bool:
    return not isinstance(blocks, list)


def _aligned(source: Rows, lead: DaskRows, name: str) -> Any:
    """The blocks of a source, cut as those of ``lead``: an array, or a list of tasks."""
    dask = _dask()
    bounds: Any = lead.bounds
    if isinstance(source, DaskRows):
        if np.array_equal(source.bounds, bounds):  # type: ignore[arg-type]
            return source.delayed() if source.frame else source.collection
        if source.frame:
            raise ValueError(
                f"{name} is a Dask data frame with other partitions than those it belongs to: take both from "
                "one frame, or repartition it."
            )
        return source.collection.rechunk({0: tuple(int(m) for m in np.diff(bounds))})
    if source.blocks() is not None:
        raise TypeError(
            f"{name} is a generator of blocks, and cannot be cut as a Dask collection is: give an array."
        )
    pieces = [(int(a), int(b)) for a, b in pairwise(bounds)]
    if isinstance(source, ArrayRows) and isinstance(source.array, np.ndarray):
        # Each task is sent its part, and not the whole array.
        return [dask.delayed(source.read(a, b), pure=False) for a, b in pieces]
    return [dask.delayed(_read, pure=False)(source, a, b) for a, b in pieces]


def _column(collection: Any) -> Any:
    """Single numbers as rows of one; a slice would not be merged with the tasks before and after it."""
    chunks = (collection.chunks[0], (1,))
    return collection.map_blocks(_as_column, dtype=collection.dtype, new_axis=1, chunks=chunks)


def _as_column(block: Any) -> Any:
    return block[:, None]


def _dask() -> Any:
    import dask

    return dask


def _read(source: Rows, start: int, stop: int) -> np.ndarray:
    return source.read(start, stop)


def _array_piece(
    *blocks: Any, starts: list[int], work: Any, merge: Any, names: list[str], size: int, block_id: Any
) -> Any:
    return _piece(starts[block_id[0]], list(blocks), work, merge, names, size)


def _piece(start: int, blocks: list[Any], work: Any, combine: Any, names: list[str], size: int) -> Any:
    from muhat.engine.passes import fold

    # One thread: Dask has as many workers as it is meant to.
    with kept_memory:
        return _threads.alone(fold, work, combine, start, tuple(blocks), names, size)


class _KeptMemory:
    """Memory that one block has freed is there for the next, while any task of ours runs.

    Dask has its workers give memory back at once (``MALLOC_TRIM_THRESHOLD_``). Getting it anew, page by page,
    takes a tenth of a pass. Only glibc can be told. Afterwards it is told what Dask had asked for, and gives
    back what it has when the next large piece is freed.
    """

    TRIM, MMAP = -1, -3  # parameters of mallopt
    KEPT, LARGEST = 1 << 28, 1 << 25  # bytes; older glibc takes no more for the second

    def __init__(self) -> None:
        self.lock, self.count = threading.Lock(), 0

    def __enter__(self) -> None:
        self._move(1, self.KEPT, self.LARGEST)

    def __exit__(self, *_: object) -> None:
        self._move(-1, *(self._asked(f"MALLOC_{name}_THRESHOLD_") for name in ("TRIM", "MMAP")))

    @staticmethod
    def _asked(variable: str) -> int:
        """What the environment says; else what glibc begins with."""
        try:
            return int(os.environ[variable])
        except (KeyError, ValueError):
            return 1 << 17

    def _move(self, change: int, trim: int, largest: int) -> None:
        tell = _mallopt()
        with self.lock:
            edge = self.count + max(change, 0) == 1  # the first begins, or the last ends
            self.count += change
            if edge and tell is not None and "MALLOC_TRIM_THRESHOLD_" in os.environ:
                tell(self.TRIM, trim)
                tell(self.MMAP, largest)


@cache
def _mallopt() -> Any:
    """The function of the C library, if it has one."""
    return getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None


kept_memory = _KeptMemory()
if hasattr(os, "register_at_fork"):  # a forked child has none of the threads that hold it
    os.register_at_fork(after_in_child=kept_memory.__init__)


def _merge(combine: Any, parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return total


def _apply(function: Any, block: Any, start: int, name: str) -> np.ndarray:
    from muhat.engine.sources import checked

    return _threads.alone(function, checked(block, name, start))


__all__ = ["DaskRows", "map_blocks", "reduce"]
