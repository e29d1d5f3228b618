"""Missing cells in tests: compared as values, dropped with a word about it, or refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom

import muhat as mh
from muhat.testing.missing import MissingCells

FEW = {"permutations": 99, "random_state": 0}


def table(n, seed, share, kind=pd.DataFrame):
    """A time that is missing for a share of the rows, a number and a category."""
    rng = np.random.default_rng(seed)
    time = np.where(rng.random(n) < share, np.nan, rng.normal(size=n))
    columns = {"time": time, "b": rng.normal(size=n), "c": rng.choice(["p", "q"], n)}
    if kind is np.ndarray:
        return np.stack([columns["time"], columns["b"]], axis=1)
    if kind is pl.DataFrame:
        return pl.DataFrame(columns).with_columns(pl.col("time").fill_nan(None))
    return pd.DataFrame(columns)


def test_dropping_may_leave_nothing_to_test():
    x = np.where(np.arange(60) % 3 == 0, 1.0, np.nan)
    y = np.random.default_rng(0).normal(size=60)
    with pytest.raises(
        ValueError, match=r"x is the same once 40 rows with missing cells are left out.*compare"
    ):
        mh.independence_test(x, y, missing="drop", **FEW)
    mh.independence_test(x, y, **FEW)


class TestTwoSamples:
    @pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, np.ndarray])
    def test_more_missing_cells_are_a_difference(self, kind):
        x, y = table(200, 0, 0.05, kind), table(200, 1, 0.3, kind)
        found = mh.two_sample_test(x, y, **FEW)
        name = "x[0]" if kind is np.ndarray else "time"
        assert found.pvalue == 0.01
        assert set(found.missing.shares) == {name}
        assert found.missing.shares[name] == tuple(
            np.isnan(np.asarray(t[name] if kind is not np.ndarray else t[:, 0], dtype=float)).mean()
            for t in (x, y)
        )
        first = found.columns()[0]
        assert (first.name, first.pvalue, first.missing) == (name, 0.01, found.missing.shares[name])
        assert len(found.columns()) == x.shape[1]  # an indicator is part of its column
        assert "Missing cells" in found.summary
        assert np.isfinite(found.witness(x[:5])).all()
        found.plot()

    @pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, np.ndarray])
    def test_dropping_says_what_it_does(self, kind):
        x, y = table(200, 0, 0.05, kind), table(200, 1, 0.3, kind)
        found = mh.two_sample_test(x, y, missing="drop", **FEW)
        assert found.pvalue > 0.05
        assert found.missing.dropped == tuple(200 - r for r in found.rows)
        assert found.missing.pvalue < 1e-6
        assert "hide or make a difference" in found.summary
        assert "samples differ in how many rows have one" in found.summary

    def test_refusing(self):
        x, y = table(50, 0, 0.0), table(50, 1, 0.3)
        with pytest.raises(ValueError, match=r"y\['time'\] contains NaN"):
            mh.two_sample_test(x, y, missing="refuse", **FEW)
        with pytest.raises(ValueError, match="missing must be one of"):
            mh.two_sample_test(x, y, missing="ignore", **FEW)

    def test_without_missing_cells_nothing_changes(self):
        x, y = table(50, 0, 0.0), table(50, 1, 0.0)
        found = {how: mh.two_sample_test(x, y, missing=how, **FEW) for how in ("compare", "drop", "refuse")}
        assert len({(r.pvalue, r.statistic, r.effect_size) for r in found.values()}) == 1
        assert "issing" not in found["compare"].summary

    def test_a_missing_category_is_a_category(self):
        x, y = table(150, 0, 0.0), table(150, 1, 0.0)
        y.loc[:60, "c"] = None
        found = mh.two_sample_test(x, y, **FEW)
        assert found.pvalue == 0.01
        assert found.columns()[0].name == "c"
        assert found.encoder.categories[2].tolist() == ["(missing)", "p", "q"]

    def test_a_column_without_any_cell(self):
        x, y = table(60, 0, 1.0), table(60, 1, 1.0)
        assert mh.two_sample_test(x, y, **FEW).pvalue > 0.05
        assert mh.two_sample_test(x, table(60, 1, 0.0), **FEW).pvalue == 0.01
        with pytest.raises(ValueError, match="rows without missing cells"):
            mh.two_sample_test(x, y, missing="drop", **FEW)

    def test_gaps_in_the_same_rows_count_once(self):
        x, y = (table(80, s, 0.2, np.ndarray) for s in (0, 1))
        x, y = (np.c_[t, 2 * t[:, 0]] for t in (x, y))
        assert mh.two_sample_test(x, y, **FEW).encoder.indicators == {0: 3, 2: 3}

    def test_infinite_cells_are_not_missing(self):
        x, y = table(40, 0, 0.2), table(40, 1, 0.2)
        x.loc[3, "b"] = np.inf
        with pytest.raises(ValueError, match="inf"):
            mh.two_sample_test(x, y, **FEW)

    def test_points_with_other_gaps_are_refused(self):
        x, y = table(40, 0, 0.2), table(40, 1, 0.2)
        found = mh.two_sample_test(x, y, **FEW)
        points = x.head(3).assign(b=np.nan)
        with pytest.raises(ValueError, match=r"points\['b'\] has missing"):
            found.witness(points)


class TestPairs:
    def test_what_is_missing_may_depend(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=200)
        y = np.where(x > 1, np.nan, rng.normal(size=200))
        assert mh.independence_test(x, y, **FEW).pvalue == 0.01
        found = mh.independence_test(x, y, missing="drop", **FEW)
        assert found.pvalue > 0.05
        assert found.rows == 200 - found.missing.dropped[0] == np.isfinite(y).sum()
        assert "hide or make a dependence" in found.summary
        found.plot()

    def test_given_what_is_missing(self):
        rng = np.random.default_rng(0)
        x, y, z = rng.normal(size=(3, 120))
        z[::7] = np.nan
        for how in ("compare", "drop"):
            found = mh.conditional_independence_test(x, y, z, missing=how, null="gamma")
            assert 0 <= found.pvalue <= 1
            assert found.missing.shares == {"z": (18 / 120,)}

    def test_other_lengths_are_refused(self):
        x, y = np.r_[np.nan, np.arange(9.0)], np.arange(9.0)
        for how in ("compare", "drop"):
            with pytest.raises(ValueError, match="rows"):
                mh.independence_test(x, y, missing=how, **FEW)


def test_words_of_no_missing_cells():
    assert MissingCells().sentence == ""


@pytest.mark.statistics
def test_level_when_missing_cells_are_compared():
    """The same share of gaps in both: 5% of the nulls are rejected."""
    rng = np.random.default_rng(0)
    runs = 300
    hits = sum(
        mh.two_sample_test(
            *(table(40, int(rng.integers(1 << 30)), 0.2) for _ in range(2)), permutations=39, random_state=rng
        ).pvalue
        <= 0.05
        for _ in range(runs)
    )
    low, high = binom.ppf([0.0015, 0.9985], runs, 0.05)
    assert low <= hits <= high
