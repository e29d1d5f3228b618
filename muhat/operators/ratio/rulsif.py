"""uLSIF and RuLSIF: the ratio as a sum of kernels at points of the numerator [KHS09; YSKHS11].

``r = t + Σⱼ θⱼ k(cⱼ, ·)`` with the plain norm of θ. The relative ratio ``num / (α num + (1 − α) den)`` is
bounded by 1/α, and steadier where the denominator is thin; α = 0 is uLSIF.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from muhat._array import Array
from muhat.gram.features import FeatureKernel
from muhat.kernels.base import Kernel

NAME = "rulsif"
CENTRES = 200


class CentreKernel(FeatureKernel):
    """Features ``φ(z) = (k(c₁, z), …)`` for centres c (p, d)."""

    _parameters: ClassVar[tuple[str, ...]] = ("kernel", "centres")

    def __init__(self, kernel: Kernel, centres: Array) -> None:
        self.kernel, self.centres = kernel, centres

    @property
    def size(self) -> int:
        return len(self.centres)

    def features(self, X: Array) -> Array:
        return self.kernel(X, self.centres)


def basis(kernel: Kernel, numerator: Array, denominator: Array, rng: np.random.Generator) -> FeatureKernel:
    """Kernels at up to 200 points of the numerator."""
    if len(numerator) > CENTRES:
        numerator = numerator[rng.choice(len(numerator), CENTRES, replace=False)]
    return CentreKernel(kernel, numerator)
