"""``python -m benchmarks.independence``: power of the independence test beside MGC, Dcorr and ξ.

The designs are the 20 of hyppo's ``indep_sim`` (Vogelstein et al. 2019, eLife 8), with noise of any
strength, in one dimension and in three; the last is independent. Every method sees the same data:
repetition r draws from ``np.random.default_rng(first + r)``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.peers.packages import peer
from benchmarks.power import LEVEL, Method, Rate, Scenario, measure, show, write

PERMUTATIONS = 199
Pairs = tuple[np.ndarray, np.ndarray]
Shape = Callable[[float, int, int, np.random.Generator], Pairs]  # noise, rows, columns


def _projected(f: Callable[[np.ndarray], np.ndarray], scale: float, low: float = -1.0, high: float = 1.0):
    """y = f(wᵀx) + scale · noise, x uniform and w = (1, 1/2, 1/3, …)."""

    def draw(noise: float, n: int, d: int, rng: np.random.Generator) -> Pairs:
        x = rng.uniform(low, high, (n, d))
        return x, f(_sum(x)) + scale * noise * rng.standard_normal((n, 1))

    return draw


def _sum(x: np.ndarray) -> np.ndarray:
    return x @ (1 / np.arange(1, x.shape[1] + 1))[:, None]


def _cubic(s: np.ndarray) -> np.ndarray:
    t = s - 1 / 3
    return 128 * t**3 + 48 * t**2 - 12 * t**3  # as in hyppo, which has the cube twice


def joint_normal(noise: float, n: int, d: int, rng: np.random.Generator) -> Pairs:
    across = np.full((d, d), 1 / (2 * d))
    covariance = np.block([[np.eye(d), across], [across, np.eye(d)]])
    z = rng.multivariate_normal(np.zeros(2 * d), covariance, n, method="eigh")
    return z[:, :d], z[:, d:] + 0.5 * noise * rng.standard_normal((n, 1))


def _around(angles: np.ndarray) -> np.ndarray:
    """Points on a sphere of dimension d from angles (n, d); the first column goes with the last angle."""
    x = np.zeros_like(angles)
    x[:, 0] = np.cos(angles[:, 0])
    for j in range(1, x.shape[1]):
        x[:, j] = x[:, j - 1] * np.cos(angles[:, j])
        x[:, j - 1] *= np.sin(angles[:, j])
    return x


def spiral(noise: float, n: int, d: int, rng: np.random.Generator) -> Pairs:
    u = rng.uniform(0, 5, (n, 1))
    y = u * np.sin(np.pi * u) + 0.4 * d * noise * rng.standard_normal((n, 1))
    return u * _around(np.repeat(np.pi * u, d, axis=1)), y


def bernoulli(noise: float, n: int, d: int, rng: np.random.Generator) -> Pairs:
    sign = 2 * rng.integers(2, size=(n, 1)) - 1
    x = rng.integers(2, size=(n, d)) + 0.5 * noise * rng.standard_normal((n, d))
    return x, sign * _sum(x) + 0.5 * noise * rng.standard_normal((n, 1))


def logarithmic(noise: float, n: int, d: int, rng: np.random.Generator) -> Pairs:
    x = rng.standard_normal((n, d))
    return x, np.log(x**2) + 3 * noise * rng.standard_normal((n, 1))


def sine(noise: float, n: int, d: int, rng: np.random.Generator, *, waves: int, scale: float) -> Pairs:
    x = rng.uniform(-1, 1, (n, d))
    x += 0.02 * d * (noise if d == 1 else 1.0) * rng.standard_normal((n, d))
    return x, np.sin(np.pi * waves * x) + scale * noise * rng.standard_normal((n, 1))


def square(noise: float, n: int, d: int, rng: np.random.Generator, *, angle: float) -> Pairs:
    u, v = rng.uniform(-1, 1, (2, n, d))
    c, s = np.cos(angle), np.sin(angle)
    return u * c + v * s + 0.05 * d * noise * rng.standard_normal((n, d)), v * c - u * s


def two_parabolas(noise: float, n: int, d: int, rng: np.random.Generator) -> Pairs:
    x = rng.uniform(-1, 1, (n, d))
    sign = rng.integers(2, size=(n, 1)) - 0.5
    return x, (_sum(x) ** 2 + 2 * noise * rng.uniform(size=(n, d))) * sign


def circle(noise: float, n: int, d: int, rng: np.random.Generator, *, radius: float) -> Pairs:
    angles = np.pi * rng.uniform(-1, 1, (n, d))
    x = _around(angles) + 0.4 * noise * rng.standard_normal((n, d))
    return radius * x, np.repeat(np.sin(angles[:, :1]), d, axis=1)


def multiplicative(noise: float, n: int, d: int, rng: np.random.Generator) -> Pairs:
    x, e = rng.standard_normal((2, n, d))
    return x, x * e


def independent(noise: float, n: int, d: int, rng: np.random.Generator) -> Pairs:
    x, y = rng.standard_normal((2, n, d)) / 3 + 2 * rng.integers(2, size=(2, n, d)) - 1
    return x, y


SHAPES: dict[str, Shape] = {
    "linear": _projected(lambda s: s, 1.0),
    "exponential": _projected(np.exp, 10.0, 0.0, 3.0),
    "cubic": _projected(_cubic, 80.0),
    "joint normal": joint_normal,
    "step": _projected(lambda s: np.where(s > 0, 1.0, 0.0), 1.0),
    "quadratic": _projected(np.square, 0.5),
    "W": _projected(lambda s: 4 * (s**2 - 0.5) ** 2, 0.5),
    "spiral": spiral,
    "bernoulli": bernoulli,
    "logarithmic": logarithmic,
    "fourth root": _projected(lambda s: np.abs(s) ** 0.25, 0.25),
    "sine 4π": partial(sine, waves=4, scale=1.0),
    "sine 16π": partial(sine, waves=16, scale=0.5),
    "square": partial(square, angle=-np.pi / 8),
    "two parabolas": two_parabolas,
    "circle": partial(circle, radius=1.0),
    "ellipse": partial(circle, radius=5.0),
    "diamond": partial(square, angle=-np.pi / 4),
    "multiplicative": multiplicative,
    "independent": independent,
}
NOISE = {1: 0.8, 3: 0.3}  # by columns: where the methods differ


def scenario(name: str, d: int, n: int) -> Scenario:
    shape = SHAPES[name]
    return Scenario(f"{name}, d = {d}", lambda noise, rows, rng: shape(noise, rows, d, rng), NOISE[d], n)


def ours(x: np.ndarray, y: np.ndarray, seed: int) -> bool:
    import muhat as mh

    return mh.independence_test(x, y, permutations=PERMUTATIONS, random_state=seed).pvalue <= LEVEL


def hyppo(x: np.ndarray, y: np.ndarray, seed: int, *, test: str) -> bool:
    method = getattr(peer("hyppo.independence"), test)()
    return bool(method.test(x, y, reps=PERMUTATIONS, workers=1, random_state=seed)[1] <= LEVEL)


def xi(x: np.ndarray, y: np.ndarray, seed: int) -> bool:
    """Chatterjee's ξ of y given x, in one dimension, by its asymptotic distribution."""
    return bool(peer("scipy.stats").chatterjeexi(x[:, 0], y[:, 0]).pvalue <= LEVEL)


METHODS: dict[str, Method] = {
    "ours": ours,
    "MGC": partial(hyppo, test="MGC"),
    "Dcorr": partial(hyppo, test="Dcorr"),
    "ξ": xi,
}


def behind(rates: Sequence[Rate], margin: float = 0.25) -> list[str]:
    """Scenarios where a peer finds dependence more often by more than the margin."""
    found = []
    for one in dict.fromkeys(r.scenario for r in rates):
        by = {r.method: r.value for r in rates if r.scenario is one}
        best = max(by, key=lambda name: by[name])
        if "ours" in by and by["ours"] < by[best] - margin:
            found.append(f"{one.name}: {by['ours']:.2f}, {best} {by[best]:.2f}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.independence", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 repetitions, without MGC, which is slow")
    parser.add_argument("--repetitions", type=int, default=None, help="40 unless --quick")
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--csv", type=Path, default=Path("benchmarks/results/independence.csv"))
    options = parser.parse_args(arguments)
    console = Console()
    repetitions = options.repetitions or (20 if options.quick else 40)
    seeds = range(options.first_seed, options.first_seed + repetitions)
    rates: list[Rate] = []
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    for d in NOISE:
        names = [m for m in METHODS if not (options.quick and m == "MGC") and not (d > 1 and m == "ξ")]
        for name in SHAPES:
            rates += measure(scenario(name, d, options.rows), names, seeds, console, METHODS)
            write(rates, options.csv)  # a long run that is interrupted keeps what it has
    show(rates, console)
    lines = behind(rates)
    for line in lines:
        console.print(f"[red]behind a peer[/] {line}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
