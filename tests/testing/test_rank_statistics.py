"""Statistics of ranks in the independence test: by their definition, with ties, and what they find."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.testing.nulls import row_permutations
from muhat.testing.rank_statistics import (
    MOST_PAIRS,
    SEEN,
    WEIGHTS,
    mid_ranks,
    numbers,
    rank_statistics,
)


def by_definition(x, y):
    """The five statistics of these pairs, without ties."""
    n = len(x)
    u, v = (np.argsort(np.argsort(z, axis=0), axis=0) + 0.5 for z in (x, y))
    u, v = u / n, v / n
    H = np.eye(n) - 1 / n
    out = []
    for near, far in ((u, v), (v, u)):
        distances = np.abs(far[:, None] - far).sum(axis=2)
        centred = distances - distances.mean(axis=0) - distances.mean(axis=1)[:, None]
        for weights in WEIGHTS:
            total = 0.0
            for column in near.T:
                lag = np.rint(n * np.abs(column[:, None] - column)).astype(int)
                W = np.r_[0.0, weights, np.zeros(n)][lag]
                total -= (W * centred).sum() / 2
            out.append(total)
    a, b = (np.cos(2 * np.pi * z) for z in (u, v))
    return np.array([*out, np.square(a.T @ H @ b).sum()])


@pytest.mark.parametrize("n", [3, 4, 30])
def test_are_what_they_say(n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 3))
    orders = row_permutations(n, 20, rng)
    expected = np.stack([by_definition(x, y[order]) for order in orders], axis=1)
    found = rank_statistics(x, y, orders, rng)
    assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    swapped = rank_statistics(y, x, np.argsort(orders, axis=1), rng)
    assert_allclose(swapped[[2, 3, 0, 1, 4]], found, rtol=1e-5, atol=1e-5)


def test_neither_monotone_maps_nor_the_order_of_columns_matter():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    orders = row_permutations(40, 20, rng)
    found = rank_statistics(x, y, orders, np.random.default_rng(1))
    mapped = rank_statistics(np.exp(x[:, [2, 0, 1]]), y[:, ::-1] ** 3, orders, np.random.default_rng(1))
    assert_allclose(mapped, found, rtol=1e-6)


def test_columns_of_numbers_that_vary():
    Z = np.array([[1.0, 0.0, 3.0], [1.0, 1.0, 4.0]])
    assert_allclose(numbers(Z, {}), Z[:, 1:])
    assert_allclose(numbers(Z, {2: ["a", "b"]}), Z[:, [1]])


def test_equal_values_have_equal_ranks():
    assert_allclose(mid_ranks(np.array([[2.0], [1.0], [2.0], [3.0]])), [[0.5], [0.125], [0.5], [0.875]])


def test_two_values_of_equal_number_have_no_spread():
    x = np.repeat([[0.0], [1.0]], 10, axis=0)
    rng = np.random.default_rng(0)
    found = rank_statistics(x, rng.normal(size=(20, 1)), row_permutations(20, 19, rng), rng)
    assert (found[-1] == 0).all()


def test_many_columns_are_not_looked_at_pair_by_pair():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20, 1 + MOST_PAIRS))
    found = rank_statistics(x, y[:, :1], row_permutations(20, 19, rng), rng)
    assert (found[:-1] == 0).all()
    assert found[-1].std() > 0


def oscillation(n, d, rng):
    x = rng.uniform(-1, 1, (n, d))
    return x, np.sin(12 * np.pi * x) + 0.3 * rng.normal(size=(n, d))


def rotated_square(n, d, rng):
    """Uniform on squares, turned by 22°: there is no function either way."""
    a, b = rng.uniform(-1, 1, (2, n, d))
    c, s = np.cos(np.pi / 8), np.sin(np.pi / 8)
    return a * c - b * s, a * s + b * c


@pytest.mark.slow
@pytest.mark.parametrize("make", [oscillation, rotated_square])
@pytest.mark.parametrize("d", [1, 3])
def test_find_what_kernels_miss(make, d):
    """Kernels alone find 1 to 5 of 12."""
    found = [
        mh.independence_test(
            *make(120, d, np.random.default_rng([d, i])), permutations=99, random_state=i
        ).pvalue
        <= 0.05
        for i in range(12)
    ]
    assert np.mean(found) >= 0.6


def test_the_summary_says_where_it_shows():
    x, y = oscillation(120, 1, np.random.default_rng(0))
    found = mh.independence_test(x, y, permutations=99, random_state=0)
    assert found.seen == SEEN[0]
    assert "16 kernels and 5 statistics of ranks" in found.summary
    assert "It shows most in how y varies between neighbours in x" in found.summary
    other = mh.independence_test(y, x, permutations=99, random_state=0)
    assert other.seen == SEEN[2]


def test_no_ranks_beside_given_kernels_and_categories():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 30))
    table = pd.Series(np.where(x > 0, "a", "b"))
    for found in (
        mh.independence_test(x, y, mh.Gaussian(1.0), permutations=19, random_state=0),
        mh.independence_test(x, y, [mh.Gaussian(1.0)], permutations=19, random_state=0),
        mh.independence_test(table, y, permutations=19, random_state=0),
        mh.independence_test(x, y, method="wild", permutations=19, random_state=0),
    ):
        assert found.ranks == 0
        assert found.seen == ""


@pytest.mark.slow
def test_ties_keep_the_level():
    """Whole numbers on both sides, few rows: 39 permutations have this level exactly."""
    rng = np.random.default_rng(0)
    rejected = [
        mh.independence_test(
            rng.poisson(1.0, 25), rng.integers(4, size=25), permutations=39, random_state=rng
        ).pvalue
        <= 0.05
        for _ in range(150)
    ]
    assert np.mean(rejected) <= 0.1
