"""``python -m benchmarks.discovery``: causal graphs from nonlinear data, muhat's and causal-learn's.

Random graphs; each variable is a sum of random smooth functions of its causes plus noise. An edge is wrong if
it joins what the graph does not join, and missed if it is not found; directions count in the structural
Hamming distance to all that any method could find (CPDAG). A line of the file is a graph by a method. A run
that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import muhat as mh
from benchmarks.lines import append, names, read
from benchmarks.peers.packages import peer
from muhat.testing.graph import cpdag_of, shd

FUNCTIONS = (np.sin, np.tanh, np.square, np.abs, lambda u: np.cos(1.5 * u), lambda u: u)
OUT = Path(__file__).parent / "results" / "discovery.csv"


def nonlinear(rng: np.random.Generator, d: int = 6, n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """The adjacency of a random graph (d, d) with about d edges, and n rows of data from it."""
    dag = np.triu(rng.random((d, d)) < 2 / (d - 1), 1)
    Z = np.empty((n, d))
    for j in range(d):
        Z[:, j] = rng.uniform(0.5, 0.8) * rng.standard_normal(n)
        for i in np.nonzero(dag[:, j])[0]:
            effect = FUNCTIONS[rng.integers(len(FUNCTIONS))](rng.uniform(1, 2) * Z[:, i])
            Z[:, j] += (effect - effect.mean()) / effect.std()
        Z[:, j] /= Z[:, j].std()
    order = rng.permutation(d)  # the order of columns must not give the graph away
    return dag[np.ix_(order, order)], Z[:, order]


def ours(test: str) -> Callable[[np.ndarray, float], np.ndarray]:
    """muhat's PC with a test that is not its default, as an adjacency."""
    return lambda Z, alpha: mh.discover(Z, alpha, test).adjacency


def causal_learn(test: str) -> Callable[[np.ndarray, float], np.ndarray]:
    """causal-learn's PC as an adjacency."""

    def search(Z: np.ndarray, alpha: float) -> np.ndarray:
        pc = peer("causallearn.search.ConstraintBased.PC").pc
        return arrows(pc(Z, alpha, test, show_progress=False).G.graph)

    return search


def arrows(ends: np.ndarray) -> np.ndarray:
    """causal-learn's matrix as an adjacency: i → j is −1 at [i, j] and 1 at [j, i] there."""
    return (ends != 0) & ~((ends == 1) & (ends.T == -1))


METHODS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "ours": lambda Z, alpha: mh.discover(Z, alpha).adjacency,
    "ours-residual": ours("residual"),
    "ours-fisher-z": ours("fisher-z"),
    "kci": causal_learn("kci"),
    "rcit": causal_learn("rcit"),
    "fisher-z": causal_learn("fisherz"),
}


@dataclass(frozen=True)
class Found:
    """What a method found of one graph.

    Attributes:
        edges: of the true graph; ``right`` were found and ``missed`` not; ``wrong`` are not edges of it.
        distance: structural Hamming distance to the CPDAG.
    """

    variables: int
    rows: int
    alpha: float
    graph: int
    method: str
    edges: int
    right: int
    wrong: int
    missed: int
    distance: int
    seconds: float

    @property
    def key(self) -> tuple[int, int, float, int, str]:
        return self.variables, self.rows, self.alpha, self.graph, self.method


def compare(adjacency: np.ndarray, dag: np.ndarray) -> dict[str, int]:
    """Edges, right, wrong and missed, and the distance."""
    there, found = (np.triu(A | A.T, 1) for A in (dag.astype(bool), np.asarray(adjacency, dtype=bool)))
    return {
        "edges": int(there.sum()),
        "right": int((there & found).sum()),
        "wrong": int((found & ~there).sum()),
        "missed": int((there & ~found).sum()),
        "distance": int(shd(adjacency, cpdag_of(dag))),
    }


def search(variables: int, rows: int, alpha: float, graph: int, method: str) -> Found:
    """One graph by one method."""
    dag, Z = nonlinear(np.random.default_rng(graph), variables, rows)
    start = time.perf_counter()
    adjacency = METHODS[method](Z, alpha)
    seconds = round(time.perf_counter() - start, 3)
    return Found(variables, rows, alpha, graph, method, **compare(adjacency, dag), seconds=seconds)


def summary(lines: Sequence[Found], method: str) -> str:
    """What a method found, over all graphs."""
    edges, right, wrong = (sum(getattr(f, name) for f in lines) for name in ("edges", "right", "wrong"))
    precision = right / (right + wrong) if right + wrong else float("nan")
    recall = right / edges if edges else float("nan")
    return (
        f"{method:14} wrong edges {wrong / len(lines):.2f}, missed {(edges - right) / len(lines):.2f}, "
        f"recall {recall:.2f}, precision {precision:.2f}, distance {distance(lines):.2f}, "
        f"{np.mean([f.seconds for f in lines]):.1f} s"
    )


def distance(lines: Sequence[Found]) -> float:
    """Mean structural Hamming distance."""
    return float(np.mean([f.distance for f in lines]))


def main(argv: Sequence[str] | None = None) -> int:
    """Search what is not yet in the file and sum up; 1 when another method comes nearer than ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variables", type=int, default=8)
    parser.add_argument("--graphs", type=int, default=50)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--alpha", type=float, default=0.05, help="level of each test")
    parser.add_argument("--methods", default="ours,kci", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="two graphs of four variables")
    args = parser.parse_args(argv)
    variables, graphs = (4, 2) if args.quick else (args.variables, args.graphs)
    methods = names(args.methods, list(METHODS), "--methods")
    there = {found.key: found for found in read(args.out, Found)}
    table: dict[str, list[Found]] = {method: [] for method in methods}
    for graph in range(graphs):
        for method in methods:
            found = there.get((variables, args.rows, args.alpha, graph, method))
            if found is None:
                found = search(variables, args.rows, args.alpha, graph, method)
                append(args.out, found)
            table[method].append(found)
    print(f"{graphs} graphs of {variables} variables, {args.rows} rows, level {args.alpha:g}")
    for method, lines in table.items():
        print(summary(lines, method))
    others = [distance(lines) for method, lines in table.items() if not method.startswith("ours")]
    return int("ours" in table and any(other < distance(table["ours"]) for other in others))


if __name__ == "__main__":
    sys.exit(main())
