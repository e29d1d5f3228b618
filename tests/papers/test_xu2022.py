"""The experiments of Xu et al. (2022): their parts, the quick form of figures 1 and 2, what is committed."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from muhat.datasets import orbit, orbit_step
from papers.xu2022 import __main__ as experiments
from papers.xu2022 import figure1, figure2
from papers.xu2022.baselines import extended_kalman, particles, windowed_ridge

FOLDER = Path(experiments.__file__).parent
RESULTS = FOLDER / "results"


def test_the_true_posterior_mean_is_that_of_reweighted_samples():
    rng = np.random.default_rng(0)
    problem = figure1.draw(2, rng)
    # Self-normalised importance sampling of the joint with the prior's z, from the problem's own moments.
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 4))
    V = A.T @ A / 4 + 2 * np.eye(4)
    xx, xz, zz = V[:2, :2], V[:2, 2:], V[2:, 2:]
    z = rng.multivariate_normal(np.zeros(2), zz / 2, size=400_000)
    gain = xz @ np.linalg.inv(zz)
    spread = np.linalg.inv(xx - gain @ xz.T)
    rest = problem.x[0] - 1 - z @ gain.T
    w = np.exp(-0.5 * np.einsum("ni,ij,nj->n", rest, spread, rest))
    np.testing.assert_allclose(w @ z / w.sum(), problem.truth[0], atol=0.02)


def test_filters_that_know_the_model_beat_the_observation_and_the_window_nothing_at_all():
    data = orbit(700, random_state=3)
    X, Z, tests, truth = data.X[:500], data.Z[:500], data.X[500:], data.Z[500:]
    step = partial(orbit_step, oscillatory=False)
    errors = {
        "raw": figure2.error(tests, truth),
        "EKF": figure2.error(extended_kalman(tests, step, (0.2, 0.2)), truth),
        "particles": figure2.error(particles(tests, step, (0.2, 0.2), np.random.default_rng(0)), truth),
        "window": figure2.error(windowed_ridge(X, Z, tests), truth),
    }
    assert errors["particles"] < errors["window"] < 0.75 * errors["raw"]
    assert errors["EKF"] == pytest.approx(errors["particles"], rel=0.1)


@pytest.mark.statistics
@pytest.mark.parametrize("figure", ["1", "2"])
def test_the_quick_form_leaves_tables_and_a_picture(figure, tmp_path, capsys):
    assert experiments.main(["--quick", "--figure", figure, "--out", str(tmp_path)]) == 0
    table = pl.read_csv(tmp_path / f"figure{figure}.csv")
    assert {"IW", "original"} <= set(table["method"])
    assert table["error"].is_finite().all()
    assert (tmp_path / f"figure{figure}.png").stat().st_size > 10_000
    assert "error" in capsys.readouterr().out


def test_importance_is_below_the_window_and_the_original_in_what_is_committed():
    table = pl.read_csv(RESULTS / "figure2.csv")
    for system in figure2.SYSTEMS:
        rows = {
            (r["T"], r["method"]): r for r in table.filter(pl.col("system") == system).iter_rows(named=True)
        }
        assert all(r["runs"] >= 28 for r in rows.values())
        assert rows[600, "IW"]["error"] < rows[600, "original"]["error"]
        assert rows[1000, "IW"]["error"] < rows[1000, "window"]["error"]


def test_the_readme_says_what_the_committed_tables_say():
    text = (FOLDER / "README.md").read_text()
    table = pl.read_csv(RESULTS / "figure2.csv")
    for row in table.filter(pl.col("method") == "IW").iter_rows(named=True):
        assert re.search(rf"{row['error']:.4f}".lstrip("0"), text), row
