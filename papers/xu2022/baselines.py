"""What a filter is measured against: filters that know the model, and a window that knows nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold

from muhat.kernels.median import median_distance

Step = Callable[[np.ndarray], np.ndarray]


def extended_kalman(
    X: np.ndarray, step: Step, noise: tuple[float, float], spread: float = 50.0
) -> np.ndarray:
    """Means of the extended Kalman filter that knows the dynamics, (T, 2), from P₀ = 50 I."""
    Q, R = noise[0] ** 2 * np.eye(2), noise[1] ** 2 * np.eye(2)
    m, P, out = np.zeros(2), spread * np.eye(2), []
    for t, x in enumerate(X):
        if t:
            J = _jacobian(step, m)
            m, P = step(m[None])[0], J @ P @ J.T + Q
        gain = P @ np.linalg.inv(P + R)
        m, P = m + gain @ (x - m), (np.eye(2) - gain) @ P
        out.append(m)
    return np.array(out)


def _jacobian(step: Step, m: np.ndarray, h: float = 1e-5) -> np.ndarray:
    ends = [step(np.stack([m + h * e, m - h * e])) for e in np.eye(2)]
    return np.stack([(a - b) / (2 * h) for a, b in ends], axis=1)


def particles(
    X: np.ndarray, step: Step, noise: tuple[float, float], rng: np.random.Generator, count: int = 5000
) -> np.ndarray:
    """Means of the bootstrap particle filter that knows the model, (T, 2): the floor."""
    out = []
    angle = rng.uniform(0, 2 * np.pi, count)
    z = step(np.stack([np.cos(angle), np.sin(angle)], axis=1)) + noise[0] * rng.standard_normal((count, 2))
    for t, x in enumerate(X):
        if t:
            z = step(z) + noise[0] * rng.standard_normal(z.shape)
        logs = -0.5 * ((z - x) ** 2).sum(axis=1) / noise[1] ** 2
        w = np.exp(logs - logs.max())
        w /= w.sum()
        out.append(w @ z)
        z = z[np.searchsorted(np.cumsum(w), (np.arange(count) + rng.random()) / count).clip(max=count - 1)]
    return np.array(out)


def windowed_ridge(X: np.ndarray, Z: np.ndarray, tests: np.ndarray, width: int = 3) -> np.ndarray:
    """Cross-validated kernel ridge from the last ``width`` observations; ``tests`` go on from ``X``."""
    both = np.concatenate([X, tests])
    windows = np.concatenate([both[width - 1 - i : len(both) - i] for i in range(width)], axis=1)
    learn, seen = windows[: len(X) - width + 1], windows[len(X) - width + 1 :]
    scale = float(median_distance(learn))
    grid = {
        "alpha": [1e-3, 1e-2, 1e-1, 1.0],
        "gamma": [0.5 / (c * scale) ** 2 for c in (0.25, 0.5, 1.0, 2.0)],
    }
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=KFold(5), scoring="neg_mean_squared_error")
    return search.fit(learn, Z[width - 1 :]).predict(seen)
