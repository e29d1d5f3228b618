"""Draws the pictures of single pages from what the code of these pages computes.

``python docs/images/pages.py`` runs ``docs/howto/depend.md``, ``docs/howto/density.md``,
``docs/howto/bayes.md`` and ``docs/howto/track.md``, and draws ``self_check.png``, ``density.png``,
``bayes.png``, ``orbit.png`` and ``room.png``.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests" / "docs")]
import docs_pages  # type: ignore[import-not-found]  # noqa: E402
from make import INDIGO, INK, ORANGE, PALE, plt, save, style  # noqa: E402

import muhat as mh  # noqa: E402
import muhat.datasets as data  # noqa: E402
from muhat.embedding import OutsideBox  # noqa: E402


def run(page: str) -> dict[str, Any]:
    """What the code of a page leaves behind."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in docs_pages.blocks(HERE.parent / "howto" / page):
        docs_pages.run(block, namespace)
    return namespace


# -- the self-check of conditional tests -------------------------------------------------------------


def self_check(page: dict[str, Any]) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.7), sharex=True, sharey=True, layout="constrained")
    for ax, (method, test) in zip(axes, page["tests"].items(), strict=True):
        ax.axhline(0, color=PALE, lw=0.8)
        ax.axvline(0, color=PALE, lw=0.8)
        ax.scatter(*test.self_check.means, s=24, color=INDIGO if test.trusted else ORANGE, lw=0)
        said = "to be trusted" if test.trusted else "not to be trusted"
        ax.set(title=f'"{method}": {said}', xlabel="mean residual of x in a cell of z, in standard errors")
    axes[0].set_ylabel("mean residual of y in the same cell")
    save(figure, HERE / "self_check.png")


# -- Bayes' rule ---------------------------------------------------------------------------------


def gaussian(u: np.ndarray | float, sd: float) -> np.ndarray:
    return np.exp(-0.5 * (np.asarray(u) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


def prior_density(z: np.ndarray) -> np.ndarray:
    """The density that the page draws its second prior from."""
    size = gaussian(np.abs(z) - 1.5, 0.5) + gaussian(np.abs(z) + 1.5, 0.5)
    return np.where(z > 0, 0.8, 0.2) * size


def bayes(page: dict[str, Any]) -> None:
    grid, seen = np.linspace(-3.2, 3.2, 401), (1.0, 2.25, 4.0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained", width_ratios=[1, 1.2])
    left.scatter(page["z2"], page["x2"], s=5, color=INK, alpha=0.45, lw=0, label="pairs")
    left.hist(
        page["prior2"][:, 0],
        40,
        density=True,
        color=PALE,
        bottom=-2.2,
        alpha=0.9,
        label="samples of the prior",
    )
    for x in seen:
        left.axhline(x, color=ORANGE, lw=1, ls=(0, (4, 3)))
    left.set(title="what is known", xlabel="z", ylabel="x", xlim=(-3.2, 3.2), yticks=range(0, 11, 2))
    left.legend(loc="upper center", ncols=2, handlelength=1.2)
    model = mh.KernelBayes(kernel_z=mh.Gaussian(0.2)).fit(page["x2"], page["z2"])
    found = model.posterior(np.array(seen)[:, None], page["prior2"]).density(reg=2e-3)(grid[:, None])
    for i, (x, values) in enumerate(zip(seen, found, strict=True)):
        exact = prior_density(grid) * gaussian(x - grid**2, 0.5)
        exact /= exact.sum() * (grid[1] - grid[0])
        base = 2.4 * i
        right.axhline(base, color=INK, lw=0.6, alpha=0.5)
        right.fill_between(grid, base, base + values, color=INDIGO, alpha=0.45, lw=0)
        right.plot(grid, base + values, color=INDIGO, lw=1.5, label="from samples" if i == 0 else None)
        right.plot(grid, base + exact, color=INK, lw=1.2, ls=(0, (4, 3)), label="exact" if i == 0 else None)
    right.set(title="posterior of z at three x", xlabel="z", xlim=(-3.2, 3.2))
    right.set_yticks([2.4 * i + 0.1 for i in range(3)], [f"x = {x:g}" for x in seen], color=ORANGE)
    right.tick_params(axis="y", length=0)
    right.spines["left"].set_visible(False)
    right.legend(loc="upper left")
    save(figure, HERE / "bayes.png")


# -- Conditional densities -----------------------------------------------------------------------


def density(page: dict[str, Any]) -> None:
    x, y, at = np.linspace(0.05, 3.95, 140), np.linspace(-4.6, 4.6, 300), page["at"][:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideBox)  # the picture is larger than the box
        values = page["model"].pdf(x[:, None], y)
        slices = page["model"].pdf(page["at"], y)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained", width_ratios=[1.2, 1])
    left.pcolormesh(x, y, np.sqrt(values).T, cmap="Purples", shading="nearest", rasterized=True, vmax=1.3)
    left.scatter(page["X"][:, 0], page["y"], s=5, color=INK, alpha=0.45, lw=0, label="pairs")
    low, high = page["calibrated"].interval(x[:, None], 0.9).T
    left.plot(x, low, color=ORANGE, lw=1.6, label="calibrated 90% interval")
    left.plot(x, high, color=ORANGE, lw=1.6)
    for value in at:
        left.axvline(value, color=INK, lw=0.7, ls=(0, (4, 3)))
    left.set(title="density of y given x", xlabel="x", ylabel="y", ylim=(y[0], y[-1]))
    left.legend(loc="upper left", handlelength=1.2)
    exact = data.fork_pdf(at, y)
    for i in range(len(at)):
        base = 2.1 * i
        right.axhline(base, color=INK, lw=0.6, alpha=0.5)
        right.fill_between(y, base, base + slices[i], color=INDIGO, alpha=0.45, lw=0)
        right.plot(y, base + slices[i], color=INDIGO, lw=1.5, label="from 500 pairs" if i == 0 else None)
        right.plot(y, base + exact[i], color=INK, lw=1.2, ls=(0, (4, 3)), label="true" if i == 0 else None)
    right.set(title="three slices", xlabel="y", xlim=(y[0], y[-1]))
    right.set_yticks([2.1 * i + 0.1 for i in range(3)], [f"x = {v:g}" for v in at])
    right.tick_params(axis="y", length=0)
    right.spines["left"].set_visible(False)
    right.legend(loc=(0.02, 0.2))
    save(figure, HERE / "density.png")


# -- Tracking ------------------------------------------------------------------------------------


def orbit(page: dict[str, Any]) -> None:
    X, Z, states, holes = page["test"].X, page["test"].Z, page["states"], page["holes"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained", width_ratios=[1, 1.9])
    part = slice(25)
    left.plot(*Z[part].T, color=INK, lw=1.4, label="true path")
    left.scatter(*X[part].T, s=16, color=PALE, lw=0, label="observed")
    left.plot(*states.mean()[part].T, color=ORANGE, lw=1.6, label="filter")
    left.set(title="a noisy circle", aspect="equal")
    bridged, steps = page["bridged"], np.arange(len(Z))
    low, high = bridged.quantile([0.05, 0.95])[:, :, 0].T
    for gap in np.split(
        np.flatnonzero(page["gap"]), np.flatnonzero(np.diff(np.flatnonzero(page["gap"])) > 1) + 1
    ):
        right.axvspan(gap[0] - 0.5, gap[-1] + 0.5, color="#f1f3f5", lw=0)
    right.fill_between(steps, low, high, color=PALE, alpha=0.45, lw=0, label="90%")
    right.plot(steps, Z[:, 0], color=INK, lw=1.2, label="truth")
    right.scatter(steps, holes[:, 0], s=9, color=INDIGO, lw=0, label="observed")
    right.plot(steps, bridged.mean()[:, 0], color=ORANGE, lw=1.4, label="filter")
    right.set(title="first coordinate, with gaps", xlabel="step", xlim=(0, len(Z) - 1), ylim=(-2.1, 2.6))
    right.legend(ncols=4, loc="upper right", handlelength=1.4)
    left.legend(loc="center", handlelength=1.2)
    save(figure, HERE / "orbit.png")


def wrapped(angle: np.ndarray) -> np.ndarray:
    """Degrees from 0 to 360, with a gap in place of each jump."""
    turned = np.degrees(angle) % 360
    jumps = np.abs(np.diff(turned, append=turned[-1])) > 180
    return np.where(jumps, np.nan, turned)


def room(page: dict[str, Any]) -> None:
    X, Z, seen = page["new_X"], page["new_Z"], page["seen"]
    figure = plt.figure(figsize=(11, 5.8), layout="constrained")
    top, bottom = np.ravel(figure.subfigures(2, 1, height_ratios=[1.15, 1]))
    sharp = data.room(page["camera"][:6], 72, 96)
    for t, (above, below) in enumerate(top.subplots(2, 6).T):
        above.imshow(sharp[t])
        below.imshow(X[t].reshape(18, 24, 3).clip(0, 1))
        above.set_title(f"step {t}", fontsize=9)
        for ax in (above, below):
            ax.set_axis_off()
    left, right = bottom.subplots(1, 2, width_ratios=[2.4, 1])
    true, guess = (np.arctan2(a[:, 1], a[:, 0]) for a in (Z, seen.mean()))
    steps = np.arange(len(Z))
    left.plot(steps, wrapped(true), color=INK, lw=1.4, label="true direction")
    left.scatter(steps, np.degrees(guess) % 360, s=14, color=ORANGE, lw=0, label="estimate", zorder=3)
    left.set(title="direction, in degrees", xlabel="step", xlim=(0, len(Z) - 1), ylim=(0, 470))
    left.set_yticks([0, 90, 180, 270, 360])
    left.legend(loc="upper right", ncols=2, handlelength=1.4)
    right.plot(steps, seen.mass, color=INDIGO, lw=1.2, label="mass")
    spread = np.sqrt(np.trace(seen.cov(), axis1=1, axis2=2))
    right.plot(steps, spread, color=ORANGE, lw=1.2, label="sd of the state")
    right.set(title="how sure", xlabel="step", xlim=(0, len(Z) - 1), ylim=(0, 1.45))
    right.legend(loc="upper right", ncols=2, handlelength=1.4)
    save(figure, HERE / "room.png")


def main() -> None:
    style()
    self_check(run("depend.md"))
    density(run("density.md"))
    bayes(run("bayes.md"))
    tracked = run("track.md")
    orbit(tracked)
    room(tracked)


if __name__ == "__main__":
    main()
