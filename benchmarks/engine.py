"""Rows beyond memory: sums over blocks against the arithmetic that they cannot do without, and Dask.

``python -m benchmarks.engine`` makes these figures alone; ``--large`` fits ten million rows from disk.
"""

from __future__ import annotations

import sys
import tempfile

import numpy as np

from benchmarks.measure import PRELUDE, Figure, fresh

# A regression with p features of x on n rows that lie on disk, everything given.
_MODEL = """
import numpy as np
import muhat as mh
from benchmarks.measure import alternate, seconds
folder, n, d, p = {folder!r}, {n}, 10, {p}
x, y = np.load(folder + "/x.npy", mmap_mode="r")[:n], np.load(folder + "/y.npy", mmap_mode="r")[:n]
pair = mh.Fourier(p), mh.Nystrom(10)
model = mh.ConditionalMean(mh.Gaussian(3.0), mh.Gaussian(1.0), 1e-6, pair)
"""

_BARE = """
from muhat import _threads
from muhat.engine.passes import BLOCK_ELEMENTS

def bare(kernel):
    # The same features and their product, block by block, one block a core.
    rows = BLOCK_ELEMENTS // (p + 10)
    total = np.zeros((kernel.size, kernel.size))

    def work(i):
        Phi = kernel.features(np.ascontiguousarray(x[i : i + rows]))
        return Phi.T @ Phi

    for part in _threads.in_order(work, range(0, n, rows)):
        total += part
    return total

model.fit(x[:5000], y[:5000])
kernel = model.kernel_x_
"""

_FIT = (
    _MODEL
    + _BARE
    + """
first, second = alternate(lambda: model.fit(x, y), lambda: bare(kernel), {rounds})
print(json.dumps({{"ours": first, "bare": second}}))
"""
)

_PEAK = (
    _MODEL
    + """
model.fit(x, y)
print(json.dumps({{"peak": peak()}}))
"""
)

_DASK = (
    _MODEL
    + """
import dask
import dask.array as da
from dask.distributed import Client, LocalCluster

if __name__ == "__main__":
    model.fit(x[:5000], y[:5000])
    local = model.fit(x, y)
    answer = local.predict(np.asarray(x[:100]))
    options = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with LocalCluster(**options) as cluster, Client(cluster):
        rows = n // 40
        X = da.map_blocks(
            lambda block_info=None: np.load(folder + "/x.npy", mmap_mode="r")[
                slice(*block_info[None]["array-location"][0])
            ],
            chunks=((rows,) * 40, (d,)), dtype=float, meta=np.empty((0, d)),
        )
        Y = da.map_blocks(
            lambda block_info=None: np.load(folder + "/y.npy", mmap_mode="r")[
                slice(*block_info[None]["array-location"][0])
            ],
            chunks=((rows,) * 40,), dtype=float, meta=np.empty(0),
        )
        model.fit(X[: 2 * rows], Y[: 2 * rows])  # workers import what they need
        first, second = alternate(lambda: model.fit(X, Y), lambda: model.fit(x, y), {rounds})
        model.fit(X, Y)
        error = float(abs(model.predict(np.asarray(x[:100])) - answer).max() / abs(answer).max())
    print(json.dumps({{"dask": first, "local": second, "error": error}}))
"""
)

_FILTER = """
import numpy as np
import muhat as mh
from muhat.datasets import orbit
from benchmarks.measure import alternate, seconds
n, p, steps = 100_000, 200, 10
data = orbit(n + 400, random_state=0)

def fitted(rule, delta):
    return mh.KernelBayesFilter(
        rule, mh.Gaussian(0.35), mh.Gaussian(0.35), delta, 1e-3, 1e-5, representation=mh.Nystrom(p)
    ).fit(data.X[:n], data.Z[:n])

model = fitted("importance", 1e-2)
Psi = model._machine.pairs.gram_x.Phi
D = np.random.default_rng(0).random(n)

def bare():
    for _ in range(steps):
        Psi.T @ (D[:, None] * Psi)

x = data.X[n : n + steps]
model.filter(x), bare()
first, second = alternate(lambda: model.filter(x), bare, 3)
free = fitted("kbr_b", 1e-4)
free.filter(data.X[n : n + 2])  # makes what all steps share
moments = free._machine._moments
v = np.ones(p)

def read():
    for _ in range(400):
        moments.evidence @ v, moments.joint @ v

whole, reading = alternate(lambda: free._track(data.X[n : n + 400], free._state, ()), read, 5)
print(json.dumps({
    "ours": first / steps, "bare": second / steps, "rate": 400 / whole, "reading": 400 / reading,
}))
"""


def _data(folder: str, n: int) -> None:
    """Rows on disk, made in blocks."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(f"{folder}/x.npy", "w+", float, (n, 10))
    Y = np.lib.format.open_memmap(f"{folder}/y.npy", "w+", float, (n,))
    for i in range(0, n, 100_000):
        X[i : i + 100_000] = rng.normal(size=(min(100_000, n - i), 10))
        Y[i : i + 100_000] = np.sin(X[i : i + 100_000, 0]) + 0.1 * rng.normal(size=min(100_000, n - i))


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        n = 1_000_000
        _data(folder, n)
        fit = fresh(PRELUDE + _FIT.format(folder=folder, n=n, p=1000, rounds=1))
        small, large = (
            fresh(PRELUDE + _PEAK.format(folder=folder, n=m, p=300))["peak"] for m in (n // 10, n)
        )
        dask = fresh(PRELUDE + _DASK.format(folder=folder, n=n // 2, p=500, rounds=6))
    steps = fresh(PRELUDE + _FILTER)
    return [
        Figure(
            "conditional mean, n = 10⁶ from disk, p = 1000 / features and ΦᵀΦ",
            fit["ours"] / fit["bare"],
            1.5,
            "×",
            f"{fit['ours']:.0f} s against {fit['bare']:.0f} s",
        ),
        Figure(
            "its peak memory, n = 10⁶ / n = 10⁵ (p = 300)",
            large / small,
            1.2,
            "×",
            f"{large / 1e9:.2f} GB against {small / 1e9:.2f} GB",
        ),
        Figure(
            "two Dask workers / our own two",
            dask["dask"] / dask["local"],
            1.3,
            "×",
            f"{dask['dask']:.1f} s against {dask['local']:.1f} s",
        ),
        Figure("their answers differ by, 10⁻¹⁰", dask["error"] / 1e-10, 1.0, "", f"{dask['error']:.0e}"),
        Figure(
            "filter step, n = 10⁵, p = 200 / ΨᵀDΨ",
            steps["ours"] / steps["bare"],
            1.5,
            "×",
            f"{1e3 * steps['ours']:.0f} ms against {1e3 * steps['bare']:.0f} ms",
        ),
        Figure(
            "filter step without a pass over n, ms",
            1e3 / steps["rate"],
            5.0,
            "ms",
            f"{steps['rate']:.0f} steps a second; {steps['reading']:.0f} times its moments can be read",
        ),
    ]


def large() -> None:
    """Ten million rows from disk."""
    with tempfile.TemporaryDirectory() as folder:
        n = 10_000_000
        _data(folder, n)
        code = _MODEL + "\nt = seconds(lambda: model.fit(x, y))\n"
        code += 'print(json.dumps({{"seconds": t, "peak": peak()}}))\n'
        out = fresh(PRELUDE + code.format(folder=folder, n=n, p=1000))
        print(f"n = 10⁷, p = 1000 from disk: {out['seconds']:.0f} s, peak {out['peak'] / 1e9:.2f} GB")


if __name__ == "__main__":
    if "--large" in sys.argv:
        large()
    else:
        for figure in run():
            print(figure.name, f"{figure.value:.2f} {figure.unit} (≤ {figure.target:g})", figure.note)
