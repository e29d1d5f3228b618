"""Figures of tests: the data, the witness function, the null with the statistic, the columns at work."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from muhat._tables import Encoder
from muhat.report.plots import BLUE, FILL, INK, RED, SOFT, new_figure
from muhat.testing.result import ColumnEffect, TestResult, format_pvalue
from muhat.testing.samples import column_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from muhat.testing.conditional import ConditionalResult
    from muhat.testing.independence import IndependenceResult
    from muhat.testing.self_check import SelfCheck
    from muhat.testing.two_sample import TwoSampleResult

POINTS = 1000  # drawn of a sample, at most
CELLS = 64  # of a heat map, along a number
LABELS = 12  # categories or columns named on an axis, at most
LETTERS = 18  # of a name
# Kernel values held at a time while a witness function is drawn.
ELEMENTS = 1 << 22
NULLS = {
    "permutation": "rows shuffled",
    "multipliers": "random multipliers",
    "wild": "wild bootstrap",
    "gamma": "gamma approximation",
}
SIDES = ((BLUE, "-"), (RED, "--"))


class Axis(NamedTuple):
    """One column as an axis of a figure.

    Attributes:
        name: of the column.
        labels: of its categories, by code; None for numbers.
        low, high: the range shown; of numbers, without the last few rows at either end.
    """

    name: str
    labels: list[str] | None
    low: float
    high: float

    @property
    def grid(self) -> np.ndarray:
        """Where a function is evaluated: each category, or points of equal distance."""
        return np.linspace(self.low, self.high, CELLS) if self.labels is None else np.arange(len(self.labels))

    def scattered(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Values to be drawn: categories beside their place, so that equal ones do not hide each other."""
        return values if self.labels is None else values + rng.uniform(-0.28, 0.28, len(values))


def two_sample(
    result: TwoSampleResult,
    names: tuple[str, str] = ("first", "second"),
    columns: Sequence[ColumnEffect] | None = None,
) -> Figure:
    """Both samples, the witness function, and the null with the statistic.

    Of several columns the two that differ most are drawn, and the witness function at the median (or most
    frequent category) of the others.

    Args:
        result: of :func:`muhat.two_sample_test`.
        names: of the samples.
        columns: ``result.columns()``, if it has been computed.
    """
    # matplotlib leaves labels with a leading underscore out of legends.
    first, second = (" " * name.startswith("_") + _short(name) for name in names)
    names = (first, second) if first != second else (f"1: {first}", f"2: {second}")
    d = result.x.shape[1]
    if d == 1:
        return _two_sample_line(result, names)
    columns = result.columns() if columns is None else list(columns)
    known = column_names(result.encoder, d, "x")
    pair = [known.index(effect.name) for effect in columns[:2]]
    Z = np.concatenate([result.x, result.y])
    a, b = (_axis(Z, result.encoder, known, j) for j in pair)
    figure, axes = new_figure(2, 2, height=6.6, height_ratios=[5, 4])
    rng = np.random.default_rng(0)
    for sample, name, (colour, _), marker in zip((result.x, result.y), names, SIDES, ("o", "s"), strict=True):
        # A missing cell has no place on an axis.
        gaps = [result.encoder.indicators[j] for j in pair if j in result.encoder.indicators]
        points = _some(sample[(sample[:, gaps] != 0).all(axis=1)], rng)
        _dots(axes[0, 0], points[:, pair], (a, b), rng, color=colour, marker=marker, label=name)
    _frame(axes[0, 0], a, b)
    _legend(axes[0, 0], above=True, ncols=2)
    P = np.tile(_typical(Z, result.encoder), (len(a.grid) * len(b.grid), 1))
    P[:, pair] = np.stack(np.meshgrid(a.grid, b.grid, indexing="ij"), axis=-1).reshape(-1, 2)
    values = _witness(result, P).reshape(len(a.grid), len(b.grid))
    _heat_map(axes[0, 1], a, b, values, [f"more {name}" for name in names])
    if d > 2:
        axes[0, 1].set_title("witness, other columns typical", size=10)
    _null(axes[1, 0], result, "MMD²")
    _effects(axes[1, 1], columns, "pairs of rows told apart (%)", 50)
    return figure


def independence(result: IndependenceResult, columns: Sequence[ColumnEffect] | None = None) -> Figure:
    """The strongest pair of columns, the witness function over it, and the null with the statistic.

    Args:
        result: of :func:`muhat.independence_test`.
        columns: ``result.columns()``, if it has been computed.
    """
    d, k = result.x.shape[1], result.y.shape[1]
    known = column_names(result.encoder_x, d, "x"), column_names(result.encoder_y, k, "y")
    if d + k > 2 and columns is None:
        columns = result.columns()
    ranking = [effect.name for effect in columns or ()]
    i, j = (min(range(len(side)), key=lambda c: _place(side[c], ranking)) for side in known)
    a = _axis(result.x, result.encoder_x, known[0], i)
    b = _axis(result.y, result.encoder_y, known[1], j)
    figure, axes = new_figure(2, 2, height=6.2, height_ratios=[5, 3.6])
    rng = np.random.default_rng(0)
    pairs = _some(np.stack([result.x[:, i], result.y[:, j]], axis=1), rng)
    _dots(axes[0, 0], pairs, (a, b), rng, color=BLUE, marker="o")
    _frame(axes[0, 0], a, b)
    # The kernel of a pair is a product, so that a grid costs no more than its two axes.
    kernel_x, kernel_y = result.kernel
    K = _along(kernel_x, result.x, result.encoder_x, i, a)
    L = _along(kernel_y, result.y, result.encoder_y, j, b)
    values = K @ L.T / len(result.x) - np.outer(K.mean(axis=1), L.mean(axis=1))
    _heat_map(axes[0, 1], a, b, values, ["more often", "less often\nthan by chance"])
    if d + k > 2:
        axes[0, 1].set_title("witness, other columns typical", size=10)
        _effects(axes[1, 1], columns or (), "strength, column alone (%)", 0)
    else:
        _widen(axes[1])
    _null(axes[1, 0], result, "HSIC", wide=d + k == 2)
    return figure


def conditional(result: ConditionalResult) -> Figure:
    """What is left of x and of y once z is known, the self-check, and the null with the statistic."""
    figure, axes = new_figure(1, 3, height=3.4)
    rng = np.random.default_rng(0)
    left, right = result.residuals
    pairs = _some(np.stack([left[:, 0], right[:, 0]], axis=1), rng)
    axes[0, 0].plot(*pairs.T, "o", color=BLUE, alpha=_alpha(len(pairs)), markersize=4, markeredgewidth=0)
    what = "first feature of {}" if result.test == "kci" else "{}"
    axes[0, 0].set(
        xlabel=f"{what.format('x')}, given z",
        ylabel=f"{what.format('y')}, given z",
    )
    _self_check(axes[0, 1], result.self_check)
    _null(axes[0, 2], result, "statistic of four forms" if result.test == "stacked" else "HSIC of residuals")
    return figure


def _self_check(ax: Axes, check: SelfCheck) -> None:
    """Means of both residuals in cells of z: a cloud, unless both regressions err in the same cells."""
    ax.plot(*check.means, "o", color=BLUE if check.sound else RED, markersize=4, markeredgewidth=0)
    ax.axhline(0, color=SOFT, linewidth=0.8)
    ax.axvline(0, color=SOFT, linewidth=0.8)
    ax.set(xlabel="means of x in cells of z", ylabel="means of y in cells of z")
    moved = f"{check.shift:.1f} sd" if check.shift > 0 else "nothing found"
    ax.set_title(f"self-check: {moved if check.means.size else 'not possible'}", size=10)


def _two_sample_line(result: TwoSampleResult, names: tuple[str, str]) -> Figure:
    Z = np.concatenate([result.x, result.y])
    axis = _axis(Z, result.encoder, column_names(result.encoder, 1, "x"), 0)
    figure, axes = new_figure(3, height=6.6, height_ratios=[4, 3, 3])
    top, middle, bottom = axes[:, 0]
    middle.sharex(top)
    if axis.labels is None:
        _histograms(top, (result.x, result.y), names, axis)
        grid = np.linspace(axis.low, axis.high, 400)
        values = _witness(result, grid[:, None])
        middle.plot(grid, values, color=INK, linewidth=1.5)
        _signs(middle, grid, values)
        top.set_xlim(axis.low, axis.high)
    else:
        for side, (sample, name, (colour, _)) in enumerate(
            zip((result.x, result.y), names, SIDES, strict=True)
        ):
            share = np.bincount(sample[:, 0].astype(int), minlength=len(axis.labels)) / len(sample)
            top.bar(axis.grid + (0.4 * side - 0.2), 100 * share, 0.38, color=colour, label=name)
        values = _witness(result, axis.grid[:, None].astype(float))
        middle.bar(axis.grid, values, 0.6, color=np.where(values > 0, BLUE, RED))
        top.set_ylabel("share of rows (%)")
        _name_categories(middle, axis, "x")
    _legend(top)
    middle.axhline(0, color=SOFT, linewidth=0.8)
    middle.set_xlabel(axis.name, parse_math=False)
    middle.set_ylabel("witness")
    middle.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    top.tick_params(labelbottom=False)
    _headroom(middle, values)
    for place, name, colour in ((0.97, names[0], BLUE), (0.03, names[1], RED)):
        middle.text(
            0.995,
            place,
            f"more {name}",
            color=colour,
            size=9,
            ha="right",
            va="top" if place > 0.5 else "bottom",
            transform=middle.transAxes,
            parse_math=False,
        )
    _null(bottom, result, "MMD²", wide=True)
    return figure


def _histograms(ax: Axes, samples: Sequence[np.ndarray], names: Sequence[str], axis: Axis) -> None:
    shown = [s[(s >= axis.low) & (s <= axis.high)] for s in samples]
    smaller = min(map(len, samples))
    edges = np.linspace(axis.low, axis.high, int(np.clip(2 * smaller ** (1 / 2.5), 6, 60)) + 1)
    for values, sample, name, (colour, style) in zip(shown, samples, names, SIDES, strict=True):
        heights = np.histogram(values, edges)[0] / (len(sample) * (edges[1] - edges[0]))
        ax.stairs(heights, edges, color=colour, linestyle=style, linewidth=1.5, label=name)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("density")


def _signs(ax: Axes, grid: np.ndarray, values: np.ndarray) -> None:
    for sign, colour in ((1, BLUE), (-1, RED)):
        ax.fill_between(grid, values, 0, where=sign * values > 0, color=colour, alpha=0.3, linewidth=0)


def _headroom(ax: Axes, values: np.ndarray) -> None:
    """Space for a word above and below the curve."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    span = (high - low) or 1.0
    ax.set_ylim(low - 0.28 * span, high + 0.28 * span)


def _axis(Z: np.ndarray, encoder: Encoder, names: Sequence[str], j: int) -> Axis:
    name = _short(names[j], 30)
    if j in encoder.categories:
        labels = [_short(str(label)) for label in encoder.categories[j]]
        return Axis(name, labels, -0.5, len(labels) - 0.5)
    values = Z[:, j]
    low, high = np.quantile(values, [0.002, 0.998])
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):  # nearly all rows are the same
        low, high = values.min(), values.max()
    pad = 0.04 * (high - low) or 0.5 * (abs(high) or 1.0)
    return Axis(name, None, float(low - pad), float(high + pad))


def _typical(Z: np.ndarray, encoder: Encoder) -> np.ndarray:
    """The median of numbers and the most frequent category, (d,)."""
    out = np.median(Z, axis=0)
    for j in encoder.categories:
        codes, counts = np.unique(Z[:, j], return_counts=True)
        out[j] = codes[counts.argmax()]
    return out


def _witness(result: TwoSampleResult, P: np.ndarray) -> np.ndarray:
    step = max(1, ELEMENTS // (len(result.x) + len(result.y)))
    mu, nu = result.embeddings
    return np.concatenate(
        [np.asarray(mu(P[i : i + step])) - np.asarray(nu(P[i : i + step])) for i in range(0, len(P), step)]
    )


def _along(kernel: Any, Z: np.ndarray, encoder: Encoder, j: int, axis: Axis) -> np.ndarray:
    """The kernel between points along one column, the others typical, and the rows, (points, n)."""
    P = np.tile(_typical(Z, encoder), (len(axis.grid), 1))
    P[:, j] = axis.grid
    return np.asarray(kernel(P, Z), dtype=np.float64)


def _heat_map(ax: Axes, a: Axis, b: Axis, values: np.ndarray, words: Sequence[str]) -> None:
    """Values (a, b), blue where positive, red where negative, white at zero."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("signs", [RED, "#f3b183", "white", "#7fbadf", BLUE])
    # A few corner cells must not pale all others.
    top = float(np.quantile(np.abs(values), 0.995)) or float(np.abs(values).max()) or 1.0
    mesh = ax.pcolormesh(
        a.grid, b.grid, values.T, vmin=-top, vmax=top, cmap=shades, shading="nearest", rasterized=True
    )
    _frame(ax, a, b)
    ax.set_title("witness", size=10)
    assert ax.figure is not None
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02, aspect=25, ticks=[-0.9 * top, 0, 0.9 * top])
    bar.ax.set_yticklabels([words[1], "0", words[0]], size=8, color=INK, parse_math=False)
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)  # type: ignore[operator]


def _dots(
    ax: Axes, points: np.ndarray, axes: tuple[Axis, Axis], rng: np.random.Generator, **style: Any
) -> None:
    x, y = (axis.scattered(values, rng) for axis, values in zip(axes, points.T, strict=True))
    size = 3.5 if len(points) > 300 else 4.5
    ax.plot(x, y, linestyle="", markersize=size, markeredgewidth=0, alpha=_alpha(len(points)), **style)


def _alpha(points: int) -> float:
    return float(np.clip(6 / max(points, 1) ** 0.5, 0.25, 0.8))


def _frame(ax: Axes, a: Axis, b: Axis) -> None:
    ax.set(xlim=(a.low, a.high), ylim=(b.low, b.high))
    ax.set_xlabel(a.name, parse_math=False)
    ax.set_ylabel(b.name, parse_math=False)
    for axis, which in ((a, "x"), (b, "y")):
        if axis.labels is not None:
            _name_categories(ax, axis, which)
        else:
            ax.locator_params(axis=which, nbins=6)  # type: ignore[arg-type]


def _name_categories(ax: Axes, axis: Axis, which: str) -> None:
    assert axis.labels is not None
    step = -(-len(axis.labels) // LABELS)  # with many categories, every second or third has its name
    ticks = list(range(0, len(axis.labels), step))
    labels = [axis.labels[t] for t in ticks]
    crowded = which == "x" and sum(map(len, labels)) > 26
    turn = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    target = ax.xaxis if which == "x" else ax.yaxis
    target.set_ticks(ticks, labels, parse_math=False, **turn)
    target.set_tick_params(length=0)


def _null(ax: Axes, result: TestResult, unit: str, wide: bool = False) -> None:
    """The statistic beside its distribution if there were nothing to find."""
    null = np.asarray(result.null, dtype=float)
    style: dict[str, Any] = {"color": FILL, "edgecolor": SOFT, "linewidth": 0.4}
    ax.hist(null, _bins(null, result.statistic).tolist(), label=NULLS[result.method], **style)
    threshold = float(np.quantile(null, 0.95))
    ax.axvline(threshold, color=SOFT, linestyle="--", linewidth=1.2, label="95% below")
    ax.axvline(
        result.statistic, color=RED, linewidth=2, label=f"observed: p = {format_pvalue(result.pvalue)}"
    )
    many = len(result.kernels) > 1
    ax.set_xlabel(f"statistic of {len(result.kernels)} kernels" if many else unit)
    ax.set_ylabel("how often")
    ax.set_yticks([])
    ax.locator_params(axis="x", nbins=6)
    ax.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4), useMathText=True)
    _legend(ax, above=True, ncols=3 if wide else 2, size=8.5)


def _bins(null: np.ndarray, observed: float) -> np.ndarray:
    """Edges over the null; one bin as wide as can be seen where all values are the same."""
    low, high = float(null.min()), float(null.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        pad = abs(observed - low) / 20 or abs(low) / 20 or 0.5
        return np.array([low - pad, low + pad])
    return np.linspace(low, high, int(np.clip(2 * len(null) ** 0.4, 5, 40)) + 1)


def _effects(ax: Axes, columns: Sequence[ColumnEffect], label: str, start: float) -> None:
    """The columns by themselves, the strongest on top; those that stand out in full colour."""
    shown = list(columns)[:LABELS]
    places = np.arange(len(shown))
    values = [max(100 * effect.effect_size, start) for effect in shown]
    ends = [max(100 * e.interval[1], v) if e.interval else v for e, v in zip(shown, values, strict=True)]
    colours = [BLUE if effect.pvalue <= 0.05 else FILL for effect in shown]
    ax.barh(places, [v - start for v in values], 0.62, left=start, color=colours)
    ax.axvline(start, color=SOFT, linewidth=0.8)
    ax.set_yticks(places, [_short(effect.name) for effect in shown], parse_math=False)
    ax.set_ylim(max(len(shown), 3) - 0.4, -0.6)
    right = start + 1.18 * max(max(ends, default=start) - start, 0.2 * (100 - start))
    ax.set_xlim(start, right)
    for place, value, effect in zip(places, values, shown, strict=True):
        if effect.interval is not None:
            low, high = (max(100 * end, start) for end in effect.interval)
            ax.plot([low, high], [place, place], color=INK, linewidth=1.2)
            value = max(value, high)
        note = f" p = {format_pvalue(effect.pvalue)}"
        ax.text(value, float(place), note, size=7.5, va="center", color=SOFT, clip_on=False)
    more = f", {len(shown)} of {len(columns)}" if len(columns) > len(shown) else ""
    ax.set_title(f"each column alone{more}", size=10, loc="left")
    ax.set_xlabel(label)
    ax.tick_params(axis="y", length=0)


def _widen(row: np.ndarray) -> None:
    """Let the first axes of a row take the place of the second, too."""
    spec = row[0].get_subplotspec()
    row[1].remove()
    row[0].set_subplotspec(spec.get_gridspec()[spec.rowspan.start, :])


def _place(name: str, ranking: Sequence[str]) -> int:
    return ranking.index(name) if name in ranking else len(ranking)


def _some(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return points if len(points) <= POINTS else points[rng.choice(len(points), POINTS, replace=False)]


def _short(name: str, letters: int = LETTERS) -> str:
    """A name that fits; of one without spaces the start and the end."""
    name = " ".join(str(name).split()) or "(no name)"
    if len(name) <= letters:
        return name
    whole = shorten(name, letters, placeholder="…")
    half = (letters - 1) // 2
    return whole if len(whole) > half else f"{name[:half]}…{name[-half:]}"


def _legend(ax: Axes, above: bool = False, ncols: int = 1, size: float = 9) -> None:
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    legend = ax.legend(
        frameon=False,
        fontsize=size,
        labelcolor=INK,
        ncols=ncols,
        handlelength=1.3,
        handletextpad=0.5,
        columnspacing=1.0,
        **(place if above else {}),
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)
