"""Missing cells in the tables of a test: compared, dropped, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muhat._tables import Encoder, _is_category, _is_missing, _missing_cells, _names, is_frame
from muhat._validation import as_rows, check_choice, check_same_columns
from muhat._words import percent
from muhat.testing.samples import as_sample, as_samples, as_table, same_order

CHOICES = ("compare", "drop", "refuse")
MISSING = "(missing)"  # the category of missing cells
STATES = np.array(["missing", "present"])  # categories of an indicator; a missing cell has the code 0
ALPHA = 0.05  # level at which dropped rows are said to differ between the samples


@dataclass(frozen=True)
class MissingCells:
    """Which cells were missing, and what was done.

    Attributes:
        how: "compare", "drop" or "refuse".
        shares: for each column with missing cells, their share in each table.
        dropped: rows left out of each table.
        rows: of each table, before any was left out.
        pvalue: of a test whether as many rows of either sample were dropped; None if none were, or if the
            tables are not two samples.
    """

    how: str = "compare"
    shares: dict[str, tuple[float, ...]] = field(default_factory=dict)
    dropped: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    pvalue: float | None = None

    @property
    def sentence(self) -> str:
        """In plain words; empty if no cell is missing."""
        if not self.shares:
            return ""
        most = sorted(self.shares, key=lambda name: -max(self.shares[name]))
        parts = [
            f"{name} {' → '.join(percent(s, fine=True) for s in self.shares[name])}" for name in most[:6]
        ]
        more = f" and {len(most) - 6} more columns" if len(most) > 6 else ""
        cells = f"Missing cells: {', '.join(parts)}{more}"
        if self.how != "drop":
            return f"{cells}; they were compared as values."
        if len(self.dropped) == 1:
            share = percent(self.dropped[0] / self.rows[0], fine=True)
            return (
                f"{cells}. {self.dropped[0]} rows ({share}) with a missing cell were left out: this may "
                "hide or make a dependence."
            )
        shares = [percent(d / n, fine=True) for d, n in zip(self.dropped, self.rows, strict=True)]
        text = (
            f"{cells}. {shares[0]} of the rows of the first and {shares[1]} of the second sample have a "
            "missing cell and were left out: this may hide or make a difference."
        )
        if self.pvalue is not None and self.pvalue <= ALPHA:
            text += f" The samples differ in how many rows have one (p = {self.pvalue:.2g})."
        return text

    @property
    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "how": self.how,
            "shares": {name: list(shares) for name, shares in self.shares.items()},
            "dropped_rows": list(self.dropped),
            "pvalue": self.pvalue,
        }


@dataclass(frozen=True)
class GapEncoder(Encoder):
    """An encoder of tables with missing cells.

    A number that is missing becomes the median of those that are not, and an indicator says so; a missing
    category is a category. Columns whose gaps are in the same rows share an indicator.

    Attributes:
        gaps: column with missing numbers → (median, index of its indicator).
        width: columns of the table.
        framed: whether it was a frame.
    """

    gaps: dict[int, tuple[float, int]] = field(default_factory=dict)
    width: int = 0
    framed: bool = False

    @property
    def indicators(self) -> dict[int, int]:
        return {j: at for j, (_, at) in self.gaps.items()}

    def transform(self, X: Any, name: str = "X") -> Any:
        """``X`` as a finite array: its columns, then an indicator for each pattern of gaps."""
        columns = _columns(X, name)
        if is_frame(X) and self.framed and [c for c, _ in columns] != (self.names or [])[: self.width]:
            raise ValueError(
                f"{name} has columns {[c for c, _ in columns]} but {(self.names or [])[: self.width]} were "
                "seen before: pass the same columns in the same order."
            )
        if len(columns) != self.width:
            raise ValueError(f"{name} has {len(columns)} columns, but {self.width} were seen before.")
        total = max([self.width, *(at + 1 for _, at in self.gaps.values())])
        out = np.ones((len(columns[0][1]), total))
        for j, (label, values) in enumerate(columns):
            if j in self.categories:
                known = self.categories[j]
                at = np.searchsorted(known, _filled(values)).clip(max=len(known) - 1)
                out[:, j] = np.where(known[at] == _filled(values), at, -1)
                continue
            z = _numbers(values, f"{name}[{label!r}]")
            empty = np.isnan(z)
            if j in self.gaps:
                fill, at = self.gaps[j]
                out[empty, at] = 0.0
                z = np.where(empty, fill, z)
            elif empty.any():
                raise ValueError(
                    f"{name}[{label!r}] has missing (NaN) cells, but had none when the test was made: drop "
                    "these rows."
                )
            out[:, j] = z
        return as_rows(out, name)


def _columns(X: Any, name: str) -> list[tuple[str, Any]]:
    if is_frame(X):
        return [(label, X[c]) for label, c in zip(_names(X, name), X.columns, strict=True)]
    A = np.asarray(X)
    A = A[:, None] if A.ndim == 1 else A
    return [(f"{name}[{j}]" if A.shape[1] > 1 else name, A[:, j]) for j in range(A.shape[1])]


def _filled(column: Any) -> np.ndarray:
    return np.array([MISSING if _is_missing(v) else str(v) for v in np.asarray(column, dtype=object)])


def _numbers(column: Any, name: str) -> np.ndarray:
    """A column as numbers, NaN where missing; what is neither is refused as everywhere."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        z = values.astype(np.float64)
    else:
        empty = _missing_cells(values, infinite=False)
        z = np.full(len(values), np.nan)
        if not empty.all():
            z[~empty] = np.asarray(as_rows(values[~empty][:, None], name))[:, 0]
    if np.isinf(z).any():
        as_rows(np.where(np.isnan(z), 0.0, z)[:, None], name)  # raises, and says where
    return z


def gaps_of(X: Any) -> np.ndarray | None:
    """Which cells of a table are missing, (n, d); None if none is, or if it is no table with rows."""
    if is_frame(X):
        columns = [np.asarray(X[c]) for c in X.columns]
    else:
        A = np.asarray(X)
        if A.ndim not in (1, 2) or A.dtype.kind not in "fO":
            return None
        columns = list(A.T) if A.ndim == 2 else [A]
    if not columns or not len(columns[0]):
        return None
    cells = np.stack([_missing_cells(column, infinite=False) for column in columns], axis=1)
    return cells if cells.any() else None


def rows_of(X: Any, kept: np.ndarray) -> Any:
    """Some rows of a table."""
    if not is_frame(X):
        return np.asarray(X)[kept]
    return X.iloc[np.flatnonzero(kept)] if hasattr(X, "iloc") else X.filter(kept.tolist())


def _encoded(tables: Sequence[Any], names: Sequence[str]) -> tuple[GapEncoder, list[np.ndarray]]:
    """One encoder of tables with the same columns, some cells of which are missing, and their rows."""
    columns = [_columns(X, name) for X, name in zip(tables, names, strict=True)]
    framed = is_frame(tables[0])
    width = len(columns[0])
    labels = [label for label, _ in columns[0]]
    known, fills, patterns = {}, {}, []
    for j in range(width):
        sides = [side[j][1] for side in columns]
        if framed and any(_is_category(values) for values in sides):
            for values, name in zip(sides, names, strict=True):
                plain = np.asarray(values)
                empty = _missing_cells(plain, infinite=False)
                if not _is_category(values) and not empty.all():
                    raise ValueError(
                        f"column {labels[j]!r} holds categories in one sample and numbers or booleans in "
                        f"{name}: convert it so that both hold the same kind."
                    )
            known[j] = np.unique(np.concatenate([_filled(values) for values in sides]))
            continue
        z = np.concatenate(
            [_numbers(values, f"{name}[{labels[j]!r}]") for values, name in zip(sides, names, strict=True)]
        )
        empty = np.isnan(z)
        if not empty.any():
            continue
        same = next((k for k, pattern in enumerate(patterns) if (pattern == empty).all()), len(patterns))
        if same == len(patterns):
            patterns.append(empty)
        # The median of both samples: chosen without regard to which a row belongs to.
        fills[j] = (float(np.median(z[~empty])) if not empty.all() else 0.0, width + same)
    firsts = [next(j for j, (_, at) in fills.items() if at == width + k) for k in range(len(patterns))]
    extra = [f"{labels[j]} is missing" for j in firsts]
    known |= {width + k: STATES for k in range(len(patterns))}
    encoder = GapEncoder([*labels, *extra], known, fills, width, framed)
    return encoder, [
        np.asarray(encoder.transform(X, name), dtype=np.float64)
        for X, name in zip(tables, names, strict=True)
    ]


def _shares(cells: Sequence[np.ndarray | None], tables: Sequence[Any], labels: Sequence[str]) -> dict:
    out = {}
    for j, label in enumerate(labels):
        shares = tuple(0.0 if c is None else float(c[:, j].mean()) for c in cells)
        if any(shares):
            out[label] = shares
    return out


def two_tables(
    x: Any, y: Any, missing: str, min_rows: int = 2
) -> tuple[Encoder, np.ndarray, np.ndarray, MissingCells]:
    """Both samples of a test as numbers, what is missing being treated as asked."""
    check_choice(missing, "missing", CHOICES)
    x, y = same_order(as_table(x), as_table(y))
    cells = gaps_of(x), gaps_of(y)
    if missing == "refuse" or all(c is None for c in cells):
        return *as_samples(x, y, min_rows), MissingCells(missing)
    check_same_columns(np.asarray(y) if not is_frame(y) else y, x.shape[1], "y", "x")
    labels = [label for label, _ in _columns(x, "x")]
    shares, sizes = _shares(cells, (x, y), labels), (len(x), len(y))
    for size, name in zip(sizes, ("x", "y"), strict=True):
        if size < min_rows:
            raise ValueError(f"{name} has {size} rows, but at least {min_rows} are needed: pass more rows.")
    if missing == "compare":
        encoder, (A, B) = _encoded((x, y), ("x", "y"))
        return encoder, A, B, MissingCells(missing, shares, rows=sizes)
    kept = [
        np.ones(n, dtype=bool) if c is None else np.asarray(~c.any(axis=1))
        for c, n in zip(cells, sizes, strict=True)
    ]
    for name, rows in zip(("x", "y"), kept, strict=True):
        if rows.sum() < min_rows:
            raise ValueError(
                f"{name} has {rows.sum()} rows without missing cells, but at least {min_rows} are needed: "
                'use missing="compare", or leave out the columns with most gaps.'
            )
    dropped = tuple(int((~rows).sum()) for rows in kept)
    said = MissingCells(missing, shares, dropped, sizes, _share_pvalue(dropped, sizes))
    return *as_samples(rows_of(x, kept[0]), rows_of(y, kept[1]), min_rows), said


def _share_pvalue(dropped: Sequence[int], rows: Sequence[int]) -> float:
    """Fisher's exact test that as large a share of either sample was dropped."""
    from scipy.stats import fisher_exact

    table = [[d, n - d] for d, n in zip(dropped, rows, strict=True)]
    return float(fisher_exact(table)[1])  # type: ignore[arg-type]


def paired_tables(
    tables: Sequence[Any], names: Sequence[str], missing: str, min_rows: int
) -> tuple[list[Encoder], list[np.ndarray], MissingCells]:
    """Tables whose rows go together as numbers; rows are dropped from all of them."""
    check_choice(missing, "missing", CHOICES)
    tables = [as_table(X) for X in tables]
    cells = [gaps_of(X) for X in tables]
    if missing == "refuse" or all(c is None for c in cells):
        pairs = [as_sample(X, name, min_rows) for X, name in zip(tables, names, strict=True)]
        return [e for e, _ in pairs], [A for _, A in pairs], MissingCells(missing)
    shares: dict[str, tuple[float, ...]] = {}
    for X, c, name in zip(tables, cells, names, strict=True):
        if c is not None:
            shares |= _shares([c], [X], [label for label, _ in _columns(X, name)])
    sizes = {len(X) for X in tables}
    if missing == "drop" and len(sizes) == 1:  # else the caller says which lengths differ
        bad = np.any([c.any(axis=1) for c in cells if c is not None], axis=0)
        if (~bad).sum() < min_rows:
            raise ValueError(
                f"{(~bad).sum()} rows are without missing cells, but at least {min_rows} are needed: use "
                'missing="compare", or leave out the columns with most gaps.'
            )
        pairs = [as_sample(rows_of(X, ~bad), name, min_rows) for X, name in zip(tables, names, strict=True)]
        said = MissingCells(missing, shares, (int(bad.sum()),), (len(bad),))
        return [e for e, _ in pairs], [A for _, A in pairs], said
    encoders, arrays = [], []
    for X, c, name in zip(tables, cells, names, strict=True):
        if c is None:
            encoder, A = as_sample(X, name, min_rows)
        else:
            if len(X) < min_rows:
                raise ValueError(f"{name} has {len(X)} rows, but at least {min_rows} are needed.")
            encoder, (A,) = _encoded((X,), (name,))
        encoders.append(encoder)
        arrays.append(A)
    return encoders, arrays, MissingCells(missing, shares, rows=tuple(sizes)[:1])


__all__ = ["CHOICES", "GapEncoder", "MissingCells", "paired_tables", "two_tables"]
