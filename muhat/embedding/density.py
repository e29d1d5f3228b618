"""Densities from embeddings, by Tikhonov reconstruction [S20, §3]."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._array import Array
from muhat.embedding.reference import Reference, box_reference
from muhat.gram import Gram
from muhat.kernels import Gaussian
from muhat.kernels.base import Kernel

# Exponent c' of the schedule: near 1 means less bias (Cor. 3.4).
SCHEDULE = 0.9
# Widths that are tried, in units of Silverman's, on at most so many rows.
WIDTHS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.5)
WIDTH_ROWS = 1000


def tikhonov_coefficients(gram: Gram, mass: Array, values: Array, reg: Array) -> Array:
    """Coefficients β of the density ``u = Σⱼ βⱼ k(zⱼ, ·) = Ĉ_ρ (Ĉ_ρ + α'I)⁻² μ``.

    With ``Ĉ_ρ = (V/M) Σ k(zᵢ)⊗k(zᵢ)``: ``β = (M/V) (L + (Mα'/V) I)⁻² μ(z)``, the stable form of the
    Tikhonov solution ``(Ĉ_ρ + α'I)⁻¹ μ``, to which it tends as α' falls [S20, A.2]. (The published eqs.
    (6) and (9) mis-scale the reference measure; see the errata.)

    Args:
        gram: L, of the M reference points.
        mass: V.
        values: μ at the reference points, (M,) or (M, batch).
        reg: α', on the scale of Ĉ_ρ.
    """
    scale = len(gram) / mass
    ridge = gram.ridge(scale * reg)
    return scale * ridge.solve(ridge.solve(values))


def top_eigenvalue(gram: Gram, steps: int = 50) -> float:
    """Largest eigenvalue of a Gram of a non-negative kernel, by power iteration."""
    v = np.ones(len(gram))
    for _ in range(steps):
        w = gram @ v
        v = w / np.linalg.norm(w)
    return float(v @ (gram @ v))


def scheduled_reg(gram: Gram, reference: Reference, n: float) -> float:
    """α' by the schedule of Cor. 3.4 (corrected): ``‖Ĉ_ρ‖ max(M^{-1/4}, n^{-1/2})^{c'}``.

    The norm makes it free of units. The term in M is the error of a *random* reference; a grid or
    Sobol sequence has none to speak of.
    """
    rate = max(len(gram) ** -0.25, n**-0.5) if reference.random else n**-0.5
    return reference.mass / len(gram) * top_eigenvalue(gram) * rate**SCHEDULE


def detail_kernel(points: np.ndarray, weights: np.ndarray) -> Gaussian:
    """A Gaussian as narrow as the sample can resolve, column by column.

    ``0.9 min(sd, IQR/1.34) n^{-1/(d+4)}`` with n the effective sample size: Silverman's width. The
    reconstruction undoes the smoothing of the kernel, so its own resolution is finer.
    """
    n = effective_size(weights)
    constant = np.flatnonzero(np.ptp(points[weights > 0], axis=0) == 0)
    if len(constant):
        raise ValueError(
            f"Column {constant[0]} of the points is constant, so it has no density: leave it out, or give "
            "kernel= and reference=."
        )
    scale = np.empty(points.shape[1])
    for j, column in enumerate(points.T):
        order = np.argsort(column)
        cumulative = np.cumsum(weights[order])
        quartiles = column[order[np.searchsorted(cumulative, [0.25, 0.75]).clip(max=len(order) - 1)]]
        sd = np.sqrt(max(weights @ (column - weights @ column) ** 2, 0.0))
        iqr = (quartiles[1] - quartiles[0]) / 1.34
        scale[j] = min(sd, iqr) if iqr > 0 else sd
    return Gaussian(0.9 * scale * n ** (-1 / (points.shape[1] + 4)))


def box_for(kernel: Kernel, points: np.ndarray, weights: np.ndarray, limits: Any = None) -> Reference:
    """A box about the points with weight, four widths of the kernel beyond them, within limits (2, d)."""
    seen = points[weights > 0]
    reach = 4 * np.sqrt(np.asarray(kernel.variance(points.shape[1])))
    reach = np.where(np.isfinite(reach), reach, np.ptp(seen, axis=0))
    low, high = seen.min(axis=0) - reach, seen.max(axis=0) + reach
    if limits is not None:
        low, high = np.maximum(low, limits[0]), np.minimum(high, limits[1])
    return box_reference(low, high, reach / 4)


def choose_kernel(points: np.ndarray, weights: np.ndarray) -> Kernel:
    """The Gaussian, as a multiple of Silverman's width, with the least estimated squared error.

    ``∫(u − p)²`` up to a constant is ``∫u² − 2 Σᵢ wᵢ u⁽⁻ⁱ⁾(xᵢ)``. As u is linear in the weights,
    ``u⁽⁻ⁱ⁾(xᵢ) = (u(xᵢ) − wᵢ hᵢ)/(1 − wᵢ)`` with hᵢ the value at xᵢ of the reconstruction of xᵢ alone.
    """
    full = detail_kernel(points, weights)
    rows = np.flatnonzero(weights > 0)
    if len(rows) < 3:
        return full
    if len(rows) > WIDTH_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, WIDTH_ROWS, replace=False))
    X, w = points[rows], weights[rows] / weights[rows].sum()
    # The multiple is found at the size of the subset; Silverman's width then carries it to all.
    part, n = detail_kernel(X, w), effective_size(w)
    losses, kernels = [], [stretched(part, m) for m in WIDTHS]
    for kernel in kernels:
        reference = box_for(kernel, X, w)
        gram = reference.gram(kernel)
        cross = kernel(reference.points, X)
        reg = scheduled_reg(gram, reference, n)
        beta = tikhonov_coefficients(gram, reference.mass, cross, reg)
        at_points, own = cross.T @ (beta @ w), (cross * beta).sum(axis=0)
        square = ((gram @ (beta @ w)) ** 2).sum() * reference.mass / len(gram)
        losses.append(square - 2 * w @ ((at_points - w * own) / (1 - w)))
    # The estimate is noisy and leans to the narrow side: the widest within one percent of the best.
    level = min(losses) + 0.01 * abs(min(losses))
    return stretched(full, WIDTHS[int(np.flatnonzero(np.array(losses) <= level)[-1])])


def stretched(kernel: Gaussian, multiple: float) -> Gaussian:
    """The kernel with its lengthscales multiplied."""
    return Gaussian(multiple * kernel.lengthscale)


def effective_size(weights: Array) -> float:
    """``(Σ|w|)² / Σw²``: how many equal weights say as much."""
    return float(np.abs(weights).sum() ** 2 / (weights**2).sum())
