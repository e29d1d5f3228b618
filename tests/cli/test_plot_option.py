"""Every verb writes its figure alone with --plot, and refuses names that cannot be meant."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from muhat.cli import app

VERBS = {
    "compare": ["a.csv", "b.csv", "--permutations", "19"],
    "depend": ["a.csv", "--x", "u", "--y", "v", "--permutations", "19"],
    "discover": ["a.csv"],
    "density": ["a.csv", "--y", "v", "--x", "u", "--at", "u=0"],
    "posterior": ["a.csv", "--theta", "u", "--x", "v", "--observed", "v=0", "--method", "rejection"],
    "regress": ["bags.csv", "--group", "g", "--target", "t"],
    "direction": ["a.csv"],
}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        u = rng.normal(size=80)
        pl.DataFrame({"u": u, "v": u + 0.3 * rng.normal(size=80)}).write_csv(f"{name}.csv")
    g = np.repeat(np.arange(12), 10)
    pl.DataFrame({"g": g, "t": 1.0 * g, "x": rng.normal(size=120) + g}).write_csv("bags.csv")
    return tmp_path


def run(verb, *more):
    return CliRunner().invoke(app, [verb, *VERBS[verb], *more])


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_writes_its_figure(verb, tables):
    result = run(verb, "--plot", "figure.png")
    assert result.exit_code == 0, result.output
    data = (tables / "figure.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
    assert min(width, height) > 200


@pytest.mark.parametrize(("name", "start"), [("f.svg", b"<?xml"), ("f.PDF", b"%PDF")])
def test_formats(name, start, tables):
    assert run("direction", "--plot", name).exit_code == 0
    assert (tables / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--plot", "figure.gif"], "--plot 'figure.gif' must end in .png, .pdf or .svg"),
        (["--plot", "a.csv"], "--plot 'a.csv' is a file of data"),
        (["--plot", "x/figure.png"], "there is no folder 'x'"),
        (["--report", "f.png", "--plot", "f.png"], "--report and --plot are both 'f.png'"),
    ],
)
def test_refusals_come_before_any_work(more, message, tables):
    result = run("direction", *more)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not list(tables.glob("*.png"))
