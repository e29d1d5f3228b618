"""Small data sets: generators whose truth is known, tables that scikit-learn ships, and ozone."""

from muhat.datasets.base import Pairs, Table
from muhat.datasets.daily import daily_load, daily_load_mean, daily_load_sd
from muhat.datasets.diabetes import diabetes
from muhat.datasets.fork import fork, fork_mean, fork_pdf, fork_quantile
from muhat.datasets.gaussian_grid import gaussian_grid
from muhat.datasets.iris import iris
from muhat.datasets.mixture import gaussian_mixture, gaussian_mixture_pdf
from muhat.datasets.normal_laplace import normal_and_laplace
from muhat.datasets.ozone import DataNotFound, ozone

__all__ = [
    "DataNotFound",
    "Pairs",
    "Table",
    "daily_load",
    "daily_load_mean",
    "daily_load_sd",
    "diabetes",
    "fork",
    "fork_mean",
    "fork_pdf",
    "fork_quantile",
    "gaussian_grid",
    "gaussian_mixture",
    "gaussian_mixture_pdf",
    "iris",
    "normal_and_laplace",
    "ozone",
]
