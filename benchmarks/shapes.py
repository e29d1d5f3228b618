"""Twenty shapes of two columns (x, y), as in studies of dependence [SR09, P19], and their rotations.

A shape is a pure function ``draw(n, noise, rng) -> (n, 2)``; noise 1 is what the studies take.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Shape = Callable[[int, float, np.random.Generator], np.ndarray]


def _curve(f: Callable[[np.ndarray], np.ndarray], spread: float, low: float = -1.0, high: float = 1.0) -> Shape:
    """y = f(x) + ε, x uniform."""

    def draw(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
        x = rng.uniform(low, high, n)
        return np.column_stack([x, f(x) + spread * noise * rng.standard_normal(n)])

    return draw


def _joint_normal(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    x, e, f = rng.standard_normal((3, n))
    return np.column_stack([x, 0.5 * x + np.sqrt(0.75) * e + 0.5 * noise * f])


def _w(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    x, u, e = rng.uniform(-1, 1, n), rng.uniform(0, 1, n), rng.standard_normal(n)
    return np.column_stack([x, 4 * ((x**2 - 0.5) ** 2 + u / 500) + 0.5 * noise * e])


def _spiral(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    r = rng.uniform(0, 5, n)
    return np.column_stack(
        [r * np.cos(np.pi * r), r * np.sin(np.pi * r) + 0.4 * noise * rng.standard_normal(n)]
    )


def _bernoulli(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    e, f = 0.5 * noise * rng.standard_normal((2, n))
    x = rng.integers(2, size=n) + e
    return np.column_stack([x, (2 * rng.integers(2, size=n) - 1) * x + f])


def _logarithmic(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    x, e = rng.standard_normal((2, n))
    return np.column_stack([x, np.log(x**2) + 3 * noise * e])


def _sine(period: float, spread: float) -> Shape:
    def draw(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
        x, e = rng.uniform(-1, 1, n) + 0.02 * rng.standard_normal(n), rng.standard_normal(n)
        return np.column_stack([x, np.sin(period * x) + spread * noise * e])

    return draw


def _square(angle: float) -> Shape:
    def draw(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
        u, v = rng.uniform(-1, 1, (2, n))
        c, s = np.cos(angle), np.sin(angle)
        return np.column_stack([c * u + s * v + 0.05 * noise * rng.standard_normal(n), c * v - s * u])

    return draw


def _two_parabolas(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    x, u = rng.uniform(-1, 1, n), rng.uniform(0, 1, n)
    return np.column_stack([x, (x**2 + 2 * noise * u) * (rng.integers(2, size=n) - 0.5)])


def _ellipse(radius: float) -> Shape:
    def draw(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
        t = rng.uniform(-np.pi, np.pi, n)
        return np.column_stack([radius * (np.cos(t) + 0.4 * noise * rng.standard_normal(n)), np.sin(t)])

    return draw


def _multiplicative(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    x, e = rng.standard_normal((2, n))
    return np.column_stack([x, x * e])


def _independence(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((n, 2)) / 3 + 2 * rng.integers(2, size=(n, 2)) - 1


SHAPES: dict[str, Shape] = {
    "linear": _curve(lambda x: x, 1.0),
    "exponential": _curve(np.exp, 10.0, 0.0, 3.0),
    "cubic": _curve(lambda x: 116 * (x - 1 / 3) ** 3 + 48 * (x - 1 / 3) ** 2, 80.0),
    "joint normal": _joint_normal,
    "step": _curve(lambda x: (x > 0) * 1.0, 1.0),
    "quadratic": _curve(np.square, 0.5),
    "w": _w,
    "spiral": _spiral,
    "bernoulli": _bernoulli,
    "logarithmic": _logarithmic,
    "fourth root": _curve(lambda x: np.abs(x) ** 0.25, 0.25),
    "sine, 4π": _sine(4 * np.pi, 1.0),
    "sine, 16π": _sine(16 * np.pi, 0.5),
    "square": _square(-np.pi / 8),
    "two parabolas": _two_parabolas,
    "circle": _ellipse(1.0),
    "ellipse": _ellipse(5.0),
    "diamond": _square(-np.pi / 4),
    "multiplicative noise": _multiplicative,
    "independence": _independence,
}


def rotated(rows: np.ndarray, degrees: float) -> np.ndarray:
    """Rows (n, 2) turned about the origin."""
    a = np.radians(degrees)
    return rows @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])
