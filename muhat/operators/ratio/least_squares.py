"""Density ratios by least squares in features, with their leave-one-out score in closed form.

``r(z) = t + θᵀφ(z)`` minimises ``½ E_a[r²] − E_num[r] + (reg/2)‖θ‖²``, where a is the denominator, or for the
relative ratio the mixture ``α num + (1 − α) den`` [YSKHS11]. The features decide which estimator it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muhat._array import Array


def spectrum(H: Array, h: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues and eigenvectors of H (p, p), and h (p,) in their basis."""
    values, V = np.linalg.eigh(H)
    return np.maximum(values, 0.0), V, V.T @ h


@dataclass(frozen=True)
class LeastSquares:
    """The problem, decomposed once for all regularisers.

    Attributes:
        numerator: features of the numerator's points, (m, p).
        weights: of these points, (m,).
        denominator: features of the denominator's points, (n, p).
        alpha: share of the numerator in the mixture; 0 for the plain ratio.
        target: t, what the ratio shrinks to: 0, or 1 for "no difference".
        known: points of the numerator that are never left out, (m,): its mass there is stated, not sampled.
    """

    numerator: Array
    weights: Array
    denominator: Array
    alpha: float = 0.0
    target: float = 0.0
    known: Array | None = None

    @cached_property
    def _spectrum(self) -> tuple[Array, Array, Array]:
        """Eigenvalues and eigenvectors of H = E_a[φφᵀ], and ``h − t E_a[φ]`` in their basis."""
        a, n = self.alpha, len(self.denominator)
        H = (1 - a) / n * self.denominator.T @ self.denominator
        base = (1 - a) * self.denominator.mean(axis=0)
        h = self.weights @ self.numerator
        if a:
            H = H + a * self.numerator.T @ (self.weights[:, None] * self.numerator)
            base = base + a * h
        return spectrum(H, h - self.target * base)

    @cached_property
    def _rotated(self) -> tuple[Array, Array]:
        _, V, _ = self._spectrum
        return self.denominator @ V, self.numerator @ V

    def coefficients(self, reg: float) -> Array:
        """θ, (p,)."""
        values, V, h = self._spectrum
        return V @ (h / (values + reg))

    def leave_one_out(self, reg: float) -> tuple[Array, Array]:
        """The ratio at every point of the denominator (n,) and of the numerator (m,), made without it.

        Leaving a point out sets its weight to zero. Sherman–Morrison: with ``B = H + reg`` and the point's
        leverage ``φᵀB⁻¹φ``. (Kanamori's form divides the rest by n − 1: it is this one at ``reg (n−1)/n``,
        times ``(n−1)/n``.)
        """
        values, _, h = self._spectrum
        t, a, n, v = self.target, self.alpha, len(self.denominator), self.weights
        U, P = self._rotated
        f = 1 / (values + reg)
        leverage = U**2 @ f * (1 - a) / n
        den = t + (U @ (f * h) + t * leverage) / np.maximum(1 - leverage, 1e-12)
        leverage = v * (P**2 @ f)
        if self.known is not None:
            leverage = np.where(self.known, 0.0, leverage)
        free = np.maximum(1 - a * leverage, 1e-12)
        return den, t + (P @ (f * h) - (1 - t * a) * leverage) / free

    def score(self, reg: float) -> float:
        """The loss at points that were left out: the smaller the better; −½ if nothing differs."""
        den, num = self.leave_one_out(reg)
        a, v = self.alpha, self.weights
        return float(0.5 * (1 - a) * np.mean(den**2) + 0.5 * a * v @ num**2 - v @ num)
