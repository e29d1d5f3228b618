"""Regression: kernel ridge, Gaussian processes, bags; the answer is an error on new rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import muhat as mh
from benchmarks.peers.contestant import Contestant, Workload, needs

D, ELL, REG, NOISE = 10, 3.0, 1e-4, 0.1
LANDMARKS, QUERIES = 500, 1000
BAG = 100  # points


def smooth(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, a smooth function of their first three columns seen with noise, and without."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] * np.cos(X[:, 2])
    return X, f + NOISE * rng.standard_normal(n), f


def error(truth: np.ndarray) -> Callable[[Any], float]:
    """The root mean squared error of predictions."""
    return lambda found: float(np.sqrt(np.mean((np.asarray(found) - truth) ** 2)))


def ridge(n: int) -> dict[str, Contestant]:
    """The conditional mean with kernel and regulariser given: the same function by all."""
    X, y, _ = smooth(n, D, 0)
    x, _, truth = smooth(QUERIES, D, 1)

    def ours() -> np.ndarray:
        return (
            mh.ConditionalMean(mh.Gaussian(ELL), mh.Gaussian(1.0), REG, mh.Exact(), center=False)
            .fit(X, y)
            .predict(x)
        )

    def scikit_learn() -> np.ndarray:
        from sklearn.kernel_ridge import KernelRidge

        alpha: Any = n * REG  # its regulariser is of the sum, ours of the average
        return KernelRidge(alpha=alpha, kernel="rbf", gamma=0.5 / ELL**2).fit(X, y).predict(x)

    return {
        "ours": Contestant(ours, score=error(truth)),
        "scikit-learn KernelRidge": Contestant(
            scikit_learn, needs("sklearn.kernel_ridge"), score=error(truth)
        ),
    }


def ridge_landmarks(n: int) -> dict[str, Contestant]:
    """The same with 500 landmarks, each its own choice of them."""
    X, y, _ = smooth(n, D, 0)
    x, _, truth = smooth(QUERIES, D, 1)
    reg = 1e-6

    def ours() -> np.ndarray:
        pair = mh.Nystrom(LANDMARKS), mh.Nystrom(10)
        return (
            mh.ConditionalMean(mh.Gaussian(ELL), mh.Gaussian(1.0), reg, pair, center=False)
            .fit(X, y)
            .predict(x)
        )

    def scikit_learn() -> np.ndarray:
        from sklearn.kernel_approximation import Nystroem
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import make_pipeline

        features = Nystroem(gamma=0.5 / ELL**2, n_components=LANDMARKS, random_state=0)
        return make_pipeline(features, Ridge(n * reg, fit_intercept=False)).fit(X, y).predict(x)

    modules = ("sklearn.kernel_approximation", "sklearn.linear_model", "sklearn.pipeline")
    return {
        "ours": Contestant(ours, score=error(truth)),
        "scikit-learn Nystroem, Ridge": Contestant(scikit_learn, needs(*modules), score=error(truth)),
    }


def process(n: int) -> dict[str, Contestant]:
    """A Gaussian process on three columns, with lengthscales, scale and noise learned from three starts."""
    X, y, _ = smooth(n, 3, 0)
    x, _, truth = smooth(QUERIES, 3, 1)

    def ours() -> np.ndarray:
        return mh.TaskTransformedGP(starts=3).fit_direct(X, y).predict(x)

    def scikit_learn(restarts: int) -> np.ndarray:
        from papers.schuster2020.peers import GaussianProcess

        return GaussianProcess(rows=n, restarts=restarts).fit(X, y[:, None], 0).moments(x)[0][:, 0]

    needed = needs("sklearn.gaussian_process", "papers.schuster2020.peers")
    return {
        "ours": Contestant(ours, score=error(truth)),
        "scikit-learn, three starts": Contestant(
            lambda: scikit_learn(2), needed, once=True, score=error(truth)
        ),
        "scikit-learn, one start": Contestant(lambda: scikit_learn(0), needed, once=True, score=error(truth)),
    }


def bags(n: int) -> dict[str, Contestant]:
    """The entropy of a Gaussian from a bag of 100 points in the plane [G15]; errors on 400 new bags."""
    from papers.gretton2015 import bags as task

    rng = np.random.default_rng(0)
    train, y = task.entropy(n, BAG, rng)
    test, truth = task.entropy(400, BAG, rng)

    def ours() -> np.ndarray:
        return mh.DistributionRegressor(random_state=0).fit(train, y).predict(test)

    def boosting(summary: Callable[..., np.ndarray]) -> float:
        return task._boosting(summary, train, y, test, truth, 0)

    return {
        "ours": Contestant(ours, score=error(truth)),
        "boosting on mean features": Contestant(lambda: boosting(task._mean_fourier(train, 0.5, 0))),
        "boosting on mean and covariance": Contestant(lambda: boosting(task._moments)),
    }


WORKLOADS = {
    "ridge": Workload("kernel ridge, exact", ridge, (2000, 5000), "RMSE"),
    "ridge-landmarks": Workload("kernel ridge, 500 landmarks", ridge_landmarks, (100_000,), "RMSE"),
    "gaussian-process": Workload("Gaussian process, learned", process, (1000,), "RMSE"),
    "bags": Workload("regression on bags of 100 points", bags, (300, 2000), "RMSE"),
}
