"""Causal graphs from tables: each test, what is known, pre-whitening, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import muhat as mh
from muhat.testing.discover import _fisher_z, make_test, part, prewhitened
from muhat.testing.samples import as_sample

TESTS = ["kci", "residual", "fisher-z"]


def collider(n=300, seed=0):
    """a → c ← b, c → d: every arrow can be told."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    c = a + b + 0.4 * rng.normal(size=n)
    d = 1.2 * c + 0.6 * rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d})


def edges(graph):
    return {(str(a), str(b)) for a, b in graph.directed}, {frozenset(map(str, e)) for e in graph.undirected}


@pytest.mark.parametrize("test", TESTS)
def test_finds_the_collider(test):
    directed, undirected = edges(mh.discover(collider(), test=test))
    assert directed == {("a", "c"), ("b", "c"), ("c", "d")}
    assert undirected == set()


def test_nonlinear_relations_need_a_kernel():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 300))
    table = pd.DataFrame({"a": a, "b": b, "c": np.abs(a) + np.abs(b) + 0.2 * rng.normal(size=300)})
    for test in ("kci", "residual"):
        assert edges(mh.discover(table, test=test)) == ({("a", "c"), ("b", "c")}, set())
    assert edges(mh.discover(table, test="fisher-z"))[0] == set()


@pytest.mark.parametrize("test", TESTS)
def test_a_chain_leaves_directions_open(test):
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    b = a + 0.5 * rng.normal(size=300)
    table = pd.DataFrame({"a": a, "b": b, "c": b + 0.5 * rng.normal(size=300)})
    graph = mh.discover(table, test=test)
    assert edges(graph) == (set(), {frozenset("ab"), frozenset("bc")})
    tiers = mh.discover(table, test=test, tiers=[["a"], ["b", "c"]])
    assert edges(tiers) == ({("a", "b"), ("b", "c")}, set())


def test_knowledge():
    table = collider()
    assert ("a", "b") in edges(mh.discover(table, test="fisher-z", required=[("a", "b")]))[0]
    forbidden = edges(mh.discover(table, test="fisher-z", forbidden=[("c", "d"), ("d", "c")]))
    assert not any({"c", "d"} == set(e) for e in forbidden[0] | forbidden[1])


@pytest.mark.slow
def test_the_order_and_kind_of_table_do_not_matter():
    table = collider()
    expected = edges(mh.discover(table))
    assert edges(mh.discover(table[["d", "b", "c", "a"]])) == expected
    assert edges(mh.discover(pl.from_pandas(table))) == expected
    directed, _ = edges(mh.discover(table.to_numpy()))
    assert directed == {("x[0]", "x[2]"), ("x[1]", "x[2]"), ("x[2]", "x[3]")}


def test_the_default_test_is_that_of_the_library():
    """Cached features give what conditional_independence_test gives."""
    table = collider(150)
    encoder, Z = as_sample(table, "table", 20)
    pvalue = make_test("kci", Z, encoder, None, np.random.default_rng(0))
    found = mh.conditional_independence_test(
        table["a"], table["b"], table[["c"]], null="gamma", random_state=0
    )
    assert np.isclose(pvalue(0, 1, (2,)), found.pvalue, rtol=1e-6)
    assert pvalue(0, 1, ()) > 100 * pvalue(0, 2, ())


def test_fisher_z_is_the_partial_correlation():
    table = collider(150)
    encoder, Z = as_sample(table, "table", 20)
    pvalue = make_test("fisher-z", Z, encoder, None, np.random.default_rng(0))
    # The partial correlation of a and d given c, by residuals of least squares.
    A = np.c_[np.ones(150), Z[:, 2]]
    left = [Z[:, j] - A @ np.linalg.lstsq(A, Z[:, j])[0] for j in (0, 3)]
    r = np.corrcoef(*left)[0, 1]
    from scipy.stats import norm

    assert np.isclose(pvalue(0, 3, (2,)), 2 * norm.sf(np.sqrt(150 - 4) * abs(np.arctanh(r))), rtol=1e-8)


def test_a_test_of_ones_own():
    seen = []

    def test(x, y, z):
        seen.append((x.shape, y.shape, None if z is None else z.shape))
        return 1.0

    graph = mh.discover(collider(50), test=test)
    assert edges(graph) == (set(), set())
    assert seen == [((50, 1), (50, 1), None)] * 6
    full = mh.discover(collider(50), test=lambda x, y, z: 0.0, max_conditioning=1)
    assert len(full.directed) + len(full.undirected) == 6


def test_alpha_is_the_level_of_the_tests():
    for alpha, count in ((0.2, 0), (0.4, 6)):
        graph = mh.discover(collider(50), alpha, test=lambda x, y, z: 0.3)
        assert len(graph.directed) + len(graph.undirected) == count


def test_categories():
    rng = np.random.default_rng(0)
    c = rng.choice(["p", "q", "r"], 300)
    level = pd.Series(c).map({"p": 0.0, "q": 3.0, "r": -3.0}).to_numpy()
    table = pd.DataFrame({"c": c, "a": level + rng.normal(size=300), "b": -level + rng.normal(size=300)})
    for test in ("kci", "residual"):
        assert edges(mh.discover(table, test=test)) == (set(), {frozenset("ca"), frozenset("cb")})


def test_frequencies():
    table = collider(200)
    a, b = (mh.discover(table, test="fisher-z", bootstrap=10, random_state=s) for s in (0, 0))
    assert a.frequencies == b.frequencies
    assert a.frequencies
    assert mh.discover(table, test="fisher-z").frequencies in (None, {})


class TestPrewhitening:
    def trended(self, n=300):
        """Two columns that share nothing but time."""
        rng = np.random.default_rng(0)
        t = np.linspace(0, 1, n)
        return pd.DataFrame(
            {
                "t": t,
                "a": np.sin(6 * t) + 0.3 * rng.normal(size=n),
                "b": np.cos(3 * t) + 0.3 * rng.normal(size=n),
            }
        )

    @pytest.mark.parametrize("test", TESTS)
    def test_takes_out_time(self, test):
        table = self.trended()
        assert frozenset("ab") in edges(mh.discover(table[["a", "b"]], test=test))[1]
        for graph in (
            mh.discover(table, test=test, prewhiten="t"),
            mh.discover(table, test=test, prewhiten=["t"]),
            mh.discover(table[["a", "b"]], test=test, prewhiten=table["t"].to_numpy()),
        ):
            assert edges(graph) == (set(), set())
            assert list(map(str, graph.names)) == ["a", "b"]

    def test_leaves_residuals(self):
        table = self.trended()
        encoder, Z = as_sample(table, "table", 20)
        left_encoder, left = prewhitened(encoder, Z, "t")
        assert left_encoder.names == ["a", "b"]
        assert np.abs(left.std(axis=0) - 0.3).max() < 0.05
        assert part(encoder, [1]).categories == {}


TABLE = collider(40)


class TestBadInput:
    @pytest.mark.parametrize(
        ("table", "arguments", "error", "message"),
        [
            (
                TABLE,
                {"test": "pcmci"},
                ValueError,
                r"test must be one of 'kci', 'stacked', 'residual', 'fisher-z', got 'pcmci'",
            ),
            (TABLE, {"alpha": 0.0}, ValueError, r"alpha must be a number between 0 and 1, got 0.0"),
            (TABLE, {"alpha": 1.0}, ValueError, r"alpha must be.*got 1.0"),
            (TABLE, {"alpha": "0.05"}, ValueError, r"alpha must be.*got '0.05'"),
            (
                TABLE,
                {"prewhiten": "time"},
                ValueError,
                r"prewhiten names \['time'\], but the columns are \['a', 'b', 'c', 'd'\]",
            ),
            (TABLE, {"prewhiten": ["a", "e"]}, ValueError, r"prewhiten names \['e'\]"),
            (TABLE, {"prewhiten": np.ones((39, 1))}, ValueError, r"prewhiten has 39 rows but table has 40"),
            (TABLE, {"prewhiten": ["a", "b", "c"]}, ValueError, r"at least 2 columns"),
            (TABLE.assign(k=1.0), {}, ValueError, r"columns \['k'\] are constant.*drop them"),
            (TABLE.assign(k=3 - 2 * TABLE.b), {}, ValueError, r"'b' and 'k' say the same.*Leave one out"),
            (
                TABLE.assign(k=["u", "v"] * 20, m=["q", "p"] * 20),
                {},
                ValueError,
                r"'k' and 'm' say the same.*Leave one out",
            ),
            (
                TABLE.assign(k="text", e=["u", "v"] * 20),
                {"test": "fisher-z"},
                ValueError,
                r"constant|hold categories",
            ),
            (
                TABLE.assign(e=["u", "v"] * 20),
                {"test": "fisher-z"},
                ValueError,
                r"fisher-z.*\['e'\] hold categories: use",
            ),
            (TABLE.assign(e=["u", "v"] * 20), {"prewhiten": "a"}, ValueError, r"\['e'\] hold categories"),
            (TABLE, {"kernel": "learn"}, ValueError, r'kernel is for test="residual", got test=\'kci\''),
            (
                TABLE,
                {"test": "residual", "kernel": "gauss"},
                ValueError,
                r"kernel must be one of.*got 'gauss'",
            ),
            (TABLE[["a"]], {}, ValueError, r"at least 2 columns to connect, got \['a'\]"),
            (TABLE.head(19), {}, ValueError, r"table has 19 samples.*at least 20"),
            (TABLE.assign(a=np.nan), {}, ValueError, r"table.*NaN"),
            (TABLE, {"bootstrap": -1}, ValueError, r"bootstrap must be at least 0, got -1"),
            (TABLE, {"forbidden": [("a", "z")]}, ValueError, r"forbidden.*z"),
            (TABLE, {"required": [("z", "a")]}, ValueError, r"required.*z"),
            (TABLE, {"tiers": [["a"], ["z"]]}, ValueError, r"tiers.*z"),
        ],
        ids=range(23),
    )
    def test_refused(self, table, arguments, error, message):
        with pytest.raises(error, match="(?s)" + message):
            mh.discover(table, **arguments)


def test_partial_correlations_need_three_rows_more_than_they_condition_on():
    Z = np.random.default_rng(0).standard_normal((5, 3))
    assert 0 < _fisher_z(Z)(0, 1, (2,)) < 1
    with pytest.raises(ValueError, match="more rows than 4 to condition on 1 columns"):
        _fisher_z(Z[:4])(0, 1, (2,))


def test_a_key_says_nothing():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=40), "id": [f"i{k}" for k in range(40)]})
    with pytest.raises(ValueError, match=r"\['id'\] have another category in every row"):
        mh.discover(table)
