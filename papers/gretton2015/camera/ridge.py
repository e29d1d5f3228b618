"""Kernel ridge regression with a Gaussian kernel, chosen on blocks of consecutive frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import muhat as mh
from muhat.kernels.median import median_distance

SCALES = (0.35, 0.5, 0.7, 1.0)  # of the median distance
REGS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5)
BLOCKS = 3


@dataclass(frozen=True)
class Ridge:
    """``E[Y | x] = k(x, X) (K + nλI)⁻¹ (Y − ȳ) + ȳ``.

    Args:
        mean: the regression, fitted on centred outputs.
        centre: ȳ, (k,).
        lengthscale: ℓ of the Gaussian kernel.
        reg: λ.
        residuals: of the frames left out with their block, (n, k).
    """

    mean: mh.ConditionalMean
    centre: np.ndarray
    lengthscale: float
    reg: float
    residuals: np.ndarray

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.mean.predict(x) + self.centre


def blocks(n: int, number: int = BLOCKS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to learn from and rows to score, block by block.

    A frame resembles the ones just before and after it: leaving out single frames would choose a
    kernel that only has to interpolate between neighbours in time.
    """
    parts = np.array_split(np.arange(n), number)
    return [(np.setdiff1d(np.arange(n), part), part) for part in parts]


def fit_ridge(X: np.ndarray, Y: np.ndarray) -> Ridge:
    """The lengthscale and λ of the least squared error over blocks, then fitted on all rows."""
    centre, median = Y.mean(axis=0), float(median_distance(X))
    outputs = Y - centre
    folds = blocks(len(X))
    best: tuple[float, float, float] | None = None
    residuals = np.zeros_like(Y)
    for scale in SCALES:
        K = np.asarray(mh.Gaussian(scale * median)(X, X))
        trial = {reg: np.empty_like(Y) for reg in REGS}
        for train, held in folds:
            # One eigendecomposition serves every λ.
            values, vectors = np.linalg.eigh(K[np.ix_(train, train)])
            left, right = K[np.ix_(held, train)] @ vectors, vectors.T @ outputs[train]
            for reg, out in trial.items():
                out[held] = outputs[held] - left @ (right / (values + len(train) * reg)[:, None])
        for reg, out in trial.items():
            error = float(np.mean(out**2))
            if best is None or error < best[0]:
                best, residuals = (error, scale * median, reg), out
    assert best is not None
    _, lengthscale, reg = best
    mean = mh.ConditionalMean(mh.Gaussian(lengthscale), mh.Linear(), reg, center=False).fit(X, outputs)
    return Ridge(mean, centre, lengthscale, reg, residuals)


def windows(X: np.ndarray, length: int) -> np.ndarray:
    """Each row with the ``length`` − 1 before it, side by side, (n, length · d); the first is repeated."""
    rows = np.arange(len(X))
    return np.concatenate([X[np.maximum(rows - back, 0)] for back in range(length)], axis=1)
