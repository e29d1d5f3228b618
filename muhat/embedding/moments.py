"""Embeddings of rows that were not kept: feature coefficients and moments."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._tables import Encoder
from muhat._validation import as_generator
from muhat.embedding.embedding import Embedding
from muhat.engine import Rows, sample_rows, sum_rows
from muhat.gram import FeatureKernel, streamed_representation
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel

# Rows that are kept of those read in blocks, for readouts that need points.
POINTS = 2_000

# Ridge of the weights on points, over the mean square of their features.
RIDGE = 1e-6


class MomentEmbedding(Embedding):
    """``μ`` by its coefficients ``Σᵢ wᵢ φ(zᵢ)`` and the moments ``Σᵢ wᵢ``, ``Σᵢ wᵢ zᵢ``, ``Σᵢ wᵢ zᵢzᵢᵀ``.

    Evaluations, inner products, mean and covariance are those of all the rows it was made of. Readouts that
    need points (quantiles, histograms, densities, herding without candidates) use a sample of them, with the
    weights whose embedding is nearest.

    Attributes:
        points: the sample, (m, d).
        centre: that the moments are about, (d,).
    """

    def __init__(
        self,
        kernel: FeatureKernel,
        points: Array,
        coefficients: Array,
        moments: tuple[Array, Array, Array],
        centre: Array,
        encoder: Encoder | None = None,
    ) -> None:
        self.kernel, self.points, self.encoder = kernel, points, encoder
        self._coefficients, self.moments, self.centre = coefficients, moments, centre

    @property
    def is_batch(self) -> bool:
        return self._coefficients.ndim == 2

    def __len__(self) -> int:
        return len(self._coefficients) if self.is_batch else super().__len__()

    @cached_property
    def _weights(self) -> Array:  # type: ignore[override]
        kernel: Any = self.kernel
        P = np.asarray(kernel.features(self.points))
        A = P.T @ P
        A[np.diag_indices(len(A))] += RIDGE * np.trace(A) / len(A)
        W = np.linalg.solve(A, np.atleast_2d(self._coefficients).T).T @ P.T
        total = W.sum(axis=1, keepdims=True)
        W = W * np.where(np.abs(total) > 1e-12, np.atleast_1d(self.moments[0])[:, None] / total, 1.0)
        return W if self.is_batch else W[0]

    def _scaled(self, take: Any) -> MomentEmbedding:
        kernel: Any = self.kernel
        moments = tuple(take(m) for m in self.moments)
        theta = take(self._coefficients)
        return MomentEmbedding(kernel, self.points, theta, moments, self.centre, self.encoder)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Embedding:
        if not self.is_batch:
            return super().__getitem__(index)
        return self._scaled(lambda m: m[index])

    def __mul__(self, factor: Any) -> Embedding:
        return self._scaled(lambda m: factor * m) if np.isscalar(factor) else NotImplemented

    __rmul__ = __mul__

    def _combine(self, other: Embedding, sign: float) -> Embedding:
        alike = isinstance(other, MomentEmbedding) and np.array_equal(self.centre, other.centre)
        if not alike or not isinstance(other, MomentEmbedding):
            return super()._combine(other, sign)
        self._check_same_space(other)
        kernel: Any = self.kernel
        moments: Any = tuple(a + sign * b for a, b in zip(self.moments, other.moments, strict=True))
        theta = self._coefficients + sign * other._coefficients
        return MomentEmbedding(kernel, self.points, theta, moments, self.centre, self.encoder)

    def normalize(self) -> Embedding:
        mass = np.asarray(self.moments[0])
        if np.abs(mass).min() < 1e-12:
            return super().normalize()  # says why not
        return self._scaled(lambda m: m / mass.reshape(mass.shape + (1,) * (np.ndim(m) - mass.ndim)))

    def mean(self) -> Array:
        self._check_numeric("mean")
        mass, first, _ = self.moments
        return first + np.asarray(mass)[..., None] * self.centre

    def cov(self) -> Array:
        self._check_numeric("cov")
        mass, first, second = self.moments
        t, a = np.asarray(mass)[..., None, None], first[..., :, None]
        aT, C = np.swapaxes(a, -1, -2), self.centre[:, None]
        return second - a * aT + (1 - t) * (a * C.T + C * aT + t * C * C.T)


def moment_functions(B: Array, centre: Array) -> Array:
    """Of each row: 1, z − c and the products of (z − c) with itself, (n, 1 + d + d²)."""
    Z = B - centre
    products = (Z[:, :, None] * Z[:, None, :]).reshape(len(Z), -1)
    return np.concatenate([np.ones((len(Z), 1)), Z, products], axis=1)


def split_moments(values: Array, d: int) -> tuple[Array, Array, Array]:
    """Mass, first and second moments out of the expectations of :func:`moment_functions`, (…, 1 + d + d²)."""
    second = values[..., 1 + d : 1 + d + d * d]
    return values[..., 0], values[..., 1 : 1 + d], second.reshape(*second.shape[:-1], d, d)


class Functions:
    """Of rows: mass and moments about a centre, and features, (m, 1 + d + d² + q)."""

    def __init__(self, kernel: Any, centre: Array) -> None:
        self.kernel, self.centre = kernel, centre

    def __call__(self, Z: Array) -> Array:
        return np.concatenate([moment_functions(Z, self.centre), self.kernel.features(Z)], axis=1)


def embed_rows(
    source: Rows, kernel: Kernel | None, representation: Representation | None, random_state: Any
) -> MomentEmbedding:
    """The mean embedding of rows that are read in blocks: once for a sample, once for the sums."""
    represent = streamed_representation(representation)
    encoder = Encoder(source.names)
    n, (part,) = sample_rows(source)
    features: Any = resolve_kernel(kernel, part, encoder, "kernel")
    features = represent.fit(features, part, as_generator(random_state))
    centre = part.mean(axis=0)

    def work(A: Array) -> tuple[Array, Array, Array]:
        Z = A - centre
        return features.features(A).sum(axis=0), Z.sum(axis=0), Z.T @ Z

    theta, first, second = sum_rows(work, source, width=features.size)
    moments = (np.array(1.0), first / n, second / n)
    return MomentEmbedding(features, part[:POINTS], theta / n, moments, centre, encoder)
