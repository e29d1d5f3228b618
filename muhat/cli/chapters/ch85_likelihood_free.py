"""Parameters of a simulator from what was observed, without a likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

import muhat as mh
from muhat.cli.page import Page
from muhat.datasets import exponential_gamma_posterior, simulator
from muhat.report import plots
from muhat.report.posterior import marginal_density
from muhat.simulation import Calibration, Simulated, check_calibration
from muhat.simulation.draws import weighted

TITLE = "A simulator and an observation"
SIMULATIONS, CHECKS, TRUTH = 500, 100, 3.0


def waiting(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.exponential(1 / theta[0], size=15).mean()


def infer(prior: np.ndarray, seen: np.ndarray, seed: int) -> tuple[Any, Any]:
    # With checkpoint="runs.txt" an interrupted run would go on from there.
    runs = mh.simulate(waiting, prior, random_state=seed)
    model = mh.LikelihoodFree(random_state=seed).fit(runs.theta, runs.x)
    return model, model.posterior(seen)


def check(model: mh.LikelihoodFree, runs: Simulated) -> Calibration:
    return check_calibration(model, runs.theta, runs.x, names=["rate"])


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    task = simulator("exponential_gamma")
    rng = np.random.default_rng(seed)
    seen = waiting(np.array([TRUTH]), rng).reshape(1, 1)
    page.say(
        "A simulator turns parameters θ into data x; its likelihood need not be known. Here it is a queue: "
        f"15 waiting times at rate θ, of which the mean is kept. The mean observed is {seen[0, 0]:.3f}. From "
        f"{SIMULATIONS} simulations with θ drawn from the prior follows the posterior of θ. This simulator "
        "is so simple that the exact posterior is known, too."
    )
    prior = task.prior(SIMULATIONS, rng)
    page.show(waiting)
    model, found = page.run(infer, prior, seen, seed)
    mu = found[0] if found.is_batch else found
    exact = exponential_gamma_posterior(seen)
    ends = mu.quantile([0.05, 0.5, 0.95])[:, 0]
    points = weighted(mu)
    mean = float(points.weights @ points.points[:, 0])
    sd = float(np.sqrt(points.weights @ (points.points[:, 0] - mean) ** 2))
    page.table(
        [
            ("from simulations", mean, sd, *ends),
            ("exact", exact.mean(), exact.std(), *exact.ppf([0.05, 0.5, 0.95])),
            ("prior", prior.mean(), prior.std(), *np.quantile(prior, [0.05, 0.5, 0.95])),
        ],
        ["", "mean", "sd", "5%", "50%", "95%"],
        f"The rate given the observation (the true one is {TRUTH:g}); method: {model.method_}.",
    )
    grid = np.linspace(0, 10, 400)
    curves = {
        "posterior": marginal_density(points.points[:, 0], points.weights, grid),
        "prior": marginal_density(prior[:, 0], np.full(len(prior), 1 / len(prior)), grid),
    }
    page.figure(
        plots.densities(grid, curves, exact.pdf(grid), xlabel="rate"),
        "The posterior from simulations beside the exact one, in grey.",
    )
    page.say(
        "Are such posteriors right? If θ comes from the prior and x from the simulator, θ must look like one "
        f"more draw of its posterior. {CHECKS} new simulations tell:"
    )
    fresh = mh.simulate(waiting, task.prior(CHECKS, rng), random_state=seed + 1)
    found = page.run(check, model, fresh)
    page.say(found.summary)
    page.figure(
        found.plot(),
        "Left: the probability below the true rate, which is uniform if posteriors are right (grey: 95% of "
        "right ones). Right: how often intervals hold the truth, against what they claim.",
    )
