"""A sample becomes an embedding: expectations, quantiles, and the distance between two samples."""

from __future__ import annotations

import numpy as np

import muhat as mh
from muhat.cli.page import Page
from muhat.datasets import normal_and_laplace
from muhat.report import plots
from muhat.report.cells import cell

TITLE = "A sample becomes an embedding"


def read_off(x: np.ndarray) -> list[float]:
    mu = mh.embed(x)  # the average of k(x_i, ·), k Gaussian of median width
    low, high = mu.quantile([0.05, 0.95])[:, 0]
    cosine = mu.expect(lambda z: np.cos(z[:, 0]))  # or any other function
    return [mu.mean()[0], np.sqrt(mu.cov()[0, 0]), low, high, cosine]


def compare(x: np.ndarray, y: np.ndarray) -> tuple[mh.Embedding, mh.Embedding, float]:
    kernel = mh.Gaussian("median").resolve(np.concatenate([x, y]))
    mu, nu = mh.embed(x, kernel), mh.embed(y, kernel)
    return mu, nu, mh.mmd(mu, nu)


def shuffle(mu: mh.Embedding, nu: mh.Embedding, rng: np.random.Generator) -> np.ndarray:
    points = np.concatenate([mu.points, nu.points])
    weights = np.concatenate([mu.weights, -nu.weights])
    shuffled = rng.permuted(np.tile(weights, (500, 1)), axis=1)
    return mh.embed(points, mu.kernel, weights=shuffled).norm()  # 500 embeddings at once


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    from scipy import stats

    rng = np.random.default_rng(seed)
    x, y = normal_and_laplace(1000, rng)
    page.say(
        f"An embedding is a weighted sample seen through a kernel. Here are {len(x)} draws of a normal "
        f"distribution and {len(y)} of a Laplace distribution with the same mean and variance. From an "
        "embedding one reads off the expectation of any function, and quantiles."
    )
    truths = []
    for law in (stats.norm(), stats.laplace(scale=np.sqrt(0.5))):
        truths.append([law.mean(), law.std(), *law.ppf([0.05, 0.95]), law.expect(np.cos)])
    names = ["mean", "standard deviation", "5% quantile", "95% quantile", "E cos(z)"]
    columns = [page.run(read_off, x), truths[0], read_off(y), truths[1]]
    page.table(
        zip(names, *columns, strict=True),
        ["", "normal", "truth", "Laplace", "truth"],
        "Read off the two embeddings, beside the exact values.",
    )
    page.say(
        "The distance between two embeddings, the maximum mean discrepancy (MMD), sees any difference in "
        "shape. To know how much is much, shuffle the labels, which makes the two samples alike."
    )
    mu, nu, distance = page.run(compare, x, y)
    null = page.run(shuffle, mu, nu, rng)
    share = float(np.mean(null >= distance))
    verdict = "the two distributions differ" if share < 0.05 else "chance alone could have made it"
    page.say(
        f"The MMD is {cell(distance)}. Of {len(null)} distances with shuffled labels 95% are below "
        f"{cell(np.quantile(null, 0.95))}, and {share:.1%} reach the observed one, so {verdict}."
    )
    grid = np.linspace(-3, 3, 601)
    gap = (mu - nu)(grid[:, None])
    page.say(
        "The difference `mu - nu` is a function, the witness: it says where the samples differ. The normal "
        f"sample has most in excess about x = {grid[np.argmax(gap)]:.1f}, the Laplace sample about "
        f"x = {grid[np.argmin(gap)]:.1f}."
    )
    page.figure(
        plots.witness(mu, nu, ("normal", "Laplace")),
        "The two samples (above) and the witness function (below): blue where the normal sample has more "
        "mass, red where the Laplace sample has.",
        "Histograms of the normal and the Laplace sample; below them the witness function, shaded by the "
        "sample that has more mass there.",
    )
    page.figure(
        plots.null_distribution(null, distance),
        "The observed MMD beside the distances between samples with shuffled labels.",
    )
