"""The conditional density operator [S20, Section 4]: from x to the density of y given x.

``Â = (Ĉ_ρ + α'I)⁻¹ Ĉ_YX (Ĉ_X + λI)⁻¹``: the weights of the conditional mean embedding on the outputs seen in
training, their embedding at the points of a reference measure, and its Tikhonov reconstruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from muhat._array import Array
from muhat.embedding import Density, Reference
from muhat.embedding.reconstruction import reconstruct
from muhat.engine import digest, reduce_rows
from muhat.engine.passes import add
from muhat.gram import Factored, Gram, Ridge
from muhat.gram.lowrank import LowRankRidge
from muhat.kernels.base import Kernel
from muhat.operators.conditional import Groups, conditional_ridge
from muhat.operators.moments import Moments

# Values of outputs at reference points that are kept, 8 bytes each.
KEPT = 1 << 25


def completion(mass: Array) -> np.ndarray:
    """The share of the marginal of y that is added where the weights sum to ``mass``.

    Far from the data, where no weights are left, the marginal is all there is to say. Near them the weights
    lack a little to one by the regularisation alone, which is no reason to widen the answer: the square.
    """
    return np.maximum(1 - np.asarray(mass), 0.0) ** 2


@dataclass(frozen=True)
class DensityOperator:
    """The operator at regularisers λ and α', ready to be applied.

    Attributes:
        gram: of the inputs, or of the distinct ones.
        groups: which rows share an input, or None.
        outputs: (n, k).
        kernel: of the outputs.
        reference: ρ.
        reg_x: λ.
        reg_y: α'.
    """

    gram: Gram
    groups: Groups | None
    outputs: np.ndarray
    kernel: Kernel
    reference: Reference
    reg_x: float
    reg_y: float

    @cached_property
    def ridge(self) -> Ridge:
        return conditional_ridge(self.gram, self.reg_x, self.groups)

    @cached_property
    def _values(self) -> np.ndarray | None:
        """``ℓ(y, z)`` averaged over the rows that share an input, (g, M); None where that is too much."""
        M, g = len(self.reference.points), len(self.gram)
        if g * M > KEPT:
            return None
        if self.groups is None:
            out = np.empty((g, M))
            for rows, values in self.reference.blocks(self.kernel, self.outputs):
                out[rows] = values
            return out
        out = np.zeros((g, M))
        for rows, values in self.reference.blocks(self.kernel, self.outputs):
            np.add.at(out, self.groups.inverse[rows], values)
        return out / self.groups.counts[:, None]

    @cached_property
    def _fitted(self) -> np.ndarray | None:
        """In features: the coefficients of the regression of ``ℓ(y, z)`` on x, (p, M)."""
        ridge = self.ridge
        if not isinstance(ridge, LowRankRidge):
            return None
        if self._values is not None:
            return np.asarray(ridge.fit(self._values))
        Phi = ridge.Phi if ridge.root_weights is None else ridge.root_weights[:, None] * ridge.Phi
        rows_of = slice(None) if self.groups is None else self.groups.inverse
        each = (Phi if self.groups is None else Phi / self.groups.counts[:, None])[rows_of]
        total = np.zeros((Phi.shape[1], len(self.reference.points)))
        for rows, values in self.reference.blocks(self.kernel, self.outputs):
            total += each[rows].T @ values
        return np.asarray(ridge.factor.solve(total))

    @cached_property
    def _ones(self) -> np.ndarray:
        """The regression of 1 on x, whose shortfall is what the weights lack to one."""
        return np.asarray(self.ridge.fit(np.ones((len(self.gram), 1))))

    @cached_property
    def marginal(self) -> np.ndarray:
        """The embedding of all outputs at the reference points, (M,)."""
        if self._values is not None:
            counts = np.ones(len(self.gram)) if self.groups is None else self.groups.counts
            return counts @ self._values / counts.sum()
        n = len(self.outputs)
        return self.reference.embed(self.kernel, self.outputs, np.full((1, n), 1 / n))[0]

    def embedding(self, x: Array, weights: Array | None = None) -> tuple[np.ndarray, np.ndarray]:
        """``μ_{Y|x}`` at the reference points, (q, M), and the sum of its weights, (q,).

        Args:
            x: (m, d).
            weights: of embeddings over x, (q, m): mixtures of the answers at its rows; None for the rows.
        """
        mass = np.asarray(self.gram.evaluate(x, self._ones))[:, 0]
        if self._fitted is not None:
            values = np.asarray(self.gram.evaluate(x, self._fitted))
            return (values, mass) if weights is None else (weights @ values, weights @ mass)
        cross: Any = self.gram.cross(x)
        cross = cross.dense() if isinstance(cross, Factored) else cross
        W = np.asarray(self.ridge.regress(cross)).T
        if weights is not None:
            W, mass = weights @ W, weights @ mass
        if self._values is not None:
            return W @ self._values, mass
        spread = W if self.groups is None else np.asarray(self.groups.spread(W))
        return self.reference.embed(self.kernel, self.outputs, spread), mass

    def density(self, x: Array, weights: Array | None = None, complete: bool = True, **other: Any) -> Density:
        """The densities of y at ``x``, a batch of q.

        Args:
            x: as in :meth:`embedding`.
            weights: as there.
            complete: whether the marginal of y is added where the weights lack mass.
            **other: fields of the densities.
        """
        values, mass = self.embedding(x, weights)
        if complete:
            values = values + completion(mass)[:, None] * self.marginal
        return reconstruct(self.kernel, self.reference, values, self.reg_y, len(self.outputs), **other)


@dataclass(frozen=True)
class DensitySums:
    """What the operator needs of rows that are read in blocks.

    Attributes:
        fitted: the coefficients of the regression of ``ℓ(y, z)`` on x, (p, M).
        ones: of that of 1, (p, 1).
        marginal: the embedding of all outputs at the reference points, (M,).
        count: n.
    """

    fitted: np.ndarray
    ones: np.ndarray
    marginal: np.ndarray
    count: int

    @classmethod
    def of(
        cls,
        X: Any,
        Y: Any,
        kernel_x: Any,
        standard: Any,
        operator: DensityOperator,
        without: Array,
        saved: Any,
    ) -> DensitySums:
        """One pass over the rows, but for those whose numbers are in ``without`` (in order).

        Args:
            X, Y: the rows.
            kernel_x: with features.
            standard: location and scale that the outputs are taken by, or None.
            operator: with what is in use.
            without: rows left out.
            saved: a checkpoint, or None.
        """
        reference, kernel_y, reg = operator.reference, operator.kernel, operator.reg_x
        M = len(reference.points)

        label = "sums " + digest(kernel_x, kernel_y, reference.points, without)

        def work(start: int, A: Array, B: Array) -> tuple[Array, ...]:
            kept = np.ones(len(A), dtype=bool)
            first, last = np.searchsorted(without, (start, start + len(A)))
            kept[without[first:last] - start] = False
            A, T = A[kept], np.asarray(B[kept], dtype=np.float64)
            if standard is not None and len(A):
                location, scale = standard.at(A)
                T = (T - location) / scale
            Phi = np.asarray(kernel_x.features(A))
            total, marginal = np.zeros((Phi.shape[1], M)), np.zeros(M)
            for rows, values in reference.blocks(kernel_y, T):
                total += Phi[rows].T @ values
                marginal += values.sum(axis=0)
            return Phi.T @ Phi, total, Phi.sum(axis=0)[:, None], marginal, np.array(len(A))

        gram, total, ones, marginal, n = reduce_rows(work, add, X, Y, width=M, checkpoint=saved, label=label)
        factor = Moments(gram, total, ones[:, 0], marginal, int(n)).factor(reg)
        return cls(factor.solve(total), factor.solve(ones), marginal / n, int(n))


@dataclass(frozen=True)
class SummedDensity(DensityOperator):
    """The operator from sums over rows that were not kept.

    Attributes:
        sums: these.
    """

    sums: DensitySums | None = None

    @property
    def _fitted(self) -> Any:  # type: ignore[override]
        return self.sums.fitted  # type: ignore[union-attr]

    @property
    def _ones(self) -> Any:  # type: ignore[override]
        return self.sums.ones  # type: ignore[union-attr]

    @property
    def marginal(self) -> Any:  # type: ignore[override]
        return self.sums.marginal  # type: ignore[union-attr]
