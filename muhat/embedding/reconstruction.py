"""Reconstructed densities: their values, moments, quantiles and draws."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._validation import (
    as_generator,
    as_rows,
    check_count,
    check_levels,
    check_same_columns,
    check_share,
)
from muhat.embedding.density import scheduled_reg, tikhonov_coefficients
from muhat.embedding.familiar import Familiar
from muhat.embedding.reference import Reference
from muhat.gram import kernel_matmul
from muhat.kernels.base import Kernel

# Kernel values that are made at a time.
BLOCK_ELEMENTS = 1 << 23


class OutsideBox(UserWarning):
    """Points lie outside the reference box, where a density is 0."""


@dataclass(frozen=True)
class Density(Familiar):
    """A reconstructed density, or a batch of them. Call it on points for its values.

    It is that of ``location + scale · t``, where t has the density ``Σⱼ βⱼ k(zⱼ, t)``: a linear function of
    the embedding, maybe negative, whose positive part is normalised, with a share of a uniform density on
    the reference box if that was asked for.

    Attributes:
        kernel: of the reconstruction.
        reference: ρ.
        coefficients: β, (M,) or (batch, M).
        reg: α'.
        mass: the integral of the raw solution, (batch,) or a number: 1 but for the regularisation.
        negative: the mass of its negative part, which ``pdf`` clips.
        location, scale: of the points, (k,) or (batch, k); None for 0 and 1.
        background: the share of the uniform density.
        bounded: whether the density is 0 outside the box of the reference, where nothing was seen; asking
            there warns.
        span: corners of a box of points that are asked for without a warning, (2, k): where the scale is
            small, the reference does not reach as far as the outputs of other x.
        familiarity: of conditional ones, how near each x is to those of training, as :class:`Familiar` says.
        limits: bounds of the support, (2, k): the density is 0 beyond them; draws and moments stay within.
    """

    kernel: Kernel
    reference: Reference
    coefficients: np.ndarray
    reg: float
    mass: np.ndarray
    negative: np.ndarray
    location: np.ndarray | None = None
    scale: np.ndarray | None = None
    background: float = 0.0
    bounded: bool = False
    span: np.ndarray | None = None
    familiarity: np.ndarray | None = None
    limits: np.ndarray | None = None

    @property
    def is_batch(self) -> bool:
        """Whether these are several densities on one reference."""
        return self.coefficients.ndim == 2

    def __len__(self) -> int:
        if not self.is_batch:
            raise TypeError("A single density has no length; a batch has the number of its rows.")
        return len(self.coefficients)

    def __getitem__(self, index: Any) -> Density:
        """One density of a batch, or a smaller batch."""
        if not self.is_batch:
            raise TypeError("A single density has no rows; only a batch can be indexed.")
        names = ("coefficients", "mass", "negative", "location", "scale", "familiarity")
        mine = {name: getattr(self, name) for name in names}
        return replace(self, **{name: a[index] for name, a in mine.items() if a is not None})

    def grown(self, lower: np.ndarray, upper: np.ndarray) -> Density:
        """The same on a wider box: nothing was seen there, so that only the uniform share spreads."""
        ref = self.reference
        points = Reference(ref.points, ref.mass, ref.axes, ref.random, lower, upper)
        return replace(self, reference=points)

    # -- values ----------------------------------------------------------------------------------

    def raw(self, x: Any) -> Array:
        """The solution itself, (n,) or (batch, n): linear in the embedding, maybe negative."""
        return self._squeeze(self._values(self._points(x)))

    def pdf(self, x: Any) -> Array:
        """The density, (n,) or (batch, n): clipped at 0 and normalised to integrate to 1."""
        points = self._points(x)
        out = self._squeeze(self._probability(self._values(points), self._standard(points)))
        if self.limits is None:
            return out
        return np.where(((points >= self.limits[0]) & (points <= self.limits[1])).all(axis=1), out, 0.0)

    __call__ = pdf

    def logpdf(self, x: Any) -> Array:
        """Log density; −inf where the density is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(x))

    def paired(self, x: Any) -> np.ndarray:
        """Of a batch: the i-th density at the i-th row of ``x``, (batch,)."""
        points = self._points(x)
        if len(points) != len(self):
            raise ValueError(
                f"x has {len(points)} rows, but there are {len(self)} densities: rows are pairs."
            )
        t = points if self.location is None else (points - self.location) / self.scale
        B, Z = self.coefficients, self.reference.points
        values, size = np.empty(len(t)), max(1, BLOCK_ELEMENTS // len(Z))
        for i in range(0, len(t), size):
            rows = slice(i, i + size)
            values[rows] = np.einsum("ij,ij->i", np.asarray(self.kernel(t[rows], Z)), B[rows])
        if self.scale is not None:
            values = values / self.scale.prod(axis=1)
        return self._probability(values[:, None], t[:, None])[:, 0]

    def _values(self, points: np.ndarray) -> np.ndarray:
        """The raw solutions, (batch, n)."""
        B, Z = np.atleast_2d(self.coefficients), self.reference.points
        if self.location is None:
            return np.asarray(kernel_matmul(self.kernel, points, Z, B.T)).T
        t = self._standard(points)
        rows = [np.asarray(kernel_matmul(self.kernel, a, Z, b)) for a, b in zip(t, B, strict=True)]
        return np.stack(rows) / self._spread()

    def _probability(self, values: np.ndarray, t: np.ndarray) -> np.ndarray:
        total = np.atleast_1d(self.mass + self.negative)[:, None]
        out = (1 - self.background) * np.maximum(values, 0.0) / total
        if self.background:
            lower, upper = self.reference.box()
            out = out + self.background / (np.prod(upper - lower) * self._spread())
        if not self.bounded:
            return out
        inside = self.reference.inside(t)
        strange = ~inside
        if self.span is not None and self.location is not None:
            y = np.atleast_2d(self.location)[:, None] + np.atleast_2d(self.scale)[:, None] * t  # type: ignore[arg-type]
            strange &= ((y < self.span[0]) | (y > self.span[1])).any(axis=-1)
        if away := int(strange.sum()):
            warnings.warn(
                f"{away} of {inside.size} values lie outside the box of the reference, where the density is "
                "0: give a wider box=(lower, upper), or grow=True.",
                OutsideBox,
                stacklevel=4,
            )
        return np.where(inside, out, 0.0)

    def _points(self, x: Any) -> np.ndarray:
        k = self.reference.points.shape[1]
        points = np.asarray(as_rows(x, "x"))
        check_same_columns(points, k, "x", "the density's points")
        return points.astype(np.float64, copy=False)

    def _standard(self, points: np.ndarray) -> np.ndarray:
        """The points as t, (1 or batch, n, k)."""
        if self.location is None:
            return points[None]
        location, scale = np.atleast_2d(self.location), np.atleast_2d(self.scale)  # type: ignore[arg-type]
        return (points[None] - location[:, None]) / scale[:, None]

    def _spread(self) -> Any:
        """The volume that a unit of t has in y, (batch, 1) or 1."""
        return 1.0 if self.scale is None else np.atleast_2d(self.scale).prod(axis=1)[:, None]

    def _squeeze(self, values: np.ndarray) -> np.ndarray:
        return values if self.is_batch else values[0]

    # -- moments -----------------------------------------------------------------------------------

    def mean(self) -> np.ndarray:
        """The mean in closed form, (k,) or (batch, k) [S20, A.2.1; with Σβ divided out, see the errata].

        The uniform share has no part in moments: it keeps log densities finite, far out where it would
        outweigh the rest.
        """
        return self._squeeze(self._moments()[0])

    def cov(self) -> np.ndarray:
        """The covariance in closed form, (k, k) or (batch, k, k) [S20, A.2.1].

        It is that of the raw solution, which may be negative: where that leaves no variance, the
        covariance of the clipped density is taken.
        """
        return self._squeeze(self._moments()[1])

    def var(self) -> np.ndarray:
        """The variances, (k,) or (batch, k)."""
        return self._squeeze(np.diagonal(self._moments()[1], axis1=1, axis2=2))

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        B, Z = np.atleast_2d(self.coefficients), self.reference.points
        centre = Z.mean(axis=0)
        mean, cov = _moments(B / B.sum(axis=1, keepdims=True), Z - centre)
        cov = cov + np.diag(np.asarray(self.kernel.variance(Z.shape[1])))
        flat = np.flatnonzero((np.linalg.eigvalsh(cov)[:, 0] <= 0) | (self.limits is not None))
        if len(flat):
            mean[flat], cov[flat] = _moments(self._cells()[flat], Z - centre)
        mean = mean + centre
        if self.location is not None:
            scale = np.atleast_2d(self.scale)  # type: ignore[arg-type]
            mean = np.atleast_2d(self.location) + scale * mean
            cov = scale[:, :, None] * cov * scale[:, None, :]
        return mean, cov

    def plot(self, labels: Any = None, names: Any = None, level: float = 0.9) -> Any:
        """A figure of the densities with their intervals; see :func:`muhat.report.density.density`."""
        from muhat.report.density import density

        return density(self, labels, names, level)

    # -- quantiles and draws -----------------------------------------------------------------------

    def _cells(self) -> np.ndarray:
        """The probability of the cell of each reference point, without the background, (batch, M)."""
        B = np.atleast_2d(self.coefficients)
        u = np.maximum(np.asarray(self.reference.gram(self.kernel) @ B.T), 0.0).T
        return u / u.sum(axis=1, keepdims=True)

    def cdf(self, x: Any, column: int = 0) -> np.ndarray:
        """The probability that a column is at most ``x`` (n,): (n,) or (batch, n)."""
        values = np.atleast_1d(np.asarray(x, dtype=np.float64))
        edges, cumulative = self._cumulative(column)
        t = np.broadcast_to(values, (len(cumulative), len(values)))
        if self.location is not None:
            location, scale = np.atleast_2d(self.location), np.atleast_2d(self.scale)  # type: ignore[arg-type]
            t = (t - location[:, [column]]) / scale[:, [column]]
        return self._squeeze(np.stack([np.interp(a, edges, c) for a, c in zip(t, cumulative, strict=True)]))

    def reach(self, x: Any) -> np.ndarray:
        """Of a batch: how far out the i-th row of ``x`` lies in the i-th density, (batch, k).

        From 0 at the median to ½ at the ends of the support, ``|F(x) − ½|``; beyond them ½ and the distance
        in lengths of the support, so that no two points outside are alike.
        """
        points = self._points(x)
        out = np.empty(points.shape)
        for j in range(points.shape[1]):
            level = self._paired_cdf(points[:, j], j)
            low, high = self._quantile(j, np.tile([0.0, 1.0], (len(points), 1))).T
            beyond = np.maximum(low - points[:, j], points[:, j] - high)
            out[:, j] = np.where(beyond > 0, 0.5 + beyond / (high - low), np.abs(level - 0.5))
        return out

    def within(self, reach: float, column: int) -> np.ndarray:
        """The points of one column at most so far out, as intervals, (batch, 2)."""
        inner = min(reach, 0.5)
        ends = self._quantile(column, np.tile([0.5 - inner, 0.5 + inner], (self._rows, 1)))
        if reach <= 0.5:
            return ends
        return ends + (reach - 0.5) * (ends[:, 1] - ends[:, 0])[:, None] * np.array([-1.0, 1.0])

    def _paired_cdf(self, values: np.ndarray, column: int) -> np.ndarray:
        t = values
        if self.location is not None:
            t = (values - self.location[:, column]) / self.scale[:, column]  # type: ignore[index]
        edges, cumulative = self._cumulative(column)
        return np.array([np.interp(a, edges, c) for a, c in zip(t, cumulative, strict=True)])

    def quantile(self, q: Any) -> np.ndarray:
        """Quantiles of each column.

        Args:
            q: a level in [0, 1], or several, (m,).

        Returns:
            (k,), or (m, k) for several levels; with a leading (batch,) for a batch.
        """
        levels = check_levels(q, "q")
        k = self.reference.points.shape[1]
        each = np.broadcast_to(levels, (self._rows, len(levels)))
        out = np.stack([self._quantile(j, each) for j in range(k)], axis=-1)
        out = out[:, 0] if np.ndim(q) == 0 else out
        return self._squeeze(out)

    @property
    def _rows(self) -> int:
        return len(np.atleast_2d(self.coefficients))

    def _quantile(self, column: int, levels: np.ndarray) -> np.ndarray:
        """Quantiles of one column at ``levels`` (batch, m)."""
        edges, cumulative = self._cumulative(column)
        t = np.stack([np.interp(l, *_increasing(c, edges)) for l, c in zip(levels, cumulative, strict=True)])
        if self.location is None:
            return t
        location, scale = np.atleast_2d(self.location), np.atleast_2d(self.scale)  # type: ignore[arg-type]
        return location[:, [column]] + scale[:, [column]] * t

    def _cumulative(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Edges of the cells along a column and the probability up to each, (m + 1,) and (batch, m + 1)."""
        lower, upper = (corner[column] for corner in self.reference.box())
        P, axes = self._cells(), self.reference.axes
        if axes is not None:
            centres = axes[column]
            P = P.reshape(-1, *(len(a) for a in axes)).sum(
                axis=tuple(1 + j for j in range(len(axes)) if j != column)
            )
        else:
            centres, inverse = np.unique(self.reference.points[:, column], return_inverse=True)
            P = np.stack([np.bincount(inverse, p, len(centres)) for p in P])
        edges = np.concatenate([[lower], (centres[1:] + centres[:-1]) / 2, [upper]])
        cumulative = np.concatenate([np.zeros((len(P), 1)), np.cumsum(P, axis=1)], axis=1)
        uniform = (edges - lower) / (upper - lower)
        return edges, (1 - self.background) * cumulative + self.background * uniform

    def interval(self, level: float = 0.9) -> np.ndarray:
        """The interval between the quantiles (1 ± level)/2 of each column: (k, 2) or (batch, k, 2)."""
        level = check_share(level, "level", "give e.g. 0.9")
        return np.moveaxis(self.quantile([(1 - level) / 2, (1 + level) / 2]), -2, -1)

    def sample(self, n: int, random_state: Any = None) -> np.ndarray:
        """``n`` draws, (n, k) or (batch, n, k): a cell by its probability, then a point of it at random."""
        n, rng = check_count(n, "n"), as_generator(random_state)
        Z, k = self.reference.points, self.reference.points.shape[1]
        lower, upper = self.reference.box()
        size = self.reference.spacing
        out = np.empty((self._rows, n, k))
        for b, p in enumerate(self._cells()):
            t = Z[rng.choice(len(Z), n, p=p)] + size * (rng.random((n, k)) - 0.5)
            other = rng.random(n) < self.background
            out[b] = np.where(other[:, None], lower + (upper - lower) * rng.random((n, k)), t)
        if self.location is not None:
            location, scale = np.atleast_2d(self.location), np.atleast_2d(self.scale)  # type: ignore[arg-type]
            out = location[:, None] + scale[:, None] * out
        return self._squeeze(out if self.limits is None else np.clip(out, *self.limits))


@dataclass(frozen=True)
class Mixture:
    """A mixture of densities: that of y where x is uncertain.

    Attributes:
        parts: the densities, a batch.
        weights: theirs, (batch,).
    """

    parts: Density
    weights: np.ndarray

    def raw(self, x: Any) -> np.ndarray:
        """The mixture of the raw solutions, (n,)."""
        return self.weights @ self.parts.raw(x)

    def pdf(self, x: Any) -> np.ndarray:
        """The density, (n,)."""
        return self.weights @ self.parts.pdf(x)

    __call__ = pdf

    def logpdf(self, x: Any) -> np.ndarray:
        """Log density; −inf where the density is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(x))

    def mean(self) -> np.ndarray:
        """The mean in closed form, (k,)."""
        return self.weights @ self.parts.mean()

    def cov(self) -> np.ndarray:
        """The covariance in closed form, (k, k)."""
        apart = self.parts.mean() - self.mean()
        each = self.parts.cov() + apart[:, :, None] * apart[:, None, :]
        return np.tensordot(self.weights, each, axes=1)

    def var(self) -> np.ndarray:
        """The variances, (k,)."""
        return np.diagonal(self.cov())

    def cdf(self, x: Any, column: int = 0) -> np.ndarray:
        """The probability that a column is at most ``x``, (n,)."""
        return self.weights @ self.parts.cdf(x, column)

    def quantile(self, q: Any) -> np.ndarray:
        """Quantiles of each column: (k,), or (m, k) for several levels."""
        levels, columns = check_levels(q, "q"), self.parts.reference.points.shape[1]
        ends = self.parts.quantile([0.0, 1.0])
        out = np.empty((len(levels), columns))
        for j in range(columns):
            lo, hi = np.full(len(levels), ends[:, 0, j].min()), np.full(len(levels), ends[:, 1, j].max())
            for _ in range(60):  # halving
                middle = (lo + hi) / 2
                below = self.cdf(middle, j) < levels
                lo, hi = np.where(below, middle, lo), np.where(below, hi, middle)
            out[:, j] = (lo + hi) / 2
        return out[0] if np.ndim(q) == 0 else out

    def interval(self, level: float = 0.9) -> np.ndarray:
        """The interval between the quantiles (1 ± level)/2 of each column, (k, 2)."""
        level = check_share(level, "level", "give e.g. 0.9")
        return self.quantile([(1 - level) / 2, (1 + level) / 2]).T

    def plot(self, labels: Any = None, names: Any = None, level: float = 0.9) -> Any:
        """A figure of the density with its interval."""
        from muhat.report.density import density

        return density(self, labels, names, level)

    def sample(self, n: int, random_state: Any = None) -> np.ndarray:
        """``n`` draws, (n, k)."""
        n, rng = check_count(n, "n"), as_generator(random_state)
        counts = rng.multinomial(n, self.weights / self.weights.sum())
        draws = [self.parts[i].sample(c, rng) for i, c in enumerate(counts) if c]
        return rng.permutation(np.concatenate(draws))


def _moments(W: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (batch, k) and covariances (batch, k, k) of points with weights that sum to one."""
    mean = W @ Z
    second = np.einsum("bi,ij,il->bjl", W, Z, Z, optimize=True)
    return mean, second - mean[:, :, None] * mean[:, None, :]


def _increasing(c: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cumulative probabilities and their edges without flat stretches, where no quantile lies."""
    rises = np.diff(c) > 0
    keep = np.append(rises, False) | np.append(False, rises)
    return c[keep], edges[keep]


def reconstruct(
    kernel: Kernel, reference: Reference, values: Array, reg: float | None, n: float, **other: Any
) -> Density:
    """The density of an embedding with ``values`` at the reference points, (M,) or (batch, M)."""
    gram = reference.gram(kernel)
    reg = scheduled_reg(gram, reference, n) if reg is None else reg
    beta = tikhonov_coefficients(gram, reference.mass, values.T, reg)
    u = gram @ beta
    mass = u.sum(axis=0) * reference.cell
    negative = -np.minimum(u, 0.0).sum(axis=0) * reference.cell
    return Density(kernel, reference, np.asarray(beta.T), reg, mass, negative, **other)


__all__ = ["Density", "Mixture", "OutsideBox", "reconstruct"]
