"""Distributions themselves: conditional densities, ratios of densities, posteriors of simulators.

The answer is the distance to the truth, which is known.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import muhat as mh
from benchmarks.peers.contestant import Contestant, Workload, needs
from benchmarks.peers.packages import peer


def donut(n: int) -> dict[str, Contestant]:
    """The density of y given x on the donut of [S20, 6.1], nothing given; the time is that of the fit."""
    from muhat.datasets import donut as draw

    X, Y = draw(each=n // 50, random_state=0)

    def ours() -> Any:
        return mh.ConditionalDensity().fit(X, Y).pdf

    def network() -> Any:
        from papers.schuster2020.network import mixture_network

        return mixture_network(X, Y, 0)

    def other(method: str) -> Callable[[], Any]:
        return lambda: getattr(import_module("papers.schuster2020.peers"), method)(X, Y, 0)

    def contestant(run: Callable[[], Any], *modules: str) -> Contestant:
        return Contestant(run, needs(*modules), once=True, score=largest_l1)

    learned = needs("papers.schuster2020.network")
    return {
        "ours": Contestant(ours, score=largest_l1),
        "mixture density network": Contestant(network, learned, score=largest_l1),
        "ngboost": contestant(other("ngboost_normal"), "ngboost", "ngboost.distns"),
        "spline flow (zuko)": contestant(other("spline_flow"), "torch", "zuko"),
        "statsmodels KDE": contestant(other("statsmodels_kde"), "statsmodels.nonparametric.kernel_density"),
    }


def largest_l1(pdf: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
    """The L1 error on a grid, at x = 0 or x = 1, whichever is larger."""
    from muhat.datasets import donut_pdf
    from papers.schuster2020.donut import AT, grid

    Z, cell = grid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of points beyond the box, where the density is 0
        found = pdf(AT, Z)
    return float((np.abs(found - donut_pdf(AT, Z)).sum(axis=1) * cell).max())


def ratio(n: int) -> dict[str, Contestant]:
    """The ratio of two normal densities in the plane, everything chosen; errors at new denominator points."""
    rng = np.random.default_rng(0)
    shift = np.array([0.5, -0.3])
    numerator, denominator, at = (rng.standard_normal((n, 2)) for _ in range(3))
    numerator = 0.8 * numerator + shift
    truth = np.exp(-0.5 * (((at - shift) / 0.8) ** 2).sum(axis=1) + 0.5 * (at**2).sum(axis=1)) / 0.64

    def ours(method: str) -> np.ndarray:
        return mh.DensityRatio(method).fit(numerator, denominator).predict(at)

    def densratio() -> np.ndarray:
        found = peer("densratio").densratio(numerator, denominator, alpha=0.0, verbose=False)
        return found.compute_density_ratio(at)

    def error(found: np.ndarray) -> float:
        return float(np.sqrt(np.mean((found - truth) ** 2)))

    return {
        "ours": Contestant(lambda: ours("kulsif"), score=error),
        "ours, uLSIF": Contestant(lambda: ours("ulsif"), score=error),
        "densratio uLSIF": Contestant(densratio, needs("densratio"), score=error),
    }


def posterior(n: int) -> dict[str, Contestant]:
    """Posteriors of the exponential-gamma simulator [HR19, 8.3] at ten observations, from n simulations.

    The answer is the mean Wasserstein distance to the exact posteriors, in their standard deviations. pyabc
    simulates for each observation anew, n times.
    """
    from muhat.datasets import simulator
    from papers.hsu_ramos2019.peers import METHODS
    from papers.hsu_ramos2019.tables import observations, score

    task, rng = simulator("exponential_gamma"), np.random.default_rng([0, n])
    theta = task.prior(n, rng)
    x = task.simulate(theta, rng)
    seen, truths = observations("exponential_gamma")

    def run(method: str) -> Callable[[], np.ndarray]:
        return lambda: METHODS[method](task, theta, x, seen, 0)[0]

    def w1(draws: np.ndarray) -> float:
        return score("exponential_gamma", draws, truths)["w1"]

    return {
        "ours": Contestant(run("ours"), score=w1),
        "rejection": Contestant(run("rejection"), score=w1),
        "sbi NPE": Contestant(run("sbi NPE"), needs("torch", "sbi.inference"), once=True, score=w1),
        "pyabc SMC": Contestant(run("pyabc SMC"), needs("pyabc"), once=True, score=w1),
    }


WORKLOADS = {
    "donut": Workload("conditional density of the donut", donut, (2500,), "L1", rounds=2),
    "ratio": Workload("density ratio, normals in the plane", ratio, (1000, 5000), "RMSE"),
    "posterior": Workload("posterior of a simulator, ten observations", posterior, (1000,), "W1", rounds=2),
}
