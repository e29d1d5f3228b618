"""Passes over rows: sums, and functions applied to each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from muhat import _threads
from muhat.engine.checkpoint import Checkpoint, digest
from muhat.engine.sources import ArrayRows, Rows, checked

State = tuple[np.ndarray, ...]
Work = Callable[..., State]  # of the number of the first row and one block of each source
# Numbers in the features of one block, at most: some blocks at a time, one on each core.
BLOCK_ELEMENTS = 1 << 22
# Rows that a block has at least, however wide the features are.
FEWEST_ROWS = 256


def reduce_rows(
    work: Work,
    combine: Callable[[State, State], State],
    *sources: Any,
    names: Sequence[str] = ("X", "Y"),
    width: int = 1,
    checkpoint: Checkpoint | None = None,
    label: str = "",
) -> State:
    """``work`` of every block, combined in the order of the rows: one pass.

    Blocks are worked on one a core, each with one BLAS thread, and combined in order, so that the result does
    not depend on which is ready first. On Dask they are combined in a tree.

    Args:
        work: of the number of the first row and a block (m, d) of each source, to a tuple of arrays.
        combine: two results to one; must be associative.
        sources: rows, all with the same number of them.
        names: what errors call the sources.
        width: numbers that ``work`` makes of a row, which sets the size of the blocks.
        checkpoint: where to go on from, and to write to.
        label: of this pass in the checkpoint.
    """
    rows = tuple(s if isinstance(s, Rows) else ArrayRows(s) for s in sources)
    check_lengths(rows, names)
    size = _block_rows(rows, width)
    for source in rows:
        source.passes += 1
    from muhat.engine import on_dask

    if any(isinstance(r, on_dask.DaskRows) for r in rows):
        return on_dask.reduce(work, combine, rows, names, size)

    def piece(task: Any) -> State:
        return fold(work, combine, *task, names=names, size=size)

    if checkpoint is not None:  # of these rows: others begin anew
        label = f"{label} {_mark(rows, size, names)}"
    first, total = (0, None) if checkpoint is None else checkpoint.resume(label)
    for k, part in enumerate(_threads.in_order(piece, _tasks(rows, size, first, names)), first):
        total = part if total is None else combine(total, part)
        if checkpoint is not None:
            checkpoint.store(label, k + 1, total)
    if total is None:
        raise ValueError(f"{names[0]} has no rows: give at least one.")
    if checkpoint is not None:
        checkpoint.store(label, -1, total, at_once=True)
    check_lengths(rows, names)
    return total


def sum_rows(work: Work, *sources: Any, **options: Any) -> State:
    """The sums over all rows of what ``work`` makes of each block; as :func:`reduce_rows`."""
    return reduce_rows(_On(work), add, *sources, **options)


def map_rows(
    function: Callable[[np.ndarray], np.ndarray], source: Rows, name: str = "X", width: int = 1
) -> Any:
    """``function`` of the rows, block by block: an array, or of a Dask source a Dask array."""
    from muhat.engine import on_dask

    if isinstance(source, on_dask.DaskRows):
        return on_dask.map_blocks(function, source, name)
    size = _block_rows((source,), width)

    def piece(task: Any) -> np.ndarray:
        start, blocks = task
        (block,) = _read(blocks, start, (name,))
        parts = [function(block[i : i + size]) for i in range(0, len(block), size)]
        return np.concatenate(parts)

    source.passes += 1
    return np.concatenate(list(_threads.in_order(piece, _tasks((source,), size, 0, (name,)))))


def _block_rows(rows: tuple[Rows, ...], width: int) -> int:
    """Rows of one block, by the numbers that a row has and that are made of it."""
    return max(FEWEST_ROWS, BLOCK_ELEMENTS // max(width, sum(r.shape[1] for r in rows)))


def _mark(rows: tuple[Rows, ...], size: int, names: Sequence[str]) -> str:
    """What tells these rows from others: the first block of each."""
    start, blocks = next(_tasks(rows, size, 0, names))
    return digest(*_read(blocks, start, names))


class _On:
    """A function of blocks that does not ask where they begin."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __call__(self, start: int, *blocks: np.ndarray) -> State:
        return self.work(*blocks)


def add(a: State, b: State) -> State:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def fold(
    work: Work,
    combine: Callable[[State, State], State],
    start: int,
    blocks: tuple[Any, ...],
    names: Sequence[str],
    size: int,
) -> State:
    """``work`` of one piece, cut into blocks of ``size`` rows."""
    arrays = _read(blocks, start, names)
    total: State | None = None
    for i in range(0, len(arrays[0]), size):
        part = work(start + i, *(a[i : i + size] for a in arrays))
        total = part if total is None else combine(total, part)
    assert total is not None
    return total


def _read(blocks: tuple[Any, ...], start: int, names: Sequence[str]) -> tuple[np.ndarray, ...]:
    read = [b() if callable(b) else b for b in blocks]
    arrays = tuple(checked(b, name, start) for b, name in zip(read, names, strict=False))
    if len({len(a) for a in arrays}) > 1:
        found = ", ".join(f"{name} {len(a)}" for name, a in zip(names, arrays, strict=False))
        raise ValueError(
            f"Blocks of rows that belong together differ in length from row {start} on: {found}."
        )
    return arrays


def _tasks(rows: tuple[Rows, ...], size: int, first: int, names: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """The first row and, for each source, a block or what reads it, from piece ``first`` on."""
    streams = [r.blocks() for r in rows]
    if any(s is not None for s in streams):
        yield from _stream(rows, streams, first, names)
        return
    bounds = cuts(rows, size)
    for a, b in pairwise(bounds[first:]):
        yield int(a), tuple(_Read(r, int(a), int(b)) for r in rows)


class _Read:
    def __init__(self, source: Rows, start: int, stop: int) -> None:
        self.source, self.start, self.stop = source, start, stop

    def __call__(self) -> np.ndarray:
        return self.source.read(self.start, self.stop)


def _stream(rows: Any, streams: Any, first: int, names: Sequence[str]) -> Iterator[tuple[int, Any]]:
    lead = next(s for s in streams if s is not None)
    start, k = 0, 0
    for block in lead:
        stop = start + len(block)
        parts = []
        for source, stream in zip(rows, streams, strict=True):
            if stream is lead:
                parts.append(block)
            elif stream is None:
                parts.append(_Read(source, start, stop))
            else:
                parts.append(next(stream, block[:0]))
        if len(block):
            if k >= first:
                yield start, tuple(parts)
            k += 1
        start = stop
    for stream, name in zip(streams, names, strict=False):
        if stream is not None and stream is not lead and next(stream, None) is not None:
            raise ValueError(f"{name} has more rows than {names[0]}: rows are pairs.")


def cuts(rows: tuple[Rows, ...], size: int) -> np.ndarray:
    """Where the pieces begin and end: at the bounds of the first source that has some, several to a piece."""
    n = rows[0].shape[0]
    given = next((r.bounds for r in rows if r.bounds is not None), None)
    if given is None:
        return np.append(np.arange(0, n, size), n)
    out = [0]
    for bound in given[1:]:
        if bound - out[-1] >= size or bound == n:
            out.append(int(bound))
    return np.unique(out)


def check_lengths(rows: tuple[Rows, ...], names: Sequence[str]) -> None:
    known = {name: r.shape[0] for r, name in zip(rows, names, strict=False) if r.shape[0] >= 0}
    if len(set(known.values())) > 1:
        (a, n), (b, m) = list(known.items())[:2]
        raise ValueError(f"{a} has {n} rows but {b} has {m}: rows are pairs, so pass one row of each.")
