"""Kernel Bayes filters of the camera: their kernels, and how their regularisers are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np

import muhat as mh
from muhat.kernels.median import median_distance
from papers.gretton2015.camera.rotations import errors, nearest_rotation

# The published rule and the one of [X22], each with both kernels on the state.
METHODS = {
    "kbr_gauss": ("kbr_b", "gauss"),
    "kbr_trace": ("kbr_b", "trace"),
    "importance_gauss": ("importance", "gauss"),
    "importance_trace": ("importance", "trace"),
}
# Landmarks for KBR, whose exact form takes O(n³) a step; importance weighting solves for the frames near the
# prediction alone, and is exact.
LANDMARKS = 400
HELD_OUT = 150
REGS = {"kbr_b": (1e-7, 1e-6), "importance": (1e-5, 1e-4)}  # δ and λ


@dataclass(frozen=True)
class Setting:
    """A filter, with regularisers on the operator scale.

    Args:
        rule: of ``mh.KernelBayesFilter``.
        kernel: of the state: ``"gauss"`` on the nine numbers, or ``"trace"``.
        lengthscale_x: of the Gaussian kernel on images.
        scale_z: lengthscale of ``"gauss"`` in medians.
        reg: λ of the importance rule, δ of KBR.
        reg_prior: η of the density ratio.
        reg_transition: of the prediction.
        landmarks: of Nyström's method; 0 for exact.
    """

    rule: str
    kernel: str
    lengthscale_x: float
    scale_z: float = 0.3
    reg: float = 1e-4
    reg_prior: float = 1e-4
    reg_transition: float = 1e-4
    landmarks: int = 0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Setting:
        """The one of a row of a table, with the name of its method."""
        known = {field.name for field in fields(cls)}
        given = {key: value for key, value in row.items() if key in known and value is not None}
        return cls(*METHODS[row["method"]], **given)

    def fit(self, X: np.ndarray, R: np.ndarray) -> Any:
        """The filter learned from images (n, d) and rotations (n, 9)."""
        trace = self.kernel == "trace"
        kernel_z = mh.Rotation() if trace else mh.Gaussian(self.scale_z * float(median_distance(R)))
        return mh.KernelBayesFilter(
            self.rule,
            kernel_x=mh.Gaussian(self.lengthscale_x),
            kernel_z=kernel_z,
            reg=self.reg,
            reg_prior=self.reg_prior,
            reg_transition=self.reg_transition,
            representation=mh.Nystrom(min(self.landmarks, len(X))) if self.landmarks else None,
        ).fit(X, R)

    def estimate(self, mean: np.ndarray) -> np.ndarray:
        """The point estimate: in SO(3) with the trace kernel, any matrix with the Gaussian."""
        return nearest_rotation(mean) if self.kernel == "trace" else mean

    def row(self) -> dict[str, Any]:
        """For a table."""
        row = {key: value for key, value in asdict(self).items() if key not in ("rule", "kernel")}
        return row | {"scale_z": None if self.kernel == "trace" else self.scale_z}


def settings(method: str, lengthscale_x: float, landmarks: int, quick: bool) -> Iterator[Setting]:
    """What is tried, around the lengthscale of images that suits a regression.

    The lengthscale of states and the other regularisers hardly matter here, and are fixed.
    """
    rule, kernel = METHODS[method]
    first = Setting(rule, kernel, lengthscale_x, landmarks=landmarks if rule == "kbr_b" else 0)
    scales = (1.0,) if quick else (0.7, 1.0)
    for scale, reg in product(scales, REGS[rule]):
        yield replace(first, lengthscale_x=scale * lengthscale_x, reg=reg)


def choose(candidates: Iterator[Setting], X: np.ndarray, R: np.ndarray, held_out: int) -> Setting:
    """The one with the least error over the last frames, learned from those before."""

    def error(setting: Setting) -> float:
        mean = setting.fit(X[:-held_out], R[:-held_out]).filter(X[-held_out:]).mean()
        return float(errors(setting.estimate(mean), R[-held_out:]).mean())

    return min(candidates, key=error)
