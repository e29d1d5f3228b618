"""Taking in what a test is about: vectors, arrays, frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._tables import Encoder, encode, is_frame
from muhat._validation import check_same_columns
from muhat.engine import SAMPLE, Rows


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
    x, y = same_order(as_table(x), as_table(y))
    encoder, A = encode(x, "x", min_rows, also=y)
    other, B = encode(y, "y", min_rows, also=x)
    check_same_columns(B, A.shape[1], "y", "x")
    if encoder.categories.keys() != other.categories.keys():
        odd = sorted(set(encoder.categories) ^ set(other.categories))
        names = [encoder.names[j] if encoder.names else j for j in odd]
        seen = [_first_cell(table, odd[0]) for table in (x, y)]
        raise ValueError(
            f"columns {names} hold categories in one sample and numbers or booleans in the other "
            f"({names[0]!r} begins with {seen[0]!r} in x and {seen[1]!r} in y): convert them so that both "
            "hold the same kind."
        )
    B = encoder.transform(y, "y") if encoder.categories else B
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    return encoder, _sane(A, "x"), _sane(B, "y")


def same_order(x: Any, y: Any) -> tuple[Any, Any]:
    """Two tables with the columns of y in the order of x; frames with other columns are refused."""
    if is_frame(x) and is_frame(y) and x.shape[1] > 1:
        mine, theirs = set(map(str, x.columns)), set(map(str, y.columns))
        if mine != theirs:
            raise ValueError(
                f"x and y have different columns: {sorted(mine - theirs)} only in x, "
                f"{sorted(theirs - mine)} only in y. Pass the columns to compare, the same in both."
            )
        by_name = {str(c): c for c in y.columns}
        y = y[[by_name[str(c)] for c in x.columns]]  # the same columns in another order are the same
    return x, y


def _first_cell(X: Any, j: int) -> Any:
    if is_frame(X):
        return np.asarray(X[X.columns[j]], dtype=object)[0]
    return np.asarray(X, dtype=object)[0, j]


def streamed_encoder(x: Rows, y: Rows) -> Encoder:
    """The names of two samples that are read in blocks, which must have the same columns."""
    check_same_columns(y, x.shape[1], "y", "x")
    if x.names and y.names and x.names != y.names:
        raise ValueError(
            f"x has columns {x.names} and y {y.names}: open the same columns in the same order, "
            "mh.open_rows(path, columns=[…])."
        )
    return Encoder(x.names or y.names)


def check_streamed(rows: int, fewest: int, name: str, part: np.ndarray) -> np.ndarray:
    """The rows drawn from a stream, if it has enough of them and they can be squared."""
    if rows < fewest:
        raise ValueError(f"{name} has {rows} rows, but at least {fewest} are needed: pass more rows.")
    return _sane(np.asarray(part, dtype=np.float64), name)


def pooled(x: np.ndarray, y: np.ndarray, n: int, m: int, rng: np.random.Generator) -> np.ndarray:
    """Rows drawn from two samples of n and m rows as one, of which ``x`` and ``y`` were drawn; all if few.

    How many come from each is left to chance: were it fixed, the drawn rows would not be exchangeable
    between the samples as permutations assume.
    """
    if n + m <= SAMPLE:
        return np.concatenate([x, y])
    share = int(rng.hypergeometric(n, m, SAMPLE))
    picked = [S[rng.permutation(len(S))[:k]] for S, k in ((x, share), (y, SAMPLE - share))]
    return np.concatenate(picked)


def apart(x: np.ndarray, y: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of pairs drawn from n, rows of x and rows of y as if they had been drawn apart; all if few.

    Chosen from the same rows, features of x and y would fit these pairs better than permuted ones.
    """
    if len(x) == n:
        return x, y
    half = len(x) // 2
    both = int(rng.hypergeometric(half, n - half, half))  # rows that two draws of half share
    order = rng.permutation(len(x))
    return x[order[:half]], y[order[half - both : 2 * half - both]]


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


def what_it_says(z: np.ndarray, category: bool) -> list[bytes]:
    """Keys of a column: another one has one of them if each is a function of the other, rising or falling."""
    from scipy.stats import rankdata

    if category:
        _, first, codes = np.unique(z, return_index=True, return_inverse=True)
        keys = [
            np.argsort(np.argsort(first))[codes.reshape(-1)]
        ]  # codes in the order in which they first come
    else:
        ranks = rankdata(z, method="dense")
        keys = [ranks, ranks.max() + 1 - ranks]
    return [np.asarray(key, dtype=np.int64).tobytes() for key in keys]


def refuse_constant(Z: np.ndarray, what: str, dropped: int = 0) -> None:
    """Raise when every row is the same, perhaps since rows with missing cells were dropped."""
    if len(Z) and (Z[0] == Z).all():
        if dropped:
            raise ValueError(
                f"every row of {what} is the same once {dropped} rows with missing cells are left out: there "
                'is nothing to test. With missing="compare" missing cells are values, and all rows stay.'
            )
        raise ValueError(f"every row of {what} is the same: there is nothing to test.")
