"""Causal graphs from nonlinear data: kernel tests against partial correlations."""

import numpy as np
import pytest

import muhat as mh
from benchmarks.discovery import nonlinear
from muhat.testing.graph import cpdag_of, shd

pytestmark = pytest.mark.statistics


def test_kernel_tests_recover_nonlinear_graphs_that_partial_correlation_misses():
    recovered, distance = {"kci": 0, "fisher-z": 0}, {"kci": 0, "fisher-z": 0}
    for seed in range(10):
        dag, Z = nonlinear(np.random.default_rng(seed), d=5, n=400)
        truth = cpdag_of(dag)
        for test in recovered:
            found = mh.discover(Z, 0.01, test)
            recovered[test] += np.array_equal(found.adjacency, truth)
            distance[test] += shd(found, truth)
    print(recovered, distance)
    assert recovered["kci"] >= 6
    assert recovered["kci"] >= recovered["fisher-z"] + 3
    assert distance["kci"] < distance["fisher-z"] / 2
