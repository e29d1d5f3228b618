"""Figure 2: two-sample tests on grids of Gaussians whose shapes differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.progress import track

import muhat as mh
from muhat.datasets import gaussian_grid
from muhat.kernels.median import median_distance
from muhat.report.plots import BLUE, FAINT, GREEN, INK, MARKERS, ORANGE, RED, SOFT, STYLES, new_figure
from papers.flaxman2016.learning import learn_lengthscale, profile, shared_problem
from papers.output import Row, legend, letter, save_figure, save_table, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.05
RATIOS = (1.0, 2.0, 4.0, 6.0, 10.0)
SAMPLING = {"stratified": True, "drawn": False}
# The paper's likelihood: τ² = 1, and as many points z as put its maximum at the published 0.85.
NOISE, POINTS = 1.0, 90
METHODS = {
    "median": "median heuristic",
    "BKL τ²=1": "BKL, τ² = 1",
    "BKL": "BKL, τ² learned",
    "aggregate": "our default",
}
COLOURS = dict(zip(METHODS, (SOFT, BLUE, GREEN, RED), strict=True))


def draw(ratio: float, stratified: bool, n_per: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """A grid of round Gaussians, and one whose covariances have the ratio of eigenvalues ε."""
    return (
        gaussian_grid(n_per, 1.0, stratified=stratified, random_state=rng),
        gaussian_grid(n_per, ratio, stratified=stratified, random_state=rng),
    )


def repetition(x: np.ndarray, y: np.ndarray, permutations: int, seed: int) -> dict[str, tuple[float, float]]:
    """For each method, its p-value and lengthscale (the aggregated test's is of its best kernel)."""
    both = np.concatenate([x, y])
    kernels = {
        "median": mh.Gaussian(float(median_distance(both))),
        "BKL τ²=1": learn_lengthscale(both, POINTS, NOISE, starts=1, random_state=seed).kernel,
        "BKL": learn_lengthscale(both, starts=1, random_state=seed).kernel,
        "aggregate": None,
    }
    out = {}
    for name, kernel in kernels.items():
        result = mh.two_sample_test(x, y, kernel, permutations=permutations, random_state=seed)
        ell = getattr(result.kernel, "lengthscale", np.nan)
        out[name] = (result.pvalue, float(np.mean(np.asarray(ell))))
    return out


def errors(
    ratios: tuple[float, ...], repetitions: int, n_per: int, permutations: int, seed: int
) -> list[Row]:
    """How often each method does not reject, for each ε and way of sampling."""
    rows: list[Row] = []
    cases = [(s, r) for s in SAMPLING for r in ratios]
    for sampling, ratio in track(cases, description="figure 2"):
        runs = []
        for i in range(repetitions):
            rng = np.random.default_rng([seed, SAMPLING[sampling], int(10 * ratio), i])
            runs.append(repetition(*draw(ratio, SAMPLING[sampling], n_per, rng), permutations, seed + i))
        for method in METHODS:
            pvalues, lengths = np.array([run[method] for run in runs]).T
            rows.append(
                {
                    "sampling": sampling,
                    "ratio": ratio,
                    "method": method,
                    "repetitions": repetitions,
                    "kept": int((pvalues > LEVEL).sum()),
                    "type_2_error": float((pvalues > LEVEL).mean()),
                    "lengthscale": float(np.nanmedian(lengths)) if np.isfinite(lengths).any() else np.nan,
                }
            )
    return rows


def curves(x: np.ndarray, y: np.ndarray, number: int, seed: int) -> dict[str, np.ndarray]:
    """Log pseudolikelihoods over the lengthscale, each less its maximum."""
    both = np.concatenate([x, y])
    ell = np.geomspace(0.2, 80.0, number)
    out = {"lengthscale": ell}
    for name, points, noise in (("tau2_1", POINTS, NOISE), ("tau2_learned", None, None)):
        values = profile(shared_problem(both, points, noise, np.random.default_rng(seed)), ell)
        out[name] = values - values.max()
    return out


def witness(x: np.ndarray, y: np.ndarray, side: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """An axis, the posterior mean of μ_P − μ_Q on its square, and the learned lengthscale."""
    kernel: Any = learn_lengthscale(np.concatenate([x, y]), POINTS, NOISE, random_state=seed).kernel
    axis = np.linspace(-14.0, 14.0, side)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    p, q = (mh.BayesianEmbedding(kernel, noise=NOISE).fit(sample) for sample in (x, y))
    return axis, (p - q).mean(grid).reshape(side, side), float(kernel.lengthscale)


def interval(kept: int, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a proportion."""
    z2, p = 1.96**2, kept / n
    middle, half = (p + z2 / (2 * n)), 1.96 * np.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)


def _error_panel(ax: Axes, rows: list[Row]) -> None:
    ax.axhline(1 - LEVEL, color=FAINT, linewidth=1)
    for i, (method, name) in enumerate(METHODS.items()):
        mine = [row for row in rows if row["method"] == method]
        ratio, error = (np.array([row[key] for row in mine]) for key in ("ratio", "type_2_error"))
        ends = np.array([interval(row["kept"], row["repetitions"]) for row in mine]).T
        bars = np.maximum(np.stack([error - ends[0], ends[1] - error]), 0)
        at = ratio * 1.035 ** (i - 1.5)  # side by side
        ax.errorbar(
            at,
            error,
            bars,
            color=COLOURS[method],
            linestyle=STYLES[i],
            marker=MARKERS[i],
            markersize=4,
            linewidth=1.3,
            elinewidth=0.7,
            label=name,
        )
    ax.set(xscale="log", xlabel="ratio ε", ylabel="type II error", ylim=(-0.04, 1.06))
    ratios = sorted({row["ratio"] for row in rows})
    ax.set_xticks(ratios, [f"{r:g}" for r in ratios])
    ax.minorticks_off()


def _samples_panel(ax: Axes, ratio: float, n_per: int, seed: int) -> None:
    for sample, colour in zip(draw(ratio, True, n_per, np.random.default_rng(seed)), (INK, RED), strict=True):
        ax.plot(*sample.T, ".", color=colour, markersize=2.4, alpha=0.6, markeredgewidth=0)
    ax.set(aspect="equal", xlabel="x₁", ylabel="x₂", xticks=(-10, 0, 10), yticks=(-10, 0, 10))


def _picture(rows: list[Row], curve: dict[str, np.ndarray], fields: Any, median: float, seed: int) -> Any:
    figure, axes = new_figure(2, 3, height=5.4)
    for ax, name, ratio in ((axes[0, 0], "A", 2.0), (axes[0, 1], "B", 10.0)):
        _samples_panel(ax, ratio, 100, seed)
        letter(ax, name, f"samples, ε = {ratio:g}")
    axis, values, ell = fields
    top = np.abs(values).max()
    mesh = axes[0, 2].pcolormesh(axis, axis, values, cmap="RdGy", vmin=-top, vmax=top, rasterized=True)
    axes[0, 2].set(aspect="equal", xlabel="x₁", xticks=(-10, 0, 10), yticks=(-10, 0, 10))
    letter(axes[0, 2], "E", f"witness, ε = 2, ℓ = {ell:.2f}")
    bar = figure.colorbar(mesh, ax=axes[0, 2], shrink=0.7)
    bar.ax.tick_params(labelsize=7)
    for ax, sampling, title in (
        (axes[1, 0], "stratified", "100 a component"),
        (axes[1, 1], "drawn", "components drawn"),
    ):
        _error_panel(ax, [row for row in rows if row["sampling"] == sampling])
        letter(ax, "C" if sampling == "stratified" else "C′", title)
    axes[1, 1].set_ylabel("")
    ax = axes[1, 2]
    for key, colour, style, name in (
        ("tau2_1", BLUE, "-", "τ² = 1, m = 90"),
        ("tau2_learned", GREEN, "--", "τ² learned, m = 128"),
    ):
        ax.plot(curve["lengthscale"], curve[key] / 1000, color=colour, linestyle=style, label=name)
    ax.axvline(median, color=ORANGE, linewidth=1, linestyle=":", label="median heuristic")
    ax.set(xscale="log", xlabel="lengthscale ℓ", ylabel="log p − max (1000)", ylim=(-8.5, 0.3))
    letter(ax, "D", "pseudolikelihood")
    legend(ax, fontsize=7, loc="lower right")
    entries = axes[1, 0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside lower left", ncols=4, frameon=False, fontsize=8)
    return figure


def run(out: Path, quick: bool, seed: int) -> None:
    """Make figure 2 in the folder ``out``."""
    ratios, repetitions, n_per, permutations = ((1.0, 10.0), 3, 20, 99) if quick else (RATIOS, 30, 100, 299)
    rows = errors(ratios, repetitions, n_per, permutations, seed)
    save_table(rows, out / "figure2_errors.csv")
    x, y = draw(2.0, True, n_per, np.random.default_rng(seed))
    curve = curves(x, y, 7 if quick else 61, seed)
    save_table(curve, out / "figure2_curves.csv")
    fields = witness(x, y, 25 if quick else 113, seed)
    median = float(median_distance(np.concatenate([x, y])))
    save_figure(_picture(rows, curve, fields, median, seed), out / "figure2.png")
    for sampling in SAMPLING:
        title = f"Type II error, {sampling}, {repetitions} repetitions (median lengthscale)"
        show(title, [_table_row(rows, sampling, method) for method in METHODS])
    peak = {key: float(curve["lengthscale"][np.argmax(curve[key])]) for key in ("tau2_1", "tau2_learned")}
    found = {"median heuristic": median, **{f"maximum, {key}": value for key, value in peak.items()}}
    show("Lengthscales at ε = 2", [{"": key, "lengthscale": value} for key, value in found.items()])


def _table_row(rows: list[Row], sampling: str, method: str) -> Row:
    mine = [row for row in rows if (row["sampling"], row["method"]) == (sampling, method)]
    cells = {f"ε = {row['ratio']:g}": f"{row['type_2_error']:.2f} ({row['lengthscale']:.2g})" for row in mine}
    return {"method": METHODS[method], **cells}
