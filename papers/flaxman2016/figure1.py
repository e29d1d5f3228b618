"""Figure 1: prior, empirical embedding and posterior of a mean embedding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import muhat as mh
from muhat.report.plots import BLUE, CYCLE, FILL, INK, SOFT, STYLES, new_figure
from papers.output import legend, letter, save_figure, save_table, show

# The paper gives neither its mixture nor its sample: these are ours. The lengthscale is its caption's.
LENGTHSCALE = 0.1
WEIGHTS, MEANS, SDS = (0.5, 0.3, 0.2), (-0.5, 0.1, 0.7), (0.15, 0.08, 0.2)
ROWS = 30
# Of the likelihood, eq. (5): τ² I, or the covariance of k(X, z).
NOISE = {"τ² = 1": 1.0, "covariance": None}
BAND = 0.95


def sample(n: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` draws of the mixture, (n, 1)."""
    part = rng.choice(3, n, p=WEIGHTS)
    return np.array(MEANS)[part, None] + np.array(SDS)[part, None] * rng.standard_normal((n, 1))


def true_embedding(kernel: mh.Kernel, grid: np.ndarray) -> np.ndarray:
    """μ at ``grid`` (q, 1), in closed form."""
    parts = [
        kernel.gaussian_embedding(grid, np.array([m]), np.array([[s * s]]))
        for m, s in zip(MEANS, SDS, strict=True)
    ]
    return np.array(WEIGHTS) @ np.array(parts)


def coverage(kernel: mh.Kernel, grid: np.ndarray, repetitions: int, seed: int) -> dict[str, float]:
    """How often the band holds the truth, over the grid where there is data, for both noises."""
    truth = true_embedding(kernel, grid)
    seen = truth > 0.1 * truth.max()
    held: dict[str, list[float]] = {name: [] for name in NOISE}
    for i in range(repetitions):
        X = sample(ROWS, np.random.default_rng([seed, 1, i]))
        for name, noise in NOISE.items():
            low, high = mh.BayesianEmbedding(kernel, noise).fit(X).interval(grid, BAND)
            held[name].append(float(np.mean(((low <= truth) & (truth <= high))[seen])))
    return {name: float(np.mean(values)) for name, values in held.items()}


def run(out: Path, quick: bool, seed: int) -> None:
    """Make figure 1 in the folder ``out``."""
    rng = np.random.default_rng(seed)
    kernel = mh.Gaussian(LENGTHSCALE)
    grid = np.linspace(-1.4, 1.6, 241)[:, None]
    X = sample(ROWS, rng)
    posteriors = {name: mh.BayesianEmbedding(kernel, noise).fit(X) for name, noise in NOISE.items()}
    R = np.asarray(posteriors["covariance"].prior_(grid))
    values, U = np.linalg.eigh(R)
    draws = (rng.standard_normal((3, len(grid))) * np.sqrt(np.maximum(values, 0))) @ U.T
    curves: dict[str, np.ndarray] = {"x": grid[:, 0]}
    curves |= {f"prior_{i + 1}": draw for i, draw in enumerate(draws)}
    curves["empirical"] = np.asarray(mh.embed(X, kernel)(grid))
    curves["truth"] = true_embedding(kernel, grid)
    for key, posterior in zip(("tau2_1", "covariance"), posteriors.values(), strict=True):
        curves[f"mean_{key}"] = posterior.mean(grid)
        curves[f"low_{key}"], curves[f"high_{key}"] = posterior.interval(grid, BAND)
    save_table(curves, out / "figure1.csv")
    save_figure(_picture(curves, X), out / "figure1.png")
    held = coverage(kernel, grid[::4], 5 if quick else 200, seed)
    rows = [{"noise": name, "promised": BAND, "held": share} for name, share in held.items()]
    save_table(rows, out / "figure1_coverage.csv")
    show("Share of the true embedding inside the band", rows)


def _picture(curves: dict[str, np.ndarray], X: np.ndarray) -> Any:
    figure, axes = new_figure(2, 2, height=5.2, sharex=True)
    x = curves["x"]
    prior, empirical, paper, ours = axes.ravel()
    for i in range(3):
        prior.plot(x, curves[f"prior_{i + 1}"], color=CYCLE[i], linestyle=STYLES[i], linewidth=1.3)
    letter(prior, "A", "three draws of the prior")
    empirical.plot(x, curves["empirical"], color=INK, linewidth=1.4)
    empirical.plot(X[:, 0], np.full(len(X), -0.02), "|", color=SOFT, markersize=8)
    letter(empirical, "B", f"empirical embedding of {len(X)} points")
    for ax, key, name, title in (
        (paper, "tau2_1", "C", "posterior, τ² = 1"),
        (ours, "covariance", "C′", "posterior, noise by the covariance of k"),
    ):
        ax.fill_between(
            x,
            curves[f"low_{key}"],
            curves[f"high_{key}"],
            color=FILL,
            linewidth=0,
            label=f"{BAND:.0%} intervals",
        )
        ax.plot(x, curves[f"mean_{key}"], color=INK, linewidth=1.4, label="mean")
        ax.plot(x, curves["truth"], color=BLUE, linestyle="--", linewidth=1.4, label="true embedding")
        ax.axhline(0, color=SOFT, linewidth=0.6)
        letter(ax, name, title)
        ax.set_xlabel("x")
    for ax in (paper, ours):
        ax.set_ylim(-0.7, 0.9)  # outside the data the band is that of the prior
    for ax in axes[:, 0]:
        ax.set_ylabel("μ(x)")
    legend(ours, loc="lower center", fontsize=7.5, frameon=True, edgecolor="none")
    return figure
