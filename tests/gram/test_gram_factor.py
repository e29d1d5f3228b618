"""Cutting a Gram and factoring it: parts are parts of K, and features have K as their products."""

import numpy as np
import pytest
from gram_cases import GRAMS, NEW, WITH_POINTS, N, X, kernel_of, kronecker
from numpy.testing import assert_allclose

import muhat as mh
from muhat.gram import DenseGram, Factored, FeatureMap, LowRankGram, as_dense
from muhat.gram.lowrank import second_moment

ROWS = np.array([7, 2, 2 + 9, 20])


@pytest.mark.parametrize("name", WITH_POINTS)
class TestTake:
    def test_is_the_gram_of_these_points(self, name):
        gram = GRAMS[name](0.9, np)
        part = gram.take(ROWS)
        assert part.shape == (4, 4)
        assert_allclose(part.dense(), gram.dense()[np.ix_(ROWS, ROWS)], atol=1e-12)
        assert_allclose(part.points, X[ROWS])
        assert_allclose(part @ np.arange(4.0), gram.dense()[np.ix_(ROWS, ROWS)] @ np.arange(4.0), atol=1e-12)

    def test_knows_new_points_and_its_ridge(self, name):
        gram = GRAMS[name](0.9, np)
        part = gram.take(ROWS)
        assert_allclose(as_dense(part.cross(NEW)), as_dense(gram.cross(NEW))[ROWS], atol=1e-12)
        K, b = gram.dense()[np.ix_(ROWS, ROWS)], np.arange(4.0)
        assert_allclose(part.ridge(0.3).solve(b), np.linalg.solve(K + 0.3 * np.eye(4), b), rtol=1e-8)


class TestDenseTake:
    def test_before_and_after_the_matrix_is_made(self):
        gram = DenseGram(None, kernel_of(0.9), X)
        lazy = gram.take(ROWS)
        made = gram.K
        assert_allclose(lazy.dense(), made[np.ix_(ROWS, ROWS)])
        assert_allclose(gram.take(ROWS).dense(), made[np.ix_(ROWS, ROWS)])

    def test_of_a_matrix_without_points(self):
        K = kernel_of(0.9)(X)
        part = DenseGram(K).take(ROWS)
        assert_allclose(part.dense(), K[np.ix_(ROWS, ROWS)])
        assert part.points is None

    def test_does_not_share_memory(self):
        gram = DenseGram(kernel_of(0.9)(X))
        gram.take(np.arange(3)).dense()[:] = 0
        assert gram.dense()[0, 0] > 0


def test_grams_that_cannot_be_cut_or_factored_say_so():
    gram = kronecker(0.9, np)
    with pytest.raises(ValueError, match=r"KroneckerGram cannot be cut: use mh.Exact\(\) or mh.Nystrom"):
        gram.take(ROWS)
    with pytest.raises(
        ValueError, match=r"KroneckerGram has no features to work in: pass .*mh.Nystrom\(500\)"
    ):
        gram.factor()
    with pytest.raises(ValueError, match="BlockedGram has no features to work in"):
        GRAMS["blocked"](0.9, np).factor()


@pytest.mark.parametrize("name", ["dense", "nystrom", "fourier", "features"])
class TestFactor:
    def test_products_of_the_features_are_the_gram(self, name):
        gram = GRAMS[name](0.9, np)
        Phi = gram.factor().Phi
        assert Phi.shape[0] == N
        assert_allclose(Phi @ Phi.T, gram.dense(), atol=1e-10)

    def test_features_of_new_points(self, name):
        gram = GRAMS[name](0.9, np)
        features = gram.factor()
        projected = features.project(gram.cross(NEW))
        assert_allclose(features.Phi @ projected, as_dense(gram.cross(NEW)), atol=1e-8)

    def test_features_of_the_points_themselves(self, name):
        gram = GRAMS[name](0.9, np)
        features = gram.factor()
        assert_allclose(features.project(gram.cross(X)).T, features.Phi, atol=1e-6)

    def test_features_of_embeddings(self, name):
        gram = GRAMS[name](0.9, np)
        features, w = gram.factor(), np.linspace(-1, 1, N)[:, None]
        cross = gram.cross(X)
        mixed = Factored(cross.left, cross.right @ w) if isinstance(cross, Factored) else cross @ w
        assert_allclose(features.project(mixed)[:, 0], w[:, 0] @ features.Phi, atol=1e-6)


def test_smooth_kernels_and_repeated_points_have_few_features():
    points = np.repeat(np.linspace(-1, 1, 10), 5)[:, None]
    gram = DenseGram(None, mh.Gaussian(3.0), points)
    features = gram.factor()
    assert features.Phi.shape[1] < 10
    assert_allclose(features.Phi @ features.Phi.T, gram.dense(), atol=1e-10)


def test_features_without_a_lower_factor_refuse_plain_arrays():
    gram = LowRankGram(np.ones((5, 2)))
    with pytest.raises(ValueError, match=r"cross must be what cross\(x\) gives"):
        gram.factor().project(np.ones((5, 3)))
    foreign = Factored(np.ones((5, 2)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="cross must be"):
        gram.factor().project(foreign)


def test_feature_map_solves_on_the_kept_points():
    lower = np.array([[2.0, 0.0], [1.0, 3.0]])
    features = FeatureMap(np.zeros((4, 2)), lower, np.array([3, 1]))
    cross = np.arange(8.0).reshape(4, 2)
    assert_allclose(features.project(cross), np.linalg.solve(lower, cross[[3, 1]]))


@pytest.mark.parametrize("rows", [1, 7, 5000])
def test_second_moment_sums_over_blocks(rows, monkeypatch):
    monkeypatch.setattr("muhat.gram.lowrank.BLOCK_ROWS", 64)
    rng = np.random.default_rng(0)
    Phi, w = rng.standard_normal((rows, 3)), rng.gamma(1.0, size=rows)
    w[::3] = 0.0
    assert_allclose(second_moment(Phi, w), Phi.T @ (w[:, None] * Phi), rtol=1e-10, atol=1e-10)
