"""Figure 1: the posterior mean of Gaussians in d dimensions, from samples."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.progress import track

import muhat as mh
from muhat.report.plots import BLUE, GREEN, MARKERS, RED, SOFT, new_figure
from papers.output import Row, legend, letter, save_figure, save_table, show

DIMENSIONS = (2, 4, 8, 16, 32, 64)
SAMPLES, TESTS = 200, 200
REG = 0.2  # η = λ of the paper's protocol, on the operator scale
METHODS = {"IW": "importance", "original": "kbr_b", "KBR(a)": "kbr_a", "no prior": "importance"}
COLOURS = dict(zip(METHODS, (RED, BLUE, GREEN, SOFT), strict=True))
# Of an independent reimplementation: the protocol's regularisers, and both tuned (d = 8).
ELSEWHERE = {
    ("protocol", 2): {"IW": 0.050, "original": 0.088},
    ("protocol", 8): {"IW": 0.312, "original": 0.426},
    ("protocol", 32): {"IW": 1.68, "original": 1.82},
    ("chosen", 8): {"IW": 0.251, "original": 0.314, "no prior": 0.289},
}


class Problem(NamedTuple):
    """Pairs, samples of the prior, observations, and the true posterior means there."""

    X: np.ndarray
    Z: np.ndarray
    prior: np.ndarray
    x: np.ndarray
    truth: np.ndarray


def draw(d: int, rng: np.random.Generator) -> Problem:
    """(X, Z) ~ N((1, 0), V), prior N(0, V_ZZ/2), observations N(0, V_XX) [X22, 5.1]."""
    A = rng.standard_normal((2 * d, 2 * d))
    V = A.T @ A / (2 * d) + 2 * np.eye(2 * d)
    xx, xz, zz = V[:d, :d], V[:d, d:], V[d:, d:]
    joint = rng.multivariate_normal(np.repeat([1.0, 0.0], d), V, size=SAMPLES)
    prior = rng.multivariate_normal(np.zeros(d), zz / 2, size=SAMPLES)
    x = rng.multivariate_normal(np.zeros(d), xx, size=TESTS)
    gain = 0.5 * np.linalg.solve(xx - 0.5 * xz @ np.linalg.solve(zz, xz.T), xz)
    return Problem(joint[:, :d], joint[:, d:], prior, x, (x - 1) @ gain)


def one(d: int, tuned: bool, seed: int) -> list[Row]:
    """The errors of all methods in one run."""
    problem = draw(d, np.random.default_rng([seed, d]))
    kernel = mh.Gaussian("median")
    fixed = (
        {}
        if tuned
        else {"kernel_x": kernel, "kernel_z": kernel, "reg": REG, "reg_prior": REG, "target": "zero"}
    )
    rows = []
    for name, rule in METHODS.items():
        model = mh.KernelBayes(rule, center=False, **fixed).fit(problem.X, problem.Z)
        prior = None if name == "no prior" else problem.prior
        means = np.asarray(model.posterior(problem.x, prior).mean())
        choice = model.choose(prior)
        rows.append(
            {
                "settings": "chosen" if tuned else "protocol",
                "d": d,
                "seed": seed,
                "method": name,
                "reg": choice.reg,
                "reg_prior": choice.reg_prior,
                "error": float(((means - problem.truth) ** 2).sum(axis=1).mean()),
            }
        )
    return rows


def summary(rows: list[Row]) -> list[Row]:
    """Means over the runs, and how often and by how much the importance rule is below each."""
    out = []
    for settings, d, method in dict.fromkeys((r["settings"], r["d"], r["method"]) for r in rows):
        mine = {r["seed"]: r for r in rows if (r["settings"], r["d"], r["method"]) == (settings, d, method)}
        iw = {
            r["seed"]: r["error"] for r in rows if (r["settings"], r["d"], r["method"]) == (settings, d, "IW")
        }
        errors = np.array([r["error"] for r in mine.values()])
        gaps = np.array([iw[s] - mine[s]["error"] for s in mine])
        out.append(
            {
                "settings": settings,
                "d": d,
                "method": method,
                "error": float(errors.mean()),
                "se": float(errors.std() / np.sqrt(len(errors))),
                "IW minus it": float(gaps.mean()),
                "IW wins": f"{int((gaps < 0).sum())}/{len(gaps)}",
                "reg": float(np.median([r["reg"] for r in mine.values()])),
                "reg_prior": float(np.median([r["reg_prior"] for r in mine.values()])),
                "elsewhere": ELSEWHERE.get((settings, d), {}).get(method, np.nan),
            }
        )
    return out


def run(out: Path, quick: bool = False, seed: int = 0) -> None:
    runs, dimensions = (1, (2,)) if quick else (30, DIMENSIONS)
    cases = [(d, tuned, seed + i) for tuned in (False, True) for d in dimensions for i in range(runs)]
    rows: list[Row] = []
    for case in track(cases, "figure 1"):
        rows += one(*case)
    save_table(rows, out / "figure1_runs.csv")
    table = summary(rows)
    save_table(table, out / "figure1.csv")
    show("Figure 1: mean squared error of the posterior mean, summed over dimensions", table)
    plot(table, out / "figure1.png")


def plot(table: list[Row], path: Path) -> None:
    figure, axes = new_figure(1, 2)
    for i, (settings, ax) in enumerate(zip(("protocol", "chosen"), axes[0], strict=True)):
        letter(ax, "ab"[i], "η = λ = 0.2, median kernels" if i == 0 else "all chosen from the pairs")
        for j, (method, colour) in enumerate(COLOURS.items()):
            mine = [r for r in table if r["settings"] == settings and r["method"] == method]
            at, error, se = ([r[k] for r in mine] for k in ("d", "error", "se"))
            ax.errorbar(
                at, error, se, color=colour, marker=MARKERS[j], markersize=4, linewidth=1.2, label=method
            )
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xlabel("dimension")
        ax.set_ylabel("error")
        legend(ax)
    save_figure(figure, path)
