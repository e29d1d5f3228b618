"""Tables of numbers and categories: encoders and the default kernel."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import muhat as mh
from muhat._tables import encode
from muhat.kernels import default_kernel
from muhat.kernels.default import resolve_kernel

COLOURS = ["red", "blue", "red", "green", "blue", "red"]
HEIGHT = [1.0, 2.5, 0.3, 4.0, 2.2, 1.8]
SMOKES = [True, False, True, True, False, False]


def pandas_object() -> pd.DataFrame:
    return pd.DataFrame({"height": HEIGHT, "colour": np.array(COLOURS, dtype=object), "smokes": SMOKES})


def pandas_category() -> pd.DataFrame:
    return pandas_object().astype({"colour": pd.CategoricalDtype(["green", "red", "blue", "never seen"])})


def pandas_string() -> pd.DataFrame:
    return pandas_object().astype({"colour": "string"})


def polars_string() -> pl.DataFrame:
    return pl.DataFrame({"height": HEIGHT, "colour": COLOURS, "smokes": SMOKES})


def polars_enum() -> pl.DataFrame:
    return polars_string().with_columns(pl.col("colour").cast(pl.Enum(["green", "red", "blue"])))


def polars_categorical() -> pl.DataFrame:
    return polars_string().with_columns(pl.col("colour").cast(pl.Categorical))


TABLES = [pandas_object, pandas_category, pandas_string, polars_string, polars_enum, polars_categorical]


@pytest.mark.parametrize("table", TABLES)
def test_every_kind_of_text_column_is_the_same_categories(table: object) -> None:
    encoder, A = encode(table())
    assert encoder.names == ["height", "colour", "smokes"]
    assert list(encoder.categories) == [1]
    assert encoder.categories[1].tolist() == ["blue", "green", "red"]
    np.testing.assert_array_equal(A[:, 0], HEIGHT)
    np.testing.assert_array_equal(A[:, 1], [2, 0, 2, 1, 0, 2])
    np.testing.assert_array_equal(A[:, 2], SMOKES)
    assert A.dtype == np.float64


@pytest.mark.parametrize("table", TABLES)
def test_default_kernel_of_a_mixed_table(table: object) -> None:
    encoder, A = encode(table())
    kernel = default_kernel(A, encoder)
    numbers = A[:, [0, 2]] / A[:, [0, 2]].std(axis=0)
    apart = np.linalg.norm(numbers[:, None] - numbers[None], axis=2)
    median = np.median(apart[np.triu_indices(6, 1)])
    same = np.array(COLOURS)[:, None] == np.array(COLOURS)
    expected = np.exp(-(apart**2) / (2 * median**2)) * np.where(same, 1, np.exp(-0.5))
    np.testing.assert_allclose(kernel(A), expected, rtol=1e-12)
    assert np.linalg.eigvalsh(kernel(A))[0] > 0


@pytest.mark.parametrize("table", [pandas_object, polars_string])
def test_unknown_categories_equal_no_known_one(table: object) -> None:
    encoder, A = encode(table())
    new = type(table())({"height": [1.0, 1.0], "colour": ["violet", "red"], "smokes": [True, True]})
    B = encoder.transform(new)
    np.testing.assert_array_equal(B[:, 1], [-1, 2])
    K = default_kernel(A, encoder)(A, B)
    assert K[0, 1] == 1.0  # the first row itself
    assert K[0, 0] == pytest.approx(np.exp(-0.5))  # but for the colour
    assert (mh.Delta().on(1)(A, B)[:, 0] == 0).all()


def test_labels_longer_than_any_seen_before_are_unknown() -> None:
    encoder, _ = encode(pd.DataFrame({"a": ["x", "y"]}))
    np.testing.assert_array_equal(
        encoder.transform(pd.DataFrame({"a": ["xx", "y", "", "z"]})), [[-1], [1], [-1], [-1]]
    )


def test_all_numbers_and_all_categories() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3)) * [1.0, 10.0, 0.1]
    np.testing.assert_allclose(default_kernel(X)(X), mh.Gaussian("scaled")(X), rtol=1e-14)
    encoder, A = encode(pd.DataFrame({"a": list("xyx"), "b": list("uuv")}))
    np.testing.assert_allclose(
        default_kernel(A, encoder)(A),
        np.exp(-0.5 * np.array([[0, 1, 1], [1, 0, 2], [1, 2, 0]])),
        rtol=1e-14,
    )


def test_gram_takes_frames_with_categories() -> None:
    kernel = mh.Gaussian(1.0).on("height") * mh.Delta(0.2).on("colour")
    for table in TABLES:
        K = kernel.gram(table())
        same = np.array(COLOURS)[:, None] == np.array(COLOURS)
        heights = np.array(HEIGHT)[:, None]
        np.testing.assert_allclose(K, mh.Gaussian(1.0)(heights) * np.where(same, 1, 0.2), rtol=1e-13)
        np.testing.assert_allclose(kernel.gram(table(), table()[:2]), K[:, :2], rtol=1e-14)


def test_columns_of_numbers_in_every_type() -> None:
    table = pd.DataFrame(
        {
            "small": np.array([1, 2, 3], dtype=np.int8),
            "single": np.array([0.5, 1.5, 2.5], dtype=np.float32),
            "nullable": pd.array([1, 2, 4], dtype="Int64"),
            "flag": [True, False, True],
        }
    )
    expected = np.array([[1, 0.5, 1, 1], [2, 1.5, 2, 0], [3, 2.5, 4, 1]])
    encoder, A = encode(table)
    np.testing.assert_array_equal(A, expected)
    assert encoder.categories == {}
    np.testing.assert_array_equal(encode(pl.DataFrame(table))[1], expected)


def test_a_series_is_one_column() -> None:
    for series in (pd.Series([1.0, 2.0], name="a"), pl.Series("a", [1.0, 2.0])):
        np.testing.assert_allclose(mh.Gaussian(1.0).gram(series)[0], [1, np.exp(-0.5)])


def test_columns_must_match_those_seen_before() -> None:
    encoder, _ = encode(pandas_object())
    with pytest.raises(ValueError, match=r"new has columns \['colour', 'height', 'smokes'\].*same order"):
        encoder.transform(pandas_object()[["colour", "height", "smokes"]], "new")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"a": ["x", None, "y"]}), r"X\['a'\] has missing.*row 1, 1 in all"),
        (pd.DataFrame({"a": ["x", np.nan, "y"]}, dtype=object), r"X\['a'\] has missing.*row 1"),
        (pd.DataFrame({"a": pd.Series(["x", pd.NA], dtype="string")}), r"X\['a'\] has missing.*row 1"),
        (pd.DataFrame({"a": pd.Categorical(["x", None])}), r"X\['a'\] has missing.*row 1"),
        (pl.DataFrame({"a": ["x", None]}), r"X\['a'\] has missing.*row 1"),
        (pd.DataFrame({"a": [1.0, np.nan]}), r"X contains NaN.*row 1, column 0"),
        (pl.DataFrame({"a": [1.0, None]}), r"X contains NaN.*row 1, column 0"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), r"X contains NaN"),
        (pd.DataFrame({"a": ["x", "y"], "b": [1.0, np.inf]}), r"X\['b'\] contains inf.*row 1"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), r"several columns named \['a'\]"),
        (pd.DataFrame({"a": []}, dtype=float), r"X has 0 samples"),
        (pd.DataFrame(index=range(3)), r"0 feature"),
    ],
    ids=range(12),
)
def test_tables_that_cannot_be_used(table: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mh.Gaussian(1.0).gram(table)


WHEN = pd.to_datetime(["2020-01-01 06:00", "2020-01-02 00:00"])
WHEN_POLARS = pl.DataFrame({"when": WHEN.to_numpy()})
DAYS = [18262.25, 18263.0]


@pytest.mark.parametrize(
    ("table", "kind", "expected"),
    [
        (pd.DataFrame({"when": WHEN}), "dates", DAYS),
        (pd.DataFrame({"text": ["a", "b"], "when": WHEN}), "dates", DAYS),
        (pd.DataFrame({"when": WHEN.tz_localize("UTC")}), "dates", DAYS),
        (pd.DataFrame({"when": [t.date() for t in WHEN]}), "dates", [18262.0, 18263.0]),
        (pd.DataFrame({"when": WHEN.to_period("h")}), "dates", DAYS),
        (pd.DataFrame({"when": WHEN - WHEN[0]}), "durations", [0.0, 0.75]),
        (pd.DataFrame({"when": [t.time() for t in WHEN]}), "times of day", [6, 0]),
        (WHEN_POLARS, "dates", DAYS),
        (WHEN_POLARS.select(pl.lit("a").alias("text"), "when"), "dates", DAYS),
        (WHEN_POLARS.select(pl.col("when").dt.replace_time_zone("UTC")), "dates", DAYS),
        (WHEN_POLARS.select(pl.col("when").dt.date()), "dates", [18262.0, 18263.0]),
        (WHEN_POLARS.select(pl.col("when") - pl.col("when").min()), "durations", [0.0, 0.75]),
        (WHEN_POLARS.select(pl.col("when").dt.time()), "times of day", [6, 0]),
    ],
    ids=range(13),
)
def test_dates_are_refused_with_a_line_that_makes_them_numbers(
    table: object, kind: str, expected: list[float]
) -> None:
    with pytest.raises(
        TypeError, match=rf"X\['when'\] must hold numbers, but holds {kind}.*Convert"
    ) as caught:
        encode(table)
    assert "data frame" not in str(caught.value)
    names = {"df": table, "pd": pd, "pl": pl}
    exec(str(caught.value).split("with df your table: ")[1], names)
    np.testing.assert_allclose(np.asarray(names["df"]["when"]), expected)
    encode(names["df"])


def test_other_columns_are_refused_without_asking_for_the_table_again() -> None:
    with pytest.raises(TypeError, match=r"X\['raw'\] must hold numbers.*b'a'\. Convert it to numbers\.$"):
        encode(pd.DataFrame({"raw": [b"a", b"b"]}))


def test_resolve_kernel_says_what_a_kernel_is() -> None:
    X = np.random.default_rng(0).normal(size=(5, 2))
    assert resolve_kernel(None, X, None, "kernel") == default_kernel(X)
    assert resolve_kernel(mh.Gaussian(), X, None, "kernel") == mh.Gaussian().resolve(X)
    for wrong in ("gaussian", 1.0, mh.Gaussian, np.eye(2)):
        with pytest.raises(
            TypeError, match=r"(?s)kernel_x must be a kernel or None, got .*mh\.Gaussian\(1\.0\)"
        ):
            resolve_kernel(wrong, X, None, "kernel_x")
