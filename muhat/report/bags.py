"""Predictions for bags beside the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from muhat.report.plots import BLUE, SOFT, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def predictions(held: Any, target: str, level: float = 0.9) -> Figure:
    """Predicted against true values with intervals, or a table of classes in colours.

    Args:
        held: with ``value``, ``std`` (None for classes) and ``truth``, arrays over bags.
        target: its name.
        level: of the intervals.
    """
    from scipy.special import ndtri

    figure, ((ax,),) = new_figure(height=4.0)
    if held.std is None:
        classes = np.unique(np.concatenate([held.truth, held.value]))
        counts = np.array([[np.sum((held.truth == t) & (held.value == p)) for p in classes] for t in classes])
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for (i, j), count in np.ndenumerate(counts):
            ink = "white" if shares[i, j] > 0.5 else "black"
            ax.text(j, i, str(count), ha="center", va="center", color=ink)
        names = [str(c) for c in classes]
        ax.set_xticks(range(len(classes)), names, rotation=45 if len(classes) > 5 else 0, parse_math=False)
        ax.set_yticks(range(len(classes)), names, parse_math=False)
        ax.set_xlabel(f"predicted {target}", parse_math=False)
        ax.set_ylabel(f"true {target}", parse_math=False)
        return figure
    reach = ndtri((1 + level) / 2) * held.std
    ends = [min(held.truth.min(), held.value.min()), max(held.truth.max(), held.value.max())]
    ax.plot(ends, ends, color=SOFT, linewidth=0.9)
    ax.errorbar(
        held.truth,
        held.value,
        reach,
        fmt="o",
        color=BLUE,
        markersize=3.5,
        elinewidth=0.6,
        ecolor=SOFT,
        alpha=0.8,
    )
    ax.set_xlabel(f"true {target}", parse_math=False)
    ax.set_ylabel(f"predicted {target}, {level:.0%} intervals", parse_math=False)
    return figure


__all__ = ["predictions"]
