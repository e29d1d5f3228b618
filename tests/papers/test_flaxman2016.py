"""The figures of Flaxman et al. (2016): their parts, the whole in its quick form, and what is committed."""

import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import muhat as mh
from muhat.datasets import gaussian_grid, normal_and_laplace
from papers.flaxman2016 import __main__ as figures
from papers.flaxman2016 import figure1, figure2, figure3, figure4
from papers.flaxman2016.learning import learn_lengthscale, profile, shared_problem

FOLDER = Path(figures.__file__).parent
RESULTS = FOLDER / "results"
PICTURES = ["figure1", "figure2", "figure3", "figure4_learned", "figure4_median", "figure4_kci"]
has_ozone = (Path(os.environ.get("MUHAT_DATA", "nowhere")) / "la_ozone_330.csv.gz").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(("d", "points", "noise"), [(1, None, None), (2, 20, 1.0)])
def test_sharing_what_is_compiled_changes_nothing(d, points, noise):
    for seed, scale in ((0, 1.0), (1, 40.0)):  # the second reuses what the first compiled
        X = scale * gaussian_grid(8, 3.0, random_state=seed)[:, :d]
        ours = learn_lengthscale(X, points, noise, random_state=seed)
        theirs = mh.learn_kernel(X, mh.Gaussian("median"), points=points, noise=noise, random_state=seed)
        assert ours.kernel.lengthscale == pytest.approx(theirs.kernel.lengthscale, rel=1e-3)
        assert ours.noise == pytest.approx(theirs.noise, rel=1e-2)
        assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, rel=1e-9)


@pytest.mark.slow
def test_the_profile_peaks_where_learning_ends():
    X = gaussian_grid(8, 3.0)[:, :1]
    for noise in (1.0, None):
        best = learn_lengthscale(X, 20, noise)
        ell = float(best.kernel.lengthscale)
        values = profile(
            shared_problem(X, 20, noise, np.random.default_rng(0)), ell * np.array([0.7, 1.0, 1.4])
        )
        assert values.argmax() == 1
        assert values[1] == pytest.approx(best.log_likelihood, abs=1e-2)


def test_the_true_embedding_is_that_of_a_large_sample():
    kernel, grid = mh.Gaussian(figure1.LENGTHSCALE), np.linspace(-1, 1, 9)[:, None]
    X = figure1.sample(100_000, np.random.default_rng(0))
    np.testing.assert_allclose(
        figure1.true_embedding(kernel, grid), np.asarray(mh.embed(X, kernel)(grid)), atol=5e-3
    )


def test_the_true_witness_is_that_of_large_samples():
    grid, kernel = np.linspace(-2, 2, 9), mh.Gaussian(0.3)
    x, y = normal_and_laplace(200_000)
    empirical = np.asarray((mh.embed(x, kernel) - mh.embed(y, kernel))(grid[:, None]))
    np.testing.assert_allclose(figure3._true_witness(grid, 0.3), empirical, atol=5e-3)


def test_the_interval_of_a_proportion():
    assert figure2.interval(0, 30) == pytest.approx((0.0, 0.1135), abs=1e-4)
    assert figure2.interval(15, 30) == pytest.approx((0.3315, 0.6685), abs=1e-4)


def test_where_a_band_leaves_zero_out():
    low, high = np.array([-1.0, 0.1, -2.0, 0.0]), np.array([1.0, 1.0, -0.1, 1.0])
    assert figure3.excluded(low, high, np.array([1.0, 2.0, 1.0, 4.0])) == pytest.approx(3 / 8)


def test_how_an_edge_is_written():
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=(2, 400))
    b = a + c + 0.5 * rng.normal(size=400)
    graph = mh.discover(pl.DataFrame({"a": a, "b": b, "c": c}), test="fisher-z")
    assert [figure4.edge(graph, *pair) for pair in ("ab", "ba", "ac")] == ["→", "←", "none"]
    b = a + 0.5 * c
    graph = mh.discover(pl.DataFrame({"a": a, "b": b}), test="fisher-z")
    assert figure4.edge(graph, "a", "b") == figure4.edge(graph, "b", "a") == "—"


def test_figure_4_without_its_table_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    assert figures.main(["--figure", "4", "--out", str(tmp_path / "new")]) == 1
    assert "la_ozone_330.csv.gz" in capsys.readouterr().err
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.statistics
def test_everything_runs_in_its_quick_form(tmp_path, capsys):
    assert figures.main(["--quick", "--out", str(tmp_path)]) == 0
    errors = pl.read_csv(tmp_path / "figure2_errors.csv")
    found = {
        (row["ratio"], row["method"]): row["type_2_error"]
        for row in errors.filter(pl.col("sampling") == "stratified").iter_rows(named=True)
    }
    assert found[10.0, "median"] == 1.0
    assert found[10.0, "BKL τ²=1"] == found[10.0, "BKL"] == found[10.0, "aggregate"] == 0.0
    bands = pl.read_csv(tmp_path / "figure3.csv").filter(pl.col("x").abs() < 1)
    width = {n: (bands[f"high_{n}_covariance"] - bands[f"low_{n}_covariance"]).mean() for n in (50, 400)}
    assert width[400] < 0.6 * width[50]  # like 1/√n
    printed = capsys.readouterr()
    names = PICTURES if has_ozone else PICTURES[:3]
    assert has_ozone == ("figure 4 left out" not in printed.err)
    for name in names:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


# What is committed.


def test_pictures_are_small_and_shown():
    text = (FOLDER / "README.md").read_text()
    for name in PICTURES:
        assert f"results/{name}.png" in text
    for file in re.findall(r"results/[\w.]+", text):
        assert (FOLDER / file).is_file(), file
    for file in RESULTS.iterdir():
        assert file.stat().st_size < 200_000, file.name


def test_the_readme_gives_the_errors_of_the_table():
    text = (FOLDER / "README.md").read_text()
    errors = pl.read_csv(RESULTS / "figure2_errors.csv")
    for (sampling, method), rows in errors.group_by("sampling", "method"):
        cells = " | ".join(f"{value:.2f}" for value in rows.sort("ratio")["type_2_error"])
        name = figure2.METHODS[str(method)]
        assert f"| {sampling} | {name} | {cells} |" in text


def test_the_claims_of_figures_2_and_3_hold_in_what_is_committed():
    errors = pl.read_csv(RESULTS / "figure2_errors.csv")
    error = {
        (row["sampling"], row["method"], row["ratio"]): row["type_2_error"]
        for row in errors.iter_rows(named=True)
    }
    for sampling in figure2.SAMPLING:
        for method in ("BKL τ²=1", "BKL", "aggregate"):
            assert error[sampling, method, 1.0] >= 0.8  # the level
            assert max(error[sampling, method, ratio] for ratio in (4.0, 6.0, 10.0)) <= 0.05
            assert error[sampling, method, 2.0] <= 0.5
        assert min(error[sampling, "median", ratio] for ratio in (2.0, 4.0, 6.0, 10.0)) >= 0.7
    curve = pl.read_csv(RESULTS / "figure2_curves.csv")
    assert curve["lengthscale"][curve["tau2_1"].arg_max()] == pytest.approx(0.85, abs=0.15)
    posterior = pl.read_csv(RESULTS / "figure3_posterior.csv")
    assert posterior["R̂"].max() < 1.05
    shares = {(row["n"], row["noise"]): row["without 0"] for row in posterior.iter_rows(named=True)}
    assert shares[50, "sampled τ²"] < 0.1 < 0.3 < shares[400, "covariance of k"]
