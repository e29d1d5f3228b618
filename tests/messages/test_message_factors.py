"""Oracles: quadrature beside SciPy's, importance sampling beside quadrature."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import digamma

from muhat.messages import (
    Beta,
    Gamma,
    Normal,
    TooFewParticles,
    compound_gamma_importance,
    compound_gamma_quadrature,
    logistic_importance,
    logistic_quadrature,
)


def moments(log, low, high, *functions):
    """E f under exp(log) by adaptive quadrature."""
    top = max(log(t) for t in np.linspace(low, high, 2001))
    integrals = [
        quad(lambda t, f=f: f(t) * np.exp(log(t) - top), low, high, limit=500, epsabs=0, epsrel=1e-11)[0]
        for f in (lambda t: 1.0, *functions)
    ]
    return np.array(integrals[1:]) / integrals[0]


CASES = [(0.0, 200.0, 2.0, 1.0), (-30.0, 200.0, 2.0, 1.0), (1.0, 0.01, 1.0, 2.0), (3.0, 5.0, 40.0, 25.5)]


@pytest.mark.parametrize(("m", "v", "a", "b"), CASES)
def test_the_logistic_belief_has_the_moments_of_the_tilted_density(m, v, a, b):
    def log(t):
        sigmoid = -(a - 1) * np.logaddexp(0, -t) - (b - 1) * np.logaddexp(0, t)
        return sigmoid + stats.norm.logpdf(t, m, v**0.5)

    found = logistic_quadrature((Normal(m, v), Beta(a, b)))
    sd = found.var[0] ** 0.5
    low, high = found.mean[0] - 25 * sd, found.mean[0] + 25 * sd
    mean, square = moments(log, low, high, lambda t: t, lambda t: (t - found.mean[0]) ** 2)
    assert found.mean[0] == pytest.approx(mean, rel=1e-8, abs=1e-8)
    assert found.var[0] == pytest.approx(square, rel=1e-7)


def test_a_batch_is_its_messages_one_by_one():
    m, v, a, b = (np.array(column) for column in zip(*CASES, strict=True))
    together = logistic_quadrature((Normal(m, v), Beta(a, b)))
    for i, case in enumerate(CASES):
        alone = logistic_quadrature((Normal(*case[:2]), Beta(*case[2:])))
        np.testing.assert_allclose(together.mean[i], alone.mean[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(together.var[i], alone.var[0], rtol=1e-9)


def test_a_flat_label_changes_nothing():
    belief = logistic_quadrature((Normal([1.0, -3.0], [2.0, 0.1]), Beta([1.0, 1.0], [1.0, 1.0])))
    np.testing.assert_allclose(belief.mean, [1.0, -3.0], atol=1e-12)
    np.testing.assert_allclose(belief.var, [2.0, 0.1], rtol=1e-12)


def test_importance_sampling_comes_near_quadrature():
    messages = Normal([0.0, 5.0, -2.0], [20.0, 1.0, 0.3]), Beta([2.0, 1.0, 1.0], [1.0, 2.0, 2.0])
    exact = logistic_quadrature(messages)
    found = logistic_importance(200_000, random_state=0)(messages)
    assert (exact.kl(found) < 2e-4).all()
    assert (exact.kl(messages[0]) > 2e-3).all()  # the factor does say something


def test_a_sampler_without_particles_near_the_belief_says_so():
    with pytest.raises(TooFewParticles, match=r"effective particles of 1000, fewer than 10"):
        logistic_importance(1000, random_state=0)((Normal(90.0, 1e-4), Beta(2.0, 1.0)))


def test_quadrature_refuses_messages_without_one_mode():
    with pytest.raises(ValueError, match=r"at least 1, got 0\.5"):
        logistic_quadrature((Normal(0.0, 1.0), Beta(0.5, 1.0)))


@pytest.mark.parametrize(("s", "r"), [(6.0, 0.01), (51.0, 300.0), (1.2, 5.0), (30.0, 1e-4)])
def test_the_compound_gamma_belief_has_both_moments(s, r):
    """τ ~ Gamma(1, ρ), ρ ~ Gamma(1, 1) has density (1 + τ)⁻²."""

    def log(t):
        return s * t - r * np.exp(t) - 2 * np.logaddexp(0, t)

    found = compound_gamma_quadrature()((Gamma(s, r),))
    mean, log_mean = moments(log, np.log(s / r) - 40, np.log(s / r) + 6, np.exp, lambda t: t)
    assert found.shape[0] / found.rate[0] == pytest.approx(mean, rel=1e-6)
    assert digamma(found.shape[0]) - np.log(found.rate[0]) == pytest.approx(log_mean, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("s", [1e3, 1e6, 1e8])
def test_the_compound_gamma_belief_of_narrow_messages(s):
    """Where τ is known, (1 + τ)⁻² takes 2 τ/(1 + τ) from the shape, up to O(1/τ)."""
    found = compound_gamma_quadrature()((Gamma([s, 30.0], [1.0, 2.0]),))
    assert found.shape[0] == pytest.approx(s - 2, abs=max(5 / s, 1e-7 * s))
    alone = compound_gamma_quadrature()((Gamma(30.0, 2.0),))
    assert found.shape[1] == pytest.approx(alone.shape[0], rel=1e-9)


@pytest.mark.parametrize("oracle", [compound_gamma_quadrature, compound_gamma_importance])
def test_the_compound_gamma_refuses_what_is_no_gamma(oracle):
    for name in ("shape", "prior_shape", "prior_rate"):
        with pytest.raises(ValueError, match=rf"{name} must be"):
            oracle(**{name: -1.0})


def test_compound_gamma_by_sampling():
    message = Gamma([6.0, 20.0], [4.0, 10.0])
    exact = compound_gamma_quadrature()((message,))
    found = compound_gamma_importance(particles=400_000, random_state=0)((message,))
    assert (exact.kl(found) < 1e-3).all()
