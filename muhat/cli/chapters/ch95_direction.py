"""The direction of a pair: which of two variables is the cause?"""

from __future__ import annotations

from typing import Any

import numpy as np

import muhat as mh
from muhat.cli.page import Page

TITLE = "Cause or effect"


def directions(pairs: list[np.ndarray]) -> Any:
    model = mh.CauseEffect()  # learned beforehand; nothing to fit
    return model.decide(pairs, level=0.8), model.predict_proba(pairs)


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    rng = np.random.default_rng(seed)
    n = 500
    x, u = rng.standard_normal(n), rng.uniform(-1, 1, n)
    noise = rng.standard_normal((3, n))
    known = {
        "light at a depth": (u, np.exp(-1.5 * u) + 0.3 * noise[0]),
        "distance fallen in a time": (u + 1, (u + 1) ** 2 + 0.3 * noise[1]),
        "a line, Gaussian noise": (x, x + 0.6 * noise[2]),
    }
    page.say(
        f"Three pairs of variables, {n} rows each, in which the first is the cause. If x causes y, what is "
        "left of y when its mean given x is taken away has nothing to do with x; seen from the other side, "
        "it has. A classifier that has seen many artificial pairs weighs such traces. The length of the "
        "shorter description, x first or y first, counts as well: as much as it does for measured pairs of "
        "known direction."
    )
    found, p = page.run(directions, [np.stack(pair, axis=1) for pair in known.values()])
    answers = {1: "the first", -1: "the second", 0: "left open"}
    page.table(
        [
            (name, answers[int(side)], f"{value:.2f}")
            for name, side, value in zip(known, found, p, strict=True)
        ],
        ["pair", "cause found, at 0.8", "probability that it is the first"],
        "Which is the cause? Two Gaussian variables on a line look the same from both sides: no method can "
        "tell, and the probability is far from the certainty of the others.",
    )
    page.figure(_drawn(known), "The pairs: the cause runs to the right.")


def _drawn(known: dict[str, tuple[np.ndarray, np.ndarray]]) -> Any:
    from muhat.report.plots import BLUE, new_figure

    figure, axes = new_figure(1, len(known))
    for ax, (name, (x, y)) in zip(axes[0], known.items(), strict=True):
        ax.plot(x, y, ".", color=BLUE, markersize=3, alpha=0.5, rasterized=True)
        ax.set(title=name, xlabel="cause", ylabel="effect")
    return figure
