"""The kernels that a test tries by default: their scales."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist

from muhat.kernels.ranked import Ranked
from muhat.testing.bank import dependence_bank, detail, distance_scales, is_moment, two_sample_bank
from muhat.testing.samples import as_sample


@pytest.fixture
def clusters():
    rng = np.random.default_rng(0)
    return rng.choice([-3.0, 0.0, 4.0], (60, 1)) + 0.2 * rng.standard_normal((60, 2))


def leave_one_out(A, h):
    """Mean log density of each row under Gaussians of width h at the others, up to a constant."""
    out = []
    for i, row in enumerate(A):
        squares = ((np.delete(A, i, axis=0) - row) ** 2).sum(axis=1)
        out.append(np.log(np.exp(-squares / (2 * h**2)).sum()) - A.shape[1] * np.log(h))
    return np.mean(out)


def test_the_scale_of_detail_has_the_greatest_leave_one_out_likelihood(clusters):
    found = detail(clusters)
    widths = np.median(pdist(clusters)) * np.geomspace(0.02, 1.0, 25)
    assert_allclose(found, widths[np.argmax([leave_one_out(clusters, h) for h in widths])])


def test_the_scale_of_detail_has_the_units_of_the_rows(clusters):
    assert_allclose(detail(1e-3 * clusters), 1e-3 * detail(clusters))


def test_rows_that_coincide_are_no_neighbours():
    A = np.repeat(np.random.default_rng(0).standard_normal((20, 2)), 2, axis=0)
    assert detail(A) > 0.1


def test_kernels_of_dependence_have_the_median_a_half_and_a_quarter_of_it():
    encoder, Z = as_sample(np.random.default_rng(0).standard_normal((50, 2)) * [1.0, 100.0], "x", 2)
    kernels, weights = dependence_bank(Z, encoder, np.random.default_rng(0))
    sd = Z.std(axis=0)
    median = np.median(pdist(Z / sd))
    for kernel, share in zip(kernels[:3], (1.0, 0.5, 0.25), strict=True):
        assert_allclose(kernel.lengthscale, share * median * sd)
    assert_allclose(weights, [0.4, 0.2, 0.2, 0.2])


def test_kernels_of_difference_begin_at_the_scale_of_detail(clusters):
    encoder, Z = as_sample(clusters * [1.0, 100.0], "x", 2)
    kernels, _ = two_sample_bank(Z, encoder, np.random.default_rng(0))
    sd = Z.std(axis=0)
    fine = detail(Z / sd)
    assert_allclose([kernel.lengthscale for kernel in kernels[:2]], [fine * sd, np.sqrt(2) * fine * sd])


def members(rows):
    encoder, Z = as_sample(rows, "x", 2)
    return two_sample_bank(Z, encoder, np.random.default_rng(0))


def test_kernels_of_ranks_are_the_same_for_any_monotone_transformation(clusters):
    moved = np.column_stack([np.exp(clusters[:, 0]), clusters[:, 1] ** 3])
    first, second = ([k for k in members(rows)[0] if isinstance(k, Ranked)] for rows in (clusters, moved))
    assert len(first) == len(second) == 3
    for a, b, rows in zip(first, second, (clusters,) * 3, strict=True):
        assert_allclose(a(rows), b(moved), rtol=1e-12)


def test_weights_are_shares(clusters):
    kernels, weights = members(clusters)
    assert len(kernels) == len(weights)
    assert weights.sum() == pytest.approx(1)


def test_moments_say_how_but_not_where(clusters):
    kernels = members(clusters)[0]
    assert [is_moment(k) for k in kernels] == [False] * 5 + [True] * 3 + [False]


def test_one_column_has_no_margins(clusters):
    assert len(members(clusters[:, :1])[0]) == len(members(clusters)[0]) - 1


def test_scales_where_all_rows_coincide():
    assert distance_scales(np.ones((5, 2))) == (1.0, 1.0, 1.0)
