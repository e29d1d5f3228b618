"""Many kernels in one statistic: the same map for every column, on the scale of p-values."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from muhat.testing.aggregate import fuse, normal_scores

WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])


def draws(kernels=4, columns=200, seed=0):
    rng = np.random.default_rng(seed)
    return rng.gamma(np.arange(1, kernels + 1)[:, None], size=(kernels, columns))


def test_scores_move_with_the_columns():
    """What makes the level exact: which column was observed does not matter."""
    values, order = draws(), np.random.default_rng(1).permutation(200)
    assert_allclose(normal_scores(values)[:, order], normal_scores(values[:, order]), rtol=1e-9, atol=1e-11)
    scores = normal_scores(values)
    assert_allclose(fuse(scores, WEIGHTS)[order], fuse(scores[:, order], WEIGHTS), rtol=1e-12)


def test_scores_have_no_units():
    values = draws()
    assert_allclose(normal_scores(1e-6 * values + 3e-6), normal_scores(values), rtol=1e-6, atol=1e-7)


def test_scores_keep_the_order_within_a_kernel():
    for values, scores in zip(draws(), normal_scores(draws()), strict=True):
        order = np.argsort(values)
        assert (np.diff(scores[order]) >= 0).all()
        assert (np.diff(scores[order[50:]]) > 0).all()  # the lowest may be levelled, the rest not


@pytest.mark.parametrize("shape", [0.6, 1.0, 4.0, 100.0])
def test_scores_of_a_gamma_variable_are_normal(shape):
    values = np.random.default_rng(2).gamma(shape, size=(1, 100_000))
    scores = normal_scores(values)[0]
    levels = np.array([0.5, 0.8, 0.95, 0.99, 0.999])
    assert_allclose(np.quantile(scores, levels), norm.ppf(levels), atol=0.2)


def test_the_observed_value_sets_the_scale_like_the_others():
    values = draws()
    swapped = values[:, ::-1]
    assert_allclose(normal_scores(swapped)[:, ::-1], normal_scores(values), rtol=1e-9)
    far = values.copy()
    far[:, 0] += 1e6
    assert not np.allclose(normal_scores(far)[:, 1:], normal_scores(values)[:, 1:])


def test_a_kernel_that_does_not_vary_scores_nothing():
    values = np.vstack([draws(2), np.full((1, 200), 7.3), np.zeros((1, 200))])
    scores = normal_scores(values)
    assert_array_equal(scores[2:], 0.0)
    assert (scores[:2] != 0).any()


def test_fusion_is_the_harmonic_mean_of_pvalues():
    scores = normal_scores(draws())
    assert_allclose(fuse(scores, WEIGHTS), np.log(WEIGHTS @ (1 / norm.sf(scores))), rtol=1e-9)


def test_fusion_grows_with_every_score_and_stays_finite():
    scores = np.array([[1.0, 1.0, 40.0, -40.0], [0.0, 0.5, 1.0, -40.0]])
    fused = fuse(scores, np.array([0.5, 0.5]))
    assert np.isfinite(fused).all()
    assert fused[2] > fused[1] > fused[0] > fused[3]
    assert_allclose(fused[2], -norm.logsf(40.0) - np.log(2), rtol=1e-9)


def test_fusion_of_one_is_its_order():
    scores = normal_scores(draws(1))
    assert_array_equal(np.argsort(fuse(scores, np.ones(1))), np.argsort(scores[0]))
