"""Reference measures: the points and the mass against which a density is reconstructed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from muhat._validation import as_generator, as_rows, check_positive
from muhat.gram import DenseGram, Gram, KroneckerGram
from muhat.kernels import Gaussian, Laplace
from muhat.kernels.base import Kernel

# Points along each axis of the default grid, by dimension; beyond, a Sobol sequence of this size.
GRID = {1: 512, 2: 64, 3: 32, 4: 16}
SOBOL = 2048
KINDS = ("grid", "sobol", "random")
# Entries of kernel values that are made at a time.
BLOCK_ELEMENTS = 1 << 22


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

    @property
    def cell(self) -> float:
        """The mass of one point, V/M."""
        return self.mass / len(self.points)

    @property
    def spacing(self) -> np.ndarray:
        """The distance to the next point along each axis, (d,); of scattered points, as if on a grid."""
        if self.axes is not None:
            return np.array([np.ptp(a) / max(len(a) - 1, 1) for a in self.axes])
        width = np.ptp(self.points, axis=0)
        return width / len(self.points) ** (1 / self.points.shape[1])

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Opposite corners of the box that the points stand for."""
        lower = self.points.min(axis=0) if self.lower is None else self.lower
        upper = self.points.max(axis=0) if self.upper is None else self.upper
        return lower, upper

    def inside(self, y: np.ndarray) -> np.ndarray:
        """Which rows of ``y`` (..., d) lie in the box, (...)."""
        lower, upper = self.box()
        return np.asarray(((y >= lower) & (y <= upper)).all(axis=-1))

    def gram(self, kernel: Kernel) -> Gram:
        """The Gram of the points: a Kronecker product on a grid when the kernel is one, too."""
        parts = self._parts(kernel)
        if parts is None:
            return DenseGram(kernel(self.points), kernel, self.points)
        return KroneckerGram([k(a[:, None]) for k, a in parts])

    def embed(self, kernel: Kernel, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Embeddings ``Σᵢ wᵢ k(xᵢ, ·)`` at the points of the reference, (batch, M), in blocks.

        Args:
            kernel: k.
            points: the x, (n, d).
            weights: (batch, n).
        """
        out = np.zeros((len(weights), len(self.points)))
        for rows, values in self.blocks(kernel, points):
            out += weights[:, rows] @ values
        return out

    def blocks(self, kernel: Kernel, points: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """``k(x, z)`` for blocks of rows x and all points z of the reference."""
        parts = self._parts(kernel)
        size = max(1, BLOCK_ELEMENTS // len(self.points))
        for i in range(0, len(points), size):
            rows = slice(i, min(i + size, len(points)))
            if parts is None:
                yield rows, np.asarray(kernel(points[rows], self.points))
                continue
            # Of a product kernel on a grid: products of the kernels along the axes.
            axes = [np.asarray(k(points[rows, j, None], a[:, None])) for j, (k, a) in enumerate(parts)]
            yield rows, _row_products(axes)

    def spectrum(self, kernel: Kernel) -> Spectrum:
        """The eigendecomposition of the Gram of the points, axis by axis where it is a Kronecker product."""
        parts = self._parts(kernel) or [(kernel, self.points)]
        points = [a[:, None] if a.ndim == 1 else a for _, a in parts]
        pairs = [np.linalg.eigh(np.asarray(k(z))) for (k, _), z in zip(parts, points, strict=True)]
        return Spectrum(
            [k for k, _ in parts], points, [np.maximum(v, 0.0) for v, _ in pairs], [U for _, U in pairs]
        )

    def _parts(self, kernel: Kernel) -> list[tuple[Kernel, np.ndarray]] | None:
        """For a product kernel on a grid the kernel along each axis, with the axis."""
        if self.axes is None or len(self.axes) == 1 or not _is_product(kernel):
            return None
        ell = np.broadcast_to(np.asarray(kernel.lengthscale), (len(self.axes),))  # type: ignore
        return [(kernel.replace(lengthscale=e), a) for e, a in zip(ell, self.axes, strict=True)]


@dataclass(frozen=True)
class Spectrum:
    """``L = U Λ Uᵀ`` of the points of a reference, by factors: U and Λ are Kronecker products of these.

    Attributes:
        kernels: along each axis, or the only one.
        points: along each axis, (m, 1), or all, (M, d).
        values: eigenvalues of each factor.
        vectors: eigenvectors of each.
    """

    kernels: list[Kernel]
    points: list[np.ndarray]
    values: list[np.ndarray]
    vectors: list[np.ndarray]

    @property
    def eigenvalues(self) -> np.ndarray:
        """Λ, (M,)."""
        return reduce(lambda a, b: (a[:, None] * b).reshape(-1), self.values)

    def leading(self, share: float) -> Spectrum:
        """The same without the eigenvalues of each factor below a share of its largest."""
        kept = [v > share * v.max() for v in self.values]
        values = [v[keep] for v, keep in zip(self.values, kept, strict=True)]
        vectors = [U[:, keep] for U, keep in zip(self.vectors, kept, strict=True)]
        return replace(self, values=values, vectors=vectors)

    def features(self, Y: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """``k(y, z) U`` for every row, (n, M)."""
        columns = [Y] if len(self.kernels) == 1 else [Y[:, [j]] for j in range(Y.shape[1])]
        parts = zip(self.kernels, columns, self.points, self.vectors, strict=True)
        return _row_products([(np.asarray(k(y, z)) @ U).astype(dtype) for k, y, z, U in parts])

    def back(self, T: np.ndarray) -> np.ndarray:
        """``T Uᵀ`` for ``T`` (n, M): from the eigenbasis to the points."""
        n, out = len(T), T
        for U in reversed(self.vectors):  # the last axis goes to the front each time: after all, as it was
            out = out.reshape(n, -1, U.shape[1]) @ U.T.astype(T.dtype)
            out = np.moveaxis(out, 2, 1) if len(self.vectors) > 1 else out
        return out.reshape(n, -1)


def _row_products(factors: list[np.ndarray]) -> np.ndarray:
    """All products of one entry of each factor, row by row: (n, m₁ m₂ …)."""
    return reduce(lambda A, B: (A[:, :, None] * B[:, None]).reshape(len(A), -1), factors)


def _is_product(kernel: Kernel) -> bool:
    return isinstance(kernel, Gaussian) or (isinstance(kernel, Laplace) and kernel.norm == 1)


def box_reference(
    lower: np.ndarray,
    upper: np.ndarray,
    finest: np.ndarray,
    kind: str | None = None,
    size: int | None = None,
    random_state: Any = 0,
) -> Reference:
    """Lebesgue measure on a box: by default a grid in up to four dimensions, a Sobol sequence beyond.

    Args:
        lower: corner of the box, (d,).
        upper: opposite corner, (d,).
        finest: the scale of detail along each axis; in one dimension the grid resolves half of it.
        kind: "grid", "sobol" or "random" points.
        size: points along each axis of a grid, or points in all.
        random_state: seed of scattered points.
    """
    d = len(lower)
    volume = float(np.prod(upper - lower))
    if kind == "grid" or (kind is None and d in GRID):
        count = size or GRID.get(d, 2)
        if d == 1 and size is None:
            count = int(np.clip(np.ceil(2 * (upper - lower)[0] / finest[0]), count, 4 * count))
        # Midpoints of equal cells: each point stands for the same volume.
        steps = (np.arange(count) + 0.5) / count
        axes = [lo + (hi - lo) * steps for lo, hi in zip(lower, upper, strict=True)]
        mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
        return Reference(mesh, volume, axes, lower=lower, upper=upper)
    rng, count = as_generator(random_state), size or SOBOL
    if kind == "random":
        points = rng.random((count, d))
    else:
        from scipy.stats import qmc

        power = int(np.ceil(np.log2(count)))  # the sequence is balanced at powers of two
        points = qmc.Sobol(d, rng=rng).random_base2(power)
    scattered = lower + (upper - lower) * points
    return Reference(scattered, volume, random=kind == "random", lower=lower, upper=upper)


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
        if axes is not None:
            mass *= reduce(lambda v, a: v * len(a) / (len(a) - 1), axes, 1.0)
    check_positive(mass, "mass", "give the volume that the reference points fill", scalar=True)
    if axes is not None:  # equally spaced axes stand for cells that reach half a step beyond
        half = np.array([np.ptp(a) / max(len(a) - 1, 1) / 2 for a in axes])
        lower, upper = lower - half, upper + half
    return Reference(points, float(mass), axes, axes is None, lower, upper)
