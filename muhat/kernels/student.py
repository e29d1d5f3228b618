"""The Student-type kernel, for distances that need not be those of points."""

from __future__ import annotations

from math import exp
from typing import Any, ClassVar

import numpy as np

from muhat._array import Array, Namespace, root
from muhat.kernels.stationary import Stationary


class Student(Stationary):
    """k(x, x') = 1/(1 + r^θ), r = ‖(x − x')/ℓ‖, with 0 < θ ≤ 2 [G15]; θ = 2 is ``Cauchy``."""

    _choices: ClassVar[tuple[str, ...]] = ("power",)

    def __init__(self, lengthscale: Any = "median", power: float = 1.0) -> None:
        super().__init__(lengthscale)
        seen = np.asarray(power)
        if seen.ndim or seen.dtype.kind not in "iuf" or not 0 < seen <= 2:
            raise ValueError(
                f"power must be a number above 0 and at most 2, got {power!r}: beyond 2 the kernel is not "
                "positive definite."
            )
        self.power = float(power)

    def _of(self, s: Array, xp: Namespace) -> Array:
        if self.power == 2.0:
            return 1 / (1 + s)
        positive = s > 0  # the slope at 0 is infinite for small powers: taken as 0
        r = root(xp.where(positive, s, 1.0), xp)
        return 1 / (1 + xp.where(positive, r**self.power, 0.0))

    def _median_factor(self) -> float:
        return (exp(0.5) - 1) ** (-1 / self.power)


__all__ = ["Student"]
