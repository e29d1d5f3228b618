"""Data frames in: text columns are categories, in pandas and in polars alike."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import muhat as mh


def table(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.standard_normal(n), "c": rng.choice(list("pqr"), n)})
    shift = X["c"].map({"p": 0.0, "q": 2.0, "r": -1.0}).to_numpy(dtype=float)
    return X, np.sin(X["a"].to_numpy()) + shift + 0.05 * rng.standard_normal(n)


LIBRARIES = {
    "pandas": lambda X: X,
    "categorical": lambda X: X.astype({"c": "category"}),
    "polars": lambda X: pl.DataFrame({name: X[name].tolist() for name in X.columns}),
}


@pytest.fixture(params=LIBRARIES)
def library(request):
    return LIBRARIES[request.param]


def test_equals_the_kernel_on_numbers_times_delta_on_codes(library):
    X, y = table()
    kernel = mh.Gaussian(0.8).on("a") * mh.Delta(0.3).on("c")
    fitted = mh.ConditionalMean(kernel, mh.Gaussian(1.0), 1e-3).fit(library(X), y)
    a, c = X["a"].to_numpy(), X["c"].to_numpy()
    K = np.exp(-((a[:, None] - a) ** 2) / (2 * 0.64)) * np.where(c[:, None] == c, 1, 0.3)
    expected = y.mean() + K @ np.linalg.solve(K + 80 * 1e-3 * np.eye(80), y - y.mean())
    assert_allclose(fitted.predict(library(X)), expected, rtol=1e-8)
    plain = mh.ConditionalMean(kernel, mh.Gaussian(1.0), 1e-3, center=False).fit(library(X), y)
    expected = K @ np.linalg.solve(K + 80 * 1e-3 * np.eye(80), y)
    assert_allclose(plain.predict(library(X)), expected, rtol=1e-8)


def test_default_learns_the_shift_of_each_category(library):
    X, y = table()
    test_X, test_y = table(seed=1)
    fitted = mh.ConditionalMean().fit(library(X), y)
    assert np.mean((fitted.predict(library(test_X)) - test_y) ** 2) < 0.1  # of a variance of 2
    assert fitted.score(library(test_X), test_y) > 0.9


def test_libraries_agree():
    X, y = table()
    predictions = [mh.ConditionalMean().fit(make(X), y).predict(make(X[:5])) for make in LIBRARIES.values()]
    for other in predictions[1:]:
        assert_allclose(other, predictions[0], rtol=1e-9)


def test_unknown_category_is_like_no_other(library):
    X, y = table()
    kernel = mh.Gaussian(0.8).on(0) * mh.Delta(0.3).on(1)
    fitted = mh.ConditionalMean(kernel, mh.Gaussian(1.0), 1e-3).fit(library(X), y)
    query = pd.DataFrame({"a": [0.1, 0.1], "c": ["unheard of", "p"]})
    a = X["a"].to_numpy()
    alpha = np.linalg.solve(fitted.gram_.dense() + 80 * 1e-3 * np.eye(80), y - y.mean())
    expected = y.mean() + 0.3 * np.exp(-((0.1 - a) ** 2) / (2 * 0.64)) @ alpha
    got = fitted.predict(library(query))
    assert_allclose(got[0], expected, rtol=1e-8)
    assert abs(got[1] - got[0]) > 0.01


def test_categories_alone():
    X = pd.DataFrame({"c": list("aabbbbcc")})
    y = np.array([1.0, 3, 5, 5, 6, 8, -1, -3])
    fitted = mh.ConditionalMean(mh.Delta(), mh.Gaussian(1.0), 1e-12).fit(X, y)
    assert_allclose(fitted.predict(pd.DataFrame({"c": list("abc")})), [2, 6, -2], rtol=1e-8)
    assert_allclose(fitted.predict(pd.DataFrame({"c": ["d"]})), y.mean(), rtol=1e-12)
    plain = mh.ConditionalMean(mh.Delta(), mh.Gaussian(1.0), 1e-12, center=False).fit(X, y)
    assert_allclose(plain.predict(pd.DataFrame({"c": ["d"]})), 0, atol=1e-12)
    assert len(fitted.gram_) == 3


class TestOutputs:
    def test_probabilities_of_a_category(self, library):
        X = pd.DataFrame({"a": np.repeat([0.0, 10.0], 50)})
        Y = pd.DataFrame({"c": ["p"] * 40 + ["q"] * 10 + ["q"] * 50})
        fitted = mh.ConditionalMean(mh.Gaussian(1.0), None, 1e-10).fit(X, library(Y))
        is_p = (Y["c"] == "p").to_numpy()
        assert_allclose(fitted.expect(is_p, X.iloc[[0, 99]]), [0.8, 0.0], atol=1e-6)
        code = float(np.flatnonzero(fitted.encoder_y_.categories[0] == "p")[0])
        assert_allclose(fitted.expect(lambda y: y[:, 0] == code, X.iloc[[0]]), [0.8], atol=1e-6)
        mu = fitted.at(X.iloc[[0, 99]])
        assert_allclose(mu.expect(is_p), [0.8, 0.0], atol=1e-6)
        with pytest.raises(ValueError, match=r"Y has categories, which have no mean: use expect"):
            fitted.predict(X)
        with pytest.raises(ValueError, match=r"mean needs numbers, but columns \['c'\]"):
            mu.mean()
        assert fitted.score(X, library(Y)) > 0.5

    def test_a_text_series(self):
        X = np.arange(20.0)[:, None]
        y = pd.Series(["p"] * 10 + ["q"] * 10)
        fitted = mh.ConditionalMean(mh.Gaussian(2.0), None, 1e-3).fit(X, y)
        p = fitted.expect((y == "p").to_numpy(), [[0.0], [19.0]])
        assert p[0] > 0.8
        assert abs(p[1]) < 0.2
        assert fitted.score(X, y) > 0.5

    def test_numeric_series_and_frames(self):
        X, y = table()
        here = mh.ConditionalMean(reg=1e-3).fit(X, y)
        series = mh.ConditionalMean(reg=1e-3).fit(X, pd.Series(y, name="y"))
        frame = mh.ConditionalMean(reg=1e-3).fit(X, pd.DataFrame({"y": y}))
        assert_allclose(series.predict(X), here.predict(X), rtol=1e-12)
        assert_allclose(frame.predict(X)[:, 0], here.predict(X), rtol=1e-12)
        polars = mh.ConditionalMean(reg=1e-3).fit(X, pl.Series("y", y))
        assert_allclose(polars.predict(X), here.predict(X), rtol=1e-12)


class TestPush:
    def test_of_the_marginal_is_the_average(self, library):
        X, y = table()
        fitted = mh.ConditionalMean(reg=1e-3).fit(library(X), y)
        pushed = fitted.push(mh.embed(library(X), fitted.kernel_x_))
        assert_allclose(pushed.mean()[0], fitted.predict(library(X)).mean(), rtol=1e-8)

    def test_of_a_table_with_other_categories(self, library):
        X, y = table()
        fitted = mh.ConditionalMean(reg=1e-3).fit(library(X), y)
        some = pd.DataFrame({"a": [0.3, -0.2, 0.5], "c": ["r", "q", "new"]})
        pushed = fitted.push(mh.embed(library(some), fitted.kernel_x_))
        assert_allclose(pushed.mean()[0], fitted.predict(library(some)).mean(), rtol=1e-8)

    def test_chain_remembers_the_categories(self):
        X, y = table()
        fitted = mh.ConditionalMean(reg=1e-3).fit(X, pd.DataFrame({"y": y}))
        joint = fitted.chain(mh.embed(X, fitted.kernel_x_))
        with pytest.raises(ValueError, match=r"columns \['c'\] are categories"):
            joint.mean()
        unnamed = mh.ConditionalMean(reg=1e-3).fit(X, y).chain(mh.embed(X, fitted.kernel_x_))
        with pytest.raises(ValueError, match=r"columns \[1\] are categories"):
            unnamed.mean()

    def test_of_numbers_where_categories_were_text_is_refused_the_other_way(self):
        fitted = mh.ConditionalMean(mh.Gaussian(1.0), reg=1e-3).fit(np.arange(6.0)[:, None], np.arange(6.0))
        with pytest.raises(ValueError, match="holds categories, but numbers were seen"):
            fitted.push(mh.embed(pd.DataFrame({"c": list("ab")}), mh.Delta()))


@pytest.mark.parametrize("representation", [mh.Nystrom(30), mh.Exact(memory=0)])
def test_other_representations(representation):
    X, y = table()
    exact = mh.ConditionalMean(reg=1e-2).fit(X, y)
    fitted = mh.ConditionalMean(reg=1e-2, representation=representation).fit(X, y)
    assert_allclose(fitted.predict(X), exact.predict(X), atol=0.05)


def test_array_after_frame_warns_as_scikit_learn_does():
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((10, 2)), columns=["a", "b"])
    fitted = mh.ConditionalMean(mh.Gaussian(1.0), mh.Gaussian(1.0), 0.1).fit(X, X["a"])
    with pytest.warns(UserWarning, match="valid feature names"):
        got = fitted.predict(X.to_numpy())
    assert_allclose(got, fitted.predict(X), rtol=0)
