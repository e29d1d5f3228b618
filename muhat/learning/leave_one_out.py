"""Regulariser and lengthscale of the conditional mean by closed-form leave-one-out in the RKHS."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from muhat._linalg import pivoted_cholesky
from muhat._threads import one_blas_thread
from muhat.gram.landmarks import uniform_landmarks
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.algebra import Product, Restricted
from muhat.kernels.base import Kernel
from muhat.kernels.stationary import Gaussian, Stationary
from muhat.learning.relevance import relevance_multiples
from muhat.operators.conditional import Groups, group_rows

# Exact up to this many rows; beyond, Nyström with LANDMARKS on at most ROWS rows.
EXACT_ROWS = 1000
LANDMARKS = 500
ROWS = 10_000
# Rows from which one lengthscale a column is learned: so many a column, between these.
RELEVANCE_ROWS = 125
FEWEST, MOST = 500, 1000

REGULARISERS = np.logspace(-10, 0, 21)
# Losses within this factor of the least count as equal.
FLAT = 1.001
MULTIPLES = 2.0 ** np.arange(-4, 3)
# Fitted values that are held at once.
FITS = 1_000_000


@dataclass(frozen=True)
class LeaveOneOut:
    """What was chosen, and by what.

    Attributes:
        kernel: the input kernel.
        reg: the regulariser λ.
        score: the mean leave-one-out loss ``‖ψ(yᵢ) − μ̂⁽⁻ⁱ⁾(xᵢ)‖²`` in the RKHS of y.
        path: rows (multiple of the lengthscale, λ, loss) of all that was tried.
    """

    kernel: Kernel
    reg: float
    score: float
    path: np.ndarray


def leave_one_out_path(
    Phi: np.ndarray, F: np.ndarray, regs: np.ndarray, groups: Groups | None = None
) -> np.ndarray:
    """Mean squared leave-one-out residual for each regulariser, (len(regs),).

    One eigendecomposition serves all: with ``√D Φ = U S Vᵀ`` the hat matrix is
    ``U s²/(s² + nλ) Uᵀ``.

    Args:
        Phi: features with ``K = ΦΦᵀ``, (n, p), or (g, p) of distinct inputs.
        F: outputs, (n, k): a factor of the output Gram, ``L = FFᵀ``.
        regs: λ on the operator scale.
        groups: of equal inputs, when ``Phi`` has one row for each.
    """
    n = len(F)
    root = np.ones(len(Phi)) if groups is None else np.sqrt(groups.counts)
    mean = F if groups is None else groups.mean(F)
    A = root[:, None] * Phi
    values, V = np.linalg.eigh(A.T @ A)
    keep = values > np.finfo(float).eps * values[-1] * len(values)
    values, U = values[keep], A @ (V[:, keep] / np.sqrt(values[keep]))
    UF = U.T @ (root[:, None] * mean)
    # Within a group the outputs differ from their mean by what no regression on x can explain.
    within = 0.0 if groups is None else ((F - mean[groups.inverse]) ** 2).sum(axis=1)
    shrink = values[:, None] / (values[:, None] + n * regs)
    free = np.maximum(1 - U**2 @ shrink / root[:, None] ** 2, 1e-12)
    left = np.empty((len(Phi), len(regs)))
    several = max(1, FITS // mean.size)
    for start in range(0, len(regs), several):
        some = slice(start, start + several)
        shrunk = shrink[:, some, None] * UF[:, None, :]
        fits = (U @ shrunk.reshape(len(U.T), -1)).reshape(len(U), -1, F.shape[1]) / root[:, None, None]
        left[:, some] = ((mean[:, None, :] - fits) ** 2).sum(axis=2)
    if groups is not None:
        # Σ over a group of ‖(F_i − mean) + (mean − fit)‖²: the cross term vanishes.
        left = np.bincount(groups.inverse, within)[:, None] + groups.counts[:, None] * left
    return (left / free**2).sum(axis=0) / n


def choose_conditional(
    X: np.ndarray,
    Y: np.ndarray,
    kernel_x: Kernel,
    kernel_y: Kernel,
    reg: float | None,
    tune_lengthscale: bool,
    rng: np.random.Generator,
) -> LeaveOneOut:
    """The regulariser (unless given) and the lengthscales of ``kernel_x`` (if asked) by least loss.

    Lengthscales: a common multiple on a grid, then one a column by gradients, if that is better.
    """
    # On small matrices BLAS's threads cost more than they bring, most of all on a busy machine.
    with one_blas_thread() if len(X) <= EXACT_ROWS else nullcontext():
        # The search is in double precision, for regularisers that the data's own precision can solve.
        grid = REGULARISERS[10 * np.finfo(X.dtype).eps < REGULARISERS]
        X, Y = X.astype(np.float64), Y.astype(np.float64)
        if len(X) > ROWS:
            rows = np.sort(rng.choice(len(X), ROWS, replace=False))
            X, Y = X[rows], Y[rows]
        groups = group_rows(X)
        inputs = X if groups is None else groups.points
        F = _factor(kernel_y, Y, rng)
        path: list[tuple[float, float, float]] = []

        def attempt(kernel: Kernel, multiple: float) -> LeaveOneOut:
            scale = float(np.asarray(kernel.diag(inputs)).mean())
            regs = scale * grid if reg is None else np.array([reg])
            losses = leave_one_out_path(_factor(kernel, inputs, rng), F, regs, groups)
            if np.isfinite(multiple):
                path.extend((multiple, r, loss) for r, loss in zip(regs, losses, strict=True))
            # On a flat valley the largest regulariser: the same loss, and steadier elsewhere.
            i = int(np.flatnonzero(losses <= FLAT * losses.min())[-1])
            return LeaveOneOut(kernel, float(regs[i]), float(losses[i]), np.array(path))

        if not tune_lengthscale:
            return attempt(kernel_x, 1.0)
        tried = [attempt(stretch(kernel_x, np.full(X.shape[1], m)), float(m)) for m in MULTIPLES]
        best = min(tried, key=lambda t: t.score)
        multiples = _relevance(best, X, Y, kernel_y, reg is not None, rng)
        if multiples is not None:
            best = min(best, attempt(stretch(best.kernel, multiples), np.nan), key=lambda t: t.score)
        return LeaveOneOut(best.kernel, best.reg, best.score, np.array(path))


def _relevance(
    best: LeaveOneOut,
    X: np.ndarray,
    Y: np.ndarray,
    kernel_y: Kernel,
    fixed_reg: bool,
    rng: np.random.Generator,
) -> np.ndarray | None:
    """Multiples of the lengthscales, (d,), from some of the rows; None where there is no choice.

    With fewer than ten rows a column, the data cannot tell the columns apart.
    """
    count = int(np.clip(RELEVANCE_ROWS * X.shape[1], FEWEST, MOST))
    rows = np.sort(rng.choice(len(X), min(len(X), count), replace=False))
    columns, ell = _gaussian_columns(best.kernel, X.shape[1])
    if len(columns) < 2 or len(rows) < 10 * len(columns):
        return None
    A, B = X[rows], Y[rows]
    squares = [((A[:, j, None] - A[:, j]) / e) ** 2 for j, e in zip(columns, ell, strict=True)]
    F = _factor(kernel_y, B, rng)
    if not F.any():
        return None
    out, flat = np.ones(X.shape[1]), np.ones(X.shape[1])
    flat[columns] = 1e9  # a Gaussian so wide is one everywhere: what is left are the other factors
    rest = stretch(best.kernel, flat)(A)
    out[columns] = relevance_multiples(rest, squares, F, best.reg, fixed_reg)
    return out


def _gaussian_columns(kernel: Kernel, d: int) -> tuple[list[int], np.ndarray]:
    """The columns of the Gaussian in a default kernel, and its lengthscales."""
    parts = kernel.parts if isinstance(kernel, Product) else [kernel]
    for part in parts:
        columns = list(part.columns) if isinstance(part, Restricted) else list(range(d))
        inner = part.kernel if isinstance(part, Restricted) else part
        if isinstance(inner, Gaussian):
            return columns, np.broadcast_to(inner.lengthscale, (len(columns),))
    return [], np.empty(0)


def stretch(kernel: Kernel, multiples: np.ndarray) -> Kernel:
    """``kernel`` with the lengthscales of its stationary parts multiplied, one multiple a column."""
    if isinstance(kernel, Stationary):
        multiple = float(multiples[0]) if np.ptp(multiples) == 0 else multiples
        return kernel.replace(lengthscale=multiple * kernel.lengthscale)
    if isinstance(kernel, Product):
        return Product(stretch(kernel.left, multiples), stretch(kernel.right, multiples))
    if isinstance(kernel, Restricted):
        return Restricted(stretch(kernel.kernel, multiples[list(kernel.columns)]), kernel.columns)
    return kernel


def _factor(kernel: Kernel, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Features whose products are the Gram of ``X``: exact for few rows, Nyström for many."""
    if len(X) <= EXACT_ROWS:
        K = kernel(X)
        return pivoted_cholesky(K) if K.any() else np.zeros((len(X), 1))
    landmarks = uniform_landmarks(X, LANDMARKS, rng)
    return np.asarray(NystromKernel.fit(kernel, landmarks).features(X))


__all__ = ["LeaveOneOut", "choose_conditional", "leave_one_out_path", "stretch"]
