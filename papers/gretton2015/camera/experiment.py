"""The table and the figure of the camera experiment."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import muhat as mh
from muhat.report.plots import BLUE, FILL, GREEN, INK, ORANGE, RED, SOFT, new_figure
from papers.gretton2015.camera.filters import HELD_OUT, LANDMARKS, METHODS, Setting, choose, settings
from papers.gretton2015.camera.kalman import kalman_filters
from papers.gretton2015.camera.ridge import fit_ridge, windows
from papers.gretton2015.camera.room import render
from papers.gretton2015.camera.rotations import errors, nearest_rotation, wander
from papers.output import Row, legend, letter, read_table, save_figure, save_table, show

NOISES = (1e-4, 1e-3)  # variances
NAMES = {
    "kbr_gauss": "KBR (Gauss)",
    "kbr_trace": "KBR (trace)",
    "kalman_9": "Kalman (9 dim.), linear",
    "kalman_quaternion": "Kalman (quaternion), linear",
    "importance_gauss": "importance (Gauss)",
    "importance_trace": "importance (trace)",
    "default": "`mh.KernelBayesFilter()`",
    "ekf_9": "EKF (9 dim.), learned",
    "ekf_quaternion": "EKF (quaternion), learned",
    "ridge_1": "kernel ridge, one image",
    "ridge_3": "kernel ridge, three images",
    "nearest": "nearest training image",
}
# Mean and standard error over 10 runs [G15].
PUBLISHED = {
    "kbr_gauss": ((0.210, 0.015), (0.222, 0.009)),
    "kbr_trace": ((0.146, 0.003), (0.210, 0.008)),
    "kalman_9": ((1.980, 0.083), (1.935, 0.064)),
    "kalman_quaternion": ((0.557, 0.023), (0.541, 0.022)),
}


@dataclass(frozen=True)
class Size:
    """How many frames to learn from and to track, how many landmarks.

    The default filter searches for minutes: it takes part in the first ``default`` runs alone.
    """

    train: int = 1800
    test: int = 400
    held_out: int = HELD_OUT
    landmarks: int = LANDMARKS
    default: int = 3


QUICK = Size(240, 40, 40, 80, default=0)


@dataclass(frozen=True)
class Video:
    """Rotations (n, 9), what the camera sees and what is seen of it with noise, (n, 1200)."""

    R: np.ndarray
    clean: np.ndarray
    X: np.ndarray


def record(size: Size, noise: float, seed: int) -> Video:
    """A path of its own for each seed, noise of its own for each seed and variance; always the same room."""
    R = wander(size.train + size.test, np.random.default_rng(seed))
    clean = render(R)
    kicks = np.random.default_rng([seed, NOISES.index(noise)]).standard_normal(clean.shape)
    return Video(R, clean, clean + np.sqrt(noise) * kicks)


def estimates(video: Video, size: Size, chosen: dict[str, Setting], default: bool) -> dict[str, np.ndarray]:
    """Point estimates (T, 9) of the frames after training, by every method."""
    n = size.train
    X, R, x = video.X[:n], video.R[:n], video.X[n:]
    out = {method: s.estimate(s.fit(X, R).filter(x).mean()) for method, s in chosen.items()}
    if default:
        out["default"] = mh.KernelBayesFilter(method="kernel").fit(X, R).filter(x).mean()
    out |= kalman_filters(X, R, x)
    for length in (1, 3):
        seen = windows(video.X, length)
        out[f"ridge_{length}"] = nearest_rotation(fit_ridge(seen[:n], R).predict(seen[n:]))
    distance = np.sum(X**2, axis=1) - 2 * x @ X.T
    out["nearest"] = R[distance.argmin(axis=1)]
    return out


def scores(found: dict[str, np.ndarray], truth: np.ndarray) -> list[Row]:
    """Mean and median of ``‖R̂ − R‖²``, and the mean after moving R̂ to the nearest rotation."""
    rows = []
    for method in (name for name in NAMES if name in found):
        error = errors(found[method], truth)
        moved = errors(nearest_rotation(found[method]), truth)
        rows.append(
            {"method": method, "mse": error.mean(), "in_so3": moved.mean(), "median": np.median(error)}
        )
    return rows


def summary(runs: list[Row]) -> list[Row]:
    """Means over the runs with standard errors, beside what is published."""
    rows: list[Row] = []
    for i, noise in enumerate(NOISES):
        present = {r["method"] for r in runs}
        for method in (name for name in NAMES if name in present):
            mine = [r for r in runs if (r["noise"], r["method"]) == (noise, method)]
            mse, moved, middle = (np.array([r[key] for r in mine]) for key in ("mse", "in_so3", "median"))
            theirs = PUBLISHED.get(method, ((None, None), (None, None)))[i]
            spread = float(mse.std(ddof=1) / np.sqrt(len(mse))) if len(mse) > 1 else None
            rows.append(
                {
                    "noise": noise,
                    "method": method,
                    "runs": len(mse),
                    "published": theirs[0],
                    "published_se": theirs[1],
                    "mse": float(mse.mean()),
                    "se": spread,
                    "in_so3": float(moved.mean()),
                    "median": float(middle.mean()),
                }
            )
    return rows


def run(out: Path, quick: bool = False, seed: int = 0, seeds: int | None = None) -> None:
    """Make the table and the figure in the folder ``out``; each run has a path and noise of its own.

    Runs that its ``camera_runs.csv`` has are not repeated.
    """
    size, seeds = (QUICK, seeds or 1) if quick else (Size(), seeds or 30)
    runs, used = ([] if quick else read_table(out / f"camera_{name}.csv") for name in ("runs", "settings"))
    had = {(row["seed"], row["noise"]) for row in runs}
    first = record(size, NOISES[0], seed)
    if not used:  # from the training frames of the first run, for all runs
        for noise in NOISES:
            chosen = choices(record(size, noise, seed), size, quick)
            used += [{"noise": noise, "method": m, **s.row()} for m, s in chosen.items()]
        if not quick:  # what a full run goes on from, as its runs
            save_table(used, out / "camera_settings.csv")
    known = {n: {r["method"]: Setting.of(r) for r in used if r["noise"] == n} for n in NOISES}
    cases = [case for case in product(range(seed, seed + seeds), NOISES) if case not in had]
    for i, noise in track(cases, description="camera"):
        video = record(size, noise, i)
        found = estimates(video, size, known[noise], default=i < seed + size.default)
        runs += [{"noise": noise, "seed": i, **row} for row in scores(found, video.R[size.train :])]
        if not quick:
            save_table(runs, out / "camera_runs.csv")
    rows = summary(runs)
    save_table(rows, out / "camera.csv")
    drawn = {method: s for method, s in known[NOISES[0]].items() if method in SHOWN}
    found = estimates(first, size, drawn, default=False)
    save_figure(_picture(first, found, size.train, rows), out / "camera.png")
    for noise in NOISES:
        mine = [row for row in rows if row["noise"] == noise]
        show(f"Mean ‖R̂ − R‖², σ² = {noise:g}", [_table_row(row) for row in mine])
    show("Regularisers on the operator scale", [_settings_row(row) for row in used])


def choices(video: Video, size: Size, quick: bool) -> dict[str, Setting]:
    """The settings of the kernel Bayes filters, from the training frames alone."""
    X, R = video.X[: size.train], video.R[: size.train]
    lengthscale = fit_ridge(X, R).lengthscale
    return {
        method: choose(settings(method, lengthscale, size.landmarks, quick), X, R, size.held_out)
        for method in METHODS
    }


def _table_row(row: Row) -> Row:
    return {
        "method": NAMES[row["method"]].strip("`"),
        "runs": row["runs"],
        "published": _with_error(row["published"], row["published_se"]),
        "ours": _with_error(row["mse"], row["se"]),
        "in SO(3)": f"{row['in_so3']:.3f}",
        "median": f"{row['median']:.3f}",
    }


def _settings_row(row: Row) -> Row:
    keys = {"ℓ_x": "lengthscale_x", "reg": "reg", "reg_prior": "reg_prior", "landmarks": "landmarks"}
    return {"σ²": row["noise"], "method": row["method"], **{name: row[key] for name, key in keys.items()}}


def _with_error(value: float | None, spread: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" + ("" if spread is None else f" ± {spread:.3f}")


SHOWN = {
    "kbr_trace": (BLUE, "-"),
    "importance_trace": (GREEN, "--"),
    "kalman_9": (ORANGE, ":"),
    "ekf_quaternion": (RED, "-."),
}


def _picture(video: Video, found: dict[str, np.ndarray], n: int, rows: list[Row]) -> Any:
    figure, _ = new_figure(height=6.0)
    figure.clear()
    halves: Any = figure.subfigures(2, 1, height_ratios=[1, 1.1])
    top, bottom = halves
    _frames(top, video, found, n)
    axes = bottom.subplots(1, 2, width_ratios=[1, 1])
    truth = video.R[n:]
    for method, (colour, style) in SHOWN.items():
        error = errors(found[method], truth)[:150]
        axes[0].plot(error, color=colour, linestyle=style, linewidth=1.0, label=NAMES[method])
    axes[0].set(yscale="log", xlabel="test frame", ylabel="‖R̂ − R‖²", ylim=(5e-5, 200))
    letter(axes[0], "B", "one run, σ² = 1e-4")
    legend(axes[0], fontsize=6.5, ncols=2, loc="upper center", columnspacing=1.0)
    _dots(axes[1], [row for row in rows if row["noise"] == NOISES[0]])
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=7.5)
        ax.xaxis.label.set_size(8.5)
        ax.yaxis.label.set_size(8.5)
    return figure


def _frames(figure: Any, video: Video, found: dict[str, np.ndarray], n: int) -> None:
    """What the camera sees, and the room from where two filters believe it looks."""
    at = np.linspace(5, len(video.R) - n - 1, 9).astype(int)
    views = {"seen": video.X[n + at]}
    views |= {NAMES[m]: render(nearest_rotation(found[m][at])) for m in ("kbr_trace", "kalman_9")}
    axes = figure.subplots(len(views), len(at))
    for line, (name, images) in zip(axes, views.items(), strict=True):
        for ax, image in zip(line, images, strict=True):
            ax.imshow(np.clip(image, 0, 1).reshape(20, 20, 3))
            ax.set(xticks=[], yticks=[])
        line[0].set_ylabel(name.replace(" (", "\n(").replace(", ", ",\n"), fontsize=7.5, color=INK)
    title = "(A) test frames, and the room in the direction that each filter believes in"
    figure.suptitle(title, x=0.01, ha="left", fontsize=9.5, color=INK)


def _dots(ax: Any, rows: list[Row]) -> None:
    """Published and our errors of every method."""
    for y, row in enumerate(rows):
        ax.plot(row["mse"], y, "o", color=BLUE, markersize=5, label="ours" if y == 0 else None)
        if row["published"] is not None:
            label = "published (another room)" if y == 0 else None
            ax.plot(row["published"], y, "D", color=SOFT, markersize=5, fillstyle="none", label=label)
    ax.set(xscale="log", xlabel="mean ‖R̂ − R‖²", xlim=(0.01, 6))
    ticks = (0.01, 0.1, 1.0)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_yticks(range(len(rows)), [NAMES[row["method"]].strip("`") for row in rows])
    ax.set_ylim(len(rows) - 0.5, -2.2)  # room for the legend
    ax.grid(axis="x", color=FILL, linewidth=0.5)
    letter(ax, "C", "σ² = 1e-4")
    legend(ax, fontsize=7, loc="upper left", ncols=2)
