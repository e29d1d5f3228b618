"""Conditional distributions: more than a mean, and inputs that are uncertain themselves."""

from __future__ import annotations

import numpy as np

import muhat as mh
from muhat.cli.page import Page
from muhat.datasets import fork, fork_mean, fork_pdf, fork_quantile
from muhat.report import plots
from muhat.report.cells import cell

TITLE = "The distribution of y given x"
LEVELS = [0.05, 0.25, 0.75, 0.95]


def fit(X: np.ndarray, y: np.ndarray) -> mh.ConditionalMean:
    return mh.ConditionalMean().fit(X, y)  # lengthscale and regulariser by leave-one-out


def ask(model: mh.ConditionalMean, x: np.ndarray) -> dict[str, np.ndarray]:
    given = model.at(x)  # one embedding of y for each x
    return {
        "mean": model.predict(x),
        "quantiles": given.quantile([0.05, 0.25, 0.75, 0.95])[..., 0],
        "density": given.density().pdf(np.linspace(-5, 5, 201)[:, None]),
        "above": model.expect(lambda y: y[:, 0] > 1, x),  # P(y > 1 | x)
    }


def uncertain(model: mh.ConditionalMean, x: np.ndarray) -> list[mh.Embedding]:
    mu = mh.embed(x, model.kernel_x_)  # x is not a point but a distribution
    return [model.push(mu), model.chain(mu)]  # of y; of x and y together


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    rng = np.random.default_rng(seed)
    X, y = fork(1000, rng)
    page.say(
        f"{len(X)} pairs on a fork: one branch, then two, with noise that grows. The mean of y runs between "
        "the branches, where there is little data. `ConditionalMean` learns the embedding of y given x, "
        "hence its quantiles, its density, and the expectation of any function."
    )
    model = page.run(fit, X, y)
    x = np.linspace(0.1, 3.9, 77)
    mean, quantiles, density, above = page.run(ask, model, x[:, None]).values()
    grid = np.linspace(-5, 5, 201)
    truth, true_quantiles = fork_pdf(x, grid), fork_quantile(x, LEVELS)
    page.figure(
        plots.quantile_fan(x, quantiles, LEVELS, (X, y), true_quantiles, mean),
        "Quantiles of y given x from the embeddings (bands), beside the true ones (dashed).",
        "Scattered data that split into two branches, with bands of estimated quantiles that widen with the "
        "fork, and the true quantiles as dashed lines.",
    )
    joint = _joint_kde(X, y, x, grid)
    page.figure(
        plots.conditional_densities(
            x, grid, {"truth": truth, "muhat": density, "kernel density ratio": joint}
        ),
        "The density of y given x: the truth, ours, and SciPy's gaussian_kde of (x, y) divided by that of x.",
        "Three heat maps of y against x, each with one branch that parts into two.",
    )
    step, spread = grid[1] - grid[0], np.std(y)
    true_above = fork_pdf(x, np.linspace(1, 9, 4001)).sum(axis=1) * 0.002
    baseline = np.abs(joint - truth).sum(axis=1).mean() * step
    page.table(
        [
            ("mean, in standard deviations of y", np.abs(mean - fork_mean(x)).mean() / spread),
            ("quantiles, in standard deviations of y", np.abs(quantiles - true_quantiles).mean() / spread),
            ("P(y > 1 | x)", np.abs(above - true_above).mean()),
            ("density, L1", np.abs(density - truth).sum(axis=1).mean() * step),
            ("density, L1, kernel density ratio", baseline),
        ],
        ["what", "mean absolute error"],
        f"Against the truth, averaged over {len(x)} values of x.",
    )
    _selection(page, model)
    _uncertain(page, model, rng)


def _selection(page: Page, model: mh.ConditionalMean) -> None:
    chosen = model.selection_
    assert chosen is not None
    page.say(
        f"Nothing was tuned by hand: leave-one-out, in closed form, tried {len(chosen.path)} pairs of "
        f"lengthscale and regulariser and took λ = {cell(chosen.reg)} with `{model.kernel_x_}`."
    )
    page.figure(
        plots.leave_one_out(chosen), "The leave-one-out loss of every pair that was tried, and the least."
    )


def _uncertain(page: Page, model: mh.ConditionalMean, rng: np.random.Generator) -> None:
    centre, sd = 2.5, 0.4
    page.say(
        f"The input may itself be uncertain, say x ~ N({centre}, {sd}²), known by 500 draws. `push` gives "
        "the distribution of y then (the sum rule), `chain` that of x and y together."
    )
    nu, joint = page.run(uncertain, model, rng.normal(centre, sd, (500, 1)))
    x = rng.normal(centre, sd, 200_000)
    pairs = np.column_stack([x, fork(random_state=rng, x=x).y])
    low, high = np.quantile(pairs[:, 1], [0.1, 0.9])
    ours, cov = nu.quantile([0.1, 0.9])[:, 0], joint.normalize().cov()
    correlation = cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1])
    page.table(
        [
            ("mean of y", nu.mean()[0], pairs[:, 1].mean()),
            ("10% quantile of y", ours[0], low),
            ("90% quantile of y", ours[1], high),
            ("standard deviation of y", np.sqrt(cov[1, 1]), pairs[:, 1].std()),
            ("correlation of x and y", correlation, np.asarray(np.corrcoef(pairs.T))[0, 1]),
        ],
        ["", "muhat", "simulation"],
        f"y when x is uncertain, beside a simulation of {len(x):,} draws from the true model.",
    )


def _joint_kde(X: np.ndarray, y: np.ndarray, x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The simplest conditional density: that of (x, y) over that of x."""
    from scipy.stats import gaussian_kde

    both = gaussian_kde(np.stack([X[:, 0], y]))
    mesh = np.stack(np.meshgrid(x, grid, indexing="ij")).reshape(2, -1)
    values = both(mesh).reshape(len(x), len(grid))
    return values / (values.sum(axis=1, keepdims=True) * (grid[1] - grid[0]))
