"""Where a density ratio can be known: near rows of its denominator."""

from __future__ import annotations

import numpy as np

from muhat._array import column_sd

# Rows of the denominator that are looked at, at most.
ROWS = 5000
# A point is covered that is no lonelier than the loneliest of the denominator, by this factor.
LONELY = 1.2


class Cover:
    """Which points lie near rows of ``Z`` (n, d).

    The loss of a ratio falls without end where its numerator has points and its denominator has none: there
    leave-one-out would choose the narrowest kernel, for a ratio that is wrong everywhere.
    """

    def __init__(self, Z: np.ndarray) -> None:
        from scipy.spatial import KDTree

        sd = column_sd(Z)
        self.unit = np.where(sd > 0, sd, 1.0)
        Z = Z / self.unit
        if len(Z) > ROWS:
            Z = Z[np.random.default_rng(0).choice(len(Z), ROWS, replace=False)]
        self.tree = KDTree(Z)
        # Repeated rows, e.g. of categories, are no distance apart: what is one of them is covered.
        self.reach = LONELY * self.tree.query(Z, k=2)[0][:, 1].max() + 1e-9

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """For each of the points (m, d), (m,)."""
        return self.tree.query(points / self.unit)[0] <= self.reach


def covered(points: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Which of the points (m, d) lie near rows of ``Z`` (n, d), (m,)."""
    return Cover(Z)(points)
