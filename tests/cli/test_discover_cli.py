"""``muhat discover``: a graph in words, as JSON and drawn; what is known beforehand; a bar on terminals."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import muhat
from muhat.cli import app
from muhat.cli.discover import arrows
from muhat.cli.errors import BadUsage

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from html_checks import check_report  # type: ignore[import-not-found]

FAST = ("--test", "fisher-z")


def table(n=400):
    """a → c ← b, c → d, and e alone."""
    rng = np.random.default_rng(0)
    a, b, e = rng.standard_normal((3, n))
    c = a + b + 0.5 * rng.standard_normal(n)
    return pl.DataFrame({"a": a, "b": b, "c": c, "d": c + 0.5 * rng.standard_normal(n), "e": e})


@pytest.fixture
def data(tmp_path):
    table().write_csv(tmp_path / "data.csv")
    return tmp_path / "data.csv"


def invoke(*args):
    return CliRunner().invoke(app, ["discover", *map(str, args)])


def edges(*args):
    result = invoke(*args, "--json")
    assert result.exit_code == 0, result.output
    return {(edge["from"], edge["to"]): edge for edge in json.loads(result.stdout)["edges"]}


def test_the_graph_in_words(data):
    result = invoke(data, *FAST)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert words.startswith(
        "5 columns of data.csv (400 rows) are joined by 3 edges, 3 of them with a direction"
    )
    assert all(f"{a} → {b}" in words for a, b in ("ac", "bc", "cd"))
    assert "Without an edge: e." in words
    assert result.stderr == ""  # no bar in a pipe


def test_json_is_what_the_library_says(data):
    found = edges(data, *FAST, "--alpha", 0.01)
    graph = muhat.discover(table(), alpha=0.01, test="fisher-z")
    assert set(found) == set(graph.directed)
    assert {edge["kind"] for edge in found.values()} == {"causes"}
    assert found["a", "c"]["pvalue"] == pytest.approx(graph.pvalues["a", "c"])
    record = json.loads(invoke(data, *FAST, "--json").stdout)
    assert (record["columns"], record["alpha"], record["rows"]) == (["a", "b", "c", "d", "e"], 0.05, 400)
    assert {tuple(s["pair"]): s["given"] for s in record["separating_sets"]}[("a", "d")] == ["c"]


def test_kci_by_default(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.standard_normal(120)
    pl.DataFrame({"a": a, "b": a**2 + 0.3 * rng.standard_normal(120)}).write_csv(tmp_path / "t.csv")
    assert edges(tmp_path / "t.csv")
    assert not edges(tmp_path / "t.csv", *FAST)  # correlation does not see it


def test_knowledge(data):
    chain = (data, *FAST, "--columns", "c,d")
    assert edges(*chain)["c", "d"]["kind"] == "open"
    assert edges(*chain, "--require", "d>c")["d", "c"]["kind"] == "causes"
    assert edges(*chain, "--forbid", "c > d")["d", "c"]["kind"] == "causes"
    assert edges(*chain, "--tiers", "d;c")["d", "c"]["kind"] == "causes"
    assert not edges(*chain, "--forbid", "c>d,d>c")


def test_bootstrap_and_prewhitening(data):
    result = invoke(data, *FAST, "--bootstrap", 3)
    assert "in resamples" in result.stdout
    found = edges(data, *FAST, "--bootstrap", 3)
    assert found["a", "c"]["adjacent_frequency"] == 1.0
    record = json.loads(invoke(data, *FAST, "--prewhiten", "a", "--json").stdout)
    assert record["columns"] == ["b", "c", "d", "e"]


def test_the_report_and_names_that_are_markup(tmp_path):
    names = ["<script>alert(1)</script>", "[bold]x[/bold]", "\x1b[31m", "a>b,c", "$x^$"]
    table().rename(dict(zip("abcde", names, strict=True))).write_csv(tmp_path / "t.csv")
    out = tmp_path / "r.html"
    result = invoke(tmp_path / "t.csv", *FAST, "--bootstrap", 2, "--report", out)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    assert "[bold]x[/bold]" in result.stdout
    html = out.read_text(encoding="utf-8")
    document = check_report(html)
    assert "<script>alert(1)</script>" in document.text
    assert "\x1b" not in html
    assert len(document.all("img")) == 1


def test_arrows():
    assert arrows(["a>b, b>c", "c>a"], "abc", "--forbid") == [("a", "b"), ("b", "c"), ("c", "a")]
    assert arrows(["x,y>a>b"], ["x,y", "a>b"], "--forbid") == [("x,y", "a>b")]
    with pytest.raises(BadUsage, match="arrows such as"):
        arrows(["ab"], "abc", "--forbid")
    with pytest.raises(BadUsage, match="--forbid names 'q'"):
        arrows(["a>q"], "abc", "--forbid")


BAD = {
    "unknown tier": (["--tiers", "a;q"], "--tiers names 'q'"),
    "unknown whitener": (["--prewhiten", "q"], "--prewhiten names 'q'"),
    "no arrow": (["--require", "a-b"], "arrows such as"),
    "contradiction": (["--require", "a>b", "--forbid", "a>b"], "contradict"),
    "two tiers": (["--tiers", "a;a"], "twice"),
    "alpha": (["--alpha", "0"], "between 0 and 1"),
    "one column": (["--columns", "a"], "at least 2 columns"),
    "over the data": (["--report", "data.csv"], "file of data"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(data, case, monkeypatch):
    monkeypatch.chdir(data.parent)
    arguments, message = BAD[case]
    result = invoke("data.csv", *FAST, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n" + "1,2\n2,1\n" * 5, "at least 20"),
        ("a,b\n" + "1,2\n1,1\n" * 15, "constant"),
        ("a,b\n" + "x,2\ny,1\n" * 15, "categories"),
    ],
)
def test_data_that_cannot_be_used(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    result = invoke(tmp_path / "t.csv", *FAST)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_bar_on_a_terminal(data, monkeypatch):
    from rich.console import Console

    terminal = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console", lambda **kwargs: Console(file=terminal, force_terminal=True, width=100)
    )
    result = invoke(data, *FAST, "--json")
    assert "testing" in terminal.getvalue() or "pairs, given" in terminal.getvalue()
    json.loads(result.stdout)  # the bar is elsewhere


def test_an_interruption(data, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["muhat.testing.discover"], "discover", interrupt)
    out = data.parent / "r.html"
    result = invoke(data, "--report", out)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Interrupted.\n")
    assert not out.exists()
