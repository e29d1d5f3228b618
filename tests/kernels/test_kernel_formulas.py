"""Every family against its formula: double loops, scikit-learn, and what makes a kernel a kernel."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import ALL, ARD, Case, by_loops, gaussian, ids, points
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise

import muhat as mh

WITH_FORMULA = [case for case in ALL if case.formula is not None]


@pytest.mark.parametrize("case", WITH_FORMULA, ids=ids(WITH_FORMULA))
def test_matrix_is_the_formula_at_every_pair(case: Case) -> None:
    X, Y = points(), points(7, seed=1)
    Y[0] = X[0]
    np.testing.assert_allclose(case.kernel(X, Y), by_loops(case.formula, X, Y), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("case", ALL, ids=ids(ALL))
def test_one_argument_means_twice_the_same(case: Case) -> None:
    X = points()
    np.testing.assert_array_equal(case.kernel(X), case.kernel(X, X))


@pytest.mark.parametrize("case", ALL, ids=ids(ALL))
def test_diag_is_the_diagonal_of_the_matrix(case: Case) -> None:
    X = points()
    np.testing.assert_allclose(case.kernel.diag(X), np.diagonal(case.kernel(X)), rtol=1e-14)


@pytest.mark.parametrize("case", ALL, ids=ids(ALL))
def test_positive_semi_definite_and_symmetric(case: Case) -> None:
    X = np.concatenate([points(25), points(8)])  # with exact duplicates
    K = case.kernel(X)
    np.testing.assert_allclose(K, K.T, rtol=1e-13)
    values = np.linalg.eigvalsh(K)
    assert values[0] >= -1e-13 * len(K) * values[-1]


@pytest.mark.parametrize("d", [1, 5, 40])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (mh.Gaussian(1.7), lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=1 / (2 * 1.7**2))),
        (mh.Gaussian(1.7), gp.RBF(1.7)),
        (mh.Laplace(3.1), lambda X, Y: pairwise.laplacian_kernel(X, Y, gamma=1 / 3.1)),
        (mh.Matern(0.5, 2.0), gp.Matern(2.0, nu=0.5)),
        (mh.Laplace(2.0, norm=2), gp.Matern(2.0, nu=0.5)),
        (mh.Matern(1.5, 2.0), gp.Matern(2.0, nu=1.5)),
        (mh.Matern(2.5, 2.0), gp.Matern(2.0, nu=2.5)),
        (mh.Matern(3.5, 2.0), gp.Matern(2.0, nu=3.5)),
        (mh.RationalQuadratic(1.3, alpha=0.8), gp.RationalQuadratic(1.3, alpha=0.8)),
        (mh.Linear(0.5), gp.DotProduct(0.5**0.5)),
        (mh.Polynomial(3, 1.0), lambda X, Y: pairwise.polynomial_kernel(X, Y, 3, gamma=1.0, coef0=1.0)),
        (2.0 * mh.Gaussian(1.7) + mh.Linear(), 2.0 * gp.RBF(1.7) + gp.DotProduct(0.0)),
        (mh.Gaussian(1.7) * mh.Matern(1.5, 2.0), gp.RBF(1.7) * gp.Matern(2.0, nu=1.5)),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_agrees_with_scikit_learn(ours: mh.Kernel, theirs: object, d: int) -> None:
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(30, d)), rng.normal(size=(20, d))
    np.testing.assert_allclose(ours(X, Y), theirs(X, Y), rtol=1e-9, atol=1e-12)


def test_ard_lengthscale_is_a_rescaling_of_columns() -> None:
    X = points()
    for family in (mh.Gaussian, mh.Laplace, mh.Cauchy):
        np.testing.assert_allclose(family(ARD)(X), family(1.0)(X / ARD), rtol=1e-13)


def test_rational_quadratic_tends_to_the_gaussian() -> None:
    X = points()
    np.testing.assert_allclose(mh.RationalQuadratic(0.8, alpha=1e7)(X), mh.Gaussian(0.8)(X), atol=1e-6)


def test_matern_tends_to_the_gaussian() -> None:
    X = points()
    error = [np.abs(mh.Matern(nu, 0.8)(X) - mh.Gaussian(0.8)(X)).max() for nu in (2.5, 10.5, 40.5)]
    assert error[0] > 3 * error[1] > 9 * error[2]


def test_gram_checks_and_returns_double_precision() -> None:
    K = mh.Gaussian(1.0).gram([[0, 0], [1, 2]])
    assert type(K) is np.ndarray
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, [[1, np.exp(-2.5)], [np.exp(-2.5), 1]], rtol=1e-15)


@pytest.mark.parametrize("case", ALL, ids=ids(ALL))
def test_single_precision_in_single_precision_out(case: Case) -> None:
    X = points().astype(np.float32)
    K, exact = case.kernel(X), case.kernel(X.astype(np.float64))
    assert K.dtype == np.float32
    assert case.kernel(X, X.astype(np.float64)).dtype == np.float64
    np.testing.assert_allclose(K, exact, rtol=2e-5, atol=2e-6)
    # The checked Gram is for users, and in double precision.
    np.testing.assert_allclose(case.kernel.gram(X), exact, rtol=1e-13, strict=True)


@pytest.mark.parametrize("d", [2, 40])
def test_whole_numbers_are_numbers(d: int) -> None:
    # A lengthscale below 1 must not be rounded to the type of the data.
    X = np.random.default_rng(0).integers(0, 3, size=(10, d))
    for kernel in (mh.Gaussian(0.5), mh.Laplace(1.5), mh.Matern(1.5, 0.7), mh.Linear(0.5), mh.Delta(0.3)):
        np.testing.assert_allclose(kernel(X), kernel(X.astype(float)), rtol=1e-12)
        np.testing.assert_allclose(kernel.diag(X), np.ones(10) * kernel.diag(X.astype(float)), rtol=1e-12)
    mean = np.full(d, 0.5)
    embedded = mh.Gaussian(0.5).gaussian_embedding(X, mean, 0.3)
    np.testing.assert_allclose(embedded, mh.Gaussian(0.5).gaussian_embedding(X.astype(float), mean, 0.3))


def test_lists_of_rows_are_arrays() -> None:
    rows = [[0.0, 1.0], [2.0, 3.0]]
    np.testing.assert_allclose(mh.Gaussian(2.0)(rows), by_loops(gaussian(2.0), *[np.array(rows)] * 2))


def test_fewer_rows_than_columns() -> None:
    X = np.random.default_rng(0).normal(size=(3, 200))
    for kernel in (mh.Gaussian(), mh.Laplace(), mh.Matern(2.5), mh.Cauchy()):
        resolved = kernel.resolve(X)
        np.testing.assert_allclose(kernel.gram(X), resolved(X), rtol=1e-13)
        assert np.linalg.eigvalsh(kernel.gram(X))[0] > 0


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_do_not_matter(scale: float) -> None:
    X = points()
    for kernel in (mh.Gaussian(0.8), mh.Laplace(1.4), mh.Matern(3.5, 1.1), mh.InverseMultiquadric(0.9)):
        stretched = kernel.replace(lengthscale=kernel.lengthscale * scale)
        np.testing.assert_allclose(stretched(scale * X), kernel(X), rtol=1e-12)


def test_far_points_underflow_to_zero_quietly() -> None:
    X = np.array([[0.0], [1e8]])
    kernels = [mh.Gaussian(1.0), mh.Laplace(1.0)] + [mh.Matern(nu, 1.0) for nu in (0.5, 1.5, 2.5, 3.5)]
    for kernel in kernels:
        np.testing.assert_array_equal(kernel(X), np.eye(2))


def test_delta_compares_all_columns() -> None:
    X = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0]])
    np.testing.assert_array_equal(mh.Delta()(X), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])


def test_delta_embedding_is_the_table_of_frequencies() -> None:
    codes = np.random.default_rng(0).integers(0, 4, size=(200, 1)).astype(float)
    frequencies = mh.Delta()(np.arange(4.0)[:, None], codes).mean(axis=1)
    np.testing.assert_allclose(frequencies, np.bincount(codes[:, 0].astype(int)) / 200)


def test_embedding_of_the_linear_kernel_is_the_mean() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.normal(1.0, size=(30, 3))
    kernel = mh.Linear()
    distance = kernel(X).mean() + kernel(Y).mean() - 2 * kernel(X, Y).mean()
    assert distance == pytest.approx(((X.mean(axis=0) - Y.mean(axis=0)) ** 2).sum(), rel=1e-12)
