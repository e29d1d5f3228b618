"""Figures of densities: curves on the line, contours in the plane, columns one by one beyond."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from muhat.embedding import Atoms, Density, Mixture
from muhat.embedding.reconstruction import OutsideBox
from muhat.report.plots import BLUE, CYCLE, INK, SOFT, STYLES, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN = len(CYCLE)  # densities in a figure, at most
GRID = 801  # points of a curve
CELLS = 96  # along each axis of a plane
STEPS = 60  # of the marginal density of one column of several
SHARES = (0.9, 0.75, 0.5, 0.25)  # of the probability that contours enclose
# A mode: above the valley beside it by this share of the highest one, and by this share of itself.
RISE, DEPTH = 0.1, 0.25
LETTERS = 40  # of a name


def density(
    given: Density | Mixture | Atoms,
    labels: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    level: float = 0.9,
    intervals: np.ndarray | None = None,
) -> Figure:
    """One density or the first six of a batch: curves and intervals, contours in two dimensions.

    Of three and more columns the marginal density of each is drawn.

    Args:
        given: what :meth:`muhat.ConditionalDensity.density`, :meth:`muhat.ConditionalDensity.at` or
            :meth:`muhat.Embedding.density` return.
        labels: one for each density.
        names: of the columns.
        level: of the intervals.
        intervals: of each density and column, (batch, k, 2), e.g. calibrated ones; between quantiles by
            default.
    """
    parts = densities(given)[:DRAWN]
    k = len(parts[0].mean())
    alone = len(parts) == 1
    labels = [_plain(t) for t in labels or [f"density {i}" for i in range(1, len(parts) + 1)]]
    names = [_plain(name) for name in names or ([f"y{j}" for j in range(1, k + 1)] if k > 1 else ["y"])]
    if intervals is None:
        intervals = np.stack([part.interval(level) for part in parts])
    if isinstance(given, Atoms):
        return _bars(parts, labels, names[0], intervals[:, 0], level)
    if k == 2:
        return _plane(parts, labels, names, alone)
    ranges = [_range(parts, j, intervals[:, j]) for j in range(k)]
    if k > 2:
        return _columns(parts, labels, names, ranges, alone)
    grid = np.linspace(*ranges[0], GRID)
    curves = [values(part, grid[:, None]) for part in parts]
    if alone:
        return _one(grid, curves[0], parts[0], names[0], level, intervals[0, 0])
    return _curves(grid, curves, parts, labels, names[0], level, intervals[:, 0])


def densities(given: Density | Mixture | Atoms) -> list[Any]:
    """The densities of a batch one by one, or the only one."""
    if isinstance(given, (Atoms, Density)) and given.is_batch:
        return [given[i] for i in range(len(given))]
    return [given]


def values(part: Density | Mixture | Atoms, points: np.ndarray) -> np.ndarray:
    """The density at points (n, k), 0 outside its box: that a drawing reaches beyond it is no news."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideBox)
        return np.asarray(part.pdf(points))


def modes(part: Density | Mixture | Atoms) -> np.ndarray:
    """The modes of a density on the line, (m,), the highest first.

    A peak beside a higher one counts if the valley between them goes down by a quarter of its height, and
    by a tenth of the highest.
    """
    from scipy.signal import find_peaks

    if isinstance(part, Atoms):
        return part.values[[int(np.argmax(part.probabilities))]]
    low, high = part.quantile([0.001, 0.999])[:, 0]
    grid = np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 4 * GRID)
    curve = values(part, grid[:, None])
    peaks, found = find_peaks(np.pad(curve, 1), prominence=RISE * curve.max(), plateau_size=1)
    peaks = peaks[found["prominences"] >= DEPTH * curve[peaks - 1]] - 1
    return grid[peaks][np.argsort(-curve[peaks], kind="stable")]


def _range(parts: list[Any], j: int, intervals: np.ndarray) -> tuple[float, float]:
    """What is shown of a column: all but the far tails, and every interval that ends."""
    ends = np.concatenate([part.quantile([0.02, 0.98])[:, j] for part in parts])
    ends = np.concatenate([ends, intervals[np.isfinite(intervals)]])
    pad = 0.25 * (ends.max() - ends.min())
    return float(ends.min() - pad), float(ends.max() + pad)


# -- on the line ---------------------------------------------------------------------------------


def _one(
    grid: np.ndarray, curve: np.ndarray, part: Any, name: str, level: float, interval: np.ndarray
) -> Figure:
    figure, ((ax,),) = new_figure()
    inside = (grid >= interval[0]) & (grid <= interval[1])
    ax.fill_between(
        grid, curve, where=inside, color=BLUE, alpha=0.25, linewidth=0, label=f"{level:.3g} interval"
    )
    ax.plot(grid, curve, color=BLUE, linewidth=1.8, label="density")
    ax.axvline(part.mean()[0], color=INK, linestyle="--", linewidth=1.1, label="mean")
    ax.set(ylabel="density", xlim=(grid[0], grid[-1]))
    ax.set_ylim(bottom=0)
    ax.set_xlabel(name, parse_math=False)
    ax.legend(frameon=False, fontsize=9, labelcolor=INK)
    return figure


def _curves(
    grid: np.ndarray,
    curves: list[np.ndarray],
    parts: list[Any],
    labels: Sequence[str],
    name: str,
    level: float,
    intervals: np.ndarray,
) -> Figure:
    """Curves over each other, and below them the interval and the mean of each, with its label."""
    rows = len(parts)
    figure, axes = new_figure(2, height=3.2 + 0.28 * rows, sharex=True, height_ratios=[3, 0.3 + 0.28 * rows])
    top, bottom = axes[:, 0]
    for i, (curve, part, interval) in enumerate(zip(curves, parts, intervals, strict=True)):
        style: dict[str, Any] = {"color": CYCLE[i], "linestyle": STYLES[i]}
        top.plot(grid, curve, linewidth=1.8, **style)
        ends = np.clip(interval, grid[0], grid[-1])
        bottom.plot(ends, [i, i], linewidth=2.2, **style)
        bottom.plot(part.mean()[0], i, "o", color=CYCLE[i], markersize=6, markeredgecolor="white")
    top.set(ylabel="density", xlim=(grid[0], grid[-1]))
    top.set_ylim(bottom=0)
    bottom.set_ylim(rows - 0.4, -0.6)
    bottom.yaxis.set_ticks(range(rows), labels, parse_math=False)
    bottom.tick_params(axis="y", length=0)
    bottom.set_xlabel(f"{name}: intervals of level {level:.3g}, and means", parse_math=False)
    return figure


def _bars(parts: list[Any], labels: Sequence[str], name: str, intervals: np.ndarray, level: float) -> Figure:
    """The probability of each value, a row of bars for each distribution, with its interval and mean."""
    rows = len(parts)
    figure, axes = new_figure(rows, height=1.2 + 1.6 * rows, sharex=True)
    atoms = parts[0].values
    width = 0.8 * float(np.diff(atoms).min())
    for i, ax in enumerate(axes[:, 0]):
        inside = (atoms >= intervals[i, 0]) & (atoms <= intervals[i, 1])
        bars = ax.bar(atoms, parts[i].probabilities, width, color=CYCLE[i])
        for bar, shown in zip(bars, inside, strict=True):
            bar.set_alpha(0.9 if shown else 0.3)
        ax.axvline(parts[i].mean()[0], color=INK, linestyle="--", linewidth=1.1)
        ax.set_ylim(bottom=0)
        ax.set_ylabel("probability")
        if rows > 1:
            ax.set_title(labels[i], size=10, parse_math=False)
    axes[-1, 0].set_xlabel(
        f"{name}: dark within the {level:.3g} interval, dashed at the mean", parse_math=False
    )
    return figure


# -- in the plane, and beyond --------------------------------------------------------------------


def _plane(parts: list[Any], labels: Sequence[str], names: Sequence[str], alone: bool) -> Figure:
    """Contours that enclose shares of the probability, one panel a density."""
    from matplotlib import colormaps

    columns = min(len(parts), 3)
    rows = -(-len(parts) // columns)
    figure, axes = new_figure(
        rows, columns, height=4.2 if alone else 0.4 + 2.7 * rows, sharex=True, sharey=True
    )
    none = np.empty((0, 2))
    spans = [np.linspace(*_range(parts, j, none), CELLS) for j in range(2)]
    mesh = np.stack(np.meshgrid(*spans, indexing="ij"), axis=-1).reshape(-1, 2)
    shades = colormaps["Blues"](np.linspace(0.25, 0.85, len(SHARES)))
    for i, ax in enumerate(axes.ravel()):
        if i >= len(parts):
            ax.set_axis_off()
            continue
        surface = values(parts[i], mesh).reshape(CELLS, CELLS)
        ax.contourf(spans[0], spans[1], surface.T, levels=[*_heights(surface), np.inf], colors=shades)
        ax.plot(*parts[i].mean(), "+", color=INK, markersize=9, markeredgewidth=1.4)
        if not alone:
            ax.set_title(labels[i], size=10, parse_math=False)
        if i >= len(parts) - columns:
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(names[0], parse_math=False)
        if i % columns == 0:
            ax.set_ylabel(names[1], parse_math=False)
    shares = ", ".join(f"{100 * share:.0f}" for share in SHARES[::-1])
    figure.supxlabel(f"{shares}% of the probability, darkest first; +: mean", fontsize=9, color=SOFT)
    return figure


def _heights(surface: np.ndarray) -> np.ndarray:
    """The heights above which lie the SHARES of the mass on a grid, increasing."""
    heights = np.sort(surface, axis=None)[::-1]
    mass = np.cumsum(heights) / heights.sum()
    found = heights[np.minimum(np.searchsorted(mass, SHARES), len(heights) - 1)]
    steps = np.arange(len(found)) * 1e-9 * heights[0]  # contours must differ, even of a needle
    return np.maximum.accumulate(found) + steps


def _columns(
    parts: list[Any],
    labels: Sequence[str],
    names: Sequence[str],
    ranges: list[tuple[float, float]],
    alone: bool,
) -> Figure:
    """The marginal density of each column, one panel each."""
    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    figure, axes = new_figure(rows, columns, height=0.6 + 2.4 * rows)
    for j, ax in enumerate(axes.ravel()):
        if j >= len(names):
            ax.set_axis_off()
            continue
        edges = np.linspace(*ranges[j], STEPS + 1)
        for i, part in enumerate(parts):
            heights = np.diff(part.cdf(edges, j)) / np.diff(edges)
            ax.stairs(heights, edges, color=CYCLE[i], linestyle=STYLES[i], linewidth=1.5, label=labels[i])
        ax.set_ylim(bottom=0)
        ax.set_xlabel(names[j], parse_math=False)
        if j % columns == 0:
            ax.set_ylabel("density")
    if not alone:
        _legend_below(figure, axes.ravel()[0])
    return figure


def _legend_below(figure: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9, labelcolor=INK
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _plain(text: str) -> str:
    """A name that fits; matplotlib leaves those with a leading underscore out of legends."""
    text = str(text)
    return " " * text.startswith("_") + shorten(text, LETTERS, placeholder="…")


__all__ = ["densities", "density", "modes", "values"]
