"""Distribution regression against gradient boosting on features of bags, on three tasks.

``python -m papers.gretton2015.bags`` (about two minutes), ``--quick`` for a small form.

In each task the shape of the bag is what counts, and its mean says nothing:

- entropy: ½ log det S of a Gaussian N(m, S) in the plane, whose standard deviations
  along random axes are exp(u), u uniform in (−1, 1);
- modes: how many of 1 to 4 components a mixture on the line has, brought to mean 0 and variance 1;
- rotation: cos 2θ of a Gaussian whose covariance diag(4, 1) is turned by θ.

The peers are scikit-learn's histogram gradient boosting on the bag's mean, on its mean and covariance, and
on its mean random Fourier features: the very 300 that the first stage of ours has.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import muhat as mh
from muhat.operators.bags import mean_features


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
    """Root mean squared errors on new bags, coverage of 90% intervals, and seconds to learn."""
    rng = np.random.default_rng(seed)
    train, y = TASKS[task](n, size, rng)
    test, truth = TASKS[task](400, size, rng)
    start = time.perf_counter()
    model = mh.DistributionRegressor(representation=(mh.Fourier(300), mh.Fourier(600)), random_state=seed)
    model.fit(train, y)
    out = {"seconds": time.perf_counter() - start}
    mean, std = model.predict(test, return_std=True)
    out["muhat"] = _rmse(mean, truth)
    out["coverage"] = float(np.mean(np.abs(mean - truth) < 1.645 * std))
    first = model.features_.first  # type: ignore[union-attr]
    peers = {
        "boosting, mean": _mean,
        "boosting, mean and covariance": _moments,
        "boosting, mean features": lambda bags: mean_features(mh.Bags(bags), first),
    }
    for name, summary in peers.items():
        peer = HistGradientBoostingRegressor(random_state=seed).fit(summary(train), y)
        out[name] = _rmse(peer.predict(summary(test)), truth)
    return out


def _rmse(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean((a - b) ** 2)))


def main() -> None:
    """Run all and write a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100 bags, one seed")
    parser.add_argument("--out", type=Path, default=Path("out/gretton2015"))
    options = parser.parse_args()
    n, seeds = (100, 1) if options.quick else (300, 3)
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for task in TASKS:
        runs = [compare(task, n, 100, seed) for seed in range(seeds)]
        rows.append({"task": task, **{k: float(np.mean([r[k] for r in runs])) for k in runs[0]}})
        print("  ".join(f"{k} {v if isinstance(v, str) else format(v, '.3f')}" for k, v in rows[-1].items()))
    with open(options.out / "bags.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
