"""From tables to arrays of numbers: text and categorical columns become codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._validation import as_rows


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
        names = [str(c) for c in X.columns]
        if self.names is not None and names != self.names:
            raise ValueError(
                f"{name} has columns {names} but {self.names} were seen before: "
                "pass the same columns in the same order."
            )
        if not self.categories:
            return as_rows(X, name)
        columns = [
            _codes(X[c], self.categories[j], f"{name}[{names[j]!r}]")
            if j in self.categories
            else as_rows(np.asarray(X[c]).reshape(-1, 1), f"{name}[{names[j]!r}]")[:, 0]
            for j, c in enumerate(X.columns)
        ]
        return as_rows(np.stack(columns, axis=1), name)


def encode(X: Any, name: str = "X", min_rows: int = 1) -> tuple[Encoder, Array]:
    """An encoder made from ``X``, and ``X`` as an array (n, d)."""
    if not is_frame(X):
        return Encoder(), as_rows(X, name, min_rows)
    categories = {
        j: np.unique(_labels(X[c], f"{name}[{str(c)!r}]"))
        for j, c in enumerate(X.columns)
        if _is_category(X[c])
    }
    encoder = Encoder([str(c) for c in X.columns], categories)
    return encoder, as_rows(encoder.transform(X, name), name, min_rows)


def _is_category(column: Any) -> bool:
    if str(column.dtype).split("(")[0] in ("category", "Categorical", "Enum"):
        return True
    values = np.asarray(column)
    if values.dtype.kind in "US":
        return True
    return values.dtype == object and any(isinstance(v, str) for v in values)


def _labels(column: Any, name: str) -> np.ndarray:
    values = np.asarray(column, dtype=object)
    missing = [i for i, v in enumerate(values) if v is None or v != v]
    if missing:
        raise ValueError(
            f"{name} has missing (NaN) cells, first at row {missing[0]}, {len(missing)} in all: drop "
            "these rows or give them a category of their own."
        )
    return values.astype(str)


def _codes(column: Any, categories: np.ndarray, name: str) -> np.ndarray:
    labels = _labels(column, name)
    codes = np.searchsorted(categories, labels).clip(max=len(categories) - 1)
    return np.where(categories[codes] == labels, codes, -1).astype(np.float64)
