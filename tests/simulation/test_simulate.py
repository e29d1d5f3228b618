"""Simulations: the same whoever runs them and however often they are interrupted; nothing is lost unsaid."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import muhat as mh
from muhat import datasets
from muhat.simulation import CheckpointMismatch, SimulationError, SimulationInterrupted
from muhat.simulation import simulate as module_simulate

PRIOR = stats.gamma(2, scale=2)


def exponential(theta, rng):
    return rng.exponential(1 / theta[0], 5)


def sometimes(theta, rng):
    """Raises at large θ, gives NaN at small ones."""
    if theta[0] > 8:
        raise ArithmeticError(f"overflow at {theta[0]:.1f}")
    x = rng.exponential(1 / theta[0], 3)
    return np.where(theta[0] < 0.5, np.nan, x)


def same(a, b):
    np.testing.assert_array_equal(a.theta, b.theta)
    np.testing.assert_array_equal(a.x, b.x)
    assert [(f.index, f.message) for f in a.failures] == [(f.index, f.message) for f in b.failures]


class Stop:
    """A simulator that is interrupted at its k-th call."""

    __qualname__ = "exponential"  # goes by the name of the one it stands for

    def __init__(self, k, inner=exponential):
        self.left, self.inner = k, inner

    def __call__(self, theta, rng):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.inner(theta, rng)


# -- what comes out ------------------------------------------------------------------------------


def test_parameters_are_of_the_prior_and_data_of_the_simulator():
    found = mh.simulate(exponential, PRIOR, 2000, random_state=0)
    assert found.theta.shape == (2000, 1)
    assert found.x.shape == (2000, 5)
    assert (len(found), found.n, found.n_failed, found.failures) == (2000, 2000, 0, ())
    assert stats.kstest(found.theta[:, 0], PRIOR.cdf).pvalue > 0.001
    # θ times an exponential of rate θ is one of rate 1, and nothing in a row is shared with another.
    unit = found.theta * found.x
    assert stats.kstest(unit.ravel(), "expon").pvalue > 0.001
    assert len(np.unique(unit)) == unit.size
    assert "none failed" in str(found)


def test_each_simulation_has_a_seed_of_its_own():
    a = mh.simulate(exponential, PRIOR, 50, random_state=3)
    same(a, mh.simulate(exponential, PRIOR, 50, random_state=3))
    assert not np.array_equal(a.x, mh.simulate(exponential, PRIOR, 50, random_state=4).x)
    assert not np.array_equal(mh.simulate(exponential, PRIOR, 5).x, mh.simulate(exponential, PRIOR, 5).x)
    same(
        mh.simulate(exponential, PRIOR, 5, random_state=np.random.default_rng(1)),
        mh.simulate(exponential, PRIOR, 5, random_state=np.random.default_rng(1)),
    )
    fixed = mh.simulate(exponential, np.full((50, 1), 2.0), random_state=3)
    assert len(np.unique(fixed.x)) == fixed.x.size


@pytest.mark.parametrize("backend", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_workers_change_nothing(backend):
    with pytest.warns(UserWarning, match="failed"):
        alone = mh.simulate(sometimes, PRIOR, 200, random_state=1)
    with pytest.warns(UserWarning, match="failed"):
        same(alone, mh.simulate(sometimes, PRIOR, 200, workers=2, backend=backend, random_state=1))
    scale = 3.0  # functions defined anywhere work in other processes

    def local(theta, rng):
        return scale * exponential(theta, rng)

    found = mh.simulate(local, PRIOR, 20, workers=2, backend=backend, random_state=1)
    np.testing.assert_array_equal(found.x, 3 * mh.simulate(exponential, PRIOR, 20, random_state=1).x)


def test_rows_at_a_time():
    task = datasets.simulator("two_moons")
    found = mh.simulate(task, task.prior, 250, vectorized=True, batch=100, random_state=0)
    assert found.x.shape == (250, 2)
    again = mh.simulate(
        task, task.prior, 250, vectorized=True, batch=100, workers=2, backend="threads", random_state=0
    )
    same(found, again)
    numbers = mh.simulate(lambda theta: theta.sum(axis=1), task.prior, 30, vectorized=True, random_state=0)
    np.testing.assert_array_equal(numbers.x[:, 0], numbers.theta.sum(axis=1))
    with pytest.raises(ValueError, match=r"shape \(\) for 30 rows"):
        mh.simulate(lambda theta: theta.sum(), task.prior, 30, vectorized=True)


def test_a_table_for_other_programs_and_files(tmp_path):
    with pytest.warns(UserWarning, match="failed"):
        found = mh.simulate(sometimes, {"rate": PRIOR}, 100, random_state=0)
    frame = found.table()
    assert frame.columns == ["rate", "x1", "x2", "x3"]
    np.testing.assert_array_equal(frame.to_numpy(), np.hstack([found.theta, found.x]))
    mh.save(found, tmp_path / "sims.muhat")
    again = mh.load(tmp_path / "sims.muhat")
    same(found, again)
    assert again.names == ["rate"]


# -- priors --------------------------------------------------------------------------------------


def identity(theta):
    return theta


def one(rng):
    return [rng.uniform(2, 3), rng.uniform(4, 5)]


def many(n, rng):
    return np.column_stack([rng.uniform(2, 3, n), rng.uniform(4, 5, n)])


@pytest.mark.parametrize(
    ("prior", "names"),
    [
        (one, ["theta1", "theta2"]),
        (many, ["theta1", "theta2"]),
        ([stats.uniform(2, 1), stats.uniform(4, 1)], ["theta1", "theta2"]),
        ({"a": stats.uniform(2, 1), "b": stats.uniform(4, 1)}, ["a", "b"]),
        (stats.Uniform(a=2, b=3), ["theta"]),
        (stats.uniform(2, 1), ["theta"]),
        (many(60, np.random.default_rng(0)), ["theta1", "theta2"]),
        (pl.DataFrame(many(60, np.random.default_rng(0)), schema=["a", "b"]), ["a", "b"]),
        (many(60, np.random.default_rng(0)).tolist(), ["theta1", "theta2"]),
        (many(60, np.random.default_rng(0))[:, 0], ["theta"]),
    ],
    ids=["one", "many", "list", "dict", "new scipy", "frozen", "array", "frame", "lists", "vector"],
)
def test_priors_of_every_kind(prior, names):
    found = mh.simulate(identity, prior, 40, random_state=0)
    assert found.names == names
    np.testing.assert_array_equal(found.theta, found.x)
    assert found.theta.shape == (40, len(names))
    assert ((found.theta > [2, 4][: len(names)]) & (found.theta < [3, 5][: len(names)])).all()
    assert len(np.unique(found.theta[:, 0])) == 40


def test_a_correlated_prior():
    law = stats.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]])
    found = mh.simulate(identity, law, 500, random_state=0)
    assert np.corrcoef(found.theta.T)[0, 1] == pytest.approx(0.9, abs=0.05)


def test_samples_are_taken_as_they_come():
    rows = np.arange(10.0).reshape(5, 2)
    np.testing.assert_array_equal(mh.simulate(identity, rows).theta, rows)
    np.testing.assert_array_equal(mh.simulate(identity, rows, 3).theta, rows[:3])
    with pytest.raises(ValueError, match="5 rows, fewer than n = 6"):
        mh.simulate(identity, rows, 6)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"simulator": 3}, TypeError, "simulator must be a function"),
        ({"prior": 3}, TypeError, "prior must be something to draw from, got int"),
        ({"prior": ["a", "b"]}, TypeError, "neither numbers nor distributions"),
        ({"prior": lambda n, rng: np.zeros(3)}, ValueError, r"shape \(3,\) where n = 10"),
        ({"prior": lambda rng: np.nan}, ValueError, "NaN"),
        ({"prior": PRIOR, "n": None}, ValueError, "n is needed"),
        ({"n": 0}, ValueError, "n must be at least 1"),
        ({"n": 2.5}, TypeError, "whole number"),
        ({"workers": 0}, ValueError, "workers"),
        ({"backend": "fork"}, ValueError, "backend"),
        ({"on_error": "drop"}, ValueError, "on_error"),
        ({"random_state": "x"}, ValueError, "random_state"),
        ({"checkpoint": "no/such/folder/file"}, FileNotFoundError, "make no/such/folder first"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(arguments, error, match):
    def never(theta):
        raise SystemExit("simulated")

    with pytest.raises(error, match=match):
        mh.simulate(**{"simulator": never, "prior": PRIOR, "n": 10, **arguments})


# -- failures ------------------------------------------------------------------------------------


def test_failures_are_kept_with_their_parameters_and_counted():
    with pytest.warns(UserWarning, match="of 300 simulations failed"):
        found = mh.simulate(sometimes, PRIOR, 300, random_state=0)
    drawn = mh.simulate(identity, PRIOR, 300, random_state=0).theta[:, 0]
    np.testing.assert_array_equal(drawn[found.index], found.theta[:, 0])
    bad = np.flatnonzero((drawn > 8) | (drawn < 0.5))
    assert [f.index for f in found.failures] == bad.tolist()
    np.testing.assert_array_equal([f.theta[0] for f in found.failures], drawn[bad])
    assert np.isfinite(found.x).all()
    assert len(found) + found.n_failed == found.n == 300
    for failure in found.failures:
        raised = f"ArithmeticError: overflow at {failure.theta[0]:.1f}"
        assert failure.message == (raised if failure.theta[0] > 8 else failure.message)
        assert failure.theta[0] > 8 or "3 of 3 numbers that are NaN" in failure.message


def test_failures_can_stop_the_run_and_nothing_left_is_an_error(tmp_path):
    with pytest.raises(SimulationError, match=r'overflow at .*on_error="keep"') as caught:
        mh.simulate(sometimes, stats.uniform(9, 1), 5, on_error="raise")
    assert caught.value.failures[0].theta[0] > 9
    with pytest.raises(SimulationError, match="All 5 simulations failed") as caught:
        mh.simulate(sometimes, stats.uniform(9, 1), 5, checkpoint=tmp_path / "c")
    assert len(caught.value.failures) == 5
    with pytest.raises(SimulationError, match="overflow"):  # those in the file count, too
        mh.simulate(sometimes, stats.uniform(9, 1), 5, checkpoint=tmp_path / "c", on_error="raise")


def test_a_batch_that_fails_fails_alone():
    def some(theta, rng):
        if theta[0, 0] >= 10:
            raise RuntimeError("second batch")
        return np.where(theta == 3, np.inf, theta)

    with pytest.warns(UserWarning, match="failed"):
        found = mh.simulate(some, np.arange(25.0), vectorized=True, batch=10)
    assert found.theta[:, 0].tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert [f.index for f in found.failures] == [3, *range(10, 25)]


def test_outputs_of_changing_length_are_refused():
    with pytest.raises(ValueError, match=r"2 numbers at θ = \[2.0\] and 1 elsewhere"):
        mh.simulate(lambda theta: np.ones(int(theta[0])), np.array([1.0, 2.0]))


def test_the_simulator_cannot_change_the_parameters():
    def spoil(theta):
        theta[:] = 0
        return 1.0

    assert (mh.simulate(spoil, np.ones((4, 2))).theta == 1).all()


# -- interruptions -------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path):
    path = tmp_path / "sims.jsonl"
    whole = mh.simulate(exponential, PRIOR, 60, random_state=5)
    done = 0
    for stop in (7, 1, 0, 30):
        with pytest.raises(KeyboardInterrupt, match=r"the same call goes on") as caught:
            mh.simulate(Stop(stop), PRIOR, 60, random_state=5, checkpoint=path)
        done += stop
        assert isinstance(caught.value, SimulationInterrupted)
        np.testing.assert_array_equal(caught.value.simulations.x, whole.x[:done])
    calls = Stop(60 - done)  # one more would be an interrupt: nothing is simulated twice
    same(whole, mh.simulate(calls, PRIOR, 60, random_state=5, checkpoint=path))
    same(whole, mh.simulate(Stop(0), PRIOR, 60, random_state=5, checkpoint=path))
    same(whole, mh.simulate(Stop(0), PRIOR, 60, checkpoint=path))  # the seed is in the file


def test_what_is_done_without_a_checkpoint_is_in_the_error():
    with pytest.raises(SimulationInterrupted, match="give checkpoint=path") as caught:
        mh.simulate(Stop(7), PRIOR, 60, random_state=5)
    assert len(caught.value.simulations) == 7
    with pytest.raises(SimulationInterrupted) as caught:
        mh.simulate(Stop(0), PRIOR, 60, random_state=5)
    assert caught.value.simulations is None


def test_failures_outlive_interruptions(tmp_path):
    path = tmp_path / "c"
    with pytest.warns(UserWarning, match="failed"):
        whole = mh.simulate(sometimes, PRIOR, 80, random_state=2)
    stopped = Stop(50, sometimes)
    stopped.__qualname__ = "sometimes"
    with pytest.raises(KeyboardInterrupt):
        mh.simulate(stopped, PRIOR, 80, random_state=2, checkpoint=path)
    with pytest.warns(UserWarning, match="failed"):
        same(whole, mh.simulate(sometimes, PRIOR, 80, random_state=2, checkpoint=path))


SCRIPT = """
import sys, time
import muhat as mh
from scipy import stats

def slow(theta, rng):
    time.sleep(0.02)
    return rng.normal(theta[0], 1.0, 4)

if __name__ == "__main__":
    mh.simulate(slow, stats.norm(), 100_000, random_state=0, checkpoint=sys.argv[1])
"""


@pytest.mark.statistics
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL, which this system has not")
def test_a_killed_process_loses_nothing_but_what_was_running(tmp_path):
    path, script = tmp_path / "sims", tmp_path / "run.py"
    script.write_text(SCRIPT)
    root = Path(mh.__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, str(script), str(path)], env={**os.environ, "PYTHONPATH": str(root)}
    )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and (not path.exists() or path.read_bytes().count(b"\n") < 20):
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    lines = path.read_bytes().split(b"\n")[:-1]
    assert len(lines) >= 20

    class Slow(Stop):
        __qualname__ = "slow"

    normal = Slow(3, lambda theta, rng: rng.normal(theta[0], 1.0, 4))
    with pytest.raises(SimulationInterrupted) as caught:
        mh.simulate(normal, stats.norm(), 100_000, random_state=0, checkpoint=path)
    found = caught.value.simulations
    assert len(found) == len(lines) - 1 + 3
    expected = mh.simulate(normal.inner, found.theta, random_state=0)
    np.testing.assert_array_equal(found.x, expected.x)


def test_a_line_cut_short_is_simulated_again(tmp_path):
    path = tmp_path / "c"
    whole = mh.simulate(exponential, PRIOR, 10, random_state=0, checkpoint=path)
    data = path.read_bytes()
    for cut in (len(data) - 1, len(data) - 30, 5):
        path.write_bytes(data[:cut])
        same(whole, mh.simulate(exponential, PRIOR, 10, random_state=0, checkpoint=path))
        same(whole, mh.simulate(Stop(0), PRIOR, 10, random_state=0, checkpoint=path))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n": 11}, r"another n \(10 there, 11 here\)"),
        ({"random_state": 1}, "another random_state"),
        ({"prior": stats.gamma(3)}, "other draws of prior"),
        ({"simulator": sometimes}, "another simulator"),
        ({"vectorized": True, "batch": 7}, "another batch"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_and_left_alone(tmp_path, change, match):
    path = tmp_path / "c"
    settings = {"simulator": exponential, "prior": PRIOR, "n": 10, "random_state": 0, "checkpoint": path}
    mh.simulate(**settings)
    before = path.read_bytes()
    with pytest.raises(CheckpointMismatch, match=match) as caught:
        mh.simulate(**{**settings, **change})
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n", b"{}\n", b"\x80\x04K\x01.", b'{"muhat simulations": 99}\n']
)
def test_other_files_are_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(CheckpointMismatch, match="no file of simulations"):
        mh.simulate(exponential, PRIOR, 10, checkpoint=path)
    assert path.read_bytes() == content


def test_the_file_is_lines_of_json(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mh.simulate(sometimes, PRIOR, 30, random_state=0, checkpoint=tmp_path / "c")
    header, *records = [json.loads(line) for line in (tmp_path / "c").read_text().splitlines()]
    assert header["n"] == 30
    assert sorted(r["i"] for r in records) == list(range(30))
    assert {frozenset(r) for r in records} == {frozenset({"i", "x"}), frozenset({"i", "error"})}


def test_one_name():
    assert mh.simulate is module_simulate


PARALLEL = """
import os, sys, time
import muhat as mh
from scipy import stats

def slow(theta, rng):
    time.sleep(0.05)
    if "die" in sys.argv and theta[0] > 2.0:
        os._exit(3)
    return rng.normal(theta[0], 1.0, 4)

if __name__ == "__main__":
    try:
        mh.simulate(slow, stats.norm(), 2000, random_state=0, workers=2, checkpoint=sys.argv[1])
    except KeyboardInterrupt as error:
        print("interrupted", error)
    except mh.simulation.SimulationError as error:
        print("failed", error)
"""


@pytest.mark.statistics
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals to a group of processes")
@pytest.mark.parametrize("end", ["interrupt", "die"])
def test_parallel_runs_end_in_order_and_keep_what_they_have(tmp_path, end):
    path, script = tmp_path / "sims", tmp_path / "run.py"
    script.write_text(PARALLEL)
    root = Path(mh.__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, str(script), str(path), end],
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and (not path.exists() or path.read_bytes().count(b"\n") < 10):
            time.sleep(0.05)
        if end == "interrupt":
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to the workers, too
        said, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    expected = "interrupted Interrupted after" if end == "interrupt" else "failed A worker process died"
    assert said.startswith(expected)
    _, *records = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(records) >= 9

    class Slow(Stop):
        __qualname__ = "slow"

    normal = Slow(0, lambda theta, rng: rng.normal(theta[0], 1.0, 4))
    with pytest.raises(SimulationInterrupted) as caught:
        mh.simulate(normal, stats.norm(), 2000, random_state=0, checkpoint=path)
    found = caught.value.simulations
    whole = mh.simulate(normal.inner, stats.norm(), 2000, random_state=0)
    np.testing.assert_array_equal(found.x, whole.x[found.index])
