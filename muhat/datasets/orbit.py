"""A point that circles the origin, seen through noise: the hidden state of the filters' experiments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muhat._validation import as_generator, check_count

ROTATION, OSCILLATORY = (0.3, 0.0), (0.4, 0.4)
FREQUENCY = 8


class Sequence(NamedTuple):
    """Observations ``X`` (T, d) and hidden states ``Z`` (T, k), moment by moment."""

    X: np.ndarray
    Z: np.ndarray


def orbit_step(z: np.ndarray, oscillatory: bool = False) -> np.ndarray:
    """Where the states z (n, 2) go in one step, without noise, (n, 2)."""
    speed, swing = OSCILLATORY if oscillatory else ROTATION
    angle = np.arctan2(z[..., 1], z[..., 0]) + speed
    radius = 1 + swing * np.sin(FREQUENCY * angle)
    return radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def orbit(
    n: int = 1000, oscillatory: bool = False, noise: tuple[float, float] = (0.2, 0.2), random_state: Any = 0
) -> Sequence:
    """A noisy walk about the unit circle, and noisy observations of it [FSG13; X22, 5.2].

    ``z' = (1 + β sin 8θ') (cos θ', sin θ') + noise`` with ``θ' = θ + ω``, and ``x = z + noise``: ω = 0.3 and
    β = 0 ("rotation"), or ω = 0.4 and β = 0.4 ("oscillatory"). Starts at (1, 0).

    Args:
        n: steps.
        oscillatory: which of the two.
        noise: standard deviations of the state's and the observation's noise.
        random_state: seed or generator.
    """
    rng = as_generator(random_state)
    n = check_count(n, "n")
    Z, z = np.empty((n, 2)), np.array([1.0, 0.0])
    for t in range(n):
        z = orbit_step(z, oscillatory) + noise[0] * rng.standard_normal(2)
        Z[t] = z
    return Sequence(Z + noise[1] * rng.standard_normal((n, 2)), Z)
