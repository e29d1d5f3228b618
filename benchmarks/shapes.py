"""Shapes of two columns and copulas, as problems of two samples.

A shape is a pure function ``draw(n, noise, rng) -> (n, 2)``; the twenty are those of Vogelstein et al.
(2019), at their noise 1. Both samples are drawn anew. Were one the other turned, rows would be matched, and
permutation tests of independent rows reject less than they should.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Shape = Callable[[int, float, np.random.Generator], np.ndarray]


def _curve(
    f: Callable[[np.ndarray], np.ndarray], spread: float, low: float = -1.0, high: float = 1.0
) -> Shape:
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


# Degrees at which tests of 100 rows a sample reject neither never nor always.
DEGREES = dict(
    zip(SHAPES, (15, 6, 7, 35, 15, 20, 28, 52, 18, 8, 8, 15, 22, 60, 14, 42, 6, 60, 48, 9), strict=True)
)


def turned(degrees: float, n: int, rng: np.random.Generator, *, shape: str) -> tuple[np.ndarray, np.ndarray]:
    """n rows of a shape against n others, turned."""
    return SHAPES[shape](n, 1.0, rng), rotated(SHAPES[shape](n, 1.0, rng), degrees)


def _clayton(theta: float, n: int, rng: np.random.Generator) -> np.ndarray:
    frailty = rng.gamma(1 / theta, 1.0, (n, 1))
    return (1 + rng.exponential(size=(n, 2)) / frailty) ** (-1 / theta)


def normal_copula(rho: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Independent uniform columns against ones with the copula of correlated normals."""
    from scipy.special import ndtr

    x, e = rng.standard_normal((n, 2)), rng.standard_normal((n, 2))
    e[:, 1] = rho * e[:, 0] + np.sqrt(1 - rho**2) * e[:, 1]
    return ndtr(x), ndtr(e)


def clayton(theta: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Columns that go together where they are small against ones that do where they are large."""
    return _clayton(theta, n, rng), 1 - _clayton(theta, n, rng)


def skewed_clayton(theta: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The same with exponential margins."""
    x, y = clayton(theta, n, rng)
    return -np.log(x), -np.log(y)


def rare(share: float, n: int, rng: np.random.Generator, *, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows against the same of which a share lies in a narrow clump, 4 from the centre."""
    x, y = rng.standard_normal((2, n, d))
    odd = rng.random(n) < share
    y[odd] = 4 / np.sqrt(d) + 0.2 * rng.standard_normal((odd.sum(), d))
    return x, y


def margin(distance: float, n: int, rng: np.random.Generator, *, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows against the same with one column of two clumps, of the same mean and variance."""
    x, y = rng.standard_normal((2, n, d))
    y[:, 0] = distance * rng.choice([-1.0, 1.0], n) + np.sqrt(1 - distance**2) * y[:, 0]
    return x, y
