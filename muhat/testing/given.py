"""What z must not be: x or y itself, or another category in every row; and where it says too much to test."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from muhat._tables import Encoder
from muhat.testing.samples import column_names, what_it_says

FEWEST_ROWS = 3  # for each column of z, of which regressions can learn anything
FEWEST = 30  # rows at all
NOTHING = 1e-3  # share of the variance of x that z leaves, below which nothing is left to test
FEW = 5  # rows of a category, fewer than which say little of it
MANY = 0.3  # share of the rows in such categories

Table = tuple[np.ndarray, Encoder]  # columns of numbers and of codes of categories


def refuse_known(x: Table, y: Table, z: Table) -> None:
    """Raise where nothing can be asked: a column of x or y is one of z, or each row of z is a category."""
    names = column_names(z[1], z[0].shape[1], "z")
    seen: dict[bytes, str] = {}
    for j, name in enumerate(names):
        if (z[0][:, j] == z[0][0, j]).all():
            continue  # it says nothing
        for key in _keys(z[0][:, j], j in z[1].categories):
            seen.setdefault(key, name)
        if j in z[1].categories and len(np.unique(z[0][:, j])) == len(z[0]):
            raise ValueError(
                f"column {name!r} of z has another category in every row: given it no two rows can be "
                "compared. Leave it out, or group its categories."
            )
    for (A, encoder), side in ((x, "x"), (y, "y")):
        for j, name in enumerate(column_names(encoder, A.shape[1], side)):
            for key in _keys(A[:, j], j in encoder.categories):
                if key in seen:
                    raise ValueError(
                        f"column {name!r} of {side} says the same as {seen[key]!r} of z (each is a function "
                        "of the other): once z is known it is known, and independent of everything. Leave it "
                        f"out of {side} or of z."
                    )


def _keys(z: np.ndarray, category: bool) -> list[bytes]:
    """What a column says; of few numbers, which may have the same order by chance, the numbers themselves."""
    return what_it_says(z, category) if category or len(z) >= FEWEST else [z.tobytes()]


def doubts_about(sides: Iterable[Table], z: Table, left: Iterable[float]) -> tuple[str, ...]:
    """Sentences on why nothing can be said given this z.

    Args:
        sides: x and y.
        z: what is given.
        left: share of the variance of x and of y that regressions on z leave of rows that they saw.
    """
    Z, encoder = z
    n, d = Z.shape
    out = []
    if n < FEWEST_ROWS * d:
        out.append(
            f"z has {d} columns and there are only {n} rows: what z says of x and y cannot be learned, and "
            "what it does not explain may look like dependence."
        )
    elif n < FEWEST:
        out.append(f"There are only {n} rows: what z says of x and y cannot be learned from so few.")
    rare = [
        name
        for j, name in enumerate(column_names(encoder, d, "z"))
        if j in encoder.categories and _in_few(Z[:, j]) > MANY
    ]
    if rare:
        out.append(
            f"{', '.join(rare)} of z {'has' if len(rare) == 1 else 'have'} many categories with fewer than "
            f"{FEW} rows: what they say of x and y cannot be learned."
        )
    for (A, _), name, share in zip(sides, "xy", left, strict=True):
        if share < NOTHING or _determined(A, Z):
            out.append(f"z determines {name}, so that nothing is left of it to depend on anything.")
    return tuple(out)


def _in_few(z: np.ndarray) -> float:
    """The share of rows in categories with few rows."""
    count = np.unique(z, return_counts=True)[1]
    return float(count[count < FEW].sum() / len(z))


def _determined(A: np.ndarray, Z: np.ndarray) -> bool:
    """Whether rows with the same z, of which there are enough, have the same x."""
    _, group, count = np.unique(Z, axis=0, return_inverse=True, return_counts=True)
    if len(count) > len(Z) / 2:
        return False
    pairs = np.unique(np.column_stack([group.reshape(-1), A]), axis=0)
    return len(pairs) == len(count)


__all__ = ["doubts_about", "refuse_known"]
