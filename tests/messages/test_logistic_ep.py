"""Expectation propagation: exact where it must be, near the true posterior, and robust to bad messages."""

import numpy as np
import pytest
from scipy.integrate import quad

from muhat.messages import Beta, Normal, logistic_ep, logistic_quadrature


def problem(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-X @ [1.0, -2.0, 0.5][:d]))).astype(int)
    return X, y


def test_one_row_and_one_weight_are_matched_exactly():
    """With one factor EP is its projection: the posterior has the moments of prior × σ(xw)."""

    def weight(w):
        return np.exp(-0.5 * w**2 / 3.0) / (1 + np.exp(-2.0 * w))

    total = quad(weight, -20, 20)[0]
    mean = quad(lambda w: w * weight(w), -20, 20)[0] / total
    var = quad(lambda w: (w - mean) ** 2 * weight(w), -20, 20)[0] / total
    found = logistic_ep([[2.0]], [1], logistic_quadrature, prior_var=3.0)
    assert found.mean[0] == pytest.approx(mean, abs=1e-8)
    assert found.cov[0, 0] == pytest.approx(var, rel=1e-7)
    assert found.converged
    assert found.iterations == 2


def test_the_posterior_is_that_of_a_grid():
    X, y = problem(12, 2)
    found = logistic_ep(X, y, logistic_quadrature, iterations=50, tol=1e-10)
    t = np.linspace(-6, 6, 401)
    W = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    log = -np.logaddexp(0, -(W @ X.T) * (2 * y - 1)).sum(axis=1) - 0.5 * (W**2).sum(axis=1)
    w = np.exp(log - log.max())
    mean = w @ W / w.sum()
    cov = ((W - mean).T * w) @ (W - mean) / w.sum()
    sd = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(found.mean, mean, atol=0.01 * sd.min())
    np.testing.assert_allclose(found.cov, cov, atol=0.02 * sd.min() ** 2)


def test_at_the_end_every_belief_is_the_posterior():
    """The fixed point of EP: what a factor says about z, with its cavity, is what all say together."""
    X, y = problem()
    last = {}

    def watch(messages, beliefs):
        last["messages"], last["beliefs"] = messages, beliefs

    found = logistic_ep(X, y, logistic_quadrature, iterations=100, tol=1e-10, watch=watch)
    assert found.converged
    scores = found.scores(X)
    np.testing.assert_allclose(last["beliefs"].mean, scores.mean, atol=1e-8)
    np.testing.assert_allclose(last["beliefs"].var, scores.var, rtol=1e-8)
    np.testing.assert_array_equal(last["messages"][1].a, 1.0 + y)
    np.testing.assert_array_equal(last["messages"][1].b, 2.0 - y)


@pytest.mark.parametrize("options", [{"block": 1}, {"block": 7}, {"damping": 0.5}])
def test_schedules_have_the_same_fixed_point(options):
    X, y = problem()
    parallel = logistic_ep(X, y, logistic_quadrature, iterations=200, tol=1e-10)
    other = logistic_ep(X, y, logistic_quadrature, iterations=200, tol=1e-10, **options)
    assert other.converged
    np.testing.assert_allclose(other.mean, parallel.mean, atol=1e-7)
    np.testing.assert_allclose(other.cov, parallel.cov, atol=1e-7)
    # One after the other needs fewer rounds: that the blocks are used shows in the first.
    if options.get("block") == 1:
        assert abs(other.changes[1] / parallel.changes[1] - 1) > 0.1


def test_labels_are_found_again():
    X, y = problem(300)
    found = logistic_ep(X, y, logistic_quadrature)
    assert (found.predict(X) == y).mean() > 0.75
    proba = found.predict_proba(X)
    assert np.mean(-np.log(np.where(y == 1, proba, 1 - proba))) < 0.5


def test_wild_beliefs_are_left_out_and_counted():
    """An operator that widens its cavities would make the posterior improper."""
    X, y = problem()

    def widens(messages: tuple[Normal, Beta]) -> Normal:
        exact = logistic_quadrature(messages)
        var = exact.var.copy()
        var[:20] = 1e6
        return Normal(exact.mean, var)

    found = logistic_ep(X, y, widens, iterations=20)
    assert found.improper >= 20
    assert (np.linalg.eigvalsh(found.cov) > 0).all()
    assert (found.predict(X) == y).mean() > 0.7


def test_a_row_that_alone_knows_its_score_sends_a_proper_cavity():
    """A column that one row alone has: its cavity is the prior, at every iteration."""
    X = np.array([[1.0, 0.0], [0.5, 0.0], [0.0, 2.0]])
    seen = []
    logistic_ep(X, [1, 0, 1], logistic_quadrature, 5, tol=0.0, watch=lambda m, b: seen.append(m[0]))
    for cavity in seen:
        assert cavity.mean[2] == pytest.approx(0.0, abs=1e-12)
        assert cavity.var[2] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"y": [0, 2, 1]}, "labels 0 and 1"),
        ({"y": [0, 1]}, "rows"),
        ({"X": [[np.nan], [1.0], [2.0]]}, "NaN"),
        ({"damping": 1.0}, "damping"),
        ({"prior_var": -1.0}, "prior_var"),
        ({"iterations": 0}, "iterations"),
        ({"block": 0}, "block"),
    ],
)
def test_bad_input(change, text):
    given = {"X": [[0.5], [1.0], [2.0]], "y": [0, 1, 1], "operator": logistic_quadrature, **change}
    with pytest.raises(ValueError, match=text):
        logistic_ep(**given)
