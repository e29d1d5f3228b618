"""Kernels of moments: values, scales from the data, both array libraries, files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import muhat as mh
from muhat.kernels.standard import SquaredNorm, Standardized

X = np.random.default_rng(0).normal(size=(20, 3)) * [1.0, 10.0, 0.1] + [5.0, -3.0, 0.0]
Y = np.random.default_rng(1).normal(size=(7, 3))
C, S = np.array([1.0, 2.0, -1.0]), np.array([0.5, 2.0, 3.0])


def test_squared_norm_by_hand():
    A, B = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 2.0], [-1.0, 0.0]])
    assert_allclose(SquaredNorm()(A, B), [[50.0, 100.0, 25.0], [0.0, 0.0, 0.0]])
    assert_allclose(SquaredNorm().diag(A), [625.0, 0.0])


@pytest.mark.parametrize(
    "inner", [mh.Linear(), mh.Polynomial(2, 0.0), mh.Gaussian(0.7), SquaredNorm()], ids=repr
)
class TestStandardized:
    def test_is_the_kernel_of_standardized_points(self, inner):
        kernel = Standardized(inner, C, S)
        assert_allclose(kernel(X, Y), inner((X - C) / S, (Y - C) / S), rtol=1e-12)
        assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=1e-12)
        assert_allclose(kernel(X), kernel(X).T, rtol=1e-12)

    def test_scales_from_the_data(self, inner):
        kernel = Standardized(inner).resolve(X)
        A = (X - X.mean(axis=0)) / X.std(axis=0)
        assert_allclose(kernel(X), inner(A), rtol=1e-9, atol=1e-12)
        assert_allclose(kernel.centre, X.mean(axis=0))
        assert kernel.resolve(Y) is kernel  # nothing is left open

    def test_what_is_given_is_kept(self, inner):
        assert_array_equal(Standardized(inner, centre=C).resolve(X).centre, C)
        assert_allclose(Standardized(inner, centre=C).resolve(X).scale, X.std(axis=0))
        assert_array_equal(Standardized(inner, scale=S).resolve(X).scale, S)

    def test_units_and_origin_do_not_matter(self, inner):
        unit, origin = np.array([1e3, 1e-3, 7.0]), np.array([1e3, -5.0, 0.1])
        moved = X * unit + origin
        assert_allclose(
            Standardized(inner).resolve(moved)(moved), Standardized(inner).resolve(X)(X), rtol=1e-7, atol=1e-9
        )

    def test_a_constant_column_counts_for_nothing(self, inner):
        A = np.c_[X, np.full(20, 0.1)]
        kernel = Standardized(inner).resolve(A)
        assert_allclose(kernel(A), Standardized(inner).resolve(X)(X), rtol=1e-7, atol=1e-9)

    @pytest.mark.slow
    def test_jax_agrees(self, inner):
        with jax.enable_x64(True):
            found = Standardized(inner, C, S)(jnp.asarray(X), jnp.asarray(Y))
            assert isinstance(found, jax.Array)
            assert_allclose(np.asarray(found), Standardized(inner, C, S)(X, Y), rtol=1e-10)
            slope = jax.grad(lambda c: Standardized(inner, c, S)(jnp.asarray(X), jnp.asarray(Y)).sum())(C)
        step = 1e-5 * np.eye(3)[1]
        rise = np.sum(Standardized(inner, C + step, S)(X, Y) - Standardized(inner, C - step, S)(X, Y))
        assert_allclose(slope[1], rise / 2e-5, rtol=1e-4, atol=1e-6)

    def test_file(self, inner, tmp_path):
        for kernel in (Standardized(inner, C, S), Standardized(inner)):
            mh.save(kernel, tmp_path / "k.muhat")
            again = mh.load(tmp_path / "k.muhat")
            assert repr(again) == repr(kernel)
        mh.save(Standardized(inner, C, S), tmp_path / "k.muhat")
        assert_array_equal(mh.load(tmp_path / "k.muhat")(X, Y), Standardized(inner, C, S)(X, Y))

    def test_single_precision_stays(self, inner):
        assert Standardized(inner, C, S)(X.astype(np.float32), Y.astype(np.float32)).dtype == np.float32


def test_composes():
    kernel = (2.0 * Standardized(mh.Linear()).on([0, 2]) + SquaredNorm()).resolve(X)
    A = (X[:, [0, 2]] - X[:, [0, 2]].mean(axis=0)) / X[:, [0, 2]].std(axis=0)
    assert_allclose(kernel(X), 2 * A @ A.T + SquaredNorm()(X), rtol=1e-9)


def test_embedding_of_the_squared_norm_is_the_mean_square():
    distance = float(mh.mmd(mh.embed(X, SquaredNorm()), mh.embed(Y, SquaredNorm())))
    assert_allclose(distance, abs(np.mean((X**2).sum(axis=1)) - np.mean((Y**2).sum(axis=1))), rtol=1e-9)
