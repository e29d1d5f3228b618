"""Kernels of ranks: ties, monotone transformations, both array libraries, files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata

import muhat as mh
from muhat.kernels.ranked import KNOTS, Cosines, Ranked

X = np.random.default_rng(0).normal(size=(20, 3)).round(1)  # some ties
Y = np.random.default_rng(1).normal(size=(7, 3))
INNER = [mh.Laplace(0.2), mh.Linear(), Cosines(0.1, 4)]


@pytest.mark.parametrize("inner", INNER, ids=repr)
def test_is_the_kernel_of_mid_ranks(inner):
    kernel = Ranked(inner).resolve(X)
    ranks = (rankdata(X, axis=0) - 0.5) / len(X)
    assert_allclose(kernel(X), inner(ranks), rtol=1e-12)
    assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=1e-12)
    assert kernel.resolve(Y) is kernel  # nothing is left open


def test_rows_between_the_knots_by_hand():
    kernel = Ranked(mh.Linear(), np.array([[1.0], [2.0], [2.0], [4.0]]))
    assert_allclose(
        kernel.ranks(np.array([[0.0], [1.0], [1.5], [2.0], [9.0]]), np).ravel(), [0, 1 / 8, 1 / 4, 1 / 2, 1]
    )


@pytest.mark.parametrize("inner", INNER, ids=repr)
def test_a_monotone_transformation_of_a_column_does_not_matter(inner):
    moved = np.column_stack([np.exp(X[:, 0]), X[:, 1] ** 3, 1e6 * X[:, 2]])
    assert_allclose(Ranked(inner).resolve(moved)(moved), Ranked(inner).resolve(X)(X), rtol=1e-12)


def test_knots_are_few():
    A = np.random.default_rng(2).normal(size=(5 * KNOTS, 1))
    kernel = Ranked(mh.Linear()).resolve(A)
    assert kernel.knots.shape == (KNOTS, 1)
    whole = (rankdata(A, axis=0) - 0.5) / len(A)
    assert_allclose(kernel.ranks(A, np), whole, atol=2 / KNOTS)


def test_cosines_by_hand():
    u, v = np.array([[0.2, 0.7]]), np.array([[0.5, 0.1]])
    expected = sum(
        np.cos(np.pi * k * u[0, j]) * np.cos(np.pi * k * v[0, j]) / (1 + (np.pi * k * 0.3) ** 2)
        for k in (1, 2, 3)
        for j in (0, 1)
    )
    assert_allclose(Cosines(0.3, 3)(u, v), [[expected]], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("inner", INNER, ids=repr)
def test_jax_agrees(inner):
    kernel = Ranked(inner).resolve(X)
    with jax.enable_x64(True):
        assert_allclose(np.asarray(kernel(jnp.asarray(X), jnp.asarray(Y))), kernel(X, Y), rtol=1e-10)


def test_files_and_precision(tmp_path):
    kernel = Ranked(Cosines(0.2, 5)).resolve(X)
    mh.save(kernel, tmp_path / "k.muhat")
    assert_array_equal(mh.load(tmp_path / "k.muhat")(X, Y), kernel(X, Y))
    assert kernel(X.astype(np.float32), Y.astype(np.float32)).dtype == np.float32
