"""Tests: whether samples differ and where, whether variables depend on each other, and who causes whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import muhat as mh
from muhat.cli.page import Page
from muhat.datasets import diabetes, gaussian_grid
from muhat.report import tests
from muhat.report.cells import cell
from muhat.testing.result import format_pvalue

TITLE = "Differences, dependence and causes"


def which_kernel(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    median = mh.two_sample_test(x, y, "median", permutations=499, random_state=seed)
    many = mh.two_sample_test(x, y, permutations=499, random_state=seed)
    return median, many


def which_columns(x: pl.DataFrame, y: pl.DataFrame, seed: int) -> Any:
    result = mh.two_sample_test(x, y, permutations=499, random_state=seed)
    return result, result.columns()  # each column by itself, adjusted for their number


def dependence(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    return mh.independence_test(x, y, permutations=499, random_state=seed)


def causes(table: pl.DataFrame, seed: int) -> Any:
    return mh.discover(table, alpha=0.01, random_state=seed)


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    rng = np.random.default_rng(seed)
    _scales(page, seed, rng)
    _columns(page, seed)
    _dependence(page, seed, rng)
    _causes(page, seed, rng)


def _scales(page: Page, seed: int, rng: np.random.Generator) -> None:
    x, y = gaussian_grid(50, 1.0, random_state=rng), gaussian_grid(50, 4.0, random_state=rng)
    page.say(
        f"Two samples of {len(x)} rows, each nine bumps on a grid: round ones, and oblong ones. The bumps "
        "are small beside the grid, and a kernel as wide as the grid hardly sees them. The default test "
        "looks at many scales at once, at no cost to its level."
    )
    median, many = page.run(which_kernel, x, y, seed)
    page.table(
        [
            (name, len(r.kernels), format_pvalue(r.pvalue))
            for name, r in (("at the median distance", median), ("many at once (the default)", many))
        ],
        ["kernel", "kernels", "p-value"],
        "Are the samples alike?",
    )
    page.say(many.effect_sentence)
    page.figure(
        tests.two_sample(many, ("round", "oblong")),
        "The default test: where one sample has more rows than the other (the witness function), the "
        "statistic beside what shuffled rows give, and what each column shows by itself.",
    )


def _columns(page: Page, seed: int) -> None:
    X, y = diabetes()
    X = X.with_columns(pl.Series("progression", y))
    first, second = (X.filter(pl.col("sex") == sex).drop("sex") for sex in ("1", "2"))
    page.say(
        f"Which columns drive a difference? The diabetes table again: {first.height} patients of one sex "
        f"against {second.height} of the other."
    )
    result, columns = page.run(which_columns, first, second, seed)
    page.say(result.summary)
    page.table(
        [
            (c.name, f"{c.effect_size:.2f}", "{:.2f} to {:.2f}".format(*c.interval), format_pvalue(c.pvalue))
            for c in columns
        ],
        ["column", "effect size", "95% interval", "adjusted p"],
        "Each column by itself, on all rows: 0.5 is chance, 1 tells every pair of rows apart.",
    )


def _dependence(page: Page, seed: int, rng: np.random.Generator) -> None:
    from scipy.stats import pearsonr

    angle = rng.uniform(0, 2 * np.pi, 200)
    x, y = np.cos(angle) + 0.2 * rng.standard_normal(200), np.sin(angle) + 0.2 * rng.standard_normal(200)
    page.say("Two variables on a noisy circle: neither rises with the other, yet they depend on each other.")
    result = page.run(dependence, x, y, seed)
    linear = pearsonr(x, y)
    page.table(
        [
            ("correlation", linear.statistic, format_pvalue(linear.pvalue)),  # type: ignore[attr-defined]
            ("HSIC", result.hsic, format_pvalue(result.pvalue)),
        ],
        ["test", "value", "p-value"],
        f"Dependence of two variables, {len(x)} rows.",
    )
    page.figure(
        tests.independence(result),
        "The rows, and where pairs occur more (blue) or less often (red) than they would if the variables "
        "were independent.",
    )


def _causes(page: Page, seed: int, rng: np.random.Generator) -> None:
    n = 250
    sun, rain = rng.standard_normal((2, n))
    growth = np.tanh(2 * sun) + 0.5 * rain**2 + 0.4 * rng.standard_normal(n)
    price = -np.tanh(growth) + 0.3 * rng.standard_normal(n)
    table = pl.DataFrame({"sun": sun, "rain": rain, "growth": growth, "price": price})
    page.say(
        "From tests of dependence given other columns follows, in part, who causes whom. Here sun and rain "
        "make growth, and growth makes the price, none of it linearly."
    )
    graph = page.run(causes, table, seed)
    truth = [("sun", "growth"), ("rain", "growth"), ("growth", "price")]
    rows = [(f"{a} → {b}", _drawn(graph, a, b), cell(graph.pvalues.get((a, b)))) for a, b in truth]
    page.table(rows, ["true arrow", "found", "largest p-value"], f"The graph from {n} rows.")
    extra = [
        pair for pair in (*graph.directed, *graph.undirected) if pair not in truth and pair[::-1] not in truth
    ]
    named = ", ".join(f"{a} and {b}" for a, b in extra)
    page.say(f"Edges that are not true: {named or 'none'}. {graph.tests} tests were made.")
    page.figure(graph.plot(), "The graph found.")


def _drawn(graph: Any, a: str, b: str) -> str:
    if (a, b) in graph.directed:
        return "the same"
    if (b, a) in graph.directed:
        return "the other way round"
    joined = (a, b) in graph.undirected or (b, a) in graph.undirected
    return "without direction" if joined else "no edge"
