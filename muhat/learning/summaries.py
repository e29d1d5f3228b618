"""Few statistics in place of many: the regression of θ on x as a summary of x [FP12]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from muhat._linalg import cholesky
from muhat.gram import Neural
from muhat.kernels.base import Kernel
from muhat.kernels.stationary import Gaussian
from muhat.learning.coordinates import Coordinates, data_coordinates, find_coordinates
from muhat.learning.features import target_features
from muhat.learning.moved import LANDMARKS, Ridge, choose_ridge, fit_ridge, some
from muhat.learning.supports import Support


@dataclass(frozen=True)
class Summary:
    """Statistics of x: a regression on the line, one of a network's features, or a function of the user.

    Attributes:
        line: how x is brought to the line.
        ridge: the regression; None for one of a network's features, or a function.
        features: the network's kernel, with
        coefficients: of its features, (p, s).
        function: of rows.
    """

    line: Coordinates
    ridge: Ridge | None = None
    features: Kernel | None = None
    coefficients: np.ndarray | None = None
    function: Callable[[np.ndarray], Any] | None = None

    def at(self, x: np.ndarray) -> np.ndarray:
        """(q, d) → (q, s)."""
        if self.function is not None:
            return _values(self.function, x)
        line = self.line.to_line(x)
        if self.ridge is not None:
            return self.ridge.at(line)
        return np.asarray(self.features.features(line), dtype=np.float64) @ self.coefficients  # type: ignore[union-attr]


def learn_summary(
    summary: Any, X: np.ndarray, theta: np.ndarray, rng: np.random.Generator, support: Support | None = None
) -> tuple[Summary, np.ndarray]:
    """The summary and its values at the simulations, (n, s).

    Args:
        summary: ``"learn"``, ``mh.Neural(...)``, or a function of rows.
        X: (n, d).
        theta: (n, p).
        rng: for subsets and the network.
        support: of theta; None to infer it.
    """
    data = data_coordinates(X)
    if callable(summary) and not isinstance(summary, Neural):
        return Summary(data, function=summary), _values(summary, X)
    line, T = data.to_line(X), find_coordinates(theta, support).to_line(theta)
    T = (T - T.mean(axis=0)) / T.std(axis=0)
    if not isinstance(summary, Neural):
        kernel = Gaussian("scaled").resolve(line)
        chosen = choose_ridge(line, T, [kernel], rng)
        ridge, left = fit_ridge(line, T, *chosen, line[some(len(line), LANDMARKS, rng)])
        # By leave-one-out: a new x is not one that the regression was made of.
        return Summary(data, ridge), T - left
    targets = target_features(Gaussian("scaled").resolve(T), T, rng)
    network: Any = summary.train(line, targets, random_state=rng)
    Phi = np.asarray(network.features(line), dtype=np.float64)
    A = Phi.T @ Phi
    A[np.diag_indices(len(A))] += len(Phi) * network.training.reg
    coefficients = cholesky(A, "ΨᵀΨ + nλI", "Raise reg of mh.Neural.", overwrite=True).solve(Phi.T @ T)
    return Summary(data, None, network, coefficients), Phi @ coefficients


def _values(function: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    out = np.asarray(function(x), dtype=np.float64)
    out = out.reshape(-1, 1) if out.ndim == 1 else out
    if out.ndim != 2 or len(out) != len(x) or not np.isfinite(out).all():
        raise ValueError(
            f"summary must give one finite row of statistics for each of the {len(x)} rows of x, but gave "
            f"shape {out.shape}: write it for all rows at once, (n, d) → (n, s)."
        )
    return out
