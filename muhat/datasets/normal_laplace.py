"""Two distributions that agree in mean and variance, and differ in shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muhat._validation import as_generator, check_count


class TwoSamples(NamedTuple):
    """Two samples, (n, 1) each."""

    x: np.ndarray
    y: np.ndarray


def normal_and_laplace(n: int = 1000, random_state: Any = 0) -> TwoSamples:
    """A sample of N(0, 1) and one of Laplace(0, √½): both have mean 0 and variance 1 [F16, Fig. 3].

    The Laplace distribution has the sharper peak and the heavier tails (kurtosis 6 against 3).

    Args:
        n: rows of each.
        random_state: seed or generator.
    """
    rng, n = as_generator(random_state), check_count(n, "n")
    return TwoSamples(rng.standard_normal((n, 1)), rng.laplace(0.0, np.sqrt(0.5), (n, 1)))
