"""What is interrupted goes on: a local run from its file, a cluster without the worker that died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import muhat as mh
from muhat.engine import open_rows

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (6000, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=6000)
SETTINGS = {"kernel_x": mh.Gaussian(1.0), "kernel_y": mh.Gaussian(0.7), "reg": 1e-4}

# A fit on rows that come slowly, with a file that is written after every block.
SLOW = """
    import sys, time
    import numpy as np
    import muhat as mh
    from muhat.engine import checkpoint, open_rows
    checkpoint.EVERY = 0.0
    folder, pause = sys.argv[1], float(sys.argv[2])
    X, Y = np.load(folder + "/X.npy"), np.load(folder + "/Y.npy")

    def make():
        for i in range(0, len(X), 200):
            time.sleep(pause)
            print(i, flush=True)
            yield X[i : i + 200]

    model = mh.ConditionalMean(
        mh.Gaussian(1.0), mh.Gaussian(0.7), 1e-4, mh.Nystrom(50)
    ).fit(open_rows(make), open_rows(Y), checkpoint=folder + "/fit.npz")
    np.savez(folder + "/out.npz", gram=model.moments_.gram, cross=model.moments_.cross)
"""


def _start(folder, pause):
    command = [sys.executable, "-c", textwrap.dedent(SLOW), str(folder), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.statistics
def test_a_killed_fit_goes_on_to_the_same_bits(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "Y.npy", Y)
    seen = 0
    with _start(tmp_path, 0.02) as first:
        assert first.stdout is not None
        for line in first.stdout:
            seen += line.strip() == "2000"
            if seen == 2:  # the second pass is under way
                first.send_signal(signal.SIGKILL)
                break
    assert (tmp_path / "fit.npz").exists()
    assert not (tmp_path / "out.npz").exists()
    second = _start(tmp_path, 0.0)
    second.communicate(timeout=120)
    assert second.returncode == 0
    assert not (tmp_path / "fit.npz").exists()
    whole = mh.ConditionalMean(representation=mh.Nystrom(50), **SETTINGS)
    blocks = open_rows(lambda: (X[i : i + 200] for i in range(0, len(X), 200)))
    whole.fit(blocks, open_rows(Y))
    with np.load(tmp_path / "out.npz") as found:
        assert np.array_equal(found["gram"], whole.moments_.gram)
        assert np.array_equal(found["cross"], whole.moments_.cross)


class Doomed:
    """A feature map that ends its process once, on whoever finds the mark gone."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __call__(self, A):
        if os.path.exists(self.mark) and os.environ.get("DASK_PARENT") != str(os.getpid()):
            try:
                os.remove(self.mark)
            except FileNotFoundError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return np.cos(A @ np.arange(1.0, 11.0).reshape(2, 5) + np.arange(5))


@pytest.mark.statistics
@pytest.mark.filterwarnings("ignore")  # of a cluster that loses a worker, and says so
def test_a_worker_dies_and_the_answer_is_the_same(tmp_path, monkeypatch):
    """Separate processes; one is killed in the middle of the pass over the sums."""
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    mark = tmp_path / "mark"
    monkeypatch.setenv("DASK_PARENT", str(os.getpid()))
    representation = mh.Features(Doomed(str(mark))), mh.Nystrom(30)
    model = mh.ConditionalMean(kernel_y=mh.Gaussian(0.7), reg=1e-4, representation=representation)
    here = model.fit(open_rows(X), open_rows(Y)).predict(X[:9])
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        before = {w.pid for w in cluster.workers.values()}
        mark.touch()
        chunks = da.from_array(X, chunks=(500, 2)), da.from_array(Y, chunks=500)
        there = model.fit(*chunks).predict(X[:9])
        assert not mark.exists()
        for _ in range(100):  # the nanny starts another
            after = {w.pid for w in cluster.workers.values()}
            if after != before:
                break
            time.sleep(0.1)
        assert after != before
    np.testing.assert_allclose(here, there, rtol=1e-10)
