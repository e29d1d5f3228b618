"""What each column of two samples shows by itself: tests and effect sizes from counts of all rows.

A column is cut into cells: quantiles of the pooled rows, the values themselves if these are few, categories,
and one cell for what is missing. Rows are put into blocks by chance. Counts of cells by block are all that
the tests need, so that they cost one pass over the rows, however many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from muhat._tables import Encoder
from muhat.testing.aggregate import fuse, normal_scores
from muhat.testing.forms import Bins
from muhat.testing.nulls import label_permutations
from muhat.testing.result import ColumnEffect, column_effects
from muhat.testing.samples import column_names
from muhat.testing.separation import FOLDS, PRICE, Separation, chance, combine, placements, separation

if TYPE_CHECKING:
    from muhat.testing.restricted_null import LabelNull

CELLS = 64  # of a column of numbers, at most
LEVELS = 256  # categories with a cell of their own, the most frequent; the others share one
BLOCKS = 4000  # that permutations move, at most, where all rows are in memory
WIDTHS = (0.03, 0.1, 0.4)  # lengthscales of Gaussian kernels on ranks, which run from 0 to 1
REGULARISERS = np.geomspace(1e-5, 100.0, 15)  # of the witness of a column


@dataclass(frozen=True)
class Cells:
    """How one column becomes cells.

    Attributes:
        column: its index.
        edges: upper ends of the cells of numbers, but for the last; None for categories.
        levels: codes of the categories with a cell of their own, sorted.
        indicator: index of the column that says what is missing, or −1.
        size: number of cells.
    """

    column: int
    edges: np.ndarray | None
    levels: np.ndarray
    indicator: int
    size: int

    @classmethod
    def of(cls, Z: np.ndarray, j: int, encoder: Encoder) -> Cells:
        """Chosen from the pooled rows ``Z``, without regard to the sample that a row came from."""
        gap = encoder.indicators.get(j, -1)
        z = Z[:, j] if gap < 0 else Z[Z[:, gap] != 0, j]
        none = np.empty(0)
        if j in encoder.categories:
            levels, counts = np.unique(z, return_counts=True)
            levels = np.sort(levels[np.argsort(-counts, kind="stable")][:LEVELS])
            return cls(j, None, levels, -1, len(levels) + 1)
        values = np.unique(z)
        if len(values) <= CELLS:
            edges = (values[:-1] + values[1:]) / 2
        else:
            edges = np.unique(np.quantile(z, np.arange(1, CELLS) / CELLS, method="inverted_cdf"))
        return cls(j, edges, none, gap, len(edges) + 1 + (gap >= 0))

    def __call__(self, A: np.ndarray) -> np.ndarray:
        """The cell of every row, (n,)."""
        z = A[:, self.column]
        if self.edges is None:
            at = np.searchsorted(self.levels, z).clip(max=len(self.levels) - 1)
            return np.where(self.levels[at] == z, at, len(self.levels))
        at = np.searchsorted(self.edges, z, side="left")
        return at if self.indicator < 0 else np.where(A[:, self.indicator] == 0, self.size - 1, at)

    def count(self, A: np.ndarray, blocks: np.ndarray, total: int) -> np.ndarray:
        """Rows in each block and cell, (total, size)."""
        at = blocks.astype(np.int64) * self.size + self(A)
        return np.bincount(at, minlength=total * self.size).reshape(total, self.size)

    def kernels(self, pooled: np.ndarray) -> list[np.ndarray]:
        """Kernels between cells, from the number of pooled rows in each."""
        share = pooled / pooled.sum()
        if self.edges is None:
            rare = np.divide(1.0, share, out=np.zeros_like(share), where=share > 0)
            return [np.eye(self.size), np.diag(rare)]
        last = self.indicator >= 0
        present = share[:-1] if last else share
        u = (np.cumsum(present) - 0.5 * present) / (present.sum() or 1.0)
        out = []
        for width in WIDTHS:
            K = np.zeros((self.size, self.size))
            K[: len(u), : len(u)] = np.exp(-((u[:, None] - u) ** 2) / (2 * width**2))
            if last:  # a missing cell is like no value
                K[-1, -1] = 1.0
            out.append(K)
        if last:
            alone = np.zeros((self.size, self.size))
            alone[-1, -1] = 1.0
            out.append(alone)
        return out


@dataclass(frozen=True)
class BlockCounts:
    """Counts of one column.

    Attributes:
        cells: how it was cut.
        x, y: rows in each block and cell, (blocks + 1, cells); the last block is of rows that stay.
    """

    cells: Cells
    x: np.ndarray
    y: np.ndarray


def lumped(encoder: Encoder) -> list[int]:
    """Columns with so many categories that some share a cell, which their counts cannot tell apart."""
    own = set(encoder.indicators.values())
    return [j for j, levels in encoder.categories.items() if j not in own and len(levels) > LEVELS]


def all_cells(Z: np.ndarray, encoder: Encoder) -> list[Cells]:
    """Of every column but the indicators of missing cells, which belong to their columns."""
    own = set(encoder.indicators.values())
    return [Cells.of(Z, j, encoder) for j in range(Z.shape[1]) if j not in own]


def count_columns(
    x: np.ndarray, y: np.ndarray, encoder: Encoder, rng: np.random.Generator
) -> list[BlockCounts]:
    """Counts of samples in memory."""
    n, m = len(x), len(y)
    bins = Bins.draw(n, m, max(1, min((n + m) // BLOCKS, min(n, m) // 2)), rng)
    return [
        BlockCounts(
            cells,
            *(
                cells.count(S, L, count + 1)
                for S, L, count in zip((x, y), bins.labels, bins.counts, strict=True)
            ),
        )
        for cells in all_cells(np.concatenate([x, y]), encoder)
    ]


def columns_alone(
    counts: list[BlockCounts],
    names: list[str],
    permutations: int,
    rng: np.random.Generator,
    matched: Collection[str] = (),
    known: Mapping[int, Separation] | None = None,
) -> list[ColumnEffect]:
    """Each column by itself, the strongest first, with p-values adjusted for the number of columns.

    Columns that are ``matched`` tell no row of one sample from one of the other. Effects that are ``known``,
    by the index of the column, are not made from counts.
    """
    blocks = len(counts[0].x) - 1, len(counts[0].y) - 1
    members = label_permutations(*blocks, permutations, rng)
    scores = np.stack([_scores(c, members) for c in counts])
    rows = int(counts[0].x.sum()), int(counts[0].y.sum())
    effects = known or {}
    found = [
        chance(*rows) if name in matched else effects.get(c.cells.column) or _effect(c)
        for name, c in zip(names, counts, strict=True)
    ]
    missing = [
        tuple(float(side[:, -1].sum() / side.sum()) for side in (c.x, c.y)) if c.cells.indicator >= 0 else ()
        for c in counts
    ]
    return column_effects(
        names,
        [s.auc for s in found],
        scores,
        intervals=[s.interval for s in found],
        missing=missing,
        rows=rows,
    )


def columns_under(
    null: LabelNull,
    x: np.ndarray,
    y: np.ndarray,
    encoder: Encoder,
    permutations: int,
    rng: np.random.Generator,
    matched: Collection[str] = (),
) -> list[ColumnEffect]:
    """Each column by itself under groups, strata or weights, the strongest first."""
    Z, n, m = np.concatenate([x, y]), len(x), len(y)
    names, scores, effects, missing = [], [], [], []
    for cells in all_cells(Z, encoder):
        j, at = cells.column, cells(Z)
        gap = cells.indicator >= 0
        pooled = np.bincount(at, minlength=cells.size).astype(np.float64)
        varies = np.count_nonzero(pooled) > 1
        names.append(column_names(encoder, Z.shape[1], "x")[j])
        null_values = null.cell_values(at, cells.kernels(pooled))[:, : 1 + permutations]
        scores.append(_fused(null_values) if varies else np.zeros(null_values.shape[1]))
        columns = [j, cells.indicator] if gap else [j]
        alone = {k: encoder.categories[c] for k, c in enumerate(columns) if c in encoder.categories}
        effects.append(
            chance(n, m)
            if names[-1] in matched or not varies
            else separation(
                x[:, columns], y[:, columns], Encoder(None, alone), rng, rows_like=null.row_shares
            )
        )
        last = at == cells.size - 1
        shares = [float(np.average(last[side], weights=null.weights[side])) for side in _sides(n, m)]
        missing.append(tuple(shares) if gap else ())
    found = [e.interval for e in effects]
    return column_effects(
        names, [e.auc for e in effects], np.stack(scores), intervals=found, missing=missing, rows=(n, m)
    )


def _sides(n: int, m: int) -> tuple[slice, slice]:
    return slice(0, n), slice(n, n + m)


def _scores(counts: BlockCounts, members: np.ndarray) -> np.ndarray:
    """The score of one column, observed and for every permutation of the blocks, (1 + B,)."""
    x, y = counts.x.astype(np.float64), counts.y.astype(np.float64)
    pooled = x.sum(axis=0) + y.sum(axis=0)
    if np.count_nonzero(pooled) < 2:
        return np.zeros(len(members))
    n, m = x.sum(), y.sum()
    inside = members.astype(np.float64) @ np.concatenate([x[:-1], y[:-1]]) + x[-1]
    D = inside / n - (pooled - inside) / m
    values = np.stack([np.einsum("bi,bi->b", D @ K, D) for K in counts.cells.kernels(pooled)])
    return _fused(values)


def _fused(values: np.ndarray) -> np.ndarray:
    """One score from several kernels (kernels, 1 + B)."""
    # Rounding must not decide between a permutation and its copy.
    values = np.round(values / (np.abs(values).max(axis=1, keepdims=True) + 1e-300), 10)
    each = normal_scores(values)
    return normal_scores(fuse(each, np.full(len(each), 1 / len(each)))[None])[0]


def _effect(counts: BlockCounts) -> Separation:
    """AUC of a ridge witness over the cells, made on four fifths of the blocks and tried on the others."""
    x, y = counts.x.astype(np.float64), counts.y.astype(np.float64)
    pooled = x.sum(axis=0) + y.sum(axis=0)
    if np.count_nonzero(pooled) < 2:
        return Separation(0.5, (0.5, 0.5))
    kernels = counts.cells.kernels(pooled)
    K = np.sum(kernels[:1] if counts.cells.edges is None else kernels, axis=0)
    folds = min(FOLDS, len(x) - 1, len(y) - 1)
    sides = [np.stack([s[:-1][k::folds].sum(axis=0) for k in range(folds)]) for s in (x, y)]
    for side, all_rows in zip(sides, (x, y), strict=True):
        side[0] += all_rows[-1]
    parts, sizes = [], []
    for k in range(folds):
        a, b = (side.sum(axis=0) - side[k] for side in sides)
        f = np.round(_witness(K, a, b), 9)
        distinct, at = np.unique(f, return_inverse=True)
        held = [np.bincount(at, weights=side[k], minlength=len(distinct)) for side in sides]
        parts.append(placements(distinct, *held))
        sizes.append((int(held[0].sum()), int(held[1].sum())))
    return combine(parts, sizes)


def _witness(K: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Ridge regression of the label on the cell, λ by generalised cross-validation, (cells,)."""
    rows = a.sum() + b.sum()
    a, b = a / (2 * a.sum()), b / (2 * b.sum())
    w = a + b
    root = np.sqrt(w)
    target = np.divide(a - b, root, out=np.zeros_like(w), where=w > 0)
    s, U = np.linalg.eigh(root[:, None] * K * root)
    s = np.maximum(s, 0.0)
    t = U.T @ target
    best, out = np.inf, np.zeros_like(w)
    for reg in REGULARISERS:
        shrink = s / (s + reg)
        degrees = float(shrink.sum())
        used = PRICE * (degrees + 1) / rows
        if used >= 1:
            continue
        loss = 1 - float(((2 - shrink) * shrink) @ t**2)
        score = loss / (1 - used) ** 2
        if score < best * (1 - 1e-9):
            best, out = score, K @ (root * (U @ (t / (s + reg))))
    return out


__all__ = ["BlockCounts", "Cells", "all_cells", "columns_alone", "count_columns", "lumped"]
