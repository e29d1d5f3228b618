"""Causal graphs: the result of a search, the rules that orient its edges, and how it is drawn.

A graph over d variables is a boolean matrix A, (d, d): ``A[i, j]`` alone is the arrow i → j, together with
``A[j, i]`` it is the edge i — j whose direction is not determined. The rules take all they can conclude
at once, and drop conclusions that contradict each other, so that no result depends on the order of the
columns.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from muhat._words import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Name = Hashable
Pair = tuple[Name, Name]
Triple = tuple[int, int, int]


def reach(arrows: np.ndarray) -> np.ndarray:
    """Whether a path of one or more arrows leads from i to j, (d, d)."""
    out = arrows.copy()
    for k in range(len(out)):  # Warshall
        out |= np.outer(out[:, k], out[k])
    return out


def undetermined(adjacency: np.ndarray) -> np.ndarray:
    """The edges without direction, (d, d), symmetric."""
    return adjacency & adjacency.T


def determined(adjacency: np.ndarray) -> np.ndarray:
    """The arrows, (d, d)."""
    return adjacency & ~adjacency.T


def consistent(arrows: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Those of the ``new`` arrows that close no cycle.

    All arrows of a cycle (i → j with j → i is one) are dropped, for none is better than another; since
    ``arrows`` have no cycle, neither has their union with what is returned.
    """
    return new & ~reach(arrows | new).T


def unshielded_triples(adjacency: np.ndarray) -> list[Triple]:
    """All (i, k, j), i < j, with k adjacent to both and i not adjacent to j."""
    adjacent = adjacency | adjacency.T
    return [
        (int(i), k, int(j))
        for k in range(len(adjacent))
        for i, j in combinations(np.flatnonzero(adjacent[k]), 2)
        if not adjacent[i, j]
    ]


def orient_colliders(
    adjacency: np.ndarray, colliders: Sequence[tuple[float, Triple]], allowed: np.ndarray | None = None
) -> tuple[np.ndarray, list[Triple]]:
    """Draw i → k ← j for each triple, those with the strongest evidence first.

    A collider that would turn an arrow round or close a cycle is refused; so are colliders of equal
    evidence that contradict each other.

    Args:
        adjacency: the graph, (d, d).
        colliders: evidence (larger is stronger) and triple (i, k, j).
        allowed: arrows that may be drawn, (d, d).

    Returns:
        The graph, and the triples refused.
    """
    graph, refused = adjacency.copy(), []
    for evidence in sorted({score for score, _ in colliders}, reverse=True):
        group = [triple for score, triple in colliders if score == evidence]
        arrows, new = determined(graph), np.zeros_like(graph)
        for i, k, j in group:
            new[[i, j], k] = True
        fine = consistent(arrows, new) & graph
        if allowed is not None:
            fine &= allowed
        for i, k, j in group:
            if fine[i, k] and fine[j, k]:
                graph[k, [i, j]] = False
            else:
                refused.append((i, k, j))
    return graph, refused


def meek(
    adjacency: np.ndarray, allowed: np.ndarray | None = None, unsure: Sequence[Triple] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """All arrows that follow from those present, by the four rules of [ME95].

    The rules say what no DAG without a cycle and without a new collider can avoid; the fourth matters
    only when arrows come from background knowledge.

    Args:
        adjacency: the graph with its colliders, (d, d).
        allowed: arrows that may be drawn, (d, d).
        unsure: unshielded triples (i, k, j) of which it is not known that k is no collider: nothing is
            concluded from them.

    Returns:
        The graph, and the arrows that follow but contradict each other or what is allowed, (d, d).
    """
    graph, adjacent = adjacency.copy(), adjacency | adjacency.T
    chain = np.zeros((len(graph),) * 3, dtype=bool)  # [i, k, j]: unshielded, and k is no collider
    for i, k, j in set(unshielded_triples(graph)).difference(unsure, [t[::-1] for t in unsure]):
        chain[i, k, j] = chain[j, k, i] = True
    while True:
        U, D = undetermined(graph), determined(graph)
        new = (D[:, :, None] & chain).any(axis=0)  # R1: i → k — j
        new |= D @ D  # R2: i → k → j
        both = U[:, :, None] & D  # [i, k, j]: i — k → j
        new |= np.einsum("ikj,ilj,kil->ij", both, both, chain, optimize=True)  # R3: i — k → j, i — l → j
        path = np.einsum("kl,il,lj->kij", D, adjacent, D, optimize=True)  # k → l → j, l adjacent to i
        new |= (U[:, :, None] & path & chain).any(axis=0)  # R4: i — k → l → j
        new &= U
        fine = consistent(D, new)
        if allowed is not None:
            fine &= allowed
        if not fine.any():
            return graph, new
        graph &= ~fine.T


def cpdag_of(dag: Any) -> np.ndarray:
    """The arrows that all DAGs with the independences of ``dag`` share; its other edges undirected.

    Args:
        dag: ``dag[i, j]`` is the arrow i → j, (d, d).
    """
    arrows = as_adjacency(dag, "dag")
    if reach(arrows).diagonal().any():
        raise ValueError(
            "dag has a directed cycle: pass the matrix of an acyclic graph, arrows i → j at [i, j]."
        )
    triples = unshielded_triples(arrows)
    colliders = [(1.0, (i, k, j)) for i, k, j in triples if arrows[i, k] and arrows[j, k]]
    graph, _ = orient_colliders(arrows | arrows.T, colliders)
    return meek(graph)[0]


def shd(a: CausalGraph | Any, b: CausalGraph | Any) -> int:
    """Structural Hamming distance: pairs whose edge is missing, extra or directed differently.

    Args:
        a: a graph, or its adjacency matrix.
        b: another over the same variables; graphs are matched by name.
    """
    A = a.adjacency if isinstance(a, CausalGraph) else as_adjacency(a, "a")
    B = b.adjacency if isinstance(b, CausalGraph) else as_adjacency(b, "b")
    if isinstance(a, CausalGraph) and isinstance(b, CausalGraph):
        if set(a.names) != set(b.names):
            odd = sorted(map(str, set(a.names) ^ set(b.names)))
            raise ValueError(f"a and b are graphs over different variables: only one has {', '.join(odd)}.")
        order = [b.names.index(name) for name in a.names]
        B = B[np.ix_(order, order)]
    if A.shape != B.shape:
        raise ValueError(f"a has {len(A)} variables and b has {len(B)}: compare graphs over the same ones.")
    differs = A != B
    return int(np.triu(differs | differs.T).sum())


def as_adjacency(matrix: Any, name: str) -> np.ndarray:
    """``matrix`` as a boolean adjacency, (d, d), with an empty diagonal."""
    A = np.asarray(matrix)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(
            f"{name} must be a square matrix, one row and column a variable, got shape {A.shape}."
        )
    if not np.isin(A, (0, 1)).all():
        raise ValueError(f"{name} must hold 0 and 1 alone: 1 at [i, j] for i → j, both ways for i — j.")
    A = A.astype(bool)
    if A.diagonal().any():
        raise ValueError(f"{name} has an edge from variable {A.diagonal().argmax()} to itself: remove it.")
    return A


class Pairs(Mapping[Pair, Any]):
    """A value for some unordered pairs: ``pairs[a, b]`` is ``pairs[b, a]``."""

    def __init__(self, values: Mapping[Pair, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, pair: Pair) -> Any:
        a, b = pair
        return self._values[a, b] if (a, b) in self._values else self._values[b, a]

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Pairs({self._values!r})"


class Frequency(NamedTuple):
    """How often resamples have an edge between a and b, and how often as the arrow a → b."""

    adjacent: float
    directed: float


@dataclass(frozen=True, eq=False, repr=False)
class CausalGraph:
    """What the data say about who causes whom, if nothing unmeasured causes two of the variables.

    Attributes:
        names: the variables.
        adjacency: (d, d); ``[i, j]`` alone is the arrow i → j, both ways an edge without direction.
        separating_sets: for pairs without an edge, the variables given which they are least dependent.
        pvalues: for each pair tested, the largest p-value: above ``alpha`` if the edge was removed, else
            how near it came.
        conflicts: arrows (a, b) that the data or the knowledge asked for, and that were not drawn because
            others contradict them.
        doubts: edges (a, b) that a test kept which is not to be trusted, as its regressions err in the same
            places; they may be wrong. The tests ``"kci"`` and ``"stacked"`` look.
        frequencies: for each ordered pair (a, b), how often resamples have the edge and the arrow; None
            without resampling.
        alpha: the level of each test.
        tests: how many tests were made.
    """

    names: tuple[Name, ...]
    adjacency: np.ndarray
    separating_sets: Mapping[Pair, tuple[Name, ...]] = dataclasses.field(default_factory=lambda: Pairs({}))
    pvalues: Mapping[Pair, float] = dataclasses.field(default_factory=lambda: Pairs({}))
    conflicts: tuple[Pair, ...] = ()
    doubts: tuple[Pair, ...] = ()
    frequencies: Mapping[Pair, Frequency] | None = None
    alpha: float | None = None
    tests: int | None = None

    def __post_init__(self) -> None:
        A = as_adjacency(self.adjacency, "adjacency")
        A.setflags(write=False)
        names = tuple(self.names)
        if len(names) != len(A) or len(set(names)) != len(names):
            raise ValueError(
                f"names must be {len(A)} different names, one a row of adjacency, got {names!r}."
            )
        object.__setattr__(self, "adjacency", A)
        object.__setattr__(self, "names", names)

    @property
    def directed(self) -> list[Pair]:
        """The arrows (cause, effect)."""
        return self._pairs(determined(self.adjacency))

    @property
    def undirected(self) -> list[Pair]:
        """The edges whose direction is not determined."""
        return self._pairs(np.triu(undetermined(self.adjacency)))

    def _pairs(self, matrix: np.ndarray) -> list[Pair]:
        return [(self.names[i], self.names[j]) for i, j in np.argwhere(matrix)]

    def with_doubts(self, pairs: Iterable[tuple[int, int]]) -> CausalGraph:
        """The same graph with doubts about those of the pairs of columns that have an edge."""
        there = [(i, j) for i, j in sorted(pairs) if self.adjacency[i, j] or self.adjacency[j, i]]
        return dataclasses.replace(self, doubts=tuple((self.names[i], self.names[j]) for i, j in there))

    def with_frequencies(self, frequencies: Mapping[Pair, Frequency]) -> CausalGraph:
        """The same graph with the result of :func:`muhat.testing.pc.bootstrap_frequencies`."""
        return dataclasses.replace(self, frequencies=MappingProxyType(dict(frequencies)))

    def to_networkx(self) -> Any:
        """A ``networkx.DiGraph``; an edge without direction is there both ways, with ``directed=False``.

        Each edge (a, b) carries ``directed``, ``pvalue`` (if tested), and ``adjacent_frequency`` and
        ``directed_frequency`` (if resampled). Needs networkx, which muhat does not install.
        """
        try:
            networkx = importlib.import_module("networkx")
        except ImportError:
            raise ImportError(
                "to_networkx needs networkx, which is not installed: pip install networkx."
            ) from None
        out = networkx.DiGraph()
        out.add_nodes_from(self.names)
        arrows = set(self.directed)
        for pair in self._pairs(self.adjacency):
            facts: dict[str, Any] = {"directed": pair in arrows}
            if pair in self.pvalues:
                facts["pvalue"] = self.pvalues[pair]
            if self.frequencies is not None:
                adjacent, directed = self.frequencies[pair]
                facts |= {"adjacent_frequency": adjacent, "directed_frequency": directed}
            out.add_edge(*pair, **facts)
        return out

    def plot(self) -> Figure:
        """Variables on an ellipse, causes above their effects as far as possible; arrows and plain edges.

        With frequencies, the width of a line and the number on it say how often resamples have the edge.
        """
        from muhat.testing.drawing import draw_graph

        return draw_graph(self)

    def summary(self) -> str:
        """The graph in plain words, one edge a line."""
        many = len(self.directed), len(self.undirected)
        edges = "1 edge" if sum(many) == 1 else f"{sum(many)} edges"
        head = f"{len(self.names)} variables, {edges}: {many[0]} with a direction, {many[1]} without"
        if self.alpha is not None:
            tests = "1 test" if self.tests == 1 else f"{self.tests} tests"
            head += f" (level {self.alpha:g}" + (f", {tests})" if self.tests else ")")
        lines = [f"{a} → {b}{self._remark((a, b), True)}" for a, b in self.directed]
        for a, b in self.undirected:
            torn = (a, b) in self.conflicts or (b, a) in self.conflicts
            why = "direction contradictory" if torn else "direction not determined"
            lines.append(f"{a} — {b} ({why}){self._remark((a, b), False)}")
        joined = {name for pair in (*self.directed, *self.undirected) for name in pair}
        alone = [str(name) for name in self.names if name not in joined]
        if alone:
            lines.append(f"without an edge: {', '.join(alone)}")
        return "\n".join([head, *("  " + line for line in lines)])

    def _remark(self, pair: Pair, arrow: bool) -> str:
        doubt = "; in doubt, a test cannot be trusted" if {pair, pair[::-1]} & set(self.doubts) else ""
        if self.frequencies is None:
            return doubt
        adjacent, directed = self.frequencies[pair]
        this_way = f", in this direction in {percent(directed)}" if arrow else ""
        return f"{doubt}; an edge in {percent(adjacent)} of the resamples{this_way}"

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"CausalGraph(directed={self.directed!r}, undirected={self.undirected!r})"


__all__ = [
    "CausalGraph",
    "Frequency",
    "Pairs",
    "as_adjacency",
    "consistent",
    "cpdag_of",
    "determined",
    "meek",
    "orient_colliders",
    "reach",
    "shd",
    "undetermined",
    "unshielded_triples",
]
