"""Figures: each function takes data or embeddings and returns a matplotlib Figure.

Figures are made directly, never through pyplot: no global state, no window, safe in threads. The
colours are those of Okabe and Ito, which stay apart for colour-blind readers; what matters is also told
apart by line style or position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from muhat.embedding import Embedding
    from muhat.learning import LeaveOneOut

INK, SOFT, FILL, FAINT = "#24292f", "#57606a", "#c0c9d2", "#d8dee4"
BLUE, RED, GREEN, ORANGE, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"
CYCLE = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY)
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
WIDTH = 7.8  # inches: the column of the report
DRAWN = 2000  # points drawn of a sample, at most


def new_figure(
    rows: int = 1, columns: int = 1, height: float = 3.2, **kwargs: Any
) -> tuple[Figure, np.ndarray]:
    """A figure in the house style and its axes, (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = np.asarray(figure.subplots(rows, columns, squeeze=False, **kwargs))
    for ax in axes.ravel():
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            ax.spines[side].set_color(SOFT)
        ax.tick_params(colors=SOFT, labelcolor=INK, labelsize=9)
        for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
            text.set_color(INK)
            text.set_size(10)
    return figure, axes


def _legend(ax: Axes, **kwargs: Any) -> None:
    ax.legend(frameon=False, fontsize=9, labelcolor=INK, **kwargs)


def _column(points: Any, limit: int | None = None) -> np.ndarray:
    values = np.asarray(points, dtype=float)
    values = values.reshape(len(values), -1)[:, 0]
    if limit is None or len(values) <= limit:
        return values
    return values[np.linspace(0, len(values) - 1, limit).astype(int)]  # spread over the rows


def _rug(ax: Axes, values: np.ndarray, label: str) -> None:
    ax.plot(values, np.zeros_like(values), "|", color=SOFT, alpha=0.35, markersize=7, label=label)


def densities(
    grid: np.ndarray,
    curves: Mapping[str, np.ndarray],
    truth: np.ndarray | None = None,
    sample: np.ndarray | None = None,
    xlabel: str = "x",
) -> Figure:
    """Estimated densities on a grid (m,), against the truth (m,) and a rug of the sample."""
    figure, ((ax,),) = new_figure()
    if truth is not None:
        ax.fill_between(grid, truth, color=FILL, linewidth=0, label="true density")
    for i, (name, values) in enumerate(curves.items()):
        ax.plot(grid, values, color=CYCLE[i], linestyle=STYLES[i], linewidth=1.8, label=name)
    if sample is not None:
        _rug(ax, _column(sample, DRAWN), "sample")
    ax.set(xlabel=xlabel, ylabel="density", xlim=(grid[0], grid[-1]))
    ax.set_ylim(bottom=0 if sample is None else -0.02 * ax.get_ylim()[1])
    _legend(ax)
    return figure


def witness(mu: Embedding, nu: Embedding, names: tuple[str, str] = ("first", "second")) -> Figure:
    """The witness function ``μ − ν`` of two embeddings on the line, below the samples they came from."""
    x, y = _column(mu.points), _column(nu.points)
    low, high = np.quantile(np.concatenate([x, y]), [0.002, 0.998])
    grid = np.linspace(low, high, 400)
    values = np.asarray((mu - nu)(grid[:, None]))
    figure, axes = new_figure(2, height=4.4, sharex=True, height_ratios=[3, 2])
    top, bottom = axes[:, 0]
    edges = np.linspace(low, high, 50)
    for points, name, colour, style in ((x, names[0], BLUE, "-"), (y, names[1], RED, "--")):
        top.hist(
            points,
            edges,
            density=True,
            histtype="step",
            color=colour,
            linestyle=style,
            linewidth=1.5,
            label=name,
        )
    top.set_ylabel("density")
    _legend(top)
    bottom.axhline(0, color=SOFT, linewidth=0.8)
    bottom.plot(grid, values, color=INK, linewidth=1.5)
    for sign, colour, name in ((1, BLUE, names[0]), (-1, RED, names[1])):
        bottom.fill_between(
            grid,
            values,
            0,
            where=sign * values > 0,
            color=colour,
            alpha=0.3,
            linewidth=0,
            label=f"more {name}",
        )
    bottom.set(xlabel="x", ylabel="witness", xlim=(low, high))
    _legend(bottom, loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=2)
    return figure


def null_distribution(null: np.ndarray, observed: float, level: float = 0.05, xlabel: str = "MMD") -> Figure:
    """A statistic beside its distribution when there is nothing to find."""
    figure, ((ax,),) = new_figure(height=2.5)
    ax.hist(null, 40, color=FILL, edgecolor=SOFT, linewidth=0.4, label="labels shuffled")
    threshold = np.quantile(null, 1 - level)
    ax.axvline(
        threshold, color=SOFT, linestyle="--", linewidth=1.2, label=f"{1 - level:.0%} of them are below"
    )
    ax.axvline(observed, color=RED, linewidth=2, label="observed")
    ax.set(xlabel=xlabel, ylabel="count", xlim=(0, None))
    _legend(ax, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    return figure


def sample_panels(
    axes: Sequence[np.ndarray], density: np.ndarray, samples: Mapping[str, np.ndarray], label: str = "density"
) -> Figure:
    """Samples in the plane, one panel each, on the contours of a density.

    Args:
        axes: the two axes of the grid, (a,) and (b,).
        density: on the grid, (a, b).
        samples: name → points, (n, 2).
        label: what the contours are.
    """
    from matplotlib import colormaps

    figure, panels = new_figure(1, len(samples), height=3.7, sharex=True, sharey=True)
    levels = density.max() * 2.0 ** np.arange(-5, 1)  # halving, so that wide, low parts show too
    greys = colormaps["Greys"](np.linspace(0.2, 0.65, len(levels) - 1))
    for i, (ax, (name, points)) in enumerate(zip(panels[0], samples.items(), strict=True)):
        ax.contourf(axes[0], axes[1], density.T, levels=levels, colors=greys)
        ax.scatter(
            points[:, 0],
            points[:, 1],
            s=26,
            color=CYCLE[i],
            marker=MARKERS[i],
            edgecolor="white",
            linewidth=0.6,
        )
        ax.set(title=name, xlabel="x₁", aspect="equal")
    panels[0, 0].set_ylabel("x₂")
    figure.supxlabel(f"grey: {label}", fontsize=9, color=SOFT)
    return figure


def error_curves(
    x: np.ndarray,
    curves: Mapping[str, np.ndarray],
    xlabel: str,
    ylabel: str = "error",
    slope: float | None = None,
) -> Figure:
    """Errors against a size, both on logarithmic axes; optionally with the line of a rate ``x^slope``."""
    figure, ((ax,),) = new_figure()
    x = np.asarray(x, dtype=float)
    for i, (name, values) in enumerate(curves.items()):
        ax.plot(
            x,
            values,
            color=CYCLE[i],
            linestyle=STYLES[i],
            marker=MARKERS[i],
            markersize=5,
            linewidth=1.5,
            label=name,
        )
    if slope is not None:
        start = max(float(np.asarray(values)[0]) for values in curves.values())
        ax.plot(x, start * (x / x[0]) ** slope, color=SOFT, linewidth=0.9, label=f"rate {_power(slope)}")
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.set_xticks(x, [f"{v:g}" for v in x], minor=False)
    _plain_log_ticks(ax)
    ax.grid(axis="y", color=FAINT, linewidth=0.6)
    _legend(ax)
    return figure


def _power(slope: float) -> str:
    return {-1.0: "1/n", -0.5: "1/√n"}.get(float(slope), f"n^{slope:g}")


def _plain_log_ticks(ax: Axes) -> None:
    """Ticks of y at 1, 2, 5 of a decade, or at decades alone when there are many, in plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 500 * low else (1,)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())


def quantile_fan(
    grid: np.ndarray,
    quantiles: np.ndarray,
    levels: Sequence[float],
    data: tuple[np.ndarray, np.ndarray] | None = None,
    truth: np.ndarray | None = None,
    mean: np.ndarray | None = None,
    xlabel: str = "x",
    ylabel: str = "y",
) -> Figure:
    """Conditional quantiles as nested bands over the data.

    Args:
        grid: inputs, (m,).
        quantiles: (m, k).
        levels: (k,), symmetric, e.g. 0.05, 0.25, 0.75, 0.95.
        data: x and y to be drawn as points.
        truth: the true quantiles, (m, k), as dashed lines.
        mean: the conditional mean, (m,).
        xlabel: name of the input.
        ylabel: name of the output.
    """
    figure, ((ax,),) = new_figure(height=3.8)
    if data is not None:
        x, y = _column(data[0], DRAWN), _column(data[1], DRAWN)
        ax.plot(x, y, ".", color=SOFT, alpha=0.5, markersize=4, markeredgewidth=0, label="data")
    k = len(levels)
    for j in range(k // 2):
        name = f"{levels[j]:.0%} to {levels[k - 1 - j]:.0%}"
        ax.fill_between(
            grid,
            quantiles[:, j],
            quantiles[:, k - 1 - j],
            color=BLUE,
            alpha=0.18 + 0.12 * j,
            linewidth=0,
            label=name,
        )
    if mean is not None:
        ax.plot(grid, mean, color=INK, linewidth=1.8, label="mean")
    if truth is not None:
        lines = ax.plot(grid, truth, color=RED, linestyle="--", linewidth=1.1)
        lines[0].set_label("true quantiles")
    ax.set(xlabel=xlabel, ylabel=ylabel, xlim=(grid.min(), grid.max()))
    _legend(ax, loc="upper left")
    return figure


def conditional_densities(
    x: np.ndarray, y: np.ndarray, panels: Mapping[str, np.ndarray], xlabel: str = "x", ylabel: str = "y"
) -> Figure:
    """Densities of y given x as heat maps (len(x), len(y)), one panel each, on one colour scale."""
    figure, axes = new_figure(1, len(panels), height=3.2, sharex=True, sharey=True)
    top = float(np.quantile(next(iter(panels.values())), 0.995))
    meshes = [
        ax.pcolormesh(x, y, values.T, vmin=0, vmax=top, cmap="Blues", shading="nearest", rasterized=True)
        for ax, values in zip(axes[0], panels.values(), strict=True)
    ]
    for ax, name in zip(axes[0], panels, strict=True):
        ax.set(title=name, xlabel=xlabel)
    axes[0, 0].set_ylabel(ylabel)
    bar = figure.colorbar(meshes[0], ax=list(axes[0]), pad=0.01, aspect=30)
    bar.set_label("density", color=INK, size=9)
    bar.ax.tick_params(labelsize=8, colors=SOFT, labelcolor=INK)
    bar.outline.set_visible(False)  # type: ignore[operator]
    return figure


def leave_one_out(selection: LeaveOneOut) -> Figure:
    """The leave-one-out loss against the regulariser, one line for each lengthscale tried."""
    from matplotlib import colormaps

    figure, ((ax,),) = new_figure()
    multiples = np.unique(selection.path[:, 0])
    shades = colormaps["viridis"](np.linspace(0.0, 0.75, len(multiples)))
    for i, (multiple, shade) in enumerate(zip(multiples, shades, strict=True)):
        _, reg, loss = selection.path[selection.path[:, 0] == multiple].T
        ax.plot(
            reg, loss, color=shade, linestyle=STYLES[i % len(STYLES)], linewidth=1.5, label=_times(multiple)
        )
    ax.plot(selection.reg, selection.score, "o", color=RED, markersize=8, label="chosen")
    ax.set(xscale="log", xlabel="regulariser λ", ylabel="leave-one-out loss")
    losses = selection.path[:, 2]
    span = float(np.quantile(losses, 0.8) - selection.score) or 1.0  # the valley, not the walls
    ax.set_ylim(selection.score - 0.15 * span, selection.score + 1.3 * span)
    _legend(ax, title="lengthscale", title_fontsize=9, ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _times(multiple: float) -> str:
    return f"1/{1 / multiple:g} × median" if multiple < 1 else f"{multiple:g} × median"


def calibration(levels: np.ndarray, shares: Mapping[str, np.ndarray]) -> Figure:
    """How often held-out values fall below their predicted quantiles, against the promised level."""
    figure, ((ax,),) = new_figure(height=3.4)
    ax.plot([0, 1], [0, 1], color=SOFT, linewidth=0.9, label="perfect")
    for i, (name, share) in enumerate(shares.items()):
        ax.plot(
            levels, share, color=CYCLE[i], linestyle=STYLES[i], marker=MARKERS[i], markersize=5, label=name
        )
    ax.set(xlabel="predicted quantile", ylabel="share of held-out values below", xlim=(0, 1), ylim=(0, 1))
    ax.set_box_aspect(1)
    _legend(ax, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure
