"""Checks at the boundary: every refusal names the argument, the value seen and the remedy."""

from __future__ import annotations

import datetime
import numbers
from typing import Any

import numpy as np

from muhat._array import Array, is_jax, is_traced

# What to do with rows that are not finite. In words: code would depend on how the rows came (array, frame,
# vector, list), and on what goes with them. Sequences say something else, see muhat.models.sequences.
DROP = "Drop or impute them; drop what goes with a dropped row in other arguments too."


def as_rows(X: Any, name: str = "X", min_rows: int = 1) -> Array:
    """``X`` as a finite floating-point array of shape ``(n, d)``.

    In double precision, whatever came in: results are. JAX arrays and tracers pass through as they are
    (values are inspected only when they are concrete). Data frames of numbers are taken column by column;
    tables that also hold categories go through :class:`muhat._tables.Encoder`.
    """
    if is_jax(X):
        if X.dtype.kind == "c":
            _refuse_complex(X, name)
        X = X.astype(float) if X.dtype.kind in "biu" else X
        check_shape(X.shape, name, min_rows)
        if not is_traced(X):
            _check_finite(np.asarray(X), name)
        return X
    if hasattr(X, "toarray") and hasattr(X, "tocsr"):
        raise TypeError(
            f"{name} is a sparse matrix, and sparse data is not supported: "
            f"pass a dense array{f', e.g. {name}.toarray()' if name.isidentifier() else ''}."
        )
    if _is_series(X):
        X = X.to_frame()
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        for column in X.columns:
            _check_column(X, column, name)
    A = np.asarray(X)
    if A.dtype.kind == "c":
        _refuse_complex(A, name)
    if A.dtype == object:
        A = _from_objects(A, name)
    if A.dtype.kind not in "biuf":
        _refuse_dtype(A, name)
    check_shape(A.shape, name, min_rows)
    A = np.ascontiguousarray(A, dtype=np.float64)
    _check_finite(A, name)
    return A


def _is_series(X: Any) -> bool:
    return type(X).__name__ == "Series" and hasattr(X, "to_frame")


def _check_column(table: Any, column: Any, name: str) -> None:
    """Raise unless a column of a data frame holds numbers."""
    values = np.asarray(table[column])
    if values.dtype.kind not in "biuf":
        where = f"{name}[{str(column)!r}]"
        refuse_dates(table[column], where, column)
        raise TypeError(f"{where} must hold numbers, but {_seen(values)}. Convert it to numbers.")


def refuse_dates(values: Any, name: str, column: Any = None) -> None:
    """Raise where an array, or that column of a table, holds dates, and say how they become numbers."""
    A = np.asarray(values)
    kind = _kind_of_date(A)
    if kind is None:
        return
    to = {
        "durations": "numbers of days or hours",
        "dates": "numbers, such as days since a start, or to parts, such as the month or the hour",
        "times of day": "numbers, such as the hour",
    }[kind]
    example = ""
    if column is not None and hasattr(values, "to_frame"):
        example = f" For example, with df your table: {_code_for_dates(values, column, kind)}"
    elif A.dtype.kind in "mM" and name.isidentifier():
        since = f"({name} - np.datetime64('1970-01-01'))" if kind == "dates" else name
        example = f" For example: {since} / np.timedelta64(1, 'D')"
    raise TypeError(
        f"{name} must hold numbers, but holds {kind} (dtype {A.dtype}). Convert them to {to}.{example}"
    )


def _kind_of_date(values: np.ndarray) -> str | None:
    """What kind of dates or times these are; None where they are none."""
    if values.dtype.kind in "mM":
        return "durations" if values.dtype.kind == "m" else "dates"
    if values.dtype == object:
        for v in values.ravel():
            if isinstance(v, datetime.timedelta):
                return "durations"
            if isinstance(v, datetime.date) or type(v).__name__ == "Period":
                return "dates"
            if isinstance(v, datetime.time):
                return "times of day"
    return None


def _code_for_dates(values: Any, column: Any, kind: str) -> str:
    """A line that makes numbers of the dates in a column of pandas or polars."""
    # The start is fixed: with the least date of each table, new rows would count from another day.
    if type(values).__module__.startswith("polars"):
        number = {
            "durations": "dt.total_seconds() / 86400",
            "dates": 'dt.epoch("s") / 86400',
            "times of day": "dt.hour()",
        }[kind]
        return f"df = df.with_columns(pl.col({column!r}).{number})"
    of = f"df[{column!r}]"
    if kind == "times of day":
        return f"{of} = [t.hour for t in {of}]"
    if kind == "durations":
        return f"{of} = pd.to_timedelta({of}).dt.total_seconds() / 86400"
    dates = f"{of}.dt.to_timestamp()" if str(values.dtype).startswith("period") else of
    start = 'pd.Timestamp("1970-01-01", tz="UTC")'
    return f"{of} = (pd.to_datetime({dates}, utc=True) - {start}).dt.total_seconds() / 86400"


def _from_objects(A: np.ndarray, name: str) -> np.ndarray:
    try:
        return A.astype(np.float64)
    except (TypeError, ValueError) as error:
        refuse_dates(A, name)
        # The library's own word for a value that is no number is kept: it names the type.
        raise type(error)(
            f"{name} must hold numbers, but has an entry that is none ({error}). Encode categories "
            "as numbers, or pass a data frame, whose text columns are taken as categories."
        ) from None


def _refuse_complex(A: Array, name: str) -> None:
    raise ValueError(f"Complex data not supported: {name} has dtype {A.dtype}; pass real numbers.")


def _refuse_dtype(A: np.ndarray, name: str) -> None:
    refuse_dates(A, name)
    raise TypeError(
        f"{name} must hold numbers, but {_seen(A)}. Convert it, or pass the whole data frame with the "
        "default kernel, which takes text columns as categories."
    )


def _seen(A: np.ndarray) -> str:
    return f"has dtype {A.dtype}" + (f", e.g. {A.ravel()[0]!r}" if A.size else "")


def check_shape(shape: tuple[int, ...], name: str, min_rows: int) -> None:
    """Raise unless ``shape`` is that of at least ``min_rows`` rows."""
    if len(shape) != 2:
        of = f"{name}.reshape" if name.isidentifier() else "to shape "
        hint = f"{of}(-1, 1) if these are n points in one dimension, " if len(shape) == 1 else ""
        raise ValueError(
            f"{name} must be 2-dimensional, one row a point, but has shape {shape}. "
            f"Reshape your data: {hint}{of}(n, d) in general."
        )
    n, d = shape
    if d == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required: "
            f"{name} has no columns."
        )
    if n < min_rows:
        noun = "1 sample" if n == 1 else f"{n} samples"
        raise ValueError(
            f"{name} has {noun} (shape {shape}), but at least {min_rows} "
            f"{'are' if min_rows > 1 else 'is'} needed: pass more rows."
        )


def _check_finite(A: np.ndarray, name: str) -> None:
    # A sum is finite unless an entry is not (or it overflows): one cheap pass in the usual case.
    with np.errstate(all="ignore"):
        if np.isfinite(A.sum(dtype=np.float64)):
            return
    bad = ~np.isfinite(A)
    if bad.any():
        where = ", ".join(
            f"{axis} {i}" for axis, i in zip(("row", "column"), np.argwhere(bad)[0], strict=False)
        )
        value = "NaN" if np.isnan(A[bad][0]) else "inf"
        raise ValueError(
            f"{name} contains {value} (first at {where}; {int(bad.sum())} entries are NaN or infinite). "
            f"{DROP}"
        )


def check_same_columns(X: Array, d: int, name: str, than: str) -> None:
    """Raise unless ``X`` has ``d`` columns."""
    if X.shape[1] != d:
        raise ValueError(
            f"{name} has {X.shape[1]} columns but {than} has {d}: both must describe points of the "
            "same space, so pass the same columns in the same order."
        )


def check_same_rows(X: Array, Y: Array, name_x: str, name_y: str) -> None:
    """Raise unless ``X`` and ``Y`` have the same number of rows."""
    if X.shape[0] != Y.shape[0]:
        raise ValueError(
            f"{name_x} has {X.shape[0]} rows but {name_y} has {Y.shape[0]}: "
            "rows are pairs, so pass one row of each for every pair."
        )


def check_positive(value: Any, name: str, remedy: str, scalar: bool = False) -> None:
    """Raise unless ``value`` (a number or array of them, possibly traced) is positive and finite.

    ``scalar`` refuses arrays.
    """
    if is_traced(value):
        return
    array = np.asarray(value)
    if array.dtype == bool or array.dtype.kind not in "iuf" or (scalar and array.ndim):
        raise TypeError(f"{name} must be a number, got {value!r}: {remedy}.")
    if array.size == 0 or not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"{name} must be positive and finite, got {value!r}: {remedy}.")


def check_count(value: Any, name: str, least: int = 1) -> int:
    """``value`` as an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}: pass an int, e.g. {least * 100}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}: pass a larger number.")
    return int(value)


def check_levels(q: Any, name: str) -> np.ndarray:
    """One or several levels in [0, 1] as a vector."""
    levels = np.atleast_1d(np.asarray(q))
    if levels.dtype.kind not in "iuf" or levels.ndim > 1 or not ((levels >= 0) & (levels <= 1)).all():
        raise ValueError(f"{name} must be levels between 0 and 1, got {q!r}.")
    return levels


def check_share(value: Any, name: str, remedy: str) -> float:
    """A number above 0 and below 1."""
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not 0 < float(value) < 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}: {remedy}.")
    return float(value)


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def as_weights(weights: Any, n: int, name: str = "weights") -> Array:
    """``weights`` as a finite array of shape ``(n,)`` or ``(batch, n)``."""
    W = weights if is_jax(weights) else np.asarray(weights)
    if W.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be numbers, but have dtype {W.dtype}: pass one number a point.")
    W = W if is_jax(W) else W.astype(np.float64)
    if W.ndim not in (1, 2) or W.shape[-1] != n:
        raise ValueError(
            f"{name} must have shape ({n},) or (batch, {n}), one weight a point, but has shape {W.shape}."
        )
    if not is_traced(W):
        _check_finite(np.asarray(W), name)
    return W


def as_values(values: Any, n: int, points: str) -> Array:
    """The values of a function f at ``n`` points, as an array of numbers (n,) or (n, k)."""
    values = values if is_jax(values) else np.asarray(values)
    if values.ndim not in (1, 2) or values.shape[0] != n:
        raise ValueError(
            f"f must give one value (or row of values) for each of the {n} {points}, but has shape "
            f"{values.shape}: write it for all rows at once, (n, d) → (n,)."
        )
    if values.dtype.kind not in "biuf":
        raise TypeError(f"f must give numbers, but has dtype {values.dtype}: convert its values.")
    return values


def as_generator(random_state: Any) -> np.random.Generator:
    """A NumPy generator from a seed, a generator, a ``RandomState`` or None (fresh entropy)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state must be None, a whole number or a NumPy Generator, got {random_state!r}."
        ) from None
