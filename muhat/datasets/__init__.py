"""Small data sets: generators whose truth is known, tables that scikit-learn ships, ozone and dSprites."""

from muhat.datasets.base import DataNotFound, Pairs, Table
from muhat.datasets.daily import daily_load, daily_load_mean, daily_load_sd
from muhat.datasets.diabetes import diabetes
from muhat.datasets.dsprites import Sprites, dsprites
from muhat.datasets.fork import fork, fork_mean, fork_pdf, fork_quantile
from muhat.datasets.gaussian_grid import gaussian_grid
from muhat.datasets.iris import iris
from muhat.datasets.mixture import gaussian_mixture, gaussian_mixture_pdf
from muhat.datasets.normal_laplace import normal_and_laplace
from muhat.datasets.orbit import Sequence, orbit, orbit_step
from muhat.datasets.ozone import ozone
from muhat.datasets.room import room

__all__ = [
    "DataNotFound",
    "Pairs",
    "Sequence",
    "Sprites",
    "Table",
    "daily_load",
    "daily_load_mean",
    "daily_load_sd",
    "diabetes",
    "dsprites",
    "fork",
    "fork_mean",
    "fork_pdf",
    "fork_quantile",
    "gaussian_grid",
    "gaussian_mixture",
    "gaussian_mixture_pdf",
    "iris",
    "normal_and_laplace",
    "orbit",
    "orbit_step",
    "ozone",
    "room",
]
