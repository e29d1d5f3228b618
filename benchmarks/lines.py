"""Lines of a file, one a dataclass, added as they are made, so that a run which was stopped can go on."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

Line = TypeVar("Line")
_KINDS = {"int": int, "float": float, "str": str}


def read(path: Path, kind: type[Line]) -> list[Line]:
    """The lines of a file, none if there is no file."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [kind(**_values(kind, row)) for row in csv.DictReader(file)]


def _values(kind: Any, row: dict[str, str]) -> dict[str, Any]:
    return {f.name: _KINDS[str(f.type)](row[f.name]) for f in fields(kind)}


def append(path: Path, line: Any) -> None:
    """Add a line to the file, and the names of the columns to a new one."""
    new = not path.is_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(line)], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(asdict(line))


def names(text: str, known: Sequence[str], option: str) -> list[str]:
    """Names between commas, each of which is known; else the end, with what is."""
    given = text.split(",")
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SystemExit(f"{option} has {', '.join(unknown)}: choose from {', '.join(known)}.")
    return given
