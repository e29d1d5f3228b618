"""The conditional mean operator as pure functions of Grams."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.gram import BlockedGram, DenseGram, Factored, LowRankGram
from muhat.operators import Groups, conditional_ridge, group_rows
from muhat.operators.conditional import conditional_weights, leave_one_out

KERNEL = mh.Laplace(1.2)


def rows(n, d=2, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def repeated(sizes=(1, 4, 2, 1, 7, 3), d=2, seed=0):
    """Rows that fall into groups of unequal size, in mixed order."""
    X = np.repeat(rows(len(sizes), d, seed), sizes, axis=0)
    return X[np.random.default_rng(seed + 1).permutation(len(X))]


def dense_weights(X, x, reg, kernel=KERNEL):
    n = len(X)
    return np.linalg.solve(kernel(X) + n * reg * np.eye(n), kernel(X, x)).T


def refit_residuals(K, F, reg):
    """F[i] − f̂⁽⁻ⁱ⁾(xᵢ) by n refits that keep c = nλ."""
    n = len(K)
    out = np.empty_like(F)
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        alpha = np.linalg.solve(K[np.ix_(rest, rest)] + n * reg * np.eye(n - 1), F[rest])
        out[i] = F[i] - K[i, rest] @ alpha
    return out


class TestGroups:
    def test_all_different_is_no_group(self):
        assert group_rows(rows(10)) is None
        assert group_rows(rows(1)) is None
        # The first column repeats, the rows do not.
        assert group_rows(np.array([[0.0, 1.0], [0.0, 2.0]])) is None

    def test_points_inverse_and_counts(self):
        X = repeated()
        groups = group_rows(X)
        assert_allclose(groups.points[groups.inverse], X, rtol=0)
        assert len(groups.points) == 6
        assert sorted(groups.counts.tolist()) == [1, 1, 2, 3, 4, 7]
        assert_allclose(groups.counts, [(p == X).all(axis=1).sum() for p in groups.points])

    @pytest.mark.parametrize("shape", [(), (3,)])
    def test_mean_within_groups(self, shape):
        X = repeated()
        groups, F = group_rows(X), np.random.default_rng(2).standard_normal((len(X), *shape))
        expected = [F[(p == X).all(axis=1)].mean(axis=0) for p in groups.points]
        assert_allclose(groups.mean(F), expected, rtol=1e-12)

    def test_spread_is_the_adjoint_of_the_mean(self):
        X = repeated()
        groups, F, W = group_rows(X), rows(len(X), 3, seed=2), rows(4, 6, seed=3)
        assert_allclose(groups.spread(W) @ F, W @ groups.mean(F), rtol=1e-12)
        factored = Factored(W[:, :2], rows(2, 6, seed=4))
        assert_allclose(
            groups.spread(factored).dense(), groups.spread(factored.dense()), rtol=1e-12, atol=1e-15
        )


class TestWeights:
    @pytest.mark.parametrize("reg", [1e-5, 1e-2, 1.0])
    def test_equal_the_dense_formula(self, reg):
        X, x = rows(30), rows(7, seed=2)
        ridge = conditional_ridge(DenseGram(KERNEL(X)), reg)
        assert_allclose(
            conditional_weights(ridge, KERNEL(X, x)), dense_weights(X, x, reg), rtol=1e-8, atol=1e-12
        )

    @pytest.mark.parametrize("reg", [1e-5, 1e-2, 1.0])
    @pytest.mark.parametrize("sizes", [(3, 3, 3), (1, 4, 2, 1, 7, 3), (1, 50)])
    def test_groups_change_nothing(self, reg, sizes):
        # S20, A.3.1 with diag(N/n_g): the printed form holds for equal sizes alone.
        X, x = repeated(sizes), rows(7, seed=2)
        groups = group_rows(X)
        ridge = conditional_ridge(DenseGram(KERNEL(groups.points)), reg, groups)
        grouped = conditional_weights(ridge, KERNEL(groups.points, x), groups)
        assert_allclose(grouped, dense_weights(X, x, reg), rtol=1e-10, atol=1e-10)

    def test_printed_form_of_grouping_is_off(self):
        X, x = repeated(), rows(7, seed=2)
        groups = group_rows(X)
        g = len(groups.points)
        printed = np.linalg.solve(KERNEL(groups.points) + g * 0.1 * np.eye(g), KERNEL(groups.points, x)).T
        assert np.abs(groups.spread(printed) - dense_weights(X, x, 0.1)).max() > 1e-2

    def test_low_rank_stays_factored(self):
        X, x = rows(30), rows(7, seed=2)
        kernel = mh.Nystrom(9).fit(KERNEL, X, 0)
        gram = LowRankGram(kernel.features(X), kernel, X)
        weights = conditional_weights(conditional_ridge(gram, 0.01), gram.cross(x))
        assert isinstance(weights, Factored)
        assert_allclose(weights.dense(), dense_weights(X, x, 0.01, kernel), rtol=1e-7, atol=1e-10)

    def test_low_rank_groups(self):
        X, x = repeated(), rows(7, seed=2)
        groups = group_rows(X)
        kernel = mh.Nystrom(4).fit(KERNEL, groups.points, 0)
        gram = LowRankGram(kernel.features(groups.points), kernel, groups.points)
        weights = conditional_weights(conditional_ridge(gram, 0.01, groups), gram.cross(x), groups)
        assert_allclose(weights.dense(), dense_weights(X, x, 0.01, kernel), rtol=1e-7, atol=1e-10)

    def test_blocked(self):
        X, x = rows(300), rows(7, seed=2)
        gram = BlockedGram(KERNEL, X, rank=50, tolerance=1e-12)
        weights = conditional_weights(conditional_ridge(gram, 0.01), gram.cross(x))
        assert_allclose(weights, dense_weights(X, x, 0.01), rtol=1e-6, atol=1e-9)

    def test_linear_in_the_embedding_of_x(self):
        X, Z, w = rows(30), rows(5, seed=2), np.array([0.5, -0.2, 0.3, 0.1, 1.0])
        ridge = conditional_ridge(DenseGram(KERNEL(X)), 0.01)
        mean = conditional_weights(ridge, (KERNEL(X, Z) @ w)[:, None])
        assert_allclose(mean[0], w @ conditional_weights(ridge, KERNEL(X, Z)), rtol=1e-9, atol=1e-12)


class TestLeaveOneOut:
    @pytest.mark.parametrize("reg", [1e-6, 1e-2, 1.0])
    @pytest.mark.parametrize("columns", [None, 1, 4])
    def test_equals_refits(self, reg, columns):
        X = rows(20)
        F = rows(20, columns or 1, seed=2)
        F = F[:, 0] if columns is None else F
        K = KERNEL(X)
        ridge = conditional_ridge(DenseGram(K), reg)
        assert_allclose(leave_one_out(ridge, F), refit_residuals(K, F, reg), rtol=1e-8, atol=1e-10)

    @pytest.mark.parametrize("reg", [1e-6, 1e-2, 1.0])
    @pytest.mark.parametrize("columns", [None, 1, 4])
    def test_grouped_equals_refits(self, reg, columns):
        X = repeated()
        F = rows(len(X), columns or 1, seed=2)
        F = F[:, 0] if columns is None else F
        groups = group_rows(X)
        ridge = conditional_ridge(DenseGram(KERNEL(groups.points)), reg, groups)
        expected = refit_residuals(KERNEL(X), F, reg)
        assert_allclose(leave_one_out(ridge, F, groups), expected, rtol=1e-8, atol=1e-10)

    def test_low_rank_equals_refits(self):
        X, F = rows(25), rows(25, 2, seed=2)
        kernel = mh.Nystrom(9).fit(KERNEL, X, 0)
        ridge = conditional_ridge(LowRankGram(kernel.features(X), kernel, X), 0.01)
        assert_allclose(leave_one_out(ridge, F), refit_residuals(kernel(X), F, 0.01), rtol=1e-7, atol=1e-9)

    def test_low_rank_grouped_equals_refits(self):
        X = repeated()
        F, groups = rows(len(X), 2, seed=2), group_rows(X)
        kernel = mh.Nystrom(4).fit(KERNEL, groups.points, 0)
        gram = LowRankGram(kernel.features(groups.points), kernel, groups.points)
        ridge = conditional_ridge(gram, 0.01, groups)
        expected = refit_residuals(kernel(X), F, 0.01)
        assert_allclose(leave_one_out(ridge, F, groups), expected, rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("grouped", [False, True])
    def test_rkhs_norms_from_a_factor_of_the_output_gram(self, grouped):
        X = repeated() if grouped else rows(18)
        n, reg, output = len(X), 0.01, mh.Matern(1.5, 0.7)
        Y = rows(n, 1, seed=3)
        K, L = KERNEL(X), output(Y)
        expected = np.empty(n)
        for i in range(n):
            rest = np.delete(np.arange(n), i)
            w = np.linalg.solve(K[np.ix_(rest, rest)] + n * reg * np.eye(n - 1), K[rest, i])
            expected[i] = L[i, i] - 2 * w @ L[rest, i] + w @ L[np.ix_(rest, rest)] @ w
        groups = group_rows(X)
        assert (groups is not None) == grouped
        inputs = groups.points if grouped else X
        ridge = conditional_ridge(DenseGram(KERNEL(inputs)), reg, groups)
        residuals = leave_one_out(ridge, np.linalg.cholesky(L), groups)
        assert_allclose((residuals**2).sum(axis=1), expected, rtol=1e-8)

    def test_groups_are_optional(self):
        groups = Groups(rows(5), np.arange(5), np.ones(5, dtype=int))
        F = rows(5, 2, seed=2)
        plain = leave_one_out(conditional_ridge(DenseGram(KERNEL(rows(5))), 0.1), F)
        trivial = leave_one_out(conditional_ridge(DenseGram(KERNEL(rows(5))), 0.1, groups), F, groups)
        assert_allclose(trivial, plain, rtol=1e-9)


def test_regulariser_must_be_positive():
    with pytest.raises(ValueError, match="raise the regulariser"):
        conditional_ridge(DenseGram(KERNEL(rows(5))), 0.0)
