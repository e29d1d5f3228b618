"""Columns of two samples by themselves: counts of all rows, level, ties, categories."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import muhat as mh
from muhat._tables import Encoder
from muhat.testing.columns import Cells, columns_alone, count_columns

FEW = {"permutations": 99, "random_state": 0}


def alone(x, y, permutations=99, encoder=None, seed=0):
    rng = np.random.default_rng(seed)
    names = [str(j) for j in range(x.shape[1])]
    return columns_alone(count_columns(x, y, encoder or Encoder(), rng), names, permutations, rng)


class TestCells:
    def test_every_value_has_its_cell_if_they_are_few(self):
        z = np.array([[3.0], [1.0], [3.0], [7.0]])
        cells = Cells.of(z, 0, Encoder())
        assert cells(z).tolist() == [1, 0, 1, 2]
        assert cells.count(z, np.array([0, 0, 1, 1]), 2).tolist() == [[1, 1, 0], [0, 1, 1]]

    def test_many_values_are_cut_at_quantiles(self):
        z = np.random.default_rng(0).standard_cauchy((6400, 1))
        counts = np.bincount(Cells.of(z, 0, Encoder())(z))
        assert len(counts) == 64
        assert counts.min() == counts.max() == 100

    def test_rare_categories_share_a_cell(self):
        z = np.r_[np.repeat(np.arange(256), 2), np.arange(256, 300)][:, None].astype(float)
        encoder = Encoder(["c"], {0: np.arange(300).astype(str)})
        assert np.bincount(Cells.of(z, 0, encoder)(z))[-1] == 44


def test_categories_that_share_a_cell_are_told_apart_all_the_same():
    """With more categories than cells the effect is that of the column, not of the cells."""
    rng = np.random.default_rng(0)
    x, y = (pd.DataFrame({"c": [f"{side}{k}" for k in rng.integers(0, 400, 1500)]}) for side in "ab")
    found = mh.two_sample_test(x, y, **FEW)
    assert found.columns()[0].effect_size > 0.95
    assert found.effect_size > 0.95


def test_all_rows_are_used_and_said_to_be():
    """A small shift that 2 000 rows do not show."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30_000, 2)), rng.normal(size=(25_000, 2))
    y[:, 1] += 0.06
    result = mh.two_sample_test(x, y, mh.Linear(), representation=mh.Nystrom(4), **FEW)
    first, second = result.columns()
    assert (first.name, first.pvalue, first.rows) == ("x[1]", 0.01, (30_000, 25_000))
    assert second.pvalue > 0.05
    low, high = first.interval
    assert low < 0.517 < high  # Φ(0.06/√2)
    assert high - low < 0.03


def test_by_hand():
    """Shares of cells, with the kernel between them."""
    x, y = np.array([[0.0], [0.0], [1.0]]), np.array([[1.0], [1.0], [0.0], [1.0]])
    counts = count_columns(x, y, Encoder(), np.random.default_rng(0))[0]
    assert counts.x.sum(axis=0).tolist() == [2, 1]
    assert counts.y.sum(axis=0).tolist() == [1, 3]


@pytest.mark.parametrize("d", [1, 5])
def test_constants_show_nothing(d):
    x, y = np.ones((20, d)), np.ones((30, d))
    for column in alone(x, y):
        assert (column.effect_size, column.interval, column.pvalue) == (0.5, (0.5, 0.5), 1.0)


def test_a_category_among_many():
    rng = np.random.default_rng(0)
    x, y = (pd.DataFrame({"c": rng.integers(500, size=2000).astype(str)}) for _ in range(2))
    assert mh.two_sample_test(x, y, **FEW).columns()[0].pvalue > 0.05
    y.loc[:150, "c"] = "7"
    assert mh.two_sample_test(x, y, **FEW).columns()[0].pvalue == 0.01


DESIGNS = {
    "few rows": lambda rng: rng.normal(size=(20, 3)),
    "ties": lambda rng: rng.poisson(0.7, size=(30, 3)).astype(float),
    "heavy tails": lambda rng: rng.standard_cauchy((40, 2)),
    "blocks": lambda rng: rng.exponential(size=(3000, 2)),
}


@pytest.mark.statistics
@pytest.mark.parametrize("design", DESIGNS)
def test_level(design):
    rng = np.random.default_rng(0)
    runs = 400
    hits = sum(
        min(
            c.pvalue
            for c in alone(DESIGNS[design](rng), DESIGNS[design](rng), 39, seed=int(rng.integers(1 << 30)))
        )
        <= 0.05
        for _ in range(runs)
    )
    # Ties make a test reject less often, never more.
    low, high = binom.ppf([0.0015, 0.9985], runs, 0.05)
    assert (0 if design == "ties" else low) <= hits <= high


def test_a_single_column_has_the_answer_of_the_test():
    """Values that repeat within cells: the kernels of the test see them, counts of cells do not."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 3000, 400) * 2.0, rng.integers(0, 6000, 400) * 1.0
    found = mh.two_sample_test(x, y, permutations=199, random_state=0)
    (alone,) = found.columns()
    assert (alone.pvalue, alone.effect_size, alone.interval) == (
        found.pvalue,
        found.effect_size,
        found.effect_interval,
    )
    assert alone.rows == (400, 400)


def test_of_a_single_column_missing_cells_are_told():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 100))
    x[:20] = np.nan
    (alone,) = mh.two_sample_test(x, y, permutations=99, random_state=0).columns()
    assert alone.missing == (0.2, 0.0)
    assert alone.pvalue <= 0.05
