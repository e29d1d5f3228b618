"""The PC algorithm: a causal graph from tests of conditional independence.

1. Skeleton [SGS00, §5.4.2]: all pairs start adjacent; an edge goes when its ends are independent given
   some of their neighbours, sets of growing size. Neighbours are those at the start of each size (PC-stable,
   [CM14]), and all sets of a size are tested, so that the result does not depend on the order of columns.
2. Colliders i → k ← j [RA16]: of the p-values of i and j given sets of neighbours, the largest without k is
   compared with the largest with k. Those with the greatest difference are drawn first.
3. What follows, by Meek's rules [ME95].

Given tests that do not err, and no unmeasured common cause, the result is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from muhat._validation import check_count, check_positive
from muhat.testing.graph import (
    CausalGraph,
    Frequency,
    Name,
    Pair,
    Pairs,
    Triple,
    consistent,
    determined,
    meek,
    orient_colliders,
    reach,
    unshielded_triples,
)

PValue = Callable[[int, int, tuple[int, ...]], float]
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Knowledge:
    """What is known beforehand, by column names.

    Attributes:
        forbidden: arrows (a, b) that cannot be: a does not cause b directly.
        required: arrows (a, b) that must be: a causes b directly.
        tiers: groups of columns in order of time: nothing causes a column of an earlier group. Columns in
            no group are free.
    """

    forbidden: Sequence[Pair] = ()
    required: Sequence[Pair] = ()
    tiers: Sequence[Sequence[Name]] = ()

    def constraints(self, names: Sequence[Name]) -> Constraints:
        """The same as matrices over the columns ``names``; raises where it contradicts itself."""
        index = {name: i for i, name in enumerate(names)}
        forbidden = _arrows(self.forbidden, "forbidden", index)
        required = _arrows(self.required, "required", index)
        both = forbidden & required
        if both.any():
            raise ValueError(
                f"required and forbidden contradict each other: {_written(both, names)} in both. Remove one."
            )
        ahead = reach(required)
        if ahead.diagonal().any():
            cycle = _written(required & ahead.T, names)
            raise ValueError(
                f"required has a cycle: {cycle}. A cause cannot be its own effect: remove an arrow."
            )
        against = _against(self.tiers, index)
        if (ahead & against).any():
            raise ValueError(
                f"required contradicts tiers: it leads {_written(ahead & against, names)}, from a later tier "
                "to an earlier one. Remove an arrow or move a column."
            )
        return Constraints(allowed=~(forbidden | against | ahead.T), required=required)


@dataclass(frozen=True)
class Constraints:
    """Knowledge as matrices.

    Attributes:
        allowed: whether the arrow i → j may be, (d, d).
        required: whether it must be, (d, d).
    """

    allowed: np.ndarray
    required: np.ndarray

    @classmethod
    def none(cls, d: int) -> Constraints:
        """Nothing is known about ``d`` variables."""
        return cls(np.ones((d, d), dtype=bool), np.zeros((d, d), dtype=bool))


def _arrows(pairs: Any, argument: str, index: dict[Name, int]) -> np.ndarray:
    out = np.zeros((len(index),) * 2, dtype=bool)
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise TypeError(f"{argument} must be a list of pairs (cause, effect), got {pairs!r}.")
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ValueError(f"{argument} must hold pairs (cause, effect), but has {pair!r}.")
        i, j = (_position(name, argument, index) for name in pair)
        if i == j:
            raise ValueError(f"{argument} has an arrow from {pair[0]!r} to itself: remove it.")
        out[i, j] = True
    return out


def _against(tiers: Any, index: dict[Name, int]) -> np.ndarray:
    """The arrows from a later tier to an earlier one, (d, d)."""
    rank = np.full(len(index), np.nan)
    if isinstance(tiers, str) or not isinstance(tiers, Iterable):
        raise TypeError(f"tiers must be a list of lists of column names, earliest first, got {tiers!r}.")
    for t, tier in enumerate(tiers):
        if isinstance(tier, str) or not isinstance(tier, Iterable):
            raise TypeError(
                f"tiers must be a list of lists of column names, earliest first, but has {tier!r}."
            )
        for name in tier:
            i = _position(name, "tiers", index)
            if not np.isnan(rank[i]):
                raise ValueError(f"tiers has {name!r} twice: put each column into one tier.")
            rank[i] = t
    return rank[:, None] > rank  # nothing is later than a column without a tier


def _position(name: Name, argument: str, index: dict[Name, int]) -> int:
    try:
        return index[name]
    except (KeyError, TypeError):
        known = ", ".join(map(repr, index))
        raise ValueError(f"{argument} names {name!r}, which is no column. The columns are {known}.") from None


def _written(arrows: np.ndarray, names: Sequence[Name]) -> str:
    return ", ".join(f"{names[i]} → {names[j]}" for i, j in np.argwhere(arrows))


class CachedTest:
    """Each test once, with its p-value checked; i < j and sorted sets whatever the caller writes."""

    def __init__(self, pvalue: PValue, names: Sequence[Name] | None = None) -> None:
        self.pvalue, self.names = pvalue, names
        self.known: dict[tuple[int, int, tuple[int, ...]], float] = {}

    def __call__(self, i: int, j: int, given: tuple[int, ...]) -> float:
        key = (min(i, j), max(i, j), tuple(sorted(given)))
        if key not in self.known:
            p = float(self.pvalue(*key))
            if not 0 <= p <= 1:  # NaN too
                raise ValueError(
                    f"the test of {self._named(i)} and {self._named(j)} given "
                    f"{', '.join(map(self._named, key[2])) or 'nothing'} returned the p-value {p}: it must "
                    "lie between 0 and 1. Look for constant or repeated columns, or choose another test."
                )
            self.known[key] = p
        return self.known[key]

    def _named(self, i: int) -> str:
        return f"column {i}" if self.names is None else repr(self.names[i])


@dataclass(frozen=True)
class Skeleton:
    """Which pairs are adjacent, and why.

    Attributes:
        adjacent: (d, d), symmetric.
        separating: for each removed pair i < j, the set with the largest p-value (of equal ones the first
            in column order).
        pvalues: the largest p-value of each pair, (d, d), NaN where nothing was tested.
    """

    adjacent: np.ndarray
    separating: dict[tuple[int, int], tuple[int, ...]]
    pvalues: np.ndarray


def conditioning_sets(
    adjacent: np.ndarray, i: int, j: int, size: int, knowledge: Constraints
) -> list[tuple[int, ...]]:
    """Sets of ``size`` variables among the neighbours of i, or of j, that may be its causes.

    If i and j are not adjacent, the causes of one of them separate the two: variables that knowledge
    makes effects, such as those of later tiers, are not needed.
    """
    out = set()
    for end, other in ((i, j), (j, i)):
        near = adjacent[end] & knowledge.allowed[:, end]
        out |= set(combinations([int(k) for k in np.flatnonzero(near) if k != other], size))
    return sorted(out)


def skeleton(
    d: int,
    pvalue: PValue,
    alpha: float,
    knowledge: Constraints | None = None,
    max_conditioning: int | None = None,
    progress: Progress | None = None,
) -> Skeleton:
    """The undirected graph by PC-stable [CM14, §4.1].

    Args:
        d: how many variables.
        pvalue: ``pvalue(i, j, given)`` of the hypothesis that i and j are independent given the variables
            in the sorted tuple; called with i < j, each test once.
        alpha: edges stay while all their p-values are at most this.
        knowledge: pairs with both arrows forbidden are not adjacent, pairs with a required one are; neither
            is tested.
        max_conditioning: the largest number of variables to condition on; None for no limit.
        progress: called with the size of the sets, the pairs done and the pairs to do at that size.
    """
    know = Constraints.none(d) if knowledge is None else knowledge
    test = pvalue if isinstance(pvalue, CachedTest) else CachedTest(pvalue)
    fixed = know.required | know.required.T
    adjacent = (know.allowed | know.allowed.T) & ~np.eye(d, dtype=bool)
    largest, separating = np.full((d, d), np.nan), {}
    limit = d - 2 if max_conditioning is None else min(max_conditioning, d - 2)
    for size in range(limit + 1):
        frozen, tested = adjacent.copy(), False
        pairs = [(i, j) for i, j in combinations(range(d), 2) if frozen[i, j] and not fixed[i, j]]
        for done, (i, j) in enumerate(pairs, start=1):
            if not (sets := conditioning_sets(frozen, i, j, size, know)):
                continue
            tested, values = True, [test(i, j, given) for given in sets]
            best = int(np.argmax(values))
            largest[i, j] = largest[j, i] = np.fmax(largest[i, j], values[best])
            if values[best] > alpha:
                adjacent[i, j] = adjacent[j, i] = False
                separating[i, j] = sets[best]
            if progress is not None:
                progress(size, done, len(pairs))
        if not tested:
            break
    return Skeleton(adjacent, separating, largest)


def find_colliders(
    adjacent: np.ndarray,
    pvalue: PValue,
    knowledge: Constraints | None = None,
    max_conditioning: int | None = None,
) -> tuple[list[tuple[float, Triple]], list[Triple]]:
    """The unshielded triples i — k — j in which both arrows point to k, by the largest p-value [RA16].

    Of all sets of neighbours of i or of j, the one given which they are least dependent decides: k is a
    collider if that set leaves k out. The evidence is how much the largest p-value without k exceeds the
    largest with k.

    Returns:
        Pairs of evidence and triple, and the triples that are undecided because both p-values are equal.
    """
    know = Constraints.none(len(adjacent)) if knowledge is None else knowledge
    test = pvalue if isinstance(pvalue, CachedTest) else CachedTest(pvalue)
    limit = len(adjacent) - 2 if max_conditioning is None else max_conditioning
    colliders, undecided = [], []
    for i, k, j in unshielded_triples(adjacent):
        sets = [s for size in range(limit + 1) for s in conditioning_sets(adjacent, i, j, size, know)]
        best = {
            side: max((test(i, j, s) for s in sets if (k in s) == side), default=0.0)
            for side in (True, False)
        }
        evidence = best[False] - best[True]
        if evidence > 0:
            colliders.append((evidence, (i, k, j)))
        elif evidence == 0:
            undecided.append((i, k, j))
    return colliders, undecided


def pc(
    names: Sequence[Name],
    pvalue: PValue,
    alpha: float = 0.05,
    knowledge: Knowledge | None = None,
    max_conditioning: int | None = None,
    progress: Progress | None = None,
) -> CausalGraph:
    """The causal graph of variables ``names`` by the PC algorithm.

    Args:
        names: of the variables.
        pvalue: ``pvalue(i, j, given)`` of the hypothesis that variables i and j are independent given those
            in the sorted tuple ``given``; called with i < j.
        alpha: level of each test; a larger one keeps more edges.
        knowledge: what is known beforehand.
        max_conditioning: the largest number of variables to condition on; None for no limit.
        progress: called with the size of the sets, the pairs done and the pairs to do at that size.
    """
    names = tuple(names)
    d = len(names)
    if d < 2 or len(set(names)) != d:
        raise ValueError(f"names must be two or more different names, got {names!r}.")
    check_positive(alpha, "alpha", "pass a level between 0 and 1, e.g. 0.05", scalar=True)
    if alpha >= 1:
        raise ValueError(f"alpha must be below 1, got {alpha!r}: pass a level such as 0.05.")
    if max_conditioning is not None:
        max_conditioning = check_count(max_conditioning, "max_conditioning", 0)
    know = (Knowledge() if knowledge is None else knowledge).constraints(names)
    test = CachedTest(pvalue, names)
    found = skeleton(d, test, alpha, know, max_conditioning, progress)
    graph, known = _draw_known(found.adjacent, know)
    colliders, undecided = find_colliders(found.adjacent, test, know, max_conditioning)
    graph, refused = orient_colliders(graph, colliders, know.allowed)
    # A collider that had to be refused is no evidence of the opposite either.
    graph, torn = meek(graph, know.allowed, [*undecided, *refused])
    asked = known | torn
    for i, k, j in refused:
        asked[[i, j], k] = True
    asked &= ~determined(graph)
    return CausalGraph(
        names,
        graph,
        separating_sets=Pairs(
            {(names[i], names[j]): tuple(names[k] for k in s) for (i, j), s in found.separating.items()}
        ),
        pvalues=Pairs(
            {
                (names[i], names[j]): float(found.pvalues[i, j])
                for i, j in combinations(range(d), 2)
                if not np.isnan(found.pvalues[i, j])
            }
        ),
        conflicts=tuple((names[i], names[j]) for i, j in np.argwhere(asked)),
        alpha=float(alpha),
        tests=len(test.known),
    )


def _draw_known(adjacent: np.ndarray, knowledge: Constraints) -> tuple[np.ndarray, np.ndarray]:
    """The skeleton with the arrows that knowledge leaves no choice about, and those that close a cycle.

    Forbidden arrows can force a cycle upon edges that the data keep; such edges stay undirected.
    """
    arrows = knowledge.required & adjacent
    forced = adjacent & knowledge.allowed & ~knowledge.allowed.T & ~arrows
    fine = consistent(arrows, forced)
    return adjacent & ~(arrows | fine).T, forced & ~fine


def bootstrap_frequencies(
    discover_once: Callable[[np.ndarray], CausalGraph],
    n: int,
    repetitions: int,
    rng: np.random.Generator,
    share: float = 0.5,
    replace: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[Pair, Frequency]:
    """How often graphs from resampled rows have each edge and each arrow.

    Rows are drawn without replacement by default. The classical bootstrap (``share=1, replace=True``)
    repeats rows, which tests of independence take for dependence: edges that are not there come up several
    times as often as the level of the test says.

    Args:
        discover_once: from row numbers, (m,), to a graph; always over the same variables.
        n: number of rows.
        repetitions: number of resamples.
        rng: the source of randomness.
        share: of the rows, in each resample.
        replace: draw rows with replacement.
        progress: called with the resamples done and to do.

    Returns:
        For each ordered pair of names (a, b), the :class:`Frequency` of an edge and of a → b.
    """
    repetitions = check_count(repetitions, "repetitions")
    check_positive(share, "share", "pass the share of rows in a resample, e.g. 0.5", scalar=True)
    size = round(share * n)
    if size < 2 or (size > n and not replace):
        raise ValueError(
            f"share = {share!r} of {n} rows is {size}: at least 2 are needed, and at most {n} unless "
            "replace=True."
        )
    names: tuple[Name, ...] = ()
    edges = arrows = np.zeros((0, 0))
    for done in range(repetitions):
        graph = discover_once(np.sort(rng.choice(n, size, replace=replace)))
        if done == 0:
            names = graph.names
            edges = arrows = np.zeros((len(names),) * 2)
        elif graph.names != names:
            raise ValueError(
                f"discover_once must keep the variables {names!r}, but then gave {graph.names!r}."
            )
        edges = edges + (graph.adjacency | graph.adjacency.T)
        arrows = arrows + determined(graph.adjacency)
        if progress is not None:
            progress(done + 1, repetitions)
    return {
        (a, b): Frequency(float(edges[i, j] / repetitions), float(arrows[i, j] / repetitions))
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i != j
    }


__all__ = [
    "CachedTest",
    "Constraints",
    "Knowledge",
    "Skeleton",
    "bootstrap_frequencies",
    "conditioning_sets",
    "find_colliders",
    "pc",
    "skeleton",
]
