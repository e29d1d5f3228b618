"""Simulators whose posterior is known, exactly or by reference samples: priors and data, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from muhat._validation import as_generator, as_rows, check_choice, check_count, check_same_columns

# Of the exponential-gamma problem: θ ~ Gamma(SHAPE, rate RATE), x the mean of DRAWS draws of Exponential(θ).
SHAPE, RATE, DRAWS = 2.0, 0.5, 15
# Of Lotka–Volterra: log θ ~ N(LOG_MEANS, 0.5²); populations (30, 1) at time 0, seen at ten times.
LOG_MEANS = np.array([-0.125, -3.0, -0.125, -3.0])
START = np.log([30.0, 1.0])
TIMES = np.arange(10) * 2.1
STEP = 0.0105  # TIMES are whole numbers of steps


@dataclass(frozen=True)
class Simulator:
    """A prior of parameters θ and a simulator of data x.

    Attributes:
        name: of the problem.
        parameters: their names.
    """

    name: str
    parameters: tuple[str, ...]
    _prior: Callable[[int, np.random.Generator], np.ndarray]
    _simulate: Callable[[np.ndarray, np.random.Generator], np.ndarray]

    def prior(self, n: int, random_state: Any = None) -> np.ndarray:
        """``n`` draws of θ, (n, p)."""
        return self._prior(check_count(n, "n"), as_generator(random_state))

    def simulate(self, theta: Any, random_state: Any = None) -> np.ndarray:
        """Data at every row of ``theta`` (n, p), (n, d); of one θ (p,), (d,)."""
        one = np.ndim(theta) == 1
        rows = np.asarray(as_rows(np.atleast_2d(theta) if one else theta, "theta"), dtype=np.float64)
        check_same_columns(rows, len(self.parameters), "theta", f"the prior of {self.name}")
        x = self._simulate(rows, as_generator(random_state))
        return x[0] if one else x

    __call__ = simulate


def simulator(name: Any) -> Simulator:
    """A simulator with its prior, for :func:`muhat.simulate` with ``vectorized=True``.

    Args:
        name: ``"exponential_gamma"`` (θ ~ Gamma(2, rate 0.5), x the mean of 15 draws of Exponential(θ); the
            posterior is :func:`exponential_gamma_posterior`), or a problem of [LBG21], whose observations
            and reference samples are :func:`sbibm`: ``"two_moons"`` (a crescent; two of them given x),
            ``"gaussian_mixture"`` (½ N(θ, I) + ½ N(θ, 0.01 I)), ``"gaussian_linear"`` (N(θ, 0.1 I) in ten
            dimensions) and ``"lotka_volterra"`` (prey and predators at ten times, from four rates).
    """
    check_choice(name, "name", tuple(SIMULATORS))
    return SIMULATORS[name]


def exponential_gamma_posterior(x: Any) -> Any:
    """``Gamma(17, rate 0.5 + 15 x)``, the posterior of θ given the mean x of 15 draws of Exponential(θ).

    Args:
        x: one observed mean.

    Returns:
        A frozen distribution of SciPy.
    """
    from scipy.stats import gamma

    return gamma(SHAPE + DRAWS, scale=1 / (RATE + DRAWS * np.asarray(x, dtype=float).item()))


def _exponential_gamma(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    # The mean of 15 draws of Exponential(θ) is Gamma(15, rate 15 θ).
    return rng.gamma(DRAWS, size=theta.shape) / (DRAWS * theta)


def _two_moons(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    angle = rng.uniform(-np.pi / 2, np.pi / 2, len(theta))
    radius = rng.normal(0.1, 0.01, len(theta))
    crescent = np.stack([radius * np.cos(angle) + 0.25, radius * np.sin(angle)], axis=1)
    centre = np.stack([-np.abs(theta.sum(axis=1)), theta[:, 1] - theta[:, 0]], axis=1)
    return crescent + centre / np.sqrt(2)


def _gaussian_mixture(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    sd = np.where(rng.random(len(theta)) < 0.5, 1.0, 0.1)
    return theta + sd[:, None] * rng.standard_normal(theta.shape)


def _gaussian_linear(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + np.sqrt(0.1) * rng.standard_normal(theta.shape)


def lotka_volterra_path(theta: np.ndarray) -> np.ndarray:
    """Logarithms of prey and predators at times 0, 2.1, …, 18.9, (n, 2, 10), without noise.

    ``u' = α − β eᵛ, v' = −γ + δ eᵘ`` from (log 30, 0) by Runge–Kutta of fourth order. Populations in
    logarithms stay positive, and the steps of 0.0105 can be the same for all rows.

    Args:
        theta: α, β, γ, δ, (n, 4).
    """
    alpha, beta, gamma, delta = theta.T
    growth, rate = np.stack([alpha, -gamma]), np.stack([-beta, delta])

    def slope(state: np.ndarray) -> np.ndarray:
        return growth + rate * np.exp(state[::-1])

    state = np.repeat(START[:, None], len(theta), axis=1)
    path = [state]
    for _ in TIMES[1:]:
        for _ in range(round(TIMES[1] / STEP)):
            k1 = slope(state)
            k2 = slope(state + STEP / 2 * k1)
            k3 = slope(state + STEP / 2 * k2)
            k4 = slope(state + STEP * k3)
            state = state + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(state)
    return np.stack(path, axis=-1).transpose(1, 0, 2)


def _lotka_volterra(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    path = lotka_volterra_path(theta).reshape(len(theta), -1)
    return np.exp(path + 0.1 * rng.standard_normal(path.shape))


SIMULATORS = {
    task.name: task
    for task in (
        Simulator(
            "exponential_gamma",
            ("rate",),
            lambda n, rng: rng.gamma(SHAPE, 1 / RATE, size=(n, 1)),
            _exponential_gamma,
        ),
        Simulator(
            "two_moons", ("theta1", "theta2"), lambda n, rng: rng.uniform(-1, 1, size=(n, 2)), _two_moons
        ),
        Simulator(
            "gaussian_mixture",
            ("theta1", "theta2"),
            lambda n, rng: rng.uniform(-10, 10, size=(n, 2)),
            _gaussian_mixture,
        ),
        Simulator(
            "gaussian_linear",
            tuple(f"theta{j}" for j in range(1, 11)),
            lambda n, rng: np.sqrt(0.1) * rng.standard_normal((n, 10)),
            _gaussian_linear,
        ),
        Simulator(
            "lotka_volterra",
            ("alpha", "beta", "gamma", "delta"),
            lambda n, rng: np.exp(LOG_MEANS + 0.5 * rng.standard_normal((n, 4))),
            _lotka_volterra,
        ),
    )
}
