"""Stretches of consecutive rows, from which what needs their order is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from muhat.engine.passes import State, reduce_rows
from muhat.engine.sample import SAMPLE, row_keys

# Rows of one stretch.
STRETCH = 400


def stretch_indices(n: int, size: int = SAMPLE) -> np.ndarray | slice:
    """As :func:`muhat.engine.sample_indices`, of whole stretches: those with the least keys, in order."""
    if n <= size:
        return slice(None)
    count = size // STRETCH
    first = STRETCH * np.sort(np.argpartition(row_keys(0, -(-n // STRETCH)), count)[:count])
    rows = (first[:, None] + np.arange(STRETCH)).ravel()
    return rows[rows < n]


def sample_stretches(
    sequences: Sequence[tuple[Any, ...]], size: int = SAMPLE, names: Any = ("X", "Z")
) -> tuple[list[int], np.ndarray, tuple[np.ndarray, ...]]:
    """Stretches of sequences of rows, in one pass over each: the rows of :func:`stretch_indices`.

    Args:
        sequences: of sources that belong together; rows are numbered from one sequence on to the next.
        size: rows to keep.
        names: what errors call the sources.

    Returns:
        The lengths of the sequences, the numbers of the rows kept, and these rows of every source.
    """
    combine = _Least(size // STRETCH)
    lengths: list[int] = []
    total: State | None = None
    for sources in sequences:
        work = _Keep(combine, sum(lengths))
        part = reduce_rows(work, combine, *sources, names=names)
        lengths.append(int(part[0]))
        total = part if total is None else combine(total, part)
    assert total is not None
    order = np.argsort(total[2])
    return lengths, total[2][order], tuple(b[order] for b in total[3:])


def stretch_lengths(index: np.ndarray | slice, lengths: Sequence[int]) -> list[int]:
    """How long the parts of consecutive rows of one sequence are, among the rows ``index``."""
    if isinstance(index, slice):
        return list(lengths)
    starts = np.cumsum(lengths)[:-1]
    cut = np.flatnonzero((np.diff(index) != 1) | np.isin(index[1:], starts)) + 1
    return [len(part) for part in np.split(index, cut)]


class _Keep:
    def __init__(self, combine: _Least, offset: int) -> None:
        self.combine, self.offset = combine, offset

    def __call__(self, start: int, *blocks: np.ndarray) -> State:
        m = len(blocks[0])
        index = self.offset + np.arange(start, start + m)
        window = index // STRETCH
        keys = row_keys(int(window[0]), int(window[-1]) + 1)[window - window[0]]
        return self.combine.least((np.array(m), keys, index, *blocks))


class _Least:
    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, a: State, b: State) -> State:
        both = tuple(np.concatenate([x, y]) for x, y in zip(a[1:], b[1:], strict=True))
        return self.least((a[0] + b[0], *both))

    def least(self, state: State) -> State:
        """The rows of the stretches with the least keys; a stretch that is cut keeps all its parts."""
        known = np.unique(state[1])
        if len(known) <= self.count:
            return state
        kept = state[1] <= known[self.count - 1]
        return (state[0], *(part[kept] for part in state[1:]))
