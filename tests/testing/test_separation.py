"""Effect sizes: AUC, DeLong, folds, coverage, and what the sentence says."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

import muhat as mh
from muhat._tables import Encoder
from muhat.testing.separation import Ridge, combine, newcombe, placements, separation

FEW = {"permutations": 99, "random_state": 0}


def test_auc_and_delong_by_definition():
    rng = np.random.default_rng(0)
    x, y = rng.integers(5, size=30) + 1, rng.integers(6, size=40)
    scores = np.arange(7)
    a, b = np.bincount(x, minlength=7), np.bincount(y, minlength=7)
    auc, first, second = placements(scores, a, b)
    wins = (x[:, None] > y) + 0.5 * (x[:, None] == y)
    assert_allclose(auc, wins.mean())
    assert_allclose(auc, roc_auc_score(np.r_[np.ones(30), np.zeros(40)], np.r_[x, y]))
    assert_allclose(first, ((wins.mean(axis=1) - auc) ** 2).sum())
    assert_allclose(second, ((wins.mean(axis=0) - auc) ** 2).sum())


def test_perfect_separation_of_few_rows_is_uncertain():
    part = placements(np.arange(2), np.array([0, 5]), np.array([5, 0]))
    found = combine([part], [(5, 5)])
    assert found.auc == 1.0
    assert found.interval[0] < 0.8
    low, high = newcombe(0.5, 10_000, 10_000)
    assert_allclose([0.5 - low, high - 0.5], 1.96 * np.sqrt(2 / 60_000), rtol=0.05)


def test_a_sample_is_not_told_from_itself():
    x = np.random.default_rng(0).normal(size=(50, 2))
    assert separation(x, x[::-1], Encoder(), np.random.default_rng(0)).auc == 0.5


def test_the_order_of_rows_and_columns_does_not_matter():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(70, 3)), rng.normal(size=(60, 3)) + 0.3
    a = separation(x, y, Encoder(), np.random.default_rng(0))
    b = separation(x[::-1], y[rng.permutation(60)], Encoder(), np.random.default_rng(0))
    c = separation(x[:, [2, 0, 1]], y[:, [2, 0, 1]], Encoder(), np.random.default_rng(0))
    assert_allclose([b.auc, c.auc], a.auc, atol=1e-12)
    assert_allclose([b.interval, c.interval], [a.interval] * 2, atol=1e-12)


@pytest.mark.slow
def test_another_seed_changes_little():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(800, 5)), rng.normal(size=(800, 5))
    y[:, 0] *= 1.6
    found = [separation(x, y, Encoder(), np.random.default_rng(s)).auc for s in range(4)]
    assert np.ptp(found) < 0.03


@pytest.mark.slow
def test_an_interaction_is_seen():
    """A sign that goes with another column: no column differs; a boosted classifier has about 0.70."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 2000, 6))
    y[:, 0] = np.sign(y[:, 1]) * np.abs(y[:, 0])
    assert separation(x, y, Encoder(), np.random.default_rng(0)).auc > 0.68


class TestSentences:
    def test_where_nothing_was_found(self):
        x, y = np.random.default_rng(0).normal(size=(2, 100, 2))
        found = mh.two_sample_test(x, y, **FEW)
        assert found.pvalue > 0.05
        assert "tells which is which" not in found.summary
        assert "does not show that the samples are alike" in found.summary
        low, high = found.effect_interval
        assert low < 0.5 < high
        assert f"between {100 * low:.0f}% and {100 * high:.0f}%" in found.summary

    def test_where_something_was_found(self):
        x, y = np.random.default_rng(0).normal(size=(2, 100, 2))
        found = mh.two_sample_test(x, y + 1.0, **FEW)
        assert f"which is which {100 * found.effect_size:.0f}% of the time (95% interval" in found.summary

    def test_no_strength_without_a_finding(self):
        x, y = np.random.default_rng(0).normal(size=(2, 100))
        found = mh.independence_test(x, y, **FEW)
        assert found.pvalue > 0.05
        assert "Strength" not in found.summary
        assert "does not show that they are independent" in found.summary
        given = mh.conditional_independence_test(x, y, x + y[::-1], null="gamma")
        assert ("Strength" in given.summary) == (given.pvalue <= 0.05)


@pytest.mark.statistics
@pytest.mark.parametrize(("n", "d"), [(15, 2), (60, 1), (100, 12)])
def test_the_interval_covers_chance(n, d):
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(150):
        low, high = separation(*rng.normal(size=(2, n, d)), Encoder(), np.random.default_rng(seed)).interval
        covered += low <= 0.5 <= high
    assert covered >= 0.92 * 150


class TestManyLevels:
    """Categories with more levels than coordinates."""

    def table(self, seed, shift):
        rng = np.random.default_rng(seed)
        return pd.DataFrame({"day": [f"d{i}" for i in shift + rng.integers(0, 100, 800)]})

    def test_that_no_sample_shares_tell_them_apart(self):
        result = mh.two_sample_test(self.table(0, 0), self.table(1, 100), random_state=0)
        assert result.effect_size > 0.97

    def test_that_are_drawn_alike_tell_nothing(self):
        aucs = []
        for seed in range(8):
            result = mh.two_sample_test(self.table(seed, 0), self.table(100 + seed, 0), random_state=0)
            aucs.append(result.effect_size)
            assert result.effect_interval[0] < 0.5 < result.effect_interval[1]
        assert abs(np.mean(aucs) - 0.5) < 0.015

    def test_a_row_has_no_part_in_its_own_rate(self):
        from muhat.testing.separation import level_rates

        codes, keys = np.arange(10), np.arange(10)
        first, train = np.arange(10) < 5, np.ones(10, dtype=bool)
        assert (level_rates(codes, first, train, keys) == 0).all()


@pytest.mark.statistics
@pytest.mark.parametrize("levels", [2, 10, 40])
def test_ties_do_not_make_an_effect(levels):
    """Values that both samples share are no copies of rows: intervals of null effects hold ½."""
    rng, held = np.random.default_rng(levels), 0
    for _ in range(60):
        Z = rng.integers(0, levels, (600, 1)).astype(float)
        encoder = Encoder(None, {0: np.arange(levels).astype(str)})
        low, high = separation(Z[:300], Z[300:], encoder, np.random.default_rng(0)).interval
        held += low <= 0.5 <= high
    assert held >= 53


def test_a_rising_weight_is_never_negative():
    rng = np.random.default_rng(0)
    first = np.arange(80) < 40
    Phi = np.column_stack([rng.normal(size=80), rng.normal(size=80) - first, rng.normal(size=80) + first])
    free, rising = Ridge(Phi, first), Ridge(Phi, first, rising=2)
    assert free.weights[1] < 0 < free.weights[2]
    assert rising.weights[1] == 0
    without = Ridge(Phi[:, [0, 2]], first)
    assert_allclose(rising.weights[[0, 2]], without.weights)
    assert_allclose(rising(Phi), without(Phi[:, [0, 2]]))


def test_the_test_and_the_effect_may_disagree():
    x, y = np.random.default_rng(0).normal(size=(2, 30))
    found = dataclasses.replace(mh.two_sample_test(x, y, **FEW), effect_interval=(0.6, 0.9), pvalue=0.3)
    assert "between 60% and 90%" in found.summary
    assert "the test and the effect disagree" in found.summary
    assert "more rows" not in found.summary


def test_worse_than_chance_is_chance():
    """Partners in the other sample speak against a row: numbers of a panel."""
    x = np.sort(np.random.default_rng(0).normal(size=(300, 1)), axis=0)
    result = mh.two_sample_test(x, x + 1e-6, **FEW)
    for interval in (result.effect_interval, result.columns()[0].interval):
        assert interval[0] < 0.5 < interval[1]
