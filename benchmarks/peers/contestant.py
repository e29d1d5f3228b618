"""What a job and those who do it have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.packages import peer


def number(found: Any) -> float | None:
    """The answer where ``run`` gives it as it is."""
    return found


@dataclass(frozen=True)
class Contestant:
    """One way to do a job.

    ``run`` is timed. ``score`` makes the answer of what it returned, a number, and is not timed; so that a
    fast answer can be seen to be an answer. ``prepare`` is not timed either: imports, and the compilation of
    a yardstick. ``share``: the part of the permutations that ``run`` does when all would take minutes; its
    time is divided by it, and its first call, with what it compiles, is not counted. ``once``: too slow to
    repeat, only one call is timed.
    """

    run: Callable[[], Any]
    prepare: Callable[[], object] = bool
    share: float = 1.0
    once: bool = False
    score: Callable[[Any], float | None] = number


@dataclass(frozen=True)
class Workload:
    """A job at several sizes.

    Attributes:
        job: what is done, for people.
        contestants: of a size, by name; "ours" among them.
        sizes: of the sample.
        answer: what the number of each contestant is; the smaller, the better, unless it is a p-value.
        rounds: of warm calls, at most.
    """

    job: str
    contestants: Callable[[int], dict[str, Contestant]]
    sizes: tuple[int, ...]
    answer: str = "p-value"
    rounds: int = 3


def needs(*modules: str) -> Callable[[], object]:
    """Imports these, or says how to get them."""
    return lambda: [peer(module) for module in modules]
