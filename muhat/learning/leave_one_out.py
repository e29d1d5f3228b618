"""Regulariser and lengthscale of the conditional mean by closed-form leave-one-out in the RKHS."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from muhat._linalg import pivoted_cholesky
from muhat._progress import progress_bar
from muhat._threads import one_blas_thread
from muhat.gram.landmarks import uniform_landmarks
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.algebra import Product, Restricted
from muhat.kernels.base import Kernel
from muhat.kernels.delta import Delta
from muhat.kernels.stationary import Gaussian, Laplace, Matern, Stationary
from muhat.learning.relevance import relevance_multiples
from muhat.operators.conditional import Groups, group_rows

# Exact up to this many rows; beyond, Nyström with LANDMARKS on at most ROWS rows.
EXACT_ROWS = 1000
LANDMARKS = 500
ROWS = 10_000
# Rows from which family and lengthscales are learned. A step of the gradient costs the cube of it.
SEARCH_ROWS = 500
# One lengthscale a column must lower the loss to this share of the best without.
BETTER = 0.99

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
    families: bool = False,
    means: bool = False,
) -> LeaveOneOut:
    """The regulariser (unless given) and the lengthscales of ``kernel_x`` (if asked) by least loss.

    Lengthscales: a common multiple on a grid, then one a column by gradients, both on a sample of the rows.
    Each is judged by the leave-one-out loss of rows that it was not learned from.

    Args:
        X: inputs, (n, d).
        Y: outputs, (n, k).
        kernel_x: on the inputs.
        kernel_y: on the outputs.
        reg: λ, or None.
        tune_lengthscale: whether those of ``kernel_x`` are free.
        rng: for samples of the rows.
        families: whether the Gaussian of a default kernel may be replaced, see :func:`rougher_kernels`.
        means: whether the loss is that of centred outputs: half of it their own squared error as a share of
            their variance, half that of their features.
    """
    # The search is in double precision, for regularisers that the data's own precision can solve.
    grid = REGULARISERS[10 * np.finfo(X.dtype).eps < REGULARISERS]
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    order = _order(X, Y)
    X, Y = X[order], Y[order]
    if len(X) > ROWS:
        rows = np.sort(rng.choice(len(X), ROWS, replace=False))
        X, Y = X[rows], Y[rows]
    # On small matrices BLAS's threads cost more than they bring, most of all on a busy machine.
    with one_blas_thread() if len(X) <= EXACT_ROWS else nullcontext():
        everything = _Rows.of(X, _targets(Y, kernel_y, means, rng), reg, grid, rng)
        if not tune_lengthscale:
            return everything.attempt(kernel_x, 1.0)
        kernels = [kernel_x, *rougher_kernels(kernel_x, X.shape[1])] if families else [kernel_x]
        with one_blas_thread():
            kernel, path = _search(kernels, everything)
        chosen = everything.attempt(kernel, np.nan)
    return LeaveOneOut(chosen.kernel, chosen.reg, chosen.score, np.array(path))


def _order(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """An order of the rows by what they hold, at random: the same however rows, columns and units come."""
    keys = np.random.default_rng(0).random((2, len(X)))
    out = np.zeros(len(X))
    for table, key in zip((X, Y), keys, strict=True):
        for column in table.T:
            out += key[np.unique(column, return_inverse=True)[1].reshape(-1)]
    return np.argsort(out, kind="stable")


def _search(kernels: list[Kernel], everything: _Rows) -> tuple[Kernel, list[tuple[float, float, float]]]:
    """The kernel with the least loss on rows that it was not learned from, and what was tried."""
    n, rng = len(everything.X), everything.rng
    order = rng.permutation(n)
    search = everything if n <= SEARCH_ROWS else everything.take(order[:SEARCH_ROWS])
    if n >= 2 * SEARCH_ROWS:
        folds = [(search, everything.take(order[SEARCH_ROWS : 2 * SEARCH_ROWS]))]
    else:
        halves = [search.take(part) for part in np.array_split(rng.permutation(len(search.X)), 2)]
        folds = [(halves[0], halves[1]), (halves[1], halves[0])]
    best, least = (kernels[0], False), np.inf
    ways = [(kernel, each) for kernel in kernels for each in (False, True)]
    with progress_bar("choosing the kernel", len(ways)) as move:
        for i, (kernel, each) in enumerate(ways):
            move(i, f"({type(kernel).__name__})")
            loss = _judged(kernel, each, folds)
            if loss is not None and loss < (BETTER if each else 1.0) * least:
                best, least = (kernel, each), loss
    found = _searched(*best, search)
    assert found is not None
    return found, search.path


def _searched(kernel: Kernel, each: bool, search: _Rows) -> Kernel | None:
    """``kernel`` with the multiple of its lengthscales that has the least loss, or with one a column."""
    d = search.X.shape[1]
    if id(kernel) not in search.common:
        tried = [search.attempt(stretch(kernel, np.full(d, m)), float(m)) for m in MULTIPLES]
        search.common[id(kernel)] = min(tried, key=lambda t: t.score)
    common = search.common[id(kernel)]
    if not each:
        return common.kernel
    multiples = _relevance(common, search)
    return None if multiples is None else stretch(common.kernel, multiples)


def _judged(kernel: Kernel, each: bool, folds: list[tuple[_Rows, _Rows]]) -> float | None:
    """The mean loss on rows that the lengthscales were not learned from.

    Leave-one-out on the rows of the search is no guard: lengthscales, one for each column, have seen the row
    that is left out.
    """
    losses = []
    for search, judge in folds:
        found = _searched(kernel, each, search)
        if found is None:
            return None
        losses.append(judge.attempt(found, np.nan).score)
    return float(np.mean(losses))


@dataclass(frozen=True)
class _Rows:
    """Rows that kernels are tried on."""

    X: np.ndarray
    groups: Groups | None
    F: np.ndarray
    reg: float | None
    grid: np.ndarray
    rng: np.random.Generator
    path: list[tuple[float, float, float]]
    common: dict[int, LeaveOneOut]

    @classmethod
    def of(
        cls, X: np.ndarray, F: np.ndarray, reg: float | None, grid: np.ndarray, rng: np.random.Generator
    ) -> _Rows:
        return cls(X, group_rows(X), F, reg, grid, rng, [], {})

    def take(self, index: np.ndarray) -> _Rows:
        """Some of the rows; those of a factor are a factor of theirs."""
        index = np.sort(index)
        return _Rows.of(self.X[index], self.F[index], self.reg, self.grid, self.rng)

    def attempt(self, kernel: Kernel, multiple: float) -> LeaveOneOut:
        """The regulariser with the least loss for this kernel."""
        inputs = self.X if self.groups is None else self.groups.points
        scale = float(np.asarray(kernel.diag(inputs)).mean())
        regs = scale * self.grid if self.reg is None else np.array([self.reg])
        losses = leave_one_out_path(_factor(kernel, inputs, self.rng), self.F, regs, self.groups)
        if np.isfinite(multiple):
            self.path.extend((multiple, r, loss) for r, loss in zip(regs, losses, strict=True))
        # On a flat valley the largest regulariser: the same loss, and steadier elsewhere.
        i = int(np.flatnonzero(losses <= FLAT * losses.min())[-1])
        return LeaveOneOut(kernel, float(regs[i]), float(losses[i]), np.array(self.path))


def _targets(Y: np.ndarray, kernel_y: Kernel, means: bool, rng: np.random.Generator) -> np.ndarray:
    """What is regressed on x: features of the outputs, with ``means`` also the outputs themselves, (n, q)."""
    F = _factor(kernel_y, Y, rng)
    if not means:
        return F
    sd = Y.std(axis=0)
    sd[np.ptp(Y, axis=0) == 0] = np.inf  # what a constant column has is rounding
    parts = [(Y - Y.mean(axis=0)) / sd, F - F.mean(axis=0)]
    sizes = [np.sqrt((A**2).sum(axis=1).mean()) for A in parts]
    return np.hstack([A / (np.sqrt(2) * s if s > 0 else 1.0) for A, s in zip(parts, sizes, strict=True)])


def _relevance(best: LeaveOneOut, search: _Rows) -> np.ndarray | None:
    """Multiples of the lengthscales, (d,); None where there is no choice.

    With fewer than ten rows a column, the data cannot tell the columns apart.
    """
    A, d = search.X, search.X.shape[1]
    numbers, categories = _default_parts(best.kernel, d)
    own = [] if numbers is None else list(numbers.columns)
    columns = [*own, *categories]
    if len(columns) < 2 or len(A) < 10 * len(columns) or not search.F.any():
        return None
    family: Any = Gaussian(1.0) if numbers is None else numbers.kernel
    ell = np.broadcast_to(np.asarray(family.lengthscale), (len(own),))
    power = 1 if _is_product(family) else 2
    gaps = [(np.abs(A[:, j, None] - A[:, j]) / e) ** power for j, e in zip(own, ell, strict=True)]
    differ = [-np.log(np.maximum(r, 1e-300)) * (A[:, j, None] != A[:, j]) for j, r in categories.items()]
    out = np.ones(d)
    out[columns] = relevance_multiples(family, gaps, differ, search.F, best.reg, search.reg is not None)
    return out


def _default_parts(kernel: Kernel, d: int) -> tuple[Restricted | None, dict[int, float]]:
    """The kernel of the numbers in a default kernel with its columns, and ``rest`` of each category."""
    numbers, categories = None, {}
    for part in kernel.parts if isinstance(kernel, Product) else [kernel]:
        inner = part.kernel if isinstance(part, Restricted) else part
        columns = list(part.columns) if isinstance(part, Restricted) else list(range(d))
        if isinstance(inner, Delta) and len(columns) == 1 and inner.rest > 0:
            categories[columns[0]] = float(inner.rest)
        elif numbers is None and (isinstance(inner, (Gaussian, Matern)) or _is_product(inner)):
            numbers = Restricted(inner, columns)
        else:
            return None, {}
    return numbers, categories


def _is_product(kernel: Kernel) -> bool:
    return isinstance(kernel, Laplace) and kernel.norm == 1


def rougher_kernels(kernel: Kernel, d: int) -> list[Kernel]:
    """A default kernel with its Gaussian replaced by Matérn-3/2 and by the product of Laplace kernels.

    The product over columns, exp(−Σ|xⱼ − x'ⱼ|/ℓⱼ), is what suits functions with steps.
    """
    if isinstance(kernel, Product):
        return [
            Product(left, right)
            for left, right in zip(
                rougher_kernels(kernel.left, d) or [kernel.left] * 2,
                rougher_kernels(kernel.right, d) or [kernel.right] * 2,
                strict=True,
            )
        ]
    if isinstance(kernel, Restricted):
        return [Restricted(k, kernel.columns) for k in rougher_kernels(kernel.kernel, len(kernel.columns))]
    if not isinstance(kernel, Gaussian):
        return []
    ell = np.asarray(kernel.lengthscale)
    # Distances summed over d columns are about .8 √d times Euclidean ones. e^{-1/2} is reached at ℓ/2.
    return [Matern(1.5, 1.4 * ell), Laplace(2 * max(1.0, 0.8 * np.sqrt(d)) * ell)]


def stretch(kernel: Kernel, multiples: np.ndarray) -> Kernel:
    """``kernel`` with the lengthscales of its stationary parts multiplied, one multiple a column.

    A category of multiple m costs ``rest^(1/m²)``, as a Gaussian of numbers would.
    """
    if isinstance(kernel, Stationary):
        multiple = float(multiples[0]) if np.ptp(multiples) == 0 else multiples
        return kernel.replace(lengthscale=multiple * kernel.lengthscale)
    if isinstance(kernel, Product):
        return Product(stretch(kernel.left, multiples), stretch(kernel.right, multiples))
    if isinstance(kernel, Restricted):
        return Restricted(stretch(kernel.kernel, multiples[list(kernel.columns)]), kernel.columns)
    if isinstance(kernel, Delta) and len(multiples) == 1:
        return Delta(min(float(kernel.rest) ** (1 / float(multiples[0]) ** 2), 1 - 1e-9))
    return kernel


def _factor(kernel: Kernel, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Features whose products are the Gram of ``X``: exact for few rows, Nyström for many."""
    if len(X) <= EXACT_ROWS:
        K = kernel(X)
        return pivoted_cholesky(K) if K.any() else np.zeros((len(X), 1))
    landmarks = uniform_landmarks(X, LANDMARKS, rng)
    return np.asarray(NystromKernel.fit(kernel, landmarks).features(X))


__all__ = ["LeaveOneOut", "choose_conditional", "leave_one_out_path", "stretch"]
