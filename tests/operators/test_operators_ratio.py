"""Density ratios by least squares: leave-one-out is leaving one out, and features say what kernels say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.operators.ratio import LeastSquares, kulsif, rulsif

rng = np.random.default_rng(0)
DEN = rng.standard_normal((12, 2))
NUM = 0.7 * rng.standard_normal((9, 2)) + 0.3
WEIGHTS = rng.dirichlet(np.ones(9))
SIGNED = np.r_[WEIGHTS[:-1], WEIGHTS[-1] - 0.3]  # as the rules of probability make them
KERNEL = 1.3 * mh.Gaussian(0.9)
REG = 0.05


def problem(alpha=0.0, target=0.0, weights=WEIGHTS, method=kulsif):
    features = method.basis(KERNEL, NUM, DEN, np.random.default_rng(1))
    return LeastSquares(features.features(NUM), weights, features.features(DEN), alpha, target)


def brute_force(least, reg, den=None, num=None, count=None):
    """θ from the weighted normal equations, points ``den`` and ``num`` with weight zero."""
    n = len(least.denominator)
    c = np.full(n, 1 / (count or n))
    v = least.weights.copy()
    if den is not None:
        c[den] = 0.0
    if num is not None:
        v[num] = 0.0
    rows = np.concatenate([least.denominator, least.numerator])
    a = np.concatenate([(1 - least.alpha) * c, least.alpha * v])
    H = rows.T @ (a[:, None] * rows)
    h = v @ least.numerator
    return np.linalg.solve(H + reg * np.eye(len(H)), h - least.target * (a @ rows))


CASES = [
    pytest.param(a, t, w, m, id=f"alpha {a} target {t} {name} {m.NAME}")
    for m in (kulsif, rulsif)
    for a in (0.0, 0.3)
    for t in (0.0, 1.0)
    for name, w in (("weighted", WEIGHTS), ("signed", SIGNED))
    if not (a and name == "signed")  # a mixture with a signed measure has no convex loss
]


@pytest.mark.parametrize(("alpha", "target", "weights", "method"), CASES)
class TestLeastSquares:
    def test_coefficients_minimise_the_loss(self, alpha, target, weights, method):
        least = problem(alpha, target, weights, method)
        assert_allclose(least.coefficients(REG), brute_force(least, REG), rtol=1e-8)

    def test_leave_one_out_is_the_ratio_made_without_the_point(self, alpha, target, weights, method):
        least = problem(alpha, target, weights, method)
        den, num = least.leave_one_out(REG)
        for i, phi in enumerate(least.denominator):
            assert_allclose(den[i], target + phi @ brute_force(least, REG, den=i), rtol=1e-8, atol=1e-10)
        for j, phi in enumerate(least.numerator):
            assert_allclose(num[j], target + phi @ brute_force(least, REG, num=j), rtol=1e-8, atol=1e-10)

    def test_score_is_the_loss_at_these(self, alpha, target, weights, method):
        least = problem(alpha, target, weights, method)
        den, num = least.leave_one_out(REG)
        loss = 0.5 * ((1 - alpha) * np.mean(den**2) + alpha * weights @ num**2) - weights @ num
        assert_allclose(least.score(REG), loss, rtol=1e-12)


def test_leave_one_out_of_kanamori():
    """The rest divided by n − 1: r⁽⁻ⁱ⁾(zᵢ) = (n−1) pᵢ/(n − hᵢ) at η' = η(n−1)/n (errata)."""
    least, n = problem(), len(DEN)
    smaller = REG * (n - 1) / n
    den, _ = least.leave_one_out(smaller)
    values, V = np.linalg.eigh(least.denominator.T @ least.denominator / n)
    inverse = V @ np.diag(1 / (values + smaller)) @ V.T
    p = least.denominator @ inverse @ (WEIGHTS @ least.numerator)
    h = ((least.denominator @ inverse) * least.denominator).sum(axis=1)
    brute = [least.denominator[i] @ brute_force(least, REG, den=i, count=n - 1) for i in range(n)]
    assert_allclose((n - 1) * p / (n - h), brute, rtol=1e-9)
    assert_allclose((n - 1) / n * den, brute, rtol=1e-9)


def test_kulsif_in_features_is_kulsif_in_the_rkhs():
    """γ = n (G + nηI)⁻¹ g at the denominator's points [X22, Alg. 1, step 2]."""
    least, n = problem(), len(DEN)
    gamma = n * np.linalg.solve(KERNEL(DEN) + n * REG * np.eye(n), KERNEL(DEN, NUM) @ WEIGHTS)
    assert_allclose(least.denominator @ least.coefficients(REG), gamma, rtol=1e-9)


def test_kulsif_elsewhere_and_with_target_one():
    features = kulsif.basis(KERNEL, NUM, DEN, np.random.default_rng(1))
    theta, n = problem(target=1.0).coefficients(REG), len(DEN)
    new = np.random.default_rng(5).standard_normal((6, 2))
    # (Ĉ + ηI)⁻¹ u = (u − Σ βᵢ φ(zᵢ))/η with β = (G + nηI)⁻¹ u(Z), for u = m_num − m_den.
    ones = np.full(n, 1 / n)
    at = [KERNEL(rows, NUM) @ WEIGHTS - KERNEL(rows, DEN) @ ones for rows in (DEN, new)]
    beta = np.linalg.solve(KERNEL(DEN) + n * REG * np.eye(n), at[0])
    expected = (at[1] - KERNEL(new, DEN) @ beta) / REG
    assert_allclose(features.features(new) @ theta, expected, rtol=1e-6)


def test_rulsif_is_a_sum_of_kernels_at_the_numerator():
    features = rulsif.basis(KERNEL, NUM, DEN, np.random.default_rng(1))
    assert_allclose(features.features(DEN), KERNEL(DEN, NUM))
    assert features.size == len(NUM)
    K, B = KERNEL(NUM, NUM), KERNEL(DEN, NUM)
    H = 0.3 * K.T @ np.diag(WEIGHTS) @ K + 0.7 * B.T @ B / len(DEN)
    theta = np.linalg.solve(H + REG * np.eye(len(NUM)), WEIGHTS @ K)
    assert_allclose(problem(alpha=0.3, method=rulsif).coefficients(REG), theta, rtol=1e-9)


def test_rulsif_takes_at_most_so_many_centres():
    many = np.random.default_rng(0).standard_normal((rulsif.CENTRES + 50, 2))
    features = rulsif.basis(KERNEL, many, DEN, np.random.default_rng(1))
    assert features.size == rulsif.CENTRES
    assert len(np.unique(features.centres, axis=0)) == rulsif.CENTRES
    assert (features.centres[:, None] == many).all(axis=2).any(axis=1).all()


def test_equal_samples_have_ratio_one():
    features = kulsif.basis(KERNEL, DEN, DEN, np.random.default_rng(0))
    Phi = features.features(DEN)
    least = LeastSquares(Phi, np.full(len(DEN), 1 / len(DEN)), Phi, target=1.0)
    assert_allclose(least.coefficients(1e-3), 0.0, atol=1e-9)
    plain = LeastSquares(Phi, np.full(len(DEN), 1 / len(DEN)), Phi)
    assert_allclose(Phi @ plain.coefficients(1e-9), 1.0, atol=1e-5)


def test_signed_numerator_of_a_relative_ratio_is_finite():
    den, num = problem(alpha=0.3, weights=SIGNED).leave_one_out(1e-6)
    assert np.isfinite(den).all()
    assert np.isfinite(num).all()
