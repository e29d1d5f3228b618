"""Where there is nothing to find, tests at 0.05 reject in 5% of the cases: every method, every kernel choice.

Each rate is over 1 000 nulls with 100 rows (of each sample), a quarter of them from each of four kinds of
data; it must lie in the 99% binomial band.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

import muhat as mh

RUNS, ROWS, LEVEL = 1000, 100, 0.05
BAND = (0.033, 0.069)
# (1 + permutations) · 0.05 is whole, so that a permutation test has exactly this level.
PERMUTATIONS, FEW = 99, 39

pytestmark = pytest.mark.statistics


def draw(rng, kind, n=ROWS):
    """Normal, heavy-tailed, with ties, and numbers beside a category: 1 to 3 columns."""
    if kind == 0:
        return rng.normal(size=(n, 1))
    if kind == 1:
        return rng.standard_t(2, size=(n, 3))
    if kind == 2:
        return rng.poisson(1.0, size=(n, 2))
    return pd.DataFrame(
        {"a": rng.exponential(size=n), "c": rng.choice(["p", "q", "r"], n, p=[0.6, 0.3, 0.1])}
    )


GIVEN = (
    mh.Gaussian(0.5),
    mh.Laplace(1.0) + mh.Linear(),
    mh.Matern(1.5, 1.0),
    mh.Gaussian(0.5).on(0) * mh.Delta(0.3).on(1),
)


def series(rng, memory, n=ROWS):
    """An autoregression that has run in."""
    return lfilter([1.0], [1.0, -memory], rng.normal(size=n + 50))[50:]


def rejections(name, pvalue, runs=RUNS):
    rng = np.random.default_rng(0)
    rate = float(np.mean([pvalue(rng, i % 4) <= LEVEL for i in range(runs)]))
    print(f"level of {name}: {rate:.3f} over {runs}", flush=True)
    return rate


def assert_level(name, pvalue, runs=RUNS):
    rate = rejections(name, pvalue, runs)
    low, high = BAND if runs == RUNS else binom.ppf([0.0015, 0.9985], runs, LEVEL) / runs
    assert low <= rate <= high, f"{name} rejects {rate:.3f} of the nulls"


def count(kernel):
    return FEW if kernel == "aggregate" else PERMUTATIONS


TWO_SAMPLE = [
    ("gamma", "median"),
    ("gamma", "given"),
    ("wild", "median"),
    ("wild", "aggregate"),
    ("permutation", "median"),
    ("permutation", "given"),
    ("permutation", "list"),
    ("permutation", "aggregate"),
]


@pytest.mark.parametrize(("method", "kernel"), TWO_SAMPLE)
def test_two_sample(method, kernel):
    def pvalue(rng, kind):
        chosen = {"given": GIVEN[kind], "list": [GIVEN[kind], 2.0 * GIVEN[kind] * GIVEN[kind]]}.get(
            kernel, kernel
        )
        x, y = draw(rng, kind), draw(rng, kind)
        return mh.two_sample_test(x, y, chosen, method, permutations=count(kernel), random_state=rng).pvalue

    assert_level(f"two_sample_test, {method}, {kernel}", pvalue)


def test_two_sample_with_one_sample_much_smaller():
    def pvalue(rng, kind):
        x, y = draw(rng, kind, 5), draw(rng, kind, 60)
        return mh.two_sample_test(x, y, permutations=FEW, random_state=rng).pvalue

    # The heavier tails and ties of small samples: the same band.
    assert_level("two_sample_test, permutation, 5 against 60 rows", pvalue)


@pytest.mark.parametrize("kernel", ["given", "aggregate"])
def test_two_sample_with_features(kernel):
    def pvalue(rng, kind):
        kind = kind % 3 if kernel == "given" else kind
        chosen = mh.Gaussian(0.5) if kernel == "given" else kernel
        return mh.two_sample_test(
            draw(rng, kind, 50),
            draw(rng, kind, 50),
            chosen,
            representation=mh.Fourier(40),
            permutations=FEW,
            random_state=rng,
        ).pvalue

    assert_level(f"two_sample_test, permutation, {kernel}, Fourier", pvalue)


@pytest.mark.parametrize(("method", "kernel"), TWO_SAMPLE)
def test_independence(method, kernel):
    def pvalue(rng, kind):
        other = int(rng.integers(4))
        sides = [
            {"given": GIVEN[k], "list": [GIVEN[k], 2.0 * GIVEN[k] * GIVEN[k]]}.get(kernel, kernel)
            for k in (kind, other)
        ]
        return mh.independence_test(
            draw(rng, kind), draw(rng, other), *sides, method, permutations=count(kernel), random_state=rng
        ).pvalue

    name = f"independence_test, {method}, {kernel}"
    if method == "wild":  # heavy tails make it careful
        assert 0.02 <= rejections(name, pvalue) <= BAND[1]
    else:
        assert_level(name, pvalue)


# Additive noise: then the residuals are independent too.
SHAPES = (lambda t: t, np.tanh, lambda t: np.sin(2 * t), lambda t: t**2)


def given_z(rng, kind, d):
    z = rng.normal(size=(ROWS, d)) if kind < 3 else rng.uniform(-2, 2, size=(ROWS, d))
    f, g = SHAPES[kind], SHAPES[int(rng.integers(4))]
    noise = rng.normal(size=(2, ROWS)) if kind % 2 else rng.standard_t(4, size=(2, ROWS)) / np.sqrt(2)
    return f(z).sum(axis=1) + noise[0], g(z[:, 0]) + noise[1], z


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(
    ("method", "null"), [("kci", "gamma"), ("kci", "bootstrap"), ("residual", "bootstrap")]
)
def test_conditional_independence(method, null, d):
    def pvalue(rng, kind):
        return mh.conditional_independence_test(
            *given_z(rng, kind, d),
            method=method,
            null=null,
            permutations=PERMUTATIONS if method == "kci" else FEW,
            random_state=rng,
        ).pvalue

    runs = RUNS if d == 1 else 400  # a run with three columns takes twice as long
    assert_level(f"conditional_independence_test, {method}, {null}, {d} columns", pvalue, runs)


@pytest.mark.parametrize("test", ["two_sample_test", "independence_test"])
def test_wild_bootstrap_of_series(test):
    """Series that remember: a permutation test rejects far too often, the wild bootstrap about as it should.

    It is right for long series only; at 400 rows we ask for no more than twice the level.
    """

    def pvalue(method):
        def run(rng, _):
            x, y = series(rng, 0.5, 400), series(rng, 0.5, 400)
            kernels = ["median"] * (2 if test == "independence_test" else 1)
            return getattr(mh, test)(
                x, y, *kernels, method, permutations=PERMUTATIONS, random_state=rng
            ).pvalue

        return run

    wild = rejections(f"{test}, wild, median, series", pvalue("wild"), 400)
    assert 0.02 <= wild <= 0.1, f"wild rejects {wild:.3f} of the nulls"
    if test == "two_sample_test":  # else the memory would not matter
        assert rejections(f"{test}, permutation, median, series", pvalue("permutation"), 100) > 0.12


@pytest.mark.parametrize("test", ["two_sample_test", "independence_test"])
def test_wild_bootstrap_of_short_series(test):
    """A hundred rows with a memory of a few, and many kernels: it was 9.8% and 7.6%."""

    def pvalue(rng, _):
        x, y = series(rng, 0.3), series(rng, 0.3)
        return getattr(mh, test)(x, y, method="wild", permutations=PERMUTATIONS, random_state=rng).pvalue

    assert rejections(f"{test}, wild, aggregate, short series", pvalue, 400) <= 0.08


@pytest.mark.parametrize("test", ["two_sample_test", "independence_test"])
def test_learned_kernel(test):
    """Fewer runs, since each learns anew; the band is that of so many."""

    def pvalue(rng, kind):
        x, y = draw(rng, kind), draw(rng, kind)
        kernels = ("learn",) if test == "two_sample_test" else ("learn", "learn")
        return getattr(mh, test)(x, y, *kernels, permutations=FEW, random_state=rng).pvalue

    low, high = binom.ppf([0.005, 0.995], 200, LEVEL) / 200
    assert low <= rejections(f"{test}, permutation, learn", pvalue, 200) <= high
