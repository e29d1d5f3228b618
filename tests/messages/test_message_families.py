"""Messages: closed forms beside Monte Carlo, projections, coordinates and refusals."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import digamma

import muhat as mh
from muhat.gram.fourier import fourier_kernel
from muhat.messages import Beta, Gamma, Normal, Tuples
from muhat.operators.bags import mean_features

MESSAGES = {
    "normal": Normal([1.0, -2.0, 0.0], [0.5, 3.0, 20.0]),
    "beta": Beta([2.0, 0.4, 30.0], [1.0, 4.0, 12.0]),
    "gamma": Gamma([0.3, 5.0, 50.0], [3.0, 0.1, 2.0]),
}


def density(message, i):
    """Of the i-th message as SciPy has it, and the map to where it is embedded."""
    a, b = message.first[i], message.second[i]
    if isinstance(message, Normal):
        return stats.norm(a, b**0.5), lambda x: x
    if isinstance(message, Beta):
        return stats.beta(a, b), lambda x: np.log(x / (1 - x))
    return stats.gamma(a, scale=1 / b), np.log


@pytest.mark.parametrize("name", MESSAGES)
def test_characteristic_functions_are_those_of_scipys_draws(name):
    message, omega = MESSAGES[name], np.array([-1.3, 0.2, 0.8])
    found = message.characteristic(omega)
    for i in range(3):
        scipy, embed = density(message, i)
        t = embed(scipy.rvs(200_000, random_state=i))
        np.testing.assert_allclose(np.exp(1j * np.outer(omega, t)).mean(axis=1), found[i], atol=0.01)


@pytest.mark.parametrize("name", MESSAGES)
def test_draws_are_of_the_message(name):
    message = MESSAGES[name]
    draws = message.draw(4000, np.random.default_rng(0))
    for i in range(3):
        scipy, embed = density(message, i)
        other = embed(scipy.rvs(4000, random_state=5))
        assert stats.ks_2samp(draws[i], other).pvalue > 1e-3


@pytest.mark.parametrize("name", MESSAGES)
def test_divergences_are_the_integral(name):
    message = MESSAGES[name]
    other = message.select([1, 2, 0])
    found = message.kl(other)
    np.testing.assert_allclose(message.kl(message), 0, atol=1e-12)
    for i in (0, 1):
        p, q = density(message, i)[0], density(other, i)[0]
        nodes = p.ppf((np.arange(200_000) + 0.5) / 200_000)  # the midpoint rule in probability
        assert found[i] == pytest.approx(np.mean(p.logpdf(nodes) - q.logpdf(nodes)), rel=2e-3)


@pytest.mark.parametrize("name", MESSAGES)
def test_steps_and_back(name):
    message = MESSAGES[name]
    other = message.select([2, 0, 1])
    back = type(message).moved(other, message.relative_to(other))
    np.testing.assert_allclose(back.first, message.first, rtol=1e-12)
    np.testing.assert_allclose(back.second, message.second, rtol=1e-12)
    np.testing.assert_array_equal(message.relative_to(message), 0)
    # A wild prediction stays proper.
    type(message).moved(message, np.full((3, 2), 1e4))
    type(message).moved(message, np.full((3, 2), -1e4))


@pytest.mark.parametrize("name", MESSAGES)
def test_a_small_step_costs_the_same_whatever_the_message(name):
    message, costs = MESSAGES[name], []
    for column in (0, 1):
        steps = np.zeros((3, 2))
        steps[:, column] = 0.001
        costs.append(message.kl(type(message).moved(message, steps)) / 0.001**2)
    np.testing.assert_allclose(costs[0], 0.5, rtol=0.01)
    assert (costs[1] > 0.24).all()
    assert (costs[1] < 0.51).all()


def test_a_gamma_is_found_from_its_moments():
    shape = np.array([0.01, 0.5, 3.0, 400.0, 1e5])
    rate = np.array([1.0, 2.0, 0.3, 4.0, 1e-3])
    found = Gamma.of_moments(shape / rate, digamma(shape) - np.log(rate))
    np.testing.assert_allclose(found.shape, shape, rtol=1e-6)
    np.testing.assert_allclose(found.rate, rate, rtol=1e-6)


def test_features_of_a_tuple_are_means_of_features_of_its_variables():
    tuples = Tuples((MESSAGES["normal"], MESSAGES["beta"], MESSAGES["gamma"]))
    first = fourier_kernel(mh.Gaussian([2.0, 1.0, 1.5]), 20, 3, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    draws = np.stack([part.draw(100_000, rng) for part in tuples.parts], axis=2)
    sampled = np.stack([first.features(x).mean(axis=0) for x in draws])
    np.testing.assert_allclose(mean_features(tuples, first), sampled, atol=0.01 * first.scale * 2)


def test_gaussian_bags_of_one_column_are_normal_messages():
    first = fourier_kernel(mh.Gaussian(1.0), 30, 1, np.random.default_rng(0))
    normal = MESSAGES["normal"]
    bags = mh.GaussianBags(normal.mean[:, None], normal.var[:, None])
    found = Tuples(normal).mean_features(first)
    np.testing.assert_allclose(found, mean_features(bags, first), atol=1e-14)
    np.testing.assert_allclose(found, Tuples(bags).mean_features(first), atol=1e-14)


def test_samples_become_the_message_they_are_from():
    first = fourier_kernel(mh.Gaussian(1.0), 30, 1, np.random.default_rng(0))
    normal, errors = MESSAGES["normal"], []
    for size in (100, 10_000):
        draws = normal.draw(size, np.random.default_rng(2))
        errors.append(np.abs(Tuples(list(draws)).mean_features(first) - Tuples(normal).mean_features(first)))
    assert errors[1].max() < 0.02 * 4 * first.scale
    assert errors[1].mean() < 0.2 * errors[0].mean()


def test_the_pool_has_the_spread_of_the_messages():
    pool = Tuples((Normal(np.zeros(500), np.full(500, 4.0)), Gamma(np.full(500, 9.0), 3.0))).pool()
    assert pool.shape == (2000, 2)
    np.testing.assert_allclose(pool.std(axis=0), [2.0, stats.loggamma(9).std()], rtol=0.1)
    mean = quad(lambda t: t * stats.loggamma(9).pdf(t), -5, 10)[0] - np.log(3)
    assert pool[:, 1].mean() == pytest.approx(mean, abs=0.05)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Normal([0.0, 1.0], [1.0, -2.0]), "var of message 1 is -2, but must be finite and above 0"),
        (lambda: Normal(0.0, 0.0), "var of message 0 is 0"),
        (lambda: Normal([np.nan], 1.0), "mean of message 0 is nan, but must be finite: "),
        (lambda: Beta([1.0], [0.0]), "b of message 0"),
        (lambda: Gamma([np.inf], [1.0]), "shape of message 0 is inf"),
        (lambda: Gamma([1.0, 2.0], [1.0, 2.0, 3.0]), "shapes"),
        (lambda: Normal([[1.0]], [[1.0]]), "one number a message"),
        (lambda: Tuples((Normal([0.0, 1.0], 1.0), Beta(1.0, 2.0))), r"batches of \[2, 1\]"),
        (lambda: Tuples(()), "empty"),
        (lambda: Tuples((Normal([], []),)), "empty"),
    ],
)
def test_improper_messages_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_what_is_no_message_is_refused():
    with pytest.raises(TypeError, match=r"messages\[1\] must be messages, got ndarray"):
        Tuples((Normal(0.0, 1.0), np.zeros(3)))
