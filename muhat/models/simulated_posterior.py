"""Posteriors from simulations as results: each observation may have points of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._tables import Encoder
from muhat.embedding import Embedding
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.simulations import of_sum_one
from muhat.learning.supports import Support


class SimulatedPosterior(Embedding):
    """The distributions of θ given observations: one embedding, or a batch with one an observation.

    What the points are depends on the method: simulated θ moved to where they would be had they led to the
    observation (``adjusted``), draws of the prior or about those that matter (``surrogate``), the prior's
    points (``dme``, ``kelfi``), or the simulated θ themselves, as those of simulations that equal the
    observation. In a batch each embedding keeps its points:
    ``points`` are all of them, and ``weights`` (batch, all points) are zero on those of others.

    Attributes:
        parts: points (m, p) and weights (m,) of each observation.
        kernels: of each; chosen from its points where none was given, as detail is much finer than the prior.
        method: by which.
        remoteness: distance of each observation to the nearest simulated x, over the largest such distance
            among the simulations themselves, (q,): above one, none was as lonely.
        outside: which columns of each observation lie outside the simulated range, (q, d).
        conflict: which observations conflict with the prior that was given, (q,).
        flagged: which observations are far from anything simulated, or conflict with the prior, (q,).
        matches: simulations that equal each observation and whose θ are part of the posterior, (q,): all
            of it from 50 on. Under another prior their effective number.
        support: of θ, that no point leaves; ``print(posterior.support)`` says whether it was inferred.
    """

    # Of files from before they were kept.
    support: Support | None = None
    conflict: np.ndarray | None = None
    far: np.ndarray | None = None
    matches: Any = None

    def __init__(
        self,
        parts: list[tuple[np.ndarray, np.ndarray]],
        kernels: list[Kernel],
        method: str,
        remoteness: np.ndarray,
        outside: np.ndarray,
        flagged: np.ndarray,
        encoder: Encoder | None = None,
        single: bool = False,
        support: Support | None = None,
        conflict: np.ndarray | None = None,
        matches: np.ndarray | None = None,
    ) -> None:
        self.parts, self.kernels, self.method = parts, kernels, method
        self.remoteness, self.outside, self.far = remoteness, outside, flagged
        self.conflict = np.zeros(len(parts), dtype=bool) if conflict is None else conflict
        self.matches = np.zeros(len(parts)) if matches is None else matches
        self.flagged = flagged | self.conflict
        self.encoder, self.single, self.support = encoder, single, support
        self._coefficients = None

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        return self.kernels[0]

    @property
    def _shared(self) -> bool:
        """Whether all have the same points."""
        return all(points is self.parts[0][0] for points, _ in self.parts)

    @property
    def points(self) -> Array:  # type: ignore[override]
        """All points, (m, p)."""
        return self.parts[0][0] if self._shared else np.concatenate([points for points, _ in self.parts])

    @property
    def weights(self) -> Array:
        """(m,), or (batch, m) on all points of the batch."""
        if self.single:
            return self.parts[0][1]
        if self._shared:
            return np.stack([w for _, w in self.parts])
        ends = np.cumsum([0, *(len(w) for _, w in self.parts)])
        out = np.zeros((len(self.parts), ends[-1]))
        for i, (_, w) in enumerate(self.parts):
            out[i, ends[i] : ends[i + 1]] = w
        return out

    @property
    def _weights(self) -> Array:  # type: ignore[override]
        return self.weights

    @property
    def is_batch(self) -> bool:
        """Whether this is several embeddings."""
        return not self.single

    @property
    def unlike(self) -> np.ndarray:
        """Which observations lie far from anything simulated, (k,)."""
        return np.flatnonzero(self.flagged if self.far is None else self.far)

    def __len__(self) -> int:
        if self.single:
            raise TypeError("A single embedding has no length; a batch has the number of its rows.")
        return len(self.parts)

    def __getitem__(self, index: Any) -> SimulatedPosterior:
        """One embedding of a batch, or a smaller batch."""
        if self.single:
            raise TypeError("A single embedding has no rows; only a batch can be indexed.")
        which = np.arange(len(self.parts))[index]
        rows = np.atleast_1d(which)
        return SimulatedPosterior(
            [self.parts[i] for i in rows],
            [self.kernels[i] for i in rows],
            self.method,
            self.remoteness[rows],
            self.outside[rows],
            (self.flagged if self.far is None else self.far)[rows],
            self.encoder,
            np.ndim(which) == 0,
            self.support,
            None if self.conflict is None else self.conflict[rows],
            None if self.matches is None else self.matches[rows],
        )

    def __repr__(self) -> str:
        what = "" if self.single else f"batch of {len(self.parts)}, "
        n, d = self.parts[0][0].shape
        return f'SimulatedPosterior({what}{n} points in {d} dimension{"s" if d > 1 else ""}, "{self.method}")'

    def _plain(self, i: int) -> Embedding:
        points, weights = self.parts[i]
        return Embedding(self.kernels[i], points, weights, None, self.encoder)

    def _each(self, f: Callable[[Embedding], Any]) -> Any:
        if self.single:
            return f(self._plain(0))
        return np.stack([np.asarray(f(self._plain(i))) for i in range(len(self.parts))])

    # Readouts go through the embeddings one by one: together their weights would be mostly zeros.

    def expect(self, f: Callable[[Array], Array] | Array) -> Array:
        """``E f = Σᵢ wᵢ f(θᵢ)`` with the weights as they are; see :meth:`Embedding.expect`."""
        return self._each(lambda mu: mu.expect(f)) if callable(f) else super().expect(f)

    @staticmethod
    def _whole(mu: Embedding) -> Embedding:
        """The embedding with weights of sum one: those of published methods have another."""
        return mu._with(of_sum_one(np.asarray(mu.weights)))

    def _inside(self, mu: Embedding) -> Embedding:
        """The same of sum one; with probability weights where these have no mean and variance that can be.

        Weights of published methods may be negative: their mean may leave the support, or all points, and
        their variance may be negative.
        """
        mu = self._whole(mu)
        if mu.weights.min() >= 0:
            return mu
        mean, points = np.asarray(mu.mean()), np.asarray(mu.points)
        there = bool(((points.min(axis=0) <= mean) & (mean <= points.max(axis=0))).all())
        if self.support is not None:
            there &= bool(self.support.contains(mean, whole=False))
        if there:
            unit = points.std(axis=0)
            unit = np.where(unit > 0, unit, 1.0)
            C = np.asarray(mu.cov()) / np.outer(unit, unit)
            there = bool(np.diagonal(C).min() > 0 and np.linalg.eigvalsh(C).min() > -1e-9)
        return mu if there else mu.simplex()

    def mean(self) -> Array:
        """``Σᵢ wᵢ θᵢ / Σᵢ wᵢ``, (p,) or (batch, p).

        Where that leaves the support or the points, or the covariance with these weights is not positive, the
        weights are projected onto the simplex.
        """
        return self._each(lambda mu: self._inside(mu).mean())

    def cov(self) -> Array:
        """(p, p) or (batch, p, p), with the weights of the mean."""
        return self._each(lambda mu: self._inside(mu).cov())

    def quantile(self, q: Any) -> np.ndarray:
        """Marginal quantiles; see :meth:`Embedding.quantile`."""
        return self._each(lambda mu: self._whole(mu).quantile(q))

    def effective_size(self) -> Array:
        """``(Σ|w|)²/Σw²``: how many equal weights say as much; a number or (batch,)."""
        return self._each(lambda mu: mu.effective_size())

    def herd(
        self, n: int, candidates: Any = None, continuous: bool = False, kernel: Kernel | None = None
    ) -> np.ndarray:
        """``n`` super-samples by kernel herding [HR19, Alg. 8.1; CH10], (n, p) or (batch, n, p).

        Args:
            n: how many.
            candidates: points to choose among; the embedding's own by default.
            continuous: whether each is moved by gradient ascent from the best candidate.
            kernel: ℓ' of the algorithm, if it is to be another than the posterior's. The embedding is made
                with ℓ', too: with another kernel (as Alg. 8.1 has it) it would not be that of the samples.
        """

        def one(mu: Embedding) -> np.ndarray:
            if kernel is not None:
                with_it = resolve_kernel(kernel, mu.points, self.encoder, "kernel")
                mu = Embedding(with_it, mu.points, mu.weights, None, self.encoder)
            found = mu.herd(n, candidates, continuous)
            return self.support.reflect(found) if continuous and self.support is not None else found

        return self._each(one)

    def density(self, *args: Any, **kwargs: Any) -> Any:
        """Of one posterior, zero outside the support; see :meth:`Embedding.density`."""
        if self.is_batch and not self._shared:
            raise ValueError(
                f"The {len(self.parts)} posteriors of this batch have points of their own: take one density "
                "at a time, e.g. posterior[0].density()."
            )
        if self.support is None:
            return super().density(*args, **kwargs)
        limits = np.stack([self.support.lower, self.support.upper])
        return super().density(*args, **{"limits": limits, **kwargs})
