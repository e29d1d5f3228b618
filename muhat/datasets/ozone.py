"""Ozone and weather in Los Angeles, 1976: a table that the user puts in place."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from muhat.datasets.base import find_file

if TYPE_CHECKING:
    import polars as pl


class _Source(NamedTuple):
    """A file, where its numbers are published, and what they must be."""

    file: str
    source: str
    columns: tuple[str, ...]
    rows: int
    digest: str


COMPLETE = _Source(
    "la_ozone_330.csv.gz",
    "data set ozone of the R package gss",
    ("ozone", "vh", "wind", "humidity", "temp", "ibh", "dpg", "ibt", "vis", "doy"),
    330,
    "7cc916f2224eaf8b36504da58406788149db7187c3ca9dba441d2e6bd01214ef",
)
FULL = _Source(
    "la_ozone_366.csv.gz",
    "data set Ozone of the R package mlbench",
    (
        *("month", "day_of_month", "day_of_week", "ozone", "vh", "wind", "humidity", "temp_sandburg"),
        *("temp_elmonte", "ibh", "dpg", "ibt_f", "vis"),
    ),
    366,
    "0b6f6fa614e173d8f06628a4386b5a1fa437b08616ac612e75ae9c9168db989e",
)


def ozone(full: bool = False) -> pl.DataFrame:
    """Daily ozone and weather in Los Angeles in 1976 [BF85], as a polars frame.

    330 days without a gap and 10 columns: ozone (upland, ppm), vh (500 mb height at Vandenberg, m), wind
    (mph), humidity (%), temp (Sandburg, °F), ibh (inversion base height, ft), dpg (pressure gradient to
    Daggett, mm Hg), ibt (inversion base temperature, °C × 10), vis (visibility, miles), doy (day of the
    year).

    muhat neither ships nor downloads the table: it is published inside R packages, not as a file whose
    contents could be checked. It is read from the folder in the environment variable MUHAT_DATA, and its
    numbers are compared with a checksum. The file ``la_ozone_330.csv.gz`` holds the data set ozone of the
    R package gss under the column names above; ``la_ozone_366.csv.gz`` the data set Ozone of mlbench.

    Args:
        full: all 366 days and 13 columns of mlbench, with their missing cells (null): month, day_of_month,
            day_of_week (1 is Monday), ozone (largest hourly mean), vh, wind, humidity, temp_sandburg,
            temp_elmonte, ibh, dpg, ibt_f (°F), vis.
    """
    source = FULL if full else COMPLETE
    return _checked(_find(source), source)


def _find(source: _Source) -> Path:
    return find_file(
        source.file,
        "The ozone table",
        f"It is the {source.source}, as CSV with the columns {', '.join(source.columns)}. It cannot be "
        "downloaded for you: it is published inside R packages only.",
    )


def _checked(path: Path, source: _Source) -> pl.DataFrame:
    import polars as pl

    advice = f"write the {source.source} again, with the columns {', '.join(source.columns)}."
    try:
        table = pl.read_csv(path, null_values=["", "NA"])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} is not a table of CSV ({error}): {advice}") from error
    if tuple(table.columns) != source.columns or len(table) != source.rows:
        raise ValueError(
            f"{path} has {len(table)} rows and the columns {', '.join(table.columns)}, not {source.rows} "
            f"rows: {advice}"
        )
    if not all(kind.is_numeric() for kind in table.dtypes) or digest(table) != source.digest:
        raise ValueError(f"{path} does not hold the expected numbers (their checksum differs): {advice}")
    return table


def digest(table: pl.DataFrame) -> str:
    """SHA-256 of the numbers of a table, whatever the way in which they were written; null is one NaN."""
    import polars as pl

    numbers = table.cast(pl.Float64).to_numpy()
    numbers = np.where(np.isnan(numbers), np.nan, numbers) + 0.0  # one NaN, and no −0
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).hexdigest()
