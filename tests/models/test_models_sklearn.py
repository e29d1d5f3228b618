"""Every estimator behaves as scikit-learn's own."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import muhat as mh

# Checks that must fail, each with its reason: {estimator class: {check: reason}}.
EXPECTED_FAILURES: dict[type, dict[str, str]] = {}

ESTIMATORS = [
    mh.ConditionalMean(),
    mh.ConditionalMean(kernel_x=mh.Gaussian("scaled"), reg=1e-4, representation=mh.Nystrom(500)),
]


@pytest.mark.slow
@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator), {})
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def data(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) * [1.0, 100.0]
    return X, np.sin(2 * X[:, 0]) + X[:, 1] / 100 + 0.1 * rng.standard_normal(n)


def test_clone_and_parameters():
    model = mh.ConditionalMean(mh.Gaussian(0.5), reg=1e-3, representation=mh.Nystrom(9), random_state=4)
    twin = clone(model.fit(*data()))
    assert twin.get_params() == model.get_params()
    names = {"kernel_x", "kernel_y", "reg", "representation", "random_state", "center"}
    assert set(model.get_params()) == names
    assert not hasattr(twin, "reg_")
    assert twin.set_params(reg=0.5).reg == 0.5
    assert model.reg == 1e-3


def test_repr_shows_what_was_changed():
    assert repr(mh.ConditionalMean(reg=0.5)) == "ConditionalMean(reg=0.5)"


def test_pipeline():
    X, y = data()
    pipeline = make_pipeline(StandardScaler(), mh.ConditionalMean(mh.Gaussian(0.5), reg=1e-3))
    fitted = pipeline.fit(X, y)
    Z = StandardScaler().fit_transform(X)
    alone = mh.ConditionalMean(mh.Gaussian(0.5), reg=1e-3).fit(Z, y)
    assert_allclose(fitted.predict(X), alone.predict(Z), rtol=1e-10)
    assert fitted.score(*data(seed=1)) > 0.8


@pytest.mark.parametrize("jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_grid_search_finds_the_regulariser(jobs):
    X, y = data()
    grid = {"reg": [1e-12, 1e-3, 1e2]}
    model = mh.ConditionalMean(mh.Gaussian([0.5, 50.0]), mh.Gaussian("median"))
    search = GridSearchCV(model, grid, cv=3, n_jobs=jobs).fit(X, y)
    assert search.best_params_ == {"reg": 1e-3}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.reg_ == 1e-3


def test_grid_search_over_kernels_and_representations():
    X, y = data()
    grid = {
        "kernel_x": [mh.Gaussian([0.5, 50.0]), mh.Gaussian(1e-3)],
        "representation": [None, mh.Nystrom(20)],
    }
    search = GridSearchCV(mh.ConditionalMean(reg=1e-3), grid, cv=3).fit(X, y)
    assert search.best_params_["kernel_x"] == grid["kernel_x"][0]


def test_cross_validation_in_another_metric():
    X, y = data()
    scores = cross_val_score(mh.ConditionalMean(reg=1e-3), X, y, scoring="r2", cv=3)
    assert (scores > 0.5).all()


@pytest.mark.parametrize(
    "representation", [None, mh.Exact(memory=0), mh.Nystrom(20), mh.Fourier(30)], ids=repr
)
def test_pickle(representation):
    X, y = data()
    fitted = mh.ConditionalMean(mh.Laplace([0.5, 50.0]), reg=1e-3, representation=representation).fit(X, y)
    twin = pickle.loads(pickle.dumps(fitted))
    assert_allclose(twin.predict(X), fitted.predict(X), rtol=0)
    assert_allclose(twin.at(X[:3]).weights, fitted.at(X[:3]).weights, rtol=0)
    unfitted = pickle.loads(pickle.dumps(mh.ConditionalMean(reg=0.5)))
    assert unfitted.reg == 0.5
