"""Kernels of moments: the mean product, the squared length, and what makes them free of units."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from muhat._array import Array, Namespace
from muhat.kernels.base import Kernel
from muhat.kernels.distance import Plan


class Standardized(Kernel):
    """k(x, x') = k₁((x − c)/s, (x' − c)/s): the units and the origin of the columns do not matter.

    Args:
        kernel: k₁, with no parameter left to the data.
        centre: c, one number a column; None for the means of the data.
        scale: s, one number a column; None for the standard deviations of the data.
    """

    _parameters: ClassVar[tuple[str, ...]] = ("kernel", "centre", "scale")

    def __init__(self, kernel: Kernel, centre: Any = None, scale: Any = None) -> None:
        self.kernel, self.centre, self.scale = kernel, centre, scale

    def resolve(self, X: Array, names: list[str] | None = None) -> Kernel:
        if self.centre is not None and self.scale is not None:
            return self
        A = np.asarray(X, dtype=np.float64)
        centre = A.mean(axis=0) if self.centre is None else self.centre
        sd = A.std(axis=0)
        sd = np.where(sd > 1e-14 * np.abs(centre), sd, 1.0)  # a constant column stays constant
        return Standardized(self.kernel, centre, sd if self.scale is None else self.scale)

    def _apply(self, X: Array, xp: Namespace) -> Array:
        return (X - xp.asarray(self.centre, dtype=X.dtype)) / xp.asarray(self.scale, dtype=X.dtype)

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        return self.kernel._plan(self._apply(X, xp), self._apply(Y, xp), xp)

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return self.kernel._diag(self._apply(X, xp), xp)

    @property
    def amplitude(self) -> Any:
        return self.kernel.amplitude


class SquaredNorm(Kernel):
    """k(x, x') = ‖x‖² ‖x'‖². Its embeddings are mean squared lengths."""

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        x2, y2 = (X**2).sum(axis=1), (Y**2).sum(axis=1)
        return lambda rows: x2[rows, None] * y2

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return (X**2).sum(axis=1) ** 2


__all__ = ["SquaredNorm", "Standardized"]
