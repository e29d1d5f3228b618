"""Factors whose messages have no closed form, and oracles that compute them.

An oracle takes the incoming messages and gives the *belief* about one variable: the member of its family
nearest to factor × all incoming messages. Belief over incoming message is the outgoing message of
expectation propagation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from muhat._validation import as_generator, check_count, check_positive
from muhat.messages.families import Beta, Gamma, Normal

# Numbers of one block of quadrature points: 32 MB.
BLOCK_ELEMENTS = 1 << 22

Oracle = Callable[[tuple[Any, ...]], Any]


class TooFewParticles(ArithmeticError):
    """An importance sampler has nothing near the belief."""


def _log_logistic(z: np.ndarray, p: Beta) -> np.ndarray:
    """``log Beta(σ(z); a, b)`` up to a constant: σ(z)^{a−1} σ(−z)^{b−1}, (n, m) for z (n or 1, m)."""
    soft = np.logaddexp(0, -z)  # −log σ(z), and z more is −log σ(−z)
    return -(p.a + p.b - 2)[:, None] * soft - (p.b - 1)[:, None] * z


def logistic_quadrature(messages: tuple[Normal, Beta]) -> Normal:
    """Belief about z of the logistic factor p = σ(z), to rounding error.

    ``N(z; m, v) σ(z)^{a−1} σ(−z)^{b−1}`` is log-concave for a, b ≥ 1, and no wider than N(m, v) around its
    mode: the trapezoidal rule over 10 standard deviations on either side converges geometrically.

    Args:
        messages: from z and from p. A label is ``Beta(2, 1)`` for 1 and ``Beta(1, 2)`` for 0.
    """
    z, p = messages
    if (p.a < 1).any() or (p.b < 1).any():
        raise ValueError(
            f"a and b of the message from p must be at least 1, got {min(p.a.min(), p.b.min()):g}: only then "
            "has the belief about z one mode. Use logistic_importance."
        )
    mode, sd = _logistic_mode(z, p), np.sqrt(z.var)
    # Nowhere is it narrower than this share of sd: the curvature of −log σ is at most ¼.
    share = 1 / np.sqrt(1 + 0.25 * z.var * (p.a + p.b - 2))
    count = int(np.ceil(20 * 6 / share.min()))
    steps = np.linspace(-10, 10, count)
    beliefs = []
    for rows in np.array_split(np.arange(len(z)), -(-len(z) * count // BLOCK_ELEMENTS)):
        t = mode[rows, None] + sd[rows, None] * steps
        log = _log_logistic(t, p.select(rows)) - 0.5 * (t - z.mean[rows, None]) ** 2 / z.var[rows, None]
        beliefs.append(_moments(t, _weights(log)))
    return _stacked(beliefs)


def _stacked(parts: list[Any]) -> Any:
    """Messages of one family, one below the other."""
    return type(parts[0])(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in ("first", "second"))
    )


def _weights(log: np.ndarray) -> np.ndarray:
    """Weights that add up to one in each row, from their logarithms."""
    w = np.exp(log - log.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    return w


def _moments(t: np.ndarray, w: np.ndarray) -> Normal:
    """Mean and variance of points ``t`` with weights, row by row."""
    mean = (w * t).sum(axis=1)
    return Normal(mean, (w * (t - mean[:, None]) ** 2).sum(axis=1))


def _logistic_mode(z: Normal, p: Beta) -> np.ndarray:
    """Where the tilted density is highest."""
    return _falling_root(
        lambda t: (p.a - 1) * expit(-t) - (p.b - 1) * expit(t) - (t - z.mean) / z.var,
        z.mean - z.var * (p.b - 1),
        z.mean + z.var * (p.a - 1),
    )


def _falling_root(slope: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where falling functions (n,) are zero, by bisection."""
    for _ in range(60):
        t = 0.5 * (low + high)
        up = slope(t) > 0
        low, high = np.where(up, t, low), np.where(up, high, t)
    return 0.5 * (low + high)


def _reach(log: Callable[[np.ndarray], np.ndarray], step: np.ndarray) -> np.ndarray:
    """The first of ``step``, 2 ``step``, 4 ``step``, ... with nothing beyond it: log densities below −45."""
    while (short := log(step) > -45).any():
        step = np.where(short, 2 * step, step)
    return step


def _check_compound(shape: float, prior_shape: float, prior_rate: float) -> None:
    given = {"shape": shape, "prior_shape": prior_shape, "prior_rate": prior_rate}
    for name, value in given.items():
        check_positive(value, name, "give a number above 0", scalar=True)


def logistic_importance(
    particles: int = 500_000,
    proposal_var: float = 200.0,
    least: float = 10.0,
    errors: bool = False,
    random_state: Any = None,
) -> Oracle:
    """An oracle for the logistic factor by importance sampling from N(0, proposal_var) [JIT15, Sec. 5].

    Args:
        particles: fresh ones for each message.
        proposal_var: variance of the proposal.
        least: effective particles below which an answer is refused (:class:`TooFewParticles`).
        errors: whether to give, with the beliefs, the standard errors that an ``mh.MessageOperator`` learns
            with, (n, 2): few particles fall on a narrow message, and answers to it are noisier.
        random_state: seed.
    """
    check_count(particles, "particles", 2)
    check_positive(proposal_var, "proposal_var", "give a variance", scalar=True)
    rng = as_generator(random_state)

    def oracle(messages: tuple[Normal, Beta]) -> Any:
        z, p = messages
        beliefs, stds = [], []
        for i in range(len(z)):
            t = rng.normal(0, proposal_var**0.5, (1, particles))
            log = _log_logistic(t, p.select([i])) + 0.5 * t**2 / proposal_var
            log -= 0.5 * (t - z.mean[i]) ** 2 / z.var[i]
            w = _weights(log)
            _check_effective(w, least, i)
            beliefs.append(_moments(t, w))
            if errors:
                stds.append(_standard_errors(t, w, beliefs[-1]) / [z.var[i] ** 0.5, 1.0])
        return (_stacked(beliefs), np.array(stds)) if errors else _stacked(beliefs)

    return oracle


def _standard_errors(t: np.ndarray, w: np.ndarray, belief: Normal) -> np.ndarray:
    """Of the mean and the log variance of one belief by self-normalised importance sampling, (2,)."""
    square, w2 = (t[0] - belief.mean[0]) ** 2, w[0] ** 2
    return np.sqrt([w2 @ square, w2 @ (square / belief.var[0] - 1) ** 2])


def _check_effective(w: np.ndarray, least: float, i: int) -> None:
    effective = 1 / float((w**2).sum())
    if effective < least:
        raise TooFewParticles(
            f"Message {i} has {effective:.1f} effective particles of {w.size}, fewer than {least:g}: the "
            "proposal does not cover its belief. Use more particles or another proposal."
        )


def _gamma_belief(t: np.ndarray, w: np.ndarray) -> Gamma:
    """The Gamma nearest to points e^t with weights: it has their E τ and E log τ."""
    mean_of_log = (w * t).sum(axis=1)
    # E τ over exp E log τ, which is next to one for a narrow belief.
    ratio = 1 + (w * np.expm1(t - mean_of_log[:, None])).sum(axis=1)
    unit = Gamma.of_moments(ratio, np.zeros(len(t)))
    return Gamma(unit.shape, unit.rate * np.exp(-mean_of_log))


def compound_gamma_quadrature(
    shape: float = 1.0, prior_shape: float = 1.0, prior_rate: float = 1.0
) -> Oracle:
    """An oracle for a precision τ ~ Gamma(shape, r) with r ~ Gamma(prior_shape, prior_rate), to 1e-8.

    It takes one Gamma message, from τ, and gives the belief about τ. The density of log τ,
    ``τ^{s−1+shape} e^{−rτ} (τ + prior_rate)^{−shape−prior_shape}`` for a message Gamma(s, r), is log-concave:
    the trapezoidal rule goes as far on either side of its mode as there is anything.
    """
    _check_compound(shape, prior_shape, prior_rate)

    def oracle(messages: tuple[Gamma]) -> Gamma:
        (tau,) = messages
        s, r = tau.shape, tau.rate
        left = s - 1 + shape
        if (left <= 0).any():
            raise ValueError(f"shape of the message from τ must be above {1 - shape:g}, got {s.min():g}.")
        both, scale = shape + prior_shape, np.log(prior_rate)
        mode = _falling_root(
            lambda t: left - r * np.exp(t) - both * expit(t - scale),
            np.log(left / (r + both / prior_rate)),
            np.log(left / r),
        )
        peak, share = r * np.exp(mode), expit(mode - scale)
        below, above = -np.logaddexp(0, mode - scale), -np.logaddexp(0, scale - mode)

        def log(d: np.ndarray) -> np.ndarray:
            """Log density at d (m, n) off the mode, over that at the mode: no large number is subtracted."""
            return left * d - peak * np.expm1(d) - both * np.logaddexp(below, above + d)

        sd = 1 / np.sqrt(peak + both * share * (1 - share))
        start, stop = (_reach(log, side * sd) for side in (-1, 1))
        d = start + (stop - start) * np.linspace(0, 1, 4001)[:, None]
        unit = _gamma_belief(d.T, _weights(log(d).T))
        return Gamma(unit.shape, unit.rate * np.exp(-mode))

    return oracle


def compound_gamma_importance(
    shape: float = 1.0,
    prior_shape: float = 1.0,
    prior_rate: float = 1.0,
    particles: int = 100_000,
    least: float = 10.0,
    random_state: Any = None,
) -> Oracle:
    """The same by importance sampling: τ and its rate are drawn from the factor itself."""
    _check_compound(shape, prior_shape, prior_rate)
    check_count(particles, "particles", 2)
    rng = as_generator(random_state)

    def oracle(messages: tuple[Gamma]) -> Gamma:
        (tau,) = messages
        beliefs = []
        for i in range(len(tau)):
            rate = rng.gamma(prior_shape, 1 / prior_rate, (1, particles))
            t = np.log(rng.gamma(shape, 1 / rate))
            log = (tau.shape[i] - 1) * t - tau.rate[i] * np.exp(t)
            w = _weights(log)
            _check_effective(w, least, i)
            beliefs.append(_gamma_belief(t, w))
        return _stacked(beliefs)

    return oracle


__all__ = [
    "Oracle",
    "TooFewParticles",
    "compound_gamma_importance",
    "compound_gamma_quadrature",
    "logistic_importance",
    "logistic_quadrature",
]
