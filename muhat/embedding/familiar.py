"""What answers say of their observations: how far these lie from anything seen."""

from __future__ import annotations

import numpy as np

from muhat._array import Array

# What is less familiar than this is unlike anything seen.
UNLIKE = 0.1


class Familiar:
    """Distributions given observations, which know how familiar these are.

    Attributes:
        familiarity: of each observation, (q,), a number for a single distribution: 1 among the training rows
            (or where rows are as far from each other), 0 where all of these are several standard deviations
            away, in one column or in all, or where a category was never seen; NaN where it is missing. None
            of what is given no observation.
    """

    familiarity: Array | None

    @property
    def unlike(self) -> np.ndarray:
        """Which observations lie far from anything seen in training, (k,): answers there are guesses."""
        if self.familiarity is None:
            return np.empty(0, dtype=int)
        return np.flatnonzero(np.asarray(self.familiarity) < UNLIKE)


__all__ = ["UNLIKE", "Familiar"]
