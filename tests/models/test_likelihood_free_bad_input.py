"""Likelihood-free inference refuses what it cannot use, and says what to do."""

import numpy as np
import pytest

import muhat as mh
from muhat.operators.bayes import NoOverlap


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(80, 2))
    return theta, theta + 0.3 * rng.normal(size=(80, 2))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"method": "abc"}, ValueError, "method must be one of"),
        ({"method": ()}, ValueError, "method is empty"),
        ({"reg": -1.0}, ValueError, "reg must be positive"),
        ({"scale": 0.0}, ValueError, "scale must be positive"),
        ({"share": 1.5}, ValueError, "share must be a number between 0 and 1"),
        ({"learning": "guess"}, ValueError, "learning must be one of"),
        ({"missing": "ignore"}, ValueError, "missing must be one of"),
        ({"summary": 3}, TypeError, "summary must be None"),
        ({"kernel_x": "median"}, TypeError, "kernel_x must be a kernel"),
        ({"summary": lambda x: x[:3]}, ValueError, "summary must give one finite row"),
    ],
)
def test_arguments(pairs, options, error, words):
    with pytest.raises(error, match=words):
        mh.LikelihoodFree(**options).fit(*pairs)


def test_nan_names_the_count(pairs):
    theta, x = pairs
    x[[4, 9]] = np.nan
    with pytest.raises(ValueError, match=r"2 of 80 simulations have NaN.*row 4, in x.*missing='drop'"):
        mh.LikelihoodFree().fit(theta, x)
    x[:] = np.nan
    with pytest.raises(ValueError, match="All but 0 of 80"):
        mh.LikelihoodFree(missing="drop").fit(theta, x)


def test_shapes(pairs):
    theta, x = pairs
    with pytest.raises(ValueError, match="theta has 80 rows but x has 79"):
        mh.LikelihoodFree().fit(theta, x[:-1])
    with pytest.raises(ValueError, match="at least 10"):
        mh.LikelihoodFree().fit(theta[:5], x[:5])
    with pytest.raises(ValueError, match="at least 2"):
        mh.LikelihoodFree("kabc").fit(theta[:1], x[:1])
    with pytest.raises(ValueError, match="Column 1 of theta is constant"):
        mh.LikelihoodFree().fit(np.hstack([theta[:, :1], np.ones((80, 1))]), x)
    with pytest.raises(ValueError, match="says nothing about theta"):
        mh.LikelihoodFree().fit(theta, np.ones_like(x))


def test_observations(pairs):
    model = mh.LikelihoodFree("adjusted").fit(*pairs)
    with pytest.raises(ValueError, match="3 features"):
        model.posterior([0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="NaN"):
        model.posterior([0.0, np.nan])
    with pytest.raises(ValueError, match="at least 1"):
        model.sample([0.0, 0.0], 0)
    with pytest.raises(ValueError, match="points of their own"):
        model.posterior(np.zeros((2, 2))).density()


@pytest.mark.parametrize("method", ["adjusted", "surrogate", "kabc"])
def test_an_observation_far_from_all_simulations_is_flagged(pairs, method):
    model = mh.LikelihoodFree(method).fit(*pairs)
    near = model.posterior([[0.0, 0.0], [0.5, 0.3]])
    assert not len(near.unlike)
    assert (near.remoteness < 1).all()
    with pytest.warns(UserWarning, match=r"1 of 2 observations lie far.*columns \[0\]"):
        mu = model.posterior([[0.0, 0.0], [9.0, 0.0]])
    assert mu.unlike.tolist() == [1]
    assert mu.outside.tolist() == [[False, False], [True, False]]
    assert np.isfinite(mu.mean()).all()


@pytest.mark.parametrize("method", ["adjusted", "surrogate", "importance"])
def test_priors(pairs, method):
    model = mh.LikelihoodFree(method).fit(*pairs)
    with pytest.raises(ValueError, match=r"prior has 3 columns|prior.points has 3"):
        model.posterior([0.0, 0.0], np.zeros((5, 3)))
    with pytest.raises(NoOverlap, match="None of the prior's 50 points"):
        model.posterior([0.0, 0.0], 100 + np.random.default_rng(0).normal(size=(50, 2)))


def test_a_prior_that_was_partly_not_simulated_warns(pairs):
    model = mh.LikelihoodFree("surrogate").fit(*pairs)
    rng = np.random.default_rng(0)
    prior = np.concatenate([rng.normal(size=(50, 2)), 50 + rng.normal(size=(50, 2))])
    with pytest.warns(UserWarning, match="50% of the prior lies where nothing was simulated"):
        model.posterior([0.0, 0.0], prior)


def test_the_deconditional_rule_warns(pairs):
    with pytest.warns(UserWarning, match="only where x is a function of theta"):
        mh.LikelihoodFree("dme").fit(*pairs)


def test_not_fitted():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        mh.LikelihoodFree().posterior([0.0])
