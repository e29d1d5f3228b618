"""Leave-one-out log density, its search, and outputs in units of their spread."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.embedding.density import tikhonov_coefficients
from muhat.embedding.reference import box_reference
from muhat.gram import Exact
from muhat.gram.lowrank import LowRankGram
from muhat.kernels.default import default_kernel
from muhat.learning import density as module
from muhat.learning import residuals
from muhat.learning.density import (
    BACKGROUNDS,
    DensityTask,
    Search,
    box_about,
    choose_density,
    default_output_kernel,
    grid_size,
    leave_one_out_density,
    on_grid,
)
from muhat.learning.residuals import Way, standardize


def wave(n=120, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    return X, np.sin(2 * X) + noise * rng.standard_normal((n, 1))


def task(X, Y, **other):
    given = {"reg_x": None, "reg_y": None, "background": None, "tune_x": True, "tune_y": True, **other}
    return DensityTask(X, Y, default_kernel(X), default_output_kernel(Y), **given)


@pytest.mark.parametrize("k", [1, 2])
def test_leave_one_out_is_a_fit_without_the_row(k):
    rng = np.random.default_rng(0)
    Phi, Y = rng.standard_normal((20, 4)), rng.standard_normal((20, k))
    Phi[:, 0] = 1.0  # a constant feature: the weights sum to one, and nothing is completed
    reference, kernel = (
        box_reference(np.full(k, -5.0), np.full(k, 5.0), np.ones(k), "grid", 16),
        mh.Gaussian(0.9),
    )
    reg_x, reg_y = 1e-5, 0.05
    found = leave_one_out_density(Phi, Y, kernel, reference, reg_x, reg_y)
    gram = reference.gram(kernel)
    for i in (0, 7, 19):
        rest = np.delete(np.arange(20), i)
        A = Phi[rest].T @ Phi[rest] + 20 * reg_x * np.eye(4)
        w = Phi[i] @ np.linalg.solve(A, Phi[rest].T)
        beta = tikhonov_coefficients(gram, reference.mass, kernel(reference.points, Y[rest]) @ w, reg_y)
        value = max(float(kernel(Y[[i]], reference.points)[0] @ beta), 0.0)
        total = np.maximum(gram @ beta, 0).sum() * reference.cell
        assert_allclose(found[i], value / total, rtol=2e-3, atol=1e-5)


def test_the_search_improves_and_keeps_what_is_given():
    X, Y = wave()
    search = Search(task(X, Y), np.random.default_rng(0))
    first = -search.loss(search.start[search.free])
    assert search.run(25) > first
    choice = search.choice()
    assert choice.score == pytest.approx(choice.score)
    assert choice.background >= 1 / len(Y)
    assert choice.background in np.maximum(BACKGROUNDS, 1 / len(Y))
    fixed = task(X, Y, tune_x=False, tune_y=False, reg_x=0.02, background=0.0)
    fixed = Search(fixed, np.random.default_rng(0))
    fixed.run(8)
    choice = fixed.choice()
    assert choice.kernel_x == default_kernel(X)
    assert choice.kernel_y == default_output_kernel(Y)
    assert (choice.reg_x, choice.background) == (0.02, 0.0)
    assert len(np.unique(np.array(fixed.path)[:, -2])) > 3  # α' alone moves


def test_the_output_kernel_is_no_finer_than_the_grid_of_the_search():
    X, Y = wave(60)
    search = Search(task(X, Y), np.random.default_rng(0))
    width = np.sqrt(search.at(search._clip(np.array([0.0, 0.0, -9.0, 0.0])))[1].variance(1))
    assert_allclose(width, 0.8 * search.reference.spacing, rtol=1e-9)


@pytest.mark.slow
def test_the_way_with_the_better_density_is_taken():
    X, Y = wave(150, noise=0.05)
    ways = [Way(None, Y, np.ones_like(Y))]
    ways += standardize(X, Y, None, default_kernel(X), True, Exact(), np.random.default_rng(0))[:1]
    tasks = [task(X, w.outputs) for w in ways]
    best, choice = choose_density(tasks, ways, 0)
    assert best is ways[1]  # y is all but a function of x
    # In one unit of y: better than the plain way.
    plain = choose_density(tasks[:1], ways[:1], 0)[1].score
    assert choice.score - np.log(best.scales).mean() > plain + 0.15


class TestStandard:
    def setup_method(self):
        rng = np.random.default_rng(0)
        self.X = rng.uniform(-2, 2, (400, 1))
        self.spread = np.where(self.X > 0, 0.5, 0.05)
        self.Y = 10 + 3 * np.sin(2 * self.X) + self.spread * rng.standard_normal((400, 1))
        self.ways = standardize(
            self.X, self.Y, None, default_kernel(self.X), True, Exact(), np.random.default_rng(0)
        )

    def test_location_is_the_regression_and_scale_follows_the_noise(self):
        location, both = (w.standard for w in self.ways)
        mean, spread = both.at(np.array([[-1.0], [1.0]]))
        assert_allclose(mean[:, 0], 10 + 3 * np.sin([-2.0, 2.0]), atol=0.25)
        assert 4 < spread[1, 0] / spread[0, 0] < 25  # truth: 10
        assert_allclose(location.at(self.X[:3])[0], both.at(self.X[:3])[0])

    def test_outputs_are_leave_one_out_residuals_over_scales(self):
        for way in self.ways:
            mean = self.Y - way.outputs * way.scales
            assert np.abs(mean - way.standard.at(self.X)[0]).max() > 1e-4  # not the residuals of the fit
            assert_allclose(mean, 10 + 3 * np.sin(2 * self.X), atol=0.6)
        left, right = (self.ways[1].outputs[side] for side in (self.X < -0.2, self.X > 0.2))
        assert 0.6 < left.std() / right.std() < 1.6  # even, where the residuals differ tenfold

    def test_far_from_the_data_it_is_the_marginal(self):
        for way in self.ways:
            mean, spread = way.standard.at(np.array([[1e4]]))
            assert_allclose(mean[0], self.Y.mean(axis=0), rtol=0.02)
            assert spread[0, 0] >= 0.99 * self.Y.std()

    def test_a_function_without_noise_has_no_residuals(self):
        X = np.linspace(0, 1, 30)[:, None]
        assert (
            standardize(
                X, np.zeros((30, 1)), None, default_kernel(X), True, Exact(), np.random.default_rng(0)
            )
            == []
        )


def test_the_span_of_a_few_inputs_stands_for_all_where_nothing_is_lost(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1200, 1))
    F = np.sin(3 * X) + 0.3 * rng.standard_normal((1200, 1))

    def found(kernel):
        chosen, left, share = residuals.regress(X, F, None, kernel, False, Exact(), np.random.default_rng(1))
        return chosen.gram, left, share

    gram, left, share = found(mh.Gaussian(0.5))
    assert isinstance(gram, LowRankGram)
    assert not isinstance(found(mh.Laplace(0.5))[0], LowRankGram)  # too rough for a few
    monkeypatch.setattr(residuals, "EXACT_ROWS", 10_000)
    dense, all_left, all_share = found(mh.Gaussian(0.5))
    assert not isinstance(dense, LowRankGram)
    assert_allclose(left, all_left, atol=1e-4)
    assert_allclose(share, all_share, atol=1e-4)


def test_boxes_and_grids():
    Y = np.array([[0.0], [1.0]])
    lower, upper = box_about(Y, np.array([0.1]))
    assert_allclose([lower[0], upper[0]], [-2.4, 3.4])
    assert grid_size(lower, upper, np.array([0.1])) == 512
    assert grid_size(lower, upper, np.array([0.002])) == 3625
    assert grid_size(np.zeros(5), np.ones(5), np.ones(5)) is None
    reference = box_reference(np.zeros(1), np.ones(1), np.ones(1), "grid", 10)
    with pytest.raises(
        ValueError, match=r"too coarse for kernel_y: its points are 0\.1 apart.*size=67 or more"
    ):
        on_grid(mh.Gaussian(0.01), False, reference, Y)
    assert on_grid(mh.Gaussian(0.01), True, reference, Y).lengthscale == pytest.approx(0.1 / module.COARSE)
    assert on_grid(mh.Gaussian(0.2), False, reference, Y) == mh.Gaussian(0.2)
