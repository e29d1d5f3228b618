"""Small data sets: generators whose truth is known, tables that scikit-learn ships, files of the user's."""

from muhat.datasets.base import DataNotFound, Pairs, Table
from muhat.datasets.causation import CausalPairs, simulated_pairs, tuebingen_pairs
from muhat.datasets.daily import daily_load, daily_load_mean, daily_load_sd
from muhat.datasets.diabetes import diabetes
from muhat.datasets.donut import donut, donut_pdf
from muhat.datasets.dsprites import Sprites, dsprites
from muhat.datasets.fork import fork, fork_mean, fork_pdf, fork_quantile
from muhat.datasets.gaussian_grid import gaussian_grid
from muhat.datasets.iris import iris
from muhat.datasets.mixture import gaussian_mixture, gaussian_mixture_pdf
from muhat.datasets.normal_laplace import normal_and_laplace
from muhat.datasets.orbit import Sequence, orbit, orbit_step
from muhat.datasets.ozone import ozone
from muhat.datasets.parking import parking
from muhat.datasets.room import room
from muhat.datasets.sbibm import Observations, sbibm
from muhat.datasets.simulators import Simulator, exponential_gamma_posterior, simulator
from muhat.datasets.terrain import terrain
from muhat.datasets.traffic import traffic
from muhat.datasets.uci import Regression, uci_regression
from muhat.datasets.uci_binary import Classes, uci_binary

__all__ = [
    "CausalPairs",
    "Classes",
    "DataNotFound",
    "Observations",
    "Pairs",
    "Regression",
    "Sequence",
    "Simulator",
    "Sprites",
    "Table",
    "daily_load",
    "daily_load_mean",
    "daily_load_sd",
    "diabetes",
    "donut",
    "donut_pdf",
    "dsprites",
    "exponential_gamma_posterior",
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
    "parking",
    "room",
    "sbibm",
    "simulated_pairs",
    "simulator",
    "terrain",
    "traffic",
    "tuebingen_pairs",
    "uci_binary",
    "uci_regression",
]
