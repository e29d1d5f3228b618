"""Distribution regression against gradient boosting on features of bags, on three tasks.

``python -m papers.gretton2015 --experiment bags`` (about five minutes).

In each task the shape of the bag is what counts, and its mean says nothing:

- entropy: ½ log det S of a Gaussian N(m, S) in the plane, whose standard deviations
  along random axes are exp(u), u uniform in (−1, 1);
- modes: how many of 1 to 4 components a mixture on the line has, brought to mean 0 and variance 1;
- rotation: cos 2θ of a Gaussian whose covariance diag(4, 1) is turned by θ.

The peers are scikit-learn's histogram gradient boosting on the bag's mean, on its mean and covariance, on its
mean Fourier features (300 at a quarter, half and the whole of the median lengthscale: the best of the three
*on the test bags* is given), and on the very description of bags that ours has learned from. Ours is the
default, with nothing set. The coverage of its 90% intervals and their width are also given for bags of a
quarter of the points, which it has not learned from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.ensemble import HistGradientBoostingRegressor

import muhat as mh
from muhat.learning.bags import scaled_kernel
from muhat.operators.bags import TwoStage, mean_features
from papers.output import save_table, show


def entropy(n: int, size: int, rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Gaussians in the plane and their entropy, up to a constant."""
    log_sd, means = rng.uniform(-1, 1, (n, 2)), rng.normal(size=(n, 1, 2))
    F = _turns(rng.uniform(0, np.pi, n)) * np.exp(log_sd)[:, None, :]
    bags = means + rng.standard_normal((n, size, 2)) @ np.swapaxes(F, 1, 2)
    return list(bags), log_sd.sum(axis=1)


def modes(n: int, size: int, rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Mixtures of mean 0 and variance 1 and the number of their modes."""
    counts = rng.integers(1, 5, n)
    bags = []
    for k in counts:
        centres = 5.0 * np.arange(k) + rng.uniform(-0.5, 0.5, k)
        x = centres[rng.integers(k, size=size)] + rng.standard_normal(size)
        bags.append(((x - x.mean()) / x.std())[:, None])
    return bags, counts.astype(float)


def rotation(n: int, size: int, rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Turned Gaussians and cos 2θ."""
    theta = rng.uniform(0, np.pi, n)
    F = _turns(theta) * [2.0, 1.0]
    return list(rng.standard_normal((n, size, 2)) @ np.swapaxes(F, 1, 2)), np.cos(2 * theta)


def _turns(theta: np.ndarray) -> np.ndarray:
    c, s = np.cos(theta), np.sin(theta)
    return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], 1)


TASKS: dict[str, Callable[..., Any]] = {"entropy": entropy, "modes": modes, "rotation": rotation}


def _mean(bags: list[np.ndarray]) -> np.ndarray:
    return np.array([b.mean(axis=0) for b in bags])


def _moments(bags: list[np.ndarray]) -> np.ndarray:
    return np.array([np.append(b.mean(axis=0), np.atleast_2d(np.cov(b.T)).ravel()) for b in bags])


def compare(task: str, n: int, size: int, seed: int) -> dict[str, float]:
    """Root mean squared errors on new bags, coverage and mean width of 90% intervals, seconds to learn."""
    rng = np.random.default_rng(seed)
    train, y = TASKS[task](n, size, rng)
    test, truth = TASKS[task](400, size, rng)
    small, also = TASKS[task](400, size // 4, rng)
    start = time.perf_counter()
    model = mh.DistributionRegressor(random_state=seed).fit(train, y)
    out = {"seconds": time.perf_counter() - start}
    for tag, bags, target in (("", test, truth), (", small bags", small, also)):
        mean, std = model.predict(bags, return_std=True)
        out[f"muhat{tag}"] = _rmse(mean, target)
        out[f"coverage{tag}"] = float(np.mean(np.abs(mean - target) < 1.645 * std))
        out[f"width{tag}"] = float(2 * 1.645 * std.mean())
    out["boosting, mean"] = _boosting(_mean, train, y, test, truth, seed)
    out["boosting, mean and covariance"] = _boosting(_moments, train, y, test, truth, seed)
    fourier = [_mean_fourier(train, factor, seed) for factor in (0.25, 0.5, 1.0)]
    out["boosting, mean features"] = min(_boosting(f, train, y, test, truth, seed) for f in fourier)
    ours = model.features_
    if isinstance(ours, TwoStage):
        describe = lambda bags: ours.describe(mh.Bags(bags))  # noqa: E731
        out["boosting, our description"] = _boosting(describe, train, y, test, truth, seed)
    return out


def _mean_fourier(bags: list[np.ndarray], factor: float, seed: int) -> Callable[..., np.ndarray]:
    pool = mh.Bags(bags).pool()
    kernel = scaled_kernel(mh.Gaussian("scaled").resolve(pool), factor)
    first: Any = mh.Fourier(300).fit(kernel, pool, np.random.default_rng(seed))
    return lambda some: mean_features(mh.Bags(some), first)


def _boosting(
    summary: Callable[..., np.ndarray], train: Any, y: np.ndarray, test: Any, truth: np.ndarray, seed: int
) -> float:
    peer = HistGradientBoostingRegressor(random_state=seed).fit(summary(train), y)
    return _rmse(peer.predict(summary(test)), truth)


def _rmse(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean((a - b) ** 2)))


def run(out: Path, quick: bool = False, seed: int = 0, seeds: int | None = None) -> None:
    """Make the table in the folder ``out``."""
    n, seeds = (100, 1) if quick else (300, seeds or 5)
    rows = []
    for task in TASKS:
        for i in range(seed, seed + seeds):
            rows.append({"task": task, "seed": i, **compare(task, n, 100, i)})
            print(task, "  ".join(f"{k} {v:.3g}" for k, v in rows[-1].items() if k != "task"), flush=True)
        save_table(rows, out / "bags.csv")
    table = pl.DataFrame(rows).drop("seed").group_by("task", maintain_order=True).mean()
    names = [name for name in table.columns if name.startswith(("muhat", "boosting", "coverage"))]
    show(f"mean of {seeds} seeds", table.select("task", *names).to_dicts())
