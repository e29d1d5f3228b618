"""The Gram matrix of finitely many features, K = ΦΦᵀ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat import _threads
from muhat._array import Array, namespace
from muhat._linalg import Cholesky, cholesky
from muhat.gram.base import Factored, FeatureMap, Gram, Ridge, _scale_rows
from muhat.kernels.base import Kernel


class LowRankGram(Gram):
    """``K = ΦΦᵀ`` from features Φ (n, p); everything costs O(np² + p³) at most."""

    def __init__(self, Phi: Array, kernel: Kernel | None = None, points: Array | None = None) -> None:
        if Phi.ndim != 2:
            raise ValueError(f"Phi must be a matrix of features, (n, p), got shape {Phi.shape}.")
        self.Phi, self.kernel, self.points = Phi, kernel, points

    @property
    def shape(self) -> tuple[int, int]:
        return (self.Phi.shape[0], self.Phi.shape[0])

    def __matmul__(self, B: Array) -> Array:
        return self.Phi @ (self.Phi.T @ B)

    def diag(self) -> Array:
        return (self.Phi**2).sum(axis=1)

    def dense(self) -> Array:
        return self.Phi @ self.Phi.T

    def cross(self, X: Array) -> Array | Factored:
        features = getattr(self.kernel, "features", None)
        if features is None:
            return super().cross(X)
        return Factored(self.Phi, features(X).T)

    def evaluate(self, X: Array, coefficients: Array) -> Array:
        features = getattr(self.kernel, "features", None)
        if features is None:
            raise ValueError(
                "This LowRankGram was made of features alone and cannot evaluate functions at new points: "
                "make it with a representation, e.g. mh.Nystrom(500).gram(kernel, X)."
            )
        return features(X) @ coefficients

    def take(self, rows: Array) -> Gram:
        points = None if self.points is None else self.points[rows]
        return LowRankGram(self.Phi[rows], self.kernel, points)

    def factor(self) -> FeatureMap:
        return FeatureMap(self.Phi)

    def _ridge(self, c: Array, root_weights: Array | None) -> Ridge:
        Phi = self.Phi if root_weights is None else root_weights[:, None] * self.Phi
        return LowRankRidge(self.Phi, Phi, factor_features(Phi, c), c, root_weights)


# Rows that one thread multiplies at a time, at least; and blocks that a sum has, at most.
BLOCK_ROWS = 2048
BLOCKS = 16


def second_moment(Phi: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``Σᵢ wᵢ φᵢφᵢᵀ``, (p, p), for weights ≥ 0: blocks of the rows that count, each on one core."""
    roots, size = np.sqrt(weights), max(BLOCK_ROWS, -(-len(Phi) // BLOCKS))
    blocks = _threads.row_blocks(len(Phi), 1, size)

    def work(rows: slice) -> np.ndarray:
        kept = np.flatnonzero(roots[rows]) + rows.start
        part = roots[kept, None] * Phi[kept]
        return part.T @ part

    return np.sum(_threads.run_blocks(work, blocks), axis=0)


def factor_features(Phi: Array, c: Array) -> Cholesky:
    """Cholesky factor of ``ΦᵀΦ + cI`` (p, p)."""
    xp = namespace(Phi, c)
    if xp is np:
        from scipy.linalg import get_blas_funcs

        (syrk,) = get_blas_funcs(("syrk",), (Phi,))
        # Φᵀ of a row-major Φ has BLAS's order: no copy. Only the lower triangle is filled; that of
        # the transpose is what Cholesky reads.
        A = np.ascontiguousarray(syrk(1.0, Phi.T, lower=True).T)
        A[np.diag_indices(len(A))] += c
    else:
        A = Phi.T @ Phi + c * xp.eye(Phi.shape[1], dtype=Phi.dtype)
    return cholesky(A, "ΦᵀΦ + cI", "Raise the regulariser or use fewer features.")


@dataclass(frozen=True)
class LowRankRidge(Ridge):
    """A ridge by the p×p system (Woodbury): O(np) a right-hand side.

    Attributes:
        features: Φ.
        Phi: √D Φ.
        factor: of ``ΦᵀDΦ + cI``.
    """

    features: Array
    Phi: Array
    factor: Cholesky
    c: Array
    root_weights: Array | None = None

    def solve(self, B: Array | Factored) -> Array | Factored:
        if isinstance(B, Factored):
            return Factored(self.solve(B.left), B.right)
        return (B - self.Phi @ self.factor.solve(self.Phi.T @ B)) / self.c

    def regress(self, B: Array | Factored) -> Array | Factored:
        if not isinstance(B, Factored) or B.left is not self.features:
            return super().regress(B)
        # (ΦΦᵀ + c)⁻¹ Φ = Φ (ΦᵀΦ + c)⁻¹: no cancellation, and the result stays factored.
        left = self.Phi if self.root_weights is None else self.root_weights[:, None] * self.Phi
        return Factored(left, self.factor.solve(B.right))

    def fit(self, F: Array) -> Array:
        weighted = F if self.root_weights is None else _scale_rows(self.root_weights, F)
        return self.factor.solve(self.Phi.T @ weighted)

    def logdet(self) -> Array:
        n, p = self.Phi.shape
        return (n - p) * namespace(self.c).log(self.c) + self.factor.logdet()

    def inverse_diag(self) -> Array:
        leverage = (self.factor.half_solve(self.Phi.T) ** 2).sum(axis=0)
        return (1 - leverage) / self.c
