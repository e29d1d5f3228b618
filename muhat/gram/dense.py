"""The Gram matrix in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat._array import Array, namespace
from muhat._linalg import Cholesky, cholesky, pivoted_factor
from muhat.gram.base import Factored, FeatureMap, Gram, Ridge, half_solve
from muhat.kernels.base import Kernel


class DenseGram(Gram):
    """K as an array (n, n), made when it is first needed.

    Args:
        K: the matrix; None to make it of ``kernel`` and ``points``.
        kernel: k, needed for new points.
        points: (n, d).
    """

    def __init__(self, K: Array | None, kernel: Kernel | None = None, points: Array | None = None) -> None:
        if K is None and (kernel is None or points is None):
            raise ValueError("DenseGram needs the matrix K, or a kernel and points to make it of.")
        if K is not None and (K.ndim != 2 or K.shape[0] != K.shape[1]):
            raise ValueError(f"K must be a square matrix, got shape {K.shape}.")
        self._K, self.kernel, self.points = K, kernel, points

    @property
    def K(self) -> Array:
        """The matrix, kept once made."""
        if self._K is None:
            self._K = self.kernel(self.points)
        return self._K

    @property
    def shape(self) -> tuple[int, int]:
        n = self.points.shape[0] if self._K is None else self._K.shape[0]
        return (n, n)

    def __matmul__(self, B: Array) -> Array:
        return self.K @ B

    def diag(self) -> Array:
        if self._K is None:
            return self.kernel.diag(self.points)
        return namespace(self._K).diagonal(self._K)

    def dense(self) -> Array:
        return self.K

    def take(self, rows: Array) -> Gram:
        points = None if self.points is None else self.points[rows]
        if self._K is None:
            return DenseGram(None, self.kernel, points)
        return DenseGram(self._K[np.ix_(rows, rows)], self.kernel, points)

    def factor(self) -> FeatureMap:
        xp = namespace(self.K)
        if xp is not np:  # shapes are fixed under JAX: all points, with jitter where it is needed
            factor = cholesky(self.K, "K", "Use a shorter lengthscale, or mh.Nystrom(p).")
            lower = xp.tril(factor.lower)
            return FeatureMap(lower, lower, slice(None))
        # Pivots until the rest is rounding: smooth kernels have far fewer features than points.
        lower, kept = pivoted_factor(self.K)
        Phi = half_solve(lower, self.K[kept], np).T
        return FeatureMap(np.ascontiguousarray(Phi), lower, kept)

    def _ridge(self, c: Array, root_weights: Array | None) -> Ridge:
        s = root_weights
        # If nobody holds K it is made for the factor alone, which then takes its place in memory.
        A = self.kernel(self.points) if self._K is None else self._K
        xp = namespace(A, c, s)
        if s is not None:
            A = s[:, None] * A * s
        if xp is np:
            A = np.array(A, order="C") if A is self._K else A
            A[np.diag_indices(len(A))] += c
        else:
            A = A + c * xp.eye(A.shape[0], dtype=A.dtype)
        factor = cholesky(A, "K + cI", "Raise the regulariser.", overwrite=xp is np)
        return DenseRidge(factor, c, s)


@dataclass(frozen=True)
class DenseRidge(Ridge):
    """A ridge by Cholesky: O(n³) once, O(n²) a right-hand side."""

    factor: Cholesky
    c: Array
    root_weights: Array | None = None

    def solve(self, B: Array | Factored) -> Array | Factored:
        if isinstance(B, Factored):
            return Factored(self.factor.solve(B.left), B.right)
        return self.factor.solve(B)

    def logdet(self) -> Array:
        return self.factor.logdet()

    def inverse_diag(self) -> Array:
        return self.factor.inverse_diag()
