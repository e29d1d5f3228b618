"""Weights of the pairs that give z the prior's low moments, whatever the density ratio left out.

A regularised ratio lies between the prior and the pairs, so that the weighted z are spread wider than the
prior, or have other shares of its categories. The tilt ``γᵢ exp(λᵀ(h(zᵢ) − τ))`` that is nearest to γ in
relative entropy has the prior's means τ of the functions h: numbers, their squares and products, and
indicators of values that are few. For a Gaussian among Gaussians, and on few values, it is the exact ratio.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat._array import Array
from muhat.embedding.simplex import project_simplex

FEW = 12  # values of a column of numbers that are taken one by one, at most
MOST = 50  # categories that are: the most frequent
CROSSED = 5  # columns of numbers whose products are taken, at most
LEAST_UNIT = 0.01  # a column's unit, at least, in standard deviations of the pairs
RIDGE = 1e-4  # ρ, of λ
LEAST_SIZE = 20.0  # effective points that are enough, unless the ratio itself leaves fewer
LARGEST = 300.0  # logarithm of a factor
HALVINGS = 30  # to find how much of λ leaves these
STEPS, TOLERANCE = 200, 1e-16  # of Newton's method


@dataclass(frozen=True)
class Balance:
    """Functions of z and their means under a prior.

    Attributes:
        values: of each column that is taken value by value, its index and these values.
        numbers: the other columns.
        centre, unit: their mean and standard deviation under the prior, (k,).
        means: of the functions under the prior, (q,).
    """

    values: tuple[tuple[int, np.ndarray], ...]
    numbers: np.ndarray
    centre: np.ndarray
    unit: np.ndarray
    means: np.ndarray

    @classmethod
    def of(cls, Z: Array, points: Array, weights: Array, categories: set[int] | None = None) -> Balance:
        """Of pairs with ``Z`` (n, d) and a prior on ``points`` (m, d) with ``weights`` (m,).

        Args:
            Z: the pairs' z.
            points: of the prior.
            weights: of these points; brought to the simplex where some are negative.
            categories: columns that hold codes.
        """
        Z, points = np.asarray(Z, dtype=np.float64), np.asarray(points, dtype=np.float64)
        weights = np.asarray(weights, dtype=np.float64) / np.sum(weights)
        if weights.min() < 0:
            weights = project_simplex(weights)
        values, numbers = [], []
        for j, column in enumerate(Z.T):
            seen, counts = np.unique(column, return_counts=True)
            if j in (categories or ()) or len(seen) <= FEW:
                values.append((j, seen[np.argsort(-counts, kind="stable")][:MOST]))
            else:
                numbers.append(j)
        columns = np.array(numbers, dtype=int)
        centre = weights @ points[:, columns]
        unit = np.sqrt(weights @ (points[:, columns] - centre) ** 2)
        unit = np.maximum(unit, LEAST_UNIT * Z[:, columns].std(axis=0))
        without = cls(tuple(values), columns, centre, unit, np.empty(0))
        means = weights @ without(points)
        return cls(without.values, columns, centre, unit, means)

    def __call__(self, Z: Array) -> np.ndarray:
        """The functions at rows of z, (n, q)."""
        Z = np.asarray(Z, dtype=np.float64)
        U = (Z[:, self.numbers] - self.centre) / self.unit
        parts = [(Z[:, [j]] == seen).astype(float) for j, seen in self.values]
        k = U.shape[1]
        first, second = np.triu_indices(k) if k <= CROSSED else (np.arange(k), np.arange(k))
        return np.concatenate([*parts, U, U[:, first] * U[:, second]], axis=1)


@dataclass(frozen=True)
class Tilt:
    """``exp(λᵀ(h − τ))``, times a constant that keeps the sum of the weights it was found for.

    Attributes:
        slope: λ, (q,).
        means: τ, (q,).
        log_scale: the logarithm of the constant.
    """

    slope: np.ndarray
    means: np.ndarray
    log_scale: float

    @classmethod
    def of(cls, weights: Array, H: Array, means: Array) -> Tilt:
        """For weights γ (n,), not negative, of points with functions ``H`` (n, q).

        ``λ = argmin log Σ γᵢ exp(λᵀ(hᵢ − τ)) + ρ‖λ‖²/2``, a convex problem. Where that would leave too few
        points, as for a prior that lies beside the pairs, only a part of λ is taken.
        """
        kept = np.flatnonzero(weights > 0)
        D, log = np.asarray(H)[kept] - means, np.log(np.asarray(weights, dtype=np.float64)[kept])
        least = min(LEAST_SIZE, _size(_shares(log)))
        slope = _newton(D, log, RIDGE)
        along = D @ slope
        if _size(_shares(log + along)) < least:
            low, high = 0.0, float(np.log(np.ptp(along)))  # of −log t, for the part t of λ
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                enough = _size(_shares(log + np.exp(-middle) * along)) >= least
                low, high = (low, middle) if enough else (middle, high)
            slope = np.exp(-high) * slope
        total = log + D @ slope
        return cls(slope, np.asarray(means), float(_log_sum(log) - _log_sum(total)))

    def __call__(self, H: Array) -> np.ndarray:
        """The factor at points with functions ``H`` (n, q), (n,)."""
        return np.exp(np.minimum((np.asarray(H) - self.means) @ self.slope + self.log_scale, LARGEST))


def _newton(D: np.ndarray, log: np.ndarray, ridge: float) -> np.ndarray:
    """λ of the tilt, by damped Newton steps."""

    def loss(slope: np.ndarray) -> float:
        return float(_log_sum(log + D @ slope) + 0.5 * ridge * slope @ slope)

    slope, value = np.zeros(D.shape[1]), float(_log_sum(log))
    for _ in range(STEPS):
        w = _shares(log + D @ slope)
        mean = w @ D
        gradient = mean + ridge * slope
        C = (D - mean).T @ (w[:, None] * (D - mean))
        C[np.diag_indices(len(C))] += ridge
        step = np.linalg.solve(C, gradient)
        gain, length = float(gradient @ step), 1.0
        if gain < TOLERANCE:
            break
        while (new := loss(slope - length * step)) > value - 0.25 * length * gain and length > 1e-6:
            length /= 2
        slope, value = slope - length * step, new
    return slope


def _log_sum(log: np.ndarray) -> float:
    top = log.max()
    return float(top + np.log(np.exp(log - top).sum()))


def _shares(log: np.ndarray) -> np.ndarray:
    w = np.exp(log - log.max())
    return w / w.sum()


def _size(w: np.ndarray) -> float:
    return float(1 / (w**2).sum())
