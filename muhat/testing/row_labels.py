"""Reading groups, blocks, strata and weights: arrays, or names of columns, which leave the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from muhat._tables import _is_missing, is_frame
from muhat.testing.missing import gaps_of, rows_of
from muhat.testing.restricted import Design, codes
from muhat.testing.samples import as_table

Given = dict[str, Any]


def is_given(given: Given) -> bool:
    """Whether there is anything to read."""
    return any(value is not None for value in given.values())


def refuse_streams(given: Given) -> None:
    """Raise for rows that are read in blocks."""
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise ValueError(
            f"{' and '.join(named)} need all rows in memory, but these are read in blocks: load them into an "
            "array or a frame."
        )


def check_method(method: str, given: Given) -> None:
    """Raise for nulls that know no design."""
    if method == "gamma":
        raise ValueError(
            "the gamma approximation has the moments of all permutations, and knows of no groups, strata or "
            "weights: leave it out."
        )
    if method == "wild" and given["groups"] is None and given["weights"] is None:
        raise ValueError(
            'method="wild" keeps the memory of one series, and knows of no strata: use method="permutation", '
            "or give groups of rows, such as months."
        )


def tables_and_design(
    tables: Sequence[Any],
    names: Sequence[str],
    given: Given,
    method: str,
    missing: str,
    paired: bool,
    streamed: bool = False,
) -> tuple[Sequence[Any], Design | None, int]:
    """As :func:`designed`; refuses what knows no design, and does nothing where nothing is given."""
    if not is_given(given):
        return tables, None, 0
    if streamed:
        refuse_streams(given)
    check_method(method, given)
    return designed(tables, names, given, missing, paired)


def designed(
    tables: Sequence[Any], names: Sequence[str], given: Given, missing: str, paired: bool
) -> tuple[list[Any], Design | None, int]:
    """The tables without columns that are named, the design of the rows that take part, and rows left out.

    Args:
        tables: of the test.
        names: of the tables.
        given: groups, blocks, strata and weights, as given.
        missing: what is done with missing cells: dropped rows have no part in the design.
        paired: whether rows of the tables go together; else the design is of all rows, one table after the
            other.

    Returns:
        The design is None where it restricts nothing. Rows of weight 0 are left out.
    """
    tables = [as_table(X) for X in tables]
    sizes = [len(X) for X in tables]
    if paired and len(set(sizes)) > 1:
        return list(tables), None, 0  # the test says which lengths differ
    read: dict[str, np.ndarray] = {}
    used: set[str] = set()
    for what, value in given.items():
        if value is None:
            continue
        columns = _columns_named(value, tables)
        if columns:
            used |= set(columns)
            parts = [_from_columns(columns, what, tables, names, side) for side in _sides(paired, sizes)]
        else:
            parts = _given_parts(value, what, names, sizes, paired)
        lengths = sizes[:1] if paired else sizes
        read[what] = _pooled(parts, what, lengths, names, paired)
    tables = [_without(X, used, name) for X, name in zip(tables, names, strict=True)]
    N = sizes[0] if paired else sum(sizes)
    weights = read.get("weights")
    kept = np.ones(N, dtype=bool) if weights is None else weights > 0
    if not kept.all():
        sides = [kept] * len(tables) if paired else np.split(kept, np.cumsum(sizes)[:-1])
        tables = [rows_of(X, side) for X, side in zip(tables, sides, strict=True)]
    read = {what: labels[kept] for what, labels in read.items()}
    if missing == "drop":
        whole = _whole(tables, paired)
        read = {what: labels[whole] for what, labels in read.items()}
    return list(tables), _design(read), int((~kept).sum())


def _design(read: dict[str, np.ndarray]) -> Design | None:
    """What the labels say, without what restricts nothing."""
    n = len(next(iter(read.values())))
    named = [what for what in ("blocks", "strata") if what in read]
    strata = np.zeros(n, np.int64)
    if named:
        strata = codes(np.stack([read[what] for what in named], axis=1))
    groups, weights = read.get("groups"), read.get("weights")
    if groups is not None:
        groups = codes(groups)
        if n > 1 and not groups.any():
            raise ValueError(
                "groups holds one group: nothing can move. Groups are what is repeated, such as persons or "
                "clinics; there must be two or more."
            )
        low, high = np.full(groups.max() + 1, n), np.full(groups.max() + 1, -1)
        np.minimum.at(low, groups, strata)
        np.maximum.at(high, groups, strata)
        cut = np.flatnonzero(low != high)
        if len(cut):
            rows = np.flatnonzero(groups == cut[0])
            other = rows[strata[rows] != strata[rows[0]]][0]
            raise ValueError(
                f"{' and '.join(named)} cut {len(cut)} of {groups.max() + 1} groups: rows {rows[0]} and "
                f"{other} are in one group, but not in one stratum. A group moves whole within one stratum. "
                "Where rows change places within what both name, give them as blocks and as strata."
            )
        if groups.max() + 1 == n:
            groups = None
    if weights is not None:
        weights = None if (weights == weights[0]).all() else weights / weights.mean()
    if groups is None and weights is None and not strata.any():
        return None
    return Design(strata, groups, weights)


def _sides(paired: bool, sizes: list[int]) -> list[int | None]:
    return [None] if paired else list(range(len(sizes)))


def _columns_named(value: Any, tables: Sequence[Any]) -> list[str]:
    """The names of columns that ``value`` is, or nothing."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, str) for v in value):
        known = {str(c) for X in tables if is_frame(X) for c in X.columns}
        return list(value) if set(value) <= known else []
    return []


def _from_columns(
    columns: list[str], what: str, tables: Sequence[Any], names: Sequence[str], side: int | None
) -> Any:
    """Columns of one table, or, where rows go together, of the first that has them; (n,) or (n, k)."""
    out = []
    searched = list(zip(tables, names, strict=True))
    searched = searched if side is None else [searched[side]]
    for column in columns:
        where = [X for X, _ in searched if is_frame(X) and column in map(str, X.columns)]
        if not where:
            raise ValueError(
                f"{what}={column!r} is no column of {' or '.join(name for _, name in searched)}: name a "
                "column of a frame, or pass one value for each row."
            )
        by_name = {str(c): c for c in where[0].columns}
        out.append(np.asarray(where[0][by_name[column]]))
    return out[0] if len(out) == 1 else np.stack([codes_of(c, what) for c in out], axis=1)


def _given_parts(value: Any, what: str, names: Sequence[str], sizes: list[int], paired: bool) -> list[Any]:
    if paired:
        return [value]
    if not (isinstance(value, (tuple, list)) and len(value) == 2):
        raise ValueError(
            f"{what} must be a pair, one array for {names[0]} and one for {names[1]}, {what}=({what[0]}x, "
            f"{what[0]}y), or the name of a column of both; got {type(value).__name__}."
        )
    if any(part is None for part in value) and what != "weights":
        raise ValueError(f"{what} has None for one sample: give labels for the rows of both.")
    return [np.ones(n) if part is None else part for part, n in zip(value, sizes, strict=True)]


def _pooled(parts: list[Any], what: str, sizes: list[int], names: Sequence[str], paired: bool) -> np.ndarray:
    """Codes or weights of all rows, (N,)."""
    arrays = [np.asarray(part) for part in parts]
    for array, n, name in zip(arrays, sizes, names, strict=False):
        of = "" if paired else f" for {name}"
        if array.ndim == 0 or len(array) != n:
            got = f"{len(array)} values" if array.ndim else "one"
            raise ValueError(f"{what}{of} has {got}, but {name} has {n} rows: pass one value for each row.")
    if what == "weights":
        each = [
            _weights(array, name if not paired else "") for array, name in zip(arrays, names, strict=False)
        ]
        # Each sample is a population of its own: its weights say nothing beside those of the other.
        return np.concatenate([w / w[w > 0].mean() for w in each]) if len(each) > 1 else each[0]
    if len({array.ndim for array in arrays}) > 1 or len({array.shape[1:] for array in arrays}) > 1:
        raise ValueError(f"{what} has another number of columns for {names[0]} than for {names[1]}.")
    kinds = {"number" if array.dtype.kind in "biuf" else "text" for array in arrays}
    if len(kinds) > 1:
        raise ValueError(
            f"{what} holds numbers for one sample and text for the other: the same label means the same "
            f"{what}, so convert both to one kind."
        )
    return codes_of(np.concatenate(arrays), what)


def codes_of(labels: np.ndarray, what: str) -> np.ndarray:
    """Labels (n,) or (n, k) as whole numbers, none of which may be missing."""
    if labels.ndim > 2:
        raise ValueError(f"{what} must be one label for each row, got an array of shape {labels.shape}.")
    if labels.ndim == 2:
        return codes(np.stack([codes_of(column, what) for column in labels.T], axis=1))
    empty = (
        np.isnan(labels)
        if labels.dtype.kind == "f"
        else np.array([_is_missing(v) for v in labels], dtype=bool)
        if labels.dtype.kind in "OmM"
        else np.zeros(len(labels), dtype=bool)
    )
    if empty.any():
        raise ValueError(
            f"{what} has {empty.sum()} missing labels, first at row {np.flatnonzero(empty)[0]}: give such "
            "rows a label, or drop them."
        )
    return codes(labels.astype(str) if labels.dtype == object else labels)


def _weights(values: np.ndarray, name: str) -> np.ndarray:
    of = f" for {name}" if name else ""
    try:
        w = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"weights{of} must be numbers, one for each row.") from None
    if w.ndim != 1:
        raise ValueError(f"weights{of} must be one number for each row, got an array of shape {w.shape}.")
    bad = np.flatnonzero(~np.isfinite(w) | (w < 0))
    if len(bad):
        raise ValueError(
            f"weights{of} must be finite and not negative, but row {bad[0]} has {w[bad[0]]:g}: give 0 to "
            "rows that shall not count."
        )
    if not (w > 0).any():
        raise ValueError(f"weights{of} are all 0: some row must count.")
    return w


def _without(X: Any, used: set[str], name: str) -> Any:
    """A table without some columns, if it is a frame."""
    if not used or not is_frame(X):
        return X
    left = [c for c in X.columns if str(c) not in used]
    if not left:
        raise ValueError(
            f"{name} has no column left once {', '.join(sorted(used))} are taken out: pass the columns to "
            "test, too."
        )
    return X[left] if len(left) < X.shape[1] else X


def _whole(tables: Sequence[Any], paired: bool) -> np.ndarray:
    """Rows without missing cells, which are those that missing="drop" keeps."""
    cells = [gaps_of(X) for X in tables]
    rows = [
        np.ones(len(X), bool) if c is None else ~c.any(axis=1) for c, X in zip(cells, tables, strict=True)
    ]
    return np.all(rows, axis=0) if paired else np.concatenate(rows)


__all__ = ["check_method", "designed", "is_given", "refuse_streams"]
