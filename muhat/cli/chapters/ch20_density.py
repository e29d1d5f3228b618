"""From an embedding back to a density, and to super-samples."""

from __future__ import annotations

from typing import Any

import numpy as np

import muhat as mh
from muhat.cli.page import Page
from muhat.datasets import gaussian_mixture, gaussian_mixture_pdf
from muhat.report import plots
from muhat.report.cells import cell

TITLE = "Back to a density, and to super-samples"
DRAWS = 10
SIZES = [5, 10, 20, 50, 100]


def reconstruct(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    return mh.embed(x).density().pdf(grid)


def herd(x: np.ndarray) -> tuple[mh.Embedding, np.ndarray]:
    mu = mh.embed(x, mh.Gaussian(0.6))  # narrow: detail of this size counts
    return mu, mu.herd(100)


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    rng = np.random.default_rng(seed)
    _density(page, rng)
    _herding(page, rng)


def _density(page: Page, rng: np.random.Generator) -> None:
    grid = np.linspace(-6, 6, 1201)[:, None]
    truth, step = gaussian_mixture_pdf(grid), 0.01
    x = gaussian_mixture(500, random_state=rng)
    page.say(
        "An embedding determines its distribution, so the density can be had back from it: here from "
        f"{len(x)} draws of a mixture of a wide, a narrow and a middling Gaussian."
    )
    curves = {"muhat": page.run(reconstruct, x, grid), **_kernel_density(x, grid)}
    page.figure(
        plots.densities(grid[:, 0], curves, truth, x),
        "The true density and three estimates from one sample.",
        "A true density with a wide, a narrow and a middling peak, filled; over it three estimated curves.",
    )
    errors = {name: [_l1(values, truth, step)] for name, values in curves.items()}
    for _ in range(DRAWS - 1):
        x = gaussian_mixture(500, random_state=rng)
        again = {"muhat": reconstruct(x, grid), **_kernel_density(x, grid)}
        for name, values in again.items():
            errors[name].append(_l1(values, truth, step))
    rows = [(name, np.median(all_), min(all_), max(all_)) for name, all_ in errors.items()]
    page.table(
        rows,
        ["estimate", "median", "least", "most"],
        f"L1 error ∫|p̂ − p| (0 is perfect, 2 the worst) over {DRAWS} samples.",
    )
    best = min(rows, key=lambda row: row[1])[0]
    page.say(
        f"Smallest median error here: {best}. muhat and SciPy use their default settings; the third has "
        "its width chosen by 5-fold cross-validation."
    )


def _kernel_density(x: np.ndarray, grid: np.ndarray) -> dict[str, np.ndarray]:
    from scipy.stats import gaussian_kde
    from sklearn.model_selection import GridSearchCV
    from sklearn.neighbors import KernelDensity

    search: Any = GridSearchCV(KernelDensity(), {"bandwidth": np.geomspace(0.08, 1.0, 8)}, cv=5).fit(x)
    return {
        "SciPy gaussian_kde": gaussian_kde(x[:, 0])(grid[:, 0]),
        "cross-validated KDE": np.exp(search.score_samples(grid)),
    }


def _l1(values: np.ndarray, truth: np.ndarray, step: float) -> float:
    return float(np.abs(values - truth).sum() * step)


def _herding(page: Page, rng: np.random.Generator) -> None:
    x = gaussian_mixture(2000, d=2, random_state=rng)
    page.say(
        "Kernel herding picks, one by one, points whose plain average stands for the whole embedding: here "
        f"from {len(x)} points in the plane."
    )
    mu, points = page.run(herd, x)
    picks = rng.integers(len(x), size=(50, SIZES[-1]))  # 50 random choices to compare with
    moments = _moments(x)
    centre, scale = moments.mean(axis=0), moments.std(axis=0)
    rows = []
    for m in SIZES:
        weights = np.stack([np.bincount(pick[:m], minlength=len(x)) / m for pick in picks])
        chance = mh.embed(x, mu.kernel, weights=weights)  # all 50 at once
        rows.append(
            (
                m,
                float(mh.mmd(mu, points[:m])),
                float((mu - chance).norm().mean()),
                _rms((_moments(points[:m]).mean(axis=0) - centre) / scale),
                _rms((chance.expect(moments) - centre) / scale),
            )
        )
    axes = [np.linspace(-5, 4.5, 96), np.linspace(-4, 3.5, 76)]
    mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    density = gaussian_mixture_pdf(mesh.reshape(-1, 2)).reshape(mesh.shape[:2])
    page.figure(
        plots.sample_panels(
            axes,
            density,
            {"30 herded points": points[:30], "30 random points": x[picks[0, :30]]},
            "true density",
        ),
        "Herded and random points on the true density: herding puts each next one where mass is missing.",
    )
    page.table(
        rows,
        ["points", "MMD herded", "MMD random", "moments herded", "moments random"],
        "Distance to the embedding of the whole sample, and error of the means of x₁, x₂, x₁², x₂², x₁x₂ in "
        "standard deviations (root mean square).",
    )
    _, herded, random, *_ = np.array(rows).T
    page.figure(
        plots.error_curves(
            np.array(SIZES),
            {"random": random, "herded": herded},
            "number of points",
            "MMD to the whole sample",
            -0.5,
        ),
        "Distance to the whole sample against the number of points; random ones follow the rate 1/√n.",
    )
    better = [i for i in range(len(SIZES)) if herded[i] < random[-1]]
    if better:
        page.say(
            f"{SIZES[better[0]]} herded points come closer to the whole sample ({cell(herded[better[0]])}) "
            f"than {SIZES[-1]} random ones do on average ({cell(random[-1])})."
        )


def _moments(x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, x**2, x[:, 0] * x[:, 1]])


def _rms(errors: Any) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))
