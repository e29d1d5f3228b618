"""Nyström features: the kernel seen through p landmarks."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from muhat import _threads
from muhat._array import Array, namespace
from muhat._linalg import cholesky, pivoted_factor
from muhat.gram.features import FeatureKernel
from muhat.kernels.base import Kernel


class NystromKernel(FeatureKernel):
    """k̂(x, x') = k(x, Z) k(Z, Z)⁻¹ k(Z, x'), the projection onto the span of the landmarks Z.

    Its features are ``φ(x) = L⁻¹ k(Z, x)`` with ``L Lᵀ = k(Z, Z)``, so that an embedding with
    coefficients θ is ``Σⱼ (L⁻ᵀθ)ⱼ k(zⱼ, ·)``: weights on the landmarks.
    """

    _parameters: ClassVar[tuple[str, ...]] = ("kernel", "landmarks", "lower")

    def __init__(self, kernel: Kernel, landmarks: Array, lower: Array) -> None:
        self.kernel, self.landmarks, self.lower = kernel, landmarks, lower

    @classmethod
    def fit(cls, kernel: Kernel, landmarks: Array) -> NystromKernel:
        """Factor the kernel matrix of the landmarks (p, d).

        Landmarks that add nothing to the span of the others (to rounding) are dropped, but not under
        JAX, where shapes are fixed and jitter does what is needed.
        """
        K = kernel(landmarks)
        if namespace(K) is np:
            lower, kept = pivoted_factor(K)
            return cls(kernel, landmarks[kept], lower)
        remedy = "Use fewer landmarks or a shorter lengthscale."
        factor = cholesky(K, "k(Z, Z) of the landmarks", remedy)
        return cls(kernel, landmarks, namespace(K).tril(factor.lower))

    @property
    def size(self) -> int:
        return self.lower.shape[0]

    def features(self, X: Array) -> Array:
        xp = namespace(X, *self.leaves())
        if xp is not np:
            from jax.scipy.linalg import solve_triangular

            return solve_triangular(self.lower, self.kernel(self.landmarks, X), lower=True).T
        from scipy.linalg import get_blas_funcs

        out = np.empty((len(X), self.size), np.result_type(X, np.float32))
        (trsm,) = get_blas_funcs(("trsm",), (out, self.lower))
        # Blocks of rows: each is made, solved in place and stored; no second (n, p) array.
        for rows in _threads.row_blocks(len(X), self.size, 1 << 23):
            block = self.kernel(X[rows], self.landmarks)
            out[rows] = trsm(1.0, self.lower, block.T, lower=True, overwrite_b=True).T
        return out

    def landmark_weights(self, coefficients: Array) -> Array:
        """Weights on the landmarks of an embedding with these coefficients, (…, p) → (…, p)."""
        xp = namespace(coefficients, self.lower)
        return xp.linalg.solve(self.lower.T, coefficients.T).T

    def __repr__(self) -> str:
        return f"NystromKernel({self.kernel!r}, p={self.size})"

    def resolve(self, X: Any, names: list[str] | None = None) -> Kernel:
        return self
