"""Conditional densities: two branches, noise that changes, intervals that keep their word."""

from __future__ import annotations

import numpy as np

import muhat as mh
from muhat._words import percent
from muhat.cli.page import Page
from muhat.datasets import donut, donut_pdf, fork, fork_pdf
from muhat.report import plots
from muhat.report.density import density as density_figure

TITLE = "The density of y given x"
LEVEL = 0.9


def fit(X: np.ndarray, y: np.ndarray) -> mh.ConditionalDensity:
    return mh.ConditionalDensity(calibration=0.25).fit(X, y)  # nothing else is given


def ask(model: mh.ConditionalDensity, x: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "density": model.density(x)(np.linspace(-5, 5, 201)[:, None]),
        "interval": model.interval(x, 0.9),  # calibrated on the rows left out
        "median": model.quantile(x, 0.5),
    }


def several(X: np.ndarray, Y: np.ndarray) -> mh.Density:
    model = mh.ConditionalDensity().fit(X, Y)
    return model.density([[0.0], [1.0]])


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    rng = np.random.default_rng(seed)
    _fork(page, rng)
    _donut(page, rng)


def _fork(page: Page, rng: np.random.Generator) -> None:
    X, y = fork(300, rng)
    page.say(
        f"`ConditionalDensity` estimates p(y | x) itself, here from {len(X)} pairs on the fork. Kernels and "
        "regularisers are learned by the leave-one-out log density. A quarter of the rows is kept back, to "
        "see how far out in their densities they lie: that calibrates the intervals, whatever the density "
        "gets wrong."
    )
    model = page.run(fit, X, y)
    x, grid = np.linspace(0.1, 3.9, 77), np.linspace(-5, 5, 201)
    found = page.run(ask, model, x[:, None])
    truth = fork_pdf(x, grid)
    page.figure(
        plots.conditional_densities(x, grid, {"truth": truth, "muhat": found["density"]}),
        "The density of y given x: the truth, and the estimate.",
        "Two heat maps of y against x, each with one branch that parts into two.",
    )
    new = fork(4000, rng)
    published = ("median", "median", "schedule", "schedule")  # [S20, Section 6]
    rows = []
    for name, other in (
        ("learned, calibrated", model),
        ("published", mh.ConditionalDensity(*published).fit(X, y)),
        ("published, calibrated", mh.ConditionalDensity(*published, calibration=0.25).fit(X, y)),
    ):
        low, high = other.interval(new.X, LEVEL).T
        inside = (low <= new.y) & (new.y <= high)
        error = np.abs(other.density(x[:, None])(grid[:, None]) - truth).sum(axis=1).mean() * 0.05
        rows.append((name, error, percent(inside.mean()), (high - low).mean()))
    page.table(
        rows,
        ["settings", "density, L1", f"inside {100 * LEVEL:.0f}% intervals", "width"],
        f"L1 error of the density averaged over x, and the share of {len(new.y)} new pairs inside their "
        f"intervals, which with {len(X) // 4} rows for calibration varies by 3% or so.",
    )


def _donut(page: Page, rng: np.random.Generator) -> None:
    X, Y = donut(each=6, random_state=rng)
    page.say(
        f"Outputs may be several. These {len(X)} points lie about a tilted ring in space; given one "
        "coordinate, the other two have two modes, or one."
    )
    given = page.run(several, X, Y)
    page.figure(
        density_figure(given, ["x = 0", "x = 1"], ["y₁", "y₂"]),
        "The density of two coordinates given the third: contours by the probability they enclose.",
        "Two panels of contours: two separate islands at x = 0, one at x = 1.",
    )
    side = (np.arange(80) + 0.5) / 20 - 2
    mesh = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    errors = np.abs(given(mesh) - donut_pdf([0.0, 1.0], mesh)).sum(axis=1) * 0.05**2
    page.table(
        [("x = 0", errors[0]), ("x = 1", errors[1])],
        ["", "density, L1"],
        "Against the true density (0 is perfect, 2 the worst).",
    )
