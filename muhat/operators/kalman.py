"""The linear Kalman filter and smoother, learned by least squares: the baseline of every other filter.

``z' = A z + a + N(0, Q)`` and ``x = H z + h + N(0, R)``. Both are regressions of the training sequences, so
that learning takes milliseconds. Filtering is Kalman's recursion; smoothing is that of Rauch, Tung and
Striebel [RTS65].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.stats import chi2

from muhat._array import Array
from muhat.operators.filtering import LEAST_MASS, Conditioned, Machine, State, Steps, smooth_back

# Added to the covariances of the noise, as a share of their mean variance: sensors may copy one another.
JITTER = 1e-9
# An observation is passed over if its innovation is more than this many times as long as any of training. The
# tail of a Gaussian would not do: on hourly traffic one in twenty observations lies beyond 1e-8 of it.
OUTLIER = 2.0
# Training steps from which the longest innovation is taken, at most: they need 30 microseconds each.
INNOVATIONS = 2000
# Training points that carry a Gaussian, at least, for each of its moments.
POINTS_PER_MOMENT = 5
# A Gaussian among few points is widened by this factor until enough carry it.
WIDEN = 1.5


@dataclass(frozen=True)
class LinearSystem:
    """``z' = A z + a + N(0, Q)``, ``x = H z + h + N(0, R)``, and ``z ~ N(mean, cov)`` before the first x.

    Attributes:
        A, a, Q: (k, k), (k,), (k, k).
        H, h, R: (d, k), (d,), (d, d).
        mean, cov: (k,), (k, k).
    """

    A: Array
    a: Array
    Q: Array
    H: Array
    h: Array
    R: Array
    mean: Array
    cov: Array

    @classmethod
    def learn(cls, X: Array, Z: Array, steps: Steps | None = None) -> LinearSystem:
        """By least squares from observations X (n, d) and states Z (n, k).

        Args:
            X: observations of the training sequences, one after the other.
            Z: their states.
            steps: which rows follow which; None for one sequence.
        """
        steps = steps or Steps.of([len(Z)])
        transition = _regress(Z[steps.before], Z[steps.after])
        return cls(*transition, *_regress(Z, X), Z.mean(axis=0), _covariance(Z - Z.mean(axis=0)))

    def predict(self, m: Array, P: Array) -> tuple[Array, Array]:
        """Mean and covariance one step ahead."""
        return self.A @ m + self.a, _symmetric(self.A @ P @ self.A.T) + self.Q

    def condition(self, m: Array, P: Array, x: Array) -> tuple[Array, Array, float]:
        """Mean and covariance given x, and the squared length of the innovation in its own deviations."""
        S, gap = self.H @ P @ self.H.T + self.R, x - self.H @ m - self.h
        factor = cho_factor(_symmetric(S), lower=True)
        gain = cho_solve(factor, self.H @ P).T
        # Joseph's form keeps P positive definite.
        I_GH = np.eye(len(m)) - gain @ self.H
        P = _symmetric(I_GH @ P @ I_GH.T + gain @ self.R @ gain.T)
        return m + gain @ gap, P, float(gap @ cho_solve(factor, gap))

    def step_back(self, filtered: tuple[Array, Array], smoothed: tuple[Array, Array]) -> tuple[Array, Array]:
        """The smoothed state at t from the filtered one at t and the smoothed one at t + 1 [RTS65]."""
        (m, P), (ahead, P_ahead) = filtered, self.predict(*filtered)
        gain = cho_solve(cho_factor(P_ahead, lower=True), self.A @ P).T
        return m + gain @ (smoothed[0] - ahead), _symmetric(P + gain @ (smoothed[1] - P_ahead) @ gain.T)

    def filter(self, X: Array) -> tuple[Array, Array]:
        """Means (T, k) and covariances (T, k, k) given the observations so far; a row with NaN is a gap."""
        m, P, means, covs = self.mean, self.cov, [], []
        for t, x in enumerate(X):
            if t:
                m, P = self.predict(m, P)
            if not np.isnan(x).any():
                m, P, _ = self.condition(m, P, x)
            means.append(m)
            covs.append(P)
        return np.array(means), np.array(covs)

    def longest(self, X: Array) -> float:
        """The length of the longest innovation of a sequence, in its own deviations."""
        m, P, found = self.mean, self.cov, [0.0]
        for t, x in enumerate(X):
            if t:
                m, P = self.predict(m, P)
            m, P, length = self.condition(m, P, x)
            found.append(length)
        return float(np.sqrt(max(found)))

    def smooth(self, X: Array) -> tuple[Array, Array]:
        """The same given all observations."""
        states = list(zip(*self.filter(X), strict=True))
        out = [states[-1]]
        for filtered in reversed(states[:-1]):
            out.append(self.step_back(filtered, out[-1]))
        means, covs = zip(*out[::-1], strict=True)
        return np.array(means), np.array(covs)


@dataclass(frozen=True)
class GaussianState:
    """``N(mean, cov)``: (k,), (k, k)."""

    mean: Array
    cov: Array


@dataclass(frozen=True)
class LinearMachine:
    """A Kalman filter whose states are told as weights on the training points.

    The same steps as :class:`muhat.operators.filtering.Machine`; what is seen is ``k(X, x)`` and x (d,).

    Attributes:
        system: learned.
        points: z of the training sequences, (n, k).
        gram_x: of the observations, which says how familiar a new one is.
        longest: length of the longest innovation in training.
    """

    system: LinearSystem
    points: Array
    gram_x: Any
    longest: float

    @classmethod
    def learn(cls, X: Array, Z: Array, lengths: list[int], gram_x: Any) -> LinearMachine:
        """From training sequences of these lengths, one after the other."""
        system = LinearSystem.learn(X, Z, Steps.of(lengths))
        some = np.split(X, np.cumsum(lengths)[:-1])
        longest, left = 0.0, INNOVATIONS
        for sequence in some:
            longest = max(longest, system.longest(sequence[:left]))
            left = max(0, left - len(sequence))
        return cls(system, Z, gram_x, longest)

    def predict(self, state: GaussianState) -> GaussianState:
        """One step ahead."""
        return GaussianState(*self.system.predict(state.mean, state.cov))

    def condition(self, state: GaussianState, seen: tuple[Any, Array]) -> Conditioned:
        """Given x. Its mass is the share of innovations that are longer: near zero where x contradicts."""
        x = seen[1]
        m, P, length = self.system.condition(state.mean, state.cov, x)
        mass = float(chi2.sf(length, len(x)))
        if length > (OUTLIER * self.longest) ** 2:
            return Conditioned(state, mass, False)  # type: ignore[arg-type]
        return Conditioned(GaussianState(m, P), mass, True)  # type: ignore[arg-type]

    def smooth_back(self, states: list[GaussianState]) -> list[GaussianState]:
        """Smoothed states from filtered ones [RTS65]."""
        out = [states[-1]]
        for s in reversed(states[:-1]):
            back = self.system.step_back((s.mean, s.cov), (out[-1].mean, out[-1].cov))
            out.append(GaussianState(*back))
        return out[::-1]

    def at(self, weights: Array) -> GaussianState:
        """The Gaussian with the mean and covariance of these weights (n,)."""
        w = weights / weights.sum()
        m = w @ self.points
        away = self.points - m
        # Of signed weights a variance may be negative.
        values, vectors = np.linalg.eigh(_symmetric((w[:, None] * away).T @ away))
        least = JITTER * np.trace(self.system.cov) / len(m)
        return GaussianState(m, (vectors * np.maximum(values, least)) @ vectors.T)

    def weights(self, state: GaussianState) -> Array:
        """Weights (n,) on the training points with the mean and the covariance of the Gaussian.

        They are its density, times the quadratic function of z that corrects the moments. Some are negative
        where the points do not surround the mean.
        """
        k = len(state.mean)
        root = np.linalg.cholesky(state.cov)
        u = solve_triangular(root, (self.points - state.mean).T, lower=True).T
        pairs = np.triu_indices(k)
        wide, needed = 1.0, POINTS_PER_MOMENT * (1 + k + len(pairs[0]))
        length = (u**2).sum(axis=1)
        while True:
            w = np.exp(-0.5 * (length - length.min()) / wide**2)
            if w.sum() ** 2 >= min(needed, len(w) / 2) * (w @ w):
                break
            wide *= WIDEN
        v = u / wide
        moments = np.column_stack([np.ones(len(v)), v, v[:, pairs[0]] * v[:, pairs[1]]])
        target = np.concatenate([[1.0], np.zeros(k), (pairs[0] == pairs[1]) / wide**2])
        known = moments.T @ (w[:, None] * moments)
        return w * (moments @ np.linalg.lstsq(known, target, rcond=None)[0])


@dataclass(frozen=True)
class MixedState:
    """A state of each of two filters."""

    kernel: State
    linear: GaussianState


@dataclass(frozen=True)
class MixedMachine:
    """Kernel and linear filter side by side: states are even mixtures of theirs.

    Where each is wrong in its own way, as a kernel filter beyond its training states and a linear one at a
    curve, the mean of the mixture has the smaller error.

    Attributes:
        kernel, linear: the two.
    """

    kernel: Machine
    linear: LinearMachine

    @property
    def gram_x(self) -> Any:
        return self.kernel.gram_x

    def predict(self, state: MixedState) -> MixedState:
        """One step ahead."""
        return MixedState(self.kernel.predict(state.kernel), self.linear.predict(state.linear))

    def condition(self, state: MixedState, seen: tuple[Any, Array]) -> Conditioned:
        """Given x, with the mass that the kernel filter finds."""
        one = self.kernel.condition(state.kernel, seen[0])
        two: Any = self.linear.condition(state.linear, seen)
        both: Any = MixedState(one.state, two.state)
        return Conditioned(both, one.mass, one.met or two.met)

    def smooth_back(
        self, backward: Machine, carried: list[MixedState], reported: list[MixedState]
    ) -> list[MixedState]:
        """Smoothed states from filtered ones."""
        kernel = smooth_back(self.kernel, backward, [s.kernel for s in carried], [s.kernel for s in reported])
        linear = self.linear.smooth_back([s.linear for s in reported])
        return [MixedState(a, b) for a, b in zip(kernel, linear, strict=True)]

    def at(self, weights: Array) -> MixedState:
        """The state with weights (2, n) of each filter, or (n,) of both."""
        each = np.broadcast_to(weights, (2, weights.shape[-1]))
        return MixedState(self.kernel.at(each[0]), self.linear.at(each[1]))

    def both(self, state: MixedState) -> Array:
        """Weights of each, (2, n), with sums of one."""
        kernel = self.kernel.weights(state.kernel)
        total = float(kernel.sum())
        return np.stack([kernel / (total if total > LEAST_MASS else 1.0), self.linear.weights(state.linear)])

    def weights(self, state: MixedState) -> Array:
        """The weights (n,) of the mixture."""
        return self.both(state).mean(axis=0)


def fits(n: int, d: int, k: int) -> bool:
    """Whether n rows are enough for a linear system of k states and d observations."""
    return n >= POINTS_PER_MOMENT * max(1 + k + k * (k + 1) // 2, d + 1)


def _regress(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """``b ≈ M a + c`` by least squares, and the covariance of the residuals."""
    centre, target = a.mean(axis=0), b.mean(axis=0)
    M = np.linalg.lstsq(a - centre, b - target, rcond=None)[0].T
    return M, target - M @ centre, _covariance(b - target - (a - centre) @ M.T)


def _covariance(residuals: Array) -> Array:
    S = residuals.T @ residuals / len(residuals)
    variances = np.diag(S)
    least = JITTER * np.where(variances > 0, variances, variances.mean() or 1.0)
    return S + np.diag(least)


def _symmetric(P: Array) -> Array:
    return (P + P.T) / 2


__all__ = ["GaussianState", "LinearMachine", "LinearSystem", "MixedMachine", "MixedState", "fits"]
