"""Dependence under a design: HSIC of features less their means in strata, observed and under the null."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp
from typing import TYPE_CHECKING, Any

import numpy as np

from muhat._tables import Encoder
from muhat.kernels.base import Kernel
from muhat.kernels.delta import Delta
from muhat.testing.aggregate import normal_scores
from muhat.testing.bank import choose_kernels
from muhat.testing.independence import RANK, TOLERANCE, _permuted, _strength, centred_factor
from muhat.testing.restricted import (
    Design,
    Restriction,
    lost_by_centring,
    multipliers,
    orders_of,
    refuse_stuck,
    restriction_of,
    row_cells,
    sign_patterns,
)
from muhat.testing.result import ColumnEffect, TestResult, column_effects
from muhat.testing.samples import column_names

if TYPE_CHECKING:
    from muhat.testing.independence import IndependenceResult

HADAMARD_ROWS = 2000  # up to so many rows, products of Gram matrices are formed entry by entry
ROWS_A_STRATUM = 10  # with fewer, a regression on z knows of strata no more than their means
OTHER_STRATUM = exp(-0.5)  # the kernel between two strata
BINS = 256  # of whole groups, to which chance assigns them, where there are more rows


@dataclass(frozen=True)
class PairNull:
    """Rows of y that change places under a design, or signs of what pairs contribute.

    Attributes:
        design: of the pairs.
        orders: which row comes to each, (1 + B, n); empty with signs.
        signs: factors of rows, (1 + B, n); empty where rows move.
        swapped: whether the rows of x move in the place of those of y.
        restriction: what the design allowed.
    """

    design: Design
    orders: np.ndarray
    signs: np.ndarray
    swapped: bool
    restriction: Restriction

    @classmethod
    def draw(
        cls,
        design: Design,
        X: np.ndarray,
        Y: np.ndarray,
        permutations: int,
        rng: np.random.Generator,
        signs: bool,
    ) -> PairNull:
        """By rows that move, or with weights and where asked for by random ``signs``."""
        none = np.empty((0, len(design)))
        if signs or design.weights is not None:
            units = design.units
            alone = _alone(design)
            refuse_stuck(design, alone)
            W = multipliers(design, permutations, rng)
            said = restriction_of(design, True, alone, sign_patterns(units[~alone]), len(W))
            return cls(design, none, W, False, said)
        (cells, constant), (other, constant_x) = row_cells(design, Y), row_cells(design, X)
        swapped = (constant_x, -other.logs) > (constant, -cells.logs)
        if swapped:
            cells, constant = other, constant_x
        stuck = cells.stuck

        def alike() -> str:
            if design.groups is not None and not constant:
                return (
                    "no two groups of a stratum have the same number of rows, so that none can take the "
                    'place of another: use method="wild" (a random multiplier for each group), or one row a '
                    "group."
                )
            return "no row can move: in every stratum all rows of x or of y are the same."

        refuse_stuck(design, stuck, alike)
        picked = cells.arrangements(permutations, rng)
        said = restriction_of(design, False, stuck, cells.count, len(picked))
        return cls(design, orders_of(cells, picked, constant), none, swapped, said)

    @property
    def signed(self) -> bool:
        return len(self.signs) > 0

    def after(self, found: TestResult, unweighted: int) -> Restriction:
        """What the design allowed, with the smallest p-value that the outcome shows to be possible."""
        return self.restriction.after(np.append(found.statistic, found.null), unweighted)

    @property
    def draws(self) -> int:
        """What was observed, and the draws."""
        return max(len(self.signs), len(self.orders))

    def values(
        self,
        kernels_x: list[Kernel],
        kernels_y: list[Kernel],
        X: np.ndarray,
        Y: np.ndarray,
        representation: Any,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """``n²`` times HSIC for every pair of kernels, observed and under the null, (pairs, 1 + B)."""
        if self.signed:
            left, right = (
                [
                    self.design.centre(centred_factor(k, Z, rng, TOLERANCE, RANK // len(kernels), np.float64))
                    for k in kernels
                ]
                for kernels, Z in ((kernels_x, X), (kernels_y, Y))
            )
            return self.signed_forms(left, right, rng)
        sides: Any = [(kernels_x, X), (kernels_y, Y)]
        (k, P), (l, Q) = sides[::-1] if self.swapped else sides
        values = _permuted(k, l, P, Q, self.orders, representation, rng, self.design.centre)
        if self.swapped:
            values = values.reshape(len(k), len(l), -1).swapaxes(0, 1).reshape(len(values), -1)
        return values

    def scale(
        self, kernel_x: Kernel, kernel_y: Kernel, X: np.ndarray, Y: np.ndarray, values: np.ndarray
    ) -> tuple[float, float, float]:
        """``n²`` times HSIC, what chance gives of it (the mean of the null), and what it can be at most."""
        rng = np.random.default_rng(0)
        root = np.sqrt(self.design.w)[:, None]
        Phi, Psi = (
            root * self.design.centre(centred_factor(k, Z, rng, TOLERANCE / 100, 4 * RANK, np.float64))
            for k, Z in ((kernel_x, X), (kernel_y, Y))
        )
        top = float(np.linalg.norm(Phi.T @ Phi) * np.linalg.norm(Psi.T @ Psi))
        return float(np.square(Phi.T @ Psi).sum()), float(values[1:].mean()), top

    def signed_forms(
        self, left: list[np.ndarray], right: list[np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """``‖Σᵢ sᵢ wᵢ φᵢ ψᵢᵀ‖²`` of centred factors of every kernel, (pairs, 1 + B)."""
        design = self.design
        n, w = len(design), design.w
        out = np.empty((len(left), len(right), len(self.signs)))
        # Beyond some rows, groups are put into bins by chance, and bins get signs.
        bins = rng.integers(0, BINS, int(design.units.max()) + 1)[design.units]
        drawn = np.ones((len(self.signs), BINS))
        drawn[1:] = rng.choice([-1.0, 1.0], (len(drawn) - 1, BINS))
        v = w * lost_by_centring(design.strata, design.units, w)
        for i, Phi in enumerate(left):
            for j, Psi in enumerate(right):
                if n <= HADAMARD_ROWS:
                    M = (w * (Phi @ Phi.T) * w[:, None]) * (Psi @ Psi.T)
                    out[i, j] = ((self.signs @ M) * self.signs).sum(axis=1)
                else:
                    parts = [(v[b, None] * Phi[b]).T @ Psi[b] for b in (bins == k for k in range(BINS))]
                    T = np.stack(parts).reshape(BINS, -1)
                    out[i, j] = ((drawn @ (T @ T.T)) * drawn).sum(axis=1)
                out[i, j, 0] = np.square((w[:, None] * Phi).T @ Psi).sum()
        return out.reshape(-1, len(self.signs))


def _alone(design: Design) -> np.ndarray:
    """Rows whose stratum has no other unit, (n,)."""
    pairs = np.unique(np.stack([design.strata, design.units], axis=1), axis=0)
    return (np.bincount(pairs[:, 0]) == 1)[design.strata]


def pair_columns(
    result: IndependenceResult, design: Design, permutations: int, most: int, rng: np.random.Generator
) -> list[ColumnEffect]:
    """What each column shows of the other side, on about ``most`` rows, the strongest first."""
    n = len(result.x)
    if n > most:
        rows = design.some(most, rng)
        design = design.take(rows)
    else:
        rows = np.arange(n)
    x, y = result.x[rows], result.y[rows]
    null = PairNull.draw(design, x, y, permutations, rng, result.method == "multipliers")
    names, scores, effects = [], [], []
    sides = (
        (x, result.encoder_x, y, result.encoder_y, "x"),
        (y, result.encoder_y, x, result.encoder_x, "y"),
    )
    for Z, encoder, other, other_encoder, prefix in sides:
        across, _ = choose_kernels("median", other, other_encoder, rng, "dependence")
        way = replace(null, swapped=null.swapped != (prefix == "y"))
        for j, name in enumerate(column_names(encoder, Z.shape[1], prefix)):
            names.append(name)
            column = Z[:, [j]]
            if (column == column[0]).all():
                scores.append(np.zeros(null.draws))
                effects.append(0.0)
                continue
            alone = Encoder(None, {0: encoder.categories[j]} if j in encoder.categories else {})
            kernels, _ = choose_kernels("median", column, alone, rng, "dependence")
            values = way.values(kernels, across, column, other, None, rng)
            scores.append(normal_scores(values)[0])
            scale = null.scale(kernels[0], across[0], column, other, values[0])
            effects.append(_strength(*scale))
    return column_effects(names, effects, np.stack(scores), rows=(len(rows),))


def with_strata(
    design: Design, Z: np.ndarray, encoder: Encoder, kernel: Any
) -> tuple[np.ndarray, Encoder, Any]:
    """z with the stratum as one more category, or, where strata are small, with z less its means there."""
    if not design.strata.any():
        return Z, encoder, kernel
    d, count = Z.shape[1], int(design.strata.max()) + 1
    if small_strata(design):
        numbers = [j for j in range(d) if j not in encoder.categories]
        if isinstance(kernel, Kernel) and len(numbers) == d:
            kernel = kernel.on(list(range(d))) + kernel.on(list(range(d, 2 * d)))
        elif isinstance(kernel, Kernel):
            kernel = kernel.on(list(range(d)))
        more = design.centre(Z[:, numbers])
        names = [*column_names(encoder, d, "z"), *(f"z[{j}] within strata" for j in numbers)]
        return np.column_stack([Z, more]), Encoder(names, encoder.categories), kernel
    names = None if encoder.names is None else [*encoder.names, "stratum"]
    levels = {**encoder.categories, d: np.array([str(k) for k in range(count)])}
    if isinstance(kernel, Kernel):
        kernel = kernel.on(list(range(d))) * Delta(OTHER_STRATUM).on(d)
    return np.column_stack([Z, design.strata]), Encoder(names, levels), kernel


def small_strata(design: Design) -> bool:
    """Whether strata have too few rows for a regression on z to learn what each does."""
    return len(design) < ROWS_A_STRATUM * (int(design.strata.max()) + 1)


def within_strata(design: Design, A: np.ndarray, encoder: Encoder) -> np.ndarray:
    """``A`` (n, d) with numbers less their means in strata, where strata are small.

    Features of numbers that differ between strata would hold products of the stratum and z, which no
    regression on so few rows can take out.
    """
    if not small_strata(design):
        return A
    numbers = [j for j in range(A.shape[1]) if j not in encoder.categories]
    out = A.copy()
    out[:, numbers] = design.centre(A[:, numbers])
    return out


__all__ = ["PairNull", "pair_columns", "with_strata", "within_strata"]
