"""Pairs of variables whose causal direction is known: files that the user puts in place."""

from __future__ import annotations

import csv
from typing import NamedTuple

import numpy as np

from muhat._validation import check_choice
from muhat.datasets.arrays import read_arrays
from muhat.datasets.base import find_file

TUEBINGEN, META = "tuebingen_pairs.npz", "tuebingen_pairs_meta.csv"
TUEBINGEN_CONTENT = (
    "tuebingen_pairs.npz holds the arrays pair0001 to pair0108 of the CauseEffectPairs of Mooij et al. "
    "(2016), and tuebingen_pairs_meta.csv their table: pair, direction (-> or <-), weight, univariate (0 or "
    "1), var1, var2."
)
TUEBINGEN_DIGEST = "aba8e8d7bfd9b5c092b244cd7c423c892b57e17e5caec7ece9488365b928a023"
SIMULATED = "cause_effect_simulated.npz"
SIMULATED_CONTENT = (
    "It holds, for each group of SIM, SIM-G (Mooij et al. 2016), AN and LS (Tagasovska et al. 2020), the "
    "array group (100, 1000, 2) and the column of the cause, group_cause_col (100,): as in the repository "
    "tagas/bQCD."
)
SIMULATED_DIGESTS = {
    "SIM": "f6a0ddcb1abc380cc7e089d4474f53d05e995f81d57610f5994e16216dd5cb61",
    "SIM-G": "9f43e3f7518f6d338180f7b4ac13ab2e6596079d4346bff6f996ba7f4d1ef6d6",
    "AN": "2fd91334c659296c7845945389947012f8dc76de746de4f9152b81bf084a8f08",
    "LS": "dd938c21421fad03c65a36679e8f13c993911ff0e08918c2ecfb3f641d60636e",
}


class CausalPairs(NamedTuple):
    """Pairs with their directions.

    Attributes:
        pairs: arrays (n, 2), n differs.
        labels: 1 where the first column is the cause, −1 where the second is.
        weights: pairs from one source share a weight of 1.
        numbers: of the pairs, from 1.
        names: of the two variables.
        sources: where measured pairs come from; empty for simulated ones.
    """

    pairs: list[np.ndarray]
    labels: np.ndarray
    weights: np.ndarray
    numbers: np.ndarray
    names: list[tuple[str, str]]
    sources: tuple[str, ...] = ()


def tuebingen_pairs() -> CausalPairs:
    """The 102 univariate ones of 108 pairs of measured variables, such as altitude and temperature [MPJZS16].

    muhat neither ships nor downloads them: they are read from ``tuebingen_pairs.npz`` and
    ``tuebingen_pairs_meta.csv`` in the folder in the environment variable MUHAT_DATA, and their numbers are
    compared with a checksum.
    """
    what = "The collection of cause-effect pairs"
    path = find_file(META, "The table of the cause-effect pairs", TUEBINGEN_CONTENT)
    keys = [f"pair{i:04d}" for i in range(1, 109)]
    arrays = read_arrays(TUEBINGEN, what, TUEBINGEN_CONTENT, keys, TUEBINGEN_DIGEST)
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        chosen = [(i, row) for i, row in enumerate(rows) if row["univariate"] == "1"]
        if [row["pair"] for row in rows] != keys or len(chosen) != 102:
            raise ValueError("its rows are not the 108 pairs")
        return CausalPairs(
            [arrays[i] for i, _ in chosen],
            np.array([{"->": 1, "<-": -1}[row["direction"]] for _, row in chosen]),
            np.array([float(row["weight"]) for _, row in chosen]),
            np.array([i + 1 for i, _ in chosen]),
            [(row["var1"], row["var2"]) for _, row in chosen],
            tuple(row.get("source", "") for _, row in chosen),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{path} is not the file expected ({error}): replace it. {TUEBINGEN_CONTENT}"
        ) from error


def simulated_pairs(group: str) -> CausalPairs:
    """100 simulated pairs of 1000 points.

    muhat neither ships nor downloads them: they are read from ``cause_effect_simulated.npz`` in the folder in
    the environment variable MUHAT_DATA, and their numbers are compared with a checksum.

    Args:
        group: ``"SIM"`` (nonlinear, any noise), ``"SIM-G"`` (nearly Gaussian) [MPJZS16], ``"AN"`` (additive
            noise) or ``"LS"`` (noise whose scale depends on the cause) [TCV20].
    """
    check_choice(group, "group", tuple(SIMULATED_DIGESTS))
    names = [group, f"{group}_cause_col"]
    pairs, columns = read_arrays(
        SIMULATED, "The simulated pairs", SIMULATED_CONTENT, names, SIMULATED_DIGESTS[group]
    )
    count = len(pairs)
    return CausalPairs(
        [np.asarray(pair, dtype=np.float64) for pair in pairs],
        np.where(columns == 0, 1, -1),
        np.ones(count),
        np.arange(1, count + 1),
        [("x", "y")] * count,
    )
