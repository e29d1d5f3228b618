"""Random Fourier features of Gaussians at lengthscales an octave apart, from one set of angles."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from math import factorial, pi
from typing import Any, ClassVar

import numpy as np

from muhat import _threads
from muhat._array import Array
from muhat.gram.features import FeatureKernel
from muhat.gram.fourier import fourier_kernel
from muhat.kernels.algebra import Sum
from muhat.kernels.base import Kernel
from muhat.kernels.stationary import Gaussian

# Halvings of an angle before the Taylor series (the angle is then at most π/16), and doublings after it.
_HALVINGS = 4
# Coefficients in x²; the first that is left out is below 1e-15 there.
_SINE = [(-1) ** k / factorial(2 * k + 1) for k in range(6)]
_COSINE = [(-1) ** k / factorial(2 * k) for k in range(6)]


class OctaveKernel(FeatureKernel):
    """k̂(x, x') = Σⱼ wⱼ/q Σᵢ cos(2ʲ ωᵢᵀ(x − x')): Gaussians of lengthscales ℓ, ℓ/2, ℓ/4, … with weights w.

    Its features are √(wⱼ/q) cos(2ʲωᵢᵀx) and √(wⱼ/q) sin(2ʲωᵢᵀx), octave by octave [RR07]. Twice an angle
    is the square of a complex number, so that one sine and one cosine serve all octaves.

    Args:
        frequencies: ω of the longest lengthscale, (q, d).
        weights: w, one an octave, (J,).
    """

    _parameters: ClassVar[tuple[str, ...]] = ("frequencies", "weights")

    def __init__(self, frequencies: Array, weights: Array) -> None:
        self.frequencies, self.weights = frequencies, weights

    @property
    def size(self) -> int:
        return 2 * len(self.weights) * len(self.frequencies)

    @property
    def scales(self) -> np.ndarray:
        """Factors of the cosines and sines, (p,)."""
        q = len(self.frequencies)
        return np.repeat(np.sqrt(np.asarray(self.weights) / q), 2 * q)

    def features(self, X: Array) -> Array:
        """φ(x) for every row, (n, p): for each octave and frequency, cosine and sine."""
        X = np.asarray(X)
        out = np.empty((len(X), self.size))

        def work(rows: slice) -> None:
            out[rows] = np.swapaxes(self._octaves(X[rows]), 0, 1).reshape(-1, self.size)
            out[rows] *= self.scales

        _threads.run_blocks(work, self.row_blocks(len(X)))
        return out

    def sums(self, X: np.ndarray, weights: np.ndarray, pieces: list[slice]) -> np.ndarray:
        """``Σ wₐ φ(xₐ)`` over the rows of each piece, (pieces, p); the scales are put to the sums."""
        Z = self._octaves(X)
        out = np.empty((len(pieces), len(Z), Z.shape[2]))
        for i, rows in enumerate(pieces):
            np.matmul(weights[rows], Z[:, rows], out=out[i])
        return out.reshape(len(pieces), -1) * self.scales

    def values(self, X: np.ndarray, G: np.ndarray, pieces: list[slice]) -> list[np.ndarray]:
        """``φ(xₐ)ᵀ gᵢ`` of the rows of piece i, for ``G`` (pieces, p)."""
        Z = self._octaves(X)
        G = (G * self.scales).reshape(len(G), len(Z), -1)
        return [
            np.matmul(Z[:, rows], g[:, :, None]).sum(axis=0)[:, 0] for rows, g in zip(pieces, G, strict=True)
        ]

    def row_blocks(self, n: int) -> list[slice]:
        """Rows whose features stay in a core's cache."""
        return _threads.row_blocks(n, self.size, 1 << 17)

    def _octaves(self, X: np.ndarray) -> np.ndarray:
        """Cosine and sine of every angle in turn, octave by octave, (J, n, 2q)."""
        turns = X @ (np.asarray(self.frequencies).T / (2 * pi))
        out = np.empty((len(self.weights), *turns.shape), dtype=complex)
        circle(turns, out[0])
        for lower, upper in pairwise(out):
            np.square(lower, out=upper)
        return out.view(np.float64)

    def groups(self) -> list[slice]:
        """The features of each octave."""
        width = 2 * len(self.frequencies)
        return [slice(j * width, (j + 1) * width) for j in range(len(self.weights))]

    def damping(self, covs: np.ndarray) -> np.ndarray:
        """``E φ(x) / φ(m)`` for Gaussians N(m, S) with covariances S (n, d, d), (n, p)."""
        omega = np.asarray(self.frequencies)
        exponent = -0.5 * np.einsum("qd,nde,qe->nq", omega, covs, omega)
        octaves = 4.0 ** np.arange(len(self.weights))
        damping = np.exp(exponent[:, None] * octaves[:, None])
        return np.repeat(damping.reshape(len(covs), -1), 2, axis=1)

    def drift(self, U: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``∇ₜ gᵀ E φ(x + t)`` at t = 0 where ``u = E φ(x)``, for rows of ``U`` and ``G`` (n, p), (n, d)."""
        shape = (len(U), len(self.weights), len(self.frequencies), 2)
        U, G = U.reshape(shape), G.reshape(shape)
        turned = G[..., 1] * U[..., 0] - G[..., 0] * U[..., 1]  # cos' = −sin, sin' = cos
        return np.einsum("njq,j->nq", turned, 2.0 ** np.arange(shape[1])) @ np.asarray(self.frequencies)

    def __repr__(self) -> str:
        return f"OctaveKernel(p={self.size}, weights={np.round(self.weights, 3).tolist()})"

    def resolve(self, X: Any, names: list[str] | None = None) -> Kernel:
        return self


def octave_kernel(longest: np.ndarray, weights: Any, p: int, rng: np.random.Generator) -> OctaveKernel:
    """Features of Gaussians from lengthscales ``longest`` (d,) downwards, about ``p`` of them in all."""
    d, weights = len(longest), np.asarray(weights, dtype=np.float64)
    each = max(2, p // len(weights))
    unit = fourier_kernel(Gaussian(1.0), each, d, rng)
    return OctaveKernel(np.asarray(unit.frequencies) / longest, weights)  # type: ignore[attr-defined]


def octave_sum(longest: np.ndarray, weights: Any) -> Kernel:
    """The kernel itself, ``Σⱼ wⱼ Gaussian(ℓ/2ʲ)``; octaves without weight are left out."""
    parts: list[Kernel] = [
        float(w) * Gaussian(longest / 2**j) for j, w in enumerate(np.asarray(weights)) if w > 0
    ]
    return reduce(Sum, parts)


def circle(turns: np.ndarray, out: np.ndarray) -> None:
    """``exp(2πit)`` for ``turns`` t, which are overwritten, into ``out``; to about 1e-14.

    A series at a sixteenth of the angle and four squares: products alone, which NumPy runs several times as
    fast as its double-precision sine and cosine.
    """
    turns -= np.rint(turns)
    turns *= 2 * pi / 2**_HALVINGS
    x2 = turns * turns
    out.real = _series(_COSINE, x2)
    out.imag = _series(_SINE, x2) * turns
    for _ in range(_HALVINGS):
        np.square(out, out=out)


def _series(coefficients: list[float], x2: np.ndarray) -> np.ndarray:
    out = np.full_like(x2, coefficients[-1])
    for a in reversed(coefficients[:-1]):
        out *= x2
        out += a
    return out


__all__ = ["OctaveKernel", "octave_kernel", "octave_sum"]
