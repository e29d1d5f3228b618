"""``muhat density``: the distribution of columns, given others."""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from muhat.cli import app
from muhat.cli.errors import BadUsage
from muhat.cli.points import parse_at, point_names, points_of
from muhat.embedding import embed
from muhat.models.conditional_density import ConditionalDensity

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from html_checks import check_report  # type: ignore[import-not-found]


def table(n=60):
    """y is near x or near -x, more so as x grows; v goes with x, and c is a category with odd letters."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 4, n)
    y = x * rng.choice([-1, 1], n) + 0.3 * rng.standard_normal(n)
    v = x + 0.3 * rng.standard_normal(n)
    return pl.DataFrame({"x": x, "y": y, "v": v, "c": np.where(x > 1.5, "<b>", "[red]"), "one": np.ones(n)})


@pytest.fixture
def data(tmp_path):
    table().write_csv(tmp_path / "data.csv")
    return tmp_path / "data.csv"


def invoke(*args):
    return CliRunner().invoke(app, ["density", *map(str, args)])


def record(*args):
    result = invoke(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# -- what it says --------------------------------------------------------------------------------


def test_without_x_it_is_the_density_of_the_column(data, tmp_path):
    found = record(data, "--y", "y", "--level", 0.8)
    expected = embed(table().select("y")).density()
    (point,) = found["points"]
    (column,) = point["columns"]
    assert column["mean"] == pytest.approx(expected.mean()[0], abs=1e-9)
    assert column["sd"] == pytest.approx(expected.var()[0] ** 0.5)
    assert column["interval"] == pytest.approx(expected.interval(0.8)[0].tolist())
    assert column["quantiles"]["0.25"] == pytest.approx(expected.quantile(0.25)[0])
    assert (found["x"], found["rows"], found["calibrated"], point["familiarity"]) == ([], 60, False, None)
    table().write_parquet(tmp_path / "data.parquet")
    again = record(tmp_path / "data.parquet", "--y", "y", "--level", 0.8)
    assert again["points"][0]["columns"][0]["mean"] == pytest.approx(column["mean"])


def test_two_columns_without_x(data):
    out = data.parent / "r.html"
    result = invoke(data, "--y", "y,v", "--report", out)
    assert result.exit_code == 0, result.output
    assert all(word in result.stdout for word in ("y is", "v is", "Quantiles", "0.9 interval"))
    assert "modes" not in result.stdout
    assert len(check_report(out.read_text(encoding="utf-8")).all("img")) == 1


@pytest.mark.slow
def test_with_x_json_is_what_the_library_says_and_far_points_are_flagged(data):
    found = record(data, "--y", "y", "--x", "x", "--at", "x=3.5", "--at", "x=400", "--seed", 3)
    frame = table()
    model = ConditionalDensity(random_state=3).fit(frame.select("x"), frame.select("y"))
    where = pl.DataFrame({"x": [3.5, 400.0]})
    near, far = found["points"]
    assert near["columns"][0]["interval"] == pytest.approx(model.interval(where)[0, 0].tolist())
    assert near["columns"][0]["mean"] == pytest.approx(model.predict(where)[0, 0])
    assert (near["at"], near["far"], far["far"]) == ({"x": 3.5}, False, True)
    assert near["familiarity"] > 0.5 > far["familiarity"]
    assert len(near["modes"]) == 2
    assert min(near["modes"]) < -2.5 < 2.5 < max(near["modes"])
    assert any("Far from every row" in note and "x = 400" in note for note in found["notes"])
    assert found["summary"].count("(a guess: far from every row)") == 1
    assert any("not calibrated; with 200 rows" in note for note in found["notes"])


@pytest.mark.slow
def test_the_report_escapes_and_draws_the_density_and_the_fan(data):
    frame = table().rename({"x": "<script>x", "y": "_y$"})
    frame.write_csv(data)
    out = data.parent / "r.html"
    result = invoke(data, "--y", "_y$", "--x", "<script>x", "--report", out)
    assert result.exit_code == 0, result.output
    assert "No --at was given: x is at its quartiles and median" in " ".join(result.stdout.split())
    document = check_report(out.read_text(encoding="utf-8"))
    assert len(document.all("img")) == 2
    assert "<script>x" in document.text
    assert document.text.count("all rows") == 0


@pytest.mark.slow
def test_two_hundred_rows_are_calibrated_unless_the_level_asks_for_more(tmp_path):
    path = tmp_path / "t.csv"
    table(200).write_csv(path)
    found = record(path, "--y", "v", "--x", "x", "--at", "x=2")
    assert found["calibrated"]
    assert any("calibrated on 50 rows" in note for note in found["notes"])
    low, high = found["points"][0]["columns"][0]["interval"]
    assert low < 2 < high
    assert high - low < 2.5
    most = record(path, "--y", "v", "--x", "x", "--at", "x=2", "--level", 0.99)
    assert not most["calibrated"]
    assert any("too few for level 0.99" in note for note in most["notes"])
    assert None not in most["points"][0]["columns"][0]["interval"]


@pytest.mark.slow
def test_categories_and_several_columns_at_once(data):
    result = invoke(data, "--y", "y", "--y", "v", "--x", "x,c", "--at", "c=<b>,x=2", "--at", "c=[red]")
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "x = 2, c = <b>" in text
    assert "c = [red]" in text


# -- where ---------------------------------------------------------------------------------------


def test_points_without_at():
    frame = table()
    one = points_of(frame.select("x"), [])
    assert [point["x"] for point in one] == sorted(point["x"] for point in one)
    quartiles = [np.quantile(frame["x"], q) for q in (0.25, 0.5, 0.75)]
    np.testing.assert_allclose([point["x"] for point in one], quartiles, atol=0.1)
    both = points_of(frame.select("x", "v", "c"), [])
    assert both[0]["c"] == "<b>"
    assert len(both) == 1 + 2 + 2 + 1
    assert sum(point["c"] == "[red]" for point in both) == 1
    assert all((a["x"] == both[0]["x"]) + (a["v"] == both[0]["v"]) + (a["c"] == "<b>") == 2 for a in both[1:])


def test_a_column_may_be_named_count():
    frame = pl.DataFrame({"count": ["a", "b", "b"]})
    assert points_of(frame, [])[0] == {"count": "b"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=0.5,c=<b>", {"x": 0.5, "c": "<b>"}),
        (" c = [red] , x = -1e3 ", {"x": -1000.0, "c": "[red]"}),
        ("a,b=2,x=1", {"a,b": 2.0, "x": 1.0}),
        ("p=q=u,v=w,x=1", {"p=q": "u,v=w", "x": 1.0}),
    ],
)
def test_at_is_read(text, expected):
    frame = pl.DataFrame(
        {"x": [1.0], "c": ["<b>"], "a,b": [1.0], "p=q": ["u,v=w"]}, schema_overrides={"c": pl.String}
    )
    frame = pl.concat([frame, frame.with_columns(c=pl.lit("[red]"))])
    assert parse_at(text, frame) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "cannot be read at 'x'"),
        ("", "cannot be read at ''"),
        ("0.5", "write it as"),
        ("z=1", "names 'z', which is not in --x"),
        ("x=1,vv=2", "did you mean 'v'"),
        ("x=1,x=2", "twice"),
        ("x=", "must be a number"),
        ("x=1 2", "must be a number"),
        ("x=inf", "finite"),
        ("x=1,,v=2", "cannot be read at ''"),
        ("c=[blue]", "no row has '[blue]'"),
    ],
)
def test_at_that_cannot_be_read(text, message):
    with pytest.raises(BadUsage) as error:
        parse_at(text, table().select("x", "v", "c"))
    assert message in str(error.value)


def test_names_of_points():
    points = [{"x": 0.5, "c": "a"}, {"x": 1 / 3, "c": "b" * 50}]
    first, second = point_names(points, ["x", "c"])
    assert first == "x = 0.5, c = a"
    assert second.startswith("x = 0.333, c = ")
    assert len(second) < 45
    assert point_names([{}], []) == ["all rows"]
    assert point_names([dict.fromkeys("abcd", 1.0)] * 2, list("abcd")) == ["point 1", "point 2"]


# -- bad input -----------------------------------------------------------------------------------

BAD = {
    "unknown y": (["--y", "q"], "--y names 'q'"),
    "unknown x": (["--y", "y", "--x", "q"], "--x names 'q'"),
    "both": (["--y", "y,x", "--x", "x"], "'x' is in both"),
    "text": (["--y", "c"], "--y 'c' holds categories, which have no density"),
    "as category": (["--y", "y", "--categories", "y"], "--y 'y' holds categories"),
    "constant": (["--y", "one"], "--y 'one' is the same in every row"),
    "constant x": (["--y", "y", "--x", "one"], "constant"),
    "at alone": (["--y", "y", "--at", "x=1"], "columns in --x"),
    "at": (["--y", "y", "--x", "x", "--at", "x:1"], "cannot be read"),
    "level": (["--y", "y", "--level", "90"], "--level must lie between 0 and 1, got 90"),
    "over the data": (["--y", "y", "--report", "data.csv"], "file of data"),
    "no folder": (["--y", "y", "--report", "no/x.html"], "no folder"),
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
        ("", "is empty"),
        ("a,b\n", "0 rows"),
        ("a,b\n1,1\n2,2\n3,1\n", "at least 5"),
        ("a,b\n1,1\n2,\n3,3\n4,1\n5,1\n", "missing cells in 'b' (1)"),
        ("a,b\n1,1\n2,many\n3,3\n4,1\n5,1\n", "mixes numbers and text"),
        ("a,b\n1,1\n2,inf\n3,3\n4,1\n5,1\n", "infinite"),
    ],
)
@pytest.mark.parametrize("x", [[], ["--x", "a"]])
def test_data_without_a_density(tmp_path, content, message, x):
    (tmp_path / "t.csv").write_text(content)
    out = tmp_path / "r.html"
    result = invoke(tmp_path / "t.csv", "--y", "b", *x, "--report", out)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert not out.exists()


def test_rows_with_missing_cells_can_be_left_out(tmp_path):
    frame = table().with_columns(pl.when(pl.col("x") > 3.5).then(None).otherwise(pl.col("y")).alias("y"))
    frame.write_csv(tmp_path / "t.csv")
    found = record(tmp_path / "t.csv", "--y", "y", "--missing", "drop")
    assert found["dropped_rows"] == (table()["x"] > 3.5).sum() > 0
    assert found["rows"] + found["dropped_rows"] == 60


def test_few_values_are_mentioned(tmp_path):
    pl.DataFrame({"y": [1, 2, 3, 4] * 10}).write_csv(tmp_path / "t.csv")
    found = record(tmp_path / "t.csv", "--y", "y")
    assert any("takes only 4 different values" in note for note in found["notes"])


def test_an_interval_of_one_value_is_that_value(tmp_path):
    pl.DataFrame({"y": [0] * 37 + [1, 2, 3]}).write_csv(tmp_path / "t.csv")
    found = record(tmp_path / "t.csv", "--y", "y", "--level", 0.5)
    assert "and is 0 with probability 0.93" in found["summary"]
    assert "within" not in found["summary"]
