"""The PC algorithm: exact with tests that never err, steady with tests that do, true to what is known."""

import itertools

import numpy as np
import pytest
from graph_cases import oracle, random_dag, shared_arrows
from scipy.stats import norm

from muhat.testing.graph import CausalGraph, cpdag_of, determined, reach
from muhat.testing.pc import CachedTest, Knowledge, bootstrap_frequencies, find_colliders, pc, skeleton


def noisy(d, seed):
    """p-values without rhyme or reason, the same whatever the variables are called."""
    rng = np.random.default_rng(seed)
    table = {}
    for size in range(d - 1):
        for i, j in itertools.combinations(range(d), 2):
            for given in itertools.combinations([k for k in range(d) if k not in (i, j)], size):
                table[frozenset((i, j)), frozenset(given)] = rng.random() ** 20  # some edges stay
    return lambda i, j, given: table[frozenset((i, j)), frozenset(given)]


def fisher_z(X):
    """The test of zero partial correlation of Gaussian variables."""
    C = np.corrcoef(X.T)

    def pvalue(i, j, given):
        P = np.linalg.inv(C[np.ix_([i, j, *given], [i, j, *given])])
        r = -P[0, 1] / np.sqrt(P[0, 0] * P[1, 1])
        return 2 * norm.sf(abs(np.arctanh(r)) * np.sqrt(len(X) - len(given) - 3))

    return pvalue


def linear_data(dag, n, rng):
    weights = dag * rng.uniform(0.5, 1.5, dag.shape) * rng.choice([-1, 1], dag.shape)
    return rng.standard_normal((n, len(dag))) @ np.linalg.inv(np.eye(len(dag)) - weights)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 4, 5, 6, 7])
def test_with_an_oracle_the_cpdag_is_exact(d):
    rng = np.random.default_rng(d)
    for _ in range(60):
        dag = random_dag(rng, d, rng.uniform(0.1, 0.7))
        found = pc(range(d), oracle(dag))
        np.testing.assert_array_equal(found.adjacency, cpdag_of(dag))
        assert found.conflicts == ()
        for (i, j), given in found.separating_sets.items():
            assert oracle(dag)(i, j, given) == 1
        assert len(found.separating_sets) == d * (d - 1) // 2 - dag.sum()


@pytest.mark.slow
def test_with_an_oracle_and_arrows_known_all_that_follows_is_found():
    rng = np.random.default_rng(0)
    for _ in range(100):
        dag = random_dag(rng, 5, rng.uniform(0.3, 0.9))
        required = dag & (rng.random(dag.shape) < 0.2)
        forbidden = ~dag & ~np.eye(5, dtype=bool) & (rng.random(dag.shape) < 0.15)
        knowledge = Knowledge(
            forbidden=np.argwhere(forbidden).tolist(), required=np.argwhere(required).tolist()
        )
        found = pc(range(5), oracle(dag), knowledge=knowledge)
        allowed = ~(forbidden | required.T)
        np.testing.assert_array_equal(found.adjacency, shared_arrows(dag, allowed))
        assert found.conflicts == ()


@pytest.mark.slow
def test_with_an_oracle_and_tiers_all_that_follows_is_found():
    rng = np.random.default_rng(0)
    for _ in range(100):
        dag = random_dag(rng, 6, rng.uniform(0.2, 0.6))
        order = np.argsort(reach(dag).sum(axis=0))  # fewest ancestors first
        rank = np.full(6, -1)
        rank[order] = [0, 0, 1, 1, 2, -1]  # the last is in no tier
        tiers = [np.flatnonzero(rank == t).tolist() for t in range(3)]
        asked = []

        def recorded(i, j, given, dag=dag, asked=asked):
            asked.append((i, j, given))
            return oracle(dag)(i, j, given)

        found = pc(range(6), recorded, knowledge=Knowledge(tiers=tiers))
        late = (rank[:, None] > rank) & (rank >= 0)
        np.testing.assert_array_equal(found.adjacency, shared_arrows(dag, ~late))
        for i, j, given in asked:
            if min(rank[i], rank[j]) >= 0:
                assert all(rank[k] <= max(rank[i], rank[j]) for k in given)


@pytest.mark.parametrize("seed", range(30))
def test_the_order_of_columns_does_not_matter(seed):
    d = 6
    pvalue, order = noisy(d, seed), np.random.default_rng(seed).permutation(d)
    knowledge = Knowledge(required=[(0, 1)], forbidden=[(2, 3)], tiers=[[4], [5]]) if seed % 2 else None
    one = pc(range(d), pvalue, alpha=0.3, knowledge=knowledge)
    two = pc(
        order.tolist(),
        lambda i, j, given: pvalue(order[i], order[j], [order[k] for k in given]),
        alpha=0.3,
        knowledge=knowledge,
    )
    assert 0 < one.adjacency.sum() < d * (d - 1)
    np.testing.assert_array_equal(two.adjacency, one.adjacency[np.ix_(order, order)])
    assert set(two.conflicts) == set(one.conflicts)
    assert two.tests == one.tests
    for pair in one.pvalues:
        assert two.pvalues[pair] == one.pvalues[pair]
    for pair in one.separating_sets:
        assert set(two.separating_sets[pair]) == set(one.separating_sets[pair])


@pytest.mark.parametrize("seed", range(60))
def test_whatever_the_tests_say_there_is_no_cycle_and_knowledge_holds(seed):
    d, rng = 6, np.random.default_rng(seed)
    required = random_dag(rng, d, 0.15)
    forbidden = (rng.random((d, d)) < 0.3) & ~required & ~np.eye(d, dtype=bool)
    knowledge = Knowledge(forbidden=np.argwhere(forbidden).tolist(), required=np.argwhere(required).tolist())
    found = pc(range(d), noisy(d, seed), alpha=0.3, knowledge=knowledge)
    arrows = determined(found.adjacency)
    assert not reach(arrows).diagonal().any()
    assert not (arrows & forbidden).any()
    assert (arrows & required == required).all()
    assert not ((found.adjacency | found.adjacency.T) & forbidden & forbidden.T).any()


def test_contradictory_colliders_are_reported():
    # 0 — 1 — 2 — 3: both inner variables look like colliders, with equal evidence.
    def pvalue(i, j, given):
        near = abs(i - j) == 1
        return 0.0 if near or given else 0.6

    found = pc("abcd", pvalue)
    assert found.undirected == [("a", "b"), ("b", "c"), ("c", "d")]
    assert ("b", "c") in found.conflicts
    assert ("c", "b") in found.conflicts
    assert "direction contradictory" in str(found)
    # The stronger evidence wins.
    found = pc("abcd", lambda i, j, given: pvalue(i, j, given) * (1.5 if (i, j) == (0, 2) else 1))
    assert found.directed == [("a", "b"), ("c", "b")]
    assert ("b", "c") in found.conflicts


def test_a_refused_collider_is_no_evidence_of_the_opposite():
    # 0 — 1 — 2 — 3 and 4 — 1: 0 → 1 ← 4 is clear; equal claims for 2 → 1 and 1 → 2 contradict each other.
    edges = {(0, 1), (1, 2), (2, 3), (1, 4)}

    def pvalue(i, j, given):
        if (i, j) in edges or given:
            return 0.0
        return 0.9 if (i, j) == (0, 4) else 0.6

    found = pc(range(5), pvalue)
    assert found.directed == [(0, 1), (4, 1)]
    assert found.undirected == [(1, 2), (2, 3)]


def test_the_largest_pvalue_decides_about_a_collider():
    """A weak chain: independent at sight, but clearer so given the middle."""
    adjacent = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    values = {(): 0.2, (1,): 0.7}
    assert find_colliders(adjacent, lambda i, j, given: values[given]) == ([], [])
    values = {(): 0.75, (1,): 0.25}
    assert find_colliders(adjacent, lambda i, j, given: values[given]) == ([(0.5, (0, 1, 2))], [])
    values = {(): 0.7, (1,): 0.7}
    assert find_colliders(adjacent, lambda i, j, given: values[given]) == ([], [(0, 1, 2)])


def test_forbidden_arrows_that_force_a_cycle_leave_the_edges_and_say_so():
    knowledge = Knowledge(forbidden=[("b", "a"), ("c", "b"), ("a", "c")])
    found = pc("abc", lambda i, j, given: 0.0, knowledge=knowledge)
    assert found.directed == []
    assert set(found.conflicts) == {("a", "b"), ("b", "c"), ("c", "a")}


def test_skeleton_tests_what_it_must():
    dag = np.zeros((5, 5), dtype=bool)
    dag[0, 1] = dag[1, 2] = dag[2, 3] = True
    calls, steps = [], []

    def pvalue(i, j, given):
        assert i < j
        assert given == tuple(sorted(given))
        calls.append((i, j, given))
        return oracle(dag)(i, j, given)

    found = skeleton(5, pvalue, 0.05, progress=lambda *step: steps.append(step))
    assert len(calls) == len(set(calls))
    assert found.separating[0, 4] == ()
    assert found.separating[1, 3] == (2,)
    assert found.pvalues[0, 1] == 0
    assert found.pvalues[0, 2] == 1
    assert np.isnan(found.pvalues[0, 0])
    assert steps[0] == (0, 1, 10)
    assert steps[9] == (0, 10, 10)
    assert steps[10] == (1, 1, 6)
    found = skeleton(5, pvalue, 0.05, max_conditioning=0)
    assert found.adjacent.sum() == 12  # 0 to 3 all adjacent


def test_an_edge_that_stays_carries_its_largest_pvalue():
    found = pc("abc", lambda i, j, given: 0.01 if given else 0.04)
    assert found.pvalues["a", "b"] == 0.04
    assert len(found.separating_sets) == 0


def test_effects_of_effects_are_no_causes():
    allowed = Knowledge(required=[("a", "b"), ("b", "c")]).constraints("abc").allowed
    np.testing.assert_array_equal(allowed[~np.eye(3, dtype=bool)], [True, True, False, True, False, False])


def test_known_pairs_are_not_tested():
    calls = []

    def pvalue(i, j, given):
        calls.append((i, j))
        return 1.0

    knowledge = Knowledge(forbidden=[("a", "b"), ("b", "a")], required=[("c", "b")])
    found = pc("abc", pvalue, knowledge=knowledge)
    assert set(calls) == {(0, 2)}
    assert found.directed == [("c", "b")]
    assert ("b", "a") not in found.pvalues
    assert found.pvalues["c", "a"] == 1


def test_linear_data():
    rng = np.random.default_rng(0)
    dag = np.zeros((4, 4), dtype=bool)
    dag[0, 2] = dag[1, 2] = dag[2, 3] = True
    found = pc("abcd", fisher_z(linear_data(dag, 2000, rng)), alpha=0.01)
    assert found.directed == [("a", "c"), ("b", "c"), ("c", "d")]
    assert found.alpha == 0.01
    assert found.pvalues["a", "c"] < 1e-6


def test_frequencies():
    rng = np.random.default_rng(0)
    dag = np.zeros((4, 4), dtype=bool)
    dag[0, 2] = dag[1, 2] = True
    X = linear_data(dag, 400, rng)
    sizes = []

    def once(rows):
        sizes.append((len(rows), len(np.unique(rows))))
        return pc("abcd", fisher_z(X[rows]), alpha=0.05)

    found = bootstrap_frequencies(once, 400, 60, np.random.default_rng(1))
    assert set(sizes) == {(200, 200)}
    assert found["a", "c"].adjacent > 0.95
    assert found["a", "c"].directed > 0.7 > 0.1 > found["c", "a"].directed
    assert found["c", "a"].adjacent == found["a", "c"].adjacent
    assert found["a", "d"].adjacent < 0.3
    assert found == bootstrap_frequencies(once, 400, 60, np.random.default_rng(1))
    drawn = once(np.arange(400)).with_frequencies(found)
    assert drawn.frequencies is not None
    assert drawn.frequencies["a", "c"] == found["a", "c"]
    sizes.clear()
    said = []
    bootstrap_frequencies(once, 400, 2, np.random.default_rng(1), 1.0, True, lambda *done: said.append(done))
    assert sizes[0][0] == 400 > sizes[0][1]
    assert said == [(1, 2), (2, 2)]


@pytest.mark.slow
def test_repeated_rows_are_taken_for_dependence():
    """Why resamples are drawn without replacement: independent columns, level 0.05."""
    rng = np.random.default_rng(0)

    def rate(**kwargs):
        out = []
        for _ in range(40):
            X = rng.standard_normal((100, 2))
            f = bootstrap_frequencies(lambda rows, X=X: pc("ab", fisher_z(X[rows])), 100, 20, rng, **kwargs)
            out.append(f["a", "b"].adjacent)
        return np.mean(out)

    assert rate() < 0.09 < 0.12 < rate(share=1.0, replace=True)


def graphs_over(*names):
    results = iter([CausalGraph(n, np.zeros((2, 2))) for n in names])
    return lambda rows: next(results)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pc("a", oracle(np.zeros((1, 1)))), "two or more different names"),
        (lambda: pc("aa", oracle(np.zeros((2, 2)))), "two or more different names"),
        (lambda: pc("ab", lambda i, j, s: 0.5, alpha=0), "alpha must be positive"),
        (lambda: pc("ab", lambda i, j, s: 0.5, alpha=1.0), "alpha must be below 1, got 1.0"),
        (lambda: pc("ab", lambda i, j, s: 0.5, max_conditioning=-1), "max_conditioning must be at least 0"),
        (lambda: pc("ab", lambda i, j, s: np.nan), "'a' and 'b' given nothing returned the p-value nan"),
        (lambda: CachedTest(lambda i, j, s: 1.5)(0, 1, (2,)), "column 0 and column 1 given column 2.*1.5"),
        (lambda: bootstrap_frequencies(graphs_over(), 10, 0, np.random.default_rng()), "repetitions"),
        (lambda: bootstrap_frequencies(graphs_over(), 10, 1, np.random.default_rng(), share=1.5), "is 15"),
        (lambda: bootstrap_frequencies(graphs_over(), 10, 1, np.random.default_rng(), share=0.1), "is 1:"),
        (
            lambda: bootstrap_frequencies(graphs_over("ab", "ac"), 10, 2, np.random.default_rng()),
            "must keep the variables",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("knowledge", "error", "message"),
    [
        (
            Knowledge(required=[("a", "x")]),
            ValueError,
            "required names 'x', which is no column.*'a', 'b', 'c'",
        ),
        (Knowledge(tiers=[["a"], ["y"]]), ValueError, "tiers names 'y'"),
        (Knowledge(forbidden=[(["a"], "b")]), ValueError, r"forbidden names \['a'\]"),
        (Knowledge(forbidden=[("a", "a")]), ValueError, "from 'a' to itself"),
        (Knowledge(forbidden=["ab"]), ValueError, r"pairs \(cause, effect\), but has 'ab'"),
        (Knowledge(forbidden=[("a", "b", "c")]), ValueError, "pairs"),
        (Knowledge(forbidden="ab"), TypeError, "list of pairs"),
        (Knowledge(tiers=["ab"]), TypeError, "list of lists"),
        (Knowledge(tiers="ab"), TypeError, "list of lists"),
        (Knowledge(tiers=[["a"], ["a", "b"]]), ValueError, "'a' twice"),
        (
            Knowledge(required=[("a", "b")], forbidden=[("a", "b")]),
            ValueError,
            "contradict each other: a → b",
        ),
        (Knowledge(required=[("a", "b"), ("b", "c"), ("c", "a")]), ValueError, "cycle: a → b, b → c, c → a"),
        (Knowledge(required=[("a", "b"), ("b", "a")]), ValueError, "cycle: a → b, b → a"),
        (
            Knowledge(required=[("a", "b")], tiers=[["b"], ["a"]]),
            ValueError,
            "contradicts tiers: it leads a → b",
        ),
        (
            Knowledge(required=[("a", "c"), ("c", "b")], tiers=[["b"], ["a"]]),
            ValueError,
            "contradicts tiers: it leads a → b",
        ),
    ],
)
def test_knowledge_that_cannot_be(knowledge, error, message):
    with pytest.raises(error, match=message):
        pc("abc", lambda i, j, given: 0.0, knowledge=knowledge)
