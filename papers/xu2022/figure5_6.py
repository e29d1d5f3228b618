"""Figures 5 and 6: tracking from images, with exact kernels, learned features and an LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.progress import track

import muhat as mh
from muhat.gram import Convolutional, Perceptron
from muhat.report.plots import BLUE, GREEN, INK, ORANGE, PURPLE, RED, SKY, SOFT, new_figure
from papers.output import Row, letter, read_table, save_figure, save_table, show
from papers.xu2022.figure2 import error
from papers.xu2022.images import SYSTEMS, System, Video

STEPS, LENGTH, RUNS = 200, 500, 30
# Runs with lower seeds were looked at while the search was made.
FIRST_SEED = 100
# Hidden layers like the authors' (1024, 512, 128), who add batch and spectral normalisation.
DENSE = (256, 128)
COLOURS = {
    "original": BLUE,
    "IW": RED,
    "IW(NN), dense": ORANGE,
    "IW(NN), convolutions": GREEN,
    "LSTM, dense": PURPLE,
    "LSTM, convolutions": SKY,
    "knows the model": SOFT,
}
METHODS = (*COLOURS, "seen")
# Of the filters, on the operator scale.
REGULARISERS = ("reg", "reg_carried", "reg_prior", "reg_transition")
TICKS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5)
QUICK = ("IW", "IW(NN), convolutions", "LSTM, convolutions", "knows the model", "seen")


def networks(system: System) -> dict[str, Convolutional | Perceptron]:
    """The feature networks, shared by the learned features and the LSTM."""
    return {"dense": Perceptron(DENSE), "convolutions": Convolutional(system.shape)}


def filtered(
    video: Video, T: int, rule: str, network: Any, seed: int, epochs: int
) -> tuple[np.ndarray, dict[str, float]]:
    """Means of the filter trained on the first T steps, at the steps after them, and its regularisers."""
    features = None
    if network is not None:
        features = mh.Neural(network, epochs=epochs, standardize="together", progress=False)
    model = mh.KernelBayesFilter(rule, representation=features, random_state=seed)
    means = np.asarray(model.fit(video.X[:T], video.Z[:T]).filter(video.X[T:]).mean())
    chosen = {name: getattr(model.choice_, name) for name in REGULARISERS}
    return means, {name: np.nan if value is None else value for name, value in chosen.items()}


def one(name: str, T: int, seed: int, methods: Sequence[str] = METHODS, quick: bool = False) -> list[Row]:
    """The errors of all methods on one run."""
    from papers.xu2022.lstm import lstm

    system = SYSTEMS[name]
    video = system.make(T + STEPS, seed)
    seen, truth, rows = video.seen[T:], video.Z[T:], []
    nets = networks(system)
    for method in methods:
        start = process_time()
        chosen: dict[str, float] = dict.fromkeys(REGULARISERS, np.nan)
        kind, _, network = method.partition(", ")
        if method == "seen":
            means = seen
        elif method == "knows the model":
            means = system.floor(seen, np.random.default_rng([seed, 1]))
        elif kind == "LSTM":
            data = (video.X[:T], video.Z[:T], video.X[T:])
            iterations = 10 if quick else system.iterations
            means = lstm(*data, nets[network], iterations, system.stopping, seed)
        else:
            rule = "kbr_b" if kind == "original" else "importance"
            means, chosen = filtered(video, T, rule, nets.get(network), seed, 3 if quick else 150)
        seconds = process_time() - start
        row = {"system": name, "T": T, "seed": seed, "method": method, "seconds": seconds}
        rows.append({**row, **chosen, "error": error(means, truth)})
    return rows


def summary(rows: Sequence[Row]) -> list[Row]:
    """Means and standard errors by system, length and method, and how often IW(NN) has less error."""
    out = []
    for name, T, method in dict.fromkeys((r["system"], r["T"], r["method"]) for r in rows):
        mine, best = (
            {r["seed"]: r["error"] for r in rows if (r["system"], r["T"], r["method"]) == (name, T, m)}
            for m in (method, "IW(NN), convolutions")
        )
        errors, both = np.array(list(mine.values())), [s for s in mine if s in best]
        out.append(
            {
                "system": name,
                "T": T,
                "method": method,
                "runs": len(errors),
                "error": float(errors.mean()),
                "se": float(errors.std(ddof=1) / np.sqrt(len(errors))) if len(errors) > 1 else np.nan,
                "IW(NN) better": f"{sum(best[s] < mine[s] for s in both)}/{len(both)}",
            }
        )
    return out


def run(out: Path, quick: bool = False, seed: int = 0) -> None:
    """Make the figures in the folder ``out``; runs that its ``figure5_6_runs.csv`` has are not repeated."""
    T, runs, methods = (60, 1, QUICK) if quick else (LENGTH, RUNS, METHODS)
    rows = [] if quick else read_table(out / "figure5_6_runs.csv")
    had = {(r["system"], r["T"], r["seed"], r["method"]) for r in rows}
    seed += FIRST_SEED
    cases = [(name, T, seed + i) for i in range(runs) for name in SYSTEMS]
    for case in track(cases, "figures 5 and 6"):
        rows += one(*case, [m for m in methods if (*case, m) not in had], quick)
        if not quick:  # what a full run goes on from
            save_table(rows, out / "figure5_6_runs.csv")
    table = summary(rows)
    save_table(table, out / "figure5_6.csv")
    show("Figures 5 and 6: mean ‖ẑ − z‖²", table)
    save_figure(plot(table), out / "figure5_6.png")
    save_figure(pictures(seed), out / "figure3_4.png")


def plot(table: Sequence[Row]) -> Any:
    """Errors of each method."""
    figure, axes = new_figure(1, len(SYSTEMS), height=3.6)
    for i, (name, ax) in enumerate(zip(SYSTEMS, axes[0], strict=True)):
        letter(ax, "ab"[i], name)
        _dots(ax, [r for r in table if r["system"] == name], first=i == 0)
    return figure


def _dots(ax: Any, table: Sequence[Row], first: bool) -> None:
    for j, (method, colour) in enumerate(COLOURS.items()):
        for r in table:
            if r["method"] == method:
                se = r["se"] if r["se"] == r["se"] else 0.0  # of one run there is none
                ax.errorbar(r["error"], j, xerr=se, color=colour, marker="o", markersize=5, elinewidth=1.2)
    T = table[0]["T"]
    ax.set(xlabel=f"mean ‖ẑ − z‖², {T} training steps", xscale="log", ylim=(len(COLOURS) - 0.5, -0.5))
    ax.set_yticks(range(len(COLOURS)), list(COLOURS) if first else [""] * len(COLOURS))
    low, high = (f([r["error"] for r in table if r["method"] in COLOURS]) for f in (min, max))
    ax.set_xlim(low / 1.3, high * 1.3)
    ticks = [t for t in TICKS if low / 1.3 <= t <= high * 1.3]
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    ax.grid(axis="y", linewidth=0.5, alpha=0.4)


def pictures(seed: int) -> Any:
    """Three observations of each system, one step apart."""
    figure, axes = new_figure(2, 3, height=4.6)
    for row, (name, system) in zip(axes, SYSTEMS.items(), strict=True):
        video = system.make(3, seed)
        for t, ax in enumerate(row):
            image = video.X[t].reshape(system.shape).clip(0, 1)
            ax.imshow(image[..., 0] if image.shape[2] == 1 else image, cmap="gray", vmin=0, vmax=1)
            ax.set_xticks([])
            ax.set_yticks([])
            at = ", ".join(f"{value:.2f}".replace("-", "−") for value in video.Z[t])
            ax.set_xlabel(f"z = ({at})", fontsize=8, color=INK)
        letter(row[0], "ab"[list(SYSTEMS).index(name)], name)
    return figure
