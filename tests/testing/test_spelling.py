"""Categories that two samples may spell differently, as a result says them."""

import numpy as np
import pandas as pd
import pytest

import muhat as mh

FEW = {"permutations": 19, "random_state": 0}
LEVELS = ["u", "v"] * 20


def said(first, second):
    x, y = (pd.DataFrame({"a": range(40), "c": levels}) for levels in (first, second))
    return mh.two_sample_test(x, y, **FEW)


def test_alike_samples_raise_no_doubt():
    assert said(LEVELS, LEVELS).doubts == ()
    assert mh.two_sample_test([[1.0], [2.0]] * 5, [[1.0], [2.0]] * 5, **FEW).doubts == ()


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (["U", "V"] * 20, "x and y have no category in common (e.g. 'u' and 'U')"),
        (["u ", "v"] * 20, "'u' and 'u ' may mean the same"),
        (["p", "q"] * 20, "no category in common"),
    ],
)
def test_other_spellings_are_told_and_not_merged(second, words):
    found = said(LEVELS, second)
    (line,) = found.doubts
    assert line.startswith("Column 'c': ")
    assert words in line
    assert line in found.summary
    assert found.pvalue == 0.05


def test_a_word_for_missing_cells():
    found = said(["u", "unknown"] * 20, ["u", None] * 20)
    assert "'unknown' in x may mean a missing cell, which y has" in found.doubts[0]


def test_a_key_does_not_tell_samples_apart():
    rng = np.random.default_rng(0)
    x, y = (
        pd.DataFrame({"id": [f"{side}{i}" for i in range(60)], "v": rng.normal(size=60)}) for side in "ab"
    )
    found = mh.two_sample_test(x, y, permutations=99, random_state=0)
    (said,) = found.doubts
    assert "'id' has another category in every row" in said
    assert "tells them apart" not in found.summary
