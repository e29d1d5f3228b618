"""Deconditioning: a function from its averages, and from averages of which the weights are known."""

from __future__ import annotations

import numpy as np

import muhat as mh
from muhat._array import Array
from muhat._words import percent
from muhat.cli.page import Page
from muhat.report.plots import BLUE, RED, SOFT, new_figure

TITLE = "Recovering what was averaged"
NOISE = 0.1


def fit(x: Array, y: Array, y_task: Array, z_task: Array) -> mh.TaskTransformedGP:
    # z was never seen beside x
    return mh.TaskTransformedGP(starts=1).fit(x, y, y_task, z_task)


def naive(x: Array, y: Array, y_task: Array, z_task: Array) -> mh.TaskTransformedGP:
    # takes averages for values
    g = mh.TaskTransformedGP(starts=1).fit_direct(y_task, z_task)
    return mh.TaskTransformedGP(starts=1).fit_direct(x, g.predict(y))


def unblock(t: Array, M: Array, averages: Array) -> mh.TaskTransformedGP:
    # averages = M f(t) + noise
    return mh.TaskTransformedGP(starts=1).fit_transformed(t, M, averages)


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    rng = np.random.default_rng(seed)
    _task(page, rng)
    _blocks(page, rng)


def _task(page: Page, rng: np.random.Generator) -> None:
    n, m = 60, 80
    y, y_task = rng.uniform(-3, 3, n), rng.uniform(-3, 3, m)
    x, hidden = (2 * np.sin(a) + 0.4 * rng.normal(size=len(a)) for a in (y, y_task))
    z_task = np.sin(2 * hidden) + NOISE * rng.normal(size=m)
    page.say(
        f"{n} pairs (x, y) say how x varies with y, and {m} values of z were seen at other y: averages of f "
        "over the x behind them, with noise. `TaskTransformedGP` recovers f with its uncertainty; kernels "
        "and noise are learned by the marginal likelihood."
    )
    model = page.run(fit, x, y, y_task, z_task)
    other = page.run(naive, x, y, y_task, z_task)
    grid = np.linspace(-2.2, 2.2, 121)
    truth = np.sin(2 * grid)
    mean, std = model.predict(grid, return_std=True)
    figure, axes = new_figure(1, 2)
    left, right = axes[0]
    left.scatter(y_task, z_task, s=8, color=SOFT)
    at = np.linspace(-3, 3, 121)
    left.plot(at, model.predict_task(at), color=RED)
    left.set(xlabel="y", ylabel="z")
    right.plot(grid, truth, color=SOFT, label="f")
    right.plot(grid, mean, color=RED, label="recovered")
    right.fill_between(grid, mean - 2 * std, mean + 2 * std, color=RED, alpha=0.2, lw=0)
    right.plot(grid, other.predict(grid), color=BLUE, lw=1, label="imputed")
    right.set(xlabel="x", ylabel="f(x)", ylim=(-2.5, 2.5))
    right.legend(frameon=False, fontsize=8)
    page.figure(
        figure,
        "What was seen: z at y, and its mean. What was asked for: f of x, recovered with a band of two "
        "standard deviations.",
        "Left, points and a curve of z against y; right, two curves of f against x and a band about one.",
    )
    rows = [
        (name, np.sqrt(np.mean((p - truth) ** 2)))
        for name, p in (("task-transformed", mean), ("imputed averages", other.predict(grid)))
    ]
    inside = np.mean(np.abs(mean - truth) <= 2 * std)
    page.table(
        rows, ["method", "error of f"], f"Root mean squared error; {percent(inside)} of f is in its band."
    )


def _blocks(page: Page, rng: np.random.Generator) -> None:
    t, size = np.linspace(0, 10, 120), 8
    f = 3 + np.sin(t) + 0.3 * np.cos(3 * t)
    M = np.kron(np.eye(len(t) // size), np.full(size, 1 / size))
    averages = M @ f + 0.02 * rng.normal(size=len(M))
    page.say(
        f"Where the weights of the averages are known they are simply given: here {len(M)} means of {size} "
        "points each, from which all points are predicted."
    )
    model = page.run(unblock, t, M, averages)
    steps = np.repeat(averages, size)
    page.table(
        [
            ("from block averages", np.sqrt(np.mean((model.predict(t) - f) ** 2))),
            ("each average as it is", np.sqrt(np.mean((steps - f) ** 2))),
        ],
        ["method", "error of f"],
        f"Root mean squared error at {len(t)} points.",
    )
