"""Observations and reference posteriors of a benchmark of simulation-based inference: the user's files."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muhat._validation import check_choice
from muhat.datasets.arrays import read_arrays

CONTENT = (
    "It holds true_parameters (10, p), observation (10, d) and reference_samples (10, 2000, p), every fifth "
    "of the published ones: task {name} of the Python package sbibm 1.1."
)
DIGESTS = {
    "two_moons": "2e8607cc1f5b02b8551cc67f9f4e515b515a6dd50711837144a49064f3139aed",
    "gaussian_mixture": "721e4bcd82e6ae821382eb9e8ebfe7f1ce9c27cdf4ca9e49049b5d3f6af082e8",
    "gaussian_linear": "bbae7f9b5ee2dddddefd1075f15bd41b5cc2dbf6e6ad31adad9f8680c0f590a1",
    "lotka_volterra": "3e476fcd163b6dd916edfa7b824ac98c4c240e22d2253fbd9c6ef985c8124c3b",
}


class Observations(NamedTuple):
    """Ten observations of a simulator, each with samples of its posterior.

    Attributes:
        theta: the parameters behind each, (10, p).
        x: the observations, (10, d).
        reference: samples of the posterior of each, (10, 2000, p).
    """

    theta: np.ndarray
    x: np.ndarray
    reference: np.ndarray


def sbibm(name: Any) -> Observations:
    """Observations of a task of [LBG21] with reference samples of the posterior.

    muhat neither ships nor downloads them: they are read from ``sbibm_<name>.npz`` in the folder in the
    environment variable MUHAT_DATA, and their numbers are compared with a checksum. :func:`simulator` has
    the priors and the simulators.

    Args:
        name: ``"two_moons"``, ``"gaussian_mixture"``, ``"gaussian_linear"`` or ``"lotka_volterra"``.
    """
    check_choice(name, "name", tuple(DIGESTS))
    arrays = ("true_parameters", "observation", "reference_samples")
    what = f"The reference posterior of {name}"
    theta, x, reference = read_arrays(
        f"sbibm_{name}.npz", what, CONTENT.format(name=name), arrays, DIGESTS[name]
    )
    return Observations(theta, x, reference.astype(np.float64))
