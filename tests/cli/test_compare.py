"""``muhat compare``: the answer in words, as JSON and in a report; errors in one line with status 2."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from muhat.cli import app
from muhat.testing.two_sample import two_sample_test

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from html_checks import check_report  # type: ignore[import-not-found]

NASTY = ("<script>alert(1)</script>", "[bold]x[/bold]", "\x1b[31mred", "`code`", "$x^$")


def invoke(*args):
    return CliRunner().invoke(app, ["compare", *map(str, args)])


def sample(seed, n=40, shift=0.0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "a": rng.standard_normal(n) + shift,
            "b": rng.standard_normal(n),
            "c": rng.choice(["u", "v"], n),
        }
    )


@pytest.fixture
def files(tmp_path):
    """Two files that differ in column a, and one like the first."""
    for name, frame in {"one": sample(0), "two": sample(1, 50, 2.0), "like": sample(2)}.items():
        frame.write_csv(tmp_path / f"{name}.csv")
    return tmp_path


def test_the_answer_in_words(files):
    result = invoke(files / "one.csv", files / "two.csv", "--permutations", 99)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert words.startswith("one.csv and two.csv differ (p = 0.01, 99 permutations).")
    assert "these columns differ: a (each test used 40 and 50 rows)." in words
    assert "40 and 50" in words
    assert result.stdout.index("statistic") > result.stdout.index("differ")
    assert "\x1b" not in result.stdout


def test_json_is_what_the_library_says_and_nothing_else(files):
    result = invoke(files / "one.csv", files / "two.csv", "--permutations", 99, "--json", "--seed", 3)
    record = json.loads(result.stdout)
    expected = two_sample_test(sample(0), sample(1, 50, 2.0), permutations=99, random_state=3)
    assert record["statistic"] == pytest.approx(expected.statistic)
    assert record["pvalue"] == expected.pvalue
    assert record["effect_size"] == pytest.approx(expected.effect_size)
    assert (record["rows"], record["columns"]) == ([40, 50], ["a", "b", "c"])
    assert record["drivers"][0]["column"] == "a"
    assert record["alpha"] is record["found"] is None


@pytest.mark.parametrize(
    ("other", "alpha", "status"),
    [("two.csv", "0.05", 3), ("like.csv", "0.05", 0), ("two.csv", None, 0), ("two.csv", "0.011", 3)],
)
def test_the_exit_status_tells_the_decision_when_a_level_is_given(files, other, alpha, status):
    arguments = [] if alpha is None else ["--alpha", alpha]
    result = invoke(files / "one.csv", files / other, "--permutations", 99, "--json", *arguments)
    assert result.exit_code == status
    assert json.loads(result.stdout)["found"] == (None if alpha is None else status == 3)


def test_the_sentence_goes_by_the_level(tmp_path):
    # p lies between the two levels
    for name, shift in (("one", 0.0), ("two", 0.55)):
        sample(len(name + str(shift)), 40, shift).select("a").write_csv(tmp_path / f"{name}.csv")
    p = json.loads(invoke(tmp_path / "one.csv", tmp_path / "two.csv", "--json").stdout)["pvalue"]
    assert 0.002 < p < 0.9
    for alpha, word, status in ((p / 1.5, "show no difference", 0), (min(p * 1.1, 0.99), "differ", 3)):
        result = invoke(tmp_path / "one.csv", tmp_path / "two.csv", "--alpha", alpha)
        assert result.exit_code == status
        assert f"{word} at the level" in " ".join(result.stdout.split())


def test_columns_and_kernels(files):
    one, two = files / "one.csv", files / "two.csv"
    for arguments in (["--drop", "a"], ["--columns", "b,c"], ["--columns", "b", "--columns", "c"]):
        record = json.loads(invoke(one, two, "--json", "--permutations", 19, *arguments).stdout)
        assert record["columns"] == ["b", "c"]
        assert {driver["column"] for driver in record["drivers"]} == {"b", "c"}
    record = json.loads(invoke(one, two, "--json", "--kernel", "median", "--method", "gamma").stdout)
    assert (record["kernels"], record["method"]) == (1, "gamma")


def test_files_of_different_kinds_with_columns_in_another_order(files):
    pl.read_csv(files / "one.csv").select("c", "b", "a").write_parquet(files / "one.parquet")
    record = json.loads(
        invoke(files / "one.csv", files / "one.parquet", "--json", "--permutations", 19).stdout
    )
    assert record["pvalue"] == 1.0
    assert record["effect_size"] == 0.5


def test_a_table_is_like_itself_whoever_saved_it(tmp_path):
    frame = sample(0).with_columns(
        flag=pl.Series([True, False, True, True] * 10), whole=pl.Series([1, 2, None, 3] * 10)
    )
    frame.write_csv(tmp_path / "polars.csv")
    frame.write_csv(tmp_path / "null.csv", null_value="null")
    frame.to_pandas().to_csv(tmp_path / "pandas.csv", index=False, na_rep="NA")
    frame.write_parquet(tmp_path / "polars.parquet")
    frame.to_pandas().to_parquet(tmp_path / "pandas.parquet")
    assert "True" in (tmp_path / "pandas.csv").read_text()
    assert "true" in (tmp_path / "polars.csv").read_text()
    for name in ("null.csv", "pandas.csv", "polars.parquet", "pandas.parquet"):
        arguments = ("--json", "--permutations", 19, "--missing", "drop", "--kernel", "median")
        result = invoke(tmp_path / "polars.csv", tmp_path / name, *arguments)
        assert result.exit_code == 0, result.output
        record = json.loads(result.stdout)
        assert (record["pvalue"], record["effect_size"], record["notes"]) == (1.0, 0.5, []), name
        assert (record["dropped_rows"], result.stderr) == ([10, 10], ""), name


def test_rows_that_are_matched_are_told(tmp_path):
    for seed, name in enumerate(("one", "two")):
        values = np.random.default_rng(seed).standard_normal(30)
        frame = pl.DataFrame({"site": [f"s{i}" for i in range(30)], "a": values})
        frame.write_csv(tmp_path / f"{name}.csv")
    arguments = (tmp_path / "one.csv", tmp_path / "two.csv", "--categories", "site", "--permutations", 19)
    record = json.loads(invoke(*arguments, "--json").stdout)
    assert record["matched"] == ["site"]
    assert record["effect_interval"][0] < 0.5
    (note,) = record["notes"]
    assert note.startswith("The values of site are the same in both samples")
    assert note in record["summary"]
    assert note in " ".join(invoke(*arguments).stdout.split())


def test_categories_that_may_be_spelled_differently_are_warned_of_and_not_merged(tmp_path):
    (tmp_path / "one.csv").write_text("a,b,c,d\n1,yes,u,1\n2,no,v,2\n3,yes,v,2\n4,no,u,1\n")
    (tmp_path / "two.csv").write_text("a,b,c,d\n1,Yes,x,1.0\n2,no,y,2\n3,Yes,x,2\n4,no,y,1.0\n")
    arguments = (tmp_path / "one.csv", tmp_path / "two.csv", "--permutations", 19)
    result = invoke(*arguments, "--categories", "d", "--json", "--report", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    b, c, d = result.stderr.splitlines()
    assert b.startswith("Warning: column 'b': 'yes' and 'Yes' may mean the same, the former in 'one.csv'")
    assert c.startswith("Warning: column 'c': 'one.csv' and 'two.csv' have no category in common (e.g. 'u' ")
    assert d.startswith("Warning: column 'd': '1' and '1.0' may mean the same")
    assert all("--drop" in line for line in (b, c, d))
    assert [f"Warning: {note}" for note in json.loads(result.stdout)["notes"]] == [b, c, d]
    assert c in check_report((tmp_path / "r.html").read_text(encoding="utf-8")).text
    assert invoke(*arguments, "--columns", "a,d").stderr == ""  # numbers are equal however written


def test_missing_cells(files):
    text = (files / "two.csv").read_text().splitlines()
    (files / "gaps.csv").write_text("\n".join([text[0], ",1,u", *text[1:]]) + "\n")
    for word in ("refuse", "error"):  # the old word still works
        refused = invoke(files / "one.csv", files / "gaps.csv", "--missing", word)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "--missing drop" in refused.stderr
    dropped = invoke(
        files / "one.csv", files / "gaps.csv", "--missing", "drop", "--json", "--permutations", 19
    )
    assert json.loads(dropped.stdout)["dropped_rows"] == [0, 1]
    assert json.loads(dropped.stdout)["rows"] == [40, 50]
    compared = json.loads(
        invoke(files / "one.csv", files / "gaps.csv", "--json", "--permutations", 19).stdout
    )
    assert compared["rows"] == [40, 51]
    assert compared["missing"]["shares"] == {"a": [0.0, 1 / 51]}
    assert "Missing cells: a 0% → 2%" in compared["summary"]


def test_what_is_missing_is_a_finding(tmp_path):
    """Dropping rows hid that more cells are missing."""
    rng = np.random.default_rng(0)
    for name, share in (("one.csv", 0.05), ("two.csv", 0.25)):
        a, b = rng.normal(size=(2, 300))
        gone = rng.random(300) < share
        pl.DataFrame({"a": a, "b": b}).with_columns(
            pl.when(pl.Series(~gone)).then(pl.col("a")).alias("a")
        ).write_csv(tmp_path / name)
    arguments = (tmp_path / "one.csv", tmp_path / "two.csv", "--permutations", 99)
    compared = " ".join(invoke(*arguments).stdout.split())
    assert "one.csv and two.csv differ" in compared
    assert "these columns differ: a (missing" in compared
    dropped = " ".join(invoke(*arguments, "--missing", "drop").stdout.split())
    assert "show no difference" in dropped
    assert "this may hide or make a difference. The samples differ in how many rows have one" in dropped


def test_a_test_that_does_not_reject_shows_nothing(tmp_path):
    """Two columns that differ in how they go together, and no claim that they are alike by themselves."""
    rng = np.random.default_rng(0)
    for name, sign in (("one.csv", 1), ("two.csv", -1)):
        a = rng.normal(size=200)
        b = sign * 0.8 * a + 0.6 * rng.normal(size=200)
        pl.DataFrame({"a": a, "b": b}).write_csv(tmp_path / name)
    words = " ".join(invoke(tmp_path / "one.csv", tmp_path / "two.csv", "--permutations", 99).stdout.split())
    assert "No single column's test rejects (each test used 200 and 200 rows)" in words
    assert "this does not show that the columns are alike" in words
    assert "how they go together" not in words


def test_the_report(files):
    out = files / "r.html"
    result = invoke(files / "one.csv", files / "two.csv", "--permutations", 19, "--report", out)
    assert result.exit_code == 0
    assert str(out) in result.stdout.splitlines()[-1]
    document = check_report(out.read_text(encoding="utf-8"))
    assert "one.csv and two.csv differ" in document.text
    assert len(document.all("img")) == 1
    assert len(document.all("table")) == 2
    assert sorted(p.name for p in files.iterdir()) == ["like.csv", "one.csv", "r.html", "two.csv"]


def test_names_and_cells_cannot_inject_anything(tmp_path):
    rng = np.random.default_rng(0)
    for name, shift in (("<b>one.csv", 0.0), ("[red]two.csv", 1.0)):
        columns = {column: rng.standard_normal(30) + shift for column in NASTY}
        columns["text"] = rng.choice(["<img src=x onerror=alert(1)>", "\x1b[2J", "[/bold]", "$y^$"], 30)
        pl.DataFrame(columns).write_csv(tmp_path / name)
    out = tmp_path / "r.html"
    result = invoke(tmp_path / "<b>one.csv", tmp_path / "[red]two.csv", "--permutations", 19, "--report", out)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    assert "[bold]x[/bold]" in result.stdout
    assert "\\x1b[31mred" in result.stdout
    assert "[red]two.csv" in result.stdout
    html = out.read_text(encoding="utf-8")
    document = check_report(html)  # no script, no handler
    assert "<script>alert(1)</script>" in document.text
    assert "\x1b" not in html
    as_json = invoke(tmp_path / "<b>one.csv", tmp_path / "[red]two.csv", "--permutations", 19, "--json")
    assert "\x1b" not in as_json.stdout
    assert "<script>alert(1)</script>" in json.loads(as_json.stdout)["columns"]
    # and errors
    refused = invoke(tmp_path / "<b>one.csv", tmp_path / "[red]two.csv", "--columns", "\x1b[31mno")
    assert (refused.exit_code, "\x1b" in refused.stderr) == (2, False)


def bad(tmp_path, content, *arguments):
    (tmp_path / "bad.csv").write_text(content)
    return [tmp_path / "bad.csv", tmp_path / "two.csv", *arguments]


BAD = {
    "no file": (lambda f: [f / "no.csv", f / "two.csv"], "no file"),
    "empty": (lambda f: bad(f, ""), "empty"),
    "header alone": (lambda f: bad(f, "a,b,c\n"), "0 rows"),
    "one row": (lambda f: bad(f, "a,b,c\n1,2,u\n"), "at least 2"),
    "mixed types": (lambda f: bad(f, "a,b,c\n1,2,u\n2,x,u\n"), "mixes numbers and text"),
    "missing": (lambda f: bad(f, "a,b,c\n1,2,u\n,3,u\n", "--missing", "refuse"), "missing cells"),
    "all missing": (lambda f: bad(f, "a,b,c\n1,,u\n,3,u\n", "--missing", "drop"), "without missing cells"),
    "identifier": (lambda f: bad(f, "a,id\n1,x\n2,y\n3,z\n", "--drop", "b,c"), "only 'bad.csv' has 'id'"),
    "other columns": (lambda f: bad(f, "a,b,d\n1,2,u\n2,3,u\n"), "different columns"),
    "unknown column": (lambda f: [f / "one.csv", f / "two.csv", "--columns", "z"], "--columns names 'z'"),
    "unknown drop": (lambda f: [f / "one.csv", f / "two.csv", "--drop", "z"], "--drop names 'z'"),
    "unknown category": (lambda f: [f / "one.csv", f / "two.csv", "--categories", "z"], "--categories"),
    "alpha": (lambda f: [f / "one.csv", f / "two.csv", "--alpha", "1"], "between 0 and 1"),
    "few permutations": (
        lambda f: [f / "one.csv", f / "two.csv", "--alpha", "0.01", "--permutations", "19"],
        "more --permutations",
    ),
    "gamma of many": (
        lambda f: [f / "one.csv", f / "two.csv", "--kernel", "aggregate", "--method", "gamma"],
        "one kernel",
    ),
    "no folder": (lambda f: [f / "one.csv", f / "two.csv", "--report", f / "no" / "r.html"], "no folder"),
    "over the data": (lambda f: [f / "one.csv", f / "two.csv", "--report", f / "one.csv"], "file of data"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2_with_nothing_written(files, case):
    arguments, message = BAD[case]
    arguments = arguments(files)
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    if "--report" not in arguments:
        arguments = [*arguments, "--report", files / "r.html"]
    result = invoke(*arguments, "--json")
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before


def test_constant_files_are_refused(tmp_path):
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("a,b\n1,u\n1,u\n1,u\n")
    result = invoke(tmp_path / "one.csv", tmp_path / "two.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nothing to test" in result.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["a.csv"], ["a.csv", "b.csv", "--kernel", "x"], ["a", "b", "--missing", "x"]]
)
def test_bad_usage(arguments):
    assert invoke(*arguments).exit_code == 2


def test_help_says_what_the_exit_status_means():
    text = " ".join(invoke("--help").output.split())
    assert "3 if something was found" in text
    assert "2 if the input cannot be used" in text


def test_files_of_the_same_name_are_told_apart(files):
    (files / "sub").mkdir()
    (files / "two.csv").rename(files / "sub" / "one.csv")
    record = json.loads(
        invoke(files / "one.csv", files / "sub" / "one.csv", "--json", "--permutations", 19).stdout
    )
    assert record["files"] == [str(files / "one.csv"), str(files / "sub" / "one.csv")]


@pytest.mark.statistics
def test_an_interruption_ends_with_130_and_writes_nothing(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("one.csv", "two.csv"):
        pl.DataFrame(rng.standard_normal((6000, 4))).write_csv(tmp_path / name)
    command = [sys.executable, "-m", "muhat", "compare", "one.csv", "two.csv", "--permutations", "20000"]
    process = subprocess.Popen(
        [*command, "--report", "r.html"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    time.sleep(10)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "Interrupted.\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.csv", "two.csv"]
