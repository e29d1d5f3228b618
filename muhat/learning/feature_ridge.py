"""Ridge regressions of many outputs on one set of features, each output with a regulariser of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Regularisers that leave-one-out chooses from, relative to the mean squared length of the features.
REGULARISERS = np.geomspace(1e-6, 10.0, 12)
NOTHING = 1e-9  # components below this share of the largest are rounding


@dataclass(frozen=True)
class Fit:
    """Regressions ``f(x) = (φ(x) − centre)ᵀ coefficients + offset``.

    Attributes:
        centre: of the features, (p,).
        coefficients: (p, k).
        offset: (k,).
    """

    centre: np.ndarray
    coefficients: np.ndarray
    offset: np.ndarray

    def __call__(self, Phi: np.ndarray) -> np.ndarray:
        return (Phi - self.centre) @ self.coefficients + self.offset


class FeatureRidge:
    """``B = (ΦᵀΦ + nλI)⁻¹ Φᵀ F``, factored once for all outputs and all λ.

    Args:
        Phi: features, (n, p).
    """

    def __init__(self, Phi: np.ndarray) -> None:
        self.centre = Phi.mean(axis=0)
        A = Phi - self.centre
        values, vectors = np.linalg.eigh(A.T @ A)
        kept = values > NOTHING * max(float(values[-1]), 1e-300) if len(values) else np.zeros(0, dtype=bool)
        self.lengths = values[kept]
        self.back = vectors[:, kept] / np.sqrt(self.lengths)
        self.U = A @ self.back
        self.unit = float(self.lengths.sum())

    def fit(self, F: np.ndarray, undersmooth: float = 1.0) -> Fit:
        """The regressions of ``F`` (n, k), λ with the least leave-one-out error, then made smaller.

        Args:
            F: outputs.
            undersmooth: what λ is divided by: less bias for more variance.
        """
        n, offset = len(F), F.mean(axis=0)
        F = F - offset
        projected, squares = self.U.T @ F, self.U**2
        least, best = np.full(F.shape[1], np.inf), np.full(F.shape[1], REGULARISERS[-1])
        for reg in REGULARISERS:
            shrink = self.lengths / (self.lengths + reg * self.unit)
            left = F - self.U @ (shrink[:, None] * projected)
            free = np.maximum(1 - squares @ shrink - 1 / n, 1e-3)  # 1 − leverage, with the intercept
            loss = np.mean((left / free[:, None]) ** 2, axis=0)
            better = loss < least * (1 - NOTHING)
            least[better], best[better] = loss[better], reg
        shrink = self.lengths[:, None] / (self.lengths[:, None] + best / undersmooth * self.unit)
        return Fit(self.centre, self.back @ (shrink * projected), offset)


class GaussianFeatures:
    """Nyström features of a Gaussian kernel.

    Args:
        landmarks: (p, d).
        lengthscale: ℓ.
    """

    def __init__(self, landmarks: np.ndarray, lengthscale: float) -> None:
        self.landmarks, self.lengthscale = landmarks, lengthscale
        values, vectors = np.linalg.eigh(self._kernel(landmarks))
        kept = values > 1e-7 * values[-1]
        self.root = vectors[:, kept] / np.sqrt(values[kept])

    def _kernel(self, X: np.ndarray) -> np.ndarray:
        L = self.landmarks
        squares = (X**2).sum(axis=1)[:, None] + (L**2).sum(axis=1) - 2 * X @ L.T
        return np.exp(np.maximum(squares, 0.0) * (-0.5 / self.lengthscale**2))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self._kernel(X) @ self.root

    def gradient(self, X: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Of ``φ(x)ᵀ coefficients`` at each row of ``X``, (n, d)."""
        A = self._kernel(X) * (self.root @ coefficients)
        return (A @ self.landmarks - A.sum(axis=1, keepdims=True) * X) / self.lengthscale**2


def median_distance(X: np.ndarray, rows: int = 300) -> float:
    """The median distance of distinct rows, of the first few; 1 if all are equal."""
    from scipy.spatial.distance import pdist

    distances = pdist(X[:rows])
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


__all__ = ["FeatureRidge", "Fit", "GaussianFeatures", "median_distance"]
