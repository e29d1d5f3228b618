"""A grid of Gaussians, round or elongated: a difference at a small scale inside a large one."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._validation import as_generator, check_count, check_positive


def gaussian_grid(
    n_per: int = 100,
    ratio: float = 1.0,
    spacing: float = 10.0,
    angle: float = np.pi / 4,
    stratified: bool = True,
    random_state: Any = 0,
) -> np.ndarray:
    """A sample of nine Gaussians on a 3 × 3 grid around 0, (9 n_per, 2) [F16, Section 5].

    Each has covariance with eigenvalues ``ratio`` and 1, the axis of the first turned by ``angle``. A
    ratio of 1 makes them round; two grids of different ratio agree in all but the shape of the bumps,
    whose scale is a tenth of the distance between them.

    Args:
        n_per: rows a component.
        ratio: ε, the largest over the smallest eigenvalue of each covariance.
        spacing: distance between neighbouring centres.
        angle: of the long axis, in radians.
        stratified: exactly ``n_per`` rows a component, in order; else components are drawn.
        random_state: seed or generator.
    """
    n = 9 * check_count(n_per, "n_per")
    check_positive(ratio, "ratio", "give the ratio of eigenvalues, e.g. 2.0", scalar=True)
    check_positive(spacing, "spacing", "give the distance of centres, e.g. 10.0", scalar=True)
    rng = as_generator(random_state)
    part = np.repeat(np.arange(9), n_per) if stratified else rng.integers(9, size=n)
    centres = spacing * np.stack([part // 3 - 1, part % 3 - 1], axis=1)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return centres + (rng.standard_normal((n, 2)) * np.sqrt([ratio, 1.0])) @ turn.T
