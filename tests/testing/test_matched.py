"""Units that both samples hold: found, left out of the effect size, and said."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_hypergeom

import muhat as mh
from muhat.testing.matched import ALPHA, evenness_pvalue
from muhat.testing.two_sample import two_sample_test

FEW = {"permutations": 99, "random_state": 0}


def panel(n, rng):
    return pd.DataFrame({"country": [f"c{i:04d}" for i in range(n)], "u": rng.normal(size=n)})


class TestBound:
    @pytest.mark.parametrize("t", [[2, 3, 4], [1, 1, 1, 4], [5, 5], [1, 2, 2, 2, 3]])
    def test_it_is_above_the_exact_probability(self, t):
        t = np.array(t)
        n = int(t.sum()) // 2
        cells = np.stack(np.meshgrid(*(np.arange(k + 1) for k in t), indexing="ij"), axis=-1)
        tables = cells.reshape(-1, len(t))
        tables = tables[tables.sum(axis=1) == n]
        chances = multivariate_hypergeom.pmf(tables, t, n)
        bounds = np.array([evenness_pvalue(a, t - a) for a in tables])
        # Bounds of P(S ≤ s): no level α is exceeded.
        for alpha in np.unique(bounds):
            assert chances[bounds <= alpha].sum() <= alpha + 1e-9

    def test_units_that_come_once_in_both(self):
        for units in (25, 48, 5000):
            assert evenness_pvalue(np.ones(units), np.ones(units)) < ALPHA

    def test_groups_of_fixed_sizes(self):
        assert evenness_pvalue(np.full(9, 50), np.full(9, 100)) < ALPHA

    def test_two_or_three_categories_are_no_sign(self):
        assert evenness_pvalue([500, 500], [500, 500]) > ALPHA
        assert evenness_pvalue([30, 30, 30], [30, 30, 30]) > ALPHA

    def test_units_without_partners_and_empty_levels(self):
        assert evenness_pvalue([1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]) == 1.0
        assert evenness_pvalue([3, 0], [4, 0]) == 1.0
        assert evenness_pvalue([2, 2, 0], [1, 3, 0]) == evenness_pvalue([2, 2], [1, 3])

    @pytest.mark.parametrize("levels", [3, 30, 300, 3000])
    def test_samples_drawn_apart_do_not_look_matched(self, levels):
        rng = np.random.default_rng(levels)
        shares = rng.dirichlet(np.full(levels, 0.5))
        for _ in range(20):
            a, b = rng.multinomial(400, shares), rng.multinomial(700, shares)
            assert evenness_pvalue(a, b) > 10 * ALPHA


@pytest.mark.parametrize("n", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_the_same_units_in_both_samples_are_no_effect(n):
    rng = np.random.default_rng(0)
    result = mh.two_sample_test(panel(n, rng), panel(n, rng), **FEW)
    assert result.matched == ("country",)
    low, high = result.effect_interval
    assert low < 0.5 < high
    assert abs(result.effect_size - 0.5) < 0.1
    assert "The values of country are the same in both samples" in result.summary
    country = next(c for c in result.columns() if c.name == "country")
    assert country.effect_size == 0.5
    assert country.interval[0] < 0.5 < country.interval[1]


def test_other_columns_are_still_seen():
    rng = np.random.default_rng(0)
    x, y = panel(80, rng), panel(80, rng)
    y["u"] += 1.5
    result = mh.two_sample_test(x, y, **FEW)
    assert (result.matched, result.pvalue) == (("country",), 0.01)
    assert 0.75 < result.effect_size < 0.95
    assert "tells which is which" in result.summary
    assert "leaves it out" in result.summary


def test_nothing_but_matched_units():
    x = panel(60, np.random.default_rng(0))[["country"]]
    y = x.assign(country=[*x["country"][1:], "another"])
    result = mh.two_sample_test(x, y, **FEW)
    assert (result.effect_size, result.matched) == (0.5, ("country",))


def test_units_that_both_share_in_part():
    """Too few partners to be sure of: the rate of a level speaks for its sample or not at all."""
    x = pd.DataFrame({"unit": [f"u{i}" for i in range(200)]})
    y = pd.DataFrame({"unit": [f"u{i}" for i in range(190, 390)]})
    result = two_sample_test(x, y, **FEW)
    assert result.matched == ()
    assert result.effect_interval[0] < 0.5 < result.effect_interval[1]


def test_samples_drawn_apart_are_not_matched():
    rng = np.random.default_rng(0)
    x, y = (pd.DataFrame({"c": rng.integers(100, size=300).astype(str)}) for _ in range(2))
    result = mh.two_sample_test(x, y, **FEW)
    assert result.matched == ()
    assert "matched" not in result.summary
