"""How large bags must be: the learning rate of distribution regression [G15].

``python -m papers.gretton2015 --experiment rate`` (about four minutes).

From ℓ bags of N points each, N = ℓ² log ℓ is enough for the rate of infinite bags (Szabó et al. 2015). Here a
bag is a Gaussian N(m, s²) on the line, its target log s with noise of standard deviation 0.1, and the error
that of the regression function on 500 new Gaussians, which are known exactly (closed form): what is left is
the error of learning. Infinite bags are the Gaussians themselves.
"""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import muhat as mh
from muhat.report.plots import CYCLE, MARKERS, STYLES, new_figure
from papers.output import legend, save_figure, save_table, show

NOISE, TEST = 0.1, 500
MANY = 5_000_000  # points, from which on two seeds are enough: large bags differ little
SIZES = {
    "N = √ℓ": lambda n: round(n**0.5),
    "N = ℓ": lambda n: n,
    "N = ℓ² log ℓ": lambda n: round(n**2 * log(n)),
    "infinite": lambda n: None,
}


def task(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, standard deviations and targets without noise."""
    m, log_s = rng.standard_normal(n), rng.uniform(-1, 1, n)
    return m, np.exp(log_s), log_s


def error(n: int, size: int | None, seed: int) -> float:
    """Mean squared error of the regression function from ``n`` bags of ``size`` points, None for infinite."""
    rng = np.random.default_rng(seed)
    m, s, f = task(n, rng)
    y = f + NOISE * rng.standard_normal(n)
    new_m, new_s, truth = task(TEST, rng)
    exact = mh.GaussianBags(new_m[:, None], new_s[:, None] ** 2)
    bags: Any = mh.GaussianBags(m[:, None], s[:, None] ** 2)
    if size is not None:
        bags = [m_ + s_ * rng.standard_normal((size, 1)) for m_, s_ in zip(m, s, strict=True)]
    representation = (mh.Fourier(300), mh.Nystrom(500))
    model = mh.DistributionRegressor(representation=representation, random_state=seed).fit(bags, y)
    return float(np.mean((model.predict(exact) - truth) ** 2))


def draw(table: pl.DataFrame) -> Any:
    """Errors against the number of bags, one line a bag size."""
    figure, ((ax,),) = new_figure(height=3.4)
    for i, name in enumerate(SIZES):
        rows = table.filter(pl.col("bags of") == name)
        means = rows.group_by("bags", maintain_order=True).agg(
            pl.col("error").mean(), (pl.col("error").std() / pl.len().sqrt()).alias("se")
        )
        n, e, se = (means[c].to_numpy() for c in ("bags", "error", "se"))
        ax.errorbar(
            n, e, se, color=CYCLE[i], linestyle=STYLES[i], marker=MARKERS[i], markersize=5, label=name
        )
    ax.set(
        xscale="log", yscale="log", xlabel="number of bags ℓ", ylabel="squared error on known distributions"
    )
    ax.set_xticks(sorted(set(table["bags"])), [str(n) for n in sorted(set(table["bags"]))])
    ax.minorticks_off()
    legend(ax, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


def run(out: Path, quick: bool = False, seed: int = 0, seeds: int | None = None) -> None:
    """Make table and figure in the folder ``out``."""
    counts, seeds = ((16, 32), 2) if quick else ((16, 32, 64, 128), seeds or 5)
    rows: list[dict[str, Any]] = []
    for n in counts:
        for name, of in SIZES.items():
            size = of(n)
            some = min(seeds, 2) if size is not None and n * size > MANY else seeds
            for i in range(seed, seed + some):
                rows.append(
                    {"bags": n, "bags of": name, "points": size, "seed": i, "error": error(n, size, i)}
                )
            print(n, name, np.mean([r["error"] for r in rows[-some:]]), flush=True)
            save_table(rows, out / "rate.csv")
    table = pl.DataFrame(rows)
    save_figure(draw(table), out / "rate.png")
    means = table.group_by("bags", "bags of", maintain_order=True).agg(pl.col("error").mean())
    show(f"squared error, mean of {seeds} seeds", means.pivot("bags of", index="bags").to_dicts())
