"""Where a density ratio can be known: near rows of its denominator."""

from __future__ import annotations

import numpy as np

# Rows of the denominator that are looked at, at most.
ROWS = 5000
# A point is covered that is no lonelier than the loneliest of the denominator, by this factor.
LONELY = 1.2


def covered(points: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Which of the points (m, d) lie near rows of ``Z`` (n, d), (m,).

    The loss of a ratio falls without end where its numerator has points and its denominator has none: there
    leave-one-out would choose the narrowest kernel, for a ratio that is wrong everywhere.
    """
    from scipy.spatial import KDTree

    sd = Z.std(axis=0)
    unit = np.where(sd > 0, sd, 1.0)
    Z = Z / unit
    if len(Z) > ROWS:
        Z = Z[np.random.default_rng(0).choice(len(Z), ROWS, replace=False)]
    tree = KDTree(Z)
    apart = tree.query(Z, k=2)[0][:, 1].max()
    # Repeated rows, e.g. of categories, are no distance apart: what is one of them is covered.
    return tree.query(points / unit)[0] <= LONELY * apart + 1e-9
