"""Sequences as they come: one or a list, in memory or read in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._tables import is_frame
from muhat.engine import Rows, as_source, paired_sources, rows_in_memory


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


__all__ = ["check_lengths", "is_list", "join", "sequences_of", "split"]
