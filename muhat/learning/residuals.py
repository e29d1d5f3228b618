"""Outputs less their regression on x, in units of their spread at x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat._array import Array
from muhat.gram import Gram
from muhat.gram.landmarks import uniform_landmarks
from muhat.gram.nystrom import NystromKernel
from muhat.gram.representation import Exact, Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import default_kernel
from muhat.kernels.dot import Linear
from muhat.learning.leave_one_out import EXACT_ROWS, LeaveOneOut, choose_conditional
from muhat.operators.conditional import Groups, conditional_ridge, leave_one_out

# A residual of this share of the typical one counts as none when logarithms are taken.
LEAST = 0.01
# What a few inputs leave unexplained of k(x, x), as a share of λ, for them to stand for all.
LOST = 0.01


@dataclass(frozen=True)
class Regression:
    """A ridge regression with its kernel and regulariser chosen by leave-one-out.

    Attributes:
        gram: of the distinct inputs.
        coefficients: of the functions, (g or p, k), and of the function 1 in the last column.
        offset: the means of the outputs, (k,), to which the answer returns far from the data.
        chosen: by what.
    """

    gram: Gram
    coefficients: np.ndarray
    offset: np.ndarray
    chosen: LeaveOneOut

    def at(self, x: Array) -> tuple[np.ndarray, np.ndarray]:
        """Values (q, k), and the share of each that comes from the data, (q, 1)."""
        out = np.asarray(self.gram.evaluate(x, self.coefficients))
        return self.offset + out[:, :-1], out[:, -1:]


def regress(
    X: Array,
    F: np.ndarray,
    groups: Groups | None,
    kernel: Kernel,
    families: bool,
    represent: Representation,
    rng: np.random.Generator,
) -> tuple[Regression, np.ndarray, np.ndarray]:
    """The regression of ``F`` (n, k) on ``X``, its leave-one-out residuals, and the share from the data.

    Args:
        X: (n, d).
        F: outputs on one scale.
        groups: of equal rows of X.
        kernel: on X.
        families: whether rougher kernels are tried, too.
        represent: of the Gram.
        rng: for subsets and landmarks.
    """
    offset = F.mean(axis=0)
    kernel_y = default_kernel(F) if np.ptp(F, axis=0).all() else Linear()
    best = choose_conditional(X, F, kernel, kernel_y, None, True, rng, families=families, means=True)
    inputs = X if groups is None else groups.points
    few = _span(best, inputs, rng) if isinstance(represent, Exact) else None
    gram = represent.gram_of(few or represent.fit(best.kernel, inputs, rng), inputs)
    ridge = conditional_ridge(gram, best.reg, groups)
    both = np.hstack([F - offset, np.ones((len(F), 1))])
    residual = np.asarray(leave_one_out(ridge, both, groups))
    fitted = np.asarray(ridge.fit(both if groups is None else groups.mean(both)))
    return Regression(gram, fitted, offset, best), residual[:, :-1], 1 - residual[:, -1:]


def _span(chosen: LeaveOneOut, inputs: Array, rng: np.random.Generator) -> NystromKernel | None:
    """The span of a few inputs, where it lacks nothing of the kernel that λ would not shrink away."""
    if len(inputs) <= EXACT_ROWS:
        return None
    kernel = NystromKernel.fit(chosen.kernel, uniform_landmarks(inputs, EXACT_ROWS, rng))
    if kernel.size > EXACT_ROWS // 4:
        return None
    lost = np.asarray(chosen.kernel.diag(inputs)) - (np.asarray(kernel.features(inputs)) ** 2).sum(axis=1)
    return kernel if lost.mean() < LOST * chosen.reg else None


@dataclass(frozen=True)
class Standard:
    """Location and scale of the outputs given x.

    Attributes:
        location: regression of the outputs, each over its standard deviation.
        unit: the standard deviations, (k,).
        scale: regression of the logarithms of the residuals; None for one spread everywhere.
        bounds: least and largest logarithm seen, (2, k); None likewise.
        spread: what the answers of ``scale`` are multiplied by, so that residuals have unit variance, (k,).
        usual: the share of the location that comes from the data, at the training rows.
    """

    location: Regression
    unit: np.ndarray
    scale: Regression | None
    bounds: np.ndarray | None
    spread: np.ndarray
    usual: float

    def at(self, x: Array) -> tuple[np.ndarray, np.ndarray]:
        """Location and scale at the rows of ``x``, each (q, k)."""
        mean, share = self.location.at(x)
        spread = np.broadcast_to(self.spread, mean.shape)
        if self.scale is not None and self.bounds is not None:
            spread = spread * np.exp(np.clip(self.scale.at(x)[0], *self.bounds))
        return self.unit * mean, self.unit * _widened(spread, share, self.usual)


@dataclass(frozen=True)
class Way:
    """A way to take the outputs.

    Attributes:
        standard: location and scale that they are taken by; None as they are.
        outputs: in these units, (n, k).
        scales: the units, (n, k).
    """

    standard: Standard | None
    outputs: np.ndarray
    scales: np.ndarray


def _widened(spread: np.ndarray, share: np.ndarray, usual: float) -> np.ndarray:
    """Where less than usual comes from the data, the spread tends to that of the outputs themselves: one."""
    lost = np.clip(1 - share / usual, 0.0, 1.0) ** 2
    return np.sqrt((1 - lost) * spread**2 + lost)


def standardize(
    X: Array,
    Y: np.ndarray,
    groups: Groups | None,
    kernel: Kernel,
    families: bool,
    represent: Representation,
    rng: np.random.Generator,
) -> list[Way]:
    """Location alone, and location and scale; nothing where no residuals are left.

    Residuals are those of leave-one-out, so that they are as large as new ones will be.

    Args:
        X: (n, d).
        Y: (n, k).
        groups: of equal rows of X.
        kernel: on X.
        families: whether rougher kernels are tried, too.
        represent: of Grams.
        rng: for subsets and landmarks.
    """
    unit = Y.std(axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    location, residual, share = regress(X, Y / unit, groups, kernel, families, represent, rng)
    typical = np.sqrt((residual**2).mean(axis=0))
    if not (typical > 0).all():
        return []
    usual = max(float(share.mean()), 1e-3)
    alone = Standard(location, unit, None, None, typical, usual)
    out = [_way(alone, residual, share, np.broadcast_to(typical, residual.shape))]
    size = np.abs(residual)
    logs = np.log(size + LEAST * np.median(size, axis=0) + 1e-12 * typical)
    scale, rest, _ = regress(X, logs, groups, kernel, False, represent, rng)
    left = logs - rest  # leave-one-out predictions of the logarithms
    bounds = np.stack([left.min(axis=0), left.max(axis=0)])
    spread = np.exp(left)
    factor = np.sqrt(((residual / spread) ** 2).mean(axis=0))
    both = Standard(location, unit, scale, bounds, factor, usual)
    out.append(_way(both, residual, share, factor * spread))
    return out


def _way(standard: Standard, residual: np.ndarray, share: np.ndarray, spread: np.ndarray) -> Way:
    spread = _widened(spread, share, standard.usual)
    return Way(standard, residual / spread, standard.unit * spread)
