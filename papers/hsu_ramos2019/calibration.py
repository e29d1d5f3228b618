"""Simulation-based calibration of the methods on exponential-gamma: are their posteriors right on average?"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

import muhat as mh
from muhat.datasets import exponential_gamma_posterior, simulator
from muhat.simulation import check_calibration
from papers.hsu_ramos2019.figure5 import METHODS
from papers.output import Row, save_figure, save_table, show

SIMULATIONS, CHECKS = 500, 200


class Exact:
    """Draws of the posterior itself: what a right method scores."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def sample(self, x: np.ndarray, n: int) -> np.ndarray:
        return exponential_gamma_posterior(x).rvs((n, 1), random_state=self.rng)


def run(out: Path, quick: bool = False, seed: int = 0) -> None:
    """Print each verdict; a table, and the figure of the deconditional method, in the folder ``out``."""
    task, rng = simulator("exponential_gamma"), np.random.default_rng(seed)
    theta = task.prior(100 if quick else SIMULATIONS, rng)
    x = task.simulate(theta, rng)
    truths = task.prior(40 if quick else CHECKS, rng)
    data = task.simulate(truths, rng)
    table: list[Row] = []
    for name, method in {"exact": "", **METHODS}.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of the deconditional rule, and of far observations
            model = (
                Exact(seed) if name == "exact" else mh.LikelihoodFree(method, random_state=seed).fit(theta, x)
            )
            found = check_calibration(model, truths, data, names=["rate"], random_state=seed)
        print(f"{name}: {found.summary}")
        table.append(
            {
                "method": name,
                "p-value": found.pvalue,
                "mean PIT": float(found.pit.mean()),
                "covers 50%": float(found.coverage(0.5)[0, 0]),
                "covers 90%": float(found.coverage(0.9)[0, 0]),
                "negative weight": found.negative,
                "without": found.without,
            }
        )
        if method == "dme":
            save_figure(found.plot(), out / "calibration_dme.png")
    save_table(table, out / "calibration.csv")
    show(f"Calibration, {len(theta)} simulations, {len(truths)} checks", table)
