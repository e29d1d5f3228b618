"""Whether the regressions on z err in the same places for x and for y.

A test of residuals is wrong only by the product of both sides' errors, ``δ = Σᵢ αᵢ βᵢ`` with α and β the
errors of the regressions of x and of y at each row [SP20]. Noise is each row's own, but errors are shared
with neighbours: with P the projection onto functions that are constant in cells of z, ``Σ_{i≠j} Pᵢⱼ uᵢ vⱼ``
of residuals u and v has mean 0 without shared errors and about δ with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SIGNS = 199  # draws of the null distribution
LEVEL = 0.05  # of the check
SHIFT = 0.5  # of the test, in standard deviations, that is too much; it makes 5% of rejections 8%
CELLS = (5, 16, 50)  # rows in a cell
FEWEST_CELLS = 6
DIRECTIONS = 4  # of the statistic that are looked at
COLUMNS = 30  # of z, and of what is predicted, that are cut into cells, at most
MOST_FEATURES = 0.3  # of linear and square functions of z, as a share of the rows
QUADRATIC_COLUMNS = 20


@dataclass(frozen=True)
class SelfCheck:
    """What the self-check found.

    Attributes:
        pvalue: of the hypothesis that no errors are shared.
        shift: of the test's statistic by shared errors, in its standard deviations; the largest that is
            beyond chance, 0 where none is.
        means: of the residuals of x and of y in cells of neighbours in z, in standard errors, (2, cells),
            where they go together most. Without shared errors one tells nothing of the other.
    """

    pvalue: float = np.nan
    shift: float = np.nan
    means: np.ndarray = field(default_factory=lambda: np.empty((2, 0)), repr=False, compare=False)

    @property
    def sound(self) -> bool:
        """Whether shared errors are too small to matter, as far as one can see; False without a check."""
        return self.shift < SHIFT

    @property
    def words(self) -> str:
        """What was found, in words."""
        if np.isnan(self.shift):
            return "not possible"
        if not self.shift:
            return f"nothing found (p = {self.pvalue:.2g})"
        return f"shared errors move the test by {self.shift:.2g} standard deviations (p = {self.pvalue:.2g})"

    @property
    def record(self) -> dict[str, Any]:
        """For JSON: None where the check was not possible."""
        known = not np.isnan(self.shift)
        return {"pvalue": self.pvalue if known else None, "shift": self.shift if known else None}


def cut(points: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """The cell of every row, (n,): cells of about ``rows`` rows that are near each other, by medians."""
    n, count = len(points), max(len(points) // rows, 1)
    label = np.empty(n, dtype=np.int64)
    todo, made = [(rng.permutation(n), count)], 0  # the order of rows must not break ties
    while todo:
        members, cells = todo.pop()
        if cells == 1:
            label[members] = made
            made += 1
            continue
        part = points[members]
        widest = int(np.argmax(part.std(axis=0)))
        order = members[np.argsort(part[:, widest], kind="stable")]
        first = cells // 2
        at = round(len(order) * first / cells)
        todo += [(order[:at], first), (order[at:], cells - first)]
    return label


def check_errors(
    Z: np.ndarray,
    residuals: Sequence[tuple[np.ndarray, np.ndarray]],
    rng: np.random.Generator,
    predicted: Sequence[np.ndarray] = (),
    groups: np.ndarray | None = None,
) -> SelfCheck:
    """Look for errors that residuals share with their neighbours in z.

    They are looked for in the directions in which the residuals of single rows go together most, since only
    these move the test. Random signs, one a row for both sides, leave the test's own statistic as it is and
    take away what neighbours share.

    Args:
        Z: columns in comparable units, (n, d).
        residuals: pairs of features, (n, p) of x and (n, q) of y given z, that the test looks at.
        rng: source of signs.
        predicted: what z says of x and of y, (n, k) each; errors are often largest where this is steep.
        groups: codes of rows whose noise may go together, (n,): they have one sign.
    """
    n = len(Z)
    signs = np.ones((1 + SIGNS, n))
    own = np.arange(n) if groups is None else groups
    signs[1:] = rng.choice([-1.0, 1.0], (SIGNS, int(own.max()) + 1))[:, own]
    cells = _all_cells(Z, predicted, rng)
    smooth = _smooth_functions(Z)
    scores, shifts = [], []
    highest, means = -np.inf, np.empty((2, 0))
    for U, V in residuals:
        left, s, right = np.linalg.svd(U.T @ V, full_matrices=False)
        kept = slice(0, DIRECTIONS)
        share = s[kept] / (np.linalg.norm(s) or 1.0)
        A, B = U @ left[:, kept] * share, V @ right[kept].T
        own = A * B  # of a row with itself, whatever its sign
        unit = float(np.linalg.norm(own.sum(axis=1))) or 1.0
        SA, SB = signs[:, :, None] * A, signs[:, :, None] * B
        for label in cells:
            size = np.bincount(label)
            order, starts = np.argsort(label, kind="stable"), np.cumsum(size) - size
            a, b = (np.add.reduceat(S[:, order], starts, axis=1) for S in (SA, SB))
            together = (a * b).sum(axis=2) - np.add.reduceat(own[order], starts).sum(axis=1)
            values = together @ (1 / np.maximum(size - 1, 1))
            _score(values / unit, scores, shifts)
            if scores[-1][0] > highest:
                highest = scores[-1][0]
                means = np.stack(
                    [part[0, :, 0] / (S[0, :, 0].std() or 1.0) for part, S in ((a, SA), (b, SB))]
                )
                means /= np.sqrt(size)
        for Q in smooth:
            a, b = (np.einsum("bik,ip->bkp", S, Q, optimize=True) for S in (SA, SB))
            leverage = (Q**2).sum(axis=1)
            values = (a * b).sum(axis=(1, 2)) - leverage @ own.sum(axis=1)
            _score(values / (1 - leverage.mean()) / unit, scores, shifts)
    if not scores:
        return SelfCheck()
    each = np.array(scores)
    largest = each.max(axis=0)
    pvalue = float((1 + np.count_nonzero(largest[1:] >= largest[0])) / (1 + SIGNS))
    beyond = each[:, 0] >= np.quantile(largest[1:], 1 - LEVEL)
    return SelfCheck(pvalue, float(max(np.array(shifts)[beyond], default=0.0)), means)


def _score(values: np.ndarray, scores: list[np.ndarray], shifts: list[float]) -> None:
    sd = float(values[1:].std())
    scores.append((values - values[1:].mean()) / sd if sd > 0 else np.zeros(len(values)))
    shifts.append(float(values[0] - values[1:].mean()))


def _all_cells(Z: np.ndarray, predicted: Sequence[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    """Cells of each column of z, of all columns, and of what is predicted of x, of y and of both."""
    maps = [z[:, None] for z in Z.T[:COLUMNS] if len(np.unique(z)) > 2]
    if predicted:
        scaled = [part[:, :COLUMNS] / (part.std() or 1.0) for part in predicted]
        maps += [*scaled, np.hstack(scaled)]
    if Z.shape[1] > 1:
        maps.append(Z)
    sizes = [rows for rows in CELLS if len(Z) >= FEWEST_CELLS * rows]
    return [cut(points, rows, rng) for points in maps for rows in sizes]


def _smooth_functions(Z: np.ndarray) -> list[np.ndarray]:
    """Orthonormal bases of linear functions of z, and of products of two columns, (n, p) each."""
    n, d = Z.shape
    out = [Z]
    if d <= QUADRATIC_COLUMNS:
        a, b = np.triu_indices(d)
        out.append(np.hstack([Z, Z[:, a] * Z[:, b]]))
    bases = []
    for F in out:
        if F.shape[1] > MOST_FEATURES * n:
            continue
        F = F - F.mean(axis=0)
        U, s, _ = np.linalg.svd(F, full_matrices=False)
        if len(s) and s[0] > 0:
            bases.append(U[:, s > 1e-6 * s[0]])
    return bases


__all__ = ["LEVEL", "SHIFT", "SelfCheck", "check_errors", "cut"]
