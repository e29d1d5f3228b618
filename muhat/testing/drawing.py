"""Drawing a causal graph."""

from __future__ import annotations

from itertools import combinations
from textwrap import shorten, wrap
from typing import TYPE_CHECKING

import numpy as np

from muhat._words import percent
from muhat.testing.graph import CausalGraph, determined, undetermined

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LETTERS = 14  # of a name, on one line
LINES = 3


def ring_order(adjacency: np.ndarray) -> list[int]:
    """An order of the variables around a circle in which few edges cross and most are short.

    Found by exchanging pairs while that helps, from the order of columns; then turned or mirrored such that
    arrows point down where they can.
    """
    d = len(adjacency)
    edges = np.argwhere(np.triu(adjacency | adjacency.T))
    arrows = np.argwhere(determined(adjacency))

    def cost(order: list[int]) -> int:
        place = np.argsort(order)[edges]  # (edges, 2)
        low, high = place.min(axis=1), place.max(axis=1)
        cross = (low[:, None] < low) & (low < high[:, None]) & (high[:, None] < high)
        return d * int(cross.sum()) + int(np.minimum(high - low, d - high + low).sum())

    def upward(order: list[int]) -> float:
        height = np.empty(d)
        height[order] = _ring(d)[:, 1]
        return float((height[arrows[:, 1]] - height[arrows[:, 0]]).sum())

    order, least, better = list(range(d)), cost(list(range(d))), True
    while better:
        better = False
        for a, b in combinations(range(d), 2):
            other = order.copy()
            other[a], other[b] = order[b], order[a]
            if (price := cost(other)) < least:
                order, least, better = other, price, True
    turns = [ring[k:] + ring[:k] for ring in (order, order[::-1]) for k in range(d)]
    return min(turns, key=upward)


def _ring(d: int) -> np.ndarray:
    """``d`` places on the unit circle, from the top clockwise, (d, 2)."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(d) / d
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def label(name: object) -> str:
    """A name on at most three short lines."""
    # A line may also end after an underscore.
    lines = [line.replace("_ ", "_") for line in wrap(str(name).replace("_", "_ "), LETTERS)]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], shorten(lines[LINES - 1] + " …", LETTERS, placeholder="…")]
    return "\n".join(lines)


def bend(a: np.ndarray, b: np.ndarray, d: int) -> float:
    """How far the line from a to b on the unit circle bows to the centre, clear of the places between.

    In units of its length, positive to the right, as matplotlib's ``arc3`` has it.
    """
    middle, (x, y) = (a + b) / 2, b - a
    if np.hypot(x, y) < 2.1 * np.sin(np.pi / d):
        return 0.0  # neighbours
    return float(-0.3 * np.sign(round(middle[0] * y - middle[1] * x, 9)) * np.hypot(*middle))


def draw_graph(graph: CausalGraph) -> Figure:
    """Variables around an ellipse, arrows, and plain lines for edges without direction."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyArrowPatch

    from muhat.report.plots import BLUE, FAINT, INK, RED, SOFT, new_figure

    d, A = len(graph.names), graph.adjacency
    figure, ((ax,),) = new_figure(height=min(3.2 + 0.25 * d, 8.0))
    ax.set_axis_off()
    ring = np.empty((d, 2))
    ring[ring_order(A)] = _ring(d)
    wide = np.array([max(1.0, 1.7 - 0.03 * d), 1.0])
    place, size = wide * ring, 10 if d <= 12 else 8 if d <= 20 else 6.5
    boxes = [
        ax.text(
            *place[i],
            label(name),
            ha="center",
            va="center",
            size=size,
            color=INK,
            parse_math=False,  # a name with $ is not a formula
            bbox={"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": SOFT, "linewidth": 1.0},
            zorder=3,
        ).get_bbox_patch()
        for i, name in enumerate(graph.names)
    ]
    kinds = {}
    for i, j in np.argwhere(determined(A) | np.triu(undetermined(A))):
        pair = graph.names[i], graph.names[j]
        arrow = not A[j, i]
        torn = not arrow and (pair in graph.conflicts or pair[::-1] in graph.conflicts)
        colour, dash = (BLUE, "-") if arrow else (RED, "--") if torn else (SOFT, "-")
        often = None if graph.frequencies is None else graph.frequencies[pair].adjacent
        width = 1.6 if often is None else 0.6 + 2.4 * often
        rad = bend(ring[i], ring[j], d)
        ax.add_patch(
            FancyArrowPatch(
                (float(place[i, 0]), float(place[i, 1])),
                (float(place[j, 0]), float(place[j, 1])),
                arrowstyle="-|>" if arrow else "-",
                connectionstyle=f"arc3,rad={rad}",
                mutation_scale=12 + 2 * width,
                patchA=boxes[i],
                patchB=boxes[j],
                shrinkA=1,
                shrinkB=1,
                color=colour,
                linestyle=dash,
                linewidth=width,
                capstyle="butt",
                zorder=2,
            )
        )
        kind = (
            "cause → effect" if arrow else "direction contradictory" if torn else "direction not determined"
        )
        kinds[kind] = Line2D([], [], color=colour, linestyle=dash, linewidth=1.6)
        if often is not None:
            # Off the middle, so that the numbers of edges that cross there do not meet.
            t, (x, y) = 0.42, place[j] - place[i]
            control = (place[i] + place[j]) / 2 + rad * np.array([y, -x])
            x, y = (1 - t) ** 2 * place[i] + 2 * t * (1 - t) * control + t**2 * place[j]
            style = {"facecolor": "white", "edgecolor": FAINT, "linewidth": 0.5, "boxstyle": "round,pad=0.15"}
            ax.text(x, y, percent(often), ha="center", va="center", size=8, color=INK, bbox=style, zorder=4)
    ax.set(xlim=(-wide[0] - 0.4, wide[0] + 0.4), ylim=(-1.2, 1.2), aspect="equal")
    if kinds:
        figure.legend(
            list(kinds.values()),
            list(kinds),
            loc="outside lower center",
            ncols=3,
            frameon=False,
            fontsize=9,
            labelcolor=INK,
            title="numbers: how often resamples have the edge" if graph.frequencies is not None else None,
            title_fontsize=9,
        )
    return figure


__all__ = ["draw_graph", "label", "ring_order"]
