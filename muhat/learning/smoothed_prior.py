"""A prior known by samples, made continuous; and posteriors under it by importance sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from muhat.learning.moved import some, squares
from muhat.learning.supports import BOX, Support

# The width of the smoothing in units of n^{-1/(p+4)} standard deviations: half of Silverman's, as a prior has
# no detail that the simulations would not show.
WIDTH = 0.5
# Centres that are kept.
CENTRES = 1000
# A proposal rests on this many points at least, and this share of it is the prior.
TEMPERED, DEFENSIVE = 40.0, 0.1
# Draws about points go as far as this quantile of the distances to their nearest neighbours.
GAPS = 0.9
# Widths beyond which a Gaussian is nothing.
REACH = 6.0
# With fewer distinct values than this share, the prior is discrete and its own points are used.
DISTINCT = 0.5

Likelihood = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Effort:
    """Of importance sampling: points, how many effective ones suffice, rounds, and centres of the prior."""

    points: int = 1500
    enough: float = 300.0
    rounds: int = 8
    centres: int = 600


@dataclass(frozen=True)
class SmoothedPrior:
    """``Σⱼ αⱼ N(θ̃ⱼ, diag(width²))`` on the line, reflected at the ends of boxes.

    Attributes:
        centres: θ̃, (m, p), logarithms taken of positive columns.
        weights: α, non-negative, of sum one.
        width: (p,); zero for a discrete prior, whose points are used as they are.
        support: the boxes, their ends where the centres are.
    """

    centres: np.ndarray
    weights: np.ndarray
    width: np.ndarray
    support: Support

    @classmethod
    def of(
        cls, C: np.ndarray, weights: np.ndarray, support: Support, rng: np.random.Generator
    ) -> SmoothedPrior:
        """Of points ``C`` (m, p) with logarithms taken as the centres have them."""
        weights = np.maximum(weights, 0.0)
        weights = weights / weights.sum()
        distinct = min(len(np.unique(column)) for column in C.T)
        n = 1 / (weights**2).sum()
        mean = weights @ C
        sd = np.sqrt(weights @ (C - mean) ** 2)
        if distinct < DISTINCT * len(C):
            return cls(C, weights, np.zeros(C.shape[1]), support)
        if len(C) > CENTRES:
            even = np.ptp(weights) == 0
            rows = some(len(C), CENTRES, rng) if even else rng.choice(len(C), CENTRES, p=weights)
            C, weights = C[rows], np.full(CENTRES, 1 / CENTRES)
        return cls(C, weights, WIDTH * n ** (-1 / (C.shape[1] + 4)) * sd, support)

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """``n`` points, (n, p); the centres themselves of a discrete prior."""
        if not (self.width > 0).all():  # discrete: its own points
            return self.centres
        index = systematic(self.weights, n, rng)
        return self.reflect(self.centres[index] + self.width * rng.standard_normal((n, len(self.width))))

    def reflect(self, T: np.ndarray) -> np.ndarray:
        for j, kind in enumerate(self.support.kinds):
            if kind == BOX:
                lower, upper = self.support.lower[j], self.support.upper[j]
                u = np.abs(T[:, j] - lower) % (2 * (upper - lower))
                T[:, j] = lower + np.minimum(u, 2 * (upper - lower) - u)
        return T

    def density(self, T: np.ndarray) -> np.ndarray:
        """At the rows of ``T``, (q,)."""
        if not (self.width > 0).all():  # of a discrete prior, as if it were none
            sd = np.sqrt(self.weights @ (self.centres - self.weights @ self.centres) ** 2)
            width = np.where(sd > 0, sd, 1.0) * WIDTH * len(self.centres) ** (-1 / (len(sd) + 4))
            return self._mixture(T, self.centres, self.weights, width)
        return self._mixture(T, self.centres, self.weights, self.width)

    def _mixture(
        self, T: np.ndarray, centres: np.ndarray, weights: np.ndarray, width: np.ndarray
    ) -> np.ndarray:
        """Of Gaussians about centres, mirrored at the ends of boxes."""
        for j, kind in enumerate(self.support.kinds):
            if kind != BOX:
                continue
            images, shares = [centres], [weights]
            for end in (self.support.lower[j], self.support.upper[j]):
                close = np.flatnonzero(np.abs(centres[:, j] - end) < REACH * width[j])
                image = centres[close].copy()
                image[:, j] = 2 * end - image[:, j]
                images.append(image)
                shares.append(weights[close])
            centres, weights = np.concatenate(images), np.concatenate(shares)
        K = np.exp(-0.5 * squares(T / width, centres / width))
        return (K @ weights) / np.prod(np.sqrt(2 * np.pi) * width)

    def thin(self, most: int, rng: np.random.Generator) -> SmoothedPrior:
        """The same of fewer centres."""
        if len(self.centres) <= most or not (self.width > 0).all():
            return self
        rows = systematic(self.weights, most, rng)
        return replace(self, centres=self.centres[rows], weights=np.full(most, 1 / most))

    def posterior(
        self, log_likelihood: Likelihood, start: np.ndarray, effort: Effort, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Points on the line (m, p) with weights (m,) that stand for the posterior.

        Draws of the prior, ``start``, weighted by the likelihood; where few of them matter, draws about
        these, weighted by prior times likelihood over what they were drawn from.
        """
        T, log, base = self._explore(log_likelihood, start, effort, rng)
        return T, _weigh(log, base)

    def log_evidence(
        self, log_likelihood: Likelihood, start: np.ndarray, effort: Effort, rng: np.random.Generator
    ) -> float:
        """``log ∫ p(y | θ) dΠ(θ)``, from the same points."""
        _, log, base = self._explore(log_likelihood, start, effort, rng)
        top = (log + base).max()
        return float(top + np.log(np.exp(log + base - top).mean()))

    def _explore(
        self, log_likelihood: Likelihood, start: np.ndarray, effort: Effort, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points, their log likelihoods, and the logarithm of the prior over what they were drawn from."""
        log = log_likelihood(start)
        if not (self.width > 0).all():
            return start, log, np.log(np.maximum(self.weights * len(self.weights), 1e-300))
        T, n, p = start, effort.points, start.shape[1]
        base = np.zeros(len(T))
        for _ in range(effort.rounds):
            if 1 / (_weigh(log, base) ** 2).sum() >= effort.enough:
                break
            tempered = _temper(log, base)
            kept = np.flatnonzero(tempered > 1e-4 * tempered.max())
            centres, alpha = T[kept], tempered[kept] / tempered[kept].sum()
            width = np.minimum(self._spacing(centres, alpha, rng), 3 * self.width)
            old = rng.random(n) < DEFENSIVE
            T = self.reflect(centres[systematic(alpha, n, rng)] + width * rng.standard_normal((n, p)))
            T[old] = self.draw(int(old.sum()), rng)
            prior = self.density(T)
            drawn = (1 - DEFENSIVE) * self._mixture(T, centres, alpha, width) + DEFENSIVE * prior
            base = np.log(np.maximum(prior, 1e-300)) - np.log(np.maximum(drawn, 1e-300))
            log = log_likelihood(T)
        return T, log, base

    def _spacing(self, centres: np.ndarray, alpha: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """How far the points that matter lie apart, (p,): draws so wide about them leave no gaps."""
        sd = np.sqrt(alpha @ (centres - alpha @ centres) ** 2)
        sd = np.maximum(sd, 1e-6 * self.width)
        rows = np.unique(systematic(alpha, max(4, int(1 / (alpha**2).sum())), rng))
        if len(rows) < 2:
            return sd
        D = squares(centres[rows] / sd, centres[rows] / sd)
        np.fill_diagonal(D, np.inf)
        return float(np.quantile(np.sqrt(D.min(axis=1)), GAPS)) * sd


def _weigh(log: np.ndarray, base: np.ndarray, power: float = 1.0) -> np.ndarray:
    """``exp(power · log + base)``, of sum one."""
    total = power * log + base
    W = np.exp(total - total.max())
    return W / W.sum()


def _temper(log: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Weights with the largest power of the likelihood that leaves enough of them."""
    W, power = _weigh(log, base), 1.0
    while 1 / (W**2).sum() < TEMPERED and power > 1e-9:
        power *= 0.7
        W = _weigh(log, base, power)
    return W


def systematic(weights: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` indices drawn by weights of sum one, as evenly as can be, (n,)."""
    cumulative = np.cumsum(weights)
    steps = (np.arange(n) + rng.random()) / n * cumulative[-1]
    index = np.minimum(np.searchsorted(cumulative, steps, side="right"), len(weights) - 1)
    return rng.permutation(index)
