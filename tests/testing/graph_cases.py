"""Random graphs, and answers about them by brute force."""

import itertools

import numpy as np

from muhat.testing.graph import reach


def random_dag(rng, d, density=0.5):
    order = rng.permutation(d)
    return np.triu(rng.random((d, d)) < density, 1)[np.ix_(order, order)]


def d_separated(dag, i, j, given):
    """Whether ``given`` separates i and j: in the moral graph of their ancestors."""
    up = reach(dag) | np.eye(len(dag), dtype=bool)
    keep = up[:, [i, j, *given]].any(axis=1)
    part = dag & keep & keep[:, None]
    moral = part | part.T | (part.astype(int) @ part.T > 0)
    free = np.ones(len(dag), dtype=bool)
    free[list(given)] = False
    return not reach(moral & free & free[:, None])[i, j]


def oracle(dag):
    """The p-values of a test that never errs."""
    return lambda i, j, given: float(d_separated(dag, i, j, given))


def colliders(dag):
    adjacent = dag | dag.T
    return {
        (i, k, j)
        for k in range(len(dag))
        for i, j in itertools.combinations(np.flatnonzero(dag[:, k]), 2)
        if not adjacent[i, j]
    }


def shared_arrows(dag, allowed=None):
    """The union of all DAGs with the edges and colliders of ``dag``, of arrows ``allowed`` alone."""
    edges = np.argwhere(np.triu(dag | dag.T))
    out, goal = np.zeros_like(dag), colliders(dag)
    for flips in itertools.product((False, True), repeat=len(edges)):
        other = np.zeros_like(dag)
        for (i, j), flip in zip(edges, flips, strict=True):
            other[(j, i) if flip else (i, j)] = True
        if allowed is not None and (other & ~allowed).any():
            continue
        if not reach(other).diagonal().any() and colliders(other) == goal:
            out |= other
    return out
