"""Features of pairs in either direction, and the trees that read them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from muhat.learning import causation as c
from muhat.learning.causal_pairs import standardize


def pair(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.gamma(2.0, size=n)
    return standardize(x), standardize(np.sin(x) + 0.3 * rng.standard_normal(n))


def test_coherence_is_hsic_of_normalized_features_by_brute_force():
    x, y = pair(40)
    P, R = c.fourier(x), c.fourier(y)
    found = c.coherence(P, R)
    n, m = len(x), len(c.FREQUENCIES)
    bands = [
        [i + shift for i in part for shift in (0, m)] for part in (range(c.LOW), range(c.LOW, m))
    ]  # cosines and sines

    def gram(v, band):
        """Of the kernel Σ φᵢ(v) φᵢ(v') / (var φᵢ + 1e-3) over the band."""
        K = np.zeros((n, n))
        for i in band:
            function = np.cos if i < m else np.sin
            feature = function(c.FREQUENCIES[i % m] * v)
            K += np.outer(feature, feature) / (feature.var() + 1e-3)
        return K

    H = np.eye(n) - 1 / n
    expected = [
        np.trace(gram(x, p) @ H @ gram(y, q) @ H) / n**2 / (len(p) * len(q)) for p in bands for q in bands
    ]
    assert_allclose(found, expected, rtol=1e-9)


def test_smoother_is_ridge_regression_by_brute_force():
    x, y = pair(120)
    smoother = c.Smoother(x)
    assert_allclose(smoother.Q.T @ smoother.Q / len(x), np.eye(smoother.Q.shape[1]), atol=1e-6)
    at = np.unique(
        np.concatenate(
            [
                np.quantile(x, np.linspace(0.01, 0.99, c.LANDMARKS)),
                np.linspace(x.min(), x.max(), c.LANDMARKS // 2),
            ]
        )
    )
    B = np.column_stack([x, np.exp(-((x[:, None] - at) ** 2) / (2 * c.LENGTHSCALE**2))])
    B -= B.mean(axis=0)
    best = None
    for ridge in c.RIDGES:
        hat = B @ np.linalg.solve(B.T @ B + len(x) * ridge * np.eye(B.shape[1]), B.T)
        fit = y.mean() + hat @ (y - y.mean())
        score = np.mean((y - fit) ** 2) / (1 - (np.trace(hat) + 1) / len(x)) ** 2
        if best is None or score < best[0]:
            best = score, fit
    assert best is not None
    assert_allclose(smoother(y), best[1], atol=1e-3)


def test_smoother_keeps_lines():
    x, _ = pair()
    assert_allclose(c.Smoother(x)(3 * x - 1), 3 * x - 1, atol=1e-3)


def test_entropy_is_that_of_known_laws():
    rng = np.random.default_rng(0)
    assert_allclose(c.entropy(rng.standard_normal(20_000)), 0.5 * np.log(2 * np.pi * np.e), atol=0.05)
    assert_allclose(c.entropy(rng.uniform(0, 3, 20_000)), np.log(3), atol=0.05)


def test_shape_of_a_gaussian_is_zero_but_for_its_tails():
    v = np.random.default_rng(0).standard_normal(200_000)
    *rest, tails = c.shape(v)
    assert_allclose(rest, 0, atol=0.02)
    assert_allclose(tails, np.log(3), atol=0.02)
    assert_allclose(c.shape(-v), c.shape(v))


def test_features_know_neither_signs_nor_order_nor_units():
    x, y = pair()
    F = c.pair_features(x, y)
    order = np.random.default_rng(1).permutation(len(x))
    for a, b in ((-x, y), (x, -y), (-x, -y), (x[order], y[order]), (50 * x - 3, 1e-4 * y)):
        assert_allclose(c.pair_features(a, b), F, atol=2e-4)
    assert np.abs(c.pair_features(x, y[order]) - F).max() > 0.5  # the pairing does matter


def test_exchange_swaps_the_rows():
    x, y = pair()
    F = c.pair_features(x, y)
    assert np.array_equal(c.pair_features(y, x), F[::-1])
    k = len(c.direction_features(x, y))
    assert_allclose(F[0, :k], -F[1, :k], rtol=1e-6)
    assert_allclose(F[0, k : 2 * k], F[1, k : 2 * k], rtol=1e-6)


def test_the_rest_depends_on_the_effect_and_not_on_the_cause():
    """n × HSIC of cause and rest is small, of effect and rest large: x³ with noise added."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 600)
    y = x**3 + 0.1 * rng.standard_normal(600)
    x, y = standardize(x), standardize(y)
    ahead, back = (c.direction_features(a, b)[4:8] for a, b in ((x, y), (y, x)))  # those of constant scale
    assert (back - ahead).max() > 2


def trained(count=80, seed=0):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((count, 2, 5)).astype(np.float32)
    F[:, 0, 1] += 1.5
    return F, c.train(F, np.ones(count), 12, 6, 0.2, 0)


def test_trees_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(400) > 0).astype(int)
    model = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=9, random_state=0).fit(X, y)
    trees = c.as_trees(model)
    start = float(np.log(y.mean() / (1 - y.mean())))
    new = rng.standard_normal((300, 4)).astype(np.float32)
    assert_allclose(start + trees(new), model.decision_function(new), atol=1e-5)


def test_coefficient_is_antisymmetric_in_blocks_and_whole():
    F, trees = trained()
    values = c.coefficient(F, trees)
    assert np.mean(values > 0) > 0.8
    assert_allclose(c.coefficient(F[:, ::-1], trees), -values)
    assert_allclose(c.coefficient(F, trees, block=7), values)


def test_labels_turned_around_turn_the_trees_around():
    F, trees = trained()
    turned = c.train(F[:, ::-1], -np.ones(len(F)), 12, 6, 0.2, 0)
    assert_allclose(turned(F.reshape(-1, 5)), trees(F.reshape(-1, 5)), atol=0.5)
    assert np.mean(c.coefficient(F, turned) > 0) > 0.8


def test_together_is_the_mean():
    F, first = trained()
    second = c.train(F[:, :, ::-1], np.ones(len(F)), 5, 4, 0.3, 1)
    X = F.reshape(-1, 5)
    assert_allclose(c.together([first, second])(X), (first(X) + second(X)) / 2, atol=1e-6)


def test_weights_are_those_the_labels_were_drawn_with():
    rng = np.random.default_rng(0)
    E = rng.standard_normal((50_000, 2)) * [5, 0.1]
    labels = np.where(rng.random(len(E)) < expit(E @ [0.4, -8]), 1, -1)
    assert_allclose(c.weigh(E * labels[:, None]), [0.4, -8], rtol=0.05)


def test_weights_are_those_of_logistic_regression():
    rng = np.random.default_rng(1)
    M, share = rng.standard_normal((40, 2)) + 0.3, rng.random(40)
    M /= np.sqrt(np.mean(M**2, axis=0))
    # Each pair in both orders counts twice, so that the prior's variance 2 is a penalty ½ there.
    model = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10)
    model.fit(np.concatenate([M, -M]), np.repeat([1, -1], 40), np.tile(share, 2))
    assert_allclose(c.weigh(M, share), model.coef_[0], rtol=1e-4)
    assert_allclose(c.weigh(M * [1e3, 1e-3], share), model.coef_[0] * [1e-3, 1e3], rtol=1e-4)


def test_evidence_that_is_always_right_counts_with_an_end():
    assert 0 < c.weigh(np.ones((5, 1)))[0] < 5


@pytest.mark.parametrize("n", [20, 21, 1000])
def test_features_are_finite_for_coarse_and_degenerate_pairs(n):
    rng = np.random.default_rng(n)
    x = standardize(np.arange(n) % 2 + 0.0)
    for y in (x, -x, rng.standard_normal(n), np.eye(n)[0], rng.standard_cauchy(n) ** 3):
        F = c.pair_features(x, y)
        assert np.isfinite(F).all()
        assert np.abs(F).max() <= 2 * c.BOUND
