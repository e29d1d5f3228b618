"""Bags of a table that is read in blocks give the answers of those in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import muhat as mh
from muhat import _streamed_bags
from muhat.models import distribution_base

dd = pytest.importorskip("dask.dataframe")
COLUMNS = ["a", "b"]


def _table(count, seed, shuffled=True):
    """Bags whose spread is their target, in no order: each lies in many partitions."""
    rng = np.random.default_rng(seed)
    parts = []
    for i in range(count):
        m, spread = int(rng.integers(20, 60)), rng.uniform(0.3, 2)
        X = rng.normal(size=2) + spread * rng.normal(size=(m, 2))
        label = f"bag {i}"
        parts.append(pd.DataFrame({"g": label, "k": i, "y": spread, "a": X[:, 0], "b": X[:, 1]}))
    table = pd.concat(parts, ignore_index=True)
    table["w"] = rng.uniform(0.5, 2, len(table))
    table["c"] = np.where(table["y"] > 1, "wide", "narrow")
    return table.sample(frac=1, random_state=0).reset_index(drop=True) if shuffled else table


TABLE, NEW = _table(150, 0), _table(25, 1)


def streamed(form, table, folder, weights=None):
    """The bags in a form, and the column of their groups."""
    if form == "dask":
        return mh.Bags.from_table(dd.from_pandas(table, npartitions=7), "g", COLUMNS, weights)
    path = folder / f"{len(table)}.{form}"
    numbers = table.drop(columns=["g", "c"])
    if form == "csv":
        numbers.to_csv(path, index=False, float_format="%.17g")
    else:
        numbers.to_parquet(path, row_group_size=500)
    return mh.Bags.from_table(path, "k", COLUMNS, weights)


def in_memory(form, table, weights=None):
    return mh.Bags.from_table(table, "g" if form == "dask" else "k", COLUMNS, weights)


def close(a, b, tolerance=1e-8):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("form", ["dask", "parquet", "csv"])
@pytest.mark.parametrize("weights", [None, "w"], ids=["even", "weights"])
def test_bags(form, weights, tmp_path):
    here, there = in_memory(form, TABLE, weights), streamed(form, TABLE, tmp_path, weights)
    assert isinstance(there, _streamed_bags.StreamedBags)
    assert here.labels == there.labels
    for name in ("sizes", "effective_sizes", "means"):
        close(getattr(here, name), getattr(there, name), 1e-12)
    some = there.select([5, 2])
    close(some.parts[1], here.parts[2], 1e-15)
    if weights:
        close(some.weights(0), here.weights(5), 1e-15)


@pytest.mark.parametrize("form", ["dask", "parquet"])
def test_targets(form, tmp_path):
    streamed("parquet", TABLE, tmp_path)
    table: Any = (
        dd.from_pandas(TABLE, npartitions=7) if form == "dask" else tmp_path / f"{len(TABLE)}.parquet"
    )
    group = "g" if form == "dask" else "k"
    close(mh.Bags.targets(table, group, "y"), mh.Bags.targets(TABLE, group, "y"), 0)
    with pytest.raises(ValueError, match="values of 'a'"):
        mh.Bags.targets(table, group, "a")


REPRESENTATIONS = {
    "by cost": None,
    "fourier": mh.Fourier(60),
    "nystrom": (mh.Nystrom(40), mh.Nystrom(50)),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dask", "parquet"])
@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize("weights", [None, "w"], ids=["even", "weights"])
def test_regression(form, representation, weights, tmp_path):
    y = mh.Bags.targets(TABLE, "g" if form == "dask" else "k", "y")
    given: Any = {"representation": REPRESENTATIONS[representation], "random_state": 0}
    here = mh.DistributionRegressor(**given).fit(in_memory(form, TABLE, weights), y)
    there = mh.DistributionRegressor(**given).fit(streamed(form, TABLE, tmp_path, weights), y)
    assert there.stretch_ == pytest.approx(here.stretch_, rel=1e-8)
    new = streamed(form, NEW, tmp_path, weights)
    for a, b in zip(
        here.predict(in_memory(form, NEW, weights), return_std=True),
        there.predict(new, return_std=True),
        strict=True,
    ):
        close(a, b, 1e-7 if representation == "nystrom" else 1e-8)


def test_kernel_on_bags_as_they_are(tmp_path):
    """Without the place apart."""
    y = mh.Bags.targets(TABLE, "g", "y")
    given: Any = {"representation": mh.Fourier(60), "random_state": 0, "inner": mh.Gaussian(1.0)}
    here = mh.DistributionRegressor(**given).fit(in_memory("dask", TABLE), y)
    there = mh.DistributionRegressor(**given).fit(streamed("dask", TABLE, tmp_path), y)
    for a, b in zip(
        here.predict(in_memory("dask", NEW), return_std=True),
        there.predict(streamed("dask", NEW, tmp_path), return_std=True),
        strict=True,
    ):
        close(a, b)


@pytest.mark.slow
def test_classification(tmp_path):
    y = mh.Bags.targets(TABLE, "g", "c")
    assert (y == mh.Bags.targets(dd.from_pandas(TABLE, npartitions=3), "g", "c")).all()
    given: Any = {"representation": mh.Fourier(60), "random_state": 0}
    here = mh.DistributionClassifier(**given).fit(in_memory("dask", TABLE), y)
    there = mh.DistributionClassifier(**given).fit(streamed("dask", TABLE, tmp_path), y)
    # Of an optimiser that stops within its tolerance.
    a, b = here.predict_proba(in_memory("dask", NEW)), there.predict_proba(streamed("dask", NEW, tmp_path))
    close(a, b, 1e-6)


@pytest.fixture
def small(monkeypatch):
    """Few bags in the sample, few points of each, few bags a pass."""
    monkeypatch.setattr(distribution_base, "SAMPLE_BAGS", 60)
    monkeypatch.setattr(distribution_base, "SAMPLE", 30)
    monkeypatch.setattr(_streamed_bags, "PASS_ELEMENTS", 60 * 40)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dask", "parquet"])
@pytest.mark.parametrize("block", [1 << 22, 900], ids=["", "small blocks"])
def test_more_than_the_sample(small, form, block, tmp_path, monkeypatch):
    from muhat.engine import passes

    monkeypatch.setattr(passes, "BLOCK_ELEMENTS", block)
    monkeypatch.setattr(passes, "FEWEST_ROWS", 10)
    y = mh.Bags.targets(TABLE, "g" if form == "dask" else "k", "y")
    given: Any = {"representation": mh.Fourier(60), "random_state": 0}
    here = mh.DistributionRegressor(**given).fit(in_memory(form, TABLE), y)
    bags = streamed(form, TABLE, tmp_path)
    before = bags.source.passes
    there = mh.DistributionRegressor(**given).fit(bags, y)
    # Where large bags are cut, the sample, and 150 bags in four parts.
    assert bags.source.passes - before == 2 + 4
    close(here.predict(in_memory(form, NEW)), there.predict(streamed(form, NEW, tmp_path)))


@pytest.mark.slow
def test_more_bags_later(tmp_path):
    table = TABLE[TABLE["k"] < 20]
    y, new = mh.Bags.targets(table, "g", "y"), mh.Bags.targets(NEW, "g", "y")
    for representation in (mh.Fourier(60), mh.Exact()):
        given: Any = {"representation": representation, "random_state": 0}
        here = mh.DistributionRegressor(**given).fit(in_memory("dask", table), y)
        there = mh.DistributionRegressor(**given).fit(streamed("dask", table, tmp_path), y)
        here.partial_fit(in_memory("dask", NEW), new)
        there.partial_fit(streamed("dask", NEW, tmp_path), new)
        close(here.predict(in_memory("dask", NEW)), there.predict(streamed("dask", NEW, tmp_path)), 1e-7)


def test_few_points_are_exact(tmp_path):
    table = TABLE[TABLE["k"] < 20]
    y = mh.Bags.targets(table, "g", "y")
    here = mh.DistributionRegressor(random_state=0).fit(in_memory("dask", table), y)
    there = mh.DistributionRegressor(random_state=0).fit(streamed("dask", table, tmp_path), y)
    assert there.bags_ is not None
    close(here.predict(in_memory("dask", NEW)), there.predict(streamed("dask", NEW, tmp_path)))


class TestRefusals:
    def test_columns(self, tmp_path):
        frame = dd.from_pandas(TABLE, npartitions=3)
        with pytest.raises(ValueError, match="no column 'nowhere'"):
            mh.Bags.from_table(frame, "nowhere")
        with pytest.raises(TypeError, match="'c' must hold numbers"):
            mh.Bags.from_table(frame, "g", ["a", "c"])
        with pytest.raises(ValueError, match=r"no numeric column besides 'g'"):
            mh.Bags.from_table(frame[["g", "c"]], "g")
        assert mh.Bags.from_table(frame.drop(columns=["k", "y", "c"]), "g", weights="w").dimension == 2
        TABLE.to_parquet(tmp_path / "t.parquet")
        with pytest.raises(TypeError, match=r"'g' of t\.parquet holds no numbers"):
            mh.Bags.from_table(tmp_path / "t.parquet", "g", COLUMNS)
        with pytest.raises(TypeError, match="no names of columns"):
            mh.Bags.from_table(mh.open_rows(np.zeros((3, 2))), "g")

    def test_missing_groups(self):
        gone = TABLE.copy()
        gone.loc[3, "g"] = None
        with pytest.raises(ValueError, match="'g' is missing"):
            mh.Bags.from_table(dd.from_pandas(gone, npartitions=3), "g", COLUMNS)

    def test_points_that_are_missing(self):
        gone = TABLE.copy()
        gone.loc[300, "a"] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            mh.Bags.from_table(dd.from_pandas(gone, npartitions=3), "g", COLUMNS)

    def test_weights(self):
        bad = TABLE.assign(w=-1.0)
        with pytest.raises(ValueError, match="column of weights must hold"):
            mh.Bags.from_table(dd.from_pandas(bad, npartitions=3), "g", COLUMNS, "w")
        bad = TABLE.assign(w=np.where(TABLE["k"] == 3, 0.0, 1.0))
        with pytest.raises(ValueError, match="weights of bag 'bag 3' are all 0"):
            mh.Bags.from_table(dd.from_pandas(bad, npartitions=3), "g", COLUMNS, "w")

    def test_other_columns(self, tmp_path):
        y = mh.Bags.targets(TABLE, "g", "y")
        model = mh.DistributionRegressor(representation=mh.Fourier(30), random_state=0)
        model.fit(streamed("dask", TABLE, tmp_path), y)
        with pytest.raises(ValueError, match="1 columns, but 2 were seen"):
            model.predict(mh.Bags.from_table(dd.from_pandas(NEW, npartitions=2), "g", ["a"]))
        with pytest.raises(ValueError, match="3 targets for 150 bags"):
            model.fit(streamed("dask", TABLE, tmp_path), y[:3])
