"""Stacked regressions: each learner finds what it is there for, and the stack is not far from the best."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

from muhat.learning import stacked as s
from muhat.learning.metric import gradient_metric
from muhat.learning.pursuit import scan

N = 200


def inputs(d, n=N, seed=0):
    rng = np.random.default_rng([seed, d])
    return s.Inputs.of(rng.standard_normal((n, d)), rng)


def held_out_error(learner, given, f):
    told = np.empty((len(f), 1))
    for split in given.splits:
        told[split.asked] = learner(given, split, f[split.train, None])
    return np.mean((told[:, 0] - f) ** 2) / f.var()


class TestLearners:
    def test_metric_finds_one_direction_of_ten_where_a_gaussian_does_not(self):
        given = inputs(10, 400)
        f = np.sin(2 * given.Z.sum(axis=1) / np.sqrt(10)) + given.Z.sum(axis=1) / np.sqrt(10)
        assert held_out_error(s.metric, given, f) < 0.5 * held_out_error(s.gaussian, given, f)

    def test_index_finds_a_function_of_a_sum(self):
        given = inputs(10, 400)
        f = np.exp(given.Z.sum(axis=1) / np.sqrt(10))
        assert held_out_error(s.index, given, f) < 0.5 * held_out_error(s.linear, given, f)

    def test_sum_over_columns(self):
        given = inputs(5)
        f = np.sin(2 * given.Z).sum(axis=1)
        assert held_out_error(s.additive, given, f) < 0.5 * held_out_error(s.gaussian, given, f)

    def test_trees_find_steps(self):
        given = inputs(3)
        f = np.floor(2 * given.Z[:, 0]) + 2 * (given.Z[:, 2] > 0)
        assert held_out_error(s.trees, given, f) < 0.7 * held_out_error(s.gaussian, given, f)

    def test_pursuit_follows_an_index_that_ridge_regression_cannot_see(self):
        given = inputs(10, 300)
        u = given.Z @ np.r_[1.0, -1.0, np.zeros(8)] / np.sqrt(2)
        assert held_out_error(s.pursuit, given, np.sin(2 * u)) < 0.2
        assert held_out_error(s.pursuit, given, np.sin(2 * u)) < 0.5 * held_out_error(
            s.metric, given, np.sin(2 * u)
        )

    def test_pursuit_follows_a_function_that_oscillates(self):
        """No slope leads to it, and no gradient; neighbours along its direction are alike."""
        given = inputs(3, 300)
        u = given.Z @ np.array([2.0, -1.0, 1.0]) / np.sqrt(6)
        f = np.sin(5 * u)
        assert held_out_error(s.pursuit, given, f) < 0.2 < 0.5 * held_out_error(s.gaussian, given, f)

    def test_fine_follows_a_rough_function_of_one_column(self):
        given = inputs(1, 400)
        f = np.sin(12 * given.Z[:, 0])
        assert held_out_error(s.fine, given, f) < 0.1 < held_out_error(s.gaussian, given, f)

    def test_one_tree_finds_its_leaves(self):
        given = inputs(3, 400)
        f = 2.0 * (given.Z[:, 0] > 0) + (given.Z[:, 1] > 0.5)
        noise = 0.1 * np.random.default_rng(1).standard_normal(400)
        assert held_out_error(s.tree, given, f + noise) < 0.05
        told = s.tree(given, given.whole, noise[:, None])
        assert len(np.unique(told)) == 1  # noise has no steps

    def test_finest_follows_what_is_rougher_still(self):
        given = inputs(1, 600)
        f = np.sin(40 * given.Z[:, 0])
        assert held_out_error(s.finest, given, f) < 0.5 * held_out_error(s.fine, given, f)

    def test_of_one_column_there_are_fewer(self):
        assert s.learners_for(inputs(1), True) == (s.linear, s.gaussian, s.fine, s.finest, s.trees, s.tree)
        assert s.learners_for(inputs(2), True) == s.EVERY
        assert s.learners_for(inputs(2), False) == s.SHARED


def test_gradient_metric_points_along_the_direction():
    given = inputs(6)
    u = given.Z @ np.array([1, 1, 0, 0, 0, 0]) / np.sqrt(2)
    root = gradient_metric(given.Z, np.sin(2 * u), given.Z[:100])
    M = root @ root.T
    along = np.linalg.eigh(M)[1][:, -1]
    assert abs(along @ np.array([1, 1, 0, 0, 0, 0]) / np.sqrt(2)) > 0.95
    # Nothing to learn: the metric stays round.
    assert_allclose(gradient_metric(given.Z, np.zeros(N), given.Z[:100]), np.eye(6))


@pytest.mark.slow
class TestStack:
    def test_is_near_the_best_of_its_learners(self):
        given, rng = inputs(3), np.random.default_rng(1)
        f = given.Z[:, 0] + 0.3 * rng.standard_normal(N)
        said = s.stack(given, f[:, None], s.EVERY)
        best = min(held_out_error(learner, given, f) for learner in s.EVERY)
        assert np.mean((said.held_out[:, 0] - f) ** 2) / f.var() < 1.1 * best

    def test_noise_is_left_alone(self):
        given = inputs(3)
        f = np.random.default_rng(2).standard_normal((N, 1))
        said = s.stack(given, f, s.EVERY)
        assert np.mean((f - said.fitted) ** 2) > 0.6 * f.var()
        assert np.mean((f - said.held_out) ** 2) < 1.05 * f.var()

    def test_where_there_are_steps_trees_follow_every_one(self):
        given, rng = inputs(3, 300), np.random.default_rng(3)
        f = np.floor(2 * given.Z[:, 0]) + 0.1 * rng.standard_normal(300)
        said = s.stack(given, f[:, None], s.EVERY)
        assert np.mean((f - said.fitted[:, 0]) ** 2) < 0.02 < np.mean((f - said.held_out[:, 0]) ** 2)

    def test_factors_are_made_once(self):
        given = inputs(2)
        first = s.gaussian(given, given.splits[0], given.Z[given.splits[0].train])
        made = dict(given._ridges)
        again = s.gaussian(given, given.splits[0], given.Z[given.splits[0].train, :1])
        assert given._ridges == made
        assert_allclose(again[:, 0], first[:, 0])

    def test_a_regressor_of_the_users_own(self):
        given = inputs(2)
        f = given.Z @ np.array([[1.0], [2.0]])
        said = s.stack(given, f, (s.of_regressor(LinearRegression()),))
        assert_allclose(said.fitted, f, atol=1e-6)
        assert_allclose(said.held_out, f, atol=1e-6)


def test_a_scan_ends_at_the_direction_itself():
    given, direction = inputs(3, 400), np.array([2.0, -1.0, 1.0]) / np.sqrt(6)
    found = scan(given.Z, np.sin(4 * given.Z @ direction), np.random.default_rng(0))
    assert abs(found @ direction) / np.linalg.norm(found) > 0.998
