"""How far draws of a posterior are from the truth."""

from __future__ import annotations

import warnings

import numpy as np


def wasserstein(draws: np.ndarray, truth: np.ndarray) -> float:
    """W1 between two samples on the line, (n,) and (m,), in standard deviations of the truth."""
    from scipy.stats import wasserstein_distance

    return float(wasserstein_distance(draws, truth) / truth.std())


def mean_error(draws: np.ndarray, truth: np.ndarray) -> float:
    """Distance of the means in standard deviations of the truth, averaged over the columns."""
    return float((np.abs(draws.mean(axis=0) - truth.mean(axis=0)) / truth.std(axis=0)).mean())


def sd_ratio(draws: np.ndarray, truth: np.ndarray) -> float:
    """Standard deviations over the true ones, geometric mean over the columns."""
    ratio = np.maximum(draws.std(axis=0), 1e-300) / truth.std(axis=0)
    return float(np.exp(np.log(ratio).mean()))


def c2st(draws: np.ndarray, truth: np.ndarray, seed: int = 1) -> float:
    """Accuracy of a classifier that tells draws from the truth, 0.5 if it cannot.

    As in the benchmark sbibm: both in units of the truth, a network of two hidden layers of 10 units a
    column, five shuffled folds.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import KFold, cross_val_score
    from sklearn.neural_network import MLPClassifier

    n = min(len(draws), len(truth))
    centre, spread = truth.mean(axis=0), truth.std(axis=0)
    rows = (np.concatenate([truth[:n], draws[:n]]) - centre) / spread
    labels = np.repeat([0, 1], n)
    units = 10 * rows.shape[1]
    network = MLPClassifier((units, units), max_iter=1000, random_state=seed)
    folds = KFold(5, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return float(cross_val_score(network, rows, labels, cv=folds, scoring="accuracy").mean())
