"""``python -m papers.gretton2015.causation_stacked``: directions learned from pairs of other sources.

Look 16 of ``causation.md``: is it the artificial pairs that fail? Five scores that favour a direction, each
with the sign changed when x and y change places, are weighed by logistic regression on the Tübingen pairs
themselves; each pair is decided by weights learned from the pairs of all other sources.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import muhat as mh
from muhat.datasets.causation import tuebingen_pairs
from muhat.learning.causal_pairs import standardize
from muhat.learning.causation import MOST, Smoother, direction_features, entropy
from papers.command import run_script
from papers.gretton2015.causation import FIRST, accuracy, from_other_sources
from papers.output import Row, save_table, show

SCORES = ("trees", "fewer values", "smaller rest", "entropy", "independent rest")
REST = slice(8, 12)  # of direction_features: the dependence of the rest, in units of its scale, on the cause


def scores(x: np.ndarray, y: np.ndarray, model: mh.CauseEffect) -> list[float]:
    """Positive where they speak for x → y.

    The coefficient of the trees that come with muhat; log of distinct values; what a regression leaves, in
    units of the range; entropy in such units; dependence of the rest on the cause.
    """
    a, b = standardize(x), standardize(y)
    rest = [np.log((v - Smoother(u)(v)).std() / np.ptp(v) + 1e-9) for u, v in ((a, b), (b, a))]
    spread = [entropy(v) - np.log(np.ptp(v)) for v in (a, b)]
    dependence = [direction_features(u, v)[REST].mean() for u, v in ((a, b), (b, a))]
    return [
        float(model.evidence(x, y)[0]),
        float(np.log(len(np.unique(y)) / len(np.unique(x)))),
        float(rest[1] - rest[0]),
        float(spread[0] - spread[1]),
        float(dependence[1] - dependence[0]),
    ]


def run(out: Path, seed: int = 0) -> list[Row]:
    """Print and save the weighted accuracies of each score alone, and of all together."""
    data, rng = tuebingen_pairs(), np.random.default_rng(seed)
    some = [p[rng.permutation(len(p))[:MOST]] for p in data.pairs]
    model = mh.CauseEffect()
    F = np.array([scores(p[:, 0], p[:, 1], model) for p in some])
    columns = {**dict(zip(SCORES, F.T, strict=True)), "together": from_other_sources(F, data)}
    rows: list[Row] = []
    for name, values in columns.items():
        first = accuracy(values, data, data.numbers <= FIRST)
        rows.append({"score": name, "first 82": first, "all": accuracy(values, data)})
    show("Weighted accuracy on the Tübingen pairs", rows)
    save_table(rows, out / "causation_stacked.csv")
    return rows


if __name__ == "__main__":
    run_script("gretton2015.causation_stacked", __doc__, run)
