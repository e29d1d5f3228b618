"""Likelihood-free inference beside sbi, pyabc and rejection: simulators with a known posterior."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from muhat.datasets import exponential_gamma_posterior, sbibm, simulator
from papers.hsu_ramos2019.peers import METHODS
from papers.hsu_ramos2019.scores import c2st, mean_error, sd_ratio, wasserstein
from papers.output import Row, save_table, show

# Problem, simulations, seeds.
CASES = (
    ("exponential_gamma", 100, 5),
    ("exponential_gamma", 1000, 3),
    ("exponential_gamma", 2000, 3),
    ("two_moons", 100, 2),
    ("two_moons", 1000, 2),
    ("two_moons", 2000, 1),
    ("gaussian_mixture", 1000, 1),
    ("lotka_volterra", 2000, 1),
)
QUICK = (("exponential_gamma", 100, 1), ("two_moons", 100, 1))
SLOW = ("pyabc SMC",)  # simulates for each observation anew, row by row: one seed, and not the last problem
TRUTH = 10_001  # quantiles that stand for a posterior known exactly


def observations(name: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """Ten observations (10, d), and draws or quantiles of the posterior of each."""
    if name != "exponential_gamma":
        found = sbibm(name)
        return found.x, list(found.reference)
    x = simulator(name).simulate(np.full((10, 1), 3.0), 12345)
    levels = (np.arange(TRUTH) + 0.5) / TRUTH
    return x, [exponential_gamma_posterior(row).ppf(levels)[:, None] for row in x]


def score(name: str, draws: np.ndarray, truths: list[np.ndarray]) -> dict[str, float]:
    """Averages over the observations."""
    pairs = list(zip(draws, truths, strict=True))
    if name == "exponential_gamma":
        distance = {"w1": np.mean([wasserstein(a[:, 0], b[:, 0]) for a, b in pairs]), "c2st": np.nan}
    else:
        distance = {"w1": np.nan, "c2st": np.mean([c2st(a, b) for a, b in pairs])}
    return {
        **{key: float(value) for key, value in distance.items()},
        "mean error": float(np.mean([mean_error(a, b) for a, b in pairs])),
        "sd ratio": float(np.exp(np.mean([np.log(sd_ratio(a, b)) for a, b in pairs]))),
    }


def run(out: Path, quick: bool = False, seed: int = 0, methods: Any = None, cases: Any = None) -> None:
    """Make the table in the folder ``out``; runs that its file ``tables_runs.csv`` has are not made again."""
    runs = out / "tables_runs.csv"
    rows: list[Any] = pl.read_csv(runs).to_dicts() if runs.is_file() else []
    done = {(r["problem"], r["simulations"], r["method"], r["seed"]) for r in rows}
    missing: dict[str, str] = {}
    for name, n, seeds in cases or (QUICK if quick else CASES):
        task = simulator(name)
        observed, truths = observations(name)
        if quick:
            observed, truths = observed[:2], truths[:2]
        for k in range(seed, seed + seeds):
            rng = np.random.default_rng([k, n])
            theta = task.prior(n, rng)
            x = task.simulate(theta, rng)
            for method in methods or METHODS:
                if (
                    method in missing
                    or (name, n, method, k) in done
                    or (method in SLOW and (k > seed or name == "lotka_volterra"))
                ):
                    continue
                try:
                    draws, seconds = METHODS[method](task, theta, x, observed, k)
                except ImportError as reason:
                    missing[method] = str(reason)
                    continue
                rows.append(
                    {
                        "problem": name,
                        "simulations": n,
                        "method": method,
                        "seed": k,
                        **score(name, draws, truths),
                        "seconds": seconds,
                    }
                )
                print(rows[-1], flush=True)
                save_table(rows, runs)
    for method, reason in missing.items():
        print(f"{method} left out: {reason}")
    table = summary(rows)
    save_table(table, out / "tables.csv")
    show("Ten observations, means over them and over seeds; errors in posterior sds", table)


def summary(rows: list[Any]) -> list[Row]:
    """Means over the seeds, medians of seconds."""
    table: list[Row] = []
    for key in dict.fromkeys((r["problem"], r["simulations"], r["method"]) for r in rows):
        mine = [r for r in rows if (r["problem"], r["simulations"], r["method"]) == key]
        means = {s: float(np.mean([r[s] for r in mine])) for s in ("w1", "c2st", "mean error", "sd ratio")}
        table.append(
            {
                "problem": key[0],
                "simulations": key[1],
                "method": key[2],
                "seeds": len(mine),
                **means,
                "seconds": float(np.median([r["seconds"] for r in mine])),
            }
        )
    return table
