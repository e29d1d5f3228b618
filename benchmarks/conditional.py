"""``python -m benchmarks.conditional``: level and power of the conditional tests, on designs for choosing.

A design is a pure function ``draw(n, d, rng) -> (x, y, z)``. In the nulls z moves x and y, mostly through one
index w of its columns; in the alternatives a part of the noise is shared. Every method sees the same data:
run r draws from ``np.random.default_rng([r, d])``. Judge on other designs than these.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.progress import track

import muhat as mh

LEVEL = 0.05
DRAWS = 499
Draw = Callable[[int, int, np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray]]
Function = Callable[[np.ndarray, np.ndarray], np.ndarray]


def common_cause(f: Function, g: Function, noise: float = 0.3, tails: float = np.inf) -> Draw:
    """x and y are functions of (w, z) plus noise of their own: normal, or Student's t."""

    def draw(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z = rng.standard_normal((n, d))
        w = z.sum(axis=1) / np.sqrt(d)
        e = rng.standard_normal((2, n)) if np.isinf(tails) else rng.standard_t(tails, (2, n))
        return f(w, z) + noise * e[0], g(w, z) + noise * e[1], z

    return draw


def spread(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The spread of both goes with w."""
    z = rng.standard_normal((n, d))
    w, e = z.sum(axis=1) / np.sqrt(d), rng.standard_normal((2, n))
    sd = 0.3 * (0.5 + np.abs(w))
    return w + sd * e[0], w**2 / 2 + sd * e[1], z


def several(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x and y have three columns each."""
    z, A, B = rng.standard_normal((n, d)), rng.standard_normal((d, 3)), rng.standard_normal((d, 3))
    e = 0.3 * rng.standard_normal((2, n, 3))
    return np.tanh(z @ A) + e[0], z @ B + e[1], z


def whole(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """z are whole numbers from 0 to 3; y is a count."""
    z = rng.integers(0, 4, (n, d)).astype(float)
    w = (z - 1.5).sum(axis=1) / np.sqrt(d)
    return w + 0.3 * rng.standard_normal(n), rng.poisson(np.exp(w)).astype(float), z


def product(w: np.ndarray, z: np.ndarray) -> np.ndarray:
    return z[:, 0] * z[:, -1]


def steps(w: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.floor(2 * z[:, 0])


NULLS: dict[str, Draw] = {
    "linear": common_cause(lambda w, z: w, lambda w, z: w),
    "sine, square": common_cause(lambda w, z: np.sin(2 * w), lambda w, z: w**2),
    "exponential": common_cause(lambda w, z: np.exp(w), lambda w, z: np.exp(w)),
    "steps": common_cause(steps, lambda w, z: steps(w, z) + (z[:, -1] > 0)),
    "little noise": common_cause(lambda w, z: np.sin(2 * w), lambda w, z: np.sin(2 * w) + w, 0.05),
    "heavy tails": common_cause(lambda w, z: w, lambda w, z: w, tails=3),
    "product": common_cause(product, product),
    "additive": common_cause(lambda w, z: np.sin(2 * z).sum(axis=1), lambda w, z: (z**2).sum(axis=1)),
    "unrelated": common_cause(lambda w, z: 0 * w, lambda w, z: 0 * w),
    "spread": spread,
    "several": several,
    "whole": whole,
}


def shared(y: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Draw:
    """x = w + e/2; y of (w, e, u) with u its own noise."""

    def draw(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z, (e, u) = rng.standard_normal((n, d)), rng.standard_normal((2, n))
        w = z.sum(axis=1) / np.sqrt(d)
        return w + 0.5 * e, y(w, e, u), z

    return draw


ALTERNATIVES: dict[str, Draw] = {
    "linear": shared(lambda w, e, u: w + 0.25 * e + 0.7 * u),
    "square": shared(lambda w, e, u: w + 0.3 * e**2 + 0.7 * u),
    "sign": shared(lambda w, e, u: w + 0.6 * np.sign(w) * e + 0.5 * u),
    "spread": shared(lambda w, e, u: w + u * (0.3 + 0.7 * np.abs(e))),
    "scale": shared(lambda w, e, u: w + u * np.exp(0.5 * e)),
    "behind an index": shared(lambda w, e, u: np.sin(2 * w) + 0.3 * e + 0.5 * u),
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conditional", description=__doc__)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--columns", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--methods", nargs="+", default=["kci", "residual", "stacked"])
    parser.add_argument("--out", type=Path, help="a CSV file")
    parser.add_argument("--quick", action="store_true", help="one design of each kind, two runs")
    given = parser.parse_args(arguments)
    designs = [("null", *item) for item in NULLS.items()] + [
        ("power", *item) for item in ALTERNATIVES.items()
    ]
    runs, columns, draws = given.runs, given.columns, DRAWS
    if given.quick:
        designs, runs, columns, draws = [designs[0], designs[-1]], 2, [2], 19
    rows = [("kind", "design", "rows", "columns", "method", "runs", "rejected", "trusted", "both")]
    cells = [(d, *design) for d in columns for design in designs]
    for d, kind, name, draw in track(cells, "testing", disable=not sys.stderr.isatty()):
        data = [draw(given.rows, d, np.random.default_rng([r, d])) for r in range(runs)]
        for method in given.methods:
            found = [
                mh.conditional_independence_test(*one, method=method, permutations=draws, random_state=r)
                for r, one in enumerate(data)
            ]
            rejected = np.array([test.pvalue <= LEVEL for test in found])
            trusted = np.array([test.trusted or method != "stacked" for test in found])
            shares = [f"{np.mean(part):.3f}" for part in (rejected, trusted, rejected & trusted)]
            rows.append((kind, name, given.rows, d, method, runs, *shares))
            print("  ".join(map(str, rows[-1])), flush=True)
    if given.out:
        with given.out.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
