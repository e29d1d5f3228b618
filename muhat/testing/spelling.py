"""Categories that two samples may spell differently, so that a table differs from itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muhat._tables import Encoder
from muhat.testing.missing import MISSING

SHOWN = 6  # pairs of categories
# What people write into cells that are missing, where nothing says that it is a category.
FILLED = ("", "-", "--", ".", "?", "n/a", "na", "nan", "none", "null", "missing", "unknown", "(missing)")


def loosely(level: str) -> str:
    """A category without what often differs by accident: case, blanks, and how a number is written."""
    text = " ".join(level.split()).casefold()
    try:
        return repr(float(text))
    except ValueError:
        return text


def spelling_doubts(
    first: Sequence[str], second: Sequence[str], names: Sequence[str], gaps: tuple[bool, bool]
) -> str:
    """What is odd about the categories of one column, in words; empty if nothing.

    Args:
        first: sorted categories of the first sample.
        second: of the second.
        names: of the samples.
        gaps: whether the column has missing cells, in each sample.
    """
    if not first or not second:  # all cells of a sample are missing
        return ""
    others: dict[str, list[str]] = {}
    for level in second:
        others.setdefault(loosely(level), []).append(level)
    alike = [(a, b) for a in first for b in others.get(loosely(a), []) if a != b]
    said = []
    if not set(first) & set(second):
        said.append(
            f"{names[0]} and {names[1]} have no category in common (e.g. {first[0]!r} and "
            f"{second[0]!r}), so that it alone tells them apart"
        )
    if alike:
        pairs = ", ".join(f"{a!r} and {b!r}" for a, b in alike[:SHOWN])
        more = f" and {len(alike) - SHOWN} more pairs" if len(alike) > SHOWN else ""
        said.append(
            f"{pairs}{more} may mean the same, the former in {names[0]} and the latter in {names[1]}, but "
            "count as different"
        )
    for side, own, other in ((0, first, second), (1, second, first)):
        if gaps[1 - side] and not gaps[side]:
            odd = [level for level in own if loosely(level) in FILLED and level not in other]
            if odd:
                listed = ", ".join(map(repr, odd))
                said.append(
                    f"{listed} in {names[side]} may mean a missing cell, which {names[1 - side]} has, but "
                    "counts as a category"
                )
    return "; ".join(said)


def doubtful_columns(x: np.ndarray, y: np.ndarray, encoder: Encoder, names: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each column of categories that x and y may spell differently."""
    out = []
    for j in sorted(set(encoder.categories) - set(encoder.indicators.values())):
        known = np.asarray(encoder.categories[j])
        pooled = np.concatenate([x[:, j], y[:, j]])
        if len(np.unique(pooled)) == len(pooled):
            out.append(
                f"Column {names[j]!r} has another category in every row, as a key or a name has: no two rows "
                "are alike in it, and it says nothing of the samples. Leave it out."
            )
            continue
        levels = [[str(v) for v in known[np.unique(A[:, j]).astype(int)]] for A in (x, y)]
        gaps = MISSING in levels[0], MISSING in levels[1]
        own = [[v for v in side if v != MISSING] for side in levels]
        said = spelling_doubts(own[0], own[1], ("x", "y"), gaps)
        if said:
            out.append(f"Column {names[j]!r}: {said}.")
    return tuple(out)


__all__ = ["doubtful_columns", "loosely", "spelling_doubts"]
