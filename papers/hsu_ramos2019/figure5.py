"""Figure 5: posteriors without a likelihood, on exponential-gamma and on Lotka–Volterra."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import muhat as mh
from muhat.datasets import DataNotFound, exponential_gamma_posterior, sbibm, simulator
from muhat.report.plots import BLUE, CYCLE, FILL, INK, SOFT, STYLES, new_figure
from muhat.report.posterior import marginal_density
from muhat.simulation.draws import weighted
from papers.hsu_ramos2019.peers import DRAWS, rejection, sbi_npe
from papers.hsu_ramos2019.scores import mean_error, sd_ratio, wasserstein
from papers.output import Row, legend, letter, save_figure, save_table, show

# The kernel methods of the figure; the default is the best of the library's own by held-out score.
METHODS: dict[str, Any] = {
    "default": None,
    "DME": "dme",
    "KELFI": "kelfi",
    "KBR": "kbr",
    "importance": "importance",
    "K-ABC": "kabc",
    "K2-ABC": "k2abc",
    "rejection": "rejection",
}
SIMULATIONS = 100
SEEDS = 10
LV_METHODS = ("default", "DME", "KELFI", "KBR", "importance", "K-ABC")
LV_SIMULATIONS = 2000


def posterior(method: str | None, theta: np.ndarray, x: np.ndarray, observed: np.ndarray, seed: int) -> Any:
    """Weighted points of each posterior, by one method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the deconditional rule, and of far observations
        given = mh.LikelihoodFree(method, random_state=seed).fit(theta, x).posterior(observed)
    batch = [given] if isinstance(given, mh.Embedding) and not given.is_batch else given
    return [weighted(batch[i]) for i in range(len(observed))]


def run(out: Path, quick: bool = False, seed: int = 0) -> None:
    """Make both panels and their tables in the folder ``out``."""
    figure, axes = new_figure(1, 2, height=3.6, width_ratios=[1.25, 1])
    left(axes[0, 0], out, 2 if quick else SEEDS, seed)
    try:
        right(axes[0, 1], out, 200 if quick else LV_SIMULATIONS, seed, 1 if quick else 10)
    except DataNotFound as error:
        print(f"right panel left out: {error}", file=sys.stderr)
        axes[0, 1].set_axis_off()
    save_figure(figure, out / "figure5.png")


def left(ax: Any, out: Path, seeds: int, seed: int) -> None:
    """Exponential-gamma with 100 simulations: the curves of the first seed, the errors of all."""
    task, rows = simulator("exponential_gamma"), []
    observed = task.simulate(np.array([[3.0]]), 12345)
    exact = exponential_gamma_posterior(observed)
    truth = exact.ppf((np.arange(2001) + 0.5) / 2001)[:, None]
    grid = np.linspace(0, 9, 500)
    ax.fill_between(grid, exact.pdf(grid), color=FILL, linewidth=0, label="exact")
    for k in range(seed, seed + seeds):
        rng = np.random.default_rng([k, SIMULATIONS])
        theta = task.prior(SIMULATIONS, rng)
        x = task.simulate(theta, rng)
        for i, (name, method) in enumerate(METHODS.items()):
            start = process_time()
            (found,) = posterior(method, theta, x, observed, k)
            seconds = process_time() - start
            draws = found.resample(DRAWS, rng)
            rows.append(
                {
                    "method": name,
                    "seed": k,
                    "w1": wasserstein(draws[:, 0], truth[:, 0]),
                    "mean error": mean_error(draws, truth),
                    "sd ratio": sd_ratio(draws, truth),
                    "negative": found.negative,
                    "seconds": seconds,
                }
            )
            if k == seed:
                curve = marginal_density(found.points[:, 0], found.weights, grid)
                colour, style = (*CYCLE, INK, SOFT)[i], (*STYLES, ":", "-")[i]
                width = 2.2 if i == 0 else 1.3
                ax.plot(grid, curve, color=colour, linestyle=style, linewidth=width, label=name)
    ax.set(xlabel="rate θ", ylabel="posterior density", xlim=(0, 9))
    ax.set_ylim(bottom=0)
    letter(ax, "a", f"exponential-gamma, {SIMULATIONS} simulations")
    legend(ax)
    save_table(rows, out / "figure5_left_runs.csv")
    table = _means(rows)
    save_table(table, out / "figure5_left.csv")
    show(f"Exponential-gamma, {SIMULATIONS} simulations, mean over {seeds} seeds; in posterior sds", table)


def right(ax: Any, out: Path, n: int, seed: int, count: int) -> None:
    """Lotka–Volterra: the first log parameter, middle 95%, of the first observation; errors of all."""
    task, known = simulator("lotka_volterra"), sbibm("lotka_volterra")
    rng = np.random.default_rng([seed, n])
    theta = task.prior(n, rng)
    x = task.simulate(theta, rng)
    observed, references = known.x[:count], np.log(known.reference[:count])
    draws: dict[str, np.ndarray] = {}
    seconds: dict[str, float] = {}
    for name in LV_METHODS:
        start = process_time()
        each = posterior(METHODS[name], theta, x, observed, seed)
        seconds[name] = (process_time() - start) / count
        draws[name] = np.log(np.stack([found.resample(DRAWS, rng) for found in each]))
    for name, method in {"rejection": rejection, "sbi NPE": sbi_npe}.items():
        try:
            found, seconds[name] = method(task, theta, x, observed, seed)
        except ImportError as reason:
            print(f"{name} left out: {reason}")
            continue
        draws[name] = np.log(np.maximum(found, 1e-12))
    shown = {"reference": references[0], **{name: each[0] for name, each in draws.items()}}
    for i, (_, sample) in enumerate(shown.items()):
        low, middle, high = np.quantile(sample[:, 0], [0.025, 0.5, 0.975])
        colour = INK if i == 0 else BLUE
        ax.plot([low, high], [i, i], color=colour, linewidth=2)
        ax.plot(middle, i, "o", color=colour, markersize=5)
    ax.axvline(np.log(known.theta[0, 0]), color=INK, linestyle="--", linewidth=1)
    ax.set_yticks(range(len(shown)), list(shown))
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlabel("log α, middle 95%; dashed: the truth")
    letter(ax, "b", f"Lotka–Volterra, {n} simulations")
    rows: list[Row] = [
        {
            "method": name,
            "observation": i,
            "mean error": mean_error(sample, truth),
            "sd ratio": sd_ratio(sample, truth),
            "mean error of log α": mean_error(sample[:, :1], truth[:, :1]),
            "sd ratio of log α": sd_ratio(sample[:, :1], truth[:, :1]),
            "seconds": seconds[name],
        }
        for name, each in draws.items()
        for i, (sample, truth) in enumerate(zip(each, references, strict=True))
    ]
    save_table(rows, out / "figure5_right_runs.csv")
    table = _means(rows)
    save_table(table, out / "figure5_right.csv")
    show(f"Lotka–Volterra, {n} simulations, log parameters, mean over {count} observations", table)


def _means(rows: list[Any]) -> list[Row]:
    """Means of every column of numbers, by method."""
    columns = [name for name in rows[0] if name not in ("method", "seed", "observation")]
    return [
        {
            "method": method,
            **{c: float(np.mean([r[c] for r in rows if r["method"] == method])) for c in columns},
        }
        for method in dict.fromkeys(r["method"] for r in rows)
    ]
