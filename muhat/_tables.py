"""From tables to arrays of numbers: text and categorical columns become codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._validation import as_rows, check_shape, refuse_dates


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a data frame (pandas, polars or alike)."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and hasattr(X, "shape")


@dataclass(frozen=True)
class Encoder:
    """How the columns of a table become numbers.

    Attributes:
        names: column names, or None for a plain array.
        categories: for each categorical column, its index → its sorted values. A value that was not
            there when the encoder was made gets the code −1, which equals no known category.
    """

    names: list[str] | None = None
    categories: dict[int, np.ndarray] = field(default_factory=dict)

    def transform(self, X: Any, name: str = "X") -> Array:
        """``X`` as a finite array (n, d), by the categories seen when the encoder was made."""
        if not is_frame(X):
            return as_rows(X, name)
        names = _names(X, name)
        if self.names is not None and names != self.names:
            raise ValueError(
                f"{name} has columns {names} but {self.names} were seen before: "
                "pass the same columns in the same order."
            )
        if not self.categories:
            return as_rows(X, name)
        for j, c in enumerate(X.columns):
            if j not in self.categories:
                refuse_dates(X[c], f"{name}[{names[j]!r}]", c)
        columns = [
            _codes(X[c], self.categories[j], f"{name}[{names[j]!r}]")
            if j in self.categories
            else as_rows(np.asarray(X[c]).reshape(-1, 1), f"{name}[{names[j]!r}]")[:, 0]
            for j, c in enumerate(X.columns)
        ]
        return as_rows(np.stack(columns, axis=1), name)

    @property
    def indicators(self) -> dict[int, int]:
        """Column → the column that says which of its cells are missing; none here, where no cell may be."""
        return {}

    def agrees(self, other: Encoder) -> bool:
        """Whether both give every category the same code."""
        mine, theirs = self.categories, other.categories
        return mine.keys() == theirs.keys() and all(np.array_equal(mine[j], theirs[j]) for j in mine)

    def recode(self, points: Array, other: Encoder, name: str) -> Array:
        """Rows that ``other`` encoded, in the codes of this encoder."""
        if self.names is not None and other.names is not None and self.names != other.names:
            raise ValueError(
                f"{name} has columns {other.names} but {self.names} were seen before: "
                "pass the same columns in the same order."
            )
        if not other.categories or self.agrees(other):
            return points
        out = np.array(points)
        for j, labels in other.categories.items():
            if j not in self.categories:
                raise ValueError(f"Column {j} of {name} holds categories, but numbers were seen before.")
            known = points[:, j] >= 0
            out[known, j] = _codes(labels, self.categories[j], name)[points[known, j].astype(int)]
        return out

    def beside(self, other: Encoder, d: int) -> Encoder:
        """The encoder of rows with the columns of ``other`` after the ``d`` columns of this one."""
        known = self.names is not None and other.names is not None
        names = [*self.names, *other.names] if known else None  # type: ignore[misc]
        return Encoder(names, {**self.categories, **{d + j: c for j, c in other.categories.items()}})


def encode(X: Any, name: str = "X", min_rows: int = 1, also: Any = None) -> tuple[Encoder, Array]:
    """An encoder made from ``X``, and ``X`` as an array (n, d).

    The encoder also knows the categories of another table ``also``.
    """
    if not is_frame(X):
        return Encoder(), as_rows(X, name, min_rows)
    names = _names(X, name)
    check_shape(X.shape, name, min_rows)
    tables = [X, also] if is_frame(also) and _names(also, "the other table") == names else [X]
    categories = {
        j: np.unique(np.concatenate([_labels(table[c], f"{name}[{str(c)!r}]") for table in tables]))
        for j, c in enumerate(X.columns)
        if _is_category(X[c])
    }
    encoder = Encoder(names, categories)
    return encoder, as_rows(encoder.transform(X, name), name, min_rows)


def _names(X: Any, name: str) -> list[str]:
    names = [str(c) for c in X.columns]
    twice = sorted({c for c in names if names.count(c) > 1})
    if twice:
        raise ValueError(f"{name} has several columns named {twice}: give every column its own name.")
    return names


def _is_category(column: Any) -> bool:
    if str(column.dtype).split("(")[0] in ("category", "Categorical", "Enum"):
        return True
    values = np.asarray(column)
    if values.dtype.kind in "US":
        return True
    return values.dtype == object and any(isinstance(v, str) for v in values)


def _labels(column: Any, name: str) -> np.ndarray:
    values = np.asarray(column, dtype=object)
    missing = [i for i, v in enumerate(values) if _is_missing(v)]
    if missing:
        raise ValueError(
            f"{name} has missing (NaN) cells, first at row {missing[0]}, {len(missing)} in all: drop "
            "these rows or give them a category of their own."
        )
    return values.astype(str)


def missing_rows(X: Any, infinite: bool = False) -> Array:
    """Which rows of a table have a missing (NaN, None, NA) cell, (n,); none where ``X`` is no table.

    With ``infinite`` also those with an infinite number.
    """
    if is_frame(X):
        columns = [np.asarray(X[c]) for c in X.columns]
    else:
        A = np.asarray(X)
        if A.ndim != 2 or A.dtype.kind not in "fO":
            return np.zeros(0, dtype=bool)
        columns = list(A.T)
    cells = [_missing_cells(column, infinite) for column in columns]
    return np.any(cells, axis=0) if cells else np.zeros(0, dtype=bool)


def _missing_cells(column: np.ndarray, infinite: bool) -> np.ndarray:
    if column.dtype.kind in "biu":
        return np.zeros(len(column), dtype=bool)
    if column.dtype.kind == "f":
        return ~np.isfinite(column) if infinite else np.isnan(column)
    return np.array([_is_missing(v) for v in column.astype(object)], dtype=bool)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither true nor false
        return True


def _codes(column: Any, categories: np.ndarray, name: str) -> np.ndarray:
    labels = _labels(column, name)
    codes = np.searchsorted(categories, labels).clip(max=len(categories) - 1)
    return np.where(categories[codes] == labels, codes, -1).astype(np.float64)
