"""Landmarks for Nyström features: a few points that stand for all."""

from __future__ import annotations

import numpy as np

from muhat._array import Array, is_traced
from muhat.kernels.base import Kernel

# Up to this many rows, and this many for each landmark, one Gram matrix is cheaper than a pass per landmark.
WHOLE_ROWS = 2000
WHOLE_ROWS_EACH = 10


def uniform_landmarks(X: Array, p: int, rng: np.random.Generator) -> Array:
    """``p`` rows of ``X`` drawn without replacement, (p, d)."""
    return X[np.sort(rng.choice(X.shape[0], p, replace=False))]


def kmeanspp_landmarks(
    X: Array, p: int, rng: np.random.Generator, kernel: Kernel, rows: int = 20_000
) -> Array:
    """``p`` rows of ``X`` by k-means++ seeding in the RKHS, (p, d) [AV07].

    Each next landmark is drawn with probability proportional to its squared RKHS distance
    ``k(x, x) − 2k(x, z) + k(z, z)`` to the nearest landmark so far, which spreads them where the
    kernel can tell points apart. At most ``rows`` rows are looked at.
    """
    A = _subset(X, max(rows, p), rng, kernel)
    diagonal = np.asarray(kernel.diag(A))
    chosen = [int(rng.integers(len(A)))]
    nearest = np.full(len(A), np.inf)
    K = np.asarray(kernel(A, A)) if len(A) <= min(WHOLE_ROWS, WHOLE_ROWS_EACH * p) else None
    for _ in range(p - 1):
        z = chosen[-1]
        row = np.asarray(kernel(A[z : z + 1], A))[0] if K is None else K[z]
        distance = diagonal - 2 * row + diagonal[z]
        nearest = np.minimum(nearest, np.maximum(distance, 0.0))
        nearest[chosen] = 0.0
        total = nearest.sum()
        if total <= 0:  # every point coincides with a landmark: the rest adds nothing
            break
        cumulative = np.cumsum(nearest)
        chosen.append(int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")))
    return A[np.sort(np.array(chosen))]


def leverage_landmarks(
    X: Array,
    p: int,
    rng: np.random.Generator,
    kernel: Kernel,
    reg: float | None = None,
    rows: int = 20_000,
) -> Array:
    """``p`` rows of ``X`` drawn by approximate ridge leverage scores, (p, d) [AM15].

    The score ``[K(K + nλI)⁻¹]ᵢᵢ`` says how much point i is needed; it is computed in the features of
    a uniform Nyström sketch with twice as many landmarks, with λ = ``reg`` (by default 1/p of the
    mean diagonal).
    """
    from muhat.gram.nystrom import NystromKernel

    A = _subset(X, max(rows, p), rng, kernel)
    n = len(A)
    sketch = NystromKernel.fit(kernel, uniform_landmarks(A, min(n, 2 * p), rng))
    Phi = np.asarray(sketch.features(A))
    scale = np.asarray(kernel.diag(A)).mean()
    c = n * (scale / p if reg is None else reg)
    inner = Phi.T @ Phi + c * np.eye(Phi.shape[1])
    # What the sketch does not see counts in full: k(x, x) − φ(x)ᵀφ(x).
    seen = (Phi * np.linalg.solve(inner, Phi.T).T).sum(axis=1)
    missed = np.maximum(np.asarray(kernel.diag(A)) - (Phi**2).sum(axis=1), 0.0) / c
    score = np.maximum(seen + missed, 1e-12)
    return A[np.sort(rng.choice(n, p, replace=False, p=score / score.sum()))]


def _subset(X: Array, rows: int, rng: np.random.Generator, kernel: Kernel) -> np.ndarray:
    if any(is_traced(a) for a in (X, *kernel.leaves())):
        raise ValueError(
            "Landmarks cannot be chosen under jit or grad: choose them outside and pass them in, "
            "mh.Nystrom(p, landmarks=Z)."
        )
    A = np.asarray(X)
    return A if len(A) <= rows else A[np.sort(rng.choice(len(A), rows, replace=False))]
