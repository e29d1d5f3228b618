"""Distribution regression on many bags: time per point against bare arithmetic, growth, memory.

``python -m benchmarks.bags``: 10 000 bags of 200 points in 10 columns, and a stream of bags of 1000 points.
"""

from __future__ import annotations

import sys
import time
from math import log

import numpy as np

import muhat as mh
from benchmarks.measure import PRELUDE, Figure, alternate, fresh
from muhat.gram.octaves import octave_kernel
from muhat.operators.bags import mean_features

POINTS, COLUMNS, FEATURES = 200, 10, 600


def data(n: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Gaussian bags whose logarithmic spread is the target."""
    rng = np.random.default_rng(seed)
    s = np.exp(rng.uniform(-0.7, 0.7, n))
    return [a * rng.standard_normal((POINTS, COLUMNS)) for a in s], np.log(s)


def features() -> Figure:
    """Mean features of 500 bags against a matrix product, cosine, sine and sum for as many features."""
    bags, _ = data(500)
    known, X = mh.Bags(bags), np.concatenate(bags)
    rng = np.random.default_rng(0)
    first = octave_kernel(np.full(COLUMNS, 8.0), np.ones(6), FEATURES, rng)
    omega = rng.standard_normal((COLUMNS, FEATURES // 2))
    cuts = np.arange(0, len(X), POINTS)

    def bare() -> None:
        for rows in range(0, len(X), POINTS):  # a bag at a time: in cache
            angles = X[rows : rows + POINTS] @ omega
            np.cos(angles).sum(axis=0)
            np.sin(angles).sum(axis=0)

    def product() -> None:
        for rows in cuts:
            np.matmul(X[rows : rows + POINTS], omega)

    ours, plain = alternate(lambda: mean_features(known, first), bare, 3)
    gemm = alternate(product, product, 2)[0]
    note = (
        f"{1e6 * ours / len(X):.2f} µs a point; bare {1e6 * plain / len(X):.2f}, its matrix product alone "
        f"{1e6 * gemm / len(X):.2f}"
    )
    return Figure("bags: mean features over bare arithmetic", ours / plain, 1.0, "×", note)


def whole() -> list[Figure]:
    """Learning from 10 000 bags, and how the time of taking bags in grows with their number."""
    bags, y = data(10_000)
    model = mh.DistributionRegressor(random_state=0, warm_start=True)
    start = time.process_time()
    model.fit(bags, y)
    seconds = time.process_time() - start
    took = {}
    for n in (2500, 5000, 10_000):  # with parameters learned: what grows
        runs = []
        for _ in range(2):
            start = time.process_time()
            model.fit(bags[:n], y[:n])
            runs.append(time.process_time() - start)
        took[n] = min(runs)
    growth = log(took[10_000] / took[2500]) / log(4)
    shown = ", ".join(f"{n}: {t:.2f} s" for n, t in took.items())
    return [
        Figure("bags: 10 000 × 200 × 10, to learn", seconds, 10.0, "s", "processor time, all parameters"),
        Figure("bags: growth in bags, exponent", growth, 1.1, "", f"processor time, {shown}"),
    ]


def stream() -> Figure:
    """Peak memory of learning from a stream of bags of 1000 points: thrice the bags over once."""
    code = """
import numpy as np, muhat as mh
rng = np.random.default_rng(0)
s = np.exp(rng.uniform(-.7, .7, {n}))
model = mh.DistributionRegressor(random_state=0)
start = time.process_time()
model.fit((a * rng.standard_normal((1000, 10)) for a in s), np.log(s))
print(json.dumps({{"peak": peak(), "seconds": time.process_time() - start}}))
"""
    few, many = (fresh(PRELUDE + code.format(n=n)) for n in (1000, 3000))
    each = (many["seconds"] - few["seconds"]) / 2000
    note = (
        f"{many['peak'] / 2**20:.0f} MB; {1e3 * each:.2f} ms a bag: 10⁵ bags in {1e5 * each / 60:.1f} minutes"
    )
    return Figure("bags: memory of a stream, ×3 bags", many["peak"] / few["peak"], 1.2, "×", note)


def run() -> list[Figure]:
    """All figures."""
    return [features(), *whole(), stream()]


def main() -> int:
    figures = run()
    for f in figures:
        print(f"{f.name:45} {f.value:8.2f} {f.unit}  (≤ {f.target:g})  {f.note}")
    return 0 if all(f.holds for f in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
