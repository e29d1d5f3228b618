"""Files of arrays that the user puts in place, checked number by number."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence

import numpy as np

from muhat.datasets.base import find_file


def digest(arrays: Sequence[np.ndarray]) -> str:
    """SHA-256 of the numbers of arrays and of their shapes, whatever type they were stored in."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(repr(array.shape).encode())
        total.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return total.hexdigest()


def read_arrays(file: str, what: str, content: str, names: Sequence[str], expected: str) -> list[np.ndarray]:
    """Arrays of an .npz file in the folder MUHAT_DATA, by name.

    Args:
        file: its name.
        what: what it is, to begin messages with: "The terrain".
        content: what the file holds and where it comes from, to end messages with.
        names: of the arrays, numbers all.
        expected: their :func:`digest`.
    """
    path = find_file(file, what, content)
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = [stored[name] for name in names]
        same = digest(arrays) == expected
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not the file expected ({error}): replace it. {content}") from error
    if not same:
        raise ValueError(
            f"{path} does not hold the expected numbers (their checksum differs): replace it. {content}"
        )
    return arrays
