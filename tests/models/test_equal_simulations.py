"""Simulations that equal the observation are draws of its posterior; exact posteriors by enumeration."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import muhat as mh
from muhat.models.likelihood_free import ENOUGH_MATCHES, _contradiction, equal_rows

CHANCE = 0.3


def population(n, seed):
    """How many there were, N of 1 to 100, from three counts."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 101, n)
    return size.astype(float), rng.binomial(size[:, None], CHANCE, (n, 3))


def exact_population(observed, prior=None):
    size = np.arange(1, 101)
    p = np.prod([stats.binom.pmf(k, size, CHANCE) for k in observed], axis=0)
    p = p * (1 if prior is None else prior)
    p = p / p.sum()
    return p @ size, np.sqrt(p @ size**2 - (p @ size) ** 2)


QUICK = {"random_state": 0}


def fitted(theta, x, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mh.LikelihoodFree(**QUICK, **options).fit(theta, x)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_whole_number_from_small_counts(seed):
    theta, x = population(3000, seed)
    mean, sd = exact_population((0, 0, 0))
    with pytest.warns(UserWarning, match="equal to some simulations, but to fewer than 50"):
        posterior = fitted(theta, x).posterior([0, 0, 0])
    matches = (x == 0).all(axis=1).sum()
    assert posterior.matches == [matches]
    assert 5 < matches < ENOUGH_MATCHES
    assert abs(posterior.mean()[0] - mean) < 2.5 * sd / np.sqrt(matches)


def poisson(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    rate = rng.gamma(2.0, 1.0, n)
    return rate, rng.poisson(rate)[:, None]


RATE, COUNT = poisson()
MODEL = fitted(RATE, COUNT)


def test_enough_of_them_are_the_posterior():
    posterior = MODEL.posterior(np.array([[0], [1], [3]]))
    for i, k in enumerate((0, 1, 3)):
        own = RATE[COUNT[:, 0] == k]
        assert len(own) >= ENOUGH_MATCHES
        assert posterior.matches[i] == len(own)
        points, weights = posterior.parts[i]
        assert_allclose(np.sort(points[:, 0]), np.sort(own))
        assert_allclose(weights, 1 / len(own))
        exact = stats.gamma(2 + k, scale=0.5)
        assert abs(posterior.mean()[i, 0] - exact.mean()) < 3 * exact.std() / np.sqrt(len(own))
        assert posterior[i].matches == len(own)
    draws = MODEL.sample([0], 200)
    assert set(draws[:, 0]) <= set(RATE[COUNT[:, 0] == 0])


def test_fewer_of_them_and_none():
    """A count that few simulations have, and one that none has, between those seen."""
    counts = np.bincount(COUNT[:, 0])
    few = int(np.flatnonzero((counts > 5) & (counts < 40))[0])
    for k, expected in ((few, counts[few]), (few + 0.5, 0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = MODEL.posterior([k])
        assert posterior.matches == [expected]
        exact = stats.gamma(2 + k, scale=0.5)
        assert abs(posterior.mean()[0] - exact.mean()) < 0.6 * exact.std()
        assert abs(np.sqrt(posterior.cov()[0, 0]) / exact.std() - 1) < 0.4
        assert_allclose(posterior.parts[0][1].sum(), 1.0)


def test_under_another_prior():
    rng = np.random.default_rng(1)
    posterior = MODEL.posterior([1], prior=rng.gamma(6.0, 0.5, 2000))
    exact = stats.gamma(7, scale=1 / 3)
    own = (COUNT[:, 0] == 1).sum()
    assert ENOUGH_MATCHES < posterior.matches[0] < own
    assert abs(posterior.mean()[0] - exact.mean()) < 0.3 * exact.std()
    assert abs(np.sqrt(posterior.cov()[0, 0]) / exact.std() - 1) < 0.25


def test_a_named_method_answers_alone():
    posterior = fitted(RATE, COUNT, method="rejection", share=0.5).posterior([0])
    assert posterior.matches == [0]
    assert posterior.effective_size() > (COUNT[:, 0] == 0).sum()


def test_several_parameters():
    """Two rates and their counts, one of them in a geometric waiting time."""
    rng = np.random.default_rng(2)
    n = 3000
    theta = np.c_[rng.gamma(2.0, 1.0, n), rng.beta(2.0, 2.0, n)]
    x = np.c_[rng.poisson(theta[:, 0]), rng.geometric(np.maximum(theta[:, 1], 1e-3))]
    posterior = fitted(theta, x).posterior([1, 2])
    assert posterior.matches[0] >= ENOUGH_MATCHES
    exact = stats.gamma(3, scale=0.5), stats.beta(3, 3)
    error = [3 * d.std() / np.sqrt(posterior.matches[0]) for d in exact]
    assert (np.abs(posterior.mean() - [d.mean() for d in exact]) < error).all()


def test_a_value_that_many_continuous_simulations_take():
    """Zero in half of the simulations, else never the same."""
    rng = np.random.default_rng(3)
    theta = rng.uniform(0, 1, 600)
    x = np.where(rng.random(600) < theta, rng.lognormal(size=600), 0.0)[:, None]
    model = fitted(theta, x)
    zero, other = model.posterior([0.0]), model.posterior([1.5])
    assert zero.matches[0] == (x == 0).sum()
    assert abs(zero.mean()[0] - 1 / 3) < 0.05
    assert other.matches[0] == 0
    assert abs(other.mean()[0] - 2 / 3) < 0.08


def test_continuous_simulations_are_as_before():
    rng = np.random.default_rng(4)
    theta = rng.standard_normal((120, 1))
    x = theta + 0.5 * rng.standard_normal((120, 1))
    assert fitted(theta, x).posterior([0.3]).matches == [0]


def test_methods_are_compared_where_they_answer():
    assert_allclose(equal_rows(np.array([[1, 2], [1, 3], [1, 2], [0, 0]])), [2, 1, 2, 1])
    from muhat.learning.likelihood_free import LEAST_ASKED, make_folds

    asked = np.arange(200) < LEAST_ASKED
    for _, test in make_folds(200, np.random.default_rng(0), asked):
        assert asked[test].all()
    folds = make_folds(200, np.random.default_rng(0), np.arange(200) < LEAST_ASKED - 1)
    assert sum(len(test) for _, test in folds) > LEAST_ASKED


def test_what_contradicts_a_method():
    rng = np.random.default_rng(5)
    A, B = rng.standard_normal((25, 1)), rng.standard_normal((4000, 1))
    A, B = A - A.mean(), B - B.mean()
    a, b = np.full(25, 1 / 25), np.full(4000, 1 / 4000)
    assert _contradiction(A, a, B, b) == 0
    assert _contradiction(A, a, B + 0.15, b) == 0  # nearer than chance has it, 1/5
    assert 0.9 < _contradiction(A, a, B + 1, b) < 1
