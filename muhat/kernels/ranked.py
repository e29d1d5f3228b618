"""Kernels of ranks: what heavy tails, units and monotone transformations of columns leave alone."""

from __future__ import annotations

from math import pi
from typing import Any, ClassVar

import numpy as np

from muhat._array import Array, Namespace
from muhat._validation import check_count, check_positive
from muhat.kernels.base import Kernel
from muhat.kernels.distance import Plan

# Beyond this many rows, as many evenly spaced order statistics stand for a column.
KNOTS = 2048


class Ranked(Kernel):
    """k(x, x') = k₁(F(x), F(x')), F the distribution functions of the columns.

    Fⱼ(t) is the share of knots below t plus half the share of those equal to t, so that ties share a rank.

    Args:
        kernel: k₁ on (0, 1)ᵈ, with no parameter left to the data.
        knots: sorted values of each column, (q, d); None for those of the data.
    """

    _parameters: ClassVar[tuple[str, ...]] = ("kernel", "knots")

    def __init__(self, kernel: Kernel, knots: Any = None) -> None:
        self.kernel, self.knots = kernel, knots

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kernel!r})"

    def resolve(self, X: Array, names: list[str] | None = None) -> Kernel:
        return self if self.knots is not None else Ranked(self.kernel, column_knots(np.asarray(X)))

    def ranks(self, X: Array, xp: Namespace) -> Array:
        """F(x) of rows (n, d), in the precision of ``X``."""
        q = len(self.knots)
        columns = []
        for j in range(X.shape[1]):
            knots = xp.asarray(self.knots[:, j])
            below, up_to = (xp.searchsorted(knots, X[:, j], side=side) for side in ("left", "right"))
            columns.append((below + up_to).astype(X.dtype) / (2 * q))
        return xp.stack(columns, axis=1)

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        return self.kernel._plan(self.ranks(X, xp), self.ranks(Y, xp), xp)

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return self.kernel._diag(self.ranks(X, xp), xp)

    @property
    def amplitude(self) -> Any:
        return self.kernel.amplitude


class Cosines(Kernel):
    """k(x, x') = Σⱼ Σₖ cos(πkxⱼ) cos(πkx'ⱼ) / (1 + (πkℓ)²), k = 1, …, K: a sum over columns on (0, 1).

    Its embeddings are cosine moments of each column, as in Neyman's smooth test [N37].

    Args:
        lengthscale: ℓ, below which detail counts for less.
        terms: K.
    """

    _parameters: ClassVar[tuple[str, ...]] = ("lengthscale",)
    _choices: ClassVar[tuple[str, ...]] = ("terms",)

    def __init__(self, lengthscale: Any = 0.1, terms: int = 8) -> None:
        check_positive(lengthscale, "lengthscale", "give a share of the unit interval")
        self.lengthscale, self.terms = lengthscale, check_count(terms, "terms", 1)

    def features(self, X: Array, xp: Namespace) -> Array:
        """φ with k = φᵀφ, (n, d·K)."""
        k = pi * np.arange(1, self.terms + 1)
        weights = xp.asarray(1 / (1 + (k * self.lengthscale) ** 2), dtype=X.dtype)
        waves = xp.cos(X[:, :, None] * xp.asarray(k, dtype=X.dtype)) * xp.sqrt(weights)
        return waves.reshape(len(X), -1)

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        A, B = self.features(X, xp), self.features(Y, xp)
        return lambda rows: A[rows] @ B.T

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return (self.features(X, xp) ** 2).sum(axis=1)


def column_knots(A: np.ndarray) -> np.ndarray:
    """Sorted values of the columns of ``A`` (n, d), at most ``KNOTS`` of each."""
    ordered = np.sort(A.astype(np.float64), axis=0)
    if len(ordered) <= KNOTS:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, KNOTS).round().astype(int)]


__all__ = ["Cosines", "Ranked", "column_knots"]
