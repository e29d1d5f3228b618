"""Place and scales of shape, weighed by marginal likelihood."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import muhat as mh
from muhat.gram.octaves import octave_kernel
from muhat.kernels.on_distributions import squared_mmd
from muhat.learning.bag_scales import OCTAVES, Scales, choose_weights, gram_of, held_out_scores

UNIT = mh.Cauchy(1.0)


def data(n=60, size=30, seed=0):
    rng = np.random.default_rng(seed)
    m, s = rng.standard_normal(n), np.exp(rng.uniform(-0.7, 0.7, n))
    return mh.Bags([a + b * rng.standard_normal((size, 1)) for a, b in zip(m, s, strict=True)]), m, np.log(s)


def standard(y):
    return ((y - y.mean()) / y.std())[:, None]


def test_the_kernel_has_the_weighted_distances():
    bags, *_ = data(8)
    scales = Scales.of(bags)
    D = scales.distances(bags, None)
    weights = np.array([0.3, 0, 1.0, 0, 0.2, 0, 0.0])
    kernel = scales.kernel(UNIT, weights)
    assert_allclose(kernel(bags), gram_of(D, weights, UNIT), atol=1e-10)
    assert_allclose(kernel.mmd(bags) ** 2, np.tensordot(weights, D, 1), atol=1e-10)
    # No weight on the place: bags may be moved.
    moved = mh.Bags([b + 10 * i for i, b in enumerate(bags.parts)])
    shape = scales.kernel(UNIT, np.array([0, 0, 1.0, 0, 0, 0, 0]))
    assert_allclose(shape(moved), shape(bags), atol=1e-9)
    assert np.abs(kernel(moved) - kernel(bags)).max() > 0.1


def test_distances_of_features_come_to_the_exact_ones():
    bags, *_ = data(6)
    scales = Scales.of(bags)
    first = octave_kernel(scales.longest, np.ones(OCTAVES), 30_000, np.random.default_rng(0))
    assert_allclose(scales.distances(bags, first), scales.distances(bags, None), atol=0.02)


@pytest.mark.parametrize("which", ["place", "shape"])
def test_what_counts_is_found_and_is_the_best(which):
    bags, m, log_s = data()
    Y = standard(np.sin(3 * m) if which == "place" else log_s)
    D = Scales.of(bags).distances(bags, None)
    found = choose_weights(D, Y, UNIT)
    relevance = found.weights * np.median(D, axis=(1, 2))
    share = relevance[0] / relevance.sum()
    assert share > 0.9 if which == "place" else share < 0.25

    def likelihood(w, a, s):
        return multivariate_normal(cov=a * gram_of(D, w, UNIT) + s * np.eye(len(Y))).logpdf(Y[:, 0])

    best = likelihood(found.weights, found.amplitude, found.noise)
    assert_allclose(found.log_likelihood, best, atol=1e-2)  # weights that count for nothing are put to 0
    for j in np.flatnonzero(found.weights):
        for factor in (0.8, 1.25):
            other = found.weights.copy()
            other[j] *= factor
            assert likelihood(other, found.amplitude, found.noise) < best + 1e-2
    for factor in (0.8, 1.25):
        assert likelihood(found.weights, factor * found.amplitude, found.noise) < best + 1e-2
        assert likelihood(found.weights, found.amplitude, factor * found.noise) < best + 1e-2


def test_columns_without_shape_or_place_do_no_harm():
    rng = np.random.default_rng(0)
    age = rng.standard_normal(20)  # of the group: constant in every bag
    bags = mh.Bags([np.column_stack([rng.standard_normal(9), np.full(9, a)]) for a in age])
    D = Scales.of(bags).distances(bags, None)
    assert np.isfinite(D).all()
    model = mh.DistributionRegressor(random_state=0).fit(bags, age)
    assert np.corrcoef(model.predict(bags), age)[0, 1] > 0.95
    single = mh.Bags([[[a]] for a in age])  # bags of one point: all place
    D = Scales.of(single).distances(single, None)
    assert not D[1:].any()
    assert_allclose(D[0], squared_mmd(np.outer(age, age), age**2, age**2) / age.var(), atol=1e-12)
    with pytest.raises(ValueError, match="All bags are alike"):
        choose_weights(np.zeros((2, 5, 5)), np.ones((5, 1)), UNIT)


def test_held_out_scores_of_the_true_model_are_standard():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 400)
    K = np.exp(-0.5 * (x[:, None] - x) ** 2)
    known = rng.uniform(0.1, 1, 400)
    z = np.linalg.cholesky(K + 1e-9 * np.eye(400)) @ rng.standard_normal(400)
    z += np.sqrt(known) * rng.standard_normal(400) + 0.1 * rng.standard_normal(400)
    scores = held_out_scores(lambda rest: (K, 1.0, 0.1), z, known, known, rng)
    assert abs(scores.std() - 1) < 0.12
    assert abs(scores.mean()) < 0.15
    doubled = held_out_scores(lambda rest: (K, 1.0, 0.1), z, known, 9 * known, rng)
    assert doubled.std() < 0.7
