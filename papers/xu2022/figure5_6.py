"""Figures 5 and 6: tracking from images, with exact kernels, learned features and an LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.progress import track

import muhat as mh
from muhat.gram import Convolutional, Perceptron
from muhat.report.plots import BLUE, GREEN, INK, MARKERS, ORANGE, PURPLE, RED, SKY, SOFT, new_figure
from papers.output import Row, letter, save_figure, save_table, show
from papers.xu2022.figure2 import error
from papers.xu2022.images import SYSTEMS, System, Video

STEPS, LENGTHS, RUNS = 200, (300, 500, 800), 10
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
QUICK = ("IW", "IW(NN), convolutions", "LSTM, convolutions", "knows the model", "seen")


def networks(system: System) -> dict[str, Convolutional | Perceptron]:
    """The feature networks, shared by the learned features and the LSTM."""
    return {"dense": Perceptron(DENSE), "convolutions": Convolutional(system.shape)}


def filtered(video: Video, T: int, rule: str, network: Any, seed: int, epochs: int) -> np.ndarray:
    """Means of the filter trained on the first T steps, at the steps after them."""
    features = None
    if network is not None:
        features = mh.Neural(network, epochs=epochs, standardize="together", progress=False)
    model = mh.KernelBayesFilter(rule, representation=features, random_state=seed)
    return np.asarray(model.fit(video.X[:T], video.Z[:T]).filter(video.X[T:]).mean())


def one(name: str, T: int, seed: int, methods: Sequence[str] = METHODS, quick: bool = False) -> list[Row]:
    """The errors of all methods on one run."""
    from papers.xu2022.lstm import lstm

    system = SYSTEMS[name]
    video = system.make(T + STEPS, seed)
    seen, truth, rows = video.seen[T:], video.Z[T:], []
    nets = networks(system)
    for method in methods:
        start = perf_counter()
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
            means = filtered(video, T, rule, nets.get(network), seed, 3 if quick else 150)
        seconds = perf_counter() - start
        row = {"system": name, "T": T, "seed": seed, "method": method, "seconds": seconds}
        rows.append({**row, "error": error(means, truth)})
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
    lengths, runs, methods = ((60,), 1, QUICK) if quick else (LENGTHS, RUNS, METHODS)
    rows = [] if quick else _done(out / "figure5_6_runs.csv")
    had = {(r["system"], r["T"], r["seed"], r["method"]) for r in rows}
    cases = [(name, T, seed + i) for i in range(runs) for T in lengths for name in SYSTEMS]
    for case in track(cases, "figures 5 and 6"):
        rows += one(*case, [m for m in methods if (*case, m) not in had], quick)
        save_table(rows, out / "figure5_6_runs.csv")
    table = summary(rows)
    save_table(table, out / "figure5_6.csv")
    show("Figures 5 and 6: mean ‖ẑ − z‖²", table)
    save_figure(plot(table), out / "figure5_6.png")
    save_figure(pictures(seed), out / "figure3_4.png")


def _done(path: Path) -> list[Row]:
    import polars as pl

    return pl.read_csv(path).to_dicts() if path.is_file() else []


def plot(table: Sequence[Row]) -> Any:
    """Errors over the length of the training sequence."""
    figure, axes = new_figure(1, len(SYSTEMS), height=3.6)
    for i, (name, ax) in enumerate(zip(SYSTEMS, axes[0], strict=True)):
        letter(ax, "ab"[i], name)
        for j, (method, colour) in enumerate(COLOURS.items()):
            mine = [r for r in table if (r["system"], r["method"]) == (name, method)]
            style = "--" if method.startswith("LSTM") else ":" if method == "knows the model" else "-"
            ax.errorbar(
                [r["T"] for r in mine],
                [r["error"] for r in mine],
                [r["se"] for r in mine],
                color=colour,
                linestyle=style,
                marker=MARKERS[j % len(MARKERS)],
                markersize=4,
                linewidth=1.3,
                elinewidth=0.8,
                label=method,
            )
        ax.set(xlabel="training steps", yscale="log", xticks=sorted({r["T"] for r in table}))
        ticks = [t for t in (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5) if _within(ax, t)]
        ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
        ax.minorticks_off()
    axes[0, 0].set_ylabel("mean ‖ẑ − z‖²")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower left", ncols=4, frameon=False, fontsize=8
    )
    return figure


def _within(ax: Any, value: float) -> bool:
    low, high = ax.get_ylim()
    return low <= value <= high


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
            at = ", ".join(f"{value:.2f}" for value in video.Z[t])
            ax.set_xlabel(f"z = ({at})", fontsize=8, color=INK)
        letter(row[0], "ab"[list(SYSTEMS).index(name)], name)
    return figure
