"""Quadratic forms in blocks against dense double sums."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import muhat as mh
from muhat.gram.features import MapKernel
from muhat.kernels.standard import SquaredNorm, Standardized
from muhat.testing import forms as module
from muhat.testing.forms import Forms, feature_forms, kernel_blocks, quadratic_forms

ARD = np.array([0.5, 1.3, 2.0])
STANDARD = Standardized(mh.Polynomial(2, 0.0), [0.1, 0.2, 0.3], [1.0, 2.0, 3.0])

BANKS = {
    "one": [mh.Gaussian(0.8)],
    "scales": [mh.Gaussian(c) for c in (0.3, 1.0, 3.0)] + [mh.Laplace(c) for c in (0.5, 2.0)],
    "families": [
        mh.Matern(0.5, 1.1),
        mh.Matern(2.5, 1.1),
        mh.RationalQuadratic(0.9, alpha=0.7),
        mh.Laplace(1.4, norm=2),
        mh.Cauchy(1.2),
    ],
    "ard": [mh.Gaussian(ARD), mh.Gaussian(3 * ARD), mh.Gaussian(ARD[::-1].copy()), mh.Laplace(ARD)],
    "restricted": [
        mh.Gaussian(1.0),
        mh.Gaussian(1.0).on([0, 2]),
        mh.Gaussian(2.0).on([0, 2]),
        mh.Laplace(1.0).on(1),
    ],
    "category": [
        mh.Gaussian(0.7).on([0, 1]) * mh.Delta(0.6).on(2),
        mh.Gaussian(1.4).on([0, 1]) * mh.Delta(0.6).on(2),
        mh.Gaussian(1.4).on([0, 1]) * mh.Delta(0.1).on(2),
        mh.Delta(0.6).on(2),
        mh.Delta().on(2),
    ],
    "others": [
        mh.Linear(0.3),
        mh.Linear(0.3),  # the same twice: neither may spoil the other's block
        mh.Polynomial(3),
        STANDARD,
        SquaredNorm(),
        mh.Gaussian(1.0) + mh.Laplace(2.0),
        2.5 * mh.Gaussian(1.0),
        mh.Gaussian(1.0) * mh.Laplace(2.0) * mh.Linear(1.0),
    ],
}


def test_units_of_columns_may_be_far_apart():
    """Lengthscales are taken relative to the largest: none may be rounded to 0."""
    Z = np.random.default_rng(0).normal(size=(20, 3))
    units = np.array([1e-9, 1.0, 1e9])
    near, far = (next(kernel_blocks([mh.Gaussian(ARD * u)], Z * u, Z * u)(slice(None))) for u in (1.0, units))
    assert_allclose(far, near, rtol=1e-10)


def rows(n, seed=0):
    """Points with duplicates, ties and a column of few values."""
    Z = np.random.default_rng([n, seed]).normal(size=(n, 3))
    Z[:, 2] = np.round(Z[:, 2])
    if n > 3:
        Z[1] = Z[0]
        Z[n // 2, :2] = Z[n // 3, :2]
    return Z


def dense(kernels, Z, V):
    """The same by matrices."""
    values, sums, diagonals, squares = [], [], [], []
    for k in kernels:
        K = np.asarray(k(Z), dtype=np.float64)
        diagonals.append(np.diag(K).copy())
        np.fill_diagonal(K, 0.0)
        values.append(np.einsum("bi,ij,bj->b", V, K, V, optimize=True))
        sums.append(K.sum(axis=1))
        squares.append((K**2).sum())
    return Forms(np.stack(values), np.stack(sums), np.stack(diagonals), np.array(squares))


def assert_same(found, expected, rtol=1e-11):
    for name in ("values", "rows", "diagonals", "squares"):
        a, b = getattr(found, name), getattr(expected, name)
        assert a.dtype == np.float64
        assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max(), err_msg=name)


@pytest.mark.parametrize("bank", BANKS)
def test_quadratic_forms_are_the_double_sums(bank):
    Z = rows(75)
    V = np.random.default_rng(1).normal(size=(7, 75))  # neither centred nor of two values
    assert_same(quadratic_forms(BANKS[bank], Z, V), dense(BANKS[bank], Z, V))


@pytest.mark.parametrize("n", [2, 3, 31, 32, 33, 64, 65, 97])
def test_edges_of_the_blocks(n, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 1)  # strips of 32 rows
    Z, V = rows(n), np.random.default_rng(2).normal(size=(4, n))
    kernels = BANKS["scales"] + BANKS["others"]
    assert_same(quadratic_forms(kernels, Z, V), dense(kernels, Z, V))


@pytest.mark.parametrize("n", [999, 1000, 1025])
def test_both_precisions(n):
    Z, V = rows(n), np.random.default_rng(3).normal(size=(5, n))
    kernels = [mh.Gaussian(0.3), mh.Gaussian(5.0), mh.Laplace(1.0), STANDARD]
    assert_same(quadratic_forms(kernels, Z, V), dense(kernels, Z, V), 1e-11 if n < 1000 else 3e-6)


@pytest.mark.parametrize(
    "kernel",
    [mh.Gaussian(0.05), mh.Gaussian(1.0), mh.Gaussian(10.0), mh.Laplace(3.0), STANDARD, mh.Delta(0.6).on(2)],
    ids=["narrow", "usual", "wide", "laplace", "moments", "category"],
)
def test_single_precision_is_far_below_the_spread_of_the_null(kernel, monkeypatch):
    n, m = 700, 500
    Z = rows(n + m)
    V = (np.random.default_rng(4).permuted(np.tile(np.arange(n + m), (40, 1)), axis=1) < n) - n / (n + m)
    single = quadratic_forms([kernel], Z, V).values[0]
    monkeypatch.setattr(module, "SINGLE_ROWS", 10**9)
    double = quadratic_forms([kernel], Z, V).values[0]
    assert np.std(single - double) < 1e-5 * double.std()
    assert np.abs(single - double).max() < 1e-3 * double.std()
    assert (single != double).any()  # or nothing was tested


def test_blocks_are_those_of_the_kernels_in_order():
    X, Y = rows(20, 1), rows(13, 2)
    for kernels in BANKS.values():
        for part in (slice(None), slice(3, 11)):
            for kernel, block in zip(kernels, kernel_blocks(kernels, X, Y)(part), strict=True):
                assert_allclose(block, kernel(X[part], Y), rtol=1e-12, atol=1e-14)


class Power(mh.Kernel):
    """A kernel of somebody's own, who wrote no more than needed."""

    def __init__(self, p):
        self.p = p

    def _plan(self, X, Y, xp):
        return lambda rows: (X[rows] @ Y.T) ** self.p

    def _diag(self, X, xp):
        return (X**2).sum(axis=1) ** self.p


def test_kernels_that_look_alike_are_not_taken_for_one():
    X, wide = rows(10), np.random.default_rng(0).normal(size=(10, 3))
    near, nearer = (
        Standardized(mh.Linear(), wide[0], wide[1] ** 2),
        Standardized(mh.Linear(), wide[0], wide[2] ** 2),
    )
    kernels = [Power(1), Power(2), mh.Gaussian(1.0) * Power(2), mh.Gaussian(1.0) * Power(4), near, nearer]
    for kernel, block in zip(kernels, kernel_blocks(kernels, X, X)(slice(None)), strict=True):
        assert_allclose(block, kernel(X), rtol=1e-12, atol=1e-14)


def test_blocks_may_be_overwritten():
    kernels = [mh.Linear(), mh.Linear(), mh.Delta().on(2), mh.Gaussian(1.0) * mh.Delta().on(2)]
    X = rows(10)
    for kernel, block in zip(kernels, kernel_blocks(kernels, X, X)(slice(None)), strict=True):
        assert_allclose(block, kernel(X), rtol=1e-12, atol=1e-14)
        block *= 0.0


@pytest.mark.parametrize(
    ("kernels", "count"),
    [
        ([mh.Gaussian(c) for c in (0.5, 1.0, 2.0)] + [mh.Matern(1.5, 1.0), mh.Cauchy(0.1)], 1),
        ([mh.Gaussian(c * ARD) for c in np.geomspace(0.1, 10, 7)], 1),  # multiples but for rounding
        ([mh.Gaussian(1.0), mh.Gaussian(1.0).on([0, 1])], 2),
        ([mh.Gaussian(ARD), mh.Gaussian(1.0)], 2),
        ([mh.Gaussian(c).on([0, 1]) * mh.Delta(0.5).on(2) for c in (1.0, 2.0)], 1),
    ],
)
def test_distances_are_shared(kernels, count, monkeypatch):
    calls = []
    plain = module.squared_distances
    monkeypatch.setattr(module, "squared_distances", lambda *a: calls.append(1) or plain(*a))
    kernel_blocks(kernels, rows(5), rows(5))
    assert len(calls) == count


def test_forms_of_features():
    Z = rows(60)
    V = np.random.default_rng(5).normal(size=(6, 60))
    kernel = MapKernel(lambda X: np.c_[np.sin(X), X**2, np.ones(len(X))], 7)
    assert_same(feature_forms(kernel, Z, V), dense([kernel], Z, V))


def test_forms_of_features_in_single_precision():
    Z = rows(1100)
    V = (np.random.default_rng(5).permuted(np.tile(np.arange(1100), (30, 1)), axis=1) < 400) - 400 / 1100
    kernel = mh.Fourier(50).fit(mh.Gaussian(1.0), Z, np.random.default_rng(0))
    found, expected = feature_forms(kernel, Z, V), dense([kernel], Z, V)
    assert np.abs(found.values - expected.values).max() < 1e-4 * expected.values.std()
    assert_same(found, expected, 1e-4)


def test_of_and_stack_are_inverse():
    Z, V = rows(12), np.ones((2, 12))
    whole = quadratic_forms(BANKS["scales"], Z, V)
    parts = [whole.of(i) for i in range(len(BANKS["scales"]))]
    assert parts[1].values.shape == (1, 2)
    again = Forms.stack(parts)
    for name in ("values", "rows", "diagonals", "squares"):
        assert_array_equal(getattr(again, name), getattr(whole, name))


class TestFarFromTheOrigin:
    """Units with a large offset (years, time stamps) must not cost precision."""

    @pytest.mark.parametrize("offset", [1e4, 1e9])
    def test_single_precision(self, offset):
        Z = np.random.default_rng(6).normal(size=(1000, 1))
        V = (np.random.default_rng(7).permuted(np.tile(np.arange(1000), (30, 1)), axis=1) < 500) - 0.5
        kernels = [
            mh.Gaussian(0.5),
            mh.Laplace(1.0),
            Standardized(mh.Polynomial(2, 0.0)),
            Standardized(SquaredNorm()),
        ]
        here, there = (quadratic_forms([k.resolve(A) for k in kernels], A, V).values for A in (Z, Z + offset))
        spread = here.std(axis=1)
        assert (np.abs(here - there).max(axis=1) < 1e-3 * spread).all()
