"""Elementwise work in threads over blocks of rows.

NumPy's ufuncs and SciPy's distances release the interpreter lock, so blocks small enough for the
cache run on every core. BLAS is held to one thread inside: its own threads and ours would fight.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController

# Doubles in one block: a few temporaries of this size stay in a core's cache.
BLOCK_ELEMENTS = 1 << 15
_inside = threading.local()
T = TypeVar("T")


@cache
def _pool() -> tuple[ThreadPoolExecutor, int]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(cores, thread_name_prefix="muhat"), cores


_found: dict[str, tuple[Any, bool]] = {}  # by file: the thread control, and whether all threads share it
_modules = 0  # how many there were when we last looked


def find_blas() -> tuple[list[Any], list[Any]]:
    """The thread controls that are loaded: those with one setting for the process (OpenBLAS), and those with
    one for each thread (OpenMP, MKL).

    A library comes with a module: when their number has changed we look again, in some 5 ms.
    """
    global _modules
    import scipy.linalg  # noqa: F401  SciPy has a BLAS of its own: have it now, not in the midst of the work

    modules = len(sys.modules)
    if modules != _modules:
        for library in ThreadpoolController().lib_controllers:
            if library.filepath not in _found:
                _found[library.filepath] = library, _is_shared(library)
        _modules = modules  # last: a look that was interrupted is taken again
    shared = [library for library, is_shared in _found.values() if is_shared]
    return shared, [library for library, is_shared in _found.values() if not is_shared]


def _is_shared(library: Any) -> bool:
    """Whether a change that another thread makes is seen here."""
    before = library.num_threads
    probe = threading.Thread(target=_set, args=(library, before + 1))
    probe.start()
    probe.join()
    seen = library.num_threads != before
    _set(library, before)
    return seen


def _set(library: Any, threads: int) -> None:
    """Set the threads of a library, whoever set them last.

    threadpoolctl lets only one thread set those of OpenBLAS and ignores all others in silence. Ours count who
    holds them, and which thread is the first and the last of these is chance.
    """
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(threads)
    release(force=True)


class _Hold:
    """BLAS on one thread while anybody holds it.

    Every thread that holds limits itself. What all threads share the first limits and the last restores. A
    library that is loaded during a hold is limited by the next thread that enters.
    """

    def __init__(self) -> None:
        self.lock, self.count, self.mine = threading.Lock(), 0, threading.local()
        self.before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        depth = getattr(self.mine, "depth", 0)
        if depth == 0:
            with self.lock:
                shared, own = find_blas()
                held = [library for library, _ in self.before]
                self.before += _limit([library for library in shared if library not in held])
                self.count += 1
            self.mine.before = _limit(own)
        self.mine.depth = depth + 1  # last: an interruption above leaves no hold

    def __exit__(self, *_: object) -> None:
        self.mine.depth -= 1
        if self.mine.depth:
            return
        _restore(self.mine.before)
        with self.lock:
            self.count -= 1
            if self.count == 0:
                _restore(self.before)
                self.before = []


def _limit(libraries: list[Any]) -> list[tuple[Any, int]]:
    """Limit each to one thread; what they had before."""
    before = [(library, library.num_threads) for library in libraries]
    for library in libraries:
        _set(library, 1)
    return before


def _restore(before: list[tuple[Any, int]]) -> None:
    for library, threads in before:
        _set(library, threads)


_hold = _Hold()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, for work that is already parallel."""
    with _hold:
        yield


# A forked child inherits the pool but none of its threads, and none of those that hold BLAS.
def _after_fork() -> None:
    _pool.cache_clear()
    if _hold.count:
        _restore([*_hold.before, *getattr(_hold.mine, "before", [])])
    _hold.__init__()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def row_blocks(n: int, row_elements: int, elements: int = BLOCK_ELEMENTS) -> list[slice]:
    """Slices that cover ``range(n)``, each of about ``elements`` numbers."""
    rows = max(1, elements // max(1, row_elements))
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]


def run_blocks(work: Callable[[slice], T], blocks: list[slice]) -> list[T]:
    """``work`` of every block, in their order; in threads when there is more than one block and one core."""
    pool, cores = _pool()
    if len(blocks) == 1 or cores == 1 or getattr(_inside, "flag", False):
        return [work(block) for block in blocks]
    done: list[T | None] = [None] * len(blocks)
    left = iter(enumerate(blocks))  # whoever is free takes the next: blocks and cores need not be alike

    def share() -> None:
        for k, block in left:
            done[k] = work(block)

    with one_blas_thread():
        others = [pool.submit(alone, share) for _ in range(cores - 1)]
        try:
            alone(share)
        finally:
            # Who has not begun by now would find nothing left.
            begun = [future for future in others if not future.cancel()]
            wait(begun)
        for future in begun:
            future.result()
    return cast("list[T]", done)


def alone(work: Callable[..., T], *arguments: Any) -> T:
    """``work(*arguments)`` on this thread alone, for work that is a part of something parallel."""
    before, _inside.flag = getattr(_inside, "flag", False), True
    try:
        with one_blas_thread():
            return work(*arguments)
    finally:
        _inside.flag = before


def in_order(work: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
    """``work`` of every item, in their order, on every core; no more are under way than there are cores."""
    pool, cores = _pool()
    if cores == 1 or getattr(_inside, "flag", False):
        yield from map(work, items)
        return
    waiting: deque[Any] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(alone, work, item))
            if len(waiting) > cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
