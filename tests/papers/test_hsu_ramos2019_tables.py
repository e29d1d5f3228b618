"""The scores of likelihood-free inference, and its table in a small version."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from papers.hsu_ramos2019 import peers, scores, tables


@pytest.mark.slow
def test_scores_of_known_differences():
    rng = np.random.default_rng(0)
    truth = rng.normal(0, 2, (4000, 2))
    moved = truth + np.array([1.0, 0.0])
    assert scores.wasserstein(moved[:, 0], truth[:, 0]) == pytest.approx(0.5, rel=0.05)
    assert scores.mean_error(moved, truth) == pytest.approx(0.25, rel=0.05)
    assert scores.sd_ratio(truth * [4, 1], truth) == pytest.approx(2.0)
    same, far = rng.normal(0, 2, (600, 2)), truth + 20
    assert scores.c2st(same, truth[:600]) == pytest.approx(0.5, abs=0.06)
    assert scores.c2st(far, truth[:600]) > 0.99
    # Bayes' classifier of N(0, 1) against N(1, 1) is right with probability Φ(½).
    half = scores.c2st(rng.normal(1, 1, (1000, 1)), rng.normal(0, 1, (1000, 1)))
    assert half == pytest.approx(stats.norm.cdf(0.5), abs=0.03)


def test_rejection_keeps_the_nearest():
    theta, x = np.arange(100.0)[:, None], np.stack([np.arange(100.0), np.zeros(100)], axis=1)
    x[:, 1] = np.random.default_rng(0).normal(0, 1e-3, 100)
    draws, _ = peers.rejection(None, theta, x, np.array([[50.2, 0.0]]), 0)  # type: ignore[arg-type]
    assert draws.shape == (1, peers.DRAWS, 1)
    assert len(np.unique(draws)) == 5


def test_the_exact_posterior_scores_zero():
    x, truths = tables.observations("exponential_gamma")
    assert x.shape == (10, 1)
    draws = np.stack([truth[::10][: peers.DRAWS] for truth in truths])
    found = tables.score("exponential_gamma", draws, truths)
    assert found["w1"] < 0.01
    assert found["sd ratio"] == pytest.approx(1, abs=0.02)


def test_the_table_is_written(tmp_path):
    tables.run(tmp_path, methods=["rejection"], cases=[("exponential_gamma", 200, 2)])
    table = pl.read_csv(tmp_path / "tables.csv")
    runs = pl.read_csv(tmp_path / "tables_runs.csv")
    assert table["method"].to_list() == ["rejection"]
    assert table["w1"][0] == pytest.approx(runs["w1"].mean(), rel=1e-4)
    assert 0.05 < table["w1"][0] < 0.8


def test_runs_are_not_made_again(tmp_path):
    cases = [("exponential_gamma", 100, 1)]
    tables.run(tmp_path, methods=["rejection"], cases=cases)
    path = tmp_path / "tables_runs.csv"
    path.write_text(path.read_text().replace("rejection", "other"))
    tables.run(tmp_path, methods=["rejection"], cases=cases)
    tables.run(tmp_path, methods=["rejection"], cases=cases)
    assert sorted(pl.read_csv(path)["method"]) == ["other", "rejection"]
