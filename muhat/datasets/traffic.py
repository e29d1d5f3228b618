"""Hourly road occupancy in the San Francisco bay area: a table that the user puts in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muhat.datasets.base import find_file
from muhat.datasets.ozone import digest

if TYPE_CHECKING:
    import polars as pl

FILE = "traffic_occupancy_hourly_sensor0.csv.gz"
COLUMNS = ("datetime", "day_of_week", "hour", "occupancy")
CONTENT = (
    "It is the first of the 862 sensors of the hourly traffic data of Lai et al. (2018), 17 544 rows of CSV "
    f"with the columns {', '.join(COLUMNS)}."
)
ROWS = 17_544
DIGEST = "3cfc2086ff22a5a7fd6e8a56b79d47698c04e8f0fccb7a2a71dd139193f195fa"


def traffic() -> pl.DataFrame:
    """The share of time that a sensor of a road is occupied, each hour of 2015 and 2016 [LC18].

    17 544 rows without a gap: datetime, day_of_week (0 is Monday), hour, occupancy in [0, 1]. Each of the
    7 × 24 hours of a week comes 104 or 105 times.

    muhat neither ships nor downloads the table: it is read from ``traffic_occupancy_hourly_sensor0.csv.gz``
    in the folder in the environment variable MUHAT_DATA, and its numbers are compared with a checksum.
    """
    import polars as pl

    path = find_file(FILE, "The traffic table", CONTENT)
    try:
        table = pl.read_csv(path, try_parse_dates=True)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} is not a table of CSV ({error}): replace it. {CONTENT}") from error
    if tuple(table.columns) != COLUMNS or len(table) != ROWS:
        raise ValueError(
            f"{path} has {len(table)} rows and the columns {', '.join(table.columns)}: replace it. {CONTENT}"
        )
    numbers = table.drop("datetime")
    if not all(kind.is_numeric() for kind in numbers.dtypes) or digest(numbers) != DIGEST:
        raise ValueError(
            f"{path} does not hold the expected numbers (their checksum differs): replace it. {CONTENT}"
        )
    return table
