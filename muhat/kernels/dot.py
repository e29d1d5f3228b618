"""Kernels of the inner product."""

from __future__ import annotations

from math import comb, pi, prod
from typing import Any, ClassVar

from muhat._array import Array, Namespace
from muhat._validation import check_count, check_positive
from muhat.kernels.base import Kernel
from muhat.kernels.distance import Plan
from muhat.kernels.stationary import _gaussian_arguments


def _check_bias(bias: Any) -> Any:
    if isinstance(bias, (int, float)) and bias == 0:
        return 0.0
    check_positive(bias, "bias", "give a number of at least 0")
    return bias


class Linear(Kernel):
    """k(x, x') = xᵀx' + b. Its embeddings are means; its distance is that between means."""

    _parameters: ClassVar[tuple[str, ...]] = ("bias",)

    def __init__(self, bias: Any = 0.0) -> None:
        self.bias = _check_bias(bias)

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        return lambda rows: X[rows] @ Y.T + self.bias

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return (X**2).sum(axis=1) + self.bias

    def smoothed(self, d: int, sd: float | None = None) -> Kernel:
        if sd is None:
            raise self._no("smoothing by itself under Lebesgue measure", "the integral is infinite; give sd")
        if self.bias != 0:
            raise self._no("smoothing by itself with a bias", "use Linear(bias=0)")
        check_positive(sd, "sd", "give the standard deviation of ν")
        # ∫ xᵀu uᵀy ν(du) = (2π sd²)^{d/2} sd² xᵀy
        return ((2 * pi * sd**2) ** (d / 2) * sd**2) * Linear()

    def gaussian_embedding(self, X: Array, mean: Array, cov: Array) -> Array:
        mean, _, _ = _gaussian_arguments(X, mean, cov, self)
        return X @ mean + self.bias


class Polynomial(Kernel):
    """k(x, x') = (xᵀx' + b)^p."""

    _parameters: ClassVar[tuple[str, ...]] = ("bias",)
    _choices: ClassVar[tuple[str, ...]] = ("degree",)

    def __init__(self, degree: int = 2, bias: Any = 1.0) -> None:
        self.degree = check_count(degree, "degree")
        self.bias = _check_bias(bias)

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        return lambda rows: (X[rows] @ Y.T + self.bias) ** self.degree

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return ((X**2).sum(axis=1) + self.bias) ** self.degree

    def gaussian_embedding(self, X: Array, mean: Array, cov: Array) -> Array:
        # xᵀZ + b is Gaussian: E(a + √v N)^p = Σ_k C(p, 2k) a^{p−2k} v^k (2k−1)!!
        mean, cov, _ = _gaussian_arguments(X, mean, cov, self)
        a = X @ mean + self.bias
        v = ((X @ cov) * X).sum(axis=1)
        p = self.degree
        return sum(
            comb(p, 2 * k) * a ** (p - 2 * k) * v**k * prod(range(2 * k - 1, 0, -2))
            for k in range(p // 2 + 1)
        )


__all__ = ["Linear", "Polynomial"]
