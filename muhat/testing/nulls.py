"""What the statistic would be if there were nothing to find: permutations, multipliers, moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat import _threads

# Statistics that differ by less than this, relative to their spread, count as equal: rounding must not
# decide between a permutation and its copy.
TIE = 1e-6
# Multipliers remember so many times as long as the series does.
MEMORIES = 6


def label_permutations(n: int, m: int, permutations: int, rng: np.random.Generator) -> np.ndarray:
    """Who belongs to the first sample, (1 + permutations, n + m): as observed first, then at random."""
    keys = rng.random((permutations, n + m))
    out = np.empty((1 + permutations, n + m), dtype=bool)
    out[0] = np.arange(n + m) < n

    def work(rows: slice) -> None:
        part = keys[rows]
        out[1 + rows.start : 1 + rows.stop] = part <= np.partition(part, n - 1, axis=1)[:, n - 1 : n]

    _threads.run_blocks(work, _threads.row_blocks(permutations, n + m, 1 << 18))
    return out


def row_permutations(n: int, permutations: int, rng: np.random.Generator) -> np.ndarray:
    """Orders of n rows, (1 + permutations, n): the identity first, then at random."""
    out = np.broadcast_to(np.arange(n), (1 + permutations, n)).copy()
    out[1:] = rng.permuted(out[1:], axis=1)
    return out


def wild_multipliers(n: int, draws: int, length: float, rng: np.random.Generator) -> np.ndarray:
    """Stationary Gaussian processes of unit variance, (draws, n), with correlation e^{−|t−s|/length}.

    The multipliers of the wild bootstrap for dependent data [CSG14]; independent for length 0.
    """
    from scipy.signal import lfilter

    a = float(np.exp(-1 / length)) if length > 0 else 0.0
    noise = rng.standard_normal((draws, n))
    noise[:, 1:] *= np.sqrt(1 - a * a)
    return np.asarray(lfilter([1.0], [1.0, -a], noise, axis=1))


def centred_multipliers(
    n: int, draws: int, length: float, rng: np.random.Generator, factors: int = 1
) -> np.ndarray:
    """Wild multipliers less their mean, scaled up for the variance that they miss, (draws, n).

    Two things are missing. A mean of multipliers whose correlations ρ(t) sum to s takes s/n of a quadratic
    form with it. And autocovariances at lag t are weighted by ρ(t) < 1: of a series with autocorrelations aᵗ,
    ``Σ aᵗρ(t)`` is left of ``Σ aᵗ``; a follows from the length, see :func:`memory_length`.

    Args:
        n, draws, length, rng: of :func:`wild_multipliers`.
        factors: 1 for a statistic of one series; 2 for one of products of two, with autocorrelations a²ᵗ.
    """
    W = wild_multipliers(n, draws, length, rng)
    gaps = np.arange(1, n)
    decay = float(np.exp(-1 / length)) if length > 0 else 0.0
    lost = (1 + 2 * float((1 - gaps / n) @ decay**gaps)) / n
    a = (length / (length + 2 * MEMORIES)) ** factors
    left = (1 + a * decay) / (1 - a * decay) * (1 - a) / (1 + a)
    return (W - W.mean(axis=1, keepdims=True)) / np.sqrt((1 - lost) * left)


def memory_length(Z: np.ndarray) -> float:
    """The memory of multipliers for a series: several times what the series itself forgets in, in rows.

    Six times the largest ``2 Σ ρ(t)`` over columns, at most a fifth of the rows; 0 for columns that show no
    autocorrelation. The sum stops where autocorrelations reach their sampling error. Multipliers that forget
    as fast as the series would halve the very autocovariances that they have to keep.
    """
    n = len(Z)
    A = np.asarray(Z, dtype=np.float64) - Z.mean(axis=0)
    size = 1 << (2 * n - 1).bit_length()
    A = A[:, (Z[:1] != Z).any(axis=0)]  # a constant, less its rounded mean, would correlate with itself
    spectrum = np.abs(np.fft.rfft(A, size, axis=0)) ** 2
    autocovariance = np.fft.irfft(spectrum, size, axis=0)[: max(2, n // 4)]
    longest = 0.0
    for c in autocovariance.T:
        if c[0] <= 0:
            continue
        rho = c[1:] / c[0]
        below = np.nonzero(rho < 2 / np.sqrt(n))[0]
        kept = rho[: below[0]] if len(below) else rho
        longest = max(longest, float(2 * kept.sum()))
    return min(MEMORIES * longest, n / 5)


def permutation_pvalue(values: np.ndarray) -> float:
    """``(1 + #{T_b ≥ T}) / (B + 1)`` for the observed value T and then the B others."""
    observed, null = values[0], values[1:]
    slack = TIE * max(float(values.std()), 1e-9 * abs(float(observed)))
    return float((1 + np.count_nonzero(null >= observed - slack)) / (1 + len(null)))


@dataclass(frozen=True)
class Moments:
    """Sums over a doubly centred Gram matrix A = HKH, (n, n).

    Attributes:
        n: its size.
        trace: ``tr A``.
        square: ``tr A²``.
        diagonal: ``Σ Aᵢᵢ²``.
    """

    n: int
    trace: float
    square: float
    diagonal: float

    @classmethod
    def of_sums(cls, diag: np.ndarray, rows: np.ndarray, squares: float) -> Moments:
        """From ``Kᵢᵢ``, the off-diagonal row sums and the off-diagonal sum of squares of K."""
        n = len(diag)
        mean = (rows + diag) / n
        grand = float(mean.mean())
        centred = diag - 2 * mean + grand
        total = float(squares + (diag**2).sum() - 2 * n * (mean**2).sum() + n**2 * grand**2)
        return cls(n, float(centred.sum()), max(total, 0.0), float((centred**2).sum()))

    @classmethod
    def of_labels(cls, n: int, m: int) -> Moments:
        """Of ``A = hhᵀ``, h the centred membership of the first of two samples."""
        N, f = n + m, n / (n + m)
        size = N * f * (1 - f)
        return cls(N, size, size**2, n * (1 - f) ** 4 + m * f**4)


def permutation_mean_variance(a: Moments, b: Moments) -> tuple[float, float]:
    """Mean and variance of ``tr(A P B Pᵀ)`` over all permutations P, exactly [KAO95]."""
    n = a.n
    mean = a.trace * b.trace / (n - 1)
    if n < 4:
        raise ValueError(f"the gamma approximation needs at least 4 rows, got {n}: use permutations.")
    spread = [(n - 1) * s.square - s.trace**2 for s in (a, b)]
    peak = [n * (n + 1) * s.diagonal - (n - 1) * (s.trace**2 + 2 * s.square) for s in (a, b)]
    variance = 2 * spread[0] * spread[1] / ((n - 1) ** 2 * (n + 1) * (n - 2))
    variance += peak[0] * peak[1] / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
    return mean, variance


def gamma_null(mean: float, variance: float, quantiles: int = 1000) -> tuple[float, float, np.ndarray]:
    """Shape and scale of the gamma distribution with this mean and variance, and its quantiles."""
    from scipy.stats import gamma

    if not (mean > 0 and variance > 0):
        raise ValueError(
            "the gamma approximation is undefined: the kernel hardly varies over these rows. Use "
            'method="permutation", or another kernel.'
        )
    shape, scale = mean**2 / variance, variance / mean
    return shape, scale, gamma.ppf((np.arange(quantiles) + 0.5) / quantiles, shape, scale=scale)
