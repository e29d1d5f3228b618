"""A metric learned from gradients: which directions of the inputs a function depends on.

A kernel that looks at all directions alike cannot find one direction of ten in a few hundred rows. The
average gradient outer product ``M = (1/n) Σᵢ ∇f(xᵢ) ∇f(xᵢ)ᵀ`` of a kernel ridge regression f tells which
directions count; a regression in the metric ``√M`` sees them better, and so on for a few rounds [RBPB24].
"""

from __future__ import annotations

import numpy as np

from muhat.learning.feature_ridge import FeatureRidge, GaussianFeatures, median_distance

ROUNDS = 2  # fits whose gradients make the metric
LEAST = 1e-3  # share of the largest relevance that every direction keeps


def gradient_metric(
    X: np.ndarray,
    y: np.ndarray,
    landmarks: np.ndarray,
    rounds: int = ROUNDS,
    root: np.ndarray | None = None,
) -> np.ndarray:
    """A root R of the metric, (d, d): regress on ``X @ R``.

    Args:
        X: inputs in comparable units, (n, d).
        y: outputs, (n,).
        landmarks: of the kernel, (p, d).
        rounds: fits whose gradients make the metric.
        root: the metric to start from; None for one that treats all directions alike.
    """
    root = np.eye(X.shape[1]) if root is None else root
    for _ in range(rounds):
        A = X @ root
        features = GaussianFeatures(landmarks @ root, median_distance(A))
        fit = FeatureRidge(features(A)).fit(y[:, None])
        root = metric_root(features.gradient(A, fit.coefficients[:, 0]) @ root.T)
    return root


def metric_root(slopes: np.ndarray) -> np.ndarray:
    """A root of the metric that gradients ``slopes`` (n, d) make; the identity where they vanish."""
    values, vectors = np.linalg.eigh(slopes.T @ slopes / len(slopes))
    if not values[-1] > 0:
        return np.eye(len(values))
    # The square root of the metric, as in the paper, with a floor: no direction vanishes.
    share = np.sqrt(np.maximum(values, 0.0) / values[-1])
    return vectors * np.sqrt(share + LEAST)


__all__ = ["gradient_metric", "metric_root"]
