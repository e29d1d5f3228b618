"""Figures of posteriors known by weighted points: marginals, and pairs of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from muhat.embedding import Embedding
from muhat.report.plots import BLUE, FILL, INK, SOFT, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN = 5  # parameters, at most
GRID = 400
POINTS = 600  # of a cloud
LETTERS = 30
MULTIPLES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05)  # of Scott's width
LOOKED = 600  # points that the width is chosen on


def posterior(
    given: Embedding,
    names: Sequence[str] | None = None,
    prior: Any = None,
    level: float = 0.9,
    truth: Any = None,
    random_state: Any = 0,
) -> Figure:
    """The marginal density of each parameter over its prior, and below them every pair as a cloud of draws.

    Args:
        given: one posterior.
        names: of the parameters.
        prior: samples of the prior, (m, p), in grey.
        level: of the shaded intervals.
        truth: known parameters, (p,), as dashed lines.
        random_state: seed of the draws.
    """
    from muhat._validation import as_generator
    from muhat.simulation.draws import weighted

    found = weighted(given)
    support = getattr(given, "support", None)
    p = found.points.shape[1]
    shown = min(p, DRAWN)
    names = [_plain(name) for name in names or [f"theta{j + 1}" for j in range(p)]]
    draws = found.resample(POINTS, as_generator(random_state))
    rows = None if prior is None else np.asarray(prior, dtype=np.float64).reshape(-1, p)
    ends = given.quantile([(1 - level) / 2, (1 + level) / 2])
    figure, axes = new_figure(shown, shown, height=3.2 if shown == 1 else 0.4 + 1.9 * shown, sharex="col")
    for j in range(shown):
        bounds = (-np.inf, np.inf) if support is None else (support.lower[j], support.upper[j])
        span = _range(found.points[:, j], found.weights, None if rows is None else rows[:, j], bounds)
        _marginal(axes[j, j], found.points[:, j], found.weights, rows, j, span, ends[:, j], level, bounds)
        for i in range(shown):
            ax = axes[i, j]
            if i < j:
                ax.set_axis_off()
                continue
            ax.set_xlim(*span)
            if i > j:
                _cloud(ax, draws, rows, i, j)
            if truth is not None:
                ax.axvline(np.ravel(truth)[j], color=INK, linestyle="--", linewidth=1.0)
                if i > j:
                    ax.axhline(np.ravel(truth)[i], color=INK, linestyle="--", linewidth=1.0)
            if i == shown - 1:
                ax.set_xlabel(names[j], parse_math=False)
            if j == 0 and i > 0:
                ax.set_ylabel(names[i], parse_math=False)
    if shown == 1:
        axes[0, 0].set_ylabel("density")
        axes[0, 0].legend(frameon=False, fontsize=9, labelcolor=INK)
    return figure


def marginal_density(
    values: np.ndarray,
    weights: np.ndarray,
    grid: np.ndarray,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> np.ndarray:
    """A weighted Gaussian density of one parameter on a grid (m,), mirrored at its bounds and zero beyond.

    Its width is a multiple of Scott's, at most one, by the leave-one-out likelihood: of several modes the
    standard deviation says nothing.
    """
    values, place = np.unique(values, return_inverse=True)  # of copies one tells where the other is
    weights = np.bincount(place, weights)
    mean = weights @ values
    spread = float(np.sqrt(weights @ (values - mean) ** 2))
    scott = max(spread * (1 / (weights**2).sum()) ** -0.2, 1e-9 * (1 + abs(mean)))
    width = scott * max(MULTIPLES, key=lambda multiple: _left_out(values, weights, multiple * scott))
    images = [values, *(2 * end - values for end in bounds if np.isfinite(end))]
    out = sum(np.exp(-0.5 * ((grid[:, None] - image) / width) ** 2) @ weights for image in images)
    inside = (grid >= bounds[0]) & (grid <= bounds[1])
    return np.where(inside, out / (np.sqrt(2 * np.pi) * width), 0.0)


def _left_out(values: np.ndarray, weights: np.ndarray, width: float) -> float:
    """The weighted mean log density of points, each without itself."""
    some = np.linspace(0, len(values) - 1, min(len(values), LOOKED)).astype(int)
    values, weights = values[some], weights[some]
    K = np.exp(-0.5 * ((values[:, None] - values) / width) ** 2)
    np.fill_diagonal(K, 0.0)
    return float(
        weights @ np.log(np.maximum(K @ weights / (weights.sum() - weights + 1e-300) / width, 1e-300))
    )


def _range(
    values: np.ndarray, weights: np.ndarray, prior: np.ndarray | None, bounds: tuple[float, float]
) -> tuple[float, float]:
    """What is shown of a parameter: its posterior with a margin, and of a prior not much wider all."""
    order = np.argsort(values)
    places = np.searchsorted(np.cumsum(weights[order]), [0.002, 0.998]).clip(0, len(values) - 1)
    low, high = values[order][places]
    pad = 0.6 * (high - low) or 0.5 * abs(low) or 0.5
    low, high = low - pad, high + pad
    if prior is not None:  # there is nothing beyond the prior
        low, high = max(low, prior.min() - 0.02 * pad), min(high, prior.max() + 0.02 * pad)
        if low >= high:
            low, high = float(values.min()) - pad, float(values.max()) + pad
    # Nothing is beyond the bounds; a sliver shows where they are.
    return float(max(low, bounds[0] - 0.02 * pad)), float(min(high, bounds[1] + 0.02 * pad))


def _marginal(
    ax: Axes,
    values: np.ndarray,
    weights: np.ndarray,
    prior: np.ndarray | None,
    j: int,
    span: tuple[float, float],
    ends: np.ndarray,
    level: float,
    bounds: tuple[float, float],
) -> None:
    grid = np.linspace(*span, GRID)
    if prior is not None:
        before = marginal_density(prior[:, j], np.full(len(prior), 1 / len(prior)), grid, bounds)
        ax.fill_between(grid, before, color=FILL, alpha=0.6, linewidth=0, label="prior")
    curve = marginal_density(values, weights, grid, bounds)
    inside = (grid >= ends[0]) & (grid <= ends[1])
    ax.fill_between(
        grid, curve, where=inside, color=BLUE, alpha=0.25, linewidth=0, label=f"{level:.3g} interval"
    )
    ax.plot(grid, curve, color=BLUE, linewidth=1.8, label="posterior")
    ax.set_ylim(bottom=0)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _cloud(ax: Axes, draws: np.ndarray, prior: np.ndarray | None, i: int, j: int) -> None:
    if prior is not None:
        ax.plot(*prior[:POINTS, [j, i]].T, ".", color=SOFT, alpha=0.25, markersize=3, markeredgewidth=0)
    ax.plot(*draws[:, [j, i]].T, ".", color=BLUE, alpha=0.45, markersize=4, markeredgewidth=0)
    low, high = np.quantile(draws[:, i], [0.002, 0.998])
    pad = 0.3 * (high - low) or 0.5 * abs(low) or 0.5
    ax.set_ylim(low - pad, high + pad)


def _plain(text: Any) -> str:
    text = str(text)
    return " " * text.startswith("_") + shorten(text, LETTERS, placeholder="…")


__all__ = ["marginal_density", "posterior"]
