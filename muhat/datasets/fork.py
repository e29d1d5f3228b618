"""A regression whose mean says little: two branches, and noise that grows."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._validation import as_generator, check_count
from muhat.datasets.base import Pairs

UPPER = 0.6  # probability of the upper branch


def _centre(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.sin(1.5 * x)


def _gap(x: np.ndarray) -> np.ndarray:
    return 1.1 * np.maximum(x - 1.2, 0.0)


def _sd(x: np.ndarray) -> np.ndarray:
    return 0.15 + 0.12 * x


def fork(n: int = 1000, random_state: Any = 0, x: Any = None) -> Pairs:
    """Pairs with one branch up to x = 1.2 and two beyond.

    ``y = ½ sin(1.5x) ± 1.1 max(x − 1.2, 0) + (0.15 + 0.12x) ε`` with ε ~ N(0, 1), the sign + with
    probability 0.6, and x uniform on [0, 4] unless given.

    Args:
        n: rows; not used when ``x`` is given.
        random_state: seed or generator.
        x: the inputs, (n,) or (n, 1).
    """
    rng = as_generator(random_state)
    at = rng.uniform(0.0, 4.0, check_count(n, "n")) if x is None else _flat(x)
    sign = np.where(rng.random(len(at)) < UPPER, 1.0, -1.0)
    y = _centre(at) + sign * _gap(at) + _sd(at) * rng.standard_normal(len(at))
    return Pairs(at[:, None], y)


def fork_mean(x: Any) -> np.ndarray:
    """``E[y | x]`` of :func:`fork`, (q,)."""
    x = _flat(x)
    return _centre(x) + (2 * UPPER - 1) * _gap(x)


def fork_pdf(x: Any, y: Any) -> np.ndarray:
    """The density of y given x of :func:`fork`, (len(x), len(y))."""
    return _branches(x, y, lambda z, sd: np.exp(-(z**2) / 2) / (np.sqrt(2 * np.pi) * sd))


def fork_quantile(x: Any, q: Any) -> np.ndarray:
    """Quantiles of y given x of :func:`fork`, (len(x), len(q)), to four digits."""
    from scipy.special import ndtr

    grid = np.linspace(-6.0, 6.0, 24_001)
    out = [np.interp(q, _branches([at], grid, lambda z, sd: ndtr(z))[0], grid) for at in _flat(x)]
    return np.array(out).reshape(len(out), -1)


def _branches(x: Any, y: Any, function: Any) -> np.ndarray:
    """A function of the standardised y, averaged over the two branches, (len(x), len(y))."""
    x, y = _flat(x)[:, None], _flat(y)[None, :]
    sd = _sd(x)
    upper = function((y - _centre(x) - _gap(x)) / sd, sd)
    lower = function((y - _centre(x) + _gap(x)) / sd, sd)
    return UPPER * upper + (1 - UPPER) * lower


def _flat(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=float).reshape(-1)
