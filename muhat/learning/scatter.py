"""How outputs scatter about their regression on x, from leave-one-out residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from muhat._array import Array
from muhat.embedding.marginals import Marginals, Scatter
from muhat.gram import Gram, Ridge, as_dense
from muhat.kernels.dot import Linear
from muhat.learning.leave_one_out import choose_conditional
from muhat.operators.conditional import (
    Groups,
    conditional_ridge,
    conditional_weights,
    leave_one_out,
    predictive_spread,
)

# A residual of this share of the typical one counts as none when logarithms are taken.
LEAST = 0.01
# Residuals that are kept, at equal steps of their order.
RESIDUALS = 2000
# Rows on which the components are weighed against each other, by their continuous ranked probability score.
JUDGED = 400
THRESHOLDS = 100
# Shares of the components are multiples of 1/STEPS.
STEPS = 10
# A column has atoms if it takes at most this many values, and each of them this often on average.
ATOMS = 30
REPEATS = 5
# Entries of the kernel matrix that are made at a time.
BLOCK_ELEMENTS = 1 << 22
# A value has a mass of its own if at least this share of the rows take it, and so many of them.
MASS = 0.05
MASS_ROWS = 10


def find_atoms(y: np.ndarray) -> np.ndarray | None:
    """The values of ``y`` (n,) in order, if they are few; else None."""
    values = np.unique(y)
    return values if len(values) <= min(ATOMS, len(y) / REPEATS) else None


def find_masses(y: np.ndarray) -> np.ndarray:
    """Values that many rows of ``y`` (n,) take, in order, (m,): such as the zeros of a sum that is spent."""
    values, counts = np.unique(y, return_counts=True)
    return values[counts >= max(MASS * len(y), MASS_ROWS)]


@dataclass(frozen=True)
class OutputScatter:
    """The components of the outputs given x, and where each of them is.

    Attributes:
        scatter: residuals and shares.
        spread: coefficients of the regression of the logarithms of residuals, (g or p, k), and their means.
        bounds: least and largest logarithm seen, (2, k).
        unit: what ``exp`` of that regression is multiplied by, (k,).
        mass: coefficients of the regression of 1, whose fall says that x is far from the data.
        usual: its mean at the training rows.
        ridge: of the regression.
        box: least and largest input of each column, (2, d).
        usual_spread: :func:`predictive_spread` at the training rows, each left out, on average.
        jumps: coefficients of the regressions of 1{y < v} and 1{y ≤ v} at all masses v, column by column,
            (g or p, 2m), and their means.
    """

    scatter: Scatter
    spread: tuple[np.ndarray, np.ndarray]
    bounds: np.ndarray
    unit: np.ndarray
    mass: np.ndarray
    usual: float
    ridge: Ridge
    box: np.ndarray
    usual_spread: float
    jumps: tuple[np.ndarray, np.ndarray]

    def at(
        self, gram: Gram, x: Array, mean: np.ndarray, weights: Callable[[], Array], mixing: np.ndarray | None
    ) -> Marginals:
        """The marginals at ``x`` (q, d), where the regression is ``mean`` (q, k)."""
        logs = self.spread[1] + np.asarray(gram.evaluate(x, self.spread[0]))
        scale = self.unit * np.exp(np.clip(logs, *self.bounds))
        share = np.asarray(gram.evaluate(x, self.mass))[:, 0] / self.usual
        lost = np.clip(1 - share, 0.0, 1.0) ** 2
        needed = (self.scatter.shares[:, 0] > 0).any()
        steps = self.jumps[1] + np.asarray(gram.evaluate(x, self.jumps[0]))
        jumps = split_jumps(steps, self.scatter.masses)
        wider = self._wider(gram, np.asarray(x))
        return Marginals(self.scatter, mean, scale, lost, weights() if needed else None, mixing, jumps, wider)

    def _wider(self, gram: Gram, x: np.ndarray) -> np.ndarray:
        """How much more than the residuals the outputs scatter, where ``x`` lies outside the data, (q,)."""
        out = np.ones(len(x))
        outside = np.flatnonzero(((x < self.box[0]) | (x > self.box[1])).any(axis=1))
        rows = max(1, BLOCK_ELEMENTS // len(gram))
        for i in range(0, len(outside), rows):
            part = outside[i : i + rows]
            out[part] = predictive_spread(gram, self.ridge, x[part]) / self.usual_spread
        return np.maximum(out, 1.0)


def fit_scatter(
    gram: Gram,
    ridge: Ridge,
    groups: Groups | None,
    X: np.ndarray,
    Y: np.ndarray,
    center: bool,
    rng: np.random.Generator,
) -> OutputScatter:
    """Residuals of ``Y`` (n, k) on ``X`` (n, d), their spread at x, and the shares of the components.

    The shares have the least leave-one-out CRPS. That of a mixture is quadratic in them, so that any number
    of rows costs one small matrix.

    Args:
        gram: of the distinct inputs.
        ridge: of the conditional mean.
        groups: of equal rows of X.
        X: inputs.
        Y: outputs.
        center: whether the regression is that of centred outputs.
        rng: for the rows that are asked.
    """
    k = Y.shape[1]
    atoms = tuple(find_atoms(y) for y in Y.T)
    masses = tuple(find_masses(y) if own is None else np.empty(0) for y, own in zip(Y.T, atoms, strict=True))
    steps = [np.stack([y < v, y <= v], axis=1) for y, own in zip(Y.T, masses, strict=True) for v in own]
    indicators = np.hstack([np.empty((len(Y), 0)), *steps])
    usual_steps = indicators.mean(axis=0)
    indicators = indicators - usual_steps
    both = np.hstack([Y - Y.mean(axis=0) if center else Y, np.ones((len(Y), 1)), indicators])
    left = np.asarray(leave_one_out(ridge, both, groups))
    residual, share, missed = left[:, :k], 1 - left[:, k], left[:, k + 1 :]
    typical = np.sqrt((residual**2).mean(axis=0))
    typical = np.where(typical > 0, typical, 1.0)
    size = np.abs(residual)
    logs = np.log(size + LEAST * np.median(size, axis=0) + 1e-12 * typical)
    centred = logs - logs.mean(axis=0)
    chosen = choose_conditional(X, centred, gram.kernel, Linear(), None, False, rng)
    calm = conditional_ridge(gram, chosen.reg, groups)
    predicted = logs - np.asarray(leave_one_out(calm, centred, groups))
    bounds = np.stack([predicted.min(axis=0), predicted.max(axis=0)])
    factor = np.sqrt(((residual / np.exp(predicted)) ** 2).mean(axis=0))
    factor = np.where(factor > 0, factor, 1.0)
    standard = residual / (factor * np.exp(predicted))
    fitted = np.asarray(calm.fit(centred if groups is None else groups.mean(centred)))
    ones = np.ones((len(Y), 1))
    mass = np.asarray(ridge.fit(ones if groups is None else groups.mean(ones)))
    rises = np.asarray(ridge.fit(indicators if groups is None else groups.mean(indicators)))
    kept = np.linspace(0, len(Y) - 1, min(len(Y), RESIDUALS)).round().astype(int)
    parts = np.sort(residual, axis=0)[kept], np.sort(standard, axis=0)[kept]
    whole = Scatter(Y, parts, np.eye(3)[[1] * k], atoms, masses)
    rows = np.sort(rng.permutation(len(X))[:JUDGED])
    here = Marginals(
        whole,
        (Y - residual)[rows],
        (factor * np.exp(predicted))[rows],
        np.zeros(len(rows)),
        _weights_without(gram, ridge, groups, X, rows),
        None,
        split_jumps((usual_steps + indicators - missed)[rows], masses),
    )
    shares = np.stack([_shares(here, Y[rows, j], j) for j in range(k)])
    scatter = Scatter(Y, parts, shares, atoms, masses)
    usual = max(float(share.mean()), 1e-3)
    free = np.asarray(ridge.c * ridge.inverse_diag())
    usual_spread = float(np.sqrt(np.mean(1 / np.maximum(free, 1e-9))))
    return OutputScatter(
        scatter,
        (fitted, logs.mean(axis=0)),
        bounds,
        factor,
        mass,
        usual,
        ridge,
        np.stack([X.min(axis=0), X.max(axis=0)]),
        usual_spread,
        (rises, usual_steps),
    )


def split_jumps(steps: np.ndarray, masses: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Values of the indicators (q, 2m), column by column: (q, m, 2) each."""
    ends = 2 * np.cumsum([len(own) for own in masses])
    return tuple(part.reshape(len(steps), -1, 2) for part in np.split(steps, ends[:-1], axis=1))


def _weights_without(
    gram: Gram, ridge: Ridge, groups: Groups | None, X: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Weights on the outputs at some rows of X, each without its own, (m, n)."""
    W = np.array(as_dense(conditional_weights(ridge, gram.cross(X[rows]), groups)))
    at = np.arange(len(rows)), rows
    own = W[at]
    W /= np.maximum(1 - own, 1e-6)[:, None]
    W[at] = 0.0
    W += (1 - W.sum(axis=1, keepdims=True)) / W.shape[1]
    return W


def _shares(marginals: Marginals, y: np.ndarray, column: int) -> np.ndarray:
    """Shares of the three components with the least mean CRPS at the outputs ``y``, (3,)."""
    s = marginals.scatter
    atoms = s.atoms[column]
    t = (
        np.unique(np.quantile(s.outputs[:, column], np.linspace(0, 1, THRESHOLDS)))
        if atoms is None
        else atoms
    )
    width = np.diff(t, append=t[-1:])
    errors = []
    for part in np.eye(3):
        shares = s.shares.copy()
        shares[column] = part
        alone = replace(marginals, scatter=replace(s, shares=shares))
        errors.append(alone.cdf(column, np.tile(t, (len(y), 1))) - (y[:, None] <= t))
    A = np.einsum("aij,bij,j->ab", np.stack(errors), np.stack(errors), width)
    tried = [
        np.array([a, b, STEPS - a - b]) / STEPS
        for a, b in product(range(STEPS + 1), repeat=2)
        if a + b <= STEPS
    ]
    # The simplest of those that are as good: residuals alone, then their spread, then weights.
    losses = np.array([p @ A @ p for p in tried])
    close = [p for p, loss in zip(tried, losses, strict=True) if loss <= 1.002 * losses.min()]
    return min(close, key=lambda p: (p[0], p[2]))


__all__ = ["OutputScatter", "find_atoms", "fit_scatter"]
