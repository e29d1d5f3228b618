"""The Gram matrix of a product kernel on a product of point sets, K = K₁ ⊗ … ⊗ K_q."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np

from muhat._array import Array, namespace
from muhat.gram.base import Factored, Gram, Ridge
from muhat.gram.dense import DenseGram
from muhat.gram.iterative import IterativeRidge


def kron_matmul(factors: list[Array], B: Array) -> Array:
    """``(A₁ ⊗ … ⊗ A_q) B`` for ``B`` (n,) or (n, k), one factor at a time."""
    xp = namespace(B, *factors)
    tail = B.shape[1:]
    T = B.reshape(*[A.shape[1] for A in factors], -1)
    for axis, A in enumerate(factors):
        T = xp.moveaxis(xp.tensordot(A, T, axes=(1, axis)), 0, axis)
    return T.reshape(-1, *tail)


def _outer(vectors: list[Array]) -> Array:
    """All products of one entry of each vector, in Kronecker order."""
    return reduce(lambda a, b: (a[:, None] * b[None, :]).reshape(-1), vectors)


class KroneckerGram(Gram):
    """``K = K₁ ⊗ … ⊗ K_q``: the last factor's points vary fastest. K is never formed.

    Args:
        factors: the matrices K₁ … K_q, each square.
    """

    kernel = None
    points = None

    def __init__(self, factors: list[Array]) -> None:
        if not factors or any(K.ndim != 2 or K.shape[0] != K.shape[1] for K in factors):
            raise ValueError(f"factors must be square matrices, got shapes {[np.shape(K) for K in factors]}.")
        self.factors = list(factors)

    @property
    def shape(self) -> tuple[int, int]:
        n = int(np.prod([K.shape[0] for K in self.factors]))
        return (n, n)

    def __matmul__(self, B: Array) -> Array:
        return kron_matmul(self.factors, B)

    def diag(self) -> Array:
        return _outer([namespace(K).diagonal(K) for K in self.factors])

    def dense(self) -> Array:
        return reduce(namespace(*self.factors).kron, self.factors)

    def _ridge(self, c: Array, root_weights: Array | None) -> Ridge:
        xp = namespace(c, root_weights, *self.factors)
        values, vectors = zip(*(xp.linalg.eigh(K) for K in self.factors), strict=True)
        spectrum = xp.maximum(_outer(list(values)), 0.0)
        if root_weights is None:
            return KroneckerRidge(list(vectors), spectrum, c, None if xp is np else self.factors)
        # Weights break the product: iterate, preconditioned by the ridge of the mean weight.
        mean = (root_weights**2).mean()
        return IterativeRidge(
            lambda B: self @ B,
            len(self),
            c,
            root_weights,
            KroneckerRidge(list(vectors), mean * spectrum, c),
            lambda: DenseGram(self.dense())._ridge(c, root_weights),
            xp,
        )


@dataclass(frozen=True)
class KroneckerRidge(Ridge):
    """``⊗Uᵢ (⊗Λᵢ + c) ⊗Uᵢᵀ``: the ridge is added in the eigenbasis, where it is diagonal.

    (Inverting factor by factor would drop it: [S20, A.3.2], see the errata.)
    """

    vectors: list[Array]
    spectrum: Array
    c: Array
    # Under JAX: eigenvectors of equal eigenvalues have no derivative, so it is taken through these.
    factors: list[Array] | None = None
    root_weights: None = None

    def solve(self, B: Array | Factored) -> Array | Factored:
        if isinstance(B, Factored):
            return Factored(self.solve(B.left), B.right)
        factors = self.factors
        if factors is None:
            return self._solve(B)
        import jax

        # The derivative of a solve is another solve: the eigenvectors are not differentiated.
        return jax.lax.custom_linear_solve(
            lambda V: kron_matmul(factors, V) + self.c * V,
            namespace(self.spectrum).asarray(B),
            lambda _, V: self._solve(V),
            symmetric=True,
        )

    def _solve(self, B: Array) -> Array:
        inner = kron_matmul([U.T for U in self.vectors], B)
        total = self.spectrum + self.c
        return kron_matmul(self.vectors, inner / (total[:, None] if B.ndim == 2 else total))

    def logdet(self) -> Array:
        return namespace(self.spectrum).log(self.spectrum + self.c).sum()

    def inverse_diag(self) -> Array:
        if self.factors is not None:
            return _jax_inverse_diag()(self.factors, self.vectors, self.spectrum, self.c)
        return kron_matmul([U**2 for U in self.vectors], 1 / (self.spectrum + self.c))


@cache
def _jax_inverse_diag() -> Callable[..., Array]:
    """The diagonal of the inverse with a derivative that does not touch the eigenvectors."""
    import jax
    import jax.numpy as jnp

    @jax.custom_jvp
    def diagonal(factors: list[Array], vectors: list[Array], spectrum: Array, c: Array) -> Array:
        return KroneckerRidge(vectors, spectrum, c).inverse_diag()

    @diagonal.defjvp
    def _(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
        factors, vectors, spectrum, c = primals
        ridge, rows = KroneckerRidge(vectors, spectrum, c, factors), jnp.arange(spectrum.shape[0])

        def change(i: Array) -> Array:  # −(A⁻¹ dA A⁻¹)ᵢᵢ, from one column of the inverse
            x: Array = ridge.solve((rows == i).astype(spectrum.dtype))
            pair, change = (factors, c), (tangents[0], tangents[3])
            return -x @ jax.jvp(lambda factors, c: kron_matmul(factors, x) + c * x, pair, change)[1]

        return diagonal(*primals), jax.lax.map(change, rows)

    return diagonal
