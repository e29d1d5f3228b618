"""Fourier features in octaves: the kernel they stand for, sums, slopes, Gaussians."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.gram.octaves import circle, octave_kernel, octave_sum
from muhat.kernels.on_distributions import inner_products
from muhat.operators.bags import mean_features

LONGEST, WEIGHTS = np.array([2.0, 3.0]), np.array([1.0, 0.5, 0.0, 2.0])


@pytest.fixture(scope="module")
def small():
    return octave_kernel(LONGEST, WEIGHTS, 80, np.random.default_rng(0))


def test_there_are_as_many_features_as_asked_for(small):
    assert small.size == small.features(np.zeros((1, 2))).shape[1] == 80


def test_the_circle_is_that_of_numpy():
    turns = np.random.default_rng(0).uniform(-50, 50, 5000)
    out = np.empty(5000, dtype=complex)
    circle(turns.copy(), out)
    assert_allclose(out, np.exp(2j * np.pi * turns), atol=2e-13)
    assert_allclose(np.abs(out), 1, atol=1e-13)


def test_features_come_to_the_kernel():
    X = np.random.default_rng(1).standard_normal((8, 2))
    exact = octave_sum(LONGEST, WEIGHTS)(X)
    errors = [
        np.abs(octave_kernel(LONGEST, WEIGHTS, p, np.random.default_rng(0))(X) - exact).max()
        for p in (200, 80_000)
    ]
    assert errors[1] < 0.05
    assert errors[1] < errors[0] / 4


def test_features_are_cosines_and_sines(small):
    X = np.random.default_rng(2).standard_normal((5, 2))
    q = len(small.frequencies)
    for j, group in enumerate(small.groups()):
        angles = 2**j * X @ small.frequencies.T
        want = np.sqrt(WEIGHTS[j] / q) * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        assert_allclose(small.features(X)[:, group], want.reshape(5, -1), atol=1e-13)


def test_sums_and_values_are_those_of_the_features(small):
    rng = np.random.default_rng(3)
    X, w, G = rng.standard_normal((9, 2)), rng.random(9), rng.standard_normal((2, small.size))
    pieces = [slice(0, 4), slice(4, 9)]
    Phi = small.features(X)
    assert_allclose(small.sums(X, w, pieces), [w[p] @ Phi[p] for p in pieces], atol=1e-13)
    for got, p, g in zip(small.values(X, G, pieces), pieces, G, strict=True):
        assert_allclose(got, Phi[p] @ g, atol=1e-12)


def test_drift_is_the_slope_of_a_shift(small):
    rng = np.random.default_rng(4)
    X, g, h = rng.standard_normal((6, 2)), rng.standard_normal(small.size), 1e-5

    def value(step):
        return small.features(X + step).mean(axis=0) @ g

    want = [(value(h * e) - value(-h * e)) / (2 * h) for e in np.eye(2)]
    got = small.drift(small.features(X).mean(axis=0)[None], g[None])[0]
    assert_allclose(got, want, atol=1e-7)


def test_gaussians_have_the_embedding_of_their_closed_form():
    rng = np.random.default_rng(5)
    bags = mh.GaussianBags(rng.standard_normal((4, 2)), rng.uniform(0.2, 2, (4, 2)))
    first = octave_kernel(LONGEST, WEIGHTS, 40_000, rng)
    U = mean_features(bags, first)
    assert_allclose(U @ U.T, inner_products(bags, bags, octave_sum(LONGEST, WEIGHTS)), atol=0.05)
    sds = np.sqrt(np.diagonal(bags.covs, axis1=1, axis2=2))
    draws = [m + sd * rng.standard_normal((20_000, 2)) for m, sd in zip(bags.means, sds, strict=True)]
    few = octave_kernel(LONGEST, WEIGHTS, 80, rng)
    assert_allclose(mean_features(bags, few), mean_features(mh.Bags(draws), few), atol=0.02)
