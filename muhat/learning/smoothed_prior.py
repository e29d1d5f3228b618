"""A prior known by samples, made continuous; and posteriors under it by importance sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from muhat._linalg import SingularSystem, cholesky
from muhat.learning.moved import some, squares, whiten

# Widths of the smoothing that are tried, in units of n^{-1/(p+4)} standard deviations (Silverman's is about
# one); and last of all one standard deviation, where every column has one bell, or is uniform in its box.
WIDTHS = (0.5, 1.0)
# Centres that are kept, and those at which widths are judged.
CENTRES, ASKED = 1000, 300
# Each step up in the power of the likelihood leaves this share of a round's draws, in effective number.
STEP = 1 / 6
# Points whose weight is less than this share of the largest are left out.
NOTHING = 1e-5
# Widths beyond which a Gaussian is nothing.
REACH = 4.5
# With fewer distinct values than this share, the prior is discrete and its own points are used.
DISTINCT = 0.5
# Scales of draws about a θ that is known to be likely, in standard deviations of the prior.
ABOUT = (1.0, 0.3, 0.1, 0.03)

Likelihood = Callable[[np.ndarray], np.ndarray]
Density = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Effort:
    """Of importance sampling.

    Attributes:
        points: in the last round.
        steps: points in the rounds before, where the likelihood has a lower power.
        enough: effective points that suffice.
        rounds: at most.
        centres: of the prior.
    """

    points: int = 1500
    steps: int = 600
    enough: float = 500.0
    rounds: int = 25
    centres: int = 600


@dataclass(frozen=True)
class SmoothedPrior:
    """``Σⱼ αⱼ N(θ̃ⱼ, diag(width²))`` on the line, reflected at the ends of boxes.

    Attributes:
        centres: θ̃, (m, p), logarithms taken of positive columns.
        weights: α, non-negative, of sum one.
        width: (p,); zero for a discrete prior, whose points are used as they are; infinite for a column that
            is uniform in its box.
        ends: of the boxes where the centres are, (2, p); infinite where there is none.
    """

    centres: np.ndarray
    weights: np.ndarray
    width: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(
        cls, C: np.ndarray, weights: np.ndarray, ends: np.ndarray, rng: np.random.Generator
    ) -> SmoothedPrior:
        """Of points ``C`` (m, p), where the centres are."""
        weights = np.maximum(weights, 0.0)
        weights = weights / weights.sum()
        distinct = min(len(np.unique(column)) for column in C.T)
        n = 1 / (weights**2).sum()
        if distinct < DISTINCT * len(C):
            return cls(C, weights, np.zeros(C.shape[1]), ends)
        if len(C) > CENTRES:
            even = np.ptp(weights) == 0
            rows = some(len(C), CENTRES, rng) if even else rng.choice(len(C), CENTRES, p=weights)
            C, weights = C[rows], np.full(CENTRES, 1 / CENTRES)
        rate = n ** (-1 / (C.shape[1] + 4))
        asked = some(len(C), ASKED, rng)
        tried = [cls._with_width(C, weights, h, ends) for h in [*(h * rate for h in WIDTHS), 1.0]]
        return max(tried, key=lambda prior: prior._left_out(C, asked))

    @classmethod
    def _with_width(cls, C: np.ndarray, weights: np.ndarray, h: float, ends: np.ndarray) -> SmoothedPrior:
        """Of width h standard deviations; centres go towards their mean so that the variance stays [LW01]."""
        mean = weights @ C
        width = h * np.sqrt(weights @ (C - mean) ** 2)
        boxes = np.isfinite(ends).all(axis=0)
        centres = np.where(boxes, C, mean + np.sqrt(max(1 - h**2, 0.0)) * (C - mean))
        return cls(centres, weights, np.where(boxes & (h >= 1), np.inf, width), ends)

    def _left_out(self, C: np.ndarray, asked: np.ndarray) -> float:
        """The mean log density at points ``C[asked]`` of the smoothed others."""
        with_own, own = self.density(C[asked]), self._peak() * self.weights[asked]
        for j, width in enumerate(self.width):
            if not np.isfinite(width):
                continue
            c = C[asked, j]
            factor = np.exp(-0.5 * ((c - self.centres[asked, j]) / width) ** 2)
            if self.boxes[j]:  # and the images of itself
                for end in self.ends[:, j]:
                    gap = 2 * np.abs(c - end)
                    factor += np.where(gap < 2 * REACH * width, np.exp(-0.5 * (gap / width) ** 2), 0.0)
            own = own * factor
        left = np.maximum(with_own - own, 1e-12 * with_own) / np.maximum(1 - self.weights[asked], 1e-12)
        share = self.weights[asked] / self.weights[asked].sum()
        return float(share @ np.log(np.maximum(left, 1e-300)))

    @property
    def boxes(self) -> np.ndarray:
        """Which columns have ends, (p,)."""
        return np.asarray(np.isfinite(self.ends).all(axis=0))

    @property
    def is_discrete(self) -> bool:
        return not (self.width > 0).all()

    @property
    def sd(self) -> np.ndarray:
        """Standard deviations of the columns, (p,)."""
        spread = np.sqrt(self.weights @ (self.centres - self.weights @ self.centres) ** 2)
        lines = np.where(np.isfinite(self.width), self.width, 0.0)
        return np.where(self.boxes, spread, np.hypot(spread, lines))

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """``n`` points, (n, p); the centres themselves of a discrete prior."""
        if self.is_discrete:
            return self.centres
        uniform = np.isinf(self.width)
        index = systematic(self.weights, n, rng)
        T = self.centres[index] + np.where(uniform, 0.0, self.width) * rng.standard_normal(
            (n, len(self.width))
        )
        for j in np.flatnonzero(uniform):
            T[:, j] = rng.uniform(self.ends[0, j], self.ends[1, j], n)
        return self.reflect(T)

    def reflect(self, T: np.ndarray) -> np.ndarray:
        for j in np.flatnonzero(self.boxes):
            lower, upper = self.ends[:, j]
            u = np.abs(T[:, j] - lower) % (2 * (upper - lower))
            T[:, j] = lower + np.minimum(u, 2 * (upper - lower) - u)
        return T

    def density(self, T: np.ndarray) -> np.ndarray:
        """At the rows of ``T``, (q,); nothing is outside the boxes."""
        if self.is_discrete:  # as if it were none
            sd = np.where(self.sd > 0, self.sd, 1.0)
            width = WIDTHS[0] * len(self.centres) ** (-1 / (len(sd) + 4)) * sd
            return replace(self, width=width).density(T)
        centres, weights, width = self.centres, self.weights, self.width
        inside = ((self.ends[0] <= T) & (self.ends[1] >= T)).all(axis=1)
        bells = np.isfinite(width)
        if not bells.any():
            return self._peak() * inside
        mirrored = bells & self.boxes
        if not mirrored.any() and np.ptp(centres[:, bells], axis=0).max() == 0:  # one bell alone
            centres, weights = centres[:1], np.ones(1)
        plain = bells & ~mirrored
        K = np.exp(-0.5 * squares(T[:, plain] / width[plain], centres[:, plain] / width[plain]))
        for j in np.flatnonzero(mirrored):
            K *= _mirrored(T[:, j], centres[:, j], width[j], self.ends[:, j])
        return self._peak() * (K @ weights) * inside

    def _peak(self) -> float:
        """The height of one kernel."""
        uniform = np.isinf(self.width)
        box = self.ends[1] - self.ends[0]
        return float(1 / np.prod(np.where(uniform, box, np.sqrt(2 * np.pi) * self.width)))

    def thin(self, most: int, rng: np.random.Generator) -> SmoothedPrior:
        """The same of fewer centres."""
        if len(self.centres) <= most or self.is_discrete:
            return self
        rows = systematic(self.weights, most, rng)
        return replace(self, centres=self.centres[rows], weights=np.full(most, 1 / most))

    # -- posteriors --------------------------------------------------------------------------------

    def posterior(
        self, log_likelihood: Likelihood, start: np.ndarray, effort: Effort, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Points on the line (m, p) with weights (m,) that stand for the posterior.

        Draws of the prior, ``start``, weighted by the likelihood; where few of them matter, draws about
        these, weighted by prior times likelihood over what they were drawn from.
        """
        found = self._explore(log_likelihood, Draws.of_prior(self, start, log_likelihood(start)), effort, rng)
        W = found.weights()
        kept = np.arange(len(W)) if self.is_discrete else np.flatnonzero(W / W.max() > NOTHING)
        return found.points[kept], W[kept] / W[kept].sum()

    def log_evidence(
        self, log_likelihood: Likelihood, start: Draws, effort: Effort, rng: np.random.Generator
    ) -> float:
        """``log ∫ p(y | θ) dΠ(θ)``, from such points."""
        found = self._explore(log_likelihood, start, effort, rng)
        total = found.log + found.base
        top = total.max()
        return float(top + np.log(np.exp(total - top).mean()))

    def _explore(
        self, log_likelihood: Likelihood, found: Draws, effort: Effort, rng: np.random.Generator
    ) -> Draws:
        """More draws, where they matter, until they are enough.

        Adaptive multiple importance sampling [CMMR12]: each round draws about the points of all before, the
        likelihood taken to a power that rises to one as fast as enough points go with it; all count as
        drawn from the mixture of all proposals, so that no gap in one of them makes a weight large.
        """
        if self.is_discrete:
            return found
        power = 1e-9
        for _ in range(effort.rounds):
            if found.size >= effort.enough:
                break
            power = _raise_power(found.log, found.base, power, STEP * effort.steps)
            proposal = Mixture.about(found.points, found.weights(power), effort.steps, rng)
            T = proposal.draw(effort.points if power == 1 else effort.steps, rng)
            found = found.join(T, log_likelihood(T), self.density(T), proposal.density)
        return found


@dataclass(frozen=True)
class Draws:
    """Points drawn in rounds.

    Attributes:
        points: (n, p).
        log: their log likelihoods, (n,).
        prior: the prior's density there, (n,).
        drawn: the sum over all draws of the density that each came from, (n,).
        rounds: number and density of the draws of each round; None for the prior's.
    """

    points: np.ndarray
    log: np.ndarray
    prior: np.ndarray
    drawn: np.ndarray
    rounds: tuple[tuple[int, Density | None], ...]

    @classmethod
    def of_prior(cls, prior: SmoothedPrior, T: np.ndarray, log: np.ndarray) -> Draws:
        if prior.is_discrete:  # all its points, once
            return cls(T, log, prior.weights, np.ones(len(T)), ())
        density = prior.density(T)
        return cls(T, log, density, len(T) * density, ((len(T), None),))

    @property
    def base(self) -> np.ndarray:
        """Log prior over the mixture that they were drawn from, (n,)."""
        return _log(self.prior) - _log(self.drawn / len(self.points))

    @property
    def size(self) -> float:
        """Their effective number."""
        return _size(self.weights())

    def weights(self, power: float = 1.0) -> np.ndarray:
        """Prior times this power of the likelihood over what they were drawn from, of sum one."""
        return _weigh(self.log, self.base, power)

    def join(self, T: np.ndarray, log: np.ndarray, prior: np.ndarray, density: Density) -> Draws:
        """With the draws ``T`` of one more round."""
        n = len(T)
        before = sum(m * (prior if q is None else q(T)) for m, q in self.rounds)
        return Draws(
            np.concatenate([self.points, T]),
            np.concatenate([self.log, log]),
            np.concatenate([self.prior, prior]),
            np.concatenate([self.drawn + n * density(self.points), before + n * density(T)]),
            (*self.rounds, (n, density)),
        )


@dataclass(frozen=True)
class About:
    """Gaussians about one θ on several scales.

    Whatever mass a posterior has near the θ that its data came from, draws of them see.

    Attributes:
        truth: θ, (p,).
        sd: of the prior, (p,).
    """

    truth: np.ndarray
    sd: np.ndarray

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        scales = np.resize(ABOUT, n)[:, None]
        return self.truth + scales * self.sd * rng.standard_normal((n, len(self.sd)))

    def density(self, T: np.ndarray) -> np.ndarray:
        D = (((T - self.truth) / self.sd) ** 2).sum(axis=1)
        unit, p = np.prod(np.sqrt(2 * np.pi) * self.sd), len(self.sd)
        return np.mean([np.exp(-0.5 * D / s**2) / s**p for s in ABOUT], axis=0) / unit


@dataclass(frozen=True)
class Mixture:
    """``Σⱼ αⱼ N(m + L cⱼ, wⱼ² L Lᵀ)``.

    Attributes:
        centres: c, (m, p).
        weights: α.
        mean: m.
        lower: L, of the points' covariance.
        width: w, (m,).
    """

    centres: np.ndarray
    weights: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    width: np.ndarray

    @classmethod
    def about(cls, T: np.ndarray, W: np.ndarray, most: int, rng: np.random.Generator) -> Mixture:
        """Of points ``T`` (n, p) with weights of sum one, at most so many of them.

        Each is as wide as its neighbours lie apart in units of the points' covariance. With centres drawn to
        their mean w = 1 is one Gaussian with this covariance.
        """
        mean = W @ T
        lower = _root((T - mean).T @ (W[:, None] * (T - mean)), T.std(axis=0))
        rows, counts = np.unique(systematic(W, most, rng), return_counts=True)
        U = whiten(T[rows], mean, lower)
        others = np.unique(systematic(W, max(4, int(_size(W))), rng))
        width, k = np.ones(len(U)), min(T.shape[1] + 1, len(others) - 1)
        if k > 0:
            D = squares(U, whiten(T[others], mean, lower))
            width = np.clip(np.sqrt(np.partition(D, k, axis=1)[:, k]), 1e-6, 1.0)
        return cls(np.sqrt(1 - width**2)[:, None] * U, counts / most, mean, lower, width)

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        index = systematic(self.weights, n, rng)
        U = self.centres[index] + self.width[index, None] * rng.standard_normal((n, len(self.lower)))
        return self.mean + U @ self.lower.T

    def density(self, T: np.ndarray) -> np.ndarray:
        K = np.exp(-0.5 * squares(whiten(T, self.mean, self.lower), self.centres) / self.width**2)
        peaks = (np.sqrt(2 * np.pi) * self.width) ** -len(self.lower) / np.prod(np.diagonal(self.lower))
        return K @ (self.weights * peaks)


def _mirrored(t: np.ndarray, c: np.ndarray, width: float, ends: np.ndarray) -> np.ndarray:
    """Bells of one column at ``t`` (q,) about ``c`` (m,) and their images at both ends, (q, m).

    The density of many columns is the product of theirs, so that images in p columns cost 3p and not 3ᵖ.
    """
    K = np.exp(-0.5 * ((t[:, None] - c) / width) ** 2)
    for end in ends:
        rows = np.flatnonzero(np.abs(t - end) < 2 * REACH * width)
        near = np.flatnonzero(np.abs(c - end) < REACH * width)
        if len(rows) and len(near):
            K[np.ix_(rows, near)] += np.exp(-0.5 * ((t[rows, None] - 2 * end + c[near]) / width) ** 2)
    return K


def _root(C: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """The Cholesky factor of a covariance; where it is singular, of its diagonal."""
    unit = np.sqrt(np.maximum(np.diagonal(C), 1e-12 * np.where(sd > 0, sd, 1.0) ** 2))
    R = C / np.outer(unit, unit)
    R[np.diag_indices(len(R))] = 1 + 1e-9
    try:
        return unit[:, None] * np.tril(cholesky(R, "the draws' correlation", "").lower)
    except SingularSystem:
        return np.diag(unit)


def _log(density: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(density, 1e-300))


def _weigh(log: np.ndarray, base: np.ndarray, power: float = 1.0) -> np.ndarray:
    """``exp(power · log + base)``, of sum one."""
    total = power * log + base
    W = np.exp(total - total.max())
    return W / W.sum()


def _size(W: np.ndarray) -> float:
    """The effective number of weights of sum one."""
    return float(1 / (W**2).sum())


def _raise_power(log: np.ndarray, base: np.ndarray, power: float, size: float) -> float:
    """The largest power of the likelihood, at most one, that leaves so many effective points.

    Below the ``power`` that points were drawn for there are fewer again.
    """
    if _size(_weigh(log, base)) >= size:
        return 1.0
    low, high = power, 1.0
    for _ in range(15):  # bisection of the logarithm
        middle = np.sqrt(low * high)
        low, high = (middle, high) if _size(_weigh(log, base, middle)) >= size else (low, middle)
    return low


def systematic(weights: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` indices drawn by weights of sum one, as evenly as can be, (n,)."""
    cumulative = np.cumsum(weights)
    steps = (np.arange(n) + rng.random()) / n * cumulative[-1]
    index = np.minimum(np.searchsorted(cumulative, steps, side="right"), len(weights) - 1)
    return rng.permutation(index)
