"""A noisy ring in space: one coordinate gives a density of the other two with two modes or one."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._validation import as_generator, check_choice, check_count, check_positive
from muhat.datasets.base import Pairs

TILT, SD, MEANS = 0.3, 0.2, 50


def _ring(tilt: float, means: int, about: str) -> np.ndarray:
    """Equidistant points of the unit circle in the plane of x and y, turned about one of these axes."""
    check_choice(about, "about", ("x", "y"))
    angle = 2 * np.pi * np.arange(check_count(means, "means")) / means
    x, y = np.cos(angle), np.sin(angle)
    if about == "x":
        return np.stack([x, y * np.cos(tilt), y * np.sin(tilt)], axis=1)
    return np.stack([x * np.cos(tilt), y, x * np.sin(tilt)], axis=1)


def donut(
    tilt: float = TILT,
    sd: float = SD,
    means: int = MEANS,
    each: int = 50,
    random_state: Any = 0,
    about: str = "y",
) -> Pairs:
    """A Gaussian donut [S20, Section 6.1]: inputs (n, 1) and outputs (n, 2), n = means · each.

    An equal mixture of round Gaussians whose means stand on a tilted circle: the first coordinate is the
    input. Rows come in the order of the circle.

    Args:
        tilt: of the circle, in radians.
        sd: standard deviation of each Gaussian.
        means: their number.
        each: rows a Gaussian.
        random_state: seed or generator.
        about: the axis that the circle is turned about: ``"y"``, as the paper has it, so that the input says
            something of each output; or ``"x"``, as its authors' code has it, which turns the outputs alone.
    """
    check_positive(sd, "sd", "give a standard deviation, e.g. 0.2", scalar=True)
    centres = np.repeat(_ring(tilt, means, about), check_count(each, "each"), axis=0)
    rows = centres + sd * as_generator(random_state).standard_normal(centres.shape)
    return Pairs(rows[:, :1], rows[:, 1:])


def donut_pdf(
    x: Any,
    y: Any,
    tilt: float = TILT,
    sd: float = SD,
    means: int = MEANS,
    about: str = "y",
    joint: bool = False,
) -> np.ndarray:
    """The density of the outputs of :func:`donut` given its input, (len(x), len(y)).

    Args:
        x: inputs, (q,) or (q, 1).
        y: outputs, (m, 2).
        tilt: of the circle, in radians.
        sd: standard deviation of each Gaussian.
        means: their number.
        about: the axis that the circle is turned about.
        joint: the density of all three coordinates instead.
    """
    x, y = np.asarray(x, dtype=float).reshape(-1), np.asarray(y, dtype=float).reshape(-1, 2)
    centres = _ring(tilt, means, about)
    exponent = -((x[:, None] - centres[:, 0]) ** 2) / (2 * sd**2)
    if not joint:
        exponent -= exponent.max(axis=1, keepdims=True)  # far from the ring all of them underflow
    weights = np.exp(exponent)
    scale = means * np.sqrt(2 * np.pi) * sd if joint else weights.sum(axis=1, keepdims=True)
    squares = ((y[:, None] - centres[:, 1:]) ** 2).sum(axis=-1)
    return (weights / scale) @ np.exp(-squares / (2 * sd**2)).T / (2 * np.pi * sd**2)
