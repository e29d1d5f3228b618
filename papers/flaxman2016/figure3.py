"""Figure 3: the posterior of a witness function, with the kernel's parameters integrated out by NUTS."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import muhat as mh
from muhat.datasets import normal_and_laplace
from muhat.learning import SampledKernel
from muhat.models import witness_posterior
from muhat.report.plots import BLUE, FILL, INK, RED, SOFT, new_figure
from papers.output import Row, legend, letter, save_figure, save_table, show

SIZES = (50, 400)
LEVEL = 0.8
# Of the likelihood, eq. (5): the sampled τ² I as in the paper, or the covariance of k(X, z).
NOISE = {"sampled": "sampled τ²", None: "covariance of k"}
P: Any = stats.norm()
Q: Any = stats.laplace(scale=np.sqrt(0.5))


def sampled(both: np.ndarray, quick: bool, seed: int) -> SampledKernel:
    """Draws of ℓ and τ² under the paper's Gamma(1, 1) priors: 4 chains of 400, the first 200 dropped."""
    size: dict[str, Any] = (
        {"chains": 2, "samples": 50, "warmup": 50} if quick else {"chains": 4, "samples": 200, "warmup": 200}
    )
    with warnings.catch_warnings():
        if quick:  # too short to converge, and known to be
            warnings.filterwarnings("ignore", "The chains do not agree")
        return mh.sample_kernel(both, mh.Gaussian("median"), units="raw", random_state=seed, **size)


def excluded(low: np.ndarray, high: np.ndarray, weight: np.ndarray) -> float:
    """The share of a distribution (weights on the grid) where the band does not hold 0."""
    return float(weight @ ((low > 0) | (high < 0)) / weight.sum())


def run(out: Path, quick: bool, seed: int) -> None:
    """Make figure 3 in the folder ``out``."""
    grid = np.linspace(-5, 5, 61 if quick else 161)
    weight = (P.pdf(grid) + Q.pdf(grid)) / 2
    columns: dict[str, np.ndarray] = {"x": grid}
    rows: list[Row] = []
    kernels: dict[int, SampledKernel] = {}
    for n in SIZES:
        x, y = normal_and_laplace(n, seed)
        # Compiling the sampler takes longest: the quick form does it once, for the smaller sample.
        again = quick and n != SIZES[0]
        draws = kernels[SIZES[0]] if again else sampled(np.concatenate([x, y]), quick, seed)
        kernels[n] = draws
        for noise, name in NOISE.items():
            pairs = draws.draws(40 if quick else None)
            posterior = witness_posterior(x, y, pairs, grid[:, None], noise=noise, random_state=seed)
            low, high = posterior.interval(LEVEL)
            key = f"{n}_{'tau2' if noise else 'covariance'}"
            columns |= {f"mean_{key}": posterior.mean, f"low_{key}": low, f"high_{key}": high}
            rows.append(_row(n, name, draws, excluded(low, high, weight)))
    save_table(columns, out / "figure3.csv")
    save_table(rows, out / "figure3_posterior.csv")
    truth = {n: _true_witness(grid, float(np.mean(kernels[n].samples["lengthscale"]))) for n in SIZES}
    save_figure(_picture(columns, kernels, truth), out / "figure3.png")
    show(f"Witness N(0, 1) − Laplace(0, √½), {LEVEL:.0%} bands", rows)


def _row(n: int, name: str, draws: SampledKernel, share: float) -> Row:
    ell, noise = draws.samples["lengthscale"], draws.samples["noise"]
    return {
        "n": n,
        "noise": name,
        "without 0": share,
        "ℓ": float(ell.mean()),
        "± ℓ": float(ell.std()),
        "τ²": float(noise.mean()),
        "± τ²": float(noise.std()),
        "R̂": max(draws.rhat.values()),
        "ESS": min(draws.ess.values()),
        "diverged": draws.divergences,
    }


def _true_witness(grid: np.ndarray, lengthscale: float) -> np.ndarray:
    """μ_P − μ_Q for the Gaussian kernel, by quadrature."""
    u = np.linspace(-12, 12, 4801)
    K = np.exp(-0.5 * ((grid[:, None] - u) / lengthscale) ** 2)
    return K @ (P.pdf(u) - Q.pdf(u)) * (u[1] - u[0])


def _picture(columns: dict[str, np.ndarray], kernels: dict[int, SampledKernel], truth: dict[int, Any]) -> Any:
    figure, axes = new_figure(2, 3, height=5.0)
    x = columns["x"]
    top = axes[0, 0]
    top.plot(x, P.pdf(x), color=BLUE, label="N(0, 1)")
    top.plot(x, Q.pdf(x), color=RED, linestyle="--", label="Laplace(0, √½)")
    top.set(ylabel="density", xlabel="x", ylim=(0, 0.95))
    letter(top, "A", "P and Q")
    legend(top, loc="upper left")
    below = axes[1, 0]
    for n, colour, style in ((50, SOFT, "--"), (400, INK, "-")):
        values = kernels[n].samples["lengthscale"].ravel()
        below.hist(values, 30, density=True, histtype="step", color=colour, linestyle=style, label=f"n = {n}")
    below.set(xlabel="lengthscale ℓ", ylabel="posterior density")
    letter(below, "D", "lengthscale")
    legend(below)
    for row, (key, noise) in enumerate((("tau2", "sampled τ²"), ("covariance", "covariance of k"))):
        for column, (n, name) in enumerate(((50, "B"), (400, "C")), start=1):
            ax = axes[row, column]
            low, high = columns[f"low_{n}_{key}"], columns[f"high_{n}_{key}"]
            ax.axhline(0, color=SOFT, linewidth=0.7)
            ax.fill_between(x, low, high, color=FILL, linewidth=0, label="80% intervals")
            ax.plot(x, columns[f"mean_{n}_{key}"], color=INK, linewidth=1.3, label="mean")
            ax.plot(x, truth[n], color=BLUE, linewidth=1.0, linestyle="--", label="truth")
            # Outside the data the band is that of the prior, many times as wide.
            ax.set(xlabel="x", xlim=(-4, 4), ylim=(-0.3, 0.3))
            letter(ax, name + "′" * row, f"n = {n}, {noise}")
    for ax in axes[:, 1]:
        ax.set_ylabel("witness μ(P) − μ(Q)")
    legend(axes[1, 2], fontsize=7.5, loc="lower center", frameon=True, edgecolor="none")
    return figure
