"""``muhat direction``: cause and effect among two columns."""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import muhat as mh
from muhat.cli import app

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from html_checks import check_report  # type: ignore[import-not-found]


def table(n=300):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, n)
    y = (x + 0.3) ** 2 + 0.1 * rng.standard_normal(n)
    return pl.DataFrame({"a[1]": x, "b": y, "c": np.where(x > 0, "p", "q")})


@pytest.fixture
def data(tmp_path):
    table().select("a[1]", "b").write_csv(tmp_path / "pair.csv")
    table().write_csv(tmp_path / "three.csv")
    return tmp_path


def invoke(*args):
    return CliRunner().invoke(app, ["direction", *map(str, args)])


def record(*args):
    result = invoke(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_is_what_the_library_says(data):
    frame, model = table(), mh.CauseEffect()
    found = record(data / "pair.csv", "--level", 0.6)
    x, y = frame["a[1]"].to_numpy(), frame["b"].to_numpy()
    assert found["log_odds"] == pytest.approx(model.decision_function(x, y), rel=1e-2)
    assert found["probability"] == pytest.approx(model.predict_proba(x, y), abs=0.01)
    decided = model.decide(x, y, 0.6)
    assert found["cause"] == {1: "a[1]", -1: "b", 0: None}[decided]
    assert found["rows"] == 300


def test_the_calibration_is_handed_on(data):
    frame = table()
    x, y = frame["a[1]"].to_numpy(), frame["b"].to_numpy()
    for name in ("measured", "artificial"):
        found = record(data / "pair.csv", "--calibration", name)
        expected = mh.CauseEffect(calibration=name).predict_proba(x, y)
        assert found["probability"] == pytest.approx(expected, abs=0.01)


def test_exchanged_columns_give_the_same_cause(data):
    one = record(data / "three.csv", "--x", "a[1]", "--y", "b", "--level", 0.51)
    other = record(data / "three.csv", "--x", "b", "--y", "a[1]", "--level", 0.51)
    assert one["cause"] == other["cause"]
    assert one["log_odds"] == pytest.approx(-other["log_odds"], rel=1e-3)


def test_the_answer_in_words(data):
    said = " ".join(invoke(data / "pair.csv", "--level", 0.51).stdout.split())
    assert said.startswith("a[1] causes b rather than the reverse (probability ")
    assert "probability 1.00" not in said  # nothing is that sure
    table().select(pl.col("b"), pl.col("b").alias("twin")).write_csv(data / "same.csv")
    assert "leave the direction between b and twin open" in " ".join(invoke(data / "same.csv").stdout.split())


def test_the_report(data):
    out = data / "r.html"
    assert invoke(data / "pair.csv", "--report", out).exit_code == 0
    document = check_report(out.read_text(encoding="utf-8"))
    assert len(document.all("img")) == 1
    assert "logarithm of the odds" in document.text


BAD = {
    "three columns": (["three.csv"], "say which two with --x and --y"),
    "one side": (["three.csv", "--x", "b"], "give both --x and --y"),
    "the same": (["three.csv", "--x", "b", "--y", "b"], "must name two columns"),
    "unknown": (["three.csv", "--x", "q", "--y", "b"], "--x names 'q'"),
    "categories": (["three.csv", "--x", "c", "--y", "b"], "'c' of 'three.csv' holds categories"),
    "level": (["pair.csv", "--level", "0.4"], "--level must lie between"),
    "no file": (["none.csv"], "there is no file"),
    "over the data": (["pair.csv", "--report", "pair.csv"], "file of data"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(data, case, monkeypatch):
    monkeypatch.chdir(data)
    arguments, message = BAD[case]
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n" + "1,1\n1,2\n" * 20, "column 'a' is constant"),
        ("a,b\n1,1\n2,2\n", "at least 20"),
        ("a,b\n" + "1,1\n2,\n3,3\n" * 20, "leave such rows out with --missing drop.\n"),
    ],
)
def test_data_without_a_direction(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    result = invoke(tmp_path / "t.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
