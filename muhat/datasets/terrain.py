"""The height of Mount St. Helens on a grid: a file that the user puts in place."""

from __future__ import annotations

import numpy as np

from muhat.datasets.arrays import read_arrays
from muhat.datasets.base import Pairs

FILE = "mount_st_helens.npz"
CONTENT = (
    "It holds points (14040, 2) and elevation (14040,): demos/Maps/MtSH.mat of the repository "
    "erichanslee/GP_Derivatives, as .npz."
)
DIGEST = "4ec6eaf222517d3910528e52415bb8848ede6624f224f399d576ac6e2999719a"


def terrain() -> Pairs:
    """Places on Mount St. Helens, (14 040, 2), and the height there, (14 040,), in metres [EDL18].

    A grid of 120 × 117 points, 8 units apart; the first coordinate runs fastest. muhat neither ships nor
    downloads it: it is read from ``mount_st_helens.npz`` in the folder in the environment variable
    MUHAT_DATA, and its numbers are compared with a checksum.
    """
    points, elevation = read_arrays(FILE, "The terrain", CONTENT, ("points", "elevation"), DIGEST)
    return Pairs(points.astype(np.float64), elevation)
