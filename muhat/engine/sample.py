"""The rows that stand for all when kernels, landmarks and regularisers are chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat.engine.checkpoint import Checkpoint
from muhat.engine.passes import State, reduce_rows

# Rows that choices are made from, at most.
SAMPLE = 20_000


def row_keys(start: int, stop: int) -> np.ndarray:
    """One random number for each row, the same however the rows are cut, (stop − start,)."""
    bits = np.random.Philox(key=0)
    bits.advance(start // 4)  # each step of the counter gives four numbers
    skip = start % 4
    return np.random.Generator(bits).random(skip + stop - start)[skip:]


def sample_indices(n: int, size: int = SAMPLE) -> np.ndarray | slice:
    """Which of n rows are drawn: those with the least keys, in order."""
    if n <= size:
        return slice(None)
    return np.sort(np.argpartition(row_keys(0, n), size)[:size])


def sample_rows(
    *sources: Any,
    size: int = SAMPLE,
    names: Any = ("X", "Y"),
    checkpoint: Checkpoint | None = None,
    label: str = "sample",
) -> tuple[int, tuple[np.ndarray, ...]]:
    """The number of rows and ``size`` of them from each source, in one pass: a reservoir.

    Every row has a key by its number, and those with the least keys stay: whoever reads which block, in
    whatever order, the sample is that of :func:`sample_indices`.
    """
    n, _, blocks = sample_numbered(*sources, size=size, names=names, checkpoint=checkpoint, label=label)
    return n, blocks


def sample_numbered(
    *sources: Any,
    size: int = SAMPLE,
    names: Any = ("X", "Y"),
    checkpoint: Checkpoint | None = None,
    label: str = "sample",
) -> tuple[int, np.ndarray, tuple[np.ndarray, ...]]:
    """As :func:`sample_rows`, with the numbers of the rows that were drawn."""
    known = max(s.shape[0] for s in sources)  # −1 of those that have yet to be read
    n, _, index, *blocks = reduce_rows(
        _Keep(size, _bound(known, size)),
        _Least(size),
        *sources,
        names=names,
        checkpoint=checkpoint,
        label=label,
    )
    order = np.argsort(index)
    return int(n), index[order], tuple(b[order] for b in blocks)


def _bound(n: int, size: int) -> float:
    """A key that ``size`` of n rows surely lie below, by ten standard deviations; 1 if n is not known."""
    return min(1.0, (size + 10 * size**0.5) / n) if n > size else 1.0


class _Keep:
    def __init__(self, size: int, bound: float) -> None:
        self.size, self.bound = size, bound

    def __call__(self, start: int, *blocks: np.ndarray) -> State:
        stop = start + len(blocks[0])
        keys = row_keys(start, stop)
        # What cannot stay is not sent on.
        some = slice(None) if self.bound == 1 else np.flatnonzero(keys < self.bound)
        state = (keys[some], np.arange(start, stop)[some], *(block[some] for block in blocks))
        return _least((np.array(stop - start), *state), self.size)


class _Least:
    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, a: State, b: State) -> State:
        both = tuple(np.concatenate([x, y]) for x, y in zip(a[1:], b[1:], strict=True))
        return _least((a[0] + b[0], *both), self.size)


def _least(state: State, size: int) -> State:
    keys = state[1]
    if len(keys) <= size:
        return state
    kept = np.argpartition(keys, size)[:size]
    return (state[0], *(part[kept] for part in state[1:]))
