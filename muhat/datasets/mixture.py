"""A mixture of three Gaussians of unequal width, whose density is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._validation import as_generator, as_rows, check_choice, check_count

WEIGHTS = np.array([0.4, 0.35, 0.25])
SDS = np.array([0.8, 0.3, 0.6])
MEANS = {
    1: np.array([[-2.0], [0.5], [2.5]]),
    2: np.array([[-2.0, -0.5], [0.5, 1.5], [2.0, -1.5]]),
}


def gaussian_mixture(n: int = 500, d: int = 1, random_state: Any = 0) -> np.ndarray:
    """A sample of ``Σ wₖ N(mₖ, sₖ² I)`` in one or two dimensions, (n, d).

    Weights 0.4, 0.35, 0.25 and standard deviations 0.8, 0.3, 0.6; the means are −2, 0.5, 2.5, or
    (−2, −0.5), (0.5, 1.5), (2, −1.5). The mean of the whole is 0, or (−0.125, −0.05).

    Args:
        n: rows.
        d: 1 or 2.
        random_state: seed or generator.
    """
    check_choice(d, "d", (1, 2))
    rng = as_generator(random_state)
    part = rng.choice(3, check_count(n, "n"), p=WEIGHTS)
    return MEANS[d][part] + SDS[part, None] * rng.standard_normal((n, d))


def gaussian_mixture_pdf(x: Any) -> np.ndarray:
    """The density of :func:`gaussian_mixture` at the rows of ``x`` (m, d), (m,)."""
    x = np.asarray(as_rows(x, "x"))
    d = x.shape[1]
    check_choice(d, "the number of columns of x", (1, 2))
    squared = ((x[:, None, :] - MEANS[d]) ** 2).sum(axis=2)
    return (WEIGHTS * np.exp(-squared / (2 * SDS**2)) / (2 * np.pi * SDS**2) ** (d / 2)).sum(axis=1)
