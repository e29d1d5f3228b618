"""Embeddings as elements of an RKHS: values, inner products, distances, linear combinations."""

from math import exp

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh


def rows(n, d=2, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def signed(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


GAUSSIAN = mh.Gaussian(0.8)
KERNELS = [
    GAUSSIAN,
    mh.Gaussian([0.5, 2.0]),
    mh.Laplace(1.3),
    mh.Matern(2.5, 0.9),
    mh.Linear(bias=0.5),
    mh.Polynomial(3),
    2.0 * mh.Gaussian(1.0) + mh.Linear(),
    mh.Gaussian(1.0).on(0) * mh.Laplace(1.0).on(1),
]


def scalar_gaussian(x, y, ell=0.8):
    return exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / (2 * ell**2))


def low_rank_kernel(representation):
    """A feature kernel, and its matrix by the definition of the approximation."""
    kernel = representation.fit(GAUSSIAN, rows(40, seed=5), 0)
    if isinstance(representation, mh.Nystrom):
        Z = kernel.landmarks

        def matrix(X, Y):
            return GAUSSIAN(X, Z) @ np.linalg.solve(GAUSSIAN(Z), GAUSSIAN(Z, Y))
    else:
        W = kernel.frequencies

        def matrix(X, Y):
            return np.cos((X[:, None, :] - Y[None, :, :]) @ W.T).mean(axis=-1)

    return kernel, matrix


LOW_RANK = [mh.Nystrom(12), mh.Fourier(20)]


class TestEmbed:
    def test_weights_are_uniform(self):
        mu = mh.embed(rows(7), GAUSSIAN)
        assert_allclose(mu.weights, np.full(7, 1 / 7), rtol=1e-15)
        assert mu.points.shape == (7, 2)
        assert not mu.is_batch

    def test_given_weights_are_kept(self):
        W = signed(3, 7)
        mu = mh.embed(rows(7), GAUSSIAN, weights=W)
        assert_allclose(mu.weights, W, rtol=0)
        assert mu.is_batch
        assert len(mu) == 3
        assert_allclose(mu[1].weights, W[1], rtol=0)
        assert_allclose(mu[[2, 0]].weights, W[[2, 0]], rtol=0)

    def test_default_kernel_is_gaussian_at_the_scaled_median(self):
        X = rows(50) * [1.0, 1000.0]
        sd = X.std(axis=0)
        Z = X / sd
        distances = np.sqrt(((Z[:, None] - Z[None]) ** 2).sum(-1))[np.triu_indices(50, 1)]
        mu = mh.embed(X)
        assert isinstance(mu.kernel, mh.Gaussian)
        assert_allclose(mu.kernel.lengthscale, sd * np.median(distances), rtol=1e-12)

    def test_single_embedding_has_no_rows(self):
        mu = mh.embed(rows(4), GAUSSIAN)
        with pytest.raises(TypeError, match="no length"):
            len(mu)
        with pytest.raises(TypeError, match="only a batch"):
            mu[0]

    def test_repr_names_size_and_kernel(self):
        assert "batch of 3, 7 points in 2 dimensions, Gaussian" in repr(
            mh.embed(rows(7), GAUSSIAN, weights=signed(3, 7))
        )

    @pytest.mark.parametrize("representation", LOW_RANK)
    def test_random_state_decides_the_representation(self, representation):
        X = rows(60)
        first, again, other = (
            mh.embed(X, GAUSSIAN, representation=representation, random_state=s)(X) for s in (0, 0, 1)
        )
        assert_allclose(first, again, rtol=0)
        assert np.abs(first - other).max() > 1e-6


class TestValues:
    def test_equal_the_double_loop(self):
        X, Q, w = rows(9), rows(5, seed=2), signed(9)
        expected = [sum(w[i] * scalar_gaussian(X[i], q) for i in range(9)) for q in Q]
        assert_allclose(mh.embed(X, GAUSSIAN, weights=w)(Q), expected, rtol=1e-12)

    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    def test_equal_the_matrix_product(self, kernel):
        X, Q, W = rows(9), rows(5, seed=2), signed(3, 9)
        K = np.array([[kernel(q[None], x[None])[0, 0] for x in X] for q in Q])
        assert_allclose(mh.embed(X, kernel, weights=W)(Q), W @ K.T, rtol=1e-10, atol=1e-12)
        assert_allclose(mh.embed(X, kernel, weights=W[0])(Q), K @ W[0], rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("representation", LOW_RANK)
    def test_of_low_rank_kernels_equal_the_definition(self, representation):
        kernel, matrix = low_rank_kernel(representation)
        X, Q, W = rows(9), rows(5, seed=2), signed(3, 9)
        mu = mh.embed(X, kernel, weights=W)
        assert_allclose(mu(Q), W @ matrix(X, Q), rtol=1e-7, atol=1e-7)
        assert mu.coefficients.shape == (3, kernel.size)

    def test_many_points_and_columns_take_the_blocked_path(self):
        X, Q, W = rows(3000, 3), rows(700, 3, seed=2), signed(6, 3000)
        K = np.exp(-((Q[:, None] - X[None]) ** 2).sum(-1) / 2)
        assert_allclose(mh.embed(X, mh.Gaussian(1.0), weights=W)(Q), W @ K.T, rtol=1e-9, atol=1e-9)

    def test_coefficients_need_features(self):
        with pytest.raises(ValueError, match=r"no finite features.*mh\.Nystrom"):
            mh.embed(rows(4), GAUSSIAN).coefficients  # noqa: B018


class TestGeometry:
    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    def test_reproducing_property(self, kernel):
        x = rows(1, seed=3)
        mu = mh.embed(rows(9), kernel, weights=signed(9))
        point = mh.embed(x, kernel, weights=[1.0])
        assert_allclose(point.inner(mu), mu(x)[0], rtol=1e-12)
        assert_allclose(mu.inner(point), mu(x)[0], rtol=1e-12)

    @pytest.mark.parametrize("representation", LOW_RANK)
    def test_reproducing_property_of_features(self, representation):
        kernel, _ = low_rank_kernel(representation)
        x = rows(1, seed=3)
        mu = mh.embed(rows(9), kernel, weights=signed(9))
        assert_allclose(mh.embed(x, kernel).inner(mu), mu(x)[0], rtol=1e-11)

    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    @pytest.mark.parametrize("batch_x", [(), (3,)])
    @pytest.mark.parametrize("batch_y", [(), (4,)])
    def test_against_explicit_gram_sums(self, kernel, batch_x, batch_y):
        X, Y, W, V = rows(9), rows(6, seed=2), signed(*batch_x, 9), signed(*batch_y, 6, seed=4)
        self.check(mh.embed(X, kernel, weights=W), mh.embed(Y, kernel, weights=V), kernel, 1e-10)

    @pytest.mark.parametrize("representation", LOW_RANK)
    @pytest.mark.parametrize("batch_x", [(), (3,)])
    @pytest.mark.parametrize("batch_y", [(), (4,)])
    def test_against_explicit_gram_sums_of_features(self, representation, batch_x, batch_y):
        kernel, matrix = low_rank_kernel(representation)
        X, Y, W, V = rows(9), rows(6, seed=2), signed(*batch_x, 9), signed(*batch_y, 6, seed=4)
        self.check(mh.embed(X, kernel, weights=W), mh.embed(Y, kernel, weights=V), matrix, 1e-6)

    @staticmethod
    def check(mu, nu, matrix, tolerance):
        W, V = mu.weights, nu.weights
        cross = W @ matrix(mu.points, nu.points) @ V.T
        own, theirs = (
            np.einsum("...i,ij,...j->...", w, matrix(Z, Z), w) for w, Z in ((W, mu.points), (V, nu.points))
        )
        pairs = own[:, None] if mu.is_batch and nu.is_batch else own
        assert_allclose(mu.inner(nu), cross, rtol=tolerance, atol=tolerance)
        assert_allclose(mu.norm(), np.sqrt(own), rtol=tolerance, atol=tolerance)
        assert_allclose(
            mu.distance(nu), np.sqrt(pairs + theirs - 2 * cross), rtol=10 * tolerance, atol=10 * tolerance
        )
        assert_allclose(mu.distance(nu), nu.distance(mu).T, rtol=1e-10, atol=1e-10)

    def test_batch_with_itself_is_its_gram(self):
        X, W = rows(9), signed(3, 9)
        mu = mh.embed(X, GAUSSIAN, weights=W)
        assert_allclose(mu.inner(mu), W @ GAUSSIAN(X) @ W.T, rtol=1e-11)

    def test_quadratic_form_over_several_strips(self):
        X, w = rows(2500), signed(2500)
        assert_allclose(mh.embed(X, GAUSSIAN, weights=w).norm() ** 2, w @ GAUSSIAN(X) @ w, rtol=1e-10)

    def test_triangle_inequality_and_zero(self):
        mu, nu, pi = (mh.embed(rows(20, seed=s), GAUSSIAN) for s in range(3))
        assert mu.distance(pi) <= mu.distance(nu) + nu.distance(pi)
        assert mu.distance(mu) < 1e-7


class TestAlgebra:
    def test_difference_is_the_witness(self):
        X, Y, Q = rows(9), rows(6, seed=2) + 1, rows(5, seed=3)
        witness = mh.embed(X, GAUSSIAN) - mh.embed(Y, GAUSSIAN)
        assert_allclose(witness(Q), GAUSSIAN(Q, X).mean(1) - GAUSSIAN(Q, Y).mean(1), rtol=1e-11)
        assert_allclose(witness.norm(), mh.mmd(X, Y, GAUSSIAN), rtol=1e-10)

    @pytest.mark.parametrize("make", [lambda: GAUSSIAN, lambda: low_rank_kernel(mh.Nystrom(12))[0]])
    @pytest.mark.parametrize("batches", [((), ()), ((3,), ()), ((), (3,)), ((3,), (3,))])
    @pytest.mark.parametrize("shared", [True, False])
    def test_linear_combinations_are_linear(self, make, batches, shared):
        kernel, Q, X = make(), rows(5, seed=3), rows(9)
        mu = mh.embed(X, kernel, weights=signed(*batches[0], 9))
        Y = rows(7, seed=2)
        nu = mh.embed(Y, kernel, weights=signed(*batches[1], 7, seed=4))
        if shared:
            nu = mh.Embedding(kernel, mu.points, signed(*batches[1], 9, seed=4))
        nu.distance(mu)  # with coefficients already there, too
        for combined, expected in [
            (mu + nu, mu(Q) + nu(Q)),
            (mu - nu, mu(Q) - nu(Q)),
            (2.5 * mu - nu * 0.5, 2.5 * mu(Q) - 0.5 * nu(Q)),
            (-mu, -mu(Q)),
            (np.float64(3.0) * mu, 3 * mu(Q)),
        ]:
            assert isinstance(combined, mh.Embedding)
            assert_allclose(combined(Q), expected, rtol=1e-10, atol=1e-10)
            fresh = mh.Embedding(kernel, combined.points, combined.weights)
            assert_allclose(fresh(Q), expected, rtol=1e-7, atol=1e-7)

    def test_operands_are_left_alone(self):
        mu, nu = mh.embed(rows(4), GAUSSIAN), mh.embed(rows(4, seed=1), GAUSSIAN)
        before = mu.weights.copy()
        _ = 3.0 * (mu - nu)
        assert_allclose(mu.weights, before, rtol=0)

    def test_only_scalars_multiply(self):
        mu = mh.embed(rows(4), GAUSSIAN)
        with pytest.raises(TypeError):
            mu * np.ones(4)
        with pytest.raises(TypeError):
            mu * mu

    def test_mixture_has_the_mean_of_the_pooled_sample(self):
        X, Y = rows(30), rows(10, seed=2)
        pooled = 0.75 * mh.embed(X, GAUSSIAN) + 0.25 * mh.embed(Y, GAUSSIAN)
        assert_allclose(pooled.mean(), np.concatenate([X, Y]).mean(axis=0), rtol=1e-12)


class TestMMD:
    @staticmethod
    def v_statistic(X, Y, kernel):
        square = kernel(X, X).mean() + kernel(Y, Y).mean() - 2 * kernel(X, Y).mean()
        return np.sqrt(square)

    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    def test_samples_embeddings_and_mixed_are_the_v_statistic(self, kernel):
        X, Y = rows(20), rows(15, seed=2) + 0.7
        expected = self.v_statistic(X, Y, kernel)
        mu, nu = mh.embed(X, kernel), mh.embed(Y, kernel)
        assert_allclose(mh.mmd(X, Y, kernel), expected, rtol=1e-10)
        assert_allclose(mh.mmd(Y, X, kernel), expected, rtol=1e-10)
        assert_allclose(mh.mmd(mu, nu), expected, rtol=1e-10)
        assert_allclose(mh.mmd(mu, Y), expected, rtol=1e-10)
        assert_allclose(mh.mmd(X, nu), expected, rtol=1e-10)

    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    def test_zero_for_the_same_sample_in_any_order(self, kernel):
        X = rows(40)
        scale = np.sqrt(np.abs(kernel(X)).max())
        assert mh.mmd(X, X[::-1], kernel) < 1e-7 * scale

    def test_linear_kernel_gives_the_distance_between_means(self):
        X, Y = rows(20, 5), rows(15, 5, seed=2) + 1
        expected = np.linalg.norm(X.mean(axis=0) - Y.mean(axis=0))
        assert_allclose(mh.mmd(X, Y, mh.Linear()), expected, rtol=1e-10)
        assert_allclose(mh.mmd(X, Y, mh.Linear(bias=3.0)), expected, rtol=1e-10)

    @pytest.mark.parametrize("kernel", [None, mh.Gaussian("median")])
    def test_kernel_is_scaled_from_both_samples(self, kernel):
        X, Y = rows(20), rows(30, seed=2) + 4
        pooled = np.concatenate([X, Y])
        chosen = mh.embed(pooled, kernel).kernel
        assert_allclose(mh.mmd(X, Y, kernel), self.v_statistic(X, Y, chosen), rtol=1e-10)
        assert_allclose(mh.mmd(X, Y, kernel), mh.mmd(Y, X, kernel), rtol=1e-10)

    def test_batch_gives_every_distance(self):
        X, Y, W = rows(9), rows(6, seed=2), np.abs(signed(3, 9))
        batch = mh.embed(X, GAUSSIAN, weights=W)
        each = [mh.mmd(batch[b], mh.embed(Y, GAUSSIAN)) for b in range(3)]
        assert_allclose(mh.mmd(batch, mh.embed(Y, GAUSSIAN)), each, rtol=1e-10)
        assert_allclose(mh.mmd(batch, Y), each, rtol=1e-10)

    def test_low_rank_embedding_against_a_sample_uses_its_features(self):
        kernel, matrix = low_rank_kernel(mh.Nystrom(12))
        X, Y = rows(20), rows(15, seed=2) + 0.7
        assert_allclose(mh.mmd(mh.embed(X, kernel), Y), self.v_statistic(X, Y, matrix), rtol=1e-6)

    @pytest.mark.parametrize("scale", [1e-8, 1e8])
    def test_default_kernel_does_not_depend_on_units(self, scale):
        X, Y = rows(20), rows(15, seed=2) + 0.7
        assert_allclose(mh.mmd(scale * X, scale * Y), mh.mmd(X, Y), rtol=1e-8)

    def test_nearly_singular_gram(self):
        X, Y = rows(200), rows(200, seed=2) + 0.01
        wide = mh.Gaussian(1e4)
        # A wide Gaussian kernel is linear to first order: distance between means over ℓ.
        expected = np.linalg.norm(X.mean(axis=0) - Y.mean(axis=0)) / 1e4
        assert_allclose(mh.mmd(X, Y, wide), expected, rtol=1e-3)
