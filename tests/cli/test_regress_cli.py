"""``muhat regress``: a number or a class of groups of rows."""

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


def table(groups=40, seed=0, first=0):
    """Groups of N(m, s²) with the target log s, which the mean says nothing of."""
    rng = np.random.default_rng(seed)
    frames = []
    for g in range(groups):
        s, n = rng.uniform(0.5, 2), int(rng.integers(10, 40))
        x = rng.normal() + s * rng.standard_normal(n)
        frames.append(
            pl.DataFrame(
                {
                    "who": [f"g{first + g:03d}"] * n,
                    "x": x,
                    "spread": [float(np.log(s))] * n,
                    "kind": ["wide" if s > 1.1 else "narrow"] * n,
                }
            )
        )
    return pl.concat(frames)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regress")
    table().write_csv(folder / "bags.csv")
    table(12, 1, 100).drop("spread", "kind").write_csv(folder / "new.csv")
    return folder


def invoke(*args):
    return CliRunner().invoke(app, ["regress", *map(str, args)])


@pytest.mark.slow
def test_new_groups_get_the_predictions_of_the_model(files):
    out = files / "out.csv"
    chosen = ["--group", "who", "--target", "spread", "--columns", "x", "--at", files / "new.csv"]
    written = ["--predictions", out, "--report", files / "report.html", "--json"]
    result = invoke(files / "bags.csv", *chosen, *written)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    frame = table()
    bags, y = mh.Bags.from_table(frame, "who", ["x"]), frame.group_by("who").first().sort("who")["spread"]
    model = mh.DistributionRegressor(random_state=0).fit(bags, y.to_numpy())
    mean, std = model.predict(mh.Bags.from_table(table(12, 1, 100), "who", ["x"]), return_std=True)
    rows = found["predictions"]
    assert [row["who"] for row in rows] == [f"g{i}" for i in range(100, 112)]
    np.testing.assert_allclose([row["predicted"] for row in rows], mean, rtol=1e-6)
    np.testing.assert_allclose([row["high"] - row["low"] for row in rows], 2 * 1.6449 * std, rtol=1e-3)
    np.testing.assert_allclose(pl.read_csv(out)["predicted"], mean, rtol=1e-6)
    # Better than always the mean, by groups that were left out.
    assert 0.5 < found["held_out"]["r2"] < 1
    assert 0.7 < found["held_out"]["coverage"] <= 1
    assert found["looks_at"]["place"] < 0.3
    check_report((files / "report.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_text_is_a_class_and_the_table_shows_groups_left_out(files):
    result = invoke(files / "bags.csv", "--group", "who", "--target", "kind", "--drop", "spread")
    assert result.exit_code == 0, result.output
    assert "get the right kind" in result.output
    assert "g000" in result.output
    share = int(result.output.split("%")[0].split()[-1])
    assert share >= 70


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--group", "whom", "--target", "spread"], "did you mean 'who'"),
        (["--group", "who", "--target", "x", "--drop", "kind"], "Group 'g000' has"),
        (["--group", "who", "--target", "who"], "must be different columns"),
        (["--group", "who", "--target", "spread"], "holds categories"),
        (["--group", "who", "--target", "spread", "--columns", "x", "--level", "2"], "--level must lie"),
        (["--group", "kind", "--target", "kind", "--columns", "x"], "must be different"),
    ],
)
def test_bad_use(files, args, message):
    result = invoke(files / "bags.csv", *args)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize("name", ["rows", "predicted", "probability", "sd", "low", "high", "truth"])
def test_a_group_column_with_the_name_of_an_answer_is_refused(name, tmp_path):
    table(12).rename({"who": name}).write_csv(tmp_path / "bags.csv")
    result = invoke(tmp_path / "bags.csv", "--group", name, "--target", "spread", "--columns", "x")
    assert result.exit_code == 2
    assert f"--group {name!r} is a column of what is written" in " ".join(result.output.split())


def test_predictions_and_report_are_two_files(files):
    both = ["--predictions", files / "one.html", "--report", files / "one.html"]
    result = invoke(files / "bags.csv", "--group", "who", "--target", "spread", "--columns", "x", *both)
    assert result.exit_code == 2
    assert "give them two names" in " ".join(result.output.split())
    assert not (files / "one.html").exists()


def test_too_few_groups_and_a_new_file_without_the_columns(files, tmp_path):
    table(5).write_csv(tmp_path / "few.csv")
    result = invoke(tmp_path / "few.csv", "--group", "who", "--target", "spread", "--columns", "x")
    assert (result.exit_code, "5 groups" in result.output) == (2, True)
    table(5).drop("x").write_csv(tmp_path / "none.csv")
    result = invoke(
        files / "bags.csv",
        "--group",
        "who",
        "--target",
        "spread",
        "--columns",
        "x",
        "--at",
        tmp_path / "none.csv",
    )
    assert (result.exit_code, "no column 'x'" in result.output) == (2, True)
