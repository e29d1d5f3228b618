"""The Gram matrix in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat._array import Array, namespace
from muhat._linalg import Cholesky, cholesky
from muhat.gram.base import Factored, Gram, Ridge
from muhat.kernels.base import Kernel


class DenseGram(Gram):
    """K as an array (n, n)."""

    def __init__(self, K: Array, kernel: Kernel | None = None, points: Array | None = None) -> None:
        if K.ndim != 2 or K.shape[0] != K.shape[1]:
            raise ValueError(f"K must be a square matrix, got shape {K.shape}.")
        self.K, self.kernel, self.points = K, kernel, points

    @property
    def shape(self) -> tuple[int, int]:
        return self.K.shape

    def __matmul__(self, B: Array) -> Array:
        return self.K @ B

    def diag(self) -> Array:
        return namespace(self.K).diagonal(self.K)

    def dense(self) -> Array:
        return self.K

    def _ridge(self, c: Array, root_weights: Array | None) -> Ridge:
        s = root_weights
        xp = namespace(self.K, c, s)
        A = self.K if s is None else s[:, None] * self.K * s
        if xp is np:
            A = np.array(A, order="C") if s is None else A
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
