"""Bits of a pair, x first or y first."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import comb
from scipy.stats import norm

from muhat.learning import code_length as c


def pair(n=200, seed=0, step=0.1):
    rng = np.random.default_rng(seed)
    x = np.round(rng.gamma(2.0, size=n) / step) * step
    return x, np.round((np.sin(x) + 0.3 * rng.standard_normal(n)) / step) * step


def test_bits_of_whole_numbers():
    """Rissanen's code: log₂ 16 + log₂ 4 + log₂ 2 = 7; that of all numbers together is a law."""
    assert_allclose(c.whole_bits(np.array([1.0, 2.0, 16.0])) - np.log2(2.865064), [0, 1, 7])
    assert_allclose(c.whole_bits(np.array([15.2])), c.whole_bits(np.array([16.0])))
    z = np.arange(1.0, 1e6)
    assert (np.diff(c.whole_bits(z)) > 0).all()
    assert 0.8 < np.sum(2.0 ** -c.whole_bits(z)) < 1


def test_bits_of_a_coefficient_by_hand():
    """0.0123 is 1230 of the fifth place: a sign, 1230, and 1 + 5."""
    expected = 1 + c.whole_bits(np.array(1230.0)) + c.whole_bits(np.array(6.0))
    assert_allclose(c.coefficient_bits(np.array([0.0123, -0.0123])), expected)
    assert_allclose(
        c.coefficient_bits(np.array(5000.0)), 1 + c.whole_bits(np.array(5000.0)) + c.whole_bits(np.array(1.0))
    )
    assert np.isfinite(c.coefficient_bits(np.zeros(1))).all()


def test_bits_of_the_rest_are_the_normal_likelihood_at_a_resolution():
    r = np.random.default_rng(0).normal(0, 0.2, 30)
    expected = -np.log2(norm.pdf(r, scale=np.sqrt(np.mean(r**2))) * 1e-3).sum()
    assert_allclose(c.rest_bits(np.sum(r**2), 30, 1e-3), expected)
    assert c.rest_bits(np.array(0.0), 30, 1e-3) == 0


def brute_force(x, y, finest):
    """Every subset of the repeated values, coded by itself, for each function; n small."""
    n = len(y)
    F = c.functions(x, 1 - x, finest[0])

    def line(target, f):
        A = np.stack([np.ones(len(target)), f], axis=1)
        coefficients, *_ = np.linalg.lstsq(A, target, rcond=None)
        mean = target.mean()
        cost = c.coefficient_bits(coefficients[1]) + c.coefficient_bits(np.array(max(mean, 1 - mean)))
        return float(cost), (target - A @ coefficients) ** 2

    fits = [line(y, f) for f in F]
    cost, squares = min(fits, key=lambda fit: fit[0] + float(c.rest_bits(fit[1].sum(), n, finest[1])))
    values = [v for v in np.unique(x) if np.sum(x == v) >= c.REPEATED]
    least = np.inf
    for f in range(len(F)):
        own = {}
        for v in values:
            mine = np.sort(y[x == v])
            ranks = np.linspace(-c.SPAN, c.SPAN, len(mine))
            price, rest = line(mine, c.functions(ranks, -ranks, finest[0])[f])
            own[v] = price + float(c.rest_bits(rest.sum(), len(mine), finest[1]))
        for k in range(len(values) + 1):
            for chosen in itertools.combinations(values, k):
                kept = ~np.isin(x, chosen)
                bits = float(c.rest_bits(squares[kept].sum(), kept.sum(), finest[1]))
                bits += sum(own[v] for v in chosen) + np.log2(comb(n - 1, k)) + np.log2(k + 1)
                least = min(least, bits)
    return cost + least


@pytest.mark.parametrize("seed", range(6))
def test_given_x_the_bits_are_the_least_of_all_subsets(seed):
    rng = np.random.default_rng(seed)
    x = rng.choice([0.0, 0.25, 0.5, 1.0], 60)
    y = np.where(x > 0.3, rng.random(60) ** 3, 0.8 * x + 0.01 * rng.random(60)).round(3)
    y = (y - y.min()) / np.ptp(y)
    assert_allclose(c.conditional_bits(x, y, (0.01, 0.001)), brute_force(x, y, (0.01, 0.001)), rtol=1e-9)


def test_without_repeated_values_it_is_one_function():
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(50))
    x[0], x[-1] = 0, 1
    y = x**2 + 1e-3 * rng.random(50)
    y = (y - y.min()) / np.ptp(y)
    f = x**2 - np.mean(x**2)
    slope = y @ f / (f @ f)
    expected = c.rest_bits(np.sum((y - y.mean() - slope * f) ** 2), 50, 1e-3)
    expected += c.coefficient_bits(slope) + c.coefficient_bits(np.array(max(y.mean(), 1 - y.mean())))
    assert_allclose(c.conditional_bits(x, y, (1e-3, 1e-3)), expected, rtol=1e-9)


def test_exchange_scale_sign_place_and_order():
    x, y = pair()
    bits = c.bits_saved(x, y)
    assert abs(bits) > 1
    assert c.bits_saved(y, x) == -bits
    for a, b in ((3 - 2 * x, y), (x, 1e200 * y), (-1e-200 * x, 5 - y), (x[::-1], y[::-1])):
        assert_allclose(c.bits_saved(a, b), bits, rtol=1e-6)
    assert c.bits_saved(x, x) == 0


def test_a_function_that_has_no_reverse_is_shorter_forward():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.integers(-10, 11, 400) / 10
        y = np.round(x**2 + 0.05 * rng.standard_normal(400), 2)
        assert c.bits_saved(x, y) > 0.2 * 400


def test_laws_at_repeated_values_count():
    """y given x is uniform between ends that chance chose for each x: no function of x explains it."""
    rng = np.random.default_rng(0)
    x = np.repeat(np.arange(20.0), 40)
    y = np.concatenate([np.linspace(*ends, 40) for ends in rng.random((20, 2))])
    y = y[np.concatenate([40 * i + rng.permutation(40) for i in range(20)])]
    assert c.bits_saved(x, y) > len(x)
    assert c.code_evidence(x, y) == 1


def test_evidence_is_the_signed_root_of_bits_a_point():
    x, y = pair()
    bits = c.bits_saved(x, y) / len(x)
    assert 0 < abs(bits) < 1
    assert_allclose(c.code_evidence(x, y), np.sign(bits) * np.sqrt(abs(bits)))
    assert_allclose(c.code_evidence(y, x), -c.code_evidence(x, y))


def same_however_written(x, y):
    """The evidence, that no sign, scale, order or exchange may change."""
    value = c.code_evidence(x, y)
    assert abs(value) <= 1
    assert_allclose(c.code_evidence(y, x), -value, atol=1e-9)
    for a, b in ((-x, y), (x, 0.1 - 0.3 * y), (1e3 * x + 7, 1e-7 * y), (x[::-1], y[::-1])):
        assert_allclose(c.code_evidence(a, b), value, atol=1e-6)
    return value


@pytest.mark.parametrize("n", [20, 21, 1000])
def test_coarse_and_degenerate_pairs(n):
    rng = np.random.default_rng(n)
    x = np.arange(n) % 2 + 0.0
    for y in (x, -x, rng.standard_normal(n), np.eye(n)[0], rng.standard_cauchy(n) ** 3):
        same_however_written(x, y)


def test_pairs_of_few_values_are_the_same_however_written():
    """Slopes that are powers of ten but for their last digit, which must not cost a place."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        same_however_written(rng.integers(0, 5, 100) + 0.0, rng.integers(0, 3, 100) + 0.0)


@pytest.mark.parametrize("n", [20, 25, 50, 1000])
def test_a_change_of_units_has_no_direction(n):
    for seed in range(10):
        celsius = np.random.default_rng(seed).normal(15, 8, n).round(1)
        for other in (32 + 1.8 * celsius, 7 - celsius / 3, 1e-3 * celsius):
            assert abs(c.code_evidence(celsius, other)) < 1e-6
