"""Two-sample tests written from their papers, for machines without their authors' packages; p-values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.spatial.distance import pdist, squareform

PERMUTATIONS = 299


def energy(x: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Székely and Rizzo (2013): the energy distance of the raw columns."""
    labels = _labels(len(x), len(y), seed)
    return _pvalue(_mmd(-squareform(pdist(np.concatenate([x, y]))), labels, len(x)))


def mmd_fuse(x: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Biggs, Schrab and Gretton (2023): log mean exp(λ MMD²/√N̂) over 10 Gaussians and 10 Laplace kernels."""
    labels, m = _labels(len(x), len(y), seed), len(y)
    scores = []
    for K in _kernels(np.concatenate([x, y]), np.linspace):
        size = np.sqrt((K**2).sum() / (len(K) * (len(K) - 1)))
        scores.append(np.sqrt(m * (m - 1)) * _mmd(K, labels, len(x)) / size)
    return _pvalue(np.logaddexp.reduce(scores, axis=0))


def mmd_agg(x: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Schrab et al. (2023): the smallest p-value of 20 kernels, by the ranks of one set of permutations."""
    labels = _labels(len(x), len(y), seed)
    values = np.array([_mmd(K, labels, len(x)) for K in _kernels(np.concatenate([x, y]), np.geomspace)])
    return _pvalue(values.argsort(axis=1).argsort(axis=1).max(axis=0).astype(float))


def _labels(n: int, m: int, seed: int) -> np.ndarray:
    """1 for rows of the first sample, as observed and permuted, (1 + permutations, n + m)."""
    labels = np.tile(np.arange(n + m) < n, (1 + PERMUTATIONS, 1)).astype(float)
    labels[1:] = np.random.default_rng([seed, 1]).permuted(labels[1:], axis=1)
    return labels


def _mmd(K: np.ndarray, labels: np.ndarray, n: int) -> np.ndarray:
    """The unbiased MMD² for every row of labels; K has a diagonal of 0."""
    m = len(K) - n
    xx = ((labels @ K) * labels).sum(axis=1)
    first = labels @ K.sum(axis=1)
    yy = K.sum() - 2 * first + xx
    return xx / (n * (n - 1)) + yy / (m * (m - 1)) - 2 * (first - xx) / (n * m)


def _kernels(z: np.ndarray, space: Callable[[float, float, int], np.ndarray]) -> Iterator[np.ndarray]:
    """Gaussians and Laplace kernels at 10 widths, from half the 5% to twice the 95% point of distances."""
    for metric in ("euclidean", "cityblock"):
        D = pdist(z, metric)
        ordered = np.sort(np.where(D == 0, np.median(D), D))
        low, high = ordered[int(0.05 * len(D))] / 2, ordered[int(0.95 * len(D))] * 2
        for width in space(low, high, 10):
            s = D / width
            yield squareform(np.exp(-(s**2) / 2) if metric == "euclidean" else np.exp(-np.sqrt(2) * s))


def _pvalue(values: np.ndarray) -> float:
    """The share of values that are not below the first, up to rounding."""
    return float(np.mean(values >= values[0] - 1e-12 * abs(values[0])))
