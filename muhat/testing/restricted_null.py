"""Statistics of two samples and of pairs under a design: observed, and under its arrangements or signs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from muhat.gram import FeatureKernel
from muhat.kernels.base import Kernel
from muhat.testing.forms import SINGLE_ROWS, quadratic_forms
from muhat.testing.separation import RowShares
from muhat.testing.restricted import (
    SIGNS,
    Design,
    Restriction,
    codes,
    label_cells,
    lost_by_centring,
    members_of,
    multipliers,
    orders_of,
    refuse_stuck,
    row_cells,
    signs_of,
)

FEATURE_ROWS = 4096  # whose features are held at a time
HADAMARD_ROWS = 2000  # up to so many rows, products of Gram matrices are formed entry by entry
BINS = 256  # of whole groups, to which chance assigns them, where there are more rows


def _restriction(design: Design, signs: bool, stuck: np.ndarray, count: float, made: int) -> Restriction:
    groups = 0 if design.groups is None else int(design.groups.max()) + 1
    complete = count == made
    smallest = 1 / count if signs and not complete else 0.0
    return Restriction(
        groups=groups,
        strata=int(design.strata.max()) + 1,
        weighted=design.weights is not None,
        signs=signs,
        fixed=int(stuck.sum()),
        arrangements=count,
        complete=complete,
        smallest=smallest,
    )


def _patterns(units: np.ndarray) -> float:
    """Distinct patterns of signs, a pattern and its opposite being one."""
    count = len(np.unique(units))
    return 2.0 ** (count - 1) if count <= SIGNS else inf


@dataclass(frozen=True)
class LabelNull:
    """Vectors v with ``vᵀKv`` the squared distance of weighted embeddings, observed and under the null.

    The distance is that of ``Σₛ ωₛ (μ_{x,s} − μ_{y,s})`` over strata s, with ``ωₛ ∝ WxₛWyₛ/(Wxₛ + Wyₛ)`` for
    sums of weights W: strata count by how well they can compare.

    Attributes:
        vectors: what was observed first, (1 + B, N).
        scales: factors of vᵀKv, (1 + B,).
        weights: of the rows in the embedding of their sample, (N,); the sum over either sample is 1.
        design: that of the rows, as it was given.
        restriction: what it allowed.
    """

    vectors: np.ndarray
    scales: np.ndarray
    weights: np.ndarray
    design: Design
    restriction: Restriction

    @classmethod
    def draw(
        cls, design: Design, first: np.ndarray, permutations: int, rng: np.random.Generator, signs: bool
    ) -> LabelNull:
        """By labels that move, or with weights and where asked for by random ``signs``."""
        if signs or design.weights is not None:
            return cls._signed(design, first, permutations, rng)
        cells, strata = label_cells(design, first)
        stuck = cells.stuck

        def alike() -> str:
            if design.groups is None:
                return (
                    "every stratum has rows of one sample only: no label can move. Strata must have rows of "
                    "both samples."
                )
            return "no label can move: every group or stratum has rows of one sample only."

        refuse_stuck(design, stuck, alike)
        picked = cells.arrangements(permutations, rng)
        members = members_of(cells, picked)
        V, scales = _label_vectors(members, strata, design.w)
        said = _restriction(design, False, stuck, cells.count, len(picked))
        return cls(V, scales, np.abs(V[0]) * np.sqrt(scales[0]), design, said)

    @classmethod
    def _signed(
        cls, design: Design, first: np.ndarray, draws: int, rng: np.random.Generator
    ) -> LabelNull:
        units = design.units
        cell = 2 * design.strata + first
        pairs = codes(np.stack([cell, units], axis=1))
        of = np.full(pairs.max() + 1, -1)
        of[pairs] = cell
        several = np.bincount(of, minlength=int(cell.max()) + 2) > 1
        # A cell with one unit shows nothing of its spread, so that its stratum takes no part.
        free = several[2 * design.strata] & several[2 * design.strata + 1]
        refuse_stuck(
            design,
            ~free,
            lambda: "every stratum has fewer than two rows, or groups, of one sample: random signs need two of each.",
        )
        W, scale = _label_vectors(first[None], design.strata, np.where(free, design.w, 0.0))
        a = W[0] * np.sqrt(scale[0])
        S = signs_of(units, draws, rng)
        if len(S) < 1 + draws:  # all patterns, of which the first is not what was observed
            S = np.concatenate([S[:1], S])
        means = _cell_means(S, codes(cell), np.abs(a))
        V = np.abs(a) * (S - means) * lost_by_centring(cell, units, np.maximum(np.abs(a), 1e-300))
        V *= np.where(first, 1.0, -1.0)
        V[0] = a
        said = _restriction(design, True, ~free, _patterns(units[free]), 0)
        return cls(V, np.ones(len(V)), np.abs(a), design, said)

    @property
    def row_shares(self) -> RowShares:
        """What rows count in an effect size, and which of them are kept together."""
        return RowShares(self.weights, self.design.units)

    def values(self, kernels: list[Kernel], Z: np.ndarray) -> np.ndarray:
        """The statistics of every kernel on rows ``Z`` (N, d), (kernels, 1 + B)."""
        dtype = np.float32 if len(Z) >= SINGLE_ROWS else np.float64
        V = self.vectors.astype(dtype)
        exact = [i for i, k in enumerate(kernels) if not isinstance(k, FeatureKernel)]
        out = np.empty((len(kernels), len(V)))
        if exact:
            forms = quadratic_forms([kernels[i] for i in exact], Z, V)
            out[exact] = forms.values + forms.diagonals @ np.square(V, dtype=np.float64).T
        for i, kernel in enumerate(kernels):
            if isinstance(kernel, FeatureKernel):
                total: Any = 0.0
                for start in range(0, len(Z), FEATURE_ROWS):
                    rows = slice(start, start + FEATURE_ROWS)
                    total = total + V[:, rows] @ np.asarray(kernel.features(Z[rows]), dtype=dtype)
                out[i] = np.square(total, dtype=np.float64).sum(axis=1)
        return out * self.scales

    def cell_values(self, cells: np.ndarray, kernels: list[np.ndarray]) -> np.ndarray:
        """The same for kernels between cells, each row being in one of ``cells`` (N,)."""
        one = np.zeros((len(cells), len(kernels[0])))
        one[np.arange(len(cells)), cells] = 1.0
        D = self.vectors @ one
        return np.stack([np.einsum("bi,bi->b", D @ K, D) for K in kernels]) * self.scales


def _label_vectors(members: np.ndarray, strata: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``w (h − fₛ)`` for memberships h (B, N), fₛ the share of the first sample in a stratum; and their scale."""
    order = np.argsort(strata, kind="stable")
    starts = np.flatnonzero(np.diff(strata[order], prepend=-1))
    inside = np.add.reduceat(members[:, order] * w[order], starts, axis=1)
    total = np.add.reduceat(w[order], starts)
    share = inside / np.where(total > 0, total, 1.0)
    scale = 1 / ((inside * (1 - share)).sum(axis=1)) ** 2
    return w * (members - share[:, strata]), scale


def _cell_means(S: np.ndarray, cell: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted means of the rows of ``S`` (B, N) over cells, at every row."""
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
    sums = np.add.reduceat(S[:, order] * weights[order], starts, axis=1)
    total = np.add.reduceat(weights[order], starts)
    return (sums / np.where(total > 0, total, 1.0))[:, cell]


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
            said = _restriction(design, True, alone, _patterns(units[~alone]), len(W))
            return cls(design, none, W, False, said)
        (cells, constant), (other, constant_x) = row_cells(design, Y), row_cells(design, X)
        swapped = (constant_x, -other.logs) > (constant, -cells.logs)
        if swapped:
            cells, constant = other, constant_x
        stuck = cells.stuck

        def alike() -> str:
            if design.groups is not None and not constant:
                return (
                    "no two groups of a stratum have the same number of rows, so that none can take the place "
                    'of another: use method="wild" (a random sign for each group), or one row a group.'
                )
            return "no row can move: in every stratum all rows of x or of y are the same."

        refuse_stuck(design, stuck, alike)
        picked = cells.arrangements(permutations, rng)
        said = _restriction(design, False, stuck, cells.count, len(picked))
        return cls(design, orders_of(cells, picked, constant), none, swapped, said)

    @property
    def signed(self) -> bool:
        return len(self.signs) > 0

    def signed_forms(
        self, left: list[np.ndarray], right: list[np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """``‖Σᵢ sᵢ wᵢ φᵢ ψᵢᵀ‖²`` of centred factors of every kernel, (pairs, 1 + B)."""
        n, w = len(self.design), self.design.w
        out = np.empty((len(left), len(right), len(self.signs)))
        if n > HADAMARD_ROWS:
            unit = rng.integers(0, BINS, int(self.design.units.max()) + 1)[self.design.units]
            scale = lost_by_centring(self.design.strata, self.design.units, w)
            drawn = np.concatenate([np.ones((1, BINS)), rng.choice([-1.0, 1.0], (len(self.signs) - 1, BINS))])
        for i, Phi in enumerate(left):
            for j, Psi in enumerate(right):
                observed = float(np.square((w[:, None] * Phi).T @ Psi).sum())
                if n <= HADAMARD_ROWS:
                    M = (w * (Phi @ Phi.T) * w[:, None]) * (Psi @ Psi.T)
                    out[i, j] = ((self.signs @ M) * self.signs).sum(axis=1)
                else:
                    T = np.stack(
                        [
                            ((w * scale)[rows, None] * Phi[rows]).T @ Psi[rows]
                            for rows in (unit == b for b in range(BINS))
                        ]
                    ).reshape(BINS, -1)
                    out[i, j] = ((drawn @ (T @ T.T)) * drawn).sum(axis=1)
                out[i, j, 0] = observed
        return out.reshape(-1, len(self.signs))


def _alone(design: Design) -> np.ndarray:
    """Rows whose stratum has no other unit, (n,)."""
    pairs = np.unique(np.stack([design.strata, design.units], axis=1), axis=0)
    return (np.bincount(pairs[:, 0]) == 1)[design.strata]


__all__ = ["LabelNull", "PairNull"]
