"""Embeddings of tables: text columns are categories, in pandas and in polars."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import muhat as mh

DELTA = mh.Delta()


def table(n=30, labels="pqr", seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.standard_normal(n), "c": rng.choice(list(labels), n)})


@pytest.fixture(params=["pandas", "polars", "categorical", "polars enum"])
def frame(request):
    """The same table as the libraries can hold it."""

    def make(data):
        if request.param == "pandas":
            return data
        if request.param == "categorical":
            return data.astype({"c": "category"})
        out = pl.DataFrame({name: data[name].tolist() for name in data.columns})
        labels = sorted(set(data["c"]))[::-1]
        return out if request.param == "polars" else out.with_columns(pl.col("c").cast(pl.Enum(labels)))

    return make


def test_delta_embedding_is_the_table_of_frequencies(frame):
    data = table()
    mu = mh.embed(frame(data), DELTA.on("c"))
    shares = data["c"].value_counts(normalize=True)
    query = pd.DataFrame({"a": [0.0, 0.0, 0.0, 0.0], "c": ["r", "p", "q", "new"]})
    assert_allclose(mu(frame(query)), [shares["r"], shares["p"], shares["q"], 0.0], rtol=1e-12)


def test_default_kernel_multiplies_numbers_and_categories(frame):
    data = table()
    mu = mh.embed(frame(data))
    a, c = data["a"].to_numpy(), data["c"].to_numpy()
    distances = np.abs(a[:, None] - a[None])[np.triu_indices(30, 1)]
    K = np.exp(-((a[:, None] - a[None]) ** 2) / (2 * np.median(distances) ** 2))
    K = K * np.where(c[:, None] == c[None], 1.0, np.exp(-0.5))
    assert_allclose(mu(frame(data)), K.mean(axis=0), rtol=1e-10)


def test_order_and_subset_of_labels_at_evaluation(frame):
    data = table()
    mu = mh.embed(frame(data))
    some = data[data["c"] == "q"].reset_index(drop=True)
    assert_allclose(mu(frame(some)), mu(frame(data))[(data["c"] == "q").to_numpy()], rtol=1e-12)


def test_mmd_of_tables_knows_the_categories_of_both(frame):
    x = pd.DataFrame({"c": list("aaaa")})
    y = pd.DataFrame({"c": list("bbcc")})
    # Frequencies (1, 0, 0) and (0, ½, ½): 1 + ½ with nothing in common.
    assert_allclose(mh.mmd(frame(x), frame(y), DELTA) ** 2, 1.5, rtol=1e-12)
    assert_allclose(mh.mmd(frame(y), frame(x), DELTA) ** 2, 1.5, rtol=1e-12)


def test_mmd_of_an_embedding_and_a_table(frame):
    x, y = table(), table(seed=1)
    mu = mh.embed(frame(x))
    together = mh.mmd(mu, mh.embed(frame(y), mu.kernel))
    assert_allclose(mh.mmd(mu, frame(y)), together, rtol=1e-10)


def test_embeddings_with_other_categories_are_refused():
    mu = mh.embed(pd.DataFrame({"c": list("aabb")}), DELTA)
    nu = mh.embed(pd.DataFrame({"c": list("bbcc")}), DELTA)
    for call in (mu.inner, mu.distance, mu.__add__, mu.__sub__, lambda other: mh.mmd(mu, other)):
        with pytest.raises(ValueError, match="different categories"):
            call(nu)


def test_readouts_refuse_categories():
    mu = mh.embed(table())
    for readout in (
        mu.mean,
        mu.cov,
        mu.density,
        lambda: mu.quantile(0.5),
        mu.histogram,
        lambda: mu.herd(2, continuous=True),
    ):
        with pytest.raises(ValueError, match=r"needs numbers, but columns \['c'\] are categories"):
            readout()


def test_readouts_that_take_categories():
    data = table()
    mu = mh.embed(data)
    assert_allclose(mu.expect(data["c"] == "p"), (data["c"] == "p").mean(), rtol=1e-12)
    code = float(np.flatnonzero(mu.encoder.categories[1] == "p")[0])
    assert_allclose(mu.expect(lambda z: z[:, 1] == code), (data["c"] == "p").mean(), rtol=1e-12)
    assert mu.herd(4).shape == (4, 2)


class TestBadTables:
    @pytest.mark.parametrize(
        "column",
        [
            pd.Series(["a", None, "b"], dtype=object),
            pd.Series(["a", pd.NA, "b"], dtype="string"),
            pd.Series(["a", np.nan, "b"], dtype="category"),
            pd.Series(["a", None, "b"]),
        ],
    )
    def test_missing_labels_in_pandas(self, column):
        with pytest.raises(ValueError, match=r"X\['c'\] has missing \(NaN\) cells, first at row 1, 1 in all"):
            mh.embed(pd.DataFrame({"c": column}))

    def test_missing_labels_in_polars(self):
        with pytest.raises(ValueError, match=r"X\['c'\] has missing"):
            mh.embed(pl.DataFrame({"c": ["a", None]}))

    @pytest.mark.parametrize("library", [pd, pl])
    def test_missing_numbers(self, library):
        with pytest.raises(ValueError, match=r"X(\['a'\])? contains NaN"):
            mh.embed(library.DataFrame({"a": [1.0, None, 2.0], "c": ["a", "b", "b"]}))
        with pytest.raises(ValueError, match=r"X contains NaN"):
            mh.embed(library.DataFrame({"a": [1.0, None, 2.0]}))

    def test_dates_are_refused_by_name(self):
        data = pd.DataFrame({"a": [1.0, 2.0], "when": pd.to_datetime(["2020-01-01", "2020-01-02"])})
        with pytest.raises(TypeError, match=r"X\['when'\] must hold numbers"):
            mh.embed(data)

    def test_columns_named_twice(self):
        with pytest.raises(ValueError, match=r"X has several columns named \['a'\]"):
            mh.embed(pd.DataFrame(np.ones((3, 2)), columns=["a", "a"]))

    def test_other_columns_at_evaluation(self):
        mu = mh.embed(table())
        with pytest.raises(ValueError, match=r"x has columns \['c', 'a'\] but \['a', 'c'\] were seen"):
            mu(table()[["c", "a"]])

    def test_text_where_numbers_were(self):
        mu = mh.embed(table())
        with pytest.raises(ValueError, match=r"x\['a'\] must hold numbers.*'some text'"):
            mu(table().assign(a="some text"))

    def test_empty_table(self):
        with pytest.raises(ValueError, match="X has 0 samples"):
            mh.embed(table().iloc[:0])
