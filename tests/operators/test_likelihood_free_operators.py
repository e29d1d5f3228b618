"""Posterior weights from simulations against the formulas they stand for."""

import numpy as np
import pytest

import muhat as mh
from muhat.gram import DenseGram
from muhat.operators import likelihood_free as lf
from muhat.operators.bayes import Prior

N, M = 30, 40


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(N, 2))
    x = theta + 0.3 * rng.normal(size=(N, 2))
    return theta, x, rng.normal(size=(M, 2)), rng.normal(size=(3, 2))


def test_rejection_keeps_the_nearest_share():
    distances = np.array([[3.0, 1.0, 2.0, 0.5], [0.1, 5.0, 0.2, 7.0]])
    W = lf.rejection_weights(distances, 0.5)
    assert W.tolist() == [[0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0]]
    assert lf.rejection_weights(distances, 0.01).tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]


def test_rejection_shares_ties_and_knows_outliers():
    ties = np.array([[1.0, 0.5, 1.0, 1.0, 2.0]])
    np.testing.assert_allclose(lf.rejection_weights(ties, 0.4), [[1 / 6, 1 / 2, 1 / 6, 1 / 6, 0]])
    far = np.array(
        [[0.0, 1.0, 2.0, 1e14, 3.0], [3.0, 1.0, 2.0, np.inf, 0.5], [np.inf, 1, np.inf, np.inf, np.inf]]
    )
    np.testing.assert_array_equal(lf.rejection_weights(far, 0.2).argmax(axis=1), [0, 4, 1])
    np.testing.assert_array_equal((lf.rejection_weights(far, 0.2) > 0).sum(axis=1), 1)


def test_k2abc_by_hand(case):
    _, x, _, y = case
    kernel = mh.Gaussian(0.7)
    W = lf.k2abc_weights(lf.squared_mmd(kernel, y, x), 0.2)
    by_hand = np.exp(-(2 - 2 * kernel(y, x)) / 0.2)
    np.testing.assert_allclose(W, by_hand / by_hand.sum(axis=1, keepdims=True), rtol=1e-10)


def test_squared_mmd_is_that_of_point_masses(case):
    _, x, _, y = case
    kernel = mh.Laplace(0.7)
    expected = [[mh.mmd(a[None], b[None], kernel) ** 2 for b in x[:5]] for a in y]
    np.testing.assert_allclose(lf.squared_mmd(kernel, y, x[:5]), expected, atol=1e-12)


def test_kabc_is_the_conditional_mean_embedding(case):
    theta, x, _, y = case
    gram = DenseGram(None, mh.Gaussian(0.7), x)
    W = lf.kabc_weights(gram, gram.cross(y), 1e-3)
    model = mh.ConditionalMean(mh.Gaussian(0.7), mh.Gaussian(1.0), 1e-3, center=False).fit(x, theta)
    np.testing.assert_allclose(W, model.at(y).weights, atol=1e-10)


def dense_a(theta, prior, reg):
    L, cross = mh.Gaussian(0.8)(theta), mh.Gaussian(0.8)(theta, prior)
    return np.linalg.solve(L + N * reg * np.eye(N), cross)


def test_dme_is_line_5_of_algorithm_8_1(case):
    theta, x, prior, y = case
    gram, gram_x = DenseGram(None, mh.Gaussian(0.8), theta), DenseGram(None, mh.Gaussian(0.7), x)
    known = Prior.of(gram, prior, np.full(M, 1 / M))
    delta, lam = 1e-2, 1e-3
    W = lf.dme_weights(gram, gram_x, known, gram_x.cross(y), delta, lam)
    A = dense_a(theta, prior, lam)
    K = mh.Gaussian(0.7)(x)
    expected = A.T @ np.linalg.solve(K @ A @ A.T + M * delta * np.eye(N), mh.Gaussian(0.7)(x, y))
    np.testing.assert_allclose(W, expected.T, atol=1e-8)


def test_marginal_likelihood_is_line_11_of_algorithm_8_1(case):
    theta, x, prior, y = case
    kappa = lf.epsilon_kernel(y, x, np.ones(2), 0.4)
    gram = DenseGram(None, mh.Gaussian(0.8), theta)
    likelihood = lf.surrogate_likelihood(gram, gram.cross(prior), kappa, 1e-3)
    q = lf.approximate_marginal_likelihood(likelihood, np.full(M, 1 / M))
    A = dense_a(theta, prior, 1e-3)
    np.testing.assert_allclose(q, [(A.T @ k).mean() for k in kappa], atol=1e-10)


def test_epsilon_kernel_is_a_density():
    grid = np.linspace(-9, 9, 4001)[:, None]
    values = lf.epsilon_kernel(grid, np.array([[0.5]]), np.array([2.0]), 0.3)[:, 0]
    assert values.sum() * (grid[1, 0] - grid[0, 0]) == pytest.approx(1, abs=1e-6)
    assert np.sqrt((values * (grid[:, 0] - 0.5) ** 2).sum() / values.sum()) == pytest.approx(0.6, rel=1e-4)


def test_kelfi_weights_follow_prior_and_likelihood():
    W = lf.kelfi_weights(np.array([[1.0, 3.0, -2.0], [-1.0, -1.0, -1.0]]), np.array([0.5, 0.25, 0.25]))
    np.testing.assert_allclose(W, [[0.4, 0.6, 0.0], [0.5, 0.25, 0.25]])


def test_importance_under_the_simulations_own_prior_is_kabc(case):
    theta, x, _, y = case
    gram, gram_x = DenseGram(None, mh.Gaussian(0.8), theta), DenseGram(None, mh.Gaussian(0.7), x)
    own = Prior.of(gram, theta, np.full(N, 1 / N))
    W = lf.importance_weights(gram, gram_x, own, gram_x.cross(y), 1e-3, 1e-3)
    np.testing.assert_allclose(W, lf.kabc_weights(gram_x, gram_x.cross(y), 1e-3), atol=1e-8)


def test_kbr_is_its_dense_formula(case):
    theta, x, prior, y = case
    gram, gram_x = DenseGram(None, mh.Gaussian(0.8), theta), DenseGram(None, mh.Gaussian(0.7), x)
    known = Prior.of(gram, prior, np.full(M, 1 / M))
    eta, delta = 1e-2, 1e-3
    W = lf.kbr_weights(gram, gram_x, known, gram_x.cross(y), delta, eta)
    # Λ K ((ΛK)² + δI)⁻¹ Λ k(y), with Λ = diag((G + nηI)⁻¹ m_Π).
    values = mh.Gaussian(0.8)(theta, prior).mean(axis=1)
    D = np.diag(np.linalg.solve(gram.K + N * eta * np.eye(N), values))
    DK = D @ gram_x.K
    expected = DK @ np.linalg.solve(DK @ DK + delta * np.eye(N), D @ mh.Gaussian(0.7)(x, y))
    np.testing.assert_allclose(W, expected.T, atol=1e-9)
