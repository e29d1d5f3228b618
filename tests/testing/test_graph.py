"""Causal graphs: the rules of orientation, distances, words, conversions and drawings."""

import subprocess
import sys

import numpy as np
import pytest
from graph_cases import random_dag, shared_arrows

from muhat.testing.drawing import bend, label, ring_order
from muhat.testing.graph import CausalGraph, Frequency, cpdag_of, meek, orient_colliders, reach, shd

EVIL = "$x_{<b>$"


def graph(d, arrows="", lines=""):
    """An adjacency from words such as "01 12"."""
    A = np.zeros((d, d), dtype=bool)
    for word in arrows.split():
        A[int(word[0]), int(word[1])] = True
    for word in lines.split():
        A[int(word[0]), int(word[1])] = A[int(word[1]), int(word[0])] = True
    return A


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(graph(3, "01", "12"), graph(3, "01 12"), id="R1"),
        pytest.param(graph(3, "01 12", "02"), graph(3, "01 12 02"), id="R2"),
        pytest.param(graph(4, "13 23", "01 02 03"), graph(4, "13 23 03", "01 02"), id="R3"),
        pytest.param(graph(4, "23 31", "01 02 03"), graph(4, "23 31 01", "02 03"), id="R4"),
        pytest.param(graph(3, "01", "12 02"), graph(3, "01", "12 02"), id="shielded: no R1"),
        pytest.param(
            graph(4, "13 23", "01 02 03 12"), graph(4, "13 23", "01 02 03 12"), id="shielded: no R3"
        ),
        pytest.param(
            graph(4, "23 31", "01 02 03 12"), graph(4, "23 31 21", "01 02 03"), id="shielded: no R4"
        ),
        pytest.param(graph(3, "", "01 12"), graph(3, "", "01 12"), id="nothing known"),
    ],
)
def test_each_rule_of_meek(before, after):
    result, torn = meek(before)
    np.testing.assert_array_equal(result, after)
    assert not torn.any()


def test_nothing_follows_from_undecided_triples():
    np.testing.assert_array_equal(meek(graph(3, "01", "12"), unsure=[(2, 1, 0)])[0], graph(3, "01", "12"))


def test_rules_that_contradict_each_other_leave_the_edge():
    before = graph(4, "01 32", "12")
    after, torn = meek(before)
    np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(torn, graph(4, "", "12"))


def test_rules_draw_no_forbidden_arrow():
    allowed = ~graph(3, "12")
    np.testing.assert_array_equal(meek(graph(3, "01", "12"), allowed)[0], graph(3, "01", "12"))


def test_rules_close_no_cycle():
    # Three arrows from outside ask for 0 → 1 → 2 → 0.
    before = graph(6, "30 41 52", "01 12 20")
    after, torn = meek(before)
    np.testing.assert_array_equal(after, before)
    assert torn[0, 1]
    assert torn[1, 2]
    assert torn[2, 0]


def test_strong_colliders_go_first_and_equal_ones_yield():
    path = graph(4, "", "01 12 23")
    after, refused = orient_colliders(path, [(0.1, (0, 1, 2)), (0.9, (1, 2, 3))])
    np.testing.assert_array_equal(after, graph(4, "12 32", "01"))
    assert refused == [(0, 1, 2)]
    after, refused = orient_colliders(path, [(0.5, (0, 1, 2)), (0.5, (1, 2, 3))])
    np.testing.assert_array_equal(after, path)
    assert sorted(refused) == [(0, 1, 2), (1, 2, 3)]


def test_colliders_close_no_cycle():
    ring = graph(6, "", "01 12 20 31 42 50")
    claims = [(0.9, (0, 1, 3)), (0.8, (1, 2, 4)), (0.7, (2, 0, 5))]
    after, refused = orient_colliders(ring, claims)
    np.testing.assert_array_equal(after, graph(6, "01 31 12 42", "20 50"))
    assert refused == [(2, 0, 5)]


def test_cpdag_equals_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(150):
        dag = random_dag(rng, int(rng.integers(2, 6)), rng.uniform(0.2, 0.9))
        np.testing.assert_array_equal(cpdag_of(dag), shared_arrows(dag))


@pytest.mark.slow
def test_rules_with_knowledge_equal_brute_force():
    """Meek's four rules find all that follows from arrows known beforehand [ME95, Thm 4]."""
    rng = np.random.default_rng(1)
    drawn = 0
    for _ in range(150):
        dag = random_dag(rng, 5, rng.uniform(0.5, 0.95))
        known = dag & (rng.random(dag.shape) < 0.25)
        result, torn = meek(cpdag_of(dag) & ~known.T)
        np.testing.assert_array_equal(result, shared_arrows(dag, allowed=~known.T))
        assert not torn.any()
        drawn += shd(result, cpdag_of(dag))
    assert drawn > 50


def test_reach_is_paths():
    A = graph(4, "01 12 23")
    np.testing.assert_array_equal(reach(A), np.triu(np.ones((4, 4), dtype=bool), 1))


def test_distance():
    assert shd(graph(3, "01 12"), graph(3, "01 12")) == 0
    assert shd(graph(3, "01 12"), graph(3, "10", "12")) == 2
    assert shd(graph(3, "01"), graph(3, "", "12")) == 2
    a = CausalGraph(("x", "y", "z"), graph(3, "01 12"))
    b = CausalGraph(("z", "y", "x"), graph(3, "21 10"))
    assert shd(a, b) == 0
    assert shd(a, CausalGraph(("z", "y", "x"), graph(3, "01 12"))) == 2


@pytest.fixture
def example():
    names = ("temp", "ozone", "a", "b", EVIL)
    return CausalGraph(
        names, graph(5, "01 21", "23 03"), conflicts=(("b", "temp"),), pvalues={("temp", "ozone"): 0.01}
    )


def all_frequencies(g):
    return {(a, b): Frequency(0.8, 0.25) for a in g.names for b in g.names if a != b}


def test_edges_and_words(example):
    assert example.directed == [("temp", "ozone"), ("a", "ozone")]
    assert example.undirected == [("temp", "b"), ("a", "b")]
    assert str(example).splitlines() == [
        "5 variables, 4 edges: 2 with a direction, 2 without",
        "  temp → ozone",
        "  a → ozone",
        "  temp — b (direction contradictory)",
        "  a — b (direction not determined)",
        f"  without an edge: {EVIL}",
    ]
    words = example.with_frequencies(all_frequencies(example)).summary()
    assert "temp → ozone; an edge in 80% of the resamples, in this direction in 25%" in words
    assert example.frequencies is None


def test_a_result_cannot_be_changed(example):
    with pytest.raises(ValueError, match="read-only"):
        example.adjacency[0, 0] = True
    with pytest.raises(AttributeError):
        example.names = ()


def test_networkx(example):
    networkx = pytest.importorskip("networkx")
    out = example.with_frequencies(all_frequencies(example)).to_networkx()
    assert isinstance(out, networkx.DiGraph)
    assert set(out.nodes) == set(example.names)
    assert out.edges["temp", "ozone"] == {
        "directed": True,
        "pvalue": 0.01,
        "adjacent_frequency": 0.8,
        "directed_frequency": 0.25,
    }
    assert not out.has_edge("ozone", "temp")
    assert not out.edges["a", "b"]["directed"]
    assert not out.edges["b", "a"]["directed"]
    assert out.number_of_edges() == 6


def test_without_networkx_the_error_says_what_to_do(example, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match="pip install networkx"):
        example.to_networkx()


def test_drawing(example):
    figure = example.plot()
    ax = figure.axes[0]
    assert [text.get_text() for text in ax.texts] == ["temp", "ozone", "a", "b", EVIL]
    heads = sorted(type(patch.get_arrowstyle()).__name__ for patch in ax.patches)
    assert heads == ["Curve", "Curve", "CurveFilledB", "CurveFilledB"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert set(legend) == {"cause → effect", "direction contradictory", "direction not determined"}
    figure.canvas.draw()
    figure = example.with_frequencies(all_frequencies(example)).plot()
    assert [t.get_text() for t in figure.axes[0].texts].count("80%") == 4
    figure.canvas.draw()
    CausalGraph(("a", "b"), graph(2)).plot().canvas.draw()


@pytest.mark.slow
def test_drawing_leaves_pyplot_alone():
    code = (
        "import sys, muhat.testing.graph as g\n"
        "assert not {'matplotlib', 'networkx', 'jax'} & set(sys.modules)\n"
        "g.CausalGraph(('a', 'b'), [[0, 1], [0, 0]]).plot()\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_layout_has_no_needless_crossing_and_causes_above():
    rng = np.random.default_rng(0)
    ring = np.roll(np.eye(8, dtype=bool), 1, axis=1)
    mixed = rng.permutation(8)
    order = np.array(ring_order((ring | ring.T)[np.ix_(mixed, mixed)]))
    steps = np.abs(np.diff(mixed[[*order, order[0]]]))
    assert set(steps) <= {1, 7}
    order = ring_order(graph(3, "20 21"))
    assert order[0] == 2  # at the top


def test_long_edges_bow_to_the_centre():
    places = [np.array([np.sin(a), np.cos(a)]) for a in 2 * np.pi * np.arange(8) / 8]
    assert bend(places[0], places[1], 8) == 0
    assert abs(bend(places[0], places[4], 8)) < 1e-9
    rad, (x, y) = bend(places[0], places[2], 8), places[2] - places[0]
    control = (places[0] + places[2]) / 2 + rad * np.array([y, -x])
    assert np.hypot(*control) < np.hypot(*(places[0] + places[2])) / 2 - 0.1
    assert bend(places[2], places[0], 8) == pytest.approx(-rad)


def test_labels_are_short():
    assert label("ozone") == "ozone"
    assert label("wind_speed_at_noon_kmh") == "wind_speed_\nat_noon_kmh"
    text = label("a very long name that goes on and on without an end in sight")
    assert text.count("\n") == 2
    assert max(map(len, text.split("\n"))) <= 14
    assert text.endswith("…")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cpdag_of(graph(2, "", "01")), "directed cycle"),
        (lambda: cpdag_of(np.diag([0, 1])), "variable 1 to itself"),
        (lambda: cpdag_of(np.zeros((2, 3))), r"square matrix.*\(2, 3\)"),
        (lambda: cpdag_of([[0, 2], [0, 0]]), "0 and 1 alone"),
        (lambda: shd(graph(2), graph(3)), "a has 2 variables and b has 3"),
        (lambda: shd(CausalGraph("ab", graph(2)), CausalGraph("ac", graph(2))), "only one has b, c"),
        (lambda: CausalGraph(("a", "a"), graph(2)), "2 different names"),
        (lambda: CausalGraph(("a",), graph(2)), "2 different names"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
