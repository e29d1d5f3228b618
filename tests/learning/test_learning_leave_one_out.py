"""Closed-form leave-one-out and what is chosen by it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.learning import choose_conditional, leave_one_out, leave_one_out_path
from muhat.learning.leave_one_out import MULTIPLES, REGULARISERS, stretch
from muhat.operators import group_rows

KERNEL, OUTPUT = mh.Laplace(1.2), mh.Matern(1.5, 0.7)


def rows(n, d=2, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def repeated(sizes=(1, 4, 2, 1, 7, 3), d=2, seed=0):
    X = np.repeat(rows(len(sizes), d, seed), sizes, axis=0)
    return X[np.random.default_rng(seed + 1).permutation(len(X))]


def refit_loss(K, L, reg):
    """(1/n) Σ ‖ψ(yᵢ) − μ̂⁽⁻ⁱ⁾(xᵢ)‖² by n refits that keep c = nλ."""
    n = len(K)
    total = 0.0
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        w = np.linalg.solve(K[np.ix_(rest, rest)] + n * reg * np.eye(n - 1), K[rest, i])
        total += L[i, i] - 2 * w @ L[rest, i] + w @ L[np.ix_(rest, rest)] @ w
    return total / n


REGS = np.array([1e-6, 1e-3, 0.1, 2.0])


class TestPath:
    @pytest.mark.parametrize("make", [lambda: rows(20), repeated, lambda: repeated((3, 3, 3, 3))])
    def test_rkhs_loss_equals_refits(self, make):
        X = make()
        Y, groups = rows(len(X), 1, seed=3), group_rows(X)
        inputs = X if groups is None else groups.points
        path = leave_one_out_path(
            np.linalg.cholesky(KERNEL(inputs)), np.linalg.cholesky(OUTPUT(Y)), REGS, groups
        )
        expected = [refit_loss(KERNEL(X), OUTPUT(Y), reg) for reg in REGS]
        assert_allclose(path, expected, rtol=1e-7)

    def test_grouped_equals_ungrouped(self):
        X = repeated()
        F, groups = rows(len(X), 4, seed=3), group_rows(X)
        features = mh.Nystrom(4).fit(KERNEL, groups.points, 0).features
        grouped = leave_one_out_path(features(groups.points), F, REGS, groups)
        assert_allclose(grouped, leave_one_out_path(features(X), F, REGS), rtol=1e-10)

    def test_several_columns_add_up(self):
        X, F = rows(20), rows(20, 3, seed=3)
        Phi = np.linalg.cholesky(KERNEL(X))
        each = sum(leave_one_out_path(Phi, F[:, [j]], REGS) for j in range(3))
        assert_allclose(leave_one_out_path(Phi, F, REGS), each, rtol=1e-9)

    def test_agrees_with_the_residuals_of_the_operator(self):
        from muhat.gram import LowRankGram
        from muhat.operators.conditional import conditional_ridge, leave_one_out

        X, F = rows(20), rows(20, 3, seed=3)
        Phi = mh.Nystrom(6).fit(KERNEL, X, 0).features(X)
        residuals = [leave_one_out(conditional_ridge(LowRankGram(Phi), reg), F) for reg in REGS]
        expected = [(r**2).sum(axis=1).mean() for r in residuals]
        assert_allclose(leave_one_out_path(Phi, F, REGS), expected, rtol=1e-7)

    def test_more_features_than_rows(self):
        X, F = rows(10), rows(10, 1, seed=3)
        Phi = np.hstack([np.linalg.cholesky(KERNEL(X)), np.zeros((10, 30))])
        assert_allclose(leave_one_out_path(Phi, F, REGS), leave_one_out_path(Phi[:, :10], F, REGS), rtol=1e-9)


def choose(X, Y, kernel_x=KERNEL, kernel_y=OUTPUT, reg=None, tune=False, seed=0):
    return choose_conditional(X, Y, kernel_x, kernel_y, reg, tune, np.random.default_rng(seed))


class TestChoice:
    @pytest.mark.parametrize("make", [lambda: rows(25), repeated])
    def test_regulariser_is_the_best_of_the_grid_by_refits(self, make):
        X = make()
        Y = np.sin(2 * X[:, :1]) + 0.3 * rows(len(X), 1, seed=3)
        chosen = choose(X, Y)
        losses = [refit_loss(KERNEL(X), OUTPUT(Y), reg) for reg in REGULARISERS]
        assert_allclose(chosen.reg, REGULARISERS[np.argmin(losses)])
        assert_allclose(chosen.score, min(losses), rtol=1e-6)
        assert chosen.kernel == KERNEL
        assert chosen.path.shape == (len(REGULARISERS), 3)
        assert_allclose(chosen.path[:, 1], REGULARISERS)
        assert_allclose(chosen.path[:, 2], losses, rtol=1e-4)

    def test_lengthscale_and_regulariser_are_the_best_pair(self):
        X = rows(25, 1)
        Y = np.sin(4 * X) + 0.1 * rows(25, 1, seed=3)
        base = mh.Gaussian(1.0)
        chosen = choose(X, Y, base, tune=True)
        assert chosen.path.shape == (len(MULTIPLES) * len(REGULARISERS), 3)
        losses = {
            (m, reg): refit_loss(mh.Gaussian(m)(X), OUTPUT(Y), reg)
            for m in MULTIPLES
            for reg in REGULARISERS[4:]
        }
        best = min(losses, key=losses.get)
        assert_allclose([chosen.kernel.lengthscale, chosen.reg], best)
        assert_allclose(chosen.score, losses[best], rtol=1e-4)
        assert chosen.kernel.lengthscale < 1

    def test_given_regulariser_is_kept_while_the_lengthscale_is_tuned(self):
        X = rows(25, 1)
        chosen = choose(X, np.sin(4 * X), mh.Gaussian(1.0), reg=0.01, tune=True)
        assert chosen.reg == 0.01
        assert chosen.path.shape == (len(MULTIPLES), 3)

    def test_grid_is_in_units_of_the_kernel(self):
        X = rows(25)
        Y = np.sin(2 * X[:, :1]) + 0.3 * rows(25, 1, seed=3)
        plain, scaled = choose(X, Y), choose(X, Y, 100.0 * KERNEL)
        assert_allclose(scaled.reg, 100 * plain.reg, rtol=1e-9)
        assert_allclose(scaled.score, plain.score, rtol=1e-5)

    @pytest.mark.parametrize("rows_kept", ["landmarks", "subset"])
    def test_many_rows_are_approximated_near_the_exact_choice(self, monkeypatch, rows_kept):
        X = rows(400, 1)
        Y = np.sin(2 * X) + 0.3 * rows(400, 1, seed=3)
        exact = choose(X, Y, mh.Gaussian(0.5))
        if rows_kept == "landmarks":
            monkeypatch.setattr(leave_one_out, "EXACT_ROWS", 100)
            monkeypatch.setattr(leave_one_out, "LANDMARKS", 60)
        else:
            monkeypatch.setattr(leave_one_out, "ROWS", 200)
        near = choose(X, Y, mh.Gaussian(0.5))
        assert abs(np.log10(near.reg / exact.reg)) <= 1
        assert_allclose(near.score, exact.score, rtol=0.15)

    @pytest.mark.parametrize("value", [0.0, 1.0])
    def test_constant_output_and_linear_output_kernel(self, value):
        chosen = choose(rows(20), np.full((20, 1), value), kernel_y=mh.Linear())
        assert np.isfinite(chosen.score)


class TestStretch:
    def test_scales_stationary_parts_and_categories(self):
        kernel = mh.Gaussian([1.0, 2.0]).on([0, 1]) * mh.Delta(0.5).on(2)
        stretched = stretch(kernel, np.full(3, 3.0))
        assert stretched == mh.Gaussian([3.0, 6.0]).on([0, 1]) * mh.Delta(0.5 ** (1 / 9)).on(2)
        assert stretch(mh.Linear(), np.full(3, 3.0)) == mh.Linear()

    def test_multiples_go_to_their_columns(self):
        kernel = mh.Delta(0.5).on(0) * mh.Laplace([1.0, 2.0]).on([2, 1])
        stretched = stretch(kernel, np.array([0.5, 3.0, 4.0]))
        assert stretched == mh.Delta(0.5**4).on(0) * mh.Laplace([4.0, 6.0]).on([2, 1])

    def test_category_costs_what_a_number_would(self):
        """exp(−s²/2m²) of two codes 1 apart."""
        X = np.array([[0.0], [1.0]])
        for m in (0.5, 1.0, 3.0):
            numbers = stretch(mh.Gaussian(1.0), np.array([m]))(X)
            categories = stretch(mh.Delta(np.exp(-0.5)), np.array([m]))(X)
            assert_allclose(categories, numbers, rtol=1e-12)

    def test_no_category_becomes_all_the_same(self):
        assert stretch(mh.Delta(0.5), np.array([1e9])).rest < 1
        assert stretch(mh.Delta(0.0), np.array([3.0])) == mh.Delta(0.0)
