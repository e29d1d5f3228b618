"""Sequences as they come: one or a list, in memory or read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from muhat._tables import is_frame, missing_rows
from muhat._validation import DROP
from muhat.engine import Rows, as_source, paired_sources, rows_in_memory

# Pieces of a sequence that are written out in an error.
PIECES = 4


@contextmanager
def advise(remedy: str) -> Iterator[None]:
    """Errors about NaN and inf advise this: a row dropped from a sequence joins steps that were apart."""
    try:
        yield
    except ValueError as error:
        if DROP not in str(error):
            raise
        raise ValueError(str(error).replace(DROP, remedy)) from None


def split_at_gaps(pieces: str = "fit([X1, X2, …], [Z1, Z2, …])") -> str:
    """The remedy where training sequences have gaps."""
    return (
        "Do not drop these rows: those before and after would be taken for consecutive steps. Split the "
        f'sequence there with fit(X, Z, missing="split"), or pass lists of the pieces, {pieces}, or impute.'
    )


def check_gaps(xs: list[Any], zs: list[Any], listed: tuple[bool, bool]) -> None:
    """Raise where a row of a training sequence has a missing or infinite cell.

    ``listed`` says which of X and Z came as lists.
    """
    for i, pair in enumerate(zip(xs, zs, strict=True)):
        found = dict(zip("XZ", map(_gaps, pair), strict=True))
        for name, gone in found.items():
            if gone.any():
                where = f" of sequence {i}" if len(xs) > 1 else ""
                calls = _pieces(found["X"] | found["Z"], [i if many else None for many in listed])
                raise ValueError(
                    f"{name}{where} contains NaN or inf in {int(gone.sum())} of {len(gone)} rows, first in "
                    f"row {int(gone.argmax())}. {split_at_gaps(*calls)}"
                )


def split_sequences(xs: list[Any], zs: list[Any]) -> tuple[list[Any], list[Any]]:
    """The pieces between rows with a missing or infinite cell, those of a single row left out."""
    pieces = []
    for x, z in zip(xs, zs, strict=True):
        for a, b in _runs(_gaps(x) | _gaps(z)):
            if b - a > 1:
                pieces.append([getattr(part, "iloc", part)[a:b] for part in (x, z)])
    if not pieces:
        raise ValueError(
            "X and Z have no two consecutive rows without NaN or inf: impute the missing cells, or leave out "
            "the column that has most of them."
        )
    return [x for x, _ in pieces], [z for _, z in pieces]


def _runs(gone: np.ndarray) -> np.ndarray:
    """First row of each run without a gap, and the row after its last, (k, 2)."""
    return np.flatnonzero(np.diff(np.r_[True, gone, True].astype(int))).reshape(-1, 2)


def _gaps(part: Any) -> np.ndarray:
    if not is_frame(part):
        part = part.to_frame() if hasattr(part, "to_frame") else part
        part = part[:, None] if np.ndim(part) == 1 else part
    gone = missing_rows(part, infinite=True)
    return gone if len(gone) else np.zeros(len(part), dtype=bool)


def _pieces(gone: np.ndarray, places: list[int | None]) -> list[str]:
    """The call with the pieces of a sequence that have a step; none if they are many."""
    pieces = [f"[{a}:{b}]" for a, b in _runs(gone) if b - a > 1]
    if not 0 < len(pieces) <= PIECES:
        return []
    lists = []
    for name, i in zip("XZ", places, strict=True):
        parts = [f"{name}{'' if i is None else f'[{i}]'}{piece}" for piece in pieces]
        lists.append(", ".join(parts if i is None else [f"*{name}[:{i}]", *parts, f"*{name}[{i + 1}:]"]))
    return [f"fit([{lists[0]}], [{lists[1]}])"]


def sequences_of(X: Any, Z: Any) -> list[tuple[Rows, Rows]] | None:
    """Sequences, or one, as rows that are read in blocks if some are such; None where all are in memory."""
    listed = isinstance(X, (list, tuple)) and isinstance(Z, (list, tuple))
    if not listed:
        pair = paired_sources(X, Z)
        return None if pair is None else [pair]
    if all(as_source(part) is None for part in (*X, *Z)):
        return None
    if len(X) != len(Z):
        raise ValueError(f"X has {len(X)} sequences but Z has {len(Z)}: they come in pairs.")
    pairs = [
        paired_sources(x, z) or (rows_in_memory(x, "X"), rows_in_memory(z, "Z"))
        for x, z in zip(X, Z, strict=True)
    ]
    for i, pair in enumerate(pairs):
        for one, first, name in zip(pair, pairs[0], ("X", "Z"), strict=True):
            if one.shape[1] != first.shape[1] or one.names != first.names:
                raise ValueError(
                    f"{name} of sequence {i} has {one.shape[1]} columns ({one.names or 'without names'}), "
                    f"sequence 0 {first.shape[1]} ({first.names or 'without names'}): give all the same."
                )
    return pairs


def check_lengths(lengths: list[int]) -> None:
    for i, n in enumerate(lengths):
        if n < 2:
            where = f" of sequence {i}" if len(lengths) > 1 else ""
            raise ValueError(
                f"X{where} has {n} row{'s' if n != 1 else ''}: a sequence needs at least 2 to show a step; "
                "leave shorter ones out."
            )


def is_list(X: Any) -> bool:
    """Whether ``X`` is a list of sequences, and not one sequence written as nested lists of numbers."""
    return (
        isinstance(X, (list, tuple))
        and len(X) > 0
        and all(is_frame(x) or np.ndim(x) >= 1 for x in X)
        and (is_frame(X[0]) or np.ndim(X[0]) == 2)
    )


def split(X: Any, listed: bool, name: str) -> list[Any]:
    parts = list(X) if listed else [X]
    parts = [p if is_frame(p) or hasattr(p, "to_frame") else np.asarray(p) for p in parts]
    if any(np.ndim(p) == 0 for p in parts if not is_frame(p)):
        raise ValueError(f"{name} must be a sequence (T, d), or a list of them, got {X!r}: pass arrays.")
    return parts


def join(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if all(is_frame(p) for p in parts):
        names = {tuple(p.columns) for p in parts}
        if len(names) > 1:
            raise ValueError(f"The sequences have different columns, {sorted(names)}: give all the same.")
        if hasattr(parts[0], "vstack"):
            import polars as pl

            return pl.concat(parts)
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    columns = {np.shape(p)[1:] for p in parts}
    if len(columns) > 1:
        raise ValueError(f"The sequences have different columns, {sorted(columns)}: give all the same.")
    return np.concatenate(parts)


__all__ = [
    "advise",
    "check_gaps",
    "check_lengths",
    "is_list",
    "join",
    "sequences_of",
    "split",
    "split_at_gaps",
    "split_sequences",
]
