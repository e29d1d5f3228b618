"""Conditional densities: grouped inputs, Kronecker grids, and a mixture density network beside ours."""

from __future__ import annotations

from benchmarks.measure import PRELUDE, Figure, fresh

# As many rows and inputs as in [S20, Section 6.3]: 7 days, 144 times of day, 32 weeks.
_GROUPS = """
import numpy as np
import muhat as mh
rng = np.random.default_rng(0)
day, time_of_day = np.meshgrid(np.arange(7.0), np.arange(144.0) / 6, indexing="ij")
X = np.tile(np.stack([day.ravel(), time_of_day.ravel()], axis=1), (32, 1))
peaks = np.exp(-((X[:, 1] - 8) ** 2) / 4) + 0.7 * np.exp(-((X[:, 1] - 17) ** 2) / 8)
level = 0.05 + np.where(X[:, 0] < 5, 0.25, 0.05) * peaks
y = level * np.exp(0.25 * rng.standard_normal(len(X)))
start = time.perf_counter()
model = mh.ConditionalDensity().fit(X, y)
seconds = time.perf_counter() - start
groups = 0 if model.groups_ is None else len(model.groups_.points)
print(json.dumps({"seconds": seconds, "peak": peak(), "groups": groups, "rows": len(X)}))
"""

_KRONECKER = """
import numpy as np
import muhat as mh
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (1000, 1))
Y = np.hstack([X, X**2, np.sin(3 * X)]) + 0.3 * rng.standard_normal((1000, 3))
start = time.perf_counter()
model = mh.ConditionalDensity(mh.Gaussian(0.3), mh.Gaussian(0.25), 1e-3, 1e-3, "grid", size=64).fit(X, Y)
density = model.density(X[:2])
values = density.pdf(Y[:100])
seconds = time.perf_counter() - start
points = int(np.prod([len(a) for a in model.reference_.axes]))
mass = float(np.asarray(density.mass).mean())
print(json.dumps({"seconds": seconds, "peak": peak(), "points": points, "mass": mass}))
"""

_DONUT = """
import warnings
import numpy as np
import muhat as mh
from benchmarks.measure import seconds
from muhat.datasets import donut, donut_pdf
from papers.schuster2020.donut import AT, grid
from papers.schuster2020.network import mixture_network
found = {}

def ours(X, Y):
    found["ours"] = mh.ConditionalDensity().fit(X, Y).pdf

def network(X, Y):
    found["network"] = mixture_network(X, Y, 0)

# In turn, on two draws of the data; each fit counts, what is compiled on the way with it.
Z, cell = grid()
out = {"ours": 0.0, "network": 0.0}
errors = {name: [] for name in out}
for seed in range(2):
    X, Y = donut(random_state=seed)
    for name, fit in (("ours", ours), ("network", network)):
        out[name] += seconds(lambda: fit(X, Y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            errors[name].append(abs(found[name](AT, Z) - donut_pdf(AT, Z)).sum(axis=1) * cell)
for name, pairs in errors.items():
    out["L1 " + name] = float(np.mean(pairs, axis=0).max())
print(json.dumps(out))
"""


def groups() -> list[Figure]:
    """Learning from 32 256 rows on 1008 distinct inputs, everything chosen."""
    out = fresh(PRELUDE + _GROUPS)
    note = f"{out['rows']:,} rows, {out['groups']:,} groups"
    return [
        Figure("density, grouped inputs: fit", out["seconds"], 10, "s", note),
        Figure("density, grouped inputs: memory", out["peak"] / 1e9, 1, "GB", note),
    ]


def kronecker() -> list[Figure]:
    """Reconstruction on a grid of 64³ points."""
    out = fresh(PRELUDE + _KRONECKER)
    note = f"{out['points']:,} reference points; mass {out['mass']:.3f}"
    return [
        Figure("density, 64³ grid: fit and two densities", out["seconds"], 10, "s", note),
        Figure("density, 64³ grid: memory", out["peak"] / 1e9, 2, "GB", note),
    ]


def donut() -> list[Figure]:
    """The donut of [S20, Section 6.1], nothing given, against a mixture density network in the same run."""
    out = fresh(PRELUDE + _DONUT)
    note = f"two fits each: {out['ours']:.1f} s against {out['network']:.1f} s"
    return [
        Figure("density, donut: fit / mixture density network", out["ours"] / out["network"], 1, "×", note),
        Figure("density, donut: larger mean L1", out["L1 ours"], 0.2, "", f"network {out['L1 network']:.2f}"),
    ]


def run() -> list[Figure]:
    return [*groups(), *kronecker(), *donut()]
