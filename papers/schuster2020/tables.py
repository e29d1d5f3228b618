"""Beyond the paper: log densities on energy, yacht and kin8nm with their given splits."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import muhat as mh
from muhat.datasets import uci_regression
from muhat.report.plots import BLUE, CYCLE, INK, SOFT, new_figure
from papers.output import Row, letter, save_figure, save_table, show
from papers.schuster2020.peers import GaussianProcess, ngboost_normal

SPLITS = {"yacht": 5, "energy": 5, "kin8nm": 5}


def ours(
    X: np.ndarray, y: np.ndarray, tests: np.ndarray, targets: np.ndarray, seed: int
) -> tuple[float, float]:
    """Nothing given; the mean log density of the test rows and their root mean squared error."""
    model = mh.ConditionalDensity(random_state=seed, grow=True).fit(X, y)
    return model.score(tests, targets), _rmse(targets, model.predict(tests))


def process(
    X: np.ndarray, y: np.ndarray, tests: np.ndarray, targets: np.ndarray, seed: int
) -> tuple[float, float]:
    """A Gaussian process with learned lengthscales; beyond 1500 rows they are learned on 1500."""
    model = GaussianProcess(rows=1500, restarts=1 if len(X) < 1000 else 0).fit(X, y[:, None], seed)
    mean, sd = (a[:, 0] for a in model.moments(tests))
    z = (targets - mean) / sd
    return float((-0.5 * z**2 - np.log(np.sqrt(2 * np.pi) * sd)).mean()), _rmse(targets, mean)


def boosted(
    X: np.ndarray, y: np.ndarray, tests: np.ndarray, targets: np.ndarray, seed: int
) -> tuple[float, float]:
    """ngboost; stops on a held-out tenth."""
    pdf = ngboost_normal(X, y[:, None], seed, estimators=1000)
    values = np.array([pdf(x[None], np.array([[t]]))[0, 0] for x, t in zip(tests, targets, strict=True)])
    return float(np.log(np.maximum(values, 1e-300)).mean()), np.nan


METHODS: dict[str, Any] = {"ours": ours, "Gaussian process": process, "ngboost": boosted}


def _rmse(y: np.ndarray, mean: np.ndarray) -> float:
    return float(np.sqrt(((y - mean) ** 2).mean()))


def run(out: Path, quick: bool = False, seed: int = 0) -> None:
    """Make the table in the folder ``out``."""
    rows: list[Row] = []
    missing: dict[str, str] = {}
    splits = {"yacht": 1} if quick else SPLITS
    methods = {name: METHODS[name] for name in ("ours", "Gaussian process")} if quick else METHODS
    for name, count in splits.items():
        data = uci_regression(name)
        for i in range(count):
            for method, score in methods.items():
                if method in missing:
                    continue
                start = perf_counter()
                try:
                    value, error = score(*data.split(i), seed)
                except ImportError as reason:
                    missing[method] = str(reason)
                    continue
                rows.append(
                    {
                        "data": name,
                        "split": i,
                        "method": method,
                        "log density": value,
                        "rmse": error,
                        "seconds": perf_counter() - start,
                    }
                )
                save_table(rows, out / "tables_runs.csv")
    for method, reason in missing.items():
        print(f"{method} left out: {reason}")
    table: list[Row] = []
    for name, method in dict.fromkeys((r["data"], r["method"]) for r in rows):
        mine = [r for r in rows if (r["data"], r["method"]) == (name, method)]
        best = {r["split"]: r["log density"] for r in rows if (r["data"], r["method"]) == (name, "ours")}
        values = np.array([r["log density"] for r in mine])
        table.append(
            {
                "data": name,
                "method": method,
                "splits": len(mine),
                "log density": float(values.mean()),
                "se": float(values.std() / np.sqrt(len(values))),
                "ours minus it": float(np.mean([best[r["split"]] - r["log density"] for r in mine])),
                "ours wins": f"{sum(best[r['split']] > r['log density'] for r in mine)}/{len(mine)}",
                "rmse": float(np.mean([r["rmse"] for r in mine])),
                "seconds": float(np.median([r["seconds"] for r in mine])),
            }
        )
    save_table(table, out / "tables.csv")
    show("Mean log density of the test rows", table)
    _picture(rows, out / "tables.png")


def _picture(rows: list[Row], path: Path) -> None:
    names = list(dict.fromkeys(r["data"] for r in rows))
    figure, axes = new_figure(1, len(names), height=2.8)
    for i, (ax, name) in enumerate(zip(axes[0], names, strict=True)):
        letter(ax, "abc"[i], name)
        methods = list(dict.fromkeys(r["method"] for r in rows if r["data"] == name))
        for place, method in enumerate(methods):
            values = [r["log density"] for r in rows if (r["data"], r["method"]) == (name, method)]
            colour = {"ours": BLUE, "Gaussian process": SOFT}.get(method, CYCLE[3])
            ax.plot(np.full(len(values), place), values, "o", color=colour, markersize=4, alpha=0.6)
            ax.plot([place - 0.25, place + 0.25], [np.mean(values)] * 2, color=INK, linewidth=1.4)
        ax.set_xticks(range(len(methods)), [m.replace("Gaussian process", "GP") for m in methods])
        ax.set_xlim(-0.6, len(methods) - 0.4)
    axes[0, 0].set_ylabel("mean log density")
    save_figure(figure, path)
