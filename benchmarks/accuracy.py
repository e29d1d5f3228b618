"""Errors beside those that must be beaten: posterior means [X22, 5.1], tracking [X22, 5.2] and the tables of
conditional densities.

``python -m benchmarks.accuracy`` makes these figures alone. Posterior means apart, few seeds:
``papers/`` has all of them.
"""

from __future__ import annotations

import csv
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.measure import PRELUDE, Figure, fresh

_TRACK = """
from papers.xu2022.figure2 import one
rows = one(({system!r}, {T}, {seed}))
print(json.dumps({{row["method"]: row["error"] for row in rows}}))
"""
_POSTERIOR = """
from papers.xu2022.figure1 import METHODS, one
rows = [row for seed in range({first}, {last}) for row in one({d}, True, seed)]
print(json.dumps({{m: sum(row["error"] for row in rows if row["method"] == m) for m in METHODS}}))
"""
_TABLE = """
from muhat.datasets import uci_regression
from papers.schuster2020.tables import ours, process
split = uci_regression({name!r}).split(0)
print(json.dumps({{"ours": ours(*split, 0)[0], "process": process(*split, 0)[0]}}))
"""
_TERRAIN = """
from muhat.datasets import terrain
from papers.schuster2020.terrain import one
rows = one(*terrain(), 0, 1500)
print(json.dumps({row["method"]: row["error"] for row in rows}))
"""
# Errors that a careful plain reimplementation of [X22] has at T = 600.
PLAIN = {"rotation": 0.0525, "oscillatory": 0.0617}
RECORDED = Path(__file__).parents[1] / "papers/schuster2020/results/tables_runs.csv"


def _together(codes: list[str]) -> list[dict[str, float]]:
    """Results of independent processes, one a core: nothing is timed."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda code: fresh(PRELUDE + code, OPENBLAS_NUM_THREADS="1"), codes))


def posterior_means(d: int = 8, runs: int = 30) -> list[Figure]:
    """Bayes' rule by importance weighting, all chosen, on Gaussians in d dimensions."""
    half = runs // 2
    found = _together([_POSTERIOR.format(d=d, first=a, last=b) for a, b in ((0, half), (half, runs))])
    mine, original = (sum(part[method] for part in found) / runs for method in ("IW", "original"))
    note = f"mean of {runs} runs; original rule {original:.3f}"
    return [
        Figure(f"posterior mean, d = {d}: error", mine, 0.26, "", note),
        Figure(f"posterior mean, d = {d} / original rule", mine / original, 1.0, "×", note),
    ]


def tracking(runs: int = 3) -> list[Figure]:
    """The filter, all chosen, against the original rule and a ridge on a window of observations."""
    cases = [(system, T, 1000 + i) for system in PLAIN for T in (600, 1000) for i in range(runs)]
    found = _together([_TRACK.format(system=s, T=T, seed=seed) for s, T, seed in cases])
    figures = []
    for system, target in PLAIN.items():
        at = {
            T: [e for (s, t, _), e in zip(cases, found, strict=True) if (s, t) == (system, T)]
            for T in (600, 1000)
        }
        mine, original = (np.mean([e[method] for e in at[600]]) for method in ("IW", "original"))
        late, window = (np.mean([e[method] for e in at[1000]]) for method in ("IW", "window"))
        note = f"mean of {runs} runs; original rule {original:.4f}"
        figures += [
            Figure(f"filter, {system}, T = 600: error", float(mine), target, "", note),
            Figure(f"filter, {system}, T = 600 / original rule", float(mine / original), 1.0, "×", note),
            Figure(
                f"filter, {system}, T = 1000 / window",
                float(late / window),
                1.0,
                "×",
                f"mean of {runs} runs; {late:.4f} against {window:.4f}",
            ),
        ]
    return figures


def ngboost(name: str) -> float:
    """The log density of ngboost on the first split, as recorded: it belongs to the peers' environment."""
    with RECORDED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    (row,) = (r for r in rows if (r["data"], r["split"], r["method"]) == (name, "0", "ngboost"))
    return float(row["log density"])


def tables() -> list[Figure]:
    """Log densities of others less ours, on the first given split; the height of a mountain."""
    names = ("energy", "kin8nm", "yacht")
    *found, terrain = _together([*(_TABLE.format(name=name) for name in names), _TERRAIN])
    figures = [
        Figure(
            f"density, {name}: log density behind a Gaussian process",
            out["process"] - out["ours"],
            0.0,
            "",
            f"{out['ours']:.3f} against {out['process']:.3f}",
        )
        for name, out in zip(names, found, strict=True)
    ]
    figures += [
        Figure(
            f"density, {name}: log density behind ngboost",
            ngboost(name) - out["ours"],
            0.0,
            "",
            f"{out['ours']:.3f} against {ngboost(name):.3f}, as in papers/schuster2020",
        )
        for name, out in zip(names, found, strict=True)
    ]
    ours, process = terrain["ours"], terrain["Gaussian process"]
    return [
        *figures,
        Figure("density, terrain: scaled error (1500 landmarks)", ours, 0.0269, "", ""),
        Figure("density, terrain / Gaussian process", ours / process, 1.0, "×", f"{ours:.4f}, {process:.4f}"),
    ]


def run() -> list[Figure]:
    data = os.environ.get("MUHAT_DATA")
    return [*posterior_means(), *tracking(), *(tables() if data and Path(data).is_dir() else [])]


if __name__ == "__main__":
    for figure in run():
        print(figure.name, f"{figure.value:.4f} {figure.unit} (≤ {figure.target:g})", figure.note)
