"""Methods that turn simulations into posteriors, ready for observations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from muhat.embedding.simplex import project_simplex
from muhat.gram import DenseGram
from muhat.kernels.base import Kernel
from muhat.learning.coordinates import Coordinates, data_coordinates, find_coordinates
from muhat.learning.moved import MovedChoice, MovedDensity, some
from muhat.learning.smoothed_prior import About, Draws, Effort, SmoothedPrior
from muhat.learning.supports import Support
from muhat.operators import likelihood_free as operators
from muhat.operators.bayes import Prior

# Methods of this library: outputs moved to the observation, and a surrogate likelihood from moved outputs.
MOVED = ("adjusted", "surrogate")
METHODS = (*MOVED, "dme", "kelfi", "kbr", "importance", "kabc", "k2abc", "rejection")
# Those that compete when none is named: the others are their plain forms, and dearer.
DEFAULT = ("adjusted", "surrogate", "rejection")
# Methods that take a prior by themselves; the others' posteriors are multiplied by the density ratio.
WITH_PRIOR = ("surrogate", "dme", "kelfi", "kbr", "importance")
# Of the surrogate likelihood: for a posterior, and for a score; effective draws of the prior that need no
# others for a score, if none of them misses how likely the truth is.
THOROUGH, QUICK = Effort(), Effort(400, 120, 10.0, 8, 250)
SEEN = 30.0
# The share of the simulations on either side that says how far the next ones might lie beyond the last, and
# the effective number of points that must be left where those beyond it are left out.
TAIL, LEFT = 0.05, 5.0
# Weights with a smaller sum are not divided by it: it is mostly noise.
LEAST_SUM = 0.2

Weighted = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Simulations:
    """θ (n, p) and the x (n, d) simulated from them.

    Attributes:
        theta, x: as they are.
        line_theta, line_x: how their columns are brought to the line.
    """

    theta: np.ndarray
    x: np.ndarray
    line_theta: Coordinates
    line_x: Coordinates

    @classmethod
    def of(cls, theta: np.ndarray, x: np.ndarray, support: Support | None = None) -> Simulations:
        return cls(theta, x, find_coordinates(theta, support), data_coordinates(x))

    def __len__(self) -> int:
        return len(self.theta)

    def take(self, rows: np.ndarray) -> Simulations:
        return replace(self, theta=self.theta[rows], x=self.x[rows])

    @cached_property
    def outputs(self) -> np.ndarray:
        """θ on the line."""
        return self.line_theta.to_line(self.theta)

    @cached_property
    def inputs(self) -> np.ndarray:
        """θ on the line, boxes as they are."""
        return self.line_theta.without_boxes().to_line(self.theta)

    @cached_property
    def reach(self) -> np.ndarray:
        """How far θ goes on the line, (2, p')."""
        return reach(self.outputs)

    @cached_property
    def data(self) -> np.ndarray:
        """x on the line."""
        return self.line_x.to_line(self.x)


@dataclass(frozen=True)
class Options:
    """What the user gave; None is to be chosen."""

    kernel_theta: Kernel
    kernel_x: Kernel
    tune_theta: bool
    tune_x: bool
    reg: float | None = None
    reg_prior: float | None = None
    scale: float | None = None
    share: float = 0.05
    learning: str = "held_out"


@dataclass(frozen=True)
class RuleChoice:
    """What is in use in a rule with weights on given points.

    Attributes:
        method: which.
        kernel_theta, kernel_x: ℓ and k.
        reg: λ of ``kabc`` and ``importance``, δ of ``dme`` and ``kbr``.
        reg_prior: λ of the conditional operator (``dme``, ``kelfi``), η of the density ratio.
        scale: ε, of ``kelfi`` in standard deviations of x, of ``k2abc`` in units of the squared MMD.
        share: of the simulations that ``rejection`` keeps.
    """

    method: str
    kernel_theta: Kernel
    kernel_x: Kernel
    reg: float
    reg_prior: float
    scale: float
    share: float


@dataclass(frozen=True)
class Adjusted:
    """The simulated θ moved to the observation [BZB02], with the kernel's regressions.

    ``θᵢ → m(y) + s(y)/s(xᵢ) (θᵢ − m(xᵢ))`` on the line, with weights by the nearness of xᵢ to y. What is
    moved to where the prior has next to nothing is left out.
    """

    simulations: Simulations
    density: MovedDensity

    def posteriors(self, y: np.ndarray, rng: np.random.Generator) -> list[Weighted]:
        sims, out = self.simulations, []
        Y = sims.line_x.to_line(y)
        for i, w in enumerate(self.density.weights(Y)):
            T, kept = within(self.density.points(Y[[i]])[0], w, sims.reach)
            out.append((sims.line_theta.from_line(T), kept))
        return out

    def log_density(self, y: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Of θ on the line, ``T`` (q, p), each given its own row of ``y``, (q,)."""
        return self.density.logpdf_of_pairs(self.simulations.line_x.to_line(y), T)


@dataclass(frozen=True)
class Surrogate:
    """Points of the smoothed prior, weighted by a surrogate of the likelihood p(x | θ) at the observation.

    Those beyond ``reach`` (2, p'), that of the points which the prior was smoothed from, are left out.
    """

    simulations: Simulations
    density: MovedDensity
    prior: SmoothedPrior
    effort: Effort = THOROUGH
    reach: np.ndarray | None = None

    def posteriors(self, y: np.ndarray, rng: np.random.Generator) -> list[Weighted]:
        Y = self.simulations.line_x.to_line(y)
        line, effort = self.simulations.line_theta.without_boxes(), self.effort
        rng = np.random.default_rng(0)  # every observation has the same draws, in whatever company it comes
        rows = some(len(self.simulations), effort.centres, rng)
        prior = self.prior.thin(effort.centres, rng)
        start = prior.draw(effort.points, rng)
        there = self.density.location.at(start)
        out = []
        for row in Y:

            def log_likelihood(T: np.ndarray, row: np.ndarray = row) -> np.ndarray:
                return self.density.logpdf(T, row[None], rows, there if T is start else None)[0]

            T, W = prior.posterior(log_likelihood, start, effort, np.random.default_rng(1))
            T, W = within(T, W, self.reach)
            out.append((line.from_line(T), W))
        return out

    def log_density(self, y: np.ndarray, T: np.ndarray) -> np.ndarray:
        """``log p(y | θ) + log p(θ) − log p(y)``, the last from draws of the prior and draws about θ.

        θ is where y came from: without draws about it the evidence would be too small where the prior's miss.
        """
        line, rng = self.simulations.line_theta, np.random.default_rng(0)
        inputs = line.without_boxes().to_line(line.from_line(T))
        Y = self.simulations.line_x.to_line(y)
        rows = some(len(self.simulations), QUICK.centres, rng)
        few = self.prior.thin(QUICK.centres, rng)
        start = few.draw(QUICK.points, rng)
        at_start = self.density.logpdf(start, Y, rows)
        at_truth = self.density.logpdf_of_pairs(inputs, Y, rows)
        begun, marginal = Draws.of_prior(few, start, at_start[0]), np.empty(len(Y))
        for i, row in enumerate(Y):

            def log_likelihood(T: np.ndarray, row: np.ndarray = row) -> np.ndarray:
                return self.density.logpdf(T, row[None], rows)[0]

            draws = replace(begun, log=at_start[i])
            if not (few.is_discrete or (draws.size >= SEEN and at_truth[i] <= at_start[i].max())):
                about = About(inputs[i], few.sd)
                near = about.draw(QUICK.steps, rng)
                draws = draws.join(near, log_likelihood(near), few.density(near), about.density)
            marginal[i] = few.log_evidence(log_likelihood, draws, QUICK, rng)
        prior = np.log(np.maximum(self.prior.density(inputs), 1e-300))
        return at_truth + prior - marginal + line.log_stretch(T)


@dataclass(frozen=True)
class Rule:
    """A rule of :mod:`muhat.operators.likelihood_free`, with its prior: points and weights."""

    simulations: Simulations
    choice: RuleChoice
    prior: Weighted | None = None

    def weights(self, y: np.ndarray) -> Weighted:
        """Points (m, p) and weights (q, m)."""
        c, theta, x = self.choice, self.simulations.theta, self.simulations.x
        if c.method == "rejection":
            return theta, operators.rejection_weights(operators.squared_mmd(c.kernel_x, y, x), c.share)
        if c.method == "k2abc":
            return theta, operators.k2abc_weights(operators.squared_mmd(c.kernel_x, y, x), c.scale)
        gram_x = DenseGram(None, c.kernel_x, x)
        cross = gram_x.cross(y)
        if c.method == "kabc" or (c.method == "importance" and self.prior is None):
            return theta, operators.kabc_weights(gram_x, cross, c.reg)
        points, alpha = self.prior or (theta, np.full(len(theta), 1 / len(theta)))
        gram = DenseGram(None, c.kernel_theta, theta)
        prior = Prior.of(gram, points, alpha)
        if c.method == "kelfi":
            kappa = operators.epsilon_kernel(y, x, column_units(x), c.scale)
            likelihood = operators.surrogate_likelihood(gram, prior.cross, kappa, c.reg_prior)  # type: ignore[arg-type]
            return points, operators.kelfi_weights(likelihood, alpha)
        rule = {
            "dme": operators.dme_weights,
            "kbr": operators.kbr_weights,
            "importance": operators.importance_weights,
        }
        W = rule[c.method](gram, gram_x, prior, cross, c.reg, c.reg_prior)  # type: ignore[arg-type]
        return (points if c.method == "dme" else theta), W

    def posteriors(self, y: np.ndarray, rng: np.random.Generator) -> list[Weighted]:
        points, W = self.weights(y)
        return [(points, w) for w in W]

    def log_density(self, y: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Of the weighted points on the line, smoothed with Silverman's width for their effective number."""
        points, W = self.weights(y)
        L = self.simulations.line_theta.to_line(points)
        return np.array([weighted_log_kde(t, L, w) for t, w in zip(T, probabilities(W), strict=True)])


Method = Adjusted | Surrogate | Rule
Choice = MovedChoice | RuleChoice


def column_units(x: np.ndarray) -> np.ndarray:
    """Standard deviations of the columns, one for a constant."""
    sd = x.std(axis=0)
    return np.where(sd > 1e-14 * np.abs(x).max(axis=0), sd, 1.0)


def smoothed_prior(sims: Simulations, prior: Weighted | None, rng: np.random.Generator) -> SmoothedPrior:
    """Of the prior's points; None for the θ of the simulations."""
    if prior is None:
        ends = sims.line_theta.ends
        return SmoothedPrior.of(sims.inputs, np.full(len(sims), 1 / len(sims)), ends, rng)
    points, weights = prior
    # The prior has ends of its own, and its points are where those of the simulations are.
    line = sims.line_theta
    return SmoothedPrior.of(line.without_boxes().to_line(points), weights, line.ends_of(points), rng)


def method_choice(method: Method) -> Choice:
    """What is in use in a method."""
    return method.choice if isinstance(method, Rule) else method.density.choice


def reach(L: np.ndarray) -> np.ndarray:
    """How far a sample on the line (n, p) goes, (2, p): to its ends, and beyond by the usual excess.

    Over a threshold that a twentieth of the sample exceeds, an exponential tail (logarithms and logits have
    such) goes on beyond the largest of n draws by the mean excess with probability about ``1/(en)`` a draw.
    """
    L = np.sort(L, axis=0)
    k = min(max(2, round(TAIL * len(L))), len(L))
    lower = L[0] - (L[k - 1] - L[:k]).mean(axis=0)
    return np.stack([lower, L[-1] + (L[-k:] - L[-k]).mean(axis=0)])


def within(T: np.ndarray, W: np.ndarray, limits: np.ndarray | None) -> Weighted:
    """Points on the line (m, p) with weights (m,), those beyond the limits (2, p) left out.

    Where next to none would be left, as far from all simulations, they are taken to the limits.
    """
    if limits is None:
        return T, W
    inside = ((limits[0] <= T) & (limits[1] >= T)).all(axis=1)
    if inside.all():
        return T, W
    kept = np.where(inside, W, 0.0)
    total, T = kept.sum(), np.clip(T, *limits)
    if total <= 0 or total**2 < LEFT * (kept**2).sum():
        return T, W
    return T, kept / total


def probabilities(W: np.ndarray) -> np.ndarray:
    """Weights of sum one (:func:`of_sum_one`), brought to the simplex where some are negative."""
    W = of_sum_one(W)
    return project_simplex(W) if W.min() < 0 else W


def of_sum_one(W: np.ndarray) -> np.ndarray:
    """Weights (…, n) divided by their sum; where that is next to nothing, all raised by as much as it lacks.

    A sum that is not one would move the mean by a part of the mean of θ: that of 300 by 1 for weights that
    sum to 0.997. Raised weights keep the mean as it is about the mean of the points.
    """
    total = W.sum(axis=-1, keepdims=True)
    if np.abs(total - 1).max() <= 1e-12:
        return W
    most = total > LEAST_SUM
    return np.where(most, W / np.where(most, total, 1.0), W + (1 - total) / W.shape[-1])


def weighted_log_kde(t: np.ndarray, L: np.ndarray, w: np.ndarray) -> float:
    """Log density at ``t`` (p,) of points ``L`` (m, p) with probability weights (m,), smoothed."""
    kept = w > 0
    L, w, p = L[kept], w[kept], L.shape[1]
    size = 1 / (w**2).sum()
    sd = np.sqrt(np.maximum(w @ (L - w @ L) ** 2, 1e-300))
    width = sd * (4 / ((p + 2) * max(size, 1.0))) ** (1 / (p + 4))
    logs = -0.5 * (((t - L) / width) ** 2).sum(axis=1) + np.log(w)
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum()) - np.log(np.sqrt(2 * np.pi) * width).sum())
