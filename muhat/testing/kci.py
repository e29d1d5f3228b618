"""KCI: kernel features of x and of y, less what kernel regressions on z say of them [Z11]."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from muhat import _threads
from muhat._array import column_sd
from muhat._tables import Encoder
from muhat.kernels.base import Kernel
from muhat.kernels.delta import Delta
from muhat.kernels.stationary import Gaussian
from muhat.learning.leave_one_out import stretch
from muhat.testing.forms import BLOCK_ELEMENTS
from muhat.testing.independence import centred_factor
from muhat.testing.nulls import gamma_null, permutation_pvalue
from muhat.testing.restricted import Design, multipliers

# Features of a variable: at most this many, or as many as leave out this share of the trace.
RANK, TOLERANCE = 150, 1e-3
# Features of one column of z in sums over columns; features of x that are multiplied by z.
ADDITIVE_RANK, INTERACTING = 60, 10
# What the regressions on z choose from: scales of the kernel of z, and regularisers.
SCALES = (0.5, 1.0, 2.0)
REGULARISERS = tuple(np.geomspace(1e-7, 1e-1, 10))


class Smoother:
    """Ridge regressions on z: what z says of any other variable, and what is left of it.

    Kernels of z as a whole at several scales, and sums of kernels of its single columns (which find what
    few columns do among many), each with a range of regularisers: for every feature that is regressed, the
    pair with the least leave-one-out error is taken. All is done in principal components.

    Args:
        kernel: of z, with nothing left open.
        Z: the rows, (n, d).
        encoder: which columns are categories.
        design: strata, each with a mean of its own, and weights of rows; None for neither.
    """

    def __init__(
        self, kernel: Kernel, Z: np.ndarray, encoder: Encoder | None = None, design: Design | None = None
    ) -> None:
        self.kernel, self.Z, self.encoder = kernel, Z, encoder or Encoder()
        self.design = design or Design(np.zeros(len(Z), np.int64))

    @cached_property
    def components(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For every kernel, orthonormal components U (n, r) and their squared lengths (r,)."""
        d = self.Z.shape[1]
        features = [
            _components(stretch(self.kernel, np.full(d, scale)), self.Z, 2 * RANK) for scale in SCALES
        ]
        if d > 1:
            features += [self._additive(scale) for scale in SCALES]
        out = []
        root = np.sqrt(self.design.w)[:, None]
        for Theta in features:
            Theta = root * self.design.centre(Theta)
            squares, Q = np.linalg.eigh(Theta.T @ Theta)
            kept = squares > 1e-10 * squares[-1]
            out.append((Theta @ (Q[:, kept] / np.sqrt(squares[kept])), squares[kept]))
        return out

    def _additive(self, scale: float) -> np.ndarray:
        columns = []
        for j in range(self.Z.shape[1]):
            z = self.Z[:, [j]]
            if (z == z[0]).all():
                continue
            kernel = Delta() if j in self.encoder.categories else Gaussian(scale * float(z.std()))
            columns.append(_components(kernel, z, ADDITIVE_RANK))
        return np.hstack(columns) / np.sqrt(len(columns))

    def residuals(self, F: np.ndarray) -> np.ndarray:
        """``F`` (n, p) less its regressions on z: ``(I − K(K + nλI)⁻¹) F``, centred.

        With weights each row is multiplied by the root of its own: products of residuals are then weighted.
        """
        n = len(F)
        F = np.sqrt(self.design.w)[:, None] * self.design.centre(F)
        shares = self.design.shares
        best, out = np.full(F.shape[1], np.inf), F.copy()
        for U, lengths in self.components:
            projected, squares = U.T @ F, U**2
            for reg in REGULARISERS:
                shrink = lengths / (lengths + n * reg)
                left = F - U @ (shrink[:, None] * projected)
                free = 1 - squares @ shrink - shares  # 1 − the leverage of each row, with the intercept
                loss = np.mean((left / np.maximum(free, 1e-6)[:, None]) ** 2, axis=0)
                better = loss < best
                best[better] = loss[better]
                out[:, better] = left[:, better]
        return out


def _components(kernel: Kernel, Z: np.ndarray, rank: int) -> np.ndarray:
    return centred_factor(kernel, Z, np.random.default_rng(0), TOLERANCE / 10, rank, np.float64)


def variable_features(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """Centred features of a variable, (n, p)."""
    return centred_factor(kernel, X, np.random.default_rng(0), TOLERANCE, RANK, np.float64)


def interactions(Phi: np.ndarray, Z: np.ndarray, encoder: Encoder) -> np.ndarray:
    """Features of (x, z): those of x, and the leading ones times each column of z.

    They belong to the kernel ``k(x, x') (1 + aᵀa'/d)``, a being z in units of its spread: x and y may
    depend on each other one way where z is low and the opposite way where it is high. With a narrower
    kernel of z (that of [Z11] is a Gaussian) the regressions on z leave so much of it that the test loses
    its level.
    """
    A = numeric(Z, encoder) / np.sqrt(Z.shape[1])
    leading = Phi[:, :INTERACTING]
    return np.hstack([Phi, *(leading * A[:, [j]] for j in range(A.shape[1]))])


def product_forms(W: np.ndarray, *factors: np.ndarray) -> tuple[np.ndarray, float, float]:
    """``wᵀMw`` for every row w of ``W`` (B, n), with ``M = ΦΦᵀ ∘ ΨΨᵀ ∘ …``; and ``tr M`` and ``‖M‖²``."""
    n = len(factors[0])
    trace = float(np.prod([(Phi**2).sum(axis=1) for Phi in factors], axis=0).sum())

    def work(rows: slice) -> tuple[np.ndarray, float]:
        M = factors[0][rows] @ factors[0].T
        for Phi in factors[1:]:
            M *= Phi[rows] @ Phi.T
        return ((W @ M.T) * W[:, rows]).sum(axis=1), float(np.vdot(M, M))

    parts = _threads.run_blocks(work, _threads.row_blocks(n, n, BLOCK_ELEMENTS // 2))
    return np.sum([p[0] for p in parts], axis=0), trace, float(sum(p[1] for p in parts))


def forms_of(W: np.ndarray, *factors: np.ndarray) -> np.ndarray:
    """``wᵀMw`` as in :func:`product_forms`, by products of features where these are fewer than the rows."""
    n, width = len(factors[0]), int(np.prod([Phi.shape[1] for Phi in factors]))
    if width >= n:
        return product_forms(W, *factors)[0]

    def work(rows: slice) -> np.ndarray:
        products = factors[0][rows]
        for Phi in factors[1:]:
            products = (products[:, :, None] * Phi[rows][:, None, :]).reshape(len(products), -1)
        return W[:, rows] @ products

    parts = _threads.run_blocks(work, _threads.row_blocks(n, width, BLOCK_ELEMENTS))
    return (np.sum(parts, axis=0) ** 2).sum(axis=1)


def kci(
    Phi: np.ndarray,
    Psi: np.ndarray,
    null: str,
    draws: int,
    rng: np.random.Generator,
    design: Design | None = None,
) -> tuple[float, float, np.ndarray]:
    """KCI from residual features of (x, z) and of y given z [Z11]: statistic, p-value and null.

    The statistic is ``‖Φᵀ Ψ‖²/n²``, the HSIC of the residuals. Under the null, ``Σᵢ φᵢ ⊗ ψᵢ`` is a sum of
    n terms of mean 0, so normal multipliers on the terms draw from its distribution; the gamma
    approximation has the mean and variance of the same weighted sum of χ² [Z11, Prop. 5]. With a design
    the multipliers are random signs of its groups.
    """
    n = len(Phi)
    W = term_multipliers(n, draws if null == "bootstrap" else 0, rng, design)
    values, trace, square = product_forms(W, Phi, Psi)
    if null == "bootstrap":
        return float(values[0] / n**2), permutation_pvalue(values), values[1:] / n**2
    from scipy.stats import gamma

    shape, scale, quantiles = gamma_null(trace / n**2, 2 * square / n**4)
    statistic = float(values[0] / n**2)
    return statistic, float(gamma.sf(statistic, shape, scale=scale)), quantiles


def term_multipliers(n: int, draws: int, rng: np.random.Generator, design: Design | None) -> np.ndarray:
    """1 for what was observed, then normal multipliers of rows, or signs under a design, (1 + draws, n)."""
    if design is not None:
        return multipliers(design, draws, rng)
    W = np.ones((1 + draws, n))
    W[1:] = rng.standard_normal((draws, n))
    return W


def numeric(A: np.ndarray, encoder: Encoder) -> np.ndarray:
    """The columns as numbers of unit variance, a category as one indicator for each of its values."""
    out = []
    for j in range(A.shape[1]):
        if j in encoder.categories:
            out.append((A[:, [j]] == np.unique(A[:, j])).astype(np.float64))
        else:
            out.append(A[:, [j]])
    F = np.hstack(out)
    sd = column_sd(F)
    return (F - F.mean(axis=0))[:, sd > 0] / sd[sd > 0]


__all__ = [
    "SCALES",
    "Smoother",
    "forms_of",
    "interactions",
    "kci",
    "numeric",
    "product_forms",
    "term_multipliers",
    "variable_features",
]
