"""Figure 3: a latent function from its conditional means, beside two naive ways [HR19, 8.1]."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.progress import track

import muhat as mh
from muhat.report.plots import BLUE, GREEN, RED, SOFT, new_figure
from papers.hsu_ramos2019.baselines import cascade, impute
from papers.hsu_ramos2019.toys import draw_task, f, r
from papers.output import Row, legend, letter, save_figure, save_table, show

GRID = np.linspace(-6, 6, 241)
SEEDS = 20
LEVEL = 1.96


def initial(seed: int) -> mh.TaskTransformedGP:
    """The model before learning: kernels of the data's scale."""
    task = draw_task(seed)
    return mh.TaskTransformedGP(optimize=False, center=True).fit(*task)


def one_seed(seed: int) -> list[Row]:
    """Errors of every method against the true f, and the coverage of 95% bands."""
    task, truth = draw_task(seed), f(GRID)
    rows: list[Row] = []
    for name, inference in (("TTGP, full", "full"), ("TTGP, MAP", "map")):
        model = mh.TaskTransformedGP(inference=inference).fit(*task)
        mean, std = model.predict(GRID, return_std=True)
        rows.append(
            {
                "seed": seed,
                "method": name,
                "rmse": float(np.sqrt(np.mean((mean - truth) ** 2))),
                "coverage": float(np.mean(np.abs(mean - truth) <= LEVEL * std)),
                "log likelihood": model.log_marginal_likelihood_,
            }
        )
    for name, method in (("cascade", cascade), ("impute", impute)):
        error = float(np.sqrt(np.mean((method(task, GRID) - truth) ** 2)))
        nothing = {"coverage": float("nan"), "log likelihood": float("nan")}
        rows.append({"seed": seed, "method": name, "rmse": error, **nothing})
    return rows


def summary(rows: list[Row]) -> list[Row]:
    """Averages over seeds, and on how many the full model is the better one."""
    errors = {name: np.array([row["rmse"] for row in rows if row["method"] == name]) for name in _names(rows)}
    ours = errors["TTGP, full"]
    out: list[Row] = []
    for name, error in errors.items():
        covered = np.mean([row["coverage"] for row in rows if row["method"] == name])
        below = f"{int((ours < error).sum())} of {len(ours)}" if name != "TTGP, full" else ""
        out.append(
            {
                "method": name,
                "mean rmse": float(error.mean()),
                "worst rmse": float(error.max()),
                "coverage of 95% bands": float(covered),
                "TTGP, full is better on": below,
            }
        )
    return out


def _names(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def run(out: Path, quick: bool = False, seed: int = 0, seeds: int | None = None) -> list[Row]:
    """Make the figure and its tables in the folder ``out``."""
    count = seeds or (2 if quick else SEEDS)
    rows = [row for s in track(range(seed, seed + count), "figure 3") for row in one_seed(s)]
    table = summary(rows)
    save_table(rows, out / "figure3_seeds.csv")
    save_table(table, out / "figure3.csv")
    show(f"Figure 3: recovery of f on {count} data sets, x from -6 to 6", table)
    _draw(seed, out / "figure3.png")
    return table


def _draw(seed: int, path: Path) -> None:
    task = draw_task(seed)
    figure, grid = new_figure(1, 3)
    figure.set_size_inches(11, 3.4)
    axes = grid[0]
    y = np.linspace(-6, 6, 241)
    axes[0].plot(y, r(y), color=SOFT)
    axes[0].scatter(task.y, task.x, s=8, color=BLUE)
    axes[0].set(xlabel="y", ylabel="x")
    letter(axes[0], "a", "pairs (x, y), and r")
    model = mh.TaskTransformedGP().fit(*task)
    mean, std = model.predict_task(y, return_std=True)
    axes[1].scatter(task.y_task, task.z_task, s=8, color=BLUE)
    axes[1].plot(y, mean, color=RED)
    axes[1].fill_between(y, mean - 2 * std, mean + 2 * std, color=RED, alpha=0.2, lw=0)
    axes[1].set(xlabel="y", ylabel="z")
    letter(axes[1], "b", "the task, and g")
    ax = axes[2]
    ax.plot(GRID, f(GRID), color="black", lw=1.5, label="true f")
    mean, std = model.predict(GRID, return_std=True)
    ax.plot(GRID, mean, color=RED, label="TTGP")
    ax.fill_between(GRID, mean - 2 * std, mean + 2 * std, color=RED, alpha=0.2, lw=0)
    ax.plot(GRID, initial(seed).predict(GRID), color=RED, ls=":", label="before learning")
    ax.plot(GRID, cascade(task, GRID), color=GREEN, lw=1, label="cascade")
    ax.plot(GRID, impute(task, GRID), color=BLUE, lw=1, label="impute")
    ax.set(xlabel="x", ylabel="f", ylim=(-4, 4))
    letter(ax, "c", "f and its recovery, ±2 sd")
    legend(ax, ncols=2, loc="lower left")
    save_figure(figure, path)
