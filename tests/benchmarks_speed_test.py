"""Speed beside the peers: the jobs, what a run writes, the README's table of it, and growth with the rows."""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import scaling
from benchmarks.peers import report
from benchmarks.peers.distributions import largest_l1
from benchmarks.peers.limits import limits
from benchmarks.peers.timing import Timing, contest
from benchmarks.peers.workloads import WORKLOADS
from muhat.datasets import donut_pdf

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
OURS = Timing("kci", 2000, "ours", cold=0.5, warm=0.2, memory=2e8, answer=0.3, measure="p-value", date="d")
PEER = replace(OURS, name="causal-learn", cold=3.0, warm=2.0, answer=0.31)


def answers(workload: str, n: int, *names: str) -> list[float | None]:
    made = WORKLOADS[workload].contestants(n)
    return [made[name].score(made[name].run()) for name in names]


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_every_workload_has_ours_and_a_title(workload: str):
    assert WORKLOADS[workload].job
    assert "ours" in WORKLOADS[workload].contestants(100)


@pytest.mark.slow
def test_the_jobs_load_nothing_that_first_calls_should_load():
    code = "import sys, benchmarks.peers.workloads; print([m for m in ('jax', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_ridge_is_the_same_function_by_both():
    made = WORKLOADS["ridge"].contestants(300)
    np.testing.assert_allclose(made["ours"].run(), made["scikit-learn KernelRidge"].run(), atol=1e-9)


def test_errors_are_against_the_truth():
    assert largest_l1(donut_pdf) == 0.0
    assert largest_l1(lambda x, y: np.zeros((len(x), len(y)))) == pytest.approx(1.0, abs=0.02)
    ours, theirs = answers("ridge-landmarks", 3000, "ours", "scikit-learn Nystroem, Ridge")
    assert ours == pytest.approx(theirs, rel=0.2)
    assert ours is not None
    assert ours < 0.2
    (ratio,) = answers("ratio", 500, "ours, uLSIF")
    assert ratio is not None
    assert ratio < 0.4  # the ratio itself has a standard deviation of about 0.9


@pytest.mark.statistics
def test_a_contest_times_all_and_keeps_their_answers():
    ours, theirs = contest("ridge", 60, 1)
    assert (ours.name, theirs.name) == ("ours", "scikit-learn KernelRidge")
    assert ours.answer == pytest.approx(theirs.answer)
    assert ours.measure == "RMSE"
    assert all(t.cold and t.warm and t.memory and t.date for t in (ours, theirs))


def test_timings_are_read_as_written(tmp_path: Path):
    slow = replace(OURS, name="other", warm=None, answer=None, extrapolated=True)
    failed = Timing("kci", 2000, "third", reason="not installed, or so", date="d")
    timings = [OURS, PEER, slow, failed]
    report.write(tmp_path, timings, limits(timings))
    assert report.read(tmp_path / "peers.csv") == timings
    text = (tmp_path / "peers.md").read_text(encoding="utf-8")
    assert text.splitlines()[2].startswith(f"d. {report.machine()}")
    assert "Python 3." in text
    assert "| conditional independence test | 2000 | other | – | 0.5e |" in text


def test_a_pair_compares_like_with_like_at_the_largest_common_size():
    larger = [replace(OURS, n=5000, warm=0.4, cold=0.8), replace(PEER, n=5000, warm=None, cold=8.0)]
    (pair,) = report.pairs([*larger, OURS, PEER, replace(OURS, n=9000)])
    assert (pair.ours.n, pair.warm, pair.ratio) == (5000, False, pytest.approx(10.0))
    (pair,) = report.pairs([OURS, PEER])
    assert (pair.warm, pair.ratio) == (True, pytest.approx(10.0))
    assert not report.pairs([OURS, replace(PEER, reason="failed")])


def test_the_table_goes_between_its_marks(tmp_path: Path):
    report.write(tmp_path, [OURS, PEER], [])
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}old\n{report.END}after\n", encoding="utf-8")
    for _ in range(2):  # again changes nothing
        report.readme(page, tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{report.BEGIN}\nd. ")
    assert text.endswith(f"\n\n{report.END}after\n")
    assert "old" not in text
    assert "n = 2000 | 0.2 s | causal-learn: 2 s | 10× | 0.3 / 0.31 p-value |" in text


def test_the_readme_shows_what_was_measured():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = text.split(report.BEGIN)[1].split(report.END)[0].strip().split("\n\n")
    about = (RESULTS / "peers.md").read_text(encoding="utf-8").split("\n\n")[1]
    assert shown == [about, report.speed_table(report.read(RESULTS / "peers.csv"))]


def test_the_picture_has_a_bar_for_each_peer(tmp_path: Path):
    report.picture(tmp_path, [OURS, PEER, replace(PEER, name="faster", warm=0.1, extrapolated=True)])
    assert (tmp_path / "peers.png").stat().st_size > 5000


def test_errors_have_limits_too():
    ours = Timing("bags", 300, "ours", cold=1.0, warm=1.0, answer=0.2, measure="RMSE")
    better = replace(ours, name="boosting on mean features", answer=0.19)
    worse = replace(ours, name="boosting on mean and covariance", answer=0.21)
    assert [f.holds for f in limits([ours, better, worse])] == [False, True]
    ours, sbi = (
        Timing("posterior", 1000, name, cold=c, answer=0.16) for name, c in (("ours", 1), ("sbi NPE", 11))
    )
    assert [f.holds for f in limits([ours, sbi])] == [True, False]  # a tenth of the time; W1 above 0.15


def test_the_exponent_is_that_of_the_last_two_decades():
    n = [10**3, 10**4, 10**5, 10**6]
    assert scaling.exponent(n, [7.0, *(1e-6 * m**1.2 for m in n[1:])]) == pytest.approx(1.2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = str(tmp_path_factory.mktemp("rows"))
    scaling.write_rows(out, 2000)
    return out


@pytest.mark.parametrize("name", [name for name in scaling.JOBS if name not in ("bags", "exact")])
def test_growth_is_measured_on_answers_that_memory_gives_too(name: str, folder: str):
    here, there = (
        scaling.JOBS[name].run(scaling.Rows.open(folder, 2000, loaded)) for loaded in (True, False)
    )
    np.testing.assert_allclose(here, there, rtol=1e-6, atol=1e-9)


def test_growth_is_drawn_and_judged(tmp_path: Path):
    rows = [{"job": "a", "n": n, "seconds": n / 1e3, "exponent": "1.2", "limit": 1.1} for n in (1000, 10_000)]
    assert [f.holds for f in scaling.figures(rows)] == [False]
    scaling.write([row | {"job": "a, exact"} for row in rows], tmp_path / "scaling.csv")
    with (tmp_path / "scaling.csv").open(newline="", encoding="utf-8") as file:
        assert [(row["job"], row["n"]) for row in csv.DictReader(file)] == [
            ("a, exact", "1000"),
            ("a, exact", "10000"),
        ]
    scaling.picture(rows, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").stat().st_size > 5000
