"""The distance of two samples under a design: observed, and under its arrangements or signs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muhat.gram import FeatureKernel
from muhat.kernels.base import Kernel
from muhat.testing.forms import SINGLE_ROWS, quadratic_forms
from muhat.testing.restricted import (
    Design,
    Restriction,
    codes,
    label_cells,
    lost_by_centring,
    members_of,
    refuse_stuck,
    restriction_of,
    shared_groups,
    sign_patterns,
    signs_of,
)
from muhat.testing.row_shares import RowShares

FEATURE_ROWS = 4096  # whose features are held at a time


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
        """By labels that move, with the weights of their rows; or by random ``signs``.

        Rows are not exchangeable where one sample has weights and the other none: there are signs, too.
        """
        w = design.w
        if signs or (w[first] == w[first][0]).all() != (w[~first] == w[~first][0]).all():
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
        V, scales = _label_vectors(members, strata, w)
        said = restriction_of(design, False, stuck, cells.count, len(picked))
        said = replace(said, shared=shared_groups(design, first))
        return cls(V, scales, np.abs(V[0]) * np.sqrt(scales[0]), design, said)

    @classmethod
    def _signed(cls, design: Design, first: np.ndarray, draws: int, rng: np.random.Generator) -> LabelNull:
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
            lambda: (
                "every stratum has fewer than two rows, or groups, of one sample: random multipliers need "
                "two of each."
            ),
        )
        W, scale = _label_vectors(first[None], design.strata, np.where(free, design.w, 0.0))
        a = W[0] * np.sqrt(scale[0])
        S = signs_of(units, draws, rng, None if design.weights is None else np.abs(a), first)
        if len(S) < 1 + draws:  # all patterns, of which the first is not what was observed
            S = np.concatenate([S[:1], S])
        means = _cell_means(S, codes(cell), np.abs(a))
        V = np.abs(a) * (S - means) * lost_by_centring(cell, units, np.maximum(np.abs(a), 1e-300))
        V *= np.where(first, 1.0, -1.0)
        V[0] = a
        said = restriction_of(design, True, ~free, sign_patterns(units[free]), 0)
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
    """``w (h − fₛ)`` for memberships h (B, N), fₛ the share of the first sample in a stratum; and a scale."""
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


__all__ = ["LabelNull"]
