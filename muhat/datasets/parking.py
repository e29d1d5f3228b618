"""Cars in the car parks of Birmingham: a file that the user puts in place."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np

from muhat.datasets.arrays import read_arrays

if TYPE_CHECKING:
    import polars as pl

FILE = "birmingham_parking.npz"
CONTENT = (
    "It holds occupancy (30, 77, 18), day_of_week (77,) and slot_minutes (18,): the Birmingham data of the "
    "repository xinychen/transdim, with the calendar of UCI's Parking Birmingham."
)
DIGEST = "886357c2820e1ae47444b0021e5cb3327bbe135984d3c2125a01689442d1e85c"
FIRST = date(2016, 10, 4)


def parking() -> pl.DataFrame:
    """Cars in 30 car parks of Birmingham at half-hours from 8:00 to 16:30, 4 October to 19 December 2016.

    Columns: car_park (0 to 29), date, day_of_week (0 is Monday), minute (after midnight), cars; the 15% of
    cells that are missing are left out.

    muhat neither ships nor downloads it: it is read from ``birmingham_parking.npz`` in the folder in the
    environment variable MUHAT_DATA, and its numbers are compared with a checksum.
    """
    import polars as pl

    names = ("occupancy", "day_of_week", "slot_minutes")
    cars, weekday, minute = read_arrays(FILE, "The parking data", CONTENT, names, DIGEST)
    place, day, slot = np.nonzero(cars)  # 0 stands for missing
    return pl.DataFrame(
        {
            "car_park": place,
            "date": [FIRST + timedelta(days=int(i)) for i in day],
            "day_of_week": weekday[day].astype(np.int64),
            "minute": minute[slot].astype(np.int64),
            "cars": cars[place, day, slot].astype(np.int64),
        }
    )
