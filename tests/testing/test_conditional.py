"""Conditional independence: the pieces against dense formulas, what is seen and what is not, bad input."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gamma

import muhat as mh
from muhat._tables import Encoder
from muhat.testing.conditional import _strength
from muhat.testing.kci import (
    REGULARISERS,
    Smoother,
    interactions,
    kci,
    numeric,
    product_forms,
    variable_features,
)

FEW = {"permutations": 199, "random_state": 0}
EVERY = [("kci", "bootstrap"), ("kci", "gamma"), ("residual", "bootstrap")]


def chain(n=200, seed=0, d=1):
    """x ← z → y: dependent, and independent given z."""
    rng = np.random.default_rng([n, seed])
    z = rng.normal(size=(n, d))
    x = np.tanh(2 * z[:, 0]) + 0.3 * rng.normal(size=n)
    return x, z[:, 0] + 0.5 * z[:, 0] ** 2 + 0.3 * rng.normal(size=n), z


class TestSmoother:
    def test_residuals_are_those_of_some_ridge_regression(self):
        _, _, z = chain(60)
        F = np.random.default_rng(0).normal(size=(60, 3)) + np.c_[z, z**2, np.sin(3 * z)]
        found = Smoother(mh.Gaussian(1.0), z).residuals(F)
        H = np.eye(60) - 1 / 60
        distance = np.inf * np.ones(3)
        for scale in (0.5, 1.0, 2.0):
            K = H @ mh.Gaussian(scale)(z) @ H
            for reg in REGULARISERS:
                left = H @ F - K @ np.linalg.solve(K + 60 * reg * np.eye(60), H @ F)
                distance = np.minimum(
                    distance, np.linalg.norm(left - found, axis=0) / np.linalg.norm(left, axis=0)
                )
        assert distance.max() < 0.06  # features leave out a little
        assert_allclose(found.sum(axis=0), 0.0, atol=1e-9)

    def test_takes_out_what_z_says_and_leaves_the_rest(self):
        rng = np.random.default_rng(0)
        z, noise = rng.normal(size=(300, 1)), rng.normal(size=300)
        smoother = Smoother(mh.Gaussian(1.0), z)
        left = smoother.residuals(np.c_[np.sin(2 * z), np.sin(2 * z[:, 0]) + noise, noise])
        assert left[:, 0].std() < 0.01
        assert np.corrcoef(left[:, 1], noise)[0, 1] > 0.97
        assert np.corrcoef(left[:, 2], noise)[0, 1] > 0.97

    def test_finds_the_one_column_among_many(self):
        rng = np.random.default_rng(0)
        z = rng.normal(size=(300, 6))
        left = Smoother(mh.Gaussian(3.0), z).residuals(
            np.sin(2 * z[:, [3]]) + 0.1 * rng.normal(size=(300, 1))
        )
        assert left.std() < 0.2  # sin(2z) has 0.7

    def test_categories(self):
        rng = np.random.default_rng(0)
        z = np.c_[rng.integers(4, size=200), rng.normal(size=200)].astype(float)
        level = np.array([0.0, 3.0, -1.0, 1.0])[z[:, 0].astype(int)]
        encoder = Encoder(None, {0: np.array(list("abcd"))})
        kernel = mh.Gaussian(1.0).on(1) * mh.Delta(0.6).on(0)
        left = Smoother(kernel, z, encoder).residuals((level + 0.1 * rng.normal(size=200))[:, None])
        assert left.std() < 0.15


class TestPieces:
    def test_product_forms(self):
        rng = np.random.default_rng(0)
        Phi, Psi, W = rng.normal(size=(50, 3)), rng.normal(size=(50, 4)), rng.normal(size=(5, 50))
        M = (Phi @ Phi.T) * (Psi @ Psi.T)
        values, trace, square = product_forms(W, Phi, Psi)
        assert_allclose(values, np.einsum("bi,ij,bj->b", W, M, W), rtol=1e-9)
        assert_allclose([trace, square], [np.trace(M), (M**2).sum()])

    def test_kci_is_the_hsic_of_the_features(self):
        rng = np.random.default_rng(0)
        Phi, Psi = rng.normal(size=(50, 3)), rng.normal(size=(50, 4))
        statistic, pvalue, null = kci(Phi, Psi, "bootstrap", 99, np.random.default_rng(1))
        assert_allclose(statistic, np.sum((Phi.T @ Psi) ** 2) / 50**2)
        draws = np.random.default_rng(1).standard_normal((99, 50))
        expected = np.array([np.sum((Phi.T @ (s[:, None] * Psi)) ** 2) for s in draws]) / 50**2
        assert_allclose(null, expected, rtol=1e-9)
        assert pvalue == (1 + np.sum(expected >= statistic)) / 100

    def test_gamma_has_the_moments_of_the_weighted_chi_squares(self):
        # [Z11, Prop. 5]: mean tr M and variance 2 tr M², over n².
        rng = np.random.default_rng(0)
        Phi, Psi = rng.normal(size=(50, 3)), rng.normal(size=(50, 4))
        M = (Phi @ Phi.T) * (Psi @ Psi.T) / 50**2
        statistic, pvalue, null = kci(Phi, Psi, "gamma", 0, rng)
        mean, variance = np.trace(M), 2 * np.sum(M**2)
        assert_allclose(pvalue, gamma.sf(statistic, mean**2 / variance, scale=variance / mean))
        assert_allclose(null.mean(), mean, rtol=0.01)

    def test_numeric(self):
        A = np.array([[0.0, 1.0, 5.0], [2.0, 3.0, 5.0], [1.0, 5.0, 5.0], [1.0, 7.0, 5.0]])
        F = numeric(A, Encoder(None, {0: np.array(list("abc"))}))
        assert F.shape == (4, 4)  # three values, one number; the constant goes
        assert_allclose(F.mean(axis=0), 0.0, atol=1e-14)
        assert_allclose(F.std(axis=0), 1.0)

    def test_interactions_are_of_the_stated_kernel(self):
        rng = np.random.default_rng(0)
        z = rng.normal(size=(40, 2)) * [1.0, 30.0]
        Phi = rng.normal(size=(40, 3))
        A = (z - z.mean(axis=0)) / z.std(axis=0)
        F = interactions(Phi, z, Encoder())
        assert_allclose(F @ F.T, (Phi @ Phi.T) * (1 + A @ A.T / 2), rtol=1e-9, atol=1e-12)

    def test_features_of_a_variable(self):
        x = np.random.default_rng(0).normal(size=(80, 1))
        Phi = variable_features(mh.Gaussian(1.0), x)
        H = np.eye(80) - 1 / 80
        assert_allclose(Phi @ Phi.T, H @ mh.Gaussian(1.0)(x) @ H, atol=0.02)


@pytest.mark.parametrize(("method", "null"), EVERY)
class TestDecisions:
    @pytest.mark.parametrize("d", [1, 3])
    def test_a_common_cause_explains_the_dependence(self, method, null, d):
        x, y, z = chain(d=d)
        assert mh.independence_test(x, y, permutations=99, random_state=0).pvalue <= 0.02
        assert mh.conditional_independence_test(x, y, z, method=method, null=null, **FEW).pvalue > 0.05

    @pytest.mark.parametrize("d", [1, 3])
    def test_a_direct_effect_remains(self, method, null, d):
        x, y, z = chain(d=d)
        y = y + 0.8 * x
        assert mh.conditional_independence_test(x, y, z, method=method, null=null, **FEW).pvalue <= 0.01

    def test_a_common_effect_makes_dependence(self, method, null):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(2, 300))
        z = x + y + 0.3 * rng.normal(size=300)
        assert mh.independence_test(x, y, permutations=99, random_state=0).pvalue > 0.05
        assert mh.conditional_independence_test(x, y, z, method=method, null=null, **FEW).pvalue <= 0.01

    def test_same_seed_same_answer(self, method, null):
        x, y, z = chain(80)
        a, b = (mh.conditional_independence_test(x, y, z, method=method, null=null, **FEW) for _ in range(2))
        assert (a.pvalue, a.statistic) == (b.pvalue, b.statistic)
        assert_array_equal(a.null, b.null)

    def test_results_say_what_was_found(self, method, null):
        x, y, z = chain(150)
        found = mh.conditional_independence_test(x, y + 2 * x, z, method=method, null=null, **FEW)
        assert "depend on each other given z (150 rows" in found.summary
        assert found.test == method
        assert 0.1 < found.effect_size <= 1
        assert [r.shape for r in found.residuals] == [(150, 1), (150, 1)]
        none = mh.conditional_independence_test(x, y, z, method=method, null=null, **FEW)
        assert "show no dependence given z" in none.summary
        assert none.effect_size < 0.1
        assert "depend on each other given z (" in replace(none, pvalue=0.05).summary
        assert "show no dependence given z" in replace(none, pvalue=0.051).summary


class TestTables:
    def test_frames_series_and_arrays_agree(self):
        x, y, z = chain(100, d=2)
        expected = mh.conditional_independence_test(x, y, z, **FEW).pvalue
        for vector, table in (
            (pd.Series, pd.DataFrame),
            (pl.Series, lambda A: pl.DataFrame(A, schema=["a", "b"])),
            (list, lambda A: A.tolist()),
        ):
            found = mh.conditional_independence_test(vector(x), vector(y), table(z), **FEW)
            assert found.pvalue == expected

    @pytest.mark.parametrize(("method", "null"), EVERY)
    def test_a_category_explains_the_dependence(self, method, null):
        rng = np.random.default_rng(0)
        c = rng.choice(["p", "q", "r"], 200)
        level = pd.Series(c).map({"p": 0.0, "q": 4.0, "r": -3.0}).to_numpy()
        x, y = level + rng.normal(size=200), -level + rng.normal(size=200)
        z = pd.DataFrame({"c": c})
        test = mh.conditional_independence_test
        assert mh.independence_test(x, y, permutations=99, random_state=0).pvalue <= 0.02
        assert test(x, y, z, method=method, null=null, **FEW).pvalue > 0.05
        assert test(x, y + x, z, method=method, null=null, **FEW).pvalue <= 0.01
        # and as x, with a number given
        rest = pd.DataFrame({"t": level})
        assert test(z, y, rest, method=method, null=null, **FEW).pvalue > 0.05

    def test_constant_column_of_z(self):
        x, y, z = chain(100)
        a = mh.conditional_independence_test(x, y, np.c_[z, np.ones(100)], **FEW)
        assert a.pvalue > 0.05


X, Y, Z = chain(40)


class TestBadInput:
    @pytest.mark.parametrize(
        ("data", "error", "message"),
        [
            ((X, Y, Z[:-1]), ValueError, r"x has 40 rows but z has 39"),
            ((X, Y[:-1], Z), ValueError, r"x has 40 rows but y has 39"),
            ((X[:9], Y[:9], Z[:9]), ValueError, r"x has 9 samples.*at least 10"),
            ((X, Y, np.where(Z > 1, np.nan, Z)), ValueError, r"z contains NaN.*Drop or impute"),
            ((np.ones(40), Y, Z), ValueError, r"every row of x is the same"),
            ((X, np.ones(40), Z), ValueError, r"every row of y is the same"),
            ((X, Y, np.ones(40)), ValueError, r"every row of z is the same"),
            ((X, Y, Z[None]), ValueError, r"z must be 2-dimensional"),
        ],
        ids=range(8),
    )
    def test_data(self, data, error, message):
        with pytest.raises(error, match="(?s)" + message):
            mh.conditional_independence_test(*data, missing="refuse", **FEW)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (
                {"method": "kcit"},
                ValueError,
                r"method must be one of 'kci', 'residual', 'stacked', got 'kcit'",
            ),
            ({"null": "wild"}, ValueError, r"null must be one of 'bootstrap', 'gamma', got 'wild'"),
            ({"permutations": 5}, ValueError, r"permutations must be at least 19, got 5"),
            ({"kernel_x": "gauss"}, (TypeError, ValueError), r"kernel_x must be.*got 'gauss'"),
            ({"kernel_z": 4}, (TypeError, ValueError), r"kernel_z must be a kernel.*got 4"),
        ],
        ids=range(5),
    )
    def test_arguments(self, arguments, error, message):
        with pytest.raises(error, match=message):
            mh.conditional_independence_test(X, Y, Z, **arguments)


def test_strength_is_one_for_the_same_and_zero_for_a_permutation_on_average():
    rng = np.random.default_rng(0)
    Phi, Psi = (F - F.mean(axis=0) for F in (rng.standard_normal((12, 3)), rng.standard_normal((12, 2))))
    assert _strength(Phi, 2.0 * Phi) == pytest.approx(1.0)
    Psi[:, 0] += 2 * Phi[:, 0]
    by_chance = np.mean([((Phi.T @ Psi[rng.permutation(12)]) ** 2).sum() for _ in range(20_000)])
    top = np.linalg.norm(Phi @ Phi.T) * np.linalg.norm(Psi @ Psi.T)
    expected = (((Phi.T @ Psi) ** 2).sum() - by_chance) / (top - by_chance)
    assert _strength(Phi, Psi) == pytest.approx(expected, rel=0.02)
