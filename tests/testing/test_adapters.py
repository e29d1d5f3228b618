"""muhat's tests in other packages' searches: what they are asked and answer, and how often they warn."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import muhat as mh
from muhat.testing import adapters, for_causal_learn, for_pgmpy
from muhat.testing.adapters import ColumnTest


def chain(n: int = 150) -> np.ndarray:
    """sun → warmth → ozone ← wind."""
    rng = np.random.default_rng(3)
    sun, wind = rng.normal(size=(2, n))
    warmth = np.tanh(1.5 * sun) + 0.4 * rng.normal(size=n)
    ozone = warmth + warmth**2 - 0.8 * np.abs(wind) + 0.4 * rng.normal(size=n)
    return np.column_stack([sun, wind, warmth, ozone])


NAMES = ["sun", "wind", "warmth", "ozone"]
Z = chain()
TABLE = pd.DataFrame(Z, columns=NAMES)
EDGES = {("sun", "warmth"), ("ozone", "warmth"), ("ozone", "wind")}


@dataclass
class Said:
    pvalue: float = 0.001
    trusted: bool | None = None
    statistic: float = 1.0
    effect_size: float = 0.5


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The columns that the conditional test was asked for; its answer is not trusted."""
    calls = []

    def test(x: Any, y: Any, z: Any, **_: Any) -> Said:
        calls.append(tuple(tuple(A.columns) for A in (x, y, z)))
        return Said(trusted=False)

    monkeypatch.setattr(adapters, "conditional_independence_test", test)
    return calls


@pytest.mark.parametrize("table", [TABLE, pl.DataFrame(Z, schema=NAMES)], ids=["pandas", "polars"])
def test_the_answers_are_those_of_the_tests_themselves(table: Any):
    independent = for_pgmpy(table, permutations=99)
    assert not independent("sun", "ozone", [])
    alone = mh.independence_test(table[["sun"]], table[["ozone"]], permutations=99, random_state=0)
    assert independent.p_value_ == alone.pvalue
    assert independent("ozone", "sun", ("warmth",))
    sides = (table[[name]] for name in ("sun", "ozone", "warmth"))
    given = mh.conditional_independence_test(*sides, permutations=99, random_state=0)
    assert (independent.p_value_, independent.effect_size_) == (given.pvalue, given.effect_size)
    assert independent("sun", "ozone", ["warmth"], boolean=False) == (given.statistic, given.pvalue)


def test_a_question_is_asked_once_whatever_its_order(asked: list[tuple[Any, ...]]):
    test = ColumnTest(TABLE)
    assert test.pvalue("ozone", "sun", ["warmth", "wind"]) == test.pvalue("sun", "ozone", ("wind", "warmth"))
    assert asked == [(("sun",), ("ozone",), ("wind", "warmth"))]


def test_what_is_not_trusted_is_kept_or_dropped_and_said_once(asked: list[tuple[Any, ...]]):
    keep, drop = ColumnTest(TABLE), ColumnTest(TABLE, "drop")
    with pytest.warns(UserWarning, match=r"0\.001 for 'sun' and 'ozone' given \['wind'\]") as said:
        values = [drop.pvalue("sun", "ozone", given) for given in (["wind"], ["warmth"], ["warmth", "wind"])]
    assert len(said) == 1
    assert values == [1.0] * 3
    assert keep.pvalue("sun", "ozone", ["wind"]) == 0.001
    assert len(asked) == 4


def test_of_hundreds_of_results_only_numbers_are_kept():
    test = ColumnTest(TABLE, null="gamma")
    test.pvalue("sun", "ozone", ["wind"])
    test.pvalue("sun", "ozone")
    assert all(np.isscalar(value) for answer in test._answers.values() for value in answer)
    assert len(pickle.dumps(test._answers)) < 2000


@pytest.mark.parametrize("trusted", [True, np.True_, None])
def test_what_is_trusted_or_not_said_stays(monkeypatch: pytest.MonkeyPatch, trusted: Any):
    monkeypatch.setattr(adapters, "conditional_independence_test", lambda *_, **__: Said(trusted=trusted))
    assert ColumnTest(TABLE, "drop").pvalue("sun", "ozone", ["wind"]) == 0.001


def test_a_pair_with_nothing_given_takes_the_options_that_both_tests_have(monkeypatch: pytest.MonkeyPatch):
    seen: dict[str, Any] = {}

    def alone(x: Any, y: Any, **options: Any) -> Said:
        del x, y
        seen.update(options)
        return Said()

    monkeypatch.setattr(adapters, "independence_test", alone)
    test = ColumnTest(TABLE, null="gamma", permutations=55, missing="drop", regressor=None)
    assert test.pvalue("sun", "ozone") == 0.001
    assert seen == {
        **dict.fromkeys(("groups", "blocks", "strata", "weights")),
        "method": "gamma",
        "kernel_x": None,
        "kernel_y": None,
        "permutations": 55,
        "missing": "drop",
        "random_state": 0,
    }


def test_categories_stay_categories():
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=120)
    value = np.array([2.0, -1.0, 2.0])[group] + 0.3 * rng.normal(size=120)
    data = np.column_stack([group, value, value + 0.3 * rng.normal(size=120), group.astype(float)])
    data[0, 3] = np.nan
    table = adapters.framed(data, [0, 3])
    assert table["x[0]"].to_list() == [str(g) for g in group]
    assert table["x[3]"].to_list() == [None, *(str(g) for g in group[1:])]
    words = pd.DataFrame({"group": [str(g) for g in group], "value": value})
    by_words = mh.independence_test(words[["group"]], words[["value"]], random_state=0, permutations=99)
    test = ColumnTest(table, permutations=99)
    assert test.answer("x[0]", "x[1]").statistic == by_words.statistic
    assert test.pvalue("x[1]", "x[2]", ["x[0]", "x[3]"]) <= 0.05
    with pytest.raises(ValueError, match=r"categories has \[7\]: the columns are 0 to 3"):
        adapters.framed(data, [7])


@pytest.mark.parametrize("missing", ["compare", "drop"])
def test_missing_numbers_are_missing_in_the_frame_too(missing: str):
    data = Z.copy()
    data[::9, 2] = np.nan
    test = ColumnTest(adapters.framed(data, []), null="gamma", missing=missing)
    plain = mh.conditional_independence_test(
        *(data[:, [j]] for j in (0, 3, 2)), null="gamma", missing=missing, random_state=0
    )
    assert test.pvalue("x[0]", "x[3]", ["x[2]"]) == pytest.approx(plain.pvalue, rel=1e-9)


def test_the_test_can_be_sent_to_other_processes():
    independent = for_pgmpy(TABLE, null="gamma")
    independent("sun", "warmth")
    again = pickle.loads(pickle.dumps(independent))
    assert again("sun", "warmth") == independent("sun", "warmth")
    assert again.p_value_ == independent.p_value_


def test_other_data_make_another_test(asked: list[tuple[Any, ...]]):
    independent = for_pgmpy()
    for data in (TABLE, TABLE, TABLE.copy()):
        independent("sun", "wind", ["ozone"], data=data, independencies=None)
    assert len(asked) == 2


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"which data to test: use for_pgmpy\(data\)"):
        for_pgmpy()("sun", "wind")
    with pytest.raises(TypeError, match="data must be a frame"):
        for_pgmpy(Z)
    with pytest.raises(TypeError, match=r"has no options \['tests'\]: it has \['blocks'"):
        for_pgmpy(tests="kci")
    with pytest.raises(ValueError, match="untrusted"):
        for_causal_learn(untrusted="no")
    with pytest.raises(ValueError, match=r"the table has no columns \['moon'\]: its columns are \['sun'"):
        for_pgmpy(TABLE)("sun", "moon")
    with pytest.raises(ValueError, match="must be different columns"):
        for_pgmpy(TABLE)("sun", "wind", ["sun"])
    with pytest.raises(ValueError, match=r"not above 0\.05, the smallest.* use permutations=40, or null"):
        for_pgmpy(TABLE, permutations=19)("sun", "wind")
    for_pgmpy(TABLE, permutations=19, null="gamma")("sun", "wind")


class Base:
    """What causal-learn's tests have in common, as far as muhat relies on it."""

    def __init__(self, data: np.ndarray, cache_path: str | None = None) -> None:
        del cache_path
        self.data, self.pvalue_cache = data, {}

    def check_cache_method_consistent(self, method: str, parameters: str) -> None:
        self.method, self.parameters = method, parameters

    def get_formatted_XYZ_and_cachekey(self, X: int, Y: int, given: Any) -> Any:
        X, Y, given = min(X, Y), max(X, Y), sorted(given or [])
        return [X], [Y], given, f"{X};{Y}|{given}"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands for causal-learn's registry of tests."""
    tests: dict[str, Any] = {}
    cit: Any = ModuleType("causallearn.utils.cit")
    cit.CIT_Base, cit.register_ci_test = Base, tests.__setitem__
    for name in ("causallearn", "causallearn.utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "causallearn.utils.cit", cit)
    return tests


def test_causal_learn_gets_a_name_for_each_choice(registry: dict[str, Any]):
    name = for_causal_learn(null="gamma", untrusted="drop")
    assert name == for_causal_learn(untrusted="drop", null="gamma")
    assert name != for_causal_learn(null="gamma")
    assert list(registry) == [name, for_causal_learn(null="gamma")]
    test = registry[for_causal_learn(null="gamma")](Z)
    assert test(3, 0, (2,)) > 0.05 > test(0, 3)
    assert test(0, 3, (2,)) == ColumnTest(TABLE, null="gamma").pvalue("sun", "ozone", ["warmth"])
    assert len(test.pvalue_cache) == 2
    assert test.parameters != registry[name](Z).parameters


def test_without_causal_learn_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "causallearn.utils.cit", None)
    with pytest.raises(ImportError, match="pip install -U causal-learn"):
        for_causal_learn()


def needs(package: str, name: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{name} is not installed: make test-peers has it")


@needs("causallearn", "causal-learn")
@pytest.mark.filterwarnings("default")
def test_causal_learn_finds_the_graph():
    from causallearn.search.ConstraintBased.FCI import fci
    from causallearn.search.ConstraintBased.PC import pc

    found = pc(Z, 0.05, for_causal_learn(null="gamma"), show_progress=False).G.graph
    assert {tuple(sorted((NAMES[i], NAMES[j]))) for i, j in np.argwhere(found)} == EDGES
    assert (found[3, 1], found[1, 3], found[3, 2], found[2, 3]) == (1, -1, 1, -1)  # wind → ozone ← warmth
    graph, _ = fci(Z, for_causal_learn(null="gamma"), 0.05, show_progress=False, verbose=False)
    assert {tuple(sorted((NAMES[i], NAMES[j]))) for i, j in np.argwhere(graph.graph)} == EDGES


@needs("pgmpy", "pgmpy")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("module", ["estimators", "causal_discovery"])
@pytest.mark.parametrize("variant", ["stable", "parallel"])
def test_pgmpy_finds_the_graph(module: str, variant: str):
    search = importlib.import_module(f"pgmpy.{module}").PC
    if module == "estimators":
        options = {"variant": variant, "n_jobs": 1, "show_progress": False}
        found = search(TABLE).estimate(ci_test=for_pgmpy(null="gamma"), **options)
    else:
        test = for_pgmpy(TABLE, null="gamma")
        fitted = search(ci_test=test, variant=variant, n_jobs=1, show_progress=False).fit(TABLE)
        found = fitted.causal_graph_
    assert {tuple(sorted(edge)) for edge in found.edges()} == EDGES
    assert {("wind", "ozone"), ("warmth", "ozone")} <= set(found.edges())
