"""Posteriors as results: embeddings that also say how far their observations lie from anything seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._array import Array
from muhat.embedding import Embedding
from muhat.embedding.familiar import Familiar
from muhat.embedding.moments import MomentEmbedding
from muhat.engine import sample_indices
from muhat.gram import Factored, FeatureKernel, Gram, LowRankGram, as_dense
from muhat.kernels.base import Kernel
from muhat.kernels.stationary import Stationary
from muhat.learning.nearness import Nearness

# Entries of the kernel matrix that are made at a time.
BLOCK_ELEMENTS = 1 << 23


class Posterior(Familiar, Embedding):
    """The distributions of z given observations, one embedding an observation.

    Attributes:
        familiarity: the lesser of what :class:`muhat.embedding.Familiar` says and the largest kernel
            correlation with a training row: where this is 0 the pairs say nothing.
    """

    familiarity: Array

    def __init__(
        self, kernel: Kernel, points: Array, weights: Array, familiarity: Array, encoder: Any = None
    ) -> None:
        super().__init__(kernel, points, weights, None, encoder)
        self.familiarity = familiarity

    def __getitem__(self, index: Any) -> Posterior:
        part = super().__getitem__(index)
        return Posterior(part.kernel, part.points, part.weights, self.familiarity[index], part.encoder)


class MomentPosterior(Familiar, MomentEmbedding):
    """The same from pairs that were read in blocks."""

    familiarity: Array

    def __init__(self, familiarity: Array, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.familiarity = familiarity

    def __getitem__(self, index: Any) -> MomentPosterior:
        return MomentPosterior(self.familiarity[index], *self._parts(index))

    def _parts(self, index: Any) -> tuple[Any, ...]:
        """What some of a batch are made of."""
        part: Any = MomentEmbedding.__getitem__(self, index)
        return part.kernel, part.points, part._coefficients, part.moments, part.centre, part.encoder

    @classmethod
    def joined(cls, each: list[MomentPosterior]) -> MomentPosterior:
        """Batches on the same points as one."""
        one: Any = each[0]
        theta = np.concatenate([p._coefficients for p in each])
        moments = tuple(np.concatenate([p.moments[i] for p in each]) for i in range(3))
        near = np.concatenate([p.familiarity for p in each])
        return cls(near, one.kernel, one.points, theta, moments, one.centre, one.encoder)


def familiarity(nearness: Nearness, gram: Gram, x: Array, cross: Array | Factored) -> np.ndarray:
    """How familiar each row of ``x`` is, (q,): as near as its neighbours, and as like as its kernel says.

    Args:
        nearness: to the observations seen in training.
        gram: of them.
        x: (q, d).
        cross: ``k(X, x)``, (n, q).
    """
    return np.minimum(nearness.at(np.asarray(x)), largest_correlation(gram, x, cross))


def largest_correlation(gram: Gram, x: Array, cross: Array | Factored) -> np.ndarray:
    """The largest ``k(xᵢ, x)/√(k(xᵢ, xᵢ) k(x, x))`` over the points of the Gram, for each row of ``x``, (q,).

    Args:
        gram: of the observations seen in training.
        x: (q, d).
        cross: ``k(X, x)``, (n, q).
    """
    inner = getattr(gram.kernel, "kernel", None) if isinstance(gram.kernel, FeatureKernel) else None
    if inner is None:
        return (as_dense(cross) / _root(gram.diag())[:, None]).max(axis=0) / _root(gram.kernel.diag(x))
    # Features that stand for a kernel say little far from the data: the kernel itself, block by block.
    kernel: Kernel = inner
    points = gram.points[sample_indices(len(gram.points))]  # beyond 20 000, some of them tell as much
    if isinstance(kernel, Stationary):
        return np.asarray(kernel.largest(x, points))
    rows = max(1, BLOCK_ELEMENTS // len(points))
    theirs, own = _root(kernel.diag(points)), _root(kernel.diag(x))
    parts = [(kernel(x[i : i + rows], points) / theirs).max(axis=1) for i in range(0, len(x), rows)]
    return np.concatenate(parts) / own


def seen_gram(kernel: Any, X: Array) -> LowRankGram:
    """The Gram of a sample ``X`` (m, d) of rows that were read in blocks, to ask how familiar others are."""
    alone = getattr(kernel, "kernel", None) is None  # features that stand for no kernel
    return LowRankGram(kernel.features(X if alone else X[:1]), kernel, X)


def _root(diagonal: Array) -> np.ndarray:
    return np.sqrt(np.maximum(np.asarray(diagonal), 1e-300))  # a point of norm zero is like no other
