"""Taking in what a test is about: vectors, arrays, frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._tables import Encoder, encode, is_frame
from muhat._validation import check_same_columns


def as_table(X: Any) -> Any:
    """``X``, a vector being n points in one dimension."""
    if hasattr(X, "to_frame") and not is_frame(X):
        return X.to_frame()
    if is_frame(X):
        return X
    A = np.asarray(X)
    return A.reshape(-1, 1) if A.ndim == 1 else X


def as_sample(X: Any, name: str, min_rows: int) -> tuple[Encoder, np.ndarray]:
    """An encoder and the rows (n, d) of one table."""
    encoder, A = encode(as_table(X), name, min_rows)
    return encoder, _sane(np.asarray(A, dtype=np.float64), name)


def as_samples(x: Any, y: Any, min_rows: int = 2) -> tuple[Encoder, np.ndarray, np.ndarray]:
    """An encoder that knows the categories of both tables, and the rows of each."""
    x, y = as_table(x), as_table(y)
    if is_frame(x) and is_frame(y) and x.shape[1] > 1:
        mine, theirs = set(map(str, x.columns)), set(map(str, y.columns))
        if mine != theirs:
            raise ValueError(
                f"x and y have different columns: {sorted(mine - theirs)} only in x, "
                f"{sorted(theirs - mine)} only in y. Pass the columns to compare, the same in both."
            )
        by_name = {str(c): c for c in y.columns}
        y = y[[by_name[str(c)] for c in x.columns]]  # the same columns in another order are the same
    encoder, A = encode(x, "x", min_rows, also=y)
    other, B = encode(y, "y", min_rows, also=x)
    check_same_columns(B, A.shape[1], "y", "x")
    if encoder.categories.keys() != other.categories.keys():
        odd = sorted(set(encoder.categories) ^ set(other.categories))
        names = [encoder.names[j] if encoder.names else j for j in odd]
        raise ValueError(
            f"columns {names} hold categories in one sample and numbers in the other: convert them so "
            "that both hold the same kind."
        )
    B = encoder.transform(y, "y") if encoder.categories else B
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    return encoder, _sane(A, "x"), _sane(B, "y")


def _sane(A: np.ndarray, name: str) -> np.ndarray:
    """``A``, whose squares must be numbers."""
    largest = float(np.abs(A).max())
    if largest > 1e100 or 0 < largest < 1e-100:
        raise ValueError(f"{name} has values as extreme as {largest:.2g}: change its units.")
    return A


def column_names(encoder: Encoder, d: int, prefix: str) -> list[str]:
    """Names of d columns, from the table or made up."""
    if encoder.names is not None:
        return list(encoder.names)
    return [prefix] if d == 1 else [f"{prefix}[{j}]" for j in range(d)]


def refuse_constant(Z: np.ndarray, what: str) -> None:
    """Raise when every row is the same."""
    if len(Z) and (Z[0] == Z).all():
        raise ValueError(f"every row of {what} is the same: there is nothing to test.")
