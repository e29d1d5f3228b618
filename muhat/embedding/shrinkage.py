"""Shrinkage estimates of a mean embedding."""

from __future__ import annotations

import numpy as np

from muhat._array import Array, namespace
from muhat.gram import Gram


def shrinkage_weights(gram: Gram, reg: Array) -> Array:
    """Weights of the spectral shrinkage estimate S-KMSE [MU16; F16, eq. (9)], (n,).

    ``μ̌ = Ĉ(Ĉ + λI)⁻¹ μ̂`` with ``Ĉ = (1/n) Σ φ(xᵢ)⊗φ(xᵢ)`` and ``μ̂ = (1/n) Σ φ(xᵢ)``, hence
    ``β = (1/n) (K + nλI)⁻¹ K 1 = (1/n) (1 − nλ (K + nλI)⁻¹ 1)``.
    """
    n = len(gram)
    ones = namespace(gram.diag()).ones(n)
    return gram.ridge(n * reg).solve(gram @ ones) / n


def leave_one_out_risk(
    K: np.ndarray, reg: float, eigen: tuple[np.ndarray, np.ndarray] | None = None
) -> float:
    """``(1/n) Σᵢ ‖μ̌⁽⁻ⁱ⁾ − φ(xᵢ)‖²``, each μ̌⁽⁻ⁱ⁾ from the other points with ``c = nλ`` kept.

    With ``R = (K + cI)⁻¹`` and ``r = R1``, the weights without point i are
    ``(1 − eᵢ − c (r − R_{:i} rᵢ/Rᵢᵢ)) / (n − 1)``: nothing is inverted again. Eigenvalues and
    eigenvectors of K may be given.
    """
    n = len(K)
    c = n * reg
    values, U = np.linalg.eigh(K) if eigen is None else eigen
    R = (U / (np.maximum(values, 0) + c)) @ U.T
    r = R.sum(axis=1)
    ratio = r / np.diagonal(R)
    B = (1 - np.eye(n) - c * (r[:, None] - R * ratio)) / (n - 1)
    # K times the same, by KR = I − cR.
    ones = K.sum(axis=1) - c * (1 - c * r)
    KB = (ones[:, None] - K + c * (np.eye(n) - c * R) * ratio) / (n - 1)
    return float(np.mean((B * KB).sum(axis=0) - 2 * np.diagonal(KB) + np.diagonal(K)))


def choose_shrinkage(K: np.ndarray) -> float:
    """λ by the smallest leave-one-out risk on a grid, in units of the mean diagonal."""
    grid = np.diagonal(K).mean() * np.logspace(-6, 0, 13)
    eigen = np.linalg.eigh(K)
    return float(grid[int(np.argmin([leave_one_out_risk(K, reg, eigen) for reg in grid]))])
