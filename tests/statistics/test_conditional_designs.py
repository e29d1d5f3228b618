"""The default conditional test on a part of the designs of the benchmark: level, power, self-check."""

import numpy as np
import pytest

import muhat as mh
from benchmarks.conditional import ALTERNATIVES, NULLS

pytestmark = pytest.mark.statistics
ROWS, COLUMNS, RUNS = 200, 3, 25


def found(draw, method=None):
    """Whether each run rejects, and whether it is trusted."""
    out = []
    for run in range(RUNS):
        data = draw(ROWS, COLUMNS, np.random.default_rng([run, COLUMNS, 1]))
        test = mh.conditional_independence_test(*data, method=method, permutations=99, random_state=run)
        out.append((test.pvalue <= 0.05, test.trusted))
    return np.array(out).T


def test_nulls_are_seldom_rejected():
    shares = {}
    for name in ("linear", "sine, square", "exponential", "additive", "heavy tails"):
        rejected, trusted = found(NULLS[name])
        shares[name] = float((rejected & trusted).mean())
    print({name: round(share, 2) for name, share in shares.items()}, flush=True)
    assert max(shares.values()) <= 0.16
    assert np.mean(list(shares.values())) <= 0.09


def test_kci_rejects_them_and_says_that_it_cannot_be_trusted():
    for name in ("sine, square", "steps"):
        rejected, trusted = found(NULLS[name], "kci")
        assert rejected.mean() >= 0.9
        assert (rejected & trusted).mean() <= 0.1


@pytest.mark.parametrize("name", ["linear", "square", "scale"])
def test_dependence_is_found_and_trusted(name):
    rejected, trusted = found(ALTERNATIVES[name])
    print(f"{name}: {rejected.mean():.2f}", flush=True)
    assert (rejected & trusted).mean() >= 0.8
