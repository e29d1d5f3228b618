"""The ozone table is read where it is, refused when it is another, and its absence says what to do."""

import gzip
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from muhat import datasets
from muhat.datasets.ozone import COMPLETE, FULL, digest

here = Path(os.environ.get("MUHAT_DATA", "")) / COMPLETE.file
needs_table = pytest.mark.skipif(
    not (os.environ.get("MUHAT_DATA") and here.is_file()),
    reason=f"needs {COMPLETE.file} in the folder MUHAT_DATA",
)


@needs_table
def test_330_days_without_a_gap():
    table = datasets.ozone()
    assert table.shape == (330, 10)
    assert table.columns == list(COMPLETE.columns)
    assert sum(table.null_count().row(0)) == 0
    assert table["doy"].is_sorted()
    assert (table["ozone"].min(), table["ozone"].max()) == (1, 38)
    # Hot days are days of ozone.
    assert np.corrcoef(table["temp"], table["ozone"])[0, 1] == pytest.approx(0.78, abs=0.01)


@needs_table
def test_the_366_days_hold_the_330():
    full = datasets.ozone(full=True)
    assert full.shape == (366, 13)
    kept = full.drop("temp_elmonte").drop_nulls()
    same = datasets.ozone()
    for ours, theirs in (("ozone", "ozone"), ("vh", "vh"), ("temp", "temp_sandburg"), ("vis", "vis")):
        np.testing.assert_array_equal(same[ours], kept[theirs])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("folder", [None, "empty"])
def test_its_absence_says_what_to_put_where(monkeypatch, tmp_path, folder, full):
    if folder is None:
        monkeypatch.delenv("MUHAT_DATA", raising=False)
    else:
        monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    source = FULL if full else COMPLETE
    with pytest.raises(datasets.DataNotFound, match=source.file) as caught:
        datasets.ozone(full)
    message = str(caught.value)
    for word in ("MUHAT_DATA", "R package", "cannot be downloaded", *source.columns):
        assert word in message
    assert (str(tmp_path) in message) == (folder is not None)
    assert isinstance(caught.value, FileNotFoundError)


def write(folder, text):
    (folder / COMPLETE.file).write_bytes(gzip.compress(text.encode()))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a,b\n1,2\n", "has 1 rows and the columns a, b, not 330"),
        (",".join(COMPLETE.columns) + "\n" + 330 * "1,1,1,1,1,1,1,1,1,1\n", "expected numbers"),
        (",".join(COMPLETE.columns) + "\n" + 330 * "x,1,1,1,1,1,1,1,1,1\n", "expected numbers"),
        ("", "is not a table"),
    ],
)
def test_another_table_is_refused(monkeypatch, tmp_path, text, match):
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    write(tmp_path, text)
    with pytest.raises(ValueError, match=match):
        datasets.ozone()


@needs_table
def test_one_changed_cell_is_found_and_another_spelling_is_not(monkeypatch, tmp_path):
    table = datasets.ozone()
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    write(tmp_path, table.cast(pl.Float64).write_csv(line_terminator="\r\n"))
    assert datasets.ozone().shape == (330, 10)
    write(tmp_path, table.with_columns(wind=pl.col("wind").replace(21, 7)).write_csv())
    with pytest.raises(ValueError, match="checksum"):
        datasets.ozone()


def test_the_checksum_is_of_the_numbers():
    numbers = pl.DataFrame({"a": [1, None, 3], "b": [-0.0, 0.5, 2.0]})
    assert digest(numbers) == digest(numbers.with_columns(b=pl.Series([0.0, 0.5, 2.0])))
    assert digest(numbers) == digest(numbers.with_columns(a=pl.Series([1.0, float("nan"), 3.0])))
    assert digest(numbers) != digest(numbers[::-1])
