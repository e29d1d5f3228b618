"""``--groups``, ``--blocks``, ``--strata`` and ``--weights``: columns that say what belongs together."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import muhat as mh
from muhat.cli import app

FEW = ("--permutations", "99")


def table(seed):
    rng = np.random.default_rng(seed)
    clinic = np.repeat(np.arange(8), 5)
    level = rng.normal(size=(2, 8))[:, clinic]
    x, y = level + rng.normal(size=(2, 40))
    return pl.DataFrame(
        {
            "x": x,
            "y": y,
            "clinic": [f"{seed}-{c}" for c in clinic],
            "site": clinic % 2,
            "w": rng.uniform(1, 2, 40),
        }
    )


@pytest.fixture
def files(tmp_path):
    for seed in (0, 1):
        table(seed).write_csv(tmp_path / f"{seed}.csv")
    return [str(tmp_path / "0.csv"), str(tmp_path / "1.csv")]


def record(*args):
    found = CliRunner().invoke(app, [*args, *FEW, "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def refused(*args):
    found = CliRunner().invoke(app, [*args, *FEW])
    assert found.exit_code == 2
    return found.output


def test_compare_is_the_library(files):
    found = record("compare", *files, "--groups", "clinic", "--strata", "site", "--weights", "w")
    expected = mh.two_sample_test(
        table(0), table(1), groups="clinic", strata="site", weights="w", permutations=99, random_state=0
    )
    assert found["columns"] == ["x", "y"]
    assert found["pvalue"] == expected.pvalue
    assert found["restriction"] == expected.restriction.record
    assert "16 groups of rows moved within 2 strata" in found["summary"]


def test_depend_is_the_library(files):
    found = record("depend", files[0], "--x", "x", "--y", "y", "--groups", "clinic")
    frame = table(0)
    expected = mh.independence_test(
        frame[["x"]], frame[["y"]], groups=frame["clinic"], permutations=99, random_state=0
    )
    assert found["pvalue"] == expected.pvalue
    assert found["restriction"]["groups"] == 8
    given = record("depend", files[0], "--x", "x", "--y", "y", "--given", "w", "--blocks", "site")
    assert given["restriction"]["strata"] == 2


def test_what_is_refused(files):
    assert "no column" in refused("compare", *files, "--groups", "klinik")
    assert "in two of" in refused("compare", *files, "--groups", "clinic", "--strata", "clinic")
    assert "leave it out" in refused("depend", files[0], "--x", "x", "--y", "y", "--groups", "x")
    assert "cut" in refused("compare", *files, "--groups", "site", "--strata", "clinic")
