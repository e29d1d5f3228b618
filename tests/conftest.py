"""The environment of every test, and the time that a run took."""

import os
import time
from pathlib import Path

import pytest

STARTED = time.perf_counter()
SPENT = []  # processor seconds of each worker that has ended

# A worker a core, a thread a worker: the matrices of the tests are small, and threads of BLAS and OpenMP that
# wait for a busy core spin. (Boosting on two busy cores took seven times the processor time.)
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Compiled functions outlive the run: a second run spends a third of the first one's time on JAX.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def pytest_sessionfinish(session):
    """A worker tells the main process what it and its subprocesses spent."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["processor_seconds"] = sum(os.times()[:4])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    SPENT.append(getattr(node, "workeroutput", {}).get("processor_seconds", 0.0))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after all else, but for pytest's last line
def pytest_terminal_summary(terminalreporter):
    result = yield
    # With workers, the children of this process are the workers, and those have told.
    own = time.process_time() if SPENT else sum(os.times()[:4])
    wall, processor = (time.perf_counter() - STARTED) / 60, (own + sum(SPENT)) / 60
    terminalreporter.write_line(f"{wall:.1f} minutes, {processor:.1f} minutes of processor time")
    return result
