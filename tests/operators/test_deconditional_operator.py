"""The deconditional operator: its three forms, the dense Gaussian, and the limits that link it to others."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.gram import DenseGram, LowRankGram
from muhat.operators import deconditional
from muhat.operators.deconditional import (
    Transformation,
    cheapest_form,
    deconditional_weights,
    function_space,
    input_space,
    printed_log_likelihood,
    sums_of,
    weight_space,
)

RNG = np.random.default_rng(0)
N, TASKS = 40, 60
Y = RNG.uniform(-3, 3, (N, 1))
X = np.sin(Y) * 2 + 0.1 * RNG.normal(size=(N, 1))
Y_TASK = RNG.uniform(-3, 3, (TASKS, 1))
Z = np.cos(2 * Y_TASK[:, 0]) + 0.1 * RNG.normal(size=TASKS)
QUERY = np.linspace(-2.5, 2.5, 7)[:, None]
KX, KY = 1.5 * mh.Gaussian(0.6), 2.0 * mh.Gaussian(0.5)
FEATURES = mh.Fourier(60).fit(KX, X, 0)


def forms(variance, kernel=FEATURES):
    """The Gram of x, and the forms that its kernel has, all MAP."""
    task = Transformation.of(DenseGram(None, KY, Y), variance, full=False)
    low_rank = kernel is FEATURES
    gram = LowRankGram(kernel.features(X), kernel, X) if low_rank else DenseGram(None, kernel, X)
    found = {
        "function": function_space(gram.dense(), task.matrix(Y_TASK), np.asarray(variance), Z),
        "input": input_space(gram.dense(), task.blocks(Y_TASK, Z), variance),
    }
    if low_rank:
        W = task.coefficients(gram.Phi)
        found["weight"] = weight_space(gram.factor(), task.sums(W, Y_TASK, Z))
    return gram, found


def printed(kernel, variance, solve=np.linalg.solve, dtype=np.float64):
    """[HR19, Def. 4.4] as it is printed, with λ = σ²/n and ε = σ²/m for kernels that carry amplitudes."""
    K, L, cross, query, z = (A.astype(dtype) for A in (kernel(X), KY(Y), KY(Y, Y_TASK), kernel(QUERY, X), Z))
    A = solve(L + variance * np.eye(N, dtype=dtype), cross)
    alpha = A @ solve(A.T @ K @ A + variance * np.eye(TASKS, dtype=dtype), z[:, None])
    return (query @ alpha)[:, 0]


def long_solve(A, B):
    """Cholesky by hand, for extended precision."""
    L, B = np.zeros_like(A), B.copy()
    for j in range(len(A)):
        L[j, j] = np.sqrt(A[j, j] - L[j, :j] @ L[j, :j])
        L[j + 1 :, j] = (A[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    for i in range(len(A)):
        B[i] = (B[i] - L[i, :i] @ B[:i]) / L[i, i]
    for i in reversed(range(len(A))):
        B[i] = (B[i] - L[i + 1 :, i] @ B[i + 1 :]) / L[i, i]
    return B


@pytest.mark.parametrize("variance", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("kernel", [FEATURES, KX], ids=["features", "exact"])
def test_the_forms_agree(variance, kernel):
    gram, found = forms(variance, kernel)
    cross, prior = gram.cross(QUERY), kernel(QUERY)
    mean, cov = found["function"].mean(cross), found["function"].cov(cross, prior)
    assert len(found) == (3 if kernel is FEATURES else 2)
    for form in found.values():
        assert_allclose(form.mean(cross), mean, rtol=0, atol=1e-8)
        assert_allclose(form.cov(cross, prior), cov, rtol=0, atol=1e-8)
        assert_allclose(form.log_likelihood, found["function"].log_likelihood, rtol=1e-8)
    assert_allclose(mean, printed(kernel, variance), rtol=0, atol=1e-8)


@pytest.mark.parametrize("form", ["function", "input", "weight"])
def test_variances_are_the_diagonal_of_the_covariance(form):
    gram, found = forms(0.01)
    cross = gram.cross(QUERY)
    cov = found[form].cov(cross, FEATURES(QUERY))
    assert_allclose(found[form].cov(cross, FEATURES.diag(QUERY)), np.diagonal(cov), atol=1e-12)
    assert np.linalg.eigvalsh(cov)[0] > -1e-10


def test_the_square_root_form_is_more_accurate_than_the_printed_one():
    """Against extended precision, at noises that leave few digits: which are lost is up to the machine."""
    ours, theirs, variances = [], [], np.geomspace(1e-8, 1e-6, 9)
    for variance in variances:
        exact = printed(KX, variance, long_solve, np.longdouble)
        gram, found = forms(variance, KX)
        task = Transformation.of(DenseGram(None, KY, Y), variance, full=False)
        sums = sums_of(task.matrix(Y_TASK), Z, variance)
        alternative = KX(QUERY, X) @ np.linalg.solve(np.eye(N) + sums.HH @ KX(X), sums.Hz)
        ours.append(float(np.abs(found["input"].mean(gram.cross(QUERY)) - exact).max()))
        theirs.append(float(np.abs(alternative - exact).max()))
    assert (np.array(ours) < 1e-11 / variances).all()
    assert np.log(ours).mean() < np.log(theirs).mean()


def test_the_printed_log_likelihood_is_that_of_function_space():
    for variance in (1e-3, 0.1):
        task = Transformation.of(DenseGram(None, KY, Y), variance, full=False)
        value = printed_log_likelihood(KX(X), sums_of(task.matrix(Y_TASK), Z, variance))
        assert_allclose(value, forms(variance, KX)[1]["function"].log_likelihood, rtol=1e-8)


def test_log_likelihoods_are_those_of_the_dense_gaussian():
    from scipy.stats import multivariate_normal

    variance = 0.05
    for full in (False, True):
        task = Transformation.of(DenseGram(None, KY, Y), variance, full)
        M = task.matrix(Y_TASK)
        Sigma = variance * np.eye(TASKS) + (task.beside(Y_TASK) if full else 0)
        cov = M @ KX(X) @ M.T + Sigma
        dense = multivariate_normal(np.zeros(TASKS), cov).logpdf(Z)
        assert_allclose(function_space(KX(X), M, Sigma, Z).log_likelihood, dense, rtol=1e-10)


def test_what_g_has_beside_f_is_a_posterior_covariance():
    """Σ − σ²I is positive semi-definite only with ℓ(ỹ, ỹ) as its first term (see the errata)."""
    task = Transformation.of(DenseGram(None, KY, Y), 0.05, full=True)
    beside = task.beside(Y_TASK)
    assert np.linalg.eigvalsh(beside)[0] > -1e-10
    far = np.array([[100.0]])
    assert_allclose(task.beside(far), KY(far), atol=1e-12)


@pytest.mark.parametrize("full", [False, True])
def test_weight_space_of_features_is_the_dense_model_of_their_kernel(full):
    """[HR19, Def. 4.5 and Thm. 5.3 (1), (3)] for Fourier features of both kernels."""
    variance = 0.05
    kx, ky = mh.Fourier(60).fit(KX, X, 0), mh.Fourier(50).fit(KY, Y, 1)
    gram = LowRankGram(kx.features(X), kx, X)
    task = Transformation.of(LowRankGram(ky.features(Y), ky, Y), variance, full)
    W = task.coefficients(gram.Phi)
    found = weight_space(gram.factor(), task.sums(W, Y_TASK, Z))
    Psi, new = ky.features(Y), ky.features(Y_TASK)
    inverse = np.linalg.inv(Psi.T @ Psi + variance * np.eye(Psi.shape[1]))
    M = new @ inverse @ Psi.T
    Sigma = variance * np.eye(TASKS) + (variance * new @ inverse @ new.T if full else 0)
    dense = function_space(kx(X), M, Sigma, Z)
    cross = gram.cross(QUERY)
    assert_allclose(found.mean(cross), dense.mean(cross), atol=1e-9)
    assert_allclose(found.cov(cross, kx(QUERY)), dense.cov(cross, kx(QUERY)), atol=1e-9)
    assert_allclose(found.log_likelihood, dense.log_likelihood, rtol=1e-9)


def test_with_its_own_data_the_operator_is_the_conditional_mean():
    """[HR19, Thm. 6.2]: ỹ = y and λ → 0. L must not be singular: a Laplace kernel (see the errata)."""
    ell, eps = mh.Laplace(0.5), 1e-2
    K = KX(X)
    weights = np.linalg.solve(K + N * eps * np.eye(N), KX(X, QUERY))
    errors = []
    for reg in (1e-6, 1e-9, 1e-12):
        M = Transformation.of(DenseGram(None, ell, Y), N * reg, full=False).matrix(Y)
        features = DenseGram(K, KX, X).factor()
        found = deconditional_weights(M @ features.Phi, features.project(KX(X, QUERY)), N * eps)
        errors.append(np.abs(found - weights).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-6


def test_weights_come_from_either_system():
    H, phi = RNG.normal(size=(6, 9)), RNG.normal(size=(9, 2))
    found = deconditional_weights(H, phi, 0.3)
    assert_allclose(found, H @ np.linalg.solve(H.T @ H + 0.3 * np.eye(9), phi), atol=1e-12)
    assert_allclose(
        deconditional_weights(H.T, phi[:6], 0.3),
        H.T @ np.linalg.solve(H @ H.T + 0.3 * np.eye(6), phi[:6]),
        atol=1e-12,
    )


def test_regularisers_are_the_noise_in_units_of_amplitude():
    """λ = σ²/(n·amp_ℓ) and ε = σ²/(m·amp_k) for unit kernels give the same f as amplitudes do."""
    variance = 0.03
    gram, found = forms(variance, KX)
    k, ell = mh.Gaussian(0.6), mh.Gaussian(0.5)
    lam, eps = variance / (N * 2.0), variance / (TASKS * 1.5)
    A = np.linalg.solve(ell(Y) + N * lam * np.eye(N), ell(Y, Y_TASK))
    unit = k(QUERY, X) @ A @ np.linalg.solve(A.T @ k(X) @ A + TASKS * eps * np.eye(TASKS), Z)
    assert_allclose(found["function"].mean(gram.cross(QUERY)), unit, atol=1e-9)


def test_blocks_of_observations_are_all_of_them(monkeypatch):
    whole = {form: found.log_likelihood for form, found in forms(0.1)[1].items()}
    monkeypatch.setattr(deconditional, "BLOCK_ELEMENTS", 7 * 60)
    task = Transformation.of(DenseGram(None, KY, Y), 0.1, full=False)
    assert len(list(task.blocks(Y_TASK, Z))) > 4
    gram, found = forms(0.1)
    for form, value in whole.items():
        assert_allclose(found[form].log_likelihood, value, rtol=1e-10)
    assert_allclose(
        found["input"].mean(gram.cross(QUERY)), found["function"].mean(gram.cross(QUERY)), atol=1e-10
    )


def test_the_form_follows_the_cost():
    assert cheapest_form(100, 10, None, False) == "function"
    assert cheapest_form(100, 10_000, None, False) == "input"
    assert cheapest_form(1000, 1000, 50, False) == "weight"
    assert cheapest_form(100, 10_000, None, True) == "function"
