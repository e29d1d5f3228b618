"""Kernels given by finitely many features, k̂(x, x') = φ(x)ᵀφ(x')."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from muhat._array import Array, Namespace
from muhat.kernels.base import Kernel
from muhat.kernels.distance import Plan


class FeatureKernel(Kernel):
    """k̂(x, x') = φ(x)ᵀφ(x'). A subclass writes ``features`` and ``size``."""

    @property
    def size(self) -> int:
        """p, the number of features."""
        raise TypeError("write size")

    def features(self, X: Array) -> Array:
        """φ(x) for every row, (n, p)."""
        raise TypeError("write features")

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        left, right = self.features(X), self.features(Y).T
        return lambda rows: left[rows] @ right

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return (self.features(X) ** 2).sum(axis=1)


class MapKernel(FeatureKernel):
    """k̂(x, x') = φ(x)ᵀφ(x') for a given function φ from rows (n, d) to features (n, p)."""

    _choices: ClassVar[tuple[str, ...]] = ("function", "count")

    def __init__(self, function: Callable[[Array], Array], count: int) -> None:
        self.function, self.count = function, count

    @property
    def size(self) -> int:
        return self.count

    def features(self, X: Array) -> Array:
        Phi: Any = self.function(X)
        if getattr(Phi, "ndim", 0) != 2 or Phi.shape[0] != X.shape[0]:
            raise ValueError(
                f"The feature map must give one row of features a point: for {X.shape[0]} points it "
                f"gave shape {getattr(Phi, 'shape', type(Phi).__name__)}."
            )
        return Phi
