"""Bags: from lists and tables, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import muhat as mh
from muhat._bags import batches_of, target_of

TABLE = {
    "region": ["b", "a", "b", "c", "a", "b"],
    "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "y": [1, 2, 3, 4, 5, 6],
    "w": [1.0, 1.0, 2.0, 1.0, 3.0, 1.0],
    "note": list("uvwxyz"),
    "target": [7.0, 8.0, 7.0, 9.0, 8.0, 7.0],
}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame])
def test_a_table_becomes_bags_by_group(make):
    bags = mh.Bags.from_table(make(TABLE), "region", ["x", "y"], weights="w")
    assert bags.labels == ["a", "b", "c"]
    assert_array_equal(bags.parts[0], [[2, 2], [5, 5]])
    assert_array_equal(bags.parts[1], [[1, 1], [3, 3], [6, 6]])
    assert_array_equal(bags.weights(1), [0.25, 0.5, 0.25])
    assert_array_equal(bags.sizes, [2, 3, 1])
    assert_array_equal(target_of(make(TABLE), "region", "target"), [8.0, 7.0, 9.0])
    assert mh.Bags.from_table(make(TABLE), "region").dimension == 4  # all numbers


def test_blocks_hold_every_point_once():
    rng = np.random.default_rng(0)
    bags = mh.Bags([rng.normal(size=(n, 2)) for n in (5, 1, 9, 3)])
    for rows in (1, 2, 4, 100):
        blocks = list(bags.blocks(rows))
        assert_array_equal(np.concatenate([b.X for b in blocks]), np.concatenate(bags.parts))
        assert all(len(b.X) <= rows and len(set(b.of)) == len(b.of) for b in blocks)
        sums = np.zeros((4, 2))
        for b in blocks:
            sums[b.of] += b.sums(b.X)
        np.testing.assert_allclose(sums, [p.mean(axis=0) for p in bags.parts], rtol=1e-12)


def test_an_iterator_is_never_held_whole():
    alive = 0
    most = 0

    def source():
        nonlocal alive
        for _ in range(50):
            alive += 10
            yield np.zeros((10, 1))

    seen = 0
    for batch in batches_of(source(), 35):
        most = max(most, alive - seen)
        seen += int(batch.sizes.sum())
    assert seen == 500
    assert most == 40


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mh.Bags([]), "bags is empty"),
        (lambda: mh.Bags([np.ones((2, 1)), np.empty((0, 1))]), "Bag 1 is empty"),
        (lambda: mh.Bags([np.ones((2, 1)), np.ones((2, 2))]), "Bag 1 has 2 columns but bag 0 has 1"),
        (lambda: mh.Bags([[[1.0]], [[np.nan]]], labels=["u", "v"]), "Bag 'v' contains NaN"),
        (lambda: mh.Bags([[[1.0]], [[2.0]]], labels=["u", "u"]), "labels has 'u' twice"),
        (lambda: mh.Bags([[[1.0]]], weights=[[-1.0]]), "weights of bag 0"),
        (lambda: mh.Bags([[[1.0]]], weights=[[1.0], [1.0]]), "weights has 2 entries for 1 bags"),
        (lambda: mh.Bags(np.ones((3, 2))), r"one array \(bags, points, d\)"),
        (lambda: mh.Bags.from_table(TABLE, "nowhere"), "no column 'nowhere'; it has"),
        (
            lambda: mh.Bags.from_table(
                {**TABLE, "region": np.array([1, "1", *"abcd"], dtype=object)}, "region"
            ),
            "same name, of types .'int', 'str'.",
        ),
        (lambda: mh.Bags.from_table({**TABLE, "region": [None, *"aabbc"]}, "region"), "missing at row 0"),
        (lambda: target_of({**TABLE, "target": range(6)}, "region", "target"), "Group 'a' has 2 values"),
        (lambda: mh.GaussianBags(np.zeros((2, 1)), [[1.0], [0.0]]), "Bag 1 has no covariance"),
        (lambda: mh.GaussianBags(np.zeros((2, 1)), np.ones((3, 1))), "covs has shape"),
    ],
)
def test_bad_bags_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_kinds():
    with pytest.raises(TypeError, match="from_table"):
        mh.Bags(pd.DataFrame(TABLE))
    with pytest.raises(TypeError, match="'note' must hold numbers"):
        mh.Bags.from_table(TABLE, "region", ["note"])
    dates = pd.DataFrame({**TABLE, "when": pd.date_range("2020-01-01", periods=6)})
    with pytest.raises(TypeError, match=r"Column 'when' must hold numbers, but holds dates.*df\['when'\] = "):
        mh.Bags.from_table(dates, "region", ["when"])


def test_a_bag_with_a_gap_is_told_in_words():
    with pytest.raises(
        ValueError, match=r"^Bag 'AL01' contains NaN \(first at row 1.*Drop or impute"
    ) as caught:
        mh.Bags([[[1.0], [np.nan]], [[2.0]]], labels=["AL01", "AL02"])
    assert "isfinite" not in str(caught.value)
