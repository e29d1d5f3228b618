"""The Gram matrix as a linear operator, and its ridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from muhat._array import Array, is_traced, namespace, root
from muhat._validation import check_positive


@dataclass(frozen=True)
class Factored:
    """A matrix ``left @ right`` that is never multiplied out unless asked: (n, p) @ (p, q)."""

    left: Array
    right: Array

    @property
    def shape(self) -> tuple[int, int]:
        return (self.left.shape[0], self.right.shape[1])

    @property
    def ndim(self) -> int:
        return 2

    @property
    def T(self) -> Factored:
        return Factored(self.right.T, self.left.T)

    def __matmul__(self, B: Array) -> Array:
        return self.left @ (self.right @ B)

    def __rmatmul__(self, B: Array) -> Array:
        return (B @ self.left) @ self.right

    __array_priority__ = 1000  # so that ndarray @ Factored comes here
    __array_ufunc__ = None

    def dense(self) -> Array:
        """The matrix itself."""
        return self.left @ self.right


def half_solve(lower: Array, B: Array, xp: Any) -> Array:
    """``L⁻¹ B`` for lower triangular L, in the namespace ``xp``."""
    if xp is not np:
        from jax.scipy.linalg import solve_triangular as jax_solve_triangular

        return jax_solve_triangular(lower, B, lower=True)
    from scipy.linalg import solve_triangular

    return solve_triangular(lower, B, lower=True, check_finite=False)


def as_dense(A: Array | Factored) -> Array:
    """``A`` multiplied out, if it is factored."""
    return A.dense() if isinstance(A, Factored) else A


class Ridge:
    """``A = √D K √D + c I`` of a Gram matrix K, ready to solve. ``D`` is the identity by default.

    Attributes:
        c: the ridge.
        root_weights: √D as a vector (n,), or None.
    """

    c: Array
    root_weights: Array | None

    def solve(self, B: Array | Factored) -> Any:
        """``A⁻¹ B`` for ``B`` (n,), (n, k) or factored."""
        raise TypeError("write solve")

    def logdet(self) -> Array:
        """``log det A``."""
        raise TypeError("write logdet")

    def inverse_diag(self) -> Array:
        """Diagonal of ``A⁻¹``, from which leave-one-out residuals follow in closed form."""
        raise TypeError("write inverse_diag")

    def regress(self, B: Array | Factored) -> Any:
        """``(K + c D⁻¹)⁻¹ B``, computed as ``√D A⁻¹ √D B`` so that weights may be 0."""
        s = self.root_weights
        return self.solve(B) if s is None else _scale_rows(s, self.solve(_scale_rows(s, B)))

    def fit(self, F: Array) -> Array:
        """Coefficients of the ridge regression of ``F`` (n,) or (n, k), for ``Gram.evaluate``."""
        return self.regress(F)


def _scale_rows(s: Array, B: Array | Factored) -> Any:
    if isinstance(B, Factored):
        return Factored(s[:, None] * B.left, B.right)
    return s[:, None] * B if B.ndim == 2 else s * B


@dataclass(frozen=True)
class FeatureMap:
    """Features whose products are a Gram matrix, ``K = ΦΦᵀ``, and those of other points.

    Attributes:
        Phi: Φ, (n, r).
        lower: L with ``φ(x) = L⁻¹ k(x_kept, x)``; None where ``cross`` comes factored as ``Φ φ(x)``.
        kept: which of the n points span the others, (r,).
    """

    Phi: Array
    lower: Array | None = None
    kept: Any = None

    def project(self, cross: Array | Factored) -> Array:
        """Features (r, batch) of points or embeddings with ``k(X, x)`` (n, batch)."""
        if isinstance(cross, Factored) and cross.left is self.Phi:
            return cross.right
        if self.lower is None:
            raise ValueError(
                "cross must be what cross(x) gives of the Gram that these features are of: an array alone "
                "does not tell the features of x."
            )
        values = as_dense(cross)[self.kept]
        return half_solve(self.lower, values, namespace(self.lower, values))


class Gram:
    """``K = k(xᵢ, xⱼ)`` as a linear operator, (n, n).

    Attributes:
        kernel: k (for low-rank representations, the approximate kernel φ(x)ᵀφ(x')).
        points: the x, (n, d).
    """

    kernel: Any
    points: Any

    @property
    def shape(self) -> tuple[int, int]:
        raise TypeError("write shape")

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, B: Array) -> Array:
        """``K B`` for ``B`` (n,) or (n, k)."""
        raise TypeError("write __matmul__")

    def diag(self) -> Array:
        """``k(xᵢ, xᵢ)``, (n,)."""
        raise TypeError("write diag")

    def dense(self) -> Array:
        """K itself, (n, n)."""
        raise TypeError("write dense")

    def cross(self, X: Array) -> Array | Factored:
        """``k(xᵢ, Xⱼ)``, (n, len(X)): an array, or factored in low-rank representations."""
        if self.kernel is None or self.points is None:
            raise ValueError(
                f"This {type(self).__name__} was made of a matrix and knows no kernel or points: make "
                "it with a representation, e.g. mh.Exact().gram(kernel, X)."
            )
        # Transposed so that the result has LAPACK's order and is solved without a copy.
        return self.kernel(X, self.points).T

    def evaluate(self, X: Array, coefficients: Array) -> Array:
        """The functions with these coefficients (from ``Ridge.fit``) at the rows of ``X``."""
        return self.cross(X).T @ coefficients

    def take(self, rows: Any) -> Gram:
        """The Gram of some of the points."""
        raise ValueError(f"{type(self).__name__} cannot be cut: use mh.Exact() or mh.Nystrom(p).")

    def factor(self) -> FeatureMap:
        """Features Φ with ``ΦΦᵀ = K``, exact but for rounding."""
        raise ValueError(
            f"{type(self).__name__} has no features to work in: pass representation=mh.Nystrom(500)."
        )

    def ridge(self, c: Any, weights: Any = None) -> Ridge:
        """``√D K √D + c I`` with ``D = diag(weights)``, factored once."""
        check_positive(c, "c", "the ridge must be positive; raise the regulariser", scalar=True)
        roots = None
        if weights is not None:
            xp = namespace(weights, c)
            weights = xp.asarray(weights)
            if weights.shape != (len(self),):
                raise ValueError(
                    f"weights must have shape ({len(self)},), one for each point, got {weights.shape}."
                )
            if not is_traced(weights):
                seen = np.asarray(weights)
                if not (np.isfinite(seen).all() and (seen >= 0).all()):
                    raise ValueError(
                        "weights must not be negative, NaN or infinite: clip them at 0 (points of weight "
                        "0 drop out)."
                    )
            roots = root(weights, xp)
        return self._ridge(c, roots)

    def _ridge(self, c: Array, root_weights: Array | None) -> Ridge:
        raise TypeError("write _ridge")
