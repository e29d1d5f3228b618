"""``python -m papers.gretton2015.causation_forest``: as published, with a random forest [LMST15].

Mixtures of Gaussians, smoothed splines and additive noise; random Fourier features of x, y and (x, y) whose
frequencies have the deviations .15, 1.5 and 15 (so in its code; equally many of each); a forest. Run with the
noise of the paper (variance uniform) and of its code (deviation uniform): both are reported, none is chosen.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from muhat.datasets.causation import SIMULATED_DIGESTS, CausalPairs, simulated_pairs, tuebingen_pairs
from muhat.learning.causal_pairs import NOISES, Generator, standardize, synthetic_pair
from papers.gretton2015.causation import FIRST, auc
from papers.output import Row, save_table, show

SCALES = (0.15, 1.5, 15.0)


class Features:
    """Mean of ``cos(ωᵀz + b)`` over the points, for z = x, y and (x, y)."""

    def __init__(self, each: int, rng: np.random.Generator) -> None:
        width = np.repeat(SCALES, each)
        self.one = (width * rng.standard_normal(len(width))).astype(np.float32)
        self.two = (width * rng.standard_normal((2, len(width)))).astype(np.float32)
        self.shift = rng.uniform(0, 2 * np.pi, (2, len(width))).astype(np.float32)

    def __call__(self, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the pair (x, y) and of (y, x)."""
        z = np.stack([standardize(v) for v in pair.T], axis=1).astype(np.float32)
        a, b = (np.cos(z[:, [i]] * self.one + self.shift[0]).mean(axis=0) for i in (0, 1))
        c, d = (np.cos(w @ self.two + self.shift[1]).mean(axis=0) for w in (z, z[:, ::-1]))
        return np.concatenate([a, b, c]), np.concatenate([b, a, d])


def score(forest: Any, features: Features, data: CausalPairs) -> np.ndarray:
    """Probability of x → y less that of y → x, antisymmetric."""
    both = [features(pair) for pair in data.pairs]
    ahead, back = (forest.predict_proba(np.array(part))[:, 1] for part in zip(*both, strict=True))
    return ahead - back


def one(noise: str, count: int, trees: int, each: int, seed: int) -> list[Row]:
    """All scores with one kind of noise."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(seed)
    settings = Generator.published(noise)
    features = Features(each, rng)
    both = [features(synthetic_pair(settings, rng)) for _ in range(count)]
    X = np.array([side for pair in both for side in pair])
    forest = RandomForestClassifier(trees, random_state=seed).fit(X, np.tile([1, 0], count))
    real = tuebingen_pairs()
    values = score(forest, features, real)
    rows = [
        row(noise, f"Tübingen, {name}", values[chosen], real.labels[chosen], real.weights[chosen])
        for name, chosen in (("first 82", real.numbers <= FIRST), ("all", real.numbers > 0))
    ]
    for group in SIMULATED_DIGESTS:
        data = simulated_pairs(group)
        rows.append(row(noise, group, score(forest, features, data), data.labels, data.weights))
    return rows


def row(noise: str, name: str, values: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> Row:
    """The scores of one set of pairs."""
    right = values * labels > 0
    return {
        "noise": noise,
        "pairs": name,
        "weighted accuracy": float(np.average(right, weights=weights)),
        "accuracy": float(right.mean()),
        "AUC": auc(values, labels),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m papers.gretton2015.causation_forest", description=__doc__
    )
    parser.add_argument("--out", type=Path, default=Path("out/gretton2015"), help="folder of the results")
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--each", type=int, default=333, help="features for each scale")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="200 pairs, 50 trees, 20 features each")
    chosen = parser.parse_args()
    size = (200, 50, 20) if chosen.quick else (chosen.pairs, chosen.trees, chosen.each)
    chosen.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for noise in NOISES:
        found = one(noise, *size, chosen.seed)
        show(f"Random forest as published, noise: {noise}", found)
        rows += found
        save_table(rows, chosen.out / "causation_forest.csv")


if __name__ == "__main__":
    main()
