"""The kernel Bayes filter and smoother: predict and condition, on the training points [X22, Alg. 2; NI16].

Everything lives on the states z of the training sequences. A prediction is the kernel sum rule with pairs
(z_t, z_{t+1}); conditioning on x_t is a Bayes' rule with pairs (x_t, z_t). Going back from t+1 to t uses the
operator B_t of the same Bayes' rule with pairs (z_{t+1}, z_t) and the filtered state as prior:

    smoothed_t = filtered_t + B_t (smoothed_{t+1} − predicted_{t+1}).

With the true B_t, ``B_t predicted_{t+1} = filtered_t``, so that this is ``B_t smoothed_{t+1}``, the smoother
of [NI16]. With an estimate it is not: the prior enters B_t through a density ratio that is regularised and
truncated, whose mean can be several times as far from the state as the filter's. [NI16] puts that mean in
the place of the filter's answer at every step. As a correction, like that of Rauch, Tung and Striebel
[RTS65], an error of B_t counts in proportion to what the future has to add, and for λ → ∞ the filter's
answer stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from muhat._array import Array
from muhat.gram import Factored, Gram, LowRankGram, Ridge
from muhat.operators.bayes import NoOverlap, Pairs, Prior, importance, kbr_b
from muhat.operators.bayes.third_order import ThirdOrder

# A posterior whose weights sum to less than this has hardly met the observation.
LEAST_MASS = 0.02


@dataclass(frozen=True)
class Steps:
    """Which training points follow one another: ``z[after[i]]`` comes one step after ``z[before[i]]``."""

    before: Array
    after: Array

    @classmethod
    def of(cls, lengths: list[int]) -> Steps:
        """The steps inside sequences of these lengths, one after the other."""
        ends = np.cumsum(lengths)
        before = np.concatenate([np.arange(b - n, b - 1) for n, b in zip(lengths, ends, strict=True)])
        return cls(before, before + 1)


@dataclass(frozen=True)
class State:
    """A distribution over z: weights on the training points, or features of it.

    Attributes:
        weights: (n,); None where features stand for them.
        coefficients: ``Σ wᵢ φ(zᵢ)``, (q,); None in exact representations.
        factors: s (q,) and b (p,) with ``wᵢ = φ(zᵢ)ᵀs ψ(xᵢ)ᵀb``, for weights that nobody has asked for yet.
        origin: coefficients of the state that this is the prediction from, likewise.
    """

    weights: Array | None
    coefficients: Array | None = None
    factors: tuple[Array, Array] | None = None
    origin: Array | None = None


@dataclass(frozen=True)
class Conditioned:
    """What came of one observation.

    Attributes:
        state: after it.
        mass: the sum of the posterior's weights before they were normalised.
        met: whether the observation was used; if not, the state is the prediction.
    """

    state: State
    mass: float
    met: bool


@dataclass(frozen=True)
class Machine:
    """A filter ready to run; in exact representations.

    Attributes:
        pairs: (x, z) of the training sequences.
        steps: which follow which.
        rule: a Bayes' rule.
        reg: of the rule.
        reg_transition: λ' of the prediction.
        normalize: whether density ratios average to one and posterior weights sum to one.
    """

    pairs: Pairs
    steps: Steps
    rule: ModuleType
    reg: float
    reg_transition: float
    normalize: bool

    @property
    def gram_x(self) -> Any:
        return self.pairs.gram_x

    @property
    def gram_z(self) -> Any:
        return self.pairs.gram_z

    @cached_property
    def _ridge(self) -> Ridge:
        """``G_before + (T − 1)λ'I``."""
        before: Gram = self.gram_z.take(self.steps.before)
        return before.ridge(len(self.steps.before) * self.reg_transition)

    def predict(self, state: State) -> State:
        """One step ahead: ``(G_before + (T−1)λ'I)⁻¹ G w`` on the points after [X22, Alg. 2, step 4]."""
        seen = (self.gram_z @ state.weights)[self.steps.before]
        return State(self._spread(self.steps.after, self._ridge.regress(seen[:, None])[:, 0]))

    def condition(self, state: State, cross: Array | Factored) -> Conditioned:
        """Bayes' rule with the prediction as prior and an observation with ``k(X, x)`` (n, 1)."""
        try:
            weights = self._posterior(self._prior(state), cross)
        except NoOverlap:
            return Conditioned(state, 0.0, False)
        mass = float(weights.sum())
        if self.normalize:
            if not mass > LEAST_MASS:
                return Conditioned(state, mass, False)
            weights = weights / mass
        return Conditioned(self.at(weights), mass, True)

    def at(self, weights: Array) -> State:
        """The state with these weights (n,)."""
        return State(weights)

    def weights(self, state: State) -> Array:
        """The weights (n,) of a state."""
        assert state.weights is not None
        return state.weights

    def backward(self, reg: float) -> Machine:
        """The same with pairs (z_{t+1}, z_t), to condition a filtered state on the smoothed one after it."""
        before, after = (self.gram_z.take(rows) for rows in (self.steps.before, self.steps.after))
        pairs = Pairs(after, before, self.pairs.reg_prior, self.pairs.target)
        return type(self)(pairs, self.steps, self.rule, reg, self.reg_transition, self.normalize)

    def step_back(self, backward: Machine, carried: State, reported: State, smoothed: State) -> State:
        """The smoothed state at t: the reported one and what the smoothed state at t + 1 adds to it.

        Args:
            backward: the machine of pairs (z_{t+1}, z_t).
            carried: the state at t that the prediction of t + 1 starts from.
            reported: the filter's answer at t.
            smoothed: at t + 1.
        """
        added = self._total(smoothed) - self._total(self.predict(carried))
        try:
            change = backward._posterior(*self._back(backward, carried, self.at(added)))
        except NoOverlap:
            return reported
        if not self.rule.ON_PRIOR:
            change = self._spread(self.steps.before, change)
        weights = self._total(reported) + change
        mass = float(weights.sum())
        if self.normalize and not mass > LEAST_MASS:
            return reported
        return self.at(weights / mass if self.normalize else weights)

    def _total(self, state: State) -> Array:
        """Weights of a state, with sum one if posteriors have it."""
        weights = self.weights(state)
        total = float(weights.sum())
        return weights / total if self.normalize and total > LEAST_MASS else weights

    def _back(self, backward: Machine, carried: State, added: State) -> tuple[Prior, Any]:
        """The prior of the way back, and what is seen there."""
        before, after = self.steps.before, self.steps.after
        values = (self.gram_z @ carried.weights)[before, None]
        cross = self.gram_z.dense()[before] if self.rule.ON_PRIOR else None
        prior = Prior(values, self.gram_z.points, carried.weights, cross)
        return prior, (self.gram_z @ added.weights)[after, None]

    def _prior(self, state: State) -> Prior:
        cross = self.gram_z.dense() if self.rule.ON_PRIOR else None
        values = (self.gram_z @ state.weights)[:, None]
        return Prior(values, self.gram_z.points, state.weights, cross)

    def _posterior(self, prior: Prior, cross: Any) -> Array:
        pairs = self.pairs
        if self.rule is not importance or not self.normalize:
            return self.rule.posterior_weights(pairs, prior, cross, self.reg)[0]
        D = importance.truncate(pairs.ratio(prior))
        return importance.weighted_regression(pairs.gram_x, D / D.sum(), cross, self.reg)[0]

    def _spread(self, rows: Any, weights: Array) -> Array:
        """Weights on some of the points as weights on all."""
        out = np.zeros(len(self.pairs))
        out[rows] = weights
        return out


@dataclass(frozen=True)
class FeatureMachine(Machine):
    """The same in features: states are q coefficients, and a step costs O(np² + p³)."""

    @cached_property
    def _forward(self) -> Array:
        """What takes the coefficients of a state to those of its prediction, (q, q)."""
        Phi = self.gram_z.Phi
        before, after = Phi[self.steps.before], Phi[self.steps.after]
        ridge: Any = self._ridge
        return ridge.factor.solve(before.T @ after)

    @cached_property
    def _moments(self) -> ThirdOrder | None:
        """For the rule that does not truncate, if that is cheaper."""
        gram_x = self.pairs.gram_x
        if self.rule is not kbr_b or not isinstance(gram_x, LowRankGram):
            return None
        Psi, Phi = gram_x.Phi, self.gram_z.Phi
        n, p = Psi.shape
        return ThirdOrder.of(Psi, Phi) if ThirdOrder.pays(n, p, Phi.shape[1]) else None

    def predict(self, state: State) -> State:
        m: Any = state.coefficients
        ahead = State(None, m @ self._forward, origin=m)
        return self.at(self.weights(ahead)) if self.rule.ON_PRIOR else ahead

    def condition(self, state: State, cross: Array | Factored) -> Conditioned:
        moments = self._moments
        if moments is None:
            return super().condition(state, cross)
        ridge_z: Any = self.pairs.ridge_z
        s = len(self.pairs) * ridge_z.factor.solve(state.coefficients)
        m, b, mass = moments.posterior(s, self.pairs.factor_x.project(cross), self.reg)
        if self.normalize and not mass > LEAST_MASS:
            return Conditioned(state, mass, False)
        total = mass if self.normalize else 1.0
        return Conditioned(State(None, m / total, (s / len(self.pairs), b / total)), mass, True)

    def at(self, weights: Array) -> State:
        return State(weights, weights @ self.gram_z.Phi)

    def weights(self, state: State) -> Array:
        if state.weights is not None:
            return state.weights
        if state.factors is not None:
            s, b = state.factors
            return (self.gram_z.Phi @ s) * (self.pairs.factor_x.Phi @ b)
        before, ridge = self.gram_z.Phi[self.steps.before], self._ridge
        return self._spread(self.steps.after, before @ ridge.factor.solve(state.origin))  # type: ignore

    def _back(self, backward: Machine, carried: State, added: State) -> tuple[Prior, Any]:
        Phi, seen = backward.gram_z.Phi, backward.pairs.gram_x
        prior = Prior(
            Factored(Phi, carried.coefficients[:, None]),  # type: ignore[index]
            self.gram_z.points,
            self.weights(carried) if self.rule.ON_PRIOR else np.empty(0),
            Factored(Phi, self.gram_z.Phi.T),
        )
        return prior, Factored(seen.Phi, added.coefficients[:, None])  # type: ignore[index]

    def _prior(self, state: State) -> Prior:
        Phi = self.gram_z.Phi
        values = Factored(Phi, state.coefficients[:, None])  # type: ignore[index]
        return Prior(values, self.gram_z.points, state.weights, Factored(Phi, Phi.T))


def machine(pairs: Pairs, *arguments: Any) -> Machine:
    """The filter for these pairs, in their representation."""
    return (FeatureMachine if isinstance(pairs.gram_z, LowRankGram) else Machine)(pairs, *arguments)


def smooth_back(
    forward: Machine, backward: Machine, carried: list[State], reported: list[State] | None = None
) -> list[State]:
    """Smoothed states from filtered ones, the last first.

    Args:
        forward, backward: the filter, and :meth:`Machine.backward` of it.
        carried: states that predictions start from.
        reported: the filter's answers; None where they are the same.
    """
    reported = carried if reported is None else reported
    out = [reported[-1]]
    for state, answer in zip(reversed(carried[:-1]), reversed(reported[:-1]), strict=True):
        out.append(forward.step_back(backward, state, answer, out[-1]))
    return out[::-1]
