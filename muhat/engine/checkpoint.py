"""A file that a long pass over rows can go on from: sums so far, and how many pieces they hold."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from muhat._files import whole_file

# Seconds between two writes.
EVERY = 10.0


def digest(*things: Any) -> str:
    """A short name for arrays, kernels and numbers."""
    out = hashlib.sha256()
    for thing in things:
        leaves = thing.leaves() if hasattr(thing, "leaves") else []
        out.update(repr(type(thing) if isinstance(thing, np.ndarray) else thing).encode())
        for array in [thing, *leaves] if isinstance(thing, np.ndarray) else leaves:
            out.update(np.ascontiguousarray(array).tobytes())
    return out.hexdigest()[:16]


class CheckpointMismatch(ValueError):
    """A checkpoint is of another fit than the one asked for."""


class Checkpoint:
    """The state of the passes of one fit, in a file without pickle.

    Args:
        path: of the file; it is removed when the fit is done.
        settings: what must be the same for the fit to go on, e.g. the estimator's parameters.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Any) -> None:
        self.path = Path(path)
        self.key = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()
        self.passes: dict[str, tuple[int, tuple[np.ndarray, ...]]] = {}
        self.written = monotonic()
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint is in no folder that exists: make {self.path.parent} first.")
        if self.path.exists():
            self._read()

    def resume(self, label: str) -> tuple[int, Any]:
        """The number of pieces that a pass has done and its sums; all of them if it was finished."""
        pieces, state = self.passes.get(label, (0, None))
        return (1 << 62 if pieces < 0 else pieces), state

    def store(self, label: str, pieces: int, state: tuple[np.ndarray, ...], at_once: bool = False) -> None:
        """Remember the sums after so many pieces, −1 for all; written every few seconds, or at once."""
        self.passes[label] = (pieces, state)
        if at_once or monotonic() - self.written >= EVERY:
            self._write()

    def finish(self) -> None:
        """The fit is done: the file has had its use."""
        self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        arrays: dict[str, Any] = {"key": np.array(self.key)}
        for label, (pieces, state) in self.passes.items():
            arrays[f"{label}|pieces"] = np.array(pieces)
            arrays |= {f"{label}|{i}": np.asarray(a) for i, a in enumerate(state)}
        # Whole or not at all: a run that is killed here leaves the file before.
        with whole_file(self.path) as draft, open(draft, "wb") as file:
            np.savez(file, **arrays)
        self.written = monotonic()

    def _read(self) -> None:
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                arrays = dict(stored)
            key = str(arrays.pop("key"))
        except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
            raise CheckpointMismatch(
                f"checkpoint {str(self.path)!r} is no file of a fit ({error}): give another path."
            ) from None
        if key != self.key:
            raise CheckpointMismatch(
                f"checkpoint {str(self.path)!r} was begun by a fit with other parameters or columns: call "
                "with those to go on, or give the path of a new file."
            )
        for label in {name.split("|")[0] for name in arrays}:
            count = sum(name.startswith(f"{label}|") for name in arrays) - 1
            state = tuple(arrays[f"{label}|{i}"] for i in range(count))
            self.passes[label] = (int(arrays[f"{label}|pieces"]), state)
