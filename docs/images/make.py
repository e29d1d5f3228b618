"""Draws the pictures of the documentation: ``python docs/images/make.py``.

Those of single pages are in ``pages.py``, which runs the code of the pages and draws what it computed.

``conditional.png`` shows one fitted conditional distribution three times: its quantiles beside the
samples, its density over the whole range of x, and its density at three x beside the truth.
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from PIL import Image

import muhat as mh

HERE = Path(__file__).parent
INK, INDIGO, PALE, ORANGE = "#22223b", "#3f51b5", "#9fa8da", "#e8590c"
SLICES = (0.5, 2.0, 3.5)


def branch(x: np.ndarray | float) -> np.ndarray:
    """Where the two branches of the fork are, up to the sign."""
    return 1.3 * np.sqrt(np.maximum(np.asarray(x) - 1, 0))


def fork(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Samples of a fork: beyond x = 1 the output takes the upper branch 65 times in 100."""
    x = rng.uniform(0, 4, n)
    side = np.where(rng.random(n) < 0.65, 1, -1)
    return x[:, None], side * branch(x) + 0.25 * rng.standard_normal(n)


def true_density(x: float, y: np.ndarray) -> np.ndarray:
    """The density that :func:`fork` draws y from."""

    def bump(mean: float) -> np.ndarray:
        return np.exp(-0.5 * ((y - mean) / 0.25) ** 2) / (0.25 * np.sqrt(2 * np.pi))

    return 0.65 * bump(float(branch(x))) + 0.35 * bump(-float(branch(x)))


def style() -> None:
    plt.rcParams.update(
        {
            "font.size": 10,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlecolor": INK,
            "axes.titlesize": 11,
            "axes.titlelocation": "left",
            "legend.frameon": False,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    )


def draw_quantiles(axes, x, y, model) -> None:
    grid = np.linspace(0, 4, 161)[:, None]
    mu = model.at(grid)
    low, lower, upper, high = mu.quantile([0.05, 0.25, 0.75, 0.95])[:, :, 0].T
    axes.fill_between(grid[:, 0], low, high, color=PALE, alpha=0.35, lw=0, label="90% of the mass")
    axes.fill_between(grid[:, 0], lower, upper, color=PALE, alpha=0.7, lw=0, label="50%")
    axes.scatter(x[:, 0], y, s=5, color=INK, alpha=0.45, lw=0)
    axes.plot(grid[:, 0], model.predict(grid), color=ORANGE, lw=2, label="mean")
    axes.legend(loc="upper left", ncols=3, columnspacing=1, handlelength=1.2, borderaxespad=0)
    axes.set(title="1000 samples, mean and quantiles", xlabel="x", ylabel="y")


def draw_map(axes, model, y_grid) -> None:
    grid = np.linspace(0, 4, 161)[:, None]
    values = model.at(grid).density(kernel=mh.Gaussian(0.3), reg=0.01)(y_grid[:, None])
    colours = LinearSegmentedColormap.from_list("ink", ["white", PALE, INDIGO, INK])
    extent = (0, 4, y_grid[0], y_grid[-1])
    axes.imshow(values.T, cmap=colours, extent=extent, origin="lower", aspect="auto", vmax=1.2)
    for at in SLICES:
        axes.axvline(at, color=ORANGE, lw=1, ls=(0, (4, 3)))
    axes.set(title="density of y given x", xlabel="x")
    axes.tick_params(labelleft=False)


def draw_slices(axes, model, y_grid) -> None:
    density = model.at(np.array(SLICES)[:, None]).density(kernel=mh.Gaussian(0.3), reg=0.01)
    for i, (at, values) in enumerate(zip(SLICES, density(y_grid[:, None]), strict=True)):
        base, scale = 2.0 * i, 1.15
        axes.axhline(base, color=INK, lw=0.6, alpha=0.5)
        axes.fill_between(y_grid, base, base + scale * values, color=INDIGO, alpha=0.45, lw=0)
        axes.plot(
            y_grid, base + scale * values, color=INDIGO, lw=1.5, label="reconstructed" if i == 0 else None
        )
        truth = base + scale * true_density(at, y_grid)
        axes.plot(y_grid, truth, color=INK, lw=1.2, ls=(0, (4, 3)), label="truth" if i == 0 else None)
    axes.legend(loc="upper left", ncols=2, columnspacing=1, handlelength=1.6, borderaxespad=0)
    axes.set(title="three slices, beside the truth", xlabel="y", ylim=(-0.1, 6.6), xlim=(-3.4, 3.4))
    axes.set_yticks([0.1, 2.1, 4.1], [f"x = {at:g}" for at in SLICES], color=ORANGE)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def save(figure, path: Path) -> None:
    """As a PNG of 128 colours: a quarter of the size, and no difference to the eye."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=120)
    Image.open(buffer).convert("RGB").quantize(128).save(path, optimize=True)


def main() -> None:
    style()
    x, y = fork(1000, np.random.default_rng(0))
    model = mh.ConditionalMean(kernel_y=mh.Gaussian(0.3)).fit(x, y)
    y_grid = np.linspace(-3.4, 3.4, 341)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11.5, 3.9), layout="constrained")
    draw_quantiles(left, x, y, model)
    draw_map(middle, model, y_grid)
    draw_slices(right, model, y_grid)
    for axes in (left, middle):
        axes.set(xlim=(0, 4), ylim=(-3.4, 3.4), xticks=range(5))
    save(figure, HERE / "conditional.png")
    import pages  # beside this file

    pages.main()


if __name__ == "__main__":
    main()
