"""``python -m papers.gretton2015 --experiment causation``: cause or effect of pairs [LMST15; G15].

The trees are those that come with ``mh.CauseEffect``: learned from artificial pairs. They and the code length
are weighed, for each Tübingen pair, by the pairs of all other sources. How all of it was chosen, and every
look at the Tübingen pairs, is in ``causation.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

import muhat as mh
from muhat.datasets.causation import SIMULATED_DIGESTS, CausalPairs, simulated_pairs, tuebingen_pairs
from muhat.learning.causation import weigh
from muhat.models.cause_effect import shipped
from muhat.report.plots import BLUE, RED, SOFT, new_figure
from papers.output import Row, legend, save_figure, save_table, show

PUBLISHED = 0.8161  # weighted, 82 pairs [LMST15]
FIRST = 82


def auc(coefficients: np.ndarray, labels: np.ndarray) -> float:
    """The probability that a pair x → y has a greater coefficient than a pair y → x; ties count half."""
    gap = coefficients[labels > 0][:, None] - coefficients[labels < 0]
    return float(np.mean((gap > 0) + 0.5 * (gap == 0)))


def decision_rate(margins: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of the weight decided, and accuracy there, as pairs are decided from the surest on.

    Args:
        margins: coefficient times label, positive where right.
        weights: of the pairs.
    """
    order = np.argsort(-np.abs(margins), kind="stable")
    decided = np.cumsum(weights[order])
    right = np.cumsum(weights[order] * (margins[order] > 0))
    kept = decided > 0
    return decided[kept] / decided[-1], right[kept] / decided[kept]


def shortened(data: CausalPairs, most: int | None, seed: int = 0) -> CausalPairs:
    """The pairs with at most so many points, chosen at random."""
    rng = np.random.default_rng(seed)
    if most is None:
        return data
    kept = [p if len(p) <= most else p[rng.choice(len(p), most, replace=False)] for p in data.pairs]
    return data._replace(pairs=kept)


def from_other_sources(evidence: np.ndarray, data: CausalPairs) -> np.ndarray:
    """Logarithms of odds, (count,): of evidence (count, k) weighed by the pairs of other sources."""
    sources = np.array(data.sources)
    if len(sources) != len(evidence) or len(np.unique(sources)) < 2:
        raise ValueError(f"{len(evidence)} pairs need their sources, at least two, got {set(data.sources)}.")
    out = np.empty(len(evidence))
    for source in np.unique(sources):
        mine = sources == source
        known = evidence[~mine] * data.labels[~mine, None]
        out[mine] = evidence[mine] @ weigh(known, data.weights[~mine])
    return out


def accuracy(odds: np.ndarray, data: CausalPairs, chosen: Any = slice(None)) -> float:
    """The share of the weight that is decided rightly; a pair that is left open counts half."""
    right = np.where(odds == 0, 0.5, odds * data.labels > 0)
    return float(np.average(right[chosen], weights=data.weights[chosen]))


def scored(pairs: str, by: str, odds: np.ndarray, data: CausalPairs, chosen: Any = slice(None)) -> Row:
    """A row of the table."""
    labels = data.labels[chosen]
    return {
        "pairs": pairs,
        "by": by,
        "univariate": len(labels),
        "weighted accuracy": accuracy(odds, data, chosen),
        "accuracy": accuracy(odds, data._replace(weights=np.ones(len(odds))), chosen),
        "AUC": auc(odds[chosen], labels),
        "published": PUBLISHED if "first" in pairs else None,
    }


def run(out: Path, quick: bool = False, seed: int = 0) -> list[Row]:
    """Print and save the table, the pairs one by one, and the curve; quick: at most 300 points of a pair."""
    most = 300 if quick else None
    real = shortened(tuebingen_pairs(), most, seed)
    evidence = mh.CauseEffect().evidence(real.pairs)
    odds = from_other_sources(evidence, real)
    ways = {"both": odds, "trees alone": evidence[:, 0], "code length alone": evidence[:, 1]}
    rows: list[Row] = []
    curves = {}
    for name, chosen in (("first 82", real.numbers <= FIRST), ("all", real.numbers > 0)):
        rows += [scored(f"Tübingen, {name}", by, values, real, chosen) for by, values in ways.items()]
        curves[name] = decision_rate((odds * real.labels)[chosen], real.weights[chosen])
    for group in SIMULATED_DIGESTS:
        simulated = shortened(simulated_pairs(group), most)
        seen = mh.CauseEffect().evidence(simulated.pairs)
        rows += [scored(group, name, seen @ weights, simulated) for name, weights in shipped()[1].items()]
    show("Direction of cause-effect pairs", rows)
    save_table(rows, out / "causation.csv")
    save_table(
        {
            "pair": real.numbers,
            "first": [a for a, _ in real.names],
            "second": [b for _, b in real.names],
            "label": real.labels,
            "weight": real.weights,
            "trees": evidence[:, 0],
            "code length": evidence[:, 1],
            "probability": expit(odds),
        },
        out / "causation_pairs.csv",
    )
    save_table(
        [
            {"pairs": name, "decided": d, "accuracy": a}
            for name, curve in curves.items()
            for d, a in zip(*curve, strict=True)
        ],
        out / "causation_decisions.csv",
    )
    figure, axes = new_figure()
    ax = axes[0, 0]
    for (name, (decided, right)), colour in zip(curves.items(), (RED, BLUE), strict=True):
        ax.step(decided, right, where="post", color=colour, label=f"Tübingen, {name}")
    ax.axhline(PUBLISHED, color=SOFT, linestyle="--", label="published, all 82 decided")
    ax.axhline(0.5, color=SOFT, linestyle=":", label="a coin")
    ax.set(
        xlabel="share decided, the surest first", ylabel="weighted accuracy", xlim=(0, 1), ylim=(0.4, 1.02)
    )
    legend(ax, loc="lower right")
    save_figure(figure, out / "causation.png")
    return rows
