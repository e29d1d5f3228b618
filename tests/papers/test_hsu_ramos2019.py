"""Task-transformed regression of Hsu & Ramos (2019): its parts, quick forms, what is committed."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import muhat as mh
from papers.hsu_ramos2019 import __main__ as experiments
from papers.hsu_ramos2019 import figure3, figure4
from papers.hsu_ramos2019.baselines import cascade, impute
from papers.hsu_ramos2019.toys import (
    F_POINTS,
    F_VALUES,
    R_POINTS,
    R_VALUES,
    Task,
    draw_direct,
    draw_task,
    f,
    r,
)

RESULTS = Path(experiments.__file__).parent / "results"


def test_functions_go_through_their_points():
    np.testing.assert_allclose(f(F_POINTS), F_VALUES, atol=1e-9)
    np.testing.assert_allclose(r(R_POINTS), R_VALUES, atol=1e-9)


def test_data_have_the_noise_of_the_paper():
    task = draw_task(0, 20_000, 20_000)
    assert np.std(task.x - r(task.y)) == pytest.approx(0.25, rel=0.03)
    # z varies about g by its own noise, and by f where x varies.
    assert np.std(task.z_task - f(r(task.y_task))) > 0.25
    y, z = draw_direct(0, 20_000)
    assert np.std(z - f(y)) == pytest.approx(0.25, rel=0.03)
    assert np.abs(y).max() <= 5


def test_baselines_are_right_where_x_and_y_are_the_same():
    """Without noise between x and y, and with x = y, both naive ways are plain regression."""
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(-3, 3, 60), rng.uniform(-3, 3, 60)
    task = Task(y, y, y_task, np.sin(y_task))
    x = np.linspace(-2.5, 2.5, 20)
    np.testing.assert_allclose(impute(task, x), np.sin(x), atol=0.02)
    np.testing.assert_allclose(cascade(task, x), np.sin(x), atol=0.02)


@pytest.mark.statistics
def test_figure_3_runs(tmp_path):
    assert experiments.main(["--quick", "--figure", "3", "--seeds", "1", "--out", str(tmp_path)]) == 0
    rows = pl.read_csv(tmp_path / "figure3_seeds.csv")
    assert set(rows["method"]) == {"TTGP, full", "TTGP, MAP", "cascade", "impute"}
    errors = dict(zip(rows["method"], rows["rmse"], strict=True))
    assert errors["TTGP, full"] < errors["impute"] < errors["cascade"]
    assert (tmp_path / "figure3.png").stat().st_size > 10_000


@pytest.mark.statistics
def test_figure_4_runs(tmp_path):
    assert experiments.main(["--quick", "--figure", "4", "--out", str(tmp_path)]) == 0
    rows = pl.read_csv(tmp_path / "figure4_seeds.csv")
    value = dict(zip(rows["model"], rows["log likelihood"], strict=True))
    assert value["five learned points, jointly"] >= value["full, learned"] >= value["full, true"]
    assert value["five learned points, true"] >= value["five random points, true"]
    assert (tmp_path / "figure4.png").stat().st_size > 10_000


def test_committed_tables_say_what_was_asked_for():
    """[HR19, Fig. 3, 4]: below both naive ways, bands that cover, five points that reach a hundred."""
    table = {row["method"]: row for row in pl.read_csv(RESULTS / "figure3.csv").iter_rows(named=True)}
    ours = table["TTGP, full"]
    assert ours["mean rmse"] < min(table["cascade"]["mean rmse"], table["impute"]["mean rmse"])
    assert 0.9 <= ours["coverage of 95% bands"] <= 0.98
    rows = pl.read_csv(RESULTS / "figure3_seeds.csv")
    assert rows["seed"].n_unique() == figure3.SEEDS
    again = {row["method"]: row["mean rmse"] for row in figure3.summary(rows.to_dicts())}
    assert again["impute"] == pytest.approx(table["impute"]["mean rmse"], rel=1e-4)
    sparse = {row["model"]: row for row in pl.read_csv(RESULTS / "figure4.csv").iter_rows(named=True)}
    joint = sparse["five learned points, jointly"]
    assert joint["reaches full, learned on"] == f"{figure4.SEEDS} of {figure4.SEEDS}"
    assert joint["log likelihood"] >= sparse["full, learned"]["log likelihood"]


def test_one_figure_of_the_committed_table_is_made_again():
    rows = pl.read_csv(RESULTS / "figure3_seeds.csv").filter(
        (pl.col("seed") == 0) & (pl.col("method") == "TTGP, full")
    )
    model = mh.TaskTransformedGP().fit(*draw_task(0))
    error = np.sqrt(np.mean((model.predict(figure3.GRID) - f(figure3.GRID)) ** 2))
    assert error == pytest.approx(rows["rmse"][0], rel=0.05)
