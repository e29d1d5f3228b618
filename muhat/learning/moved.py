"""The density of y given x as a kernel density of outputs that were moved to x.

``p(y | x) = Σᵢ wᵢ(x) N(y; m(x) + s(x) c eᵢ, h² s(x)² Σ)``: the outputs seen, each less its regression m on x
and in units of its spread s at x, stand where they would have been seen at x; those with inputs near x may
count for more. With ``c = √(1 − h²)`` the smoothing keeps their variance, so that h = 1 is one Gaussian
[LW01] and small h a plain kernel density. All that is free is chosen by leave-one-out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from muhat._linalg import SingularSystem, cholesky
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.base import Kernel
from muhat.kernels.stationary import Gaussian, Matern
from muhat.learning.leave_one_out import leave_one_out_path, stretch

# Regressions see so many landmarks, of many rows a quarter of them up to so many; what is chosen by a
# search, it sees on so many rows.
LANDMARKS, MOST_LANDMARKS = 250, 500
SEARCH_ROWS, SEARCH_LANDMARKS = 500, 150
REGULARISERS = np.logspace(-9, 0, 19)
MULTIPLES = 2.0 ** np.arange(-2, 3)
FLAT = 1.001
# A residual of this share of the typical one counts as none when logarithms are taken.
LEAST = 0.01
# Share of the logarithms of residuals below, and above, which no predicted logarithm is believed.
BEYOND = 0.025
# Rough functions are looked for in few columns.
FEW = 3
# Widths of the weights in x, in standard deviations; and h, times n^{-1/(k+4)}, with one Gaussian at last.
NEAR = (np.inf, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)
SMOOTH = (0.2, 0.3, 0.45, 0.65, 1.0, 1.5)
# Rows at which the search asks for the density of their outputs, and rows that it sums over.
ASKED, SUMMED = 300, 2000
# Fewer equal weights than this are no estimate of a density.
LEAST_SIZE = 5.0
# Share of one wide Gaussian, which keeps logarithms finite.
BACKGROUND, WIDE = 0.01, 3.0
WAYS = ("outputs", "location", "location and scale")


@dataclass(frozen=True)
class Ridge:
    """A kernel ridge regression on landmarks.

    Attributes:
        kernel: with its features.
        coefficients: (p, k).
        offset: means of the outputs, (k,).
    """

    kernel: NystromKernel
    coefficients: np.ndarray
    offset: np.ndarray

    @cached_property
    def landmark_weights(self) -> np.ndarray:
        return self.kernel.landmark_weights(self.coefficients.T).T

    def at(self, x: np.ndarray) -> np.ndarray:
        return self.offset + self.kernel.kernel(x, self.kernel.landmarks) @ self.landmark_weights


def fit_ridge(
    X: np.ndarray, F: np.ndarray, kernel: Kernel, reg: float, landmarks: np.ndarray
) -> tuple[Ridge, np.ndarray]:
    """The regression of ``F`` (n, k) on ``X`` (n, d), and its leave-one-out residuals."""
    features = NystromKernel.fit(kernel, landmarks)
    Phi, offset = features.features(X), F.mean(axis=0)
    A = Phi.T @ Phi
    A[np.diag_indices(len(A))] += len(X) * reg
    solved = cholesky(A, "ΦᵀΦ + nλI", "Raise the regulariser.", overwrite=True).solve(Phi.T)
    coefficients = solved @ (F - offset)
    own = np.einsum("ij,ji->i", Phi, solved)
    left = F - offset - Phi @ coefficients
    return Ridge(features, coefficients, offset), left / np.maximum(1 - own, 1e-6)[:, None]


def choose_ridge(
    X: np.ndarray, F: np.ndarray, kernels: list[Kernel], rng: np.random.Generator
) -> tuple[Kernel, float]:
    """The kernel among ``kernels`` and multiples of their lengthscales, and λ, by leave-one-out."""
    rows = some(len(X), SEARCH_ROWS, rng)
    part, out = X[rows], F[rows] - F[rows].mean(axis=0)
    landmarks = part[some(len(part), SEARCH_LANDMARKS, rng)]
    best: tuple[float, Kernel] | None = None
    for kernel in kernels:
        for multiple in MULTIPLES:
            candidate = stretch(kernel, np.full(X.shape[1], multiple))
            loss = float(_path(candidate, part, out, landmarks).min())
            if best is None or loss < best[0]:
                best = (loss, candidate)
    assert best is not None
    # The regulariser falls with n: once more on all rows.
    landmarks = X[some(len(X), enough_landmarks(len(X)), rng)]
    losses = _path(best[1], X, F - F.mean(axis=0), landmarks)
    # On a flat valley the largest regulariser: the same loss, and steadier elsewhere.
    return best[1], float(REGULARISERS[np.flatnonzero(losses <= FLAT * losses.min())[-1]])


def _path(kernel: Kernel, X: np.ndarray, F: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    return leave_one_out_path(NystromKernel.fit(kernel, landmarks).features(X), F, REGULARISERS)


def enough_landmarks(n: int) -> int:
    """How many of n rows."""
    return min(max(LANDMARKS, n // 4), MOST_LANDMARKS)


def some(n: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most ``most`` of n rows, in order."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


@dataclass(frozen=True)
class MovedChoice:
    """What is in use in a density of moved outputs.

    Attributes:
        way: 0 for the outputs as they are, 1 for those less their regression, 2 in units of their spread.
        location: kernel and λ of the regression.
        scale: of that of the logarithms of its residuals.
        near: width of the weights in x, in standard deviations.
        smooth: h.
        score: the mean leave-one-out log density of the outputs.
        scores: the best of each way.
    """

    way: int
    location: tuple[Kernel, float]
    scale: tuple[Kernel, float]
    near: float
    smooth: float
    score: float
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Location:
    """Location and scale of the outputs given x.

    Attributes:
        mean: regression of the outputs; None for zero.
        spread: regression of the logarithms of residuals; None for one spread everywhere.
        bounds: least and largest logarithm that is believed, (2, k).
        unit: what answers of ``spread`` are multiplied by, (k,).
    """

    mean: Ridge | None
    spread: Ridge | None
    bounds: np.ndarray
    unit: np.ndarray

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Location and scale at the rows of ``x``, each (q, k)."""
        shape = (len(x), len(self.unit))
        mean = np.zeros(shape) if self.mean is None else self.mean.at(x)
        if self.spread is None:
            return mean, np.broadcast_to(self.unit, shape)
        return mean, self.unit * np.exp(np.clip(self.spread.at(x), *self.bounds))


@dataclass(frozen=True)
class MovedDensity:
    """The density of y (k columns) given x (d columns); see the head of the module.

    Attributes:
        X: inputs, (n, d).
        unit_x: their standard deviations, (d,).
        location: m and s.
        residuals: e, whitened, (n, k).
        centre, lower: ``e = (r/s − centre) lower⁻ᵀ``.
        choice: what is in use.
    """

    X: np.ndarray
    unit_x: np.ndarray
    location: Location
    residuals: np.ndarray
    centre: np.ndarray
    lower: np.ndarray
    choice: MovedChoice

    def weights(self, x: np.ndarray) -> np.ndarray:
        """w(x), (q, n)."""
        if not np.isfinite(self.choice.near):
            return np.full((len(x), len(self.X)), 1 / len(self.X))
        return near_weights(squares(x / self.unit_x, self.X / self.unit_x), self.choice.near)

    def points(self, x: np.ndarray) -> np.ndarray:
        """The outputs moved to each row of ``x``, (q, n, k), without smoothing."""
        mean, scale = self.location.at(x)
        return mean[:, None] + scale[:, None] * (self.centre + self.residuals @ self.lower.T)

    def logpdf(
        self,
        x: np.ndarray,
        y: np.ndarray,
        rows: np.ndarray | None = None,
        there: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """``log p(yₗ | xⱼ)`` for rows of ``x`` (m, d) and ``y`` (q, k), (q, m).

        Args:
            x: inputs.
            y: outputs.
            rows: of the residuals that are summed over; None for all.
            there: location and scale at ``x``, if they are known.
        """
        mean, scale = self.location.at(x) if there is None else there
        E, X = self.residuals, self.X
        if rows is not None:
            E, X = E[rows], X[rows]
        W = None
        if np.isfinite(self.choice.near):
            W = near_weights(squares(x / self.unit_x, X / self.unit_x), self.choice.near)
        out = np.empty((len(y), len(x)))
        unit = np.log(scale).sum(axis=1) + np.log(np.diagonal(self.lower)).sum()
        for i, row in enumerate(y):
            U = whiten((row - mean) / scale, self.centre, self.lower)
            out[i] = _log_kde(U, E, W, self.choice.smooth) - unit
        return out

    def logpdf_of_pairs(self, x: np.ndarray, y: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """``log p(yᵢ | xᵢ)`` for each row of ``x`` (q, d) and ``y`` (q, k), (q,)."""
        mean, scale = self.location.at(x)
        E, X = (self.residuals, self.X) if rows is None else (self.residuals[rows], self.X[rows])
        W = None
        if np.isfinite(self.choice.near):
            W = near_weights(squares(x / self.unit_x, X / self.unit_x), self.choice.near)
        U = whiten((y - mean) / scale, self.centre, self.lower)
        unit = np.log(scale).sum(axis=1) + np.log(np.diagonal(self.lower)).sum()
        return _log_kde(U, E, W, self.choice.smooth) - unit


def fit_moved(
    X: np.ndarray, Y: np.ndarray, rng: np.random.Generator, choice: MovedChoice | None = None
) -> MovedDensity:
    """The density of ``Y`` (n, k) given ``X`` (n, d), with all that is free chosen unless it is given."""
    landmarks = X[some(len(X), enough_landmarks(len(X)), rng)]
    if choice is None:
        choice = choose_moved(X, Y, landmarks, rng)
    location, residuals, _ = _standard(X, Y, choice.way, choice.location, choice.scale, landmarks)
    centre, lower = _shape(residuals)
    return MovedDensity(X, _unit(X), location, whiten(residuals, centre, lower), centre, lower, choice)


def choose_moved(
    X: np.ndarray, Y: np.ndarray, landmarks: np.ndarray, rng: np.random.Generator
) -> MovedChoice:
    """The way to take the outputs, weights and smoothing with the largest leave-one-out log density."""
    n, k = Y.shape
    smooth_kernel: Any = Gaussian("scaled").resolve(X)
    kernels: list[Kernel] = [smooth_kernel]
    if X.shape[1] <= FEW:
        kernels.append(Matern(1.5, smooth_kernel.lengthscale))
    where = choose_ridge(X, Y / _unit(Y), kernels, rng)
    residual = fit_ridge(X, Y, *where, landmarks)[1]
    spread = choose_ridge(X, _logs(residual), [smooth_kernel], rng)
    asked, summed = some(n, ASKED, rng), some(n, SUMMED, rng)
    unit_x = _unit(X)
    weights = _trial_weights(squares(X[asked] / unit_x, X[summed] / unit_x), asked, summed)
    rate = n ** (-1 / (k + 4))
    widths = sorted({min(h * rate, 1.0) for h in SMOOTH} | {1.0})
    best, scores = (-np.inf, 0, np.inf, 1.0), []
    for way in range(len(WAYS)):
        _, E, units = _standard(X, Y, way, where, spread, landmarks)
        centre, lower = _shape(E)
        U = whiten(E, centre, lower)
        own = asked[:, None] == summed
        unit = np.log(units[asked]).sum(axis=1).mean() + np.log(np.diagonal(lower)).sum()
        top = -np.inf
        for h in widths:
            D = _kde_squares(U[asked], U[summed], h)
            D[own] = np.inf
            K = np.exp(-0.5 * D) / (h * np.sqrt(2 * np.pi)) ** k
            # With h = 1 every row makes the same Gaussian: weights say nothing, and rounding would choose.
            for near, W in weights if h < 1 else weights[:1]:
                density = K.mean(axis=1) if W is None else np.einsum("ij,ij->i", W, K)
                score = float(np.log(_tempered(density, U[asked])).mean() - unit)
                top = max(top, score)
                if score > best[0]:
                    best = (score, way, near, h)
        scores.append(top)
    score, way, near, h = best
    return MovedChoice(way, where, spread, near, h, score, tuple(scores))


def _trial_weights(
    D: np.ndarray, asked: np.ndarray, summed: np.ndarray
) -> list[tuple[float, np.ndarray | None]]:
    """Weights of every width that leaves enough rows, without the row that is asked for."""
    out: list[tuple[float, np.ndarray | None]] = []
    D = np.where(asked[:, None] == summed, np.inf, D)
    for near in NEAR:
        if not np.isfinite(near):
            out.append((near, None))
            continue
        W = near_weights(D, near)
        if np.median(1 / (W**2).sum(axis=1)) >= LEAST_SIZE:
            out.append((near, W))
    return out


def near_weights(D: np.ndarray, near: float) -> np.ndarray:
    """``exp(−D/(2b²))`` with rows of sum one, for squared distances D (q, n) and b = ``near``."""
    W = np.exp(-0.5 * (D - D.min(axis=1, keepdims=True)) / near**2)
    return W / W.sum(axis=1, keepdims=True)


def _standard(
    X: np.ndarray,
    Y: np.ndarray,
    way: int,
    where: tuple[Kernel, float],
    spread: tuple[Kernel, float],
    landmarks: np.ndarray,
) -> tuple[Location, np.ndarray, np.ndarray]:
    """Location and scale, the outputs in these units (by leave-one-out), and the units, (n, k) each."""
    none = np.zeros((2, Y.shape[1]))
    if way == 0:
        unit = _unit(Y)
        return Location(None, None, none, unit), Y / unit, np.broadcast_to(unit, Y.shape)
    mean, residual = fit_ridge(X, Y, *where, landmarks)
    typical = np.sqrt((residual**2).mean(axis=0))
    typical = np.where(typical > 0, typical, 1.0)
    if way == 1:
        return (
            Location(mean, None, none, typical),
            residual / typical,
            np.broadcast_to(typical, residual.shape),
        )
    logs = _logs(residual)
    scale, rest = fit_ridge(X, logs, *spread, landmarks)
    # Leave-one-out predictions of the logarithms; a single residual over a spread that is predicted far below
    # all others would have a unit of its own, and all others would be scaled by it.
    bounds = np.quantile(logs, [BEYOND, 1 - BEYOND], axis=0)
    left = np.clip(logs - rest, *bounds)
    factor = np.sqrt(((residual / np.exp(left)) ** 2).mean(axis=0))
    units = np.where(factor > 0, factor, 1.0) * np.exp(left)
    return Location(mean, scale, bounds, np.where(factor > 0, factor, 1.0)), residual / units, units


def _logs(residual: np.ndarray) -> np.ndarray:
    size = np.abs(residual)
    typical = np.sqrt((size**2).mean(axis=0))
    return np.log(size + LEAST * np.median(size, axis=0) + 1e-12 * np.where(typical > 0, typical, 1.0))


def _unit(X: np.ndarray) -> np.ndarray:
    sd = X.std(axis=0)
    return np.where(sd > 1e-14 * np.abs(X).max(axis=0), sd, 1.0)


def _shape(E: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and Cholesky factor of the covariance."""
    centre = E.mean(axis=0)
    C = (E - centre).T @ (E - centre) / len(E)
    try:
        factor = cholesky(C + 1e-10 * np.eye(len(C)), "the residuals' covariance", "")
        return centre, np.tril(factor.lower)
    except SingularSystem:
        return centre, np.diag(np.sqrt(np.maximum(np.diagonal(C), 1e-12)))


def whiten(E: np.ndarray, centre: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """``(e − centre) lower⁻ᵀ`` for every row e."""
    from scipy.linalg import solve_triangular

    return solve_triangular(lower, (E - centre).T, lower=True).T


def _kde_squares(U: np.ndarray, E: np.ndarray, h: float) -> np.ndarray:
    return squares(U, np.sqrt(max(1 - h**2, 0.0)) * E) / h**2


def _log_kde(U: np.ndarray, E: np.ndarray, W: np.ndarray | None, h: float) -> np.ndarray:
    """The logarithm of the smoothed density of residuals at the rows of U (m, k), (m,)."""
    k = U.shape[1]
    if h >= 1.0:
        density = np.exp(-0.5 * (U**2).sum(axis=1)) / np.sqrt(2 * np.pi) ** k
    else:
        K = np.exp(-0.5 * _kde_squares(U, E, h))
        density = K.mean(axis=1) if W is None else np.einsum("ij,ij->i", W, K)
        density /= (h * np.sqrt(2 * np.pi)) ** k
    return np.log(_tempered(density, U))


def _tempered(density: np.ndarray, U: np.ndarray) -> np.ndarray:
    """The density with a small share of a wide one."""
    wide = np.exp(-0.5 * (U**2).sum(axis=1) / WIDE**2) / (WIDE * np.sqrt(2 * np.pi)) ** U.shape[1]
    return (1 - BACKGROUND) * density + BACKGROUND * wide + 1e-300


def squares(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Squared distances of rows, (q, n)."""
    D = -2 * A @ B.T
    D += (A**2).sum(axis=1)[:, None]
    D += (B**2).sum(axis=1)
    return np.maximum(D, 0.0, out=D)
