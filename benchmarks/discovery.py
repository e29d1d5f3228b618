"""``python -m benchmarks.discovery``: causal graphs from nonlinear data, beside causal-learn's linear PC.

Random graphs of six variables; each variable is a sum of random smooth functions of its causes plus noise.
A graph counts as recovered when its edges and directions are all those that any method could find (CPDAG).
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import muhat as mh
from muhat.testing.graph import CausalGraph, cpdag_of, shd

FUNCTIONS = (np.sin, np.tanh, np.square, np.abs, lambda u: np.cos(1.5 * u), lambda u: u)


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


def linear_peer(Z: np.ndarray, alpha: float) -> np.ndarray | None:
    """causal-learn's PC with Fisher's z as an adjacency, or None where it is not installed."""
    try:
        from causallearn.search.ConstraintBased.PC import pc
    except ImportError:
        return None
    found = pc(Z, alpha, "fisherz", show_progress=False).G.graph
    # Its matrix has −1 for a tail and 1 for a head at [i, j] as seen from i.
    out = np.zeros(found.shape, dtype=bool)
    for i in range(len(found)):
        for j in range(len(found)):
            if found[i, j] != 0 and not (found[i, j] == 1 and found[j, i] == -1):
                out[i, j] = True
    return out


def main() -> int:
    """Print how often each method recovers the graph; 1 when the kernel test is not ahead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=30)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--alpha", type=float, default=0.01)
    parser.add_argument("--quick", action="store_true", help="five graphs")
    args = parser.parse_args()
    graphs = 5 if args.quick else args.graphs
    exact: dict[str, int] = {}
    distance: dict[str, float] = {}
    for seed in range(graphs):
        dag, Z = nonlinear(np.random.default_rng(seed), n=args.rows)
        truth = cpdag_of(dag)
        found: dict[str, np.ndarray | CausalGraph | None] = {
            f"muhat, {test}": mh.discover(Z, args.alpha, test) for test in ("kci", "residual", "fisher-z")
        }
        found["causal-learn, fisher-z"] = linear_peer(Z, args.alpha)
        for name, graph in found.items():
            if graph is None:
                continue
            adjacency = graph.adjacency if isinstance(graph, CausalGraph) else graph
            exact[name] = exact.get(name, 0) + bool(np.array_equal(adjacency, truth))
            distance[name] = distance.get(name, 0.0) + shd(adjacency, truth) / graphs
    print(f"{graphs} graphs of 6 variables, {args.rows} rows, level {args.alpha}")
    for name in exact:
        print(f"{name:26} recovered {exact[name]:3d}   mean structural Hamming distance {distance[name]:.2f}")
    linear = max(count for name, count in exact.items() if "fisher-z" in name)
    return int(exact["muhat, kci"] <= linear)


if __name__ == "__main__":
    sys.exit(main())
