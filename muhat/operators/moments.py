"""Regression in features from sums over rows [HR19, Def. 3.3 in the primal].

``(ΦᵀΦ + nλI)⁻¹ ΦᵀF``: the sums are all that a regression needs of the rows, so that these may be anywhere
and more may come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat._array import Array
from muhat._linalg import Cholesky, cholesky


@dataclass(frozen=True)
class Moments:
    """Sums over rows.

    Attributes:
        gram: ``ΦᵀΦ``, (p, p).
        cross: ``ΦᵀF``, (p, q).
        features: ``Φᵀ1``, (p,).
        values: ``Fᵀ1``, (q,).
        count: n.
    """

    gram: Array
    cross: Array
    features: Array
    values: Array
    count: int

    @classmethod
    def of(cls, Phi: Array, F: Array) -> Moments:
        return cls(Phi.T @ Phi, Phi.T @ F, Phi.sum(axis=0), F.sum(axis=0), len(Phi))

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.gram + other.gram,
            self.cross + other.cross,
            self.features + other.features,
            self.values + other.values,
            self.count + other.count,
        )

    def factor(self, reg: float) -> Cholesky:
        """Of ``ΦᵀΦ + nλI``."""
        A = np.array(self.gram)
        A[np.diag_indices(len(A))] += self.count * reg
        return cholesky(A, "ΦᵀΦ + nλI", "Raise the regulariser or use fewer features.", overwrite=True)

    def regression(self, reg: float, center: bool) -> tuple[Array, Array]:
        """Coefficients (p, q) and offset (q,) of the regression of the F, centred or as they are."""
        offset = self.values / self.count if center else np.zeros_like(self.values)
        # Φᵀ(F − 1 offsetᵀ)
        return self.factor(reg).solve(self.cross - np.outer(self.features, offset)), offset
