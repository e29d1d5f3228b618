"""Bayes' rule: a posterior without a likelihood, and a hidden state tracked through noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import muhat as mh
from muhat.cli.page import Page
from muhat.datasets import Sequence, orbit, orbit_step
from muhat.models import Filtered, Posterior
from muhat.report import plots
from muhat.report.cells import cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Bayes' rule and tracking"
SEEN = [-0.5, 0.5, 1.5]
NOISE, PRIOR = 0.5, (1.0, 0.6)  # of the instrument; mean and standard deviation of z
TRAINING, STEPS, GAP = 200, 100, slice(60, 66)


def posterior(x: np.ndarray, z: np.ndarray, prior: np.ndarray, seen: np.ndarray) -> Posterior:
    model = mh.KernelBayes().fit(x, z)  # pairs: what the instrument shows, and what it was shown
    return model.posterior(seen, prior)  # one posterior for each observation


def track(known: Sequence, x: np.ndarray) -> tuple[mh.KernelBayesFilter, Filtered]:
    model = mh.KernelBayesFilter().fit(known.X, known.Z)  # here the state was known, too
    return model, model.filter(x, missing="predict")


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    rng = np.random.default_rng(seed)
    _posterior(page, rng)
    _tracking(page, seed, rng)


def _posterior(page: Page, rng: np.random.Generator) -> None:
    z = rng.uniform(-3, 3, 300)
    x = z[:, None] + NOISE * rng.standard_normal((300, 1))
    prior = rng.normal(*PRIOR, (200, 1))
    page.say(
        f"An instrument was calibrated on {len(z)} values of z spread over its whole range, and showed x. "
        f"What is measured now is a z of which {len(prior)} earlier ones are known: the prior. From these "
        "two samples follows the posterior of z given x, without a likelihood function. Here all is "
        "Gaussian, and the exact posterior is known."
    )
    seen = np.array(SEEN)
    found = page.run(posterior, x, z, prior, seen[:, None])
    precision = PRIOR[1] ** -2 + NOISE**-2
    exact, sd = (PRIOR[0] / PRIOR[1] ** 2 + seen / NOISE**2) / precision, precision**-0.5
    means, spreads = found.mean()[:, 0], np.sqrt(np.maximum(found.cov()[:, 0, 0], 0))
    page.table(
        [(f"x = {v:g}", m, e, s, sd) for v, m, e, s in zip(seen, means, exact, spreads, strict=True)],
        ["observation", "mean", "exact", "standard deviation", "exact "],
        "The posterior of z from samples, beside the exact one.",
    )
    grid = np.linspace(-1.5, 3, 301)
    curves = {f"posterior at x = {SEEN[0]:g}": found[0].density().pdf(grid[:, None])}
    curves["prior"] = mh.embed(prior).density().pdf(grid[:, None])
    truth = np.exp(-0.5 * ((grid - exact[0]) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    page.figure(
        plots.densities(grid, curves, truth, xlabel="z"),
        f"The density of the posterior at x = {SEEN[0]:g}, between what was seen and the prior; in grey the "
        "exact one.",
    )


def _tracking(page: Page, seed: int, rng: np.random.Generator) -> None:
    whole = orbit(TRAINING + STEPS, random_state=seed)
    known = Sequence(whole.X[:TRAINING], whole.Z[:TRAINING])
    x, z = whole.X[TRAINING:].copy(), whole.Z[TRAINING:]
    x[GAP] = np.nan
    page.say(
        "With a prediction between observations, Bayes' rule is a filter. A point circles the origin and is "
        f"seen through noise; for {TRAINING} steps it was known where it really was. Of the {STEPS} steps "
        f"that follow, {GAP.stop - GAP.start} are not seen at all. The filter knows neither the motion nor "
        "the noise."
    )
    model, states = page.run(track, known, x)
    means, gap = states.mean(), np.isnan(x[:, 0])
    best = _particles(x, rng)
    page.table(
        [
            ("the observation itself", _error(x[~gap], z[~gap]), "–"),
            ("the filter", _error(means[~gap], z[~gap]), cell(_error(means[gap], z[gap]))),
            ("particles that know the model", _error(best[~gap], z[~gap]), cell(_error(best[gap], z[gap]))),
        ],
        ["estimate", "where seen", "in the gap"],
        "The mean squared distance from the true position.",
    )
    page.say(
        f"{states.summary()} Kernels and regularisers were chosen by tracking held-out stretches of the "
        f"training sequence, {len(model.choice_.path)} times."
    )
    page.figure(
        _paths(x, z, states),
        "One coordinate over time: the truth, the observations, and the filter with its 90% interval; "
        "nothing is seen in the grey stretch.",
    )


def _error(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(((estimate - truth) ** 2).sum(axis=1).mean())


def _particles(x: np.ndarray, rng: np.random.Generator, n: int = 2000, noise: float = 0.2) -> np.ndarray:
    """Means of the bootstrap particle filter that knows motion and noise: the best there is, (T, 2)."""
    z, out = 1.5 * rng.standard_normal((n, 2)), []
    for row in x:
        z = orbit_step(z) + noise * rng.standard_normal((n, 2))
        if not np.isnan(row).any():
            logs = -0.5 * ((z - row) ** 2).sum(axis=1) / noise**2
            w = np.exp(logs - logs.max())
            z = z[rng.choice(n, n, p=w / w.sum())]
        out.append(z.mean(axis=0))
    return np.array(out)


def _paths(x: np.ndarray, z: np.ndarray, states: Filtered) -> Figure:
    figure, ((ax,),) = plots.new_figure()
    steps = np.arange(len(z))
    low, high = states.quantile([0.05, 0.95])[:, :, 0].T
    ax.axvspan(GAP.start - 0.5, GAP.stop - 0.5, color=plots.FAINT, linewidth=0)
    ax.fill_between(steps, low, high, color=plots.BLUE, alpha=0.2, linewidth=0, label="90%")
    ax.plot(steps, z[:, 0], color=plots.INK, linewidth=1.2, label="truth")
    ax.plot(steps, x[:, 0], ".", color=plots.SOFT, markersize=5, label="observed")
    ax.plot(steps, states.mean()[:, 0], "--", color=plots.RED, linewidth=1.6, label="filter")
    ax.set(xlabel="step", ylabel="first coordinate", xlim=(0, len(z) - 1))
    ax.legend(frameon=False, fontsize=9, ncols=4, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return figure
