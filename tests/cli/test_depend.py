"""``muhat depend``: dependence of columns, with and without others that are known."""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from muhat.cli import app
from muhat.testing.conditional import conditional_independence_test
from muhat.testing.independence import independence_test

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from html_checks import check_report  # type: ignore[import-not-found]


def table():
    """z makes x and y, and nothing else joins them; w is alone, and c a category that goes with x."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(80)
    x, y = z + 0.4 * rng.standard_normal(80), z + 0.4 * rng.standard_normal(80)
    return pl.DataFrame(
        {"x": x, "y": y, "z": z, "w": rng.standard_normal(80), "c": np.where(x > 0, "<b>", "[red]")}
    )


@pytest.fixture
def data(tmp_path):
    table().write_csv(tmp_path / "data.csv")
    return tmp_path / "data.csv"


def invoke(*args):
    return CliRunner().invoke(app, ["depend", *map(str, args)])


def record(*args):
    result = invoke(*args, "--json", "--permutations", 99)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_answer_in_words(data):
    result = invoke(data, "--x", "x", "--y", "y,w", "--permutations", 99)
    assert result.exit_code == 0, result.output
    assert " ".join(result.stdout.split()).startswith("x and y, w depend on each other (p = 0.01,")
    assert "adjusted p" in result.stdout


def test_json_is_what_the_library_says(data):
    frame = table()
    plain = record(data, "--x", "x", "--y", "y,w", "--seed", 2)
    expected = independence_test(frame.select("x"), frame.select("y", "w"), permutations=99, random_state=2)
    assert (plain["x"], plain["y"], plain["given"]) == (["x"], ["y", "w"], [])
    assert (plain["pvalue"], plain["statistic"]) == (expected.pvalue, pytest.approx(expected.statistic))
    assert {driver["column"] for driver in plain["drivers"]} == {"x", "y", "w"}
    given = record(data, "--x", "x", "--y", "y", "--given", "z", "--seed", 2)
    other = conditional_independence_test(
        frame.select("x"), frame.select("y"), frame.select("z"), permutations=99, random_state=2
    )
    assert (given["pvalue"], given["statistic"]) == (other.pvalue, pytest.approx(other.statistic))
    assert given["trusted"] is other.trusted
    assert given["self_check"] == {"pvalue": other.self_check.pvalue, "shift": other.self_check.shift}


@pytest.mark.parametrize(
    ("method", "kept"), [("kci", "multipliers"), ("gamma", "gamma"), ("residual", "permutation")]
)
def test_what_is_known_explains_the_dependence(data, method, kept):
    assert record(data, "--x", "x", "--y", "y")["pvalue"] <= 0.01
    given = record(data, "--x", "x", "--y", "y", "--given", "z", "--method", method)
    assert given["pvalue"] > 0.05
    assert given["method"] == kept
    assert "show no dependence given z" in given["summary"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--y", "y"], 3), (["--y", "w"], 0), (["--y", "y", "--given", "z"], 0), (["--y", "c"], 3)],
)
def test_the_exit_status_tells_the_decision(data, arguments, status):
    result = invoke(data, "--x", "x", *arguments, "--alpha", 0.01, "--permutations", 199, "--json")
    assert result.exit_code == status
    assert json.loads(result.stdout)["found"] == (status == 3)


@pytest.mark.parametrize("given", [[], ["--given", "z"]])
def test_the_report(data, given):
    out = data.parent / "r.html"
    result = invoke(data, "--x", "x", "--y", "y,c", *given, "--permutations", 19, "--report", out)
    assert result.exit_code == 0, result.output
    document = check_report(out.read_text(encoding="utf-8"))
    assert len(document.all("img")) == 1
    assert "x and y, c" in document.text


BAD = {
    "unknown": (["--x", "q", "--y", "y"], "--x names 'q'"),
    "both sides": (["--x", "x", "--y", "x,y"], "'x' is in two of"),
    "both known": (["--x", "x", "--y", "y", "--given", "y"], "'y' is in two of"),
    "kci of two": (["--x", "x", "--y", "y", "--method", "kci"], "without --given"),
    "wild given": (["--x", "x", "--y", "y", "--given", "z", "--method", "wild"], "with --given"),
    "kernel given": (["--x", "x", "--y", "y", "--given", "z", "--kernel", "learn"], "leave --kernel out"),
    "gamma of many": (["--x", "x", "--y", "y", "--method", "gamma", "--kernel", "aggregate"], "one kernel"),
    "alpha": (["--x", "x", "--y", "y", "--alpha", "-1"], "between 0 and 1"),
    "over the data": (["--x", "x", "--y", "y", "--report", "data.csv"], "file of data"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(data, case, monkeypatch):
    monkeypatch.chdir(data.parent)
    arguments, message = BAD[case]
    before = data.read_bytes()
    result = invoke("data.csv", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert data.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,1\n1,2\n1,3\n1,4\n1,5\n", "every row of x is the same"),
        ("a,b\n1,1\n2,2\n", "at least 4"),
        ("a,b\n1,1\n2,\n3,3\n4,1\n5,\n", "missing cells"),
        ("a,b\n1,1\n2,x\n3,3\n4,1\n5,1\n", "mixes numbers and text"),
    ],
)
def test_data_that_cannot_be_tested(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    result = invoke(tmp_path / "t.csv", "--x", "a", "--y", "b", "--missing", "refuse")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "--drop" not in result.stderr  # which this command does not have


def test_both_sides_are_needed(data):
    assert invoke(data, "--x", "x").exit_code == 2
