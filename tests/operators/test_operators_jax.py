"""One code for NumPy and JAX: the same values, the right derivatives, under jit too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.embedding.density import tikhonov_coefficients
from muhat.embedding.shrinkage import shrinkage_weights
from muhat.embedding.simplex import project_simplex
from muhat.gram import DenseGram, KroneckerGram, LowRankGram
from muhat.operators.conditional import conditional_ridge, conditional_weights, leave_one_out

rng = np.random.default_rng(0)
X, Q, Y = rng.standard_normal((12, 2)), rng.standard_normal((4, 2)), rng.standard_normal((12, 3))
W = rng.standard_normal((3, 12))
PHI = rng.standard_normal((12, 5))
AXES = [np.linspace(-2, 2, 4)[:, None], np.linspace(-1, 1, 3)[:, None]]


def ridge_of(ell, reg):
    return conditional_ridge(DenseGram(mh.Gaussian(ell)(X)), reg)


def embedding_of(ell, scale):
    return mh.Embedding(mh.Gaussian(ell), X, scale * W)


def inner_of(ell, scale):
    mu = embedding_of(ell, scale)
    return mu.inner(mu[0])  # one kernel for both: traced numbers cannot be compared


# Functions of a lengthscale and a regulariser (or another positive number).
FUNCTIONS = {
    "shrinkage_weights": lambda ell, reg: shrinkage_weights(DenseGram(mh.Gaussian(ell)(X)), reg),
    "shrinkage_weights of features": lambda ell, reg: shrinkage_weights(LowRankGram(PHI / ell), reg),
    "tikhonov_coefficients": lambda ell, reg: tikhonov_coefficients(
        DenseGram(mh.Gaussian(ell)(X)), 8.0, mh.Gaussian(ell)(X, Q), reg
    ),
    "tikhonov_coefficients on a grid": lambda ell, reg: tikhonov_coefficients(
        KroneckerGram([mh.Gaussian(ell)(a) for a in AXES]), 8.0, np.arange(12.0), reg
    ),
    "project_simplex": lambda ell, reg: project_simplex(W * ell + reg),
    "conditional_weights": lambda ell, reg: conditional_weights(ridge_of(ell, reg), mh.Gaussian(ell)(X, Q)),
    "leave_one_out": lambda ell, reg: leave_one_out(ridge_of(ell, reg), Y),
    "leave_one_out of features": lambda ell, reg: leave_one_out(
        conditional_ridge(LowRankGram(PHI / ell), reg), Y
    ),
    "value": lambda ell, reg: embedding_of(ell, reg)(Q),
    "inner": inner_of,
    "norm": lambda ell, reg: embedding_of(ell, reg).norm(),
    "norm of one": lambda ell, reg: mh.Embedding(mh.Gaussian(ell), X, reg * W[0]).norm(),
    "mean": lambda ell, reg: embedding_of(ell, reg).mean(),
    "cov": lambda ell, reg: embedding_of(ell, reg).cov(),
    "expect": lambda ell, reg: embedding_of(ell, reg).expect(lambda z: z[:, 0] * z[:, 1]),
    "simplex": lambda ell, reg: embedding_of(ell, reg).simplex().effective_size(),
    "mmd": lambda ell, reg: mh.mmd(X * reg, Q, mh.Gaussian(ell)),
    "embed": lambda ell, reg: mh.embed(X * reg, mh.Gaussian(ell))(Q),
}


@pytest.mark.parametrize("name", FUNCTIONS)
class TestNamespaces:
    ell, reg = 0.9, 0.2

    @pytest.mark.slow
    def test_values_agree(self, name):
        f = FUNCTIONS[name]
        expected = f(self.ell, self.reg)
        assert isinstance(expected, (np.ndarray, np.floating))
        with jax.enable_x64(True):
            got = f(jnp.asarray(self.ell), jnp.asarray(self.reg))
            assert isinstance(got, jax.Array)
            assert got.dtype == jnp.float64
            assert_allclose(np.asarray(got), expected, rtol=1e-10, atol=1e-10)

    @pytest.mark.slow
    def test_jit_agrees_and_derivatives_are_finite_differences(self, name):
        f = FUNCTIONS[name]
        probe = np.random.default_rng(1).standard_normal(np.shape(f(self.ell, self.reg)))

        def scalar(ell, reg):
            return (probe * f(ell, reg)).sum()

        with jax.enable_x64(True):
            value, gradient = jax.jit(jax.value_and_grad(scalar, argnums=(0, 1)))(self.ell, self.reg)
            value, gradient = float(value), [float(g) for g in gradient]
        assert_allclose(value, scalar(self.ell, self.reg), rtol=1e-9, atol=1e-10)
        h = 1e-5
        finite = [
            (scalar(self.ell + h, self.reg) - scalar(self.ell - h, self.reg)) / (2 * h),
            (scalar(self.ell, self.reg + h) - scalar(self.ell, self.reg - h)) / (2 * h),
        ]
        assert_allclose(gradient, finite, rtol=1e-5, atol=1e-7)


class TestArrays:
    def test_jax_points_and_weights(self):
        with jax.enable_x64(True):
            mu = mh.embed(jnp.asarray(X), mh.Gaussian(0.9), weights=jnp.asarray(W))
            plain = mh.embed(X, mh.Gaussian(0.9), weights=W)
            for got, expected in [
                (mu(Q), plain(Q)),
                (mu.inner(mu), plain.inner(plain)),
                (mu.norm(), plain.norm()),
                (mu.distance(mu[0]), plain.distance(plain[0])),
                (mu.mean(), plain.mean()),
                (mu.cov(), plain.cov()),
                ((mu - mu[1])(Q), (plain - plain[1])(Q)),
                ((2.0 * mu)(Q), (2.0 * plain)(Q)),
            ]:
                assert isinstance(got, jax.Array)
                assert_allclose(np.asarray(got), expected, rtol=1e-10, atol=1e-7)
            assert_allclose(mu.quantile(0.3), plain.quantile(0.3))

    @pytest.mark.slow
    @pytest.mark.parametrize("representation", [mh.Nystrom(6), mh.Fourier(8)])
    def test_low_rank(self, representation):
        kernel = representation.fit(mh.Laplace(1.0, norm=2), X, 0)
        with jax.enable_x64(True):
            mu = mh.embed(jnp.asarray(X), kernel, weights=jnp.asarray(W))
            plain = mh.embed(X, kernel, weights=W)
            assert_allclose(np.asarray(mu(Q)), plain(Q), rtol=1e-9, atol=1e-9)
            assert_allclose(np.asarray(mu.norm()), plain.norm(), rtol=1e-9)

    def test_derivative_with_respect_to_the_points(self):
        kernel = mh.Gaussian(0.9)

        def distance(points):
            return mh.mmd(points, jnp.asarray(Q), kernel)

        with jax.enable_x64(True):
            gradient = np.asarray(jax.jit(jax.grad(distance))(jnp.asarray(X)))
        h, moved = 1e-6, X.copy()
        moved[2, 1] += h
        finite = (mh.mmd(moved, Q, kernel) - mh.mmd(X, Q, kernel)) / h
        assert_allclose(gradient[2, 1], finite, rtol=1e-4)

    @pytest.mark.slow
    def test_single_precision_stays_single_under_jax(self):
        mu = mh.embed(jnp.asarray(X, dtype=jnp.float32), mh.Gaussian(0.9))
        assert mu(Q.astype(np.float32)).dtype == jnp.float32
        expected = mh.embed(X, mh.Gaussian(0.9))(Q)
        assert_allclose(np.asarray(mu(Q.astype(np.float32))), expected, rtol=1e-5)

    def test_bad_concrete_arrays_are_refused_in_jax_too(self):
        with pytest.raises(ValueError, match="X contains NaN"):
            mh.embed(jnp.asarray(X).at[0, 0].set(jnp.nan), mh.Gaussian(1.0))
        with pytest.raises(ValueError, match="X must be 2-dimensional"):
            mh.embed(jnp.ones(3), mh.Gaussian(1.0))
