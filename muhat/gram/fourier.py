"""Random Fourier features of a stationary kernel."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from muhat import _threads
from muhat._array import Array, namespace
from muhat.gram.features import FeatureKernel
from muhat.kernels.base import Kernel


class FourierKernel(FeatureKernel):
    """k̂(x, x') = (a/q) Σ cos(ωᵢᵀ(x − x')) with q = p/2 frequencies [RR07].

    Its features are cos(ωᵢᵀx) and sin(ωᵢᵀx), scaled by √(a/q), with a = k(x, x).
    """

    _parameters: ClassVar[tuple[str, ...]] = ("kernel", "frequencies", "scale")

    def __init__(self, kernel: Kernel, frequencies: Array, scale: Array) -> None:
        self.kernel, self.frequencies, self.scale = kernel, frequencies, scale

    @property
    def size(self) -> int:
        return 2 * self.frequencies.shape[0]

    def features(self, X: Array) -> Array:
        xp = namespace(X, *self.leaves())
        if xp is not np:
            angles = X @ self.frequencies.T
            return xp.concatenate([xp.cos(angles), xp.sin(angles)], axis=1) * self.scale
        q, dtype = len(self.frequencies), np.result_type(X, np.float32)
        out = np.empty((len(X), 2 * q), dtype)
        turns = np.asarray(self.frequencies, dtype=dtype).T

        def work(rows: slice) -> None:
            block = out[rows]
            angles = np.matmul(X[rows], turns, out=block[:, :q])
            np.sin(angles, out=block[:, q:])
            np.cos(angles, out=angles)
            block *= dtype.type(self.scale)

        _threads.run_blocks(work, _threads.row_blocks(len(X), 2 * q))
        return out

    def drift(self, U: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``∇ₜ gᵀ E φ(x + t)`` at t = 0 where ``u = E φ(x)``, for rows of ``U`` and ``G`` (n, p), (n, d)."""
        omega = np.asarray(self.frequencies)
        q = len(omega)
        return (G[:, q:] * U[:, :q] - G[:, :q] * U[:, q:]) @ omega  # cos' = −sin, sin' = cos

    def __repr__(self) -> str:
        return f"FourierKernel({self.kernel!r}, p={self.size})"

    def resolve(self, X: Any, names: list[str] | None = None) -> Kernel:
        return self


def fourier_kernel(
    kernel: Kernel, p: int, d: int, rng: np.random.Generator, orthogonal: bool = True
) -> Kernel:
    """Fourier features with ``p`` rounded up to even; orthogonal where the kernel is isotropic.

    Orthogonal features [YU16] replace the directions of the frequencies, d at a time, by a random
    orthonormal basis and keep their lengths: the same distribution for each, less variance together.
    """
    q = -(-p // 2)
    frequencies = kernel.spectral_sample(q, d, rng)
    if orthogonal and kernel.isotropic and d > 1:
        frequencies = _orthogonal(kernel, frequencies, rng)
    amplitude = kernel.amplitude
    return FourierKernel(kernel, frequencies, namespace(amplitude).sqrt(amplitude / q))


def _orthogonal(kernel: Kernel, frequencies: Array, rng: np.random.Generator) -> Array:
    q, d = frequencies.shape
    while hasattr(kernel, "kernel"):
        kernel = kernel.kernel  # type: ignore[attr-defined]
    ell = kernel._lengthscales(d)  # type: ignore[attr-defined]
    lengths = namespace(ell).linalg.norm(frequencies * ell, axis=1, keepdims=True)
    bases = [_random_rotation(d, rng) for _ in range(-(-q // d))]
    return lengths * np.concatenate(bases)[:q] / ell


def _random_rotation(d: int, rng: np.random.Generator) -> np.ndarray:
    Q, R = np.linalg.qr(rng.standard_normal((d, d)))
    return Q * np.sign(np.diagonal(R))
