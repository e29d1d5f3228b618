"""Figure 4: five points that stand for a hundred [HR19, 8.2]."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.progress import track

import muhat as mh
from muhat.report.plots import BLUE, RED, SOFT, new_figure
from papers.hsu_ramos2019.toys import NOISE, draw_direct, f
from papers.output import Row, letter, save_figure, save_table, show

GRID = np.linspace(-5, 5, 201)
POINTS, SEEDS = 5, 10
TRUE = 1.0 * mh.Gaussian(1.0)  # of the process that f is the mean of


def models(seed: int) -> dict[str, mh.TaskTransformedGP]:
    """The full Gaussian process and its sparse representations, on one data set.

    With the true hyperparameters both kernels are the same, as in the paper; learned jointly, ℓ is a large
    multiple of k (see the docs), so that f is its own conditional mean.
    """
    y, z = draw_direct(seed)
    random = np.random.default_rng(1000 + seed).uniform(-5, 5, (POINTS, 1))
    true = {"kernel_x": TRUE, "kernel_y": TRUE, "noise": NOISE}
    full = {"kernel_x": TRUE, "noise": NOISE}
    return {
        "full, learned": mh.TaskTransformedGP().fit_direct(y, z),
        "full, true": mh.TaskTransformedGP(**full, optimize=False).fit_direct(y, z),
        "five random points, true": mh.TaskTransformedGP(**true, optimize=False, inducing=random).fit_direct(
            y, z
        ),
        "five learned points, jointly": mh.TaskTransformedGP(inducing=POINTS).fit_direct(y, z),
        "five learned points, true": mh.TaskTransformedGP(
            **true, optimize="inducing", inducing=POINTS
        ).fit_direct(y, z),
    }


def one_seed(seed: int) -> list[Row]:
    """Marginal likelihoods, and errors against the true function."""
    truth = f(GRID)
    return [
        {
            "seed": seed,
            "model": name,
            "log likelihood": model.log_marginal_likelihood_,
            "rmse": float(np.sqrt(np.mean((model.predict(GRID) - truth) ** 2))),
            "noise": float(model.noise_),
        }
        for name, model in models(seed).items()
    ]


def summary(rows: list[Row]) -> list[Row]:
    """Averages over seeds, and on how many five points reach the learned full process."""
    full = np.array([row["log likelihood"] for row in rows if row["model"] == "full, learned"])
    out: list[Row] = []
    for name in dict.fromkeys(row["model"] for row in rows):
        part = [row for row in rows if row["model"] == name]
        value = np.array([row["log likelihood"] for row in part])
        out.append(
            {
                "model": name,
                "log likelihood": float(value.mean()),
                "rmse": float(np.mean([row["rmse"] for row in part])),
                "reaches full, learned on": f"{int((value >= full).sum())} of {len(full)}",
            }
        )
    return out


def run(out: Path, quick: bool = False, seed: int = 0, seeds: int | None = None) -> list[Row]:
    """Make the figure and its tables in the folder ``out``."""
    count = seeds or (1 if quick else SEEDS)
    rows = [row for s in track(range(seed, seed + count), "figure 4") for row in one_seed(s)]
    table = summary(rows)
    save_table(rows, out / "figure4_seeds.csv")
    save_table(table, out / "figure4.csv")
    show(f"Figure 4: sparse representations of 100 observations, {count} data sets", table)
    _draw(seed, out / "figure4.png")
    return table


def _draw(seed: int, path: Path) -> None:
    y, z = draw_direct(seed)
    found = models(seed)
    names = [
        "full, learned",
        "five random points, true",
        "five learned points, jointly",
        "five learned points, true",
    ]
    figure, grid = new_figure(1, 4, sharey=True)
    figure.set_size_inches(13, 3.2)
    axes = grid[0]
    for ax, name, tag in zip(axes, names, "abcd", strict=True):
        model = found[name]
        mean, std = model.predict(GRID, return_std=True)
        ax.plot(GRID, f(GRID), color="black", lw=1.2)
        ax.scatter(y, z, s=6, color=SOFT)
        ax.plot(GRID, mean, color=RED)
        ax.fill_between(GRID, mean - 2 * std, mean + 2 * std, color=RED, alpha=0.2, lw=0)
        if model.inducing_ is not None:
            ax.plot(model.inducing_[:, 0], np.full(POINTS, -3.6), "|", color=BLUE, ms=10, mew=2)
        ax.set(xlabel="y", ylim=(-4, 4))
        letter(ax, tag, f"{name}: {model.log_marginal_likelihood_:.1f}")
    save_figure(figure, path)
