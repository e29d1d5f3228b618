"""The kernel of categories."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from muhat._array import Array, Namespace, is_traced
from muhat.kernels.base import Kernel
from muhat.kernels.distance import Plan


class Delta(Kernel):
    """k(x, x') = 1 if x = x', else ``rest``.

    Points are equal when all their columns are. With ``rest = 0`` the embedding of a sample is its
    table of frequencies; ``rest`` in (0, 1) lets different categories learn from each other.
    """

    _parameters: ClassVar[tuple[str, ...]] = ("rest",)

    def __init__(self, rest: Any = 0.0) -> None:
        seen = np.zeros(()) if is_traced(rest) else np.asarray(rest)
        if seen.ndim or seen.dtype.kind not in "iuf" or not 0 <= seen < 1:
            raise ValueError(f"rest must be a number in [0, 1), got {rest!r}: 0 keeps categories apart.")
        self.rest = rest

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        def block(rows: slice) -> Array:
            equal = X[rows, 0][:, None] == Y[:, 0]
            for j in range(1, X.shape[1]):
                equal = equal & (X[rows, j][:, None] == Y[:, j])
            return xp.where(equal, 1.0, self.rest)

        return block

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return xp.ones(X.shape[0], dtype=X.dtype)

    @property
    def amplitude(self) -> float:
        return 1.0
