"""Figures of calibration: where the truth lies in posteriors, and how often intervals hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muhat.report.plots import BLUE, CYCLE, FAINT, INK, SOFT, STYLES, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from muhat.simulation.calibration import Calibration

DRAWN = 5  # parameters, at most: a sixth panel is the coverage


def calibration(result: Calibration) -> Figure:
    """One histogram a parameter with the band of 95% of right ones; coverage against what was claimed."""
    from scipy.stats import binom

    m, names = len(result), result.names[:DRAWN]
    panels = len(names) + 1
    columns = min(panels, 3)
    rows = -(-panels // columns)
    figure, axes = new_figure(rows, columns, height=0.3 + 2.7 * rows)
    bins = result.bins
    low, high = binom.ppf([0.025, 0.975], m, 1 / bins)
    flat = axes.ravel()
    for j, name in enumerate(names):
        ax = flat[j]
        ax.axhspan(low, high, color=FAINT, label="95% of right ones")
        ax.hist(
            result.pit[:, j], bins, range=(0, 1), color=BLUE, alpha=0.75, edgecolor="white", linewidth=0.4
        )
        ax.set(
            xlabel="probability below the truth",
            ylabel="simulations" if j % columns == 0 else "",
            xlim=(0, 1),
        )
        ax.set_title(f"{name} (p = {result.pvalues[j]:.2g})", size=10, parse_math=False)
    ax = flat[len(names)]
    levels = np.linspace(0, 1, 101)
    spread = 1.96 * np.sqrt(levels * (1 - levels) / m)
    ax.fill_between(levels, levels - spread, levels + spread, color=FAINT, linewidth=0)
    ax.plot(levels, levels, color=SOFT, linewidth=0.9)
    for j, share in enumerate(result.coverage(levels)[:, : len(names)].T):
        ax.plot(levels, share, color=CYCLE[j], linestyle=STYLES[j], linewidth=1.5, label=" " + names[j])
    ax.plot(levels, result.region_coverage(levels), color=INK, linewidth=1.5, label="region")
    ax.set(xlabel="probability claimed", ylabel="share that holds the truth", xlim=(0, 1), ylim=(0, 1))
    legend = ax.legend(frameon=False, fontsize=8, labelcolor=INK, loc="upper left")
    for text in legend.get_texts():
        text.set_parse_math(False)
    for ax in flat[panels:]:
        ax.set_axis_off()
    return figure
