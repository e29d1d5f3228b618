"""Four tables of UCI with two classes: a file that the user puts in place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muhat._validation import check_choice
from muhat.datasets.arrays import read_arrays

FILE = "ep_binary_classification.npz"
CONTENT = (
    "It holds, for banknote, blood_transfusion, fertility and ionosphere, the arrays name_Xnorm, name_y and "
    "name_train: tables of the UCI repository with the splits of Jitkrittum et al. (2015), as in the "
    "repository wittawatj/kernel-ep."
)
DIGESTS = {
    "banknote": "e9ae9c3cc753488de66791040bfbd7c7df8bb4a669c609889c53558fbadb8b26",
    "blood_transfusion": "8a62be36c00adbec7f5ba791d80091a32129a46e3f0beb1ef1020daa99f330a6",
    "fertility": "84340456512a06dbf2696daef4ee6606c563508d557458e81f6ec6d6ffe773e4",
    "ionosphere": "872355f66ef3a0f5d3d781b2378cf80449c24386fca55b7b792bc6b9575c7494",
}


class Classes(NamedTuple):
    """Inputs ``X`` (n, d) of mean 0 and variance 1, labels ``y`` (n,) 0 and 1, and which rows train (n,)."""

    X: np.ndarray
    y: np.ndarray
    train: np.ndarray


def uci_binary(name: Any) -> Classes:
    """A table with two classes and the split of [JIT15].

    muhat neither ships nor downloads it: it is read from ``ep_binary_classification.npz`` in the folder in
    the environment variable MUHAT_DATA, and its numbers are compared with a checksum.

    Args:
        name: ``"banknote"`` (1372 × 4, 201 to train), ``"blood_transfusion"`` (748 × 4, 201),
            ``"fertility"`` (100 × 9, 50) or ``"ionosphere"`` (351 × 33, 201).
    """
    check_choice(name, "name", tuple(DIGESTS))
    names = [f"{name}_{part}" for part in ("Xnorm", "y", "train")]
    X, y, train = read_arrays(FILE, "The tables with two classes", CONTENT, names, DIGESTS[name])
    return Classes(np.asarray(X, dtype=np.float64), y.astype(np.int64), train.astype(bool))


__all__ = ["Classes", "uci_binary"]
