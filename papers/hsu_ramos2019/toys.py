"""The functions and data of [HR19, 8.1 and 8.2]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import muhat as mh

NOISE = 0.25
F_POINTS, F_VALUES = np.array([-4.0, -3.0, -1.0, 0.0, 2.0]), np.array([-2.0, 0.0, 1.0, 2.0, -1.0])
R_POINTS, R_VALUES = np.array([-5.0, -3.0, -1.0, 1.0, 4.0]), np.array([-4.0, -2.0, -6.0, 4.0, 6.0])


def interpolate(x: np.ndarray, points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean of a noiseless Gaussian process of lengthscale 1 through points, at ``x`` (q,)."""
    kernel = mh.Gaussian(1.0)
    return kernel(x[:, None], points[:, None]) @ np.linalg.solve(kernel(points[:, None]), values)


def f(x: np.ndarray) -> np.ndarray:
    """The latent function."""
    return interpolate(x, F_POINTS, F_VALUES)


def r(y: np.ndarray) -> np.ndarray:
    """The mean of x given y."""
    return interpolate(y, R_POINTS, R_VALUES)


class Task(NamedTuple):
    """Pairs (x, y), and z seen at other y."""

    x: np.ndarray
    y: np.ndarray
    y_task: np.ndarray
    z_task: np.ndarray


def draw_task(seed: int, n: int = 100, m: int = 150) -> Task:
    """``X = r(Y) + η``, ``Z = f(r(Ỹ) + η̃) + ξ``, y uniform on (−6, 6), all noises 0.25 [HR19, 8.1]."""
    rng = np.random.default_rng(seed)
    y, y_task = rng.uniform(-6, 6, n), rng.uniform(-6, 6, m)
    x = r(y) + NOISE * rng.normal(size=n)
    hidden = r(y_task) + NOISE * rng.normal(size=m)
    return Task(x, y, y_task, f(hidden) + NOISE * rng.normal(size=m))


def draw_direct(seed: int, n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """``z = f(y) + ξ``, y uniform on (−5, 5) [HR19, 8.2]."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-5, 5, n)
    return y, f(y) + NOISE * rng.normal(size=n)
