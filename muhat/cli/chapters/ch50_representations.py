"""Representations: the same answer from fewer numbers, or from blocks, or from groups."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

import muhat as mh
from muhat.cli.page import Page
from muhat.datasets import daily_load, daily_load_mean, daily_load_sd, gaussian_mixture
from muhat.gram import Representation
from muhat.report import plots
from muhat.report.cells import cell

TITLE = "One answer, several representations"
ROWS, REPEATS = 3000, 3
SIZES = [10, 20, 50, 100, 200, 400]
LEVELS = [0.05, 0.25, 0.75, 0.95]


def representations() -> dict[str, Representation]:
    return {
        "exact": mh.Exact(),
        "exact, in blocks": mh.Exact(memory=0),  # the n×n matrix is never held
        "Nyström, 200 landmarks": mh.Nystrom(200),
        "Fourier, 400 features": mh.Fourier(400),
    }


def fit(X: np.ndarray, y: np.ndarray, like: Any, how: Any) -> mh.ConditionalMean:
    kernels = like.kernel_x_, like.kernel_y_
    model = mh.ConditionalMean(*kernels, like.reg_, representation=how)
    return model.fit(X, y)


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    rng = np.random.default_rng(seed)
    _representations(page, rng)
    _groups(page, rng)


def _surface(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = gaussian_mixture(n, d=2, random_state=rng)
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)


def _representations(page: Page, rng: np.random.Generator) -> None:
    X, y = _surface(ROWS, rng)
    new, y_new = _surface(500, rng)
    page.say(
        "A Gram matrix of n rows has n² entries and costs n³ to solve. One keyword, `representation=`, holds "
        f"it otherwise. {ROWS} rows in the plane, the same kernel and regulariser for all."
    )
    like = mh.ConditionalMean().fit(X[:500], y[:500])
    ways = page.run(representations)
    page.show(fit)
    rows, exact, unit = [], np.empty(0), 1.0
    for name, representation in ways.items():
        model, seconds = _timed(X, y, like, representation)
        values = model.predict(new)
        if name == "exact":
            exact, unit = values, seconds
        rows.append((name, _distance(values, exact), model.score(new, y_new), f"{seconds / unit:.2f}×"))
    page.table(
        rows,
        ["representation", "distance from exact", "held-out score", "time to fit"],
        "Root mean square distance of the predictions from the exact ones, in their standard deviations; the "
        "share of the variance of y's embedding that x explains on 500 new rows; and time relative to exact, "
        "in this run.",
    )
    curves: dict[str, list[float]] = {"Nyström, uniform": [], "Nyström, k-means++": [], "Fourier": []}
    for p in SIZES:
        options = (mh.Nystrom(p, "uniform"), mh.Nystrom(p), mh.Fourier(p))
        for errors, representation in zip(curves.values(), options, strict=True):
            errors.append(_distance(fit(X, y, like, representation).predict(new), exact))
    page.figure(
        plots.error_curves(
            np.array(SIZES), {k: np.array(v) for k, v in curves.items()}, "features p", "distance from exact"
        ),
        "Distance of the predictions from the exact ones against the number of features. Nyström landmarks "
        "are drawn evenly from the rows, or spread out (k-means++, the default).",
    )
    enough = [p for p, error in zip(SIZES, curves["Nyström, k-means++"], strict=True) if error < 0.01]
    if enough:
        page.say(
            f"With the default landmarks, {enough[0]} of the {ROWS} points bring the predictions within 1% "
            "of the exact ones."
        )


def _timed(
    X: np.ndarray, y: np.ndarray, like: mh.ConditionalMean, representation: Representation
) -> tuple[mh.ConditionalMean, float]:
    """The model, and the least time of a few fits."""
    model, times = like, []
    for _ in range(REPEATS):
        start = perf_counter()
        model = fit(X, y, like, representation)
        times.append(perf_counter() - start)
    return model, min(times)


def _distance(values: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values - exact) ** 2)) / exact.std())


def _groups(page: Page, rng: np.random.Generator) -> None:
    X, y = daily_load(60, rng)
    model = mh.ConditionalMean().fit(X, y)
    groups = model.groups_
    assert groups is not None
    assert model.reg_ is not None
    n, g, hours = len(X), len(groups.points), np.arange(24.0)
    # The formula with all rows, to compare: (K + nλI)⁻¹ y.
    coefficients = np.linalg.solve(model.kernel_x_(X) + n * model.reg_ * np.eye(n), y)
    dense = model.kernel_x_(hours[:, None], X) @ coefficients
    mean = model.predict(hours[:, None])
    page.say(
        f"Repeated inputs are grouped by themselves. A load at every hour of 60 days has {n} rows but {g} "
        f"distinct inputs, so the system solved is {g}×{g}. Its answer differs from that of the full {n}×{n} "
        f"system by at most {cell(np.abs(mean - dense).max())}."
    )
    from scipy.special import ndtri

    truth = daily_load_mean(hours)[:, None] + daily_load_sd(hours)[:, None] * ndtri(LEVELS)
    quantiles = model.at(hours[:, None]).quantile(LEVELS)[..., 0]
    page.figure(
        plots.quantile_fan(hours, quantiles, LEVELS, (X, y), truth, mean, "hour of the day", "load"),
        "Quantiles of the load by hour, from 24 groups of 60 values each.",
    )
