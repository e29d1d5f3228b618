"""Reference measures: the points and the mass against which a density is reconstructed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from muhat._validation import as_rows, check_positive
from muhat.gram import DenseGram, Gram, KroneckerGram
from muhat.kernels import Gaussian, Laplace
from muhat.kernels.base import Kernel

# Points along each axis of the default grid, by dimension; beyond, a Sobol sequence of this size.
GRID = {1: 512, 2: 64, 3: 32}
SOBOL = 2048


@dataclass(frozen=True)
class Reference:
    """A measure ρ of mass V on M points, each of mass V/M.

    Attributes:
        points: (M, d).
        mass: V, e.g. the volume of the box the points fill.
        axes: for a grid, the points along each axis (the last varies fastest).
        random: whether the points are random draws, so that Ĉ_ρ errs by M^{-1/2}.
    """

    points: np.ndarray
    mass: float
    axes: list[np.ndarray] | None = None
    random: bool = False
    lower: np.ndarray | None = field(default=None, repr=False)
    upper: np.ndarray | None = field(default=None, repr=False)

    def gram(self, kernel: Kernel) -> Gram:
        """The Gram of the points: a Kronecker product on a grid when the kernel is one, too."""
        if self.axes is None or len(self.axes) == 1 or not _is_product(kernel):
            return DenseGram(kernel(self.points), kernel, self.points)
        ell = np.broadcast_to(np.asarray(kernel.lengthscale), (len(self.axes),))  # type: ignore
        parts = [kernel.replace(lengthscale=e) for e in ell]
        return KroneckerGram([k(a[:, None]) for k, a in zip(parts, self.axes, strict=True)])


def _is_product(kernel: Kernel) -> bool:
    return isinstance(kernel, Gaussian) or (isinstance(kernel, Laplace) and kernel.norm == 1)


def box_reference(lower: np.ndarray, upper: np.ndarray, finest: np.ndarray) -> Reference:
    """Lebesgue measure on a box: a grid in up to three dimensions, a Sobol sequence beyond.

    Args:
        lower: corner of the box, (d,).
        upper: opposite corner, (d,).
        finest: the scale of detail along each axis; in one dimension the grid resolves half of it.
    """
    d = len(lower)
    volume = float(np.prod(upper - lower))
    if d in GRID:
        count = GRID[d]
        if d == 1:
            count = int(np.clip(np.ceil(2 * (upper - lower)[0] / finest[0]), count, 4 * count))
        # Midpoints of equal cells: each point stands for the same volume.
        steps = (np.arange(count) + 0.5) / count
        axes = [lo + (hi - lo) * steps for lo, hi in zip(lower, upper, strict=True)]
        mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
        return Reference(mesh, volume, axes, lower=lower, upper=upper)
    from scipy.stats import qmc

    points = qmc.Sobol(d, rng=np.random.default_rng(0)).random(SOBOL)
    return Reference(lower + (upper - lower) * points, volume, lower=lower, upper=upper)


def as_reference(reference: Any, mass: Any, d: int) -> Reference:
    """A reference from an array of points (M, d), or from a list of axes of a grid."""
    if isinstance(reference, Reference):
        return reference
    axes = None
    if isinstance(reference, (list, tuple)) and all(np.ndim(a) == 1 for a in reference):
        axes = [as_rows(np.asarray(a)[:, None], "reference", 2)[:, 0] for a in reference]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    else:
        points = as_rows(reference, "reference", 2)
    if points.shape[1] != d:
        raise ValueError(f"reference has {points.shape[1]} columns, but the points have {d}: pass (M, {d}).")
    lower, upper = points.min(axis=0), points.max(axis=0)
    if mass is None:
        mass = float(np.prod(upper - lower))
        if axes is not None:  # equally spaced axes stand for cells that reach half a step beyond
            mass *= reduce(lambda v, a: v * len(a) / (len(a) - 1), axes, 1.0)
    check_positive(mass, "mass", "give the volume that the reference points fill", scalar=True)
    return Reference(points, float(mass), axes, axes is None, lower, upper)
