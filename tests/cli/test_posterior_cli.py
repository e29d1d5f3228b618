"""``muhat posterior``: parameters from simulations in a file and one observation."""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from muhat.cli import app
from muhat.datasets import exponential_gamma_posterior, simulator
from muhat.models.likelihood_free import LikelihoodFree

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from html_checks import check_report  # type: ignore[import-not-found]

TASK = simulator("exponential_gamma")


def table(n=150):
    """The rate and its mean waiting time; a second parameter that its own statistic shows, and the rest."""
    rng = np.random.default_rng(0)
    rate = TASK.prior(n, rng)
    wait = TASK.simulate(rate, rng)[:, 0]
    shift = rng.normal(0, 1, n)
    return pl.DataFrame(
        {
            "rate": rate[:, 0],
            "wait": wait,
            "shift": shift,
            "seen": shift + 0.3 * rng.standard_normal(n),
            "kind": np.where(wait > 0.4, "<b>", "[red]"),
            "one": np.ones(n),
        }
    )


@pytest.fixture
def data(tmp_path):
    table().write_csv(tmp_path / "sims.csv")
    return tmp_path / "sims.csv"


def invoke(*args):
    return CliRunner().invoke(app, ["posterior", *map(str, args)])


def record(*args):
    result = invoke(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


RATE = ("--theta", "rate", "--x", "wait", "--observed", "wait=0.4")


def test_json_is_what_the_library_says_and_near_the_exact_posterior(data):
    found = record(data, *RATE, "--seed", 3, "--level", 0.8)
    frame = table()
    model = LikelihoodFree(random_state=3).fit(frame[["rate"]].to_numpy(), frame[["wait"]].to_numpy())
    mu = model.posterior(np.array([[0.4]]))
    (rate,) = found["parameters"]
    assert found["method"] == model.method_
    assert rate["mean"] == pytest.approx(np.ravel(mu.mean())[0], rel=1e-3)
    assert rate["interval"] == pytest.approx(np.ravel(mu.quantile([0.1, 0.9])))
    assert rate["quantiles"]["0.25"] == pytest.approx(np.ravel(mu.quantile(0.25))[0])
    exact = exponential_gamma_posterior(0.4)
    assert abs(rate["mean"] - exact.mean()) < 0.5 * exact.std()
    assert 0.6 < rate["sd"] / exact.std() < 1.6
    assert rate["prior_mean"] == pytest.approx(frame["rate"].mean())
    assert (found["rows"], found["observed"], found["dropped_rows"]) == (150, {"wait": 0.4}, 0)
    assert found["notes"] == [
        "The support was not given and is taken from the simulations: rate positive. If that is wrong, give "
        "--bounds."
    ]
    assert (found["support"], found["support_inferred"]) == ("rate positive", True)
    assert "Given the observation, rate is" in found["summary"]
    assert record(data, *RATE, "--seed", 3, "--level", 0.8) == found


def test_two_parameters_the_report_the_plot_and_the_draws(data, tmp_path):
    report, plot, draws = tmp_path / "r.html", tmp_path / "p.png", tmp_path / "d.csv"
    result = invoke(
        data,
        *("--theta", "rate,shift", "--x", "wait,seen", "--observed", "seen=1, wait=0.4"),
        *("--method", "rejection", "--report", report, "--plot", plot, "--draws", draws),
    )
    assert result.exit_code == 0, result.output
    for word in ("rate", "shift", "prior sd", "95%", "method", "rejection", "0.4"):
        assert word in result.stdout
    assert len(check_report(report.read_text(encoding="utf-8")).all("img")) == 1
    assert plot.read_bytes().startswith(b"\x89PNG")
    drawn = pl.read_csv(draws)
    assert drawn.columns == ["rate", "shift"]
    assert drawn.height == 1000
    assert drawn["shift"].mean() == pytest.approx(0.92, abs=0.5)


def test_a_prior_of_its_own(data, tmp_path):
    before = np.random.default_rng(1).uniform(1.0, 2.0, 400)
    pl.DataFrame({"other": before, "rate": before}).write_csv(tmp_path / "prior.csv")
    found = record(data, *RATE, "--prior", tmp_path / "prior.csv")
    (rate,) = found["parameters"]
    assert rate["prior_mean"] == pytest.approx(before.mean())
    assert rate["mean"] < 2.1  # far below that under the wide prior, 2.6


def test_far_observations_are_flagged(data):
    found = record(data, "--theta", "rate", "--x", "wait", "--observed", "wait=1e6", "--method", "rejection")
    assert any("Outside everything simulated: wait" in note for note in found["notes"])


def test_missing_cells(data):
    frame = table().with_columns(wait=pl.when(pl.col("rate") > 8).then(None).otherwise(pl.col("wait")))
    lost = frame["wait"].null_count()
    assert lost > 0
    frame.write_csv(data)
    result = invoke(data, *RATE, "--method", "rejection")
    assert result.exit_code == 2
    assert "missing" in result.stderr
    found = record(data, *RATE, "--method", "rejection", "--missing", "drop")
    assert (found["rows"], found["dropped_rows"]) == (150 - lost, lost)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--theta", "rat", "--x", "wait", "--observed", "wait=1"], "rate"),
        (["--theta", "rate", "--x", "wait,rate", "--observed", "wait=1"], "both --theta and --x"),
        (
            ["--theta", "rate", "--x", "wait,seen", "--observed", "wait=1"],
            "--observed has no value for 'seen'",
        ),
        (["--theta", "rate", "--x", "wait", "--observed", "wiat=1"], "did you mean 'wait'"),
        (
            ["--theta", "rate", "--x", "wait", "--observed", "wait=much"],
            "--observed 'wait=much': 'wait' must be",
        ),
        (["--theta", "rate", "--x", "wait", "--observed", "wait=nan"], "finite"),
        (["--theta", "rate", "--x", "kind", "--observed", "kind=<b>"], "holds categories"),
        (["--theta", "one", "--x", "wait", "--observed", "wait=1"], "same in every row"),
        ([*RATE, "--method", "nuts"], "method must be one of"),
        ([*RATE, "--level", "2"], "--level must lie"),
        ([*RATE, "--plot", "figure.txt"], ".png, .pdf or .svg"),
        ([*RATE, "--report", "no/such/r.html"], "no folder"),
        ([*RATE, "--prior", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(data, arguments, words):
    result = invoke(data, *arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_data_are_not_written_over(data, tmp_path):
    before = data.read_bytes()
    for option in ("--report", "--draws"):
        result = invoke(data, *RATE, option, data)
        assert result.exit_code == 2
        assert "is a file of data" in result.stderr
    pl.DataFrame({"other": [1.0, 2.0]}).write_csv(tmp_path / "prior.csv")
    result = invoke(data, *RATE, "--prior", tmp_path / "prior.csv")
    assert "has no column 'rate'" in result.stderr
    assert data.read_bytes() == before


@pytest.fixture
def outbreak(tmp_path):
    """Reported cases of 100, with a Beta(8, 2) reporting rate that the file does not mention."""
    rng = np.random.default_rng(0)
    rho = rng.beta(8, 2, 300)
    pl.DataFrame({"rho": rho, "cases": rng.poisson(100 * rho)}).write_csv(tmp_path / "outbreak.csv")
    return tmp_path / "outbreak.csv"


@pytest.mark.parametrize("bounds", [(), ("--bounds", "rho=0..1")])
def test_numbers_stay_in_the_support(outbreak, tmp_path, bounds):
    draws = tmp_path / "draws.csv"
    asked = ("--theta", "rho", "--x", "cases", "--observed", "cases=115", "--draws", draws, *bounds)
    found = record(outbreak, *asked)
    (rho,) = found["parameters"]
    numbers = [rho["mean"], *rho["interval"], *rho["quantiles"].values(), *pl.read_csv(draws)["rho"]]
    assert max(numbers) < 1
    assert found["support"] == "rho within 0 to 1"
    said = [note for note in found["notes"] if "The support was not given" in note]
    assert len(said) == (not bounds)


def test_bad_bounds_are_refused(data):
    for text in ("rate", "rate=1", "other=0..1", "rate=a..b"):
        result = invoke(data, *RATE, "--bounds", text)
        assert result.exit_code == 2, result.output
        assert "--bounds has" in " ".join(result.output.split())
    beyond = invoke(data, *RATE, "--bounds", "rate=0..0.5")
    assert beyond.exit_code == 2
    said = " ".join(beyond.output.split())
    assert "must be within 0 to 0.5" in said
    assert "leave --bounds out" in said
    assert "prior" not in said


def test_simulations_that_equal_the_observation(tmp_path):
    rng = np.random.default_rng(0)
    chance = rng.integers(0, 4, 500) / 3
    pl.DataFrame({"chance": chance, "count": rng.binomial(3, chance)}).write_csv(tmp_path / "counts.csv")
    found = record(tmp_path / "counts.csv", "--theta", "chance", "--x", "count", "--observed", "count=0")
    assert found["matches"] >= 50
    assert found["method"] == "simulations equal to the observation"
    assert "equal the observation" in " ".join(found["notes"])
    assert found["parameters"][0]["mean"] == pytest.approx(8 / 27 / 3 / (1 + 8 / 27 + 1 / 27), abs=0.08)
    assert "chance is" in found["summary"]
