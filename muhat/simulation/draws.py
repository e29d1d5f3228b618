"""Points that stand for a posterior, from an embedding or a sampler."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from muhat.embedding import Embedding
from muhat.embedding.simplex import project_simplex
from muhat.learning.smoothed_prior import systematic

BATCH = 50  # posteriors that a model is asked for at a time
NO_MASS = 1e-6  # sum of weights below which an embedding is of no distribution


class Weighted(NamedTuple):
    """A distribution as weighted points.

    Attributes:
        points: (n, p).
        weights: probabilities, (n,).
        negative: the share ``Σ w⁻/Σ |w|`` of negative weight that was projected away.
    """

    points: np.ndarray
    weights: np.ndarray
    negative: float

    @property
    def size(self) -> float:
        """``1/Σ w²``: how many equal weights say as much."""
        return float(1 / (self.weights**2).sum())

    def resample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """``n`` points of equal weight, (n, p), in random order: point i comes ``n wᵢ`` times, up or down."""
        return self.points[systematic(self.weights, n, rng)]


def weighted(mu: Embedding) -> Weighted:
    """An embedding as a distribution: its weights normalised, then projected onto the simplex."""
    W = np.asarray(mu.normalize().weights, dtype=np.float64)
    if W.ndim != 1:
        raise ValueError(
            f"Got a batch of {len(W)} embeddings where one is meant: choose one, e.g. posterior[0]."
        )
    negative = float(np.maximum(-W, 0).sum() / np.abs(W).sum())
    points = np.asarray(mu.points, dtype=np.float64)
    kept = project_simplex(W)
    return Weighted(points[kept > 0], kept[kept > 0], negative)


def posteriors(model: Any, x: np.ndarray, n: int) -> Iterator[tuple[Weighted | None, bool]]:
    """The posterior at each row of ``x``, and whether the model calls the row unlike all that it knows.

    None where the embedding has no mass, far from all simulations.

    Args:
        model: with ``posterior(x)``, which returns embeddings, or with ``sample(x, n)``, which returns
            (n, p) or (1, n, p) for one row.
        x: (m, d).
        n: draws of ``sample``.
    """
    if hasattr(model, "posterior"):
        for start in range(0, len(x), BATCH):
            rows = x[start : start + BATCH]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of unlike rows, which are counted
                batch = model.posterior(rows)
            unlike = set(np.asarray(getattr(batch, "unlike", []), dtype=int).tolist())
            one = isinstance(batch, Embedding) and not batch.is_batch
            for i in range(len(rows)):
                mu = batch if one else batch[i]
                mass = abs(float(mu.weights.sum())) > NO_MASS
                yield (weighted(mu) if mass else None), i in unlike
        return
    for row in x:
        draws = np.asarray(model.sample(row[None], n), dtype=np.float64)
        draws = draws.reshape(-1, draws.shape[-1] if draws.ndim > 1 else 1)
        yield Weighted(draws, np.full(len(draws), 1 / len(draws)), 0.0), False
