"""Many kernels in one test with a valid level."""

from __future__ import annotations

import numpy as np

# Skewness beyond which a null is treated as if it were this skewed: one draw must not bend the scale.
MAX_SKEWNESS = 3.0


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Each row of ``values`` (kernels, 1 + B) as normal scores.

    A row is standardised, and its skewness taken out as that of a gamma variable by its cube root
    [WH31]: kernels with few directions have skewed nulls, and the raw scale would let these rule. The
    map is the same for all columns, so exchangeable columns stay exchangeable: the observed value sets
    the scale like the others, else it would pass for larger than it is. A row that does not vary scores 0.
    """
    mean, sd = values.mean(axis=1, keepdims=True), values.std(axis=1, keepdims=True)
    varies = sd > 1e-12 * np.abs(values).max(axis=1, keepdims=True)
    z = np.where(varies, (values - mean) / np.where(varies, sd, 1.0), 0.0)
    skewness = np.clip((z**3).mean(axis=1, keepdims=True), 1e-3, MAX_SKEWNESS)
    shape = 4 / skewness**2
    ratio = np.maximum(1 + z / np.sqrt(shape), 1e-12)
    return np.where(varies, 3 * np.sqrt(shape) * (np.cbrt(ratio) - 1 + 1 / (9 * shape)), 0.0)


def fuse(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """One statistic from normal scores (kernels, 1 + B): minus the log of the harmonic mean p-value.

    A soft maximum over the kernels [WIL19], with weights that sum to 1; its null is that of the columns, so
    no bound for dependent kernels is paid.
    """
    from scipy.special import log_ndtr, logsumexp

    return np.asarray(logsumexp(-log_ndtr(-scores), axis=0, b=weights[:, None]))
