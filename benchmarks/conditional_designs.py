"""Data to judge a test of conditional independence on: x and y depend on each other given z, or do not.

A design is a pure function ``design(rng, n, d) -> (x, y, z)`` with d columns of z. In the nulls x and y are
both moved by the same function of z, the hardest case: whatever a regression on z leaves of it is in both. In
the alternatives they share something beside z. Nothing here was chosen by what any test makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

Rows = tuple[np.ndarray, np.ndarray, Any]
Design = Callable[[np.random.Generator, int, int], Rows]

NOISE, LITTLE_NOISE = 0.5, 0.05
# How large the part of y is that comes from x's own noise, where it enters as it is.
LINK = 0.3


def _noise(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    e, f = rng.standard_normal((2, n))
    return e, f


def _index(rng: np.random.Generator, z: np.ndarray) -> np.ndarray:
    """z along a random direction, in units of its spread."""
    return _unit(z @ rng.standard_normal(z.shape[1]))


def _unit(f: np.ndarray) -> np.ndarray:
    """``f`` centred, with a standard deviation of one; a constant stays zero."""
    f = f - f.mean()
    return f / f.std() if f.std() > 0 else f


def _shared(rng: np.random.Generator, f: np.ndarray, noise: float = NOISE) -> tuple[np.ndarray, np.ndarray]:
    """x and y that are f(z), rising or falling, each with its own normal noise."""
    f, (e, g) = _unit(f), _noise(rng, len(f))
    return f + noise * e, rng.choice([-1.0, 1.0]) * f + noise * g


def _smooth(rng: np.random.Generator, u: np.ndarray) -> np.ndarray:
    """A random smooth function with a bend or two over the range of u."""
    a, b, c = rng.standard_normal(3)
    return a * u + b * np.sin(1.5 * u + c) + np.tanh(2 * (u - c / 2))


# True nulls.


def linear(rng: np.random.Generator, n: int, d: int) -> Rows:
    z = rng.standard_normal((n, d))
    return *_shared(rng, _index(rng, z)), z


def smooth(rng: np.random.Generator, n: int, d: int) -> Rows:
    """A smooth function of one direction of z."""
    z = rng.standard_normal((n, d))
    return *_shared(rng, _smooth(rng, _index(rng, z))), z


def exponential(rng: np.random.Generator, n: int, d: int) -> Rows:
    z = rng.standard_normal((n, d))
    return *_shared(rng, np.exp(_index(rng, z))), z


def products(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Products of two columns; the square of the only one."""
    z = rng.standard_normal((n, d))
    i, j = rng.permutation(d)[:2] if d > 1 else (0, 0)
    return *_shared(rng, z[:, i] * z[:, j] + 0.5 * z[:, i]), z


def steps(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Two steps along one column."""
    z = rng.standard_normal((n, d))
    column, at = z[:, rng.integers(d)], np.sort(rng.uniform(-1, 1, 2))
    return *_shared(rng, rng.permutation(3)[np.searchsorted(at, column)].astype(float)), z


def trees(rng: np.random.Generator, n: int, d: int) -> Rows:
    """A tree of three splits deep, each at its own column and place."""
    z = rng.standard_normal((n, d))
    leaf = np.zeros(n, dtype=int)
    for depth in range(3):
        columns, places = rng.integers(d, size=2**depth), rng.uniform(-0.8, 0.8, 2**depth)
        leaf = 2 * leaf + (z[np.arange(n), columns[leaf]] > places[leaf])
    return *_shared(rng, rng.standard_normal(8)[leaf]), z


def additive(rng: np.random.Generator, n: int, d: int) -> Rows:
    """A sum of smooth functions of every column."""
    z = rng.standard_normal((n, d))
    return *_shared(rng, np.sum([_unit(_smooth(rng, column)) for column in z.T], axis=0)), z


def heteroscedastic(rng: np.random.Generator, n: int, d: int) -> Rows:
    """z moves the mean and the spread of both."""
    z = rng.standard_normal((n, d))
    u, (e, f) = _index(rng, z), _noise(rng, n)
    spread = 0.2 + np.abs(_index(rng, z))
    return 0.5 * u + spread * e, np.sin(u) + spread * f, z


def heavy_tails(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Noise of Student's t with 2.5 degrees of freedom."""
    z = rng.standard_normal((n, d))
    f = _unit(_smooth(rng, _index(rng, z)))
    e, g = rng.standard_t(2.5, (2, n))
    return f + NOISE * e, f + NOISE * g, z


def discrete(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Columns of 0, 1, 2, 3, whose values have effects in no order."""
    z = rng.integers(4, size=(n, d))
    effects = rng.standard_normal((4, d)) / np.sqrt(np.arange(1, d + 1))  # the later, the smaller
    return *_shared(rng, effects[z, np.arange(d)].sum(axis=1)), z.astype(float)


def categories(rng: np.random.Generator, n: int, d: int) -> Rows:
    """A category of four levels that turns the slope of a number; other columns beside, in a frame."""
    group, z = rng.integers(4, size=n), rng.standard_normal((n, d - 1))
    f = rng.standard_normal(4)[group]
    if d > 1:
        f = f + rng.standard_normal(4)[group] * _index(rng, z)
    return *_shared(rng, f), _beside(z, group)


def little_noise(rng: np.random.Generator, n: int, d: int) -> Rows:
    z = rng.standard_normal((n, d))
    return *_shared(rng, _smooth(rng, _index(rng, z)), LITTLE_NOISE), z


def several(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Three columns of x and two of y, which mix two functions of z."""
    z = rng.standard_normal((n, d))
    f = np.column_stack([_unit(_smooth(rng, _index(rng, z))) for _ in range(2)])
    x, y = (f @ rng.standard_normal((2, k)) + NOISE * rng.standard_normal((n, k)) for k in (3, 2))
    return x, y, z


def correlated(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Columns of z with correlations of 0.9."""
    z = _correlated(rng, n, d, 0.9)
    return *_shared(rng, _smooth(rng, _index(rng, z))), z


def skewed(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Log-normal columns; x and y follow a root of one direction, or its logarithm."""
    z = rng.lognormal(sigma=1.0, size=(n, d))
    u = z @ rng.dirichlet(np.ones(d))
    return *_shared(rng, np.log(u) if rng.random() < 0.5 else np.sqrt(u)), z


def periodic(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Two or three periods along one direction, as of a season."""
    z = rng.uniform(-1.0, 1.0, (n, d))
    return *_shared(rng, np.sin(rng.uniform(4.0, 6.0) * _index(rng, z) + rng.uniform(0, 6))), z


def integers(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Counts whose rates go with z."""
    z = rng.standard_normal((n, d))
    u = _index(rng, z)
    x, y = rng.poisson(np.exp(0.8 + 0.6 * u)), rng.poisson(np.exp(0.3 + 0.6 * u))
    return x.astype(float), y.astype(float), z


def ties(rng: np.random.Generator, n: int, d: int) -> Rows:
    """All columns rounded to halves, after x and y were made."""
    z = np.round(2 * rng.standard_normal((n, d))) / 2
    x, y = _shared(rng, _smooth(rng, _index(rng, z)))
    return np.round(2 * x) / 2, np.round(2 * y) / 2, z


def binary(rng: np.random.Generator, n: int, d: int) -> Rows:
    """x and y of 0 and 1, whose odds go with z."""
    z = rng.standard_normal((n, d))
    odds = np.exp(2 * _index(rng, z))
    x, y = rng.random((2, n)) < odds / (1 + odds)
    return x.astype(float), y.astype(float), z


# Alternatives.


def _linked(rng: np.random.Generator, z: np.ndarray) -> tuple[np.ndarray, ...]:
    """A smooth function of z for each of x and y, the noise of x and that of y."""
    return *(_unit(_smooth(rng, _index(rng, z))) for _ in range(2)), *_noise(rng, len(z))


def link_linear(rng: np.random.Generator, n: int, d: int) -> Rows:
    z = rng.standard_normal((n, d))
    f, g, e, h = _linked(rng, z)
    return f + e, g + LINK * e + h, z


def link_correlated(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Linear, beside columns of z with correlations of 0.8."""
    z = _correlated(rng, n, d, 0.8)
    f, g, e, h = _linked(rng, z)
    return f + e, g + LINK * e + h, z


def link_square(rng: np.random.Generator, n: int, d: int) -> Rows:
    """No correlation: y follows the square of x's noise."""
    z = rng.standard_normal((n, d))
    f, g, e, h = _linked(rng, z)
    return f + e, g + 0.5 * (e**2 - 1) + h, z


def link_sign(rng: np.random.Generator, n: int, d: int) -> Rows:
    z = rng.standard_normal((n, d))
    f, g, e, h = _linked(rng, z)
    return f + e, g + LINK * np.sign(e) + h, z


def link_spread(rng: np.random.Generator, n: int, d: int) -> Rows:
    """x's noise moves only the spread of y."""
    z = rng.standard_normal((n, d))
    f, g, e, h = _linked(rng, z)
    return f + e, g + np.exp(0.5 * e) * h, z


def link_scale(rng: np.random.Generator, n: int, d: int) -> Rows:
    """The noise of both has one random scale, which z does not tell."""
    z = rng.standard_normal((n, d))
    f, g, e, h = _linked(rng, z)
    scale = np.exp(0.6 * rng.standard_normal(n))
    return f + scale * e, g + scale * h, z


def link_behind_index(rng: np.random.Generator, n: int, d: int) -> Rows:
    """They go together where one direction of z is high, and apart where it is low."""
    z = rng.standard_normal((n, d))
    f, g, e, h = _linked(rng, z)
    return f + e, g + 0.7 * np.tanh(2 * _index(rng, z)) * e + h, z


def link_idle_category(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Linear, beside a category of three levels that has no part in it; a twentieth fewer rows.

    At least one column of z is a number, so that there are two for d = 1.
    """
    n -= n // 20
    z = rng.standard_normal((n, max(d - 1, 1)))
    f, g, e, h = _linked(rng, z)
    return f + e, g + LINK * e + h, _beside(z, rng.integers(3, size=n))


def link_several(rng: np.random.Generator, n: int, d: int) -> Rows:
    """One of three columns of x and one of two of y."""
    x, y, z = several(rng, n, d)
    e = rng.standard_normal(n)
    x[:, rng.integers(3)] += NOISE * e
    y[:, rng.integers(2)] += NOISE * e
    return x, y, z


def _correlated(rng: np.random.Generator, n: int, d: int, r: float) -> np.ndarray:
    return np.sqrt(1 - r) * rng.standard_normal((n, d)) + np.sqrt(r) * rng.standard_normal((n, 1))


def _beside(z: np.ndarray, group: np.ndarray) -> pl.DataFrame:
    """The columns of z and a category, as a frame."""
    columns: dict[str, Any] = {f"z{j}": column for j, column in enumerate(z.T)}
    return pl.DataFrame(columns | {"group": np.array(list("abcd"))[group].tolist()})


NULLS: dict[str, Design] = {
    "linear": linear,
    "smooth": smooth,
    "exponential": exponential,
    "products": products,
    "steps": steps,
    "trees": trees,
    "additive": additive,
    "heteroscedastic": heteroscedastic,
    "heavy tails": heavy_tails,
    "discrete": discrete,
    "categories": categories,
    "little noise": little_noise,
    "several columns": several,
    "correlated z": correlated,
    "skewed z": skewed,
    "periodic": periodic,
    "integers": integers,
    "ties": ties,
    "binary": binary,
}
ALTERNATIVES: dict[str, Design] = {
    "linear": link_linear,
    "linear, correlated z": link_correlated,
    "square": link_square,
    "sign": link_sign,
    "heteroscedastic": link_spread,
    "scale": link_scale,
    "behind an index": link_behind_index,
    "idle category": link_idle_category,
    "several columns": link_several,
}
KINDS = {"nulls": NULLS, "alternatives": ALTERNATIVES}
