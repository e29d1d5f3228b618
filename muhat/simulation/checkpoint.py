"""A file that simulations are written to as they come: text, no pickle, what is in it survives a kill.

The first line says what is being simulated; each further line is one simulation, its number and either its
output (base64 of little-endian doubles) or the message of its failure. A last line cut short is left out.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1
Outcome = np.ndarray | str  # an output (d,), or why there is none


class CheckpointMismatch(ValueError):
    """A checkpoint holds other simulations than those asked for."""


class Checkpoint:
    """Outcomes by the number of their simulation, in memory and (if a path is given) in a file.

    Attributes:
        outcomes: of the simulations done.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = None if path is None else Path(path)
        self.outcomes: dict[int, Outcome] = {}
        self._file: Any = None
        self._stored: dict[str, Any] | None = None
        if self.path is not None and self.path.exists():
            self._read()

    @property
    def seed(self) -> list[int] | None:
        """The seed that the file was begun with."""
        return None if self._stored is None else self._stored["seed"]

    def begin(self, settings: dict[str, Any]) -> None:
        """Compare ``settings`` with those of the file, or write them to a new one."""
        if self.path is None:
            return
        if self._stored is not None:
            self._compare(settings)
        elif not self.path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint is in no folder that exists: make {self.path.parent} first.")
        self._file = open(self.path, "a", encoding="ascii")  # noqa: SIM115 - closed by close
        if self._stored is None:
            self._write({"muhat simulations": FORMAT, **settings})

    def add(self, outcomes: dict[int, Outcome]) -> None:
        """Remember outcomes, and have them in the file before anything else happens."""
        self.outcomes.update(outcomes)
        if self._file is not None:
            for i, outcome in outcomes.items():
                self._write({"i": i, "error": outcome} if isinstance(outcome, str) else _packed(i, outcome))
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")

    def _compare(self, settings: dict[str, Any]) -> None:
        assert self._stored is not None
        for key, value in settings.items():
            stored = self._stored.get(key)
            if stored != value:
                shown = "" if key in ("theta", "seed") else f" ({stored!r} there, {value!r} here)"
                what = {"theta": "other draws of prior", "seed": "another random_state"}.get(
                    key, f"another {key}"
                )
                raise CheckpointMismatch(
                    f"checkpoint {str(self.path)!r} was begun with {what}{shown}: call with that to go "
                    "on, or give the path of a new file."
                )

    def _read(self) -> None:
        assert self.path is not None
        data = self.path.read_bytes()
        lines = data.split(b"\n")
        whole = sum(map(len, lines[:-1])) + len(lines) - 1  # up to the last line end
        try:
            if len(lines) > 1:
                header, *records = [json.loads(line) for line in lines[:-1]]
                if header.pop("muhat simulations") != FORMAT:
                    raise ValueError("another version of the format")
                self.outcomes = {int(r["i"]): r.get("error") or _unpacked(r["x"]) for r in records}
                self._stored = header
            elif data and not b'{"muhat simulations"'.startswith(data[:20]):
                raise ValueError("no first line")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointMismatch(
                f"checkpoint {str(self.path)!r} is no file of simulations ({error}): give another path."
            ) from None
        if whole < len(data):
            with open(self.path, "r+b") as file:  # killed while writing: that simulation is done again
                file.truncate(whole)


def _packed(i: int, x: np.ndarray) -> dict[str, Any]:
    return {"i": i, "x": base64.b64encode(np.ascontiguousarray(x, dtype="<f8").tobytes()).decode()}


def _unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(np.float64)
