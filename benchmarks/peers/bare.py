"""The arithmetic that a test cannot do without, in bare NumPy and in a compiled loop: the yardsticks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from benchmarks.peers.packages import peer


def gaussian(a: np.ndarray, lengthscale: float) -> np.ndarray:
    """exp(−‖aᵢ − aⱼ‖² / 2ℓ²) from one matrix product, in place, in the precision of ``a``."""
    K = a @ a.T
    half = 0.5 * K.diagonal()
    K -= half[:, None]
    K -= half
    K *= 1.0 / lengthscale**2
    return np.exp(K, out=K)


def signs(n: int, m: int, permutations: int, rng: np.random.Generator) -> np.ndarray:
    """Columns ±1: the permuted labels of n + m rows, the first column unpermuted; single precision."""
    labels = np.repeat(np.array([1.0, -1.0], dtype=np.float32), [n, m])
    columns = np.empty((permutations + 1, n + m), dtype=np.float32)
    columns[:] = labels
    rng.permuted(columns[1:], axis=1, out=columns[1:])
    return columns.T


def quadratic_forms(z: np.ndarray, H: np.ndarray, lengthscale: float) -> np.ndarray:
    """hᵀKh for each column h of H: the biased MMD² of n = m rows a sample, times n²."""
    return np.einsum("ib,ib->b", H, gaussian(z, lengthscale) @ H)


def mmd_test(x: np.ndarray, y: np.ndarray, lengthscale: float, permutations: int, seed: int) -> float:
    """The same end to end, labels drawn and p-value counted; equal sizes only."""
    z = np.concatenate([x, y]).astype(np.float32)
    H = signs(len(x), len(y), permutations, np.random.default_rng(seed))
    null = quadratic_forms(z, H, lengthscale)
    return float(np.mean(null >= null[0]))


def hsic_test(
    x: np.ndarray, y: np.ndarray, lengthscales: tuple[float, float], permutations: int, seed: int
) -> float:
    """HSIC by permutation: single-precision Grams, then one fused gather loop a permutation."""
    K, L = (gaussian(a.astype(np.float32), l) for a, l in zip((x, y), lengthscales, strict=True))
    for gram in (K, L):
        means = gram.mean(axis=0)
        gram -= means[:, None]
        gram -= means
        gram += means.mean()
    orders = np.tile(np.arange(len(x), dtype=np.int32), (permutations + 1, 1))
    np.random.default_rng(seed).permuted(orders[1:], axis=1, out=orders[1:])
    null = compiled_traces()(K, L, orders)
    return float(np.mean(null >= null[0]))


@cache
def compiled_traces() -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """Σᵢⱼ K[i, j] L[p(i), p(j)] for each row p of ``orders``, by Numba on all cores; symmetric K, L."""
    numba = peer("numba")

    def traces(K, L, orders):  # pragma: no cover, compiled
        count, n = orders.shape
        out = np.empty(count)
        for b in numba.prange(count):
            order, total = orders[b], 0.0
            for i in range(n):
                row, part = L[order[i]], np.float32(0.0)
                for j in range(i):
                    part += K[i, j] * row[order[j]]
                total += 2.0 * part + K[i, i] * row[order[i]]
            out[b] = total
        return out

    compiled = numba.njit(traces, parallel=True, fastmath=True)
    tiny = np.eye(2, dtype=np.float32)
    compiled(tiny, tiny, np.zeros((1, 2), dtype=np.int32))  # the yardstick is the loop, not its compiler
    return compiled
