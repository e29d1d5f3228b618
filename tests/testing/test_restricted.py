"""Which arrangements a design allows, against exhaustive enumeration."""

from itertools import permutations, product
from math import comb, factorial, inf

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from muhat.testing.restricted import (
    Cells,
    Design,
    Restriction,
    label_cells,
    lost_by_centring,
    members_of,
    orders_of,
    row_cells,
    signs_of,
)

STRATA = {
    "one": np.zeros(6, int),
    "two": np.array([0, 0, 0, 1, 1, 1]),
    "uneven": np.array([0, 1, 0, 0, 2, 1]),
}
GROUPS = {
    "pairs": np.array([0, 0, 1, 1, 2, 2]),
    "scattered": np.array([0, 1, 2, 0, 1, 2]),
    "uneven": np.array([0, 1, 1, 2, 3, 3]),
}


def rng():
    return np.random.default_rng(0)


def distinct(rows):
    return {tuple(row) for row in np.asarray(rows).tolist()}


def every_order(strata, groups, y, constant):
    """All y's that whole groups can lead to, found by trying every order of the groups."""
    units = np.arange(len(strata)) if groups is None else groups
    members = [np.flatnonzero(units == u) for u in range(units.max() + 1)]
    out = set()
    for order in permutations(range(len(members))):
        fits = all(
            strata[members[u][0]] == strata[members[v][0]]
            and (constant or len(members[u]) == len(members[v]))
            for u, v in enumerate(order)
        )
        if fits:
            moved = np.empty(len(strata))
            for u, v in enumerate(order):
                moved[members[u]] = y[members[v]][0] if constant else y[members[v]]
            out.add(tuple(moved.tolist()))
    return out


class TestPairs:
    @pytest.mark.parametrize("strata", STRATA)
    @pytest.mark.parametrize("y", [np.arange(6.0), np.array([0.0, 1, 1, 0, 2, 2])], ids=["distinct", "ties"])
    def test_rows_within_strata(self, strata, y):
        design = Design(STRATA[strata])
        cells, constant = row_cells(design, y[:, None])
        expected = every_order(STRATA[strata], None, y, False)
        orders = orders_of(cells, cells.arrangements(1000, rng()), constant)
        assert_array_equal(orders[0], np.arange(6))
        assert cells.count == len(orders) == len(expected)
        assert distinct(y[orders]) == expected

    @pytest.mark.parametrize("groups", GROUPS)
    @pytest.mark.parametrize("values", ["distinct", "constant"])
    def test_whole_groups(self, groups, values):
        groups = GROUPS[groups]
        y = np.arange(6.0) if values == "distinct" else np.array([3.0, 1.0, 1.0, 2.0])[groups]
        cells, constant = row_cells(Design(np.zeros(6, int), groups), y[:, None])
        assert constant == (values == "constant")
        expected = every_order(np.zeros(6, int), groups, y, constant)
        orders = orders_of(cells, cells.arrangements(1000, rng()), constant)
        assert cells.count == len(orders) == len(expected)
        assert distinct(y[orders]) == expected

    def test_groups_within_strata(self):
        groups, strata = np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 0, 0, 0, 1, 1, 1, 1])
        y = np.arange(8.0)
        cells, constant = row_cells(Design(strata, groups), y[:, None])
        assert distinct(y[orders_of(cells, cells.arrangements(1000, rng()), constant)]) == every_order(
            strata, groups, y, constant
        )

    def test_random_arrangements_are_uniform(self):
        y = np.array([0.0, 1, 2, 3, 3, 3])
        cells, constant = row_cells(Design(STRATA["two"]), y[:, None])
        assert cells.count == 6
        big = Cells(cells.unit, cells.cell, np.arange(6))  # told apart, so that there are 36
        orders = orders_of(big, big.arrangements(34, rng()), constant)
        assert len(orders) == 35
        many = np.concatenate(
            [orders_of(big, big.arrangements(34, np.random.default_rng(s)), constant)[1:] for s in range(200)]
        )
        seen, counts = np.unique(y[many], axis=0, return_counts=True)
        assert len(seen) == 6
        assert abs(counts / counts.sum() - 1 / 6).max() < 0.02
        assert distinct(np.sort(many[:, :3], axis=1)) == {(0, 1, 2)}


class TestLabels:
    FIRST = np.array([True, True, True, False, False, False])

    def labels(self, strata, groups=None, first=FIRST):
        cells, strata = label_cells(Design(strata, groups), first)
        members = members_of(cells, cells.arrangements(1000, rng()))
        assert_array_equal(members[0], first)
        assert cells.count == len(members) == len(distinct(members))
        return distinct(members), strata

    def test_free(self):
        found, _ = self.labels(STRATA["one"])
        assert len(found) == comb(6, 3)

    def test_within_strata(self):
        strata = np.array([0, 0, 1, 0, 1, 1])
        found, _ = self.labels(strata)
        expected = {
            h
            for h in product([False, True], repeat=6)
            if sum(np.array(h)[strata == 0]) == 2 and sum(np.array(h)[strata == 1]) == 1
        }
        assert found == expected

    def test_groups_of_one_sample_move_whole_whatever_their_size(self):
        groups = np.array([0, 0, 1, 2, 3, 3])
        found, _ = self.labels(STRATA["one"], groups)
        expected = set()
        for labels in product([False, True], repeat=4):
            if sum(labels) == 2:
                expected.add(tuple(np.array(labels)[groups].tolist()))
        assert found == expected

    def test_a_group_in_both_samples_is_a_stratum(self):
        groups = np.array([0, 1, 2, 0, 1, 2])
        found, strata = self.labels(STRATA["one"], groups)
        assert len(found) == 2**3
        assert all(h[i] != h[i + 3] for h in found for i in range(3))
        assert_array_equal(strata[:3], strata[3:])
        assert len(set(strata)) == 3

    def test_groups_of_both_kinds(self):
        groups = np.array([0, 1, 1, 0, 2, 3])  # 0 is in both samples
        found, _ = self.labels(STRATA["one"], groups)
        assert len(found) == 2 * 3


@pytest.mark.parametrize("sizes", [(4,), (3, 5), (1, 2, 2)])
def test_counts(sizes):
    strata = np.repeat(np.arange(len(sizes)), sizes)
    cells, _ = row_cells(Design(strata), np.arange(len(strata))[:, None])
    assert cells.count == np.prod([factorial(s) for s in sizes])
    assert cells.stuck.sum() == sum(s == 1 for s in sizes)


def test_many_arrangements_are_not_counted():
    cells, _ = row_cells(Design(np.zeros(40, int)), np.arange(40)[:, None])
    assert cells.count == inf
    assert len(cells.arrangements(19, rng())) == 20


def test_all_signs_if_few():
    W = signs_of(np.array([0, 0, 1, 2]), 99, rng())
    assert_array_equal(W[0], 1)
    assert len(W) == len(distinct(W)) == 4
    assert_array_equal(W[:, 0], W[:, 1])
    assert len(signs_of(np.arange(30), 99, rng())) == 100


def test_centring_is_that_of_weighted_means_in_strata():
    F, strata = np.random.default_rng(0).normal(size=(6, 2)), STRATA["uneven"]
    w = np.arange(1.0, 7.0)
    found = Design(strata, None, w).centre(F)
    for s in range(3):
        mean = np.average(F[strata == s], axis=0, weights=w[strata == s])
        assert_allclose(found[strata == s], F[strata == s] - mean, atol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
def test_multipliers_have_the_mean_of_independent_features(weighted):
    """E‖Σ wᵢ φ̃ᵢψ̃ᵢᵀ‖² for independent φ and ψ of unit variance, against the sum over rows."""
    w = np.array([5.0, 1.0, 1.0, 2.0, 1.0]) if weighted else np.ones(5)
    strata, p = np.array([0, 0, 0, 1, 1]), None
    expected = found = 0.0
    s = lost_by_centring(strata, np.arange(5), w)
    for k in (0, 1):
        p = w[strata == k] / w[strata == k].sum()
        H = np.diag(p) - np.outer(p, p)
        expected += w[strata == k].sum() ** 2 * (H**2).sum()
        left = 1 - 2 * p + (p**2).sum()
        found += ((w * s)[strata == k] ** 2 * left**2).sum()
    assert_allclose(found, expected, rtol=1e-12)


def test_what_is_said():
    said = Restriction(groups=6, arrangements=20, complete=True, smallest=0.1)
    assert said.sentence == (
        "6 groups of rows moved, each as a whole. There are only 20 arrangements: the smallest p-value is "
        "0.1, so that nothing can be found at the level 5%."
    )
    assert Restriction(strata=3, fixed=2).sentence == (
        "Rows moved within 3 strata only. 2 rows cannot move, and add nothing."
    )
    assert "both samples" in Restriction(groups=5, shared=5).sentence
    assert Restriction(arrangements=inf).record["arrangements"] is None
