"""One lengthscale a column, by the gradient of the leave-one-out loss."""

from __future__ import annotations

import numpy as np

from muhat._linalg import cholesky
from muhat.kernels.stationary import Laplace, Matern, Stationary

# Lengthscales may move by this factor either way; a column at the upper end hardly counts.
REACH = 64.0


def leave_one_out_gradient(K: np.ndarray, F: np.ndarray, c: float) -> tuple[float, np.ndarray, float]:
    """The mean squared leave-one-out residual, and its derivatives in K (n, n) and c.

    With ``R = (K + cI)⁻¹``, ``E = RF`` and ``gᵢ = 1/Rᵢᵢ²`` the loss is ``(1/n) Σ gᵢ ‖Eᵢ‖²``. From
    ``dR = −R dK R``: its derivative in K is ``(2/n) (R diag(‖Eᵢ‖²/Rᵢᵢ³) R − R diag(g) E Eᵀ)``.
    """
    n = len(K)
    factor = cholesky(K + c * np.eye(n), "K + cI", "Raise the regulariser.", overwrite=True)
    R = factor.solve(np.eye(n))
    E, diagonal = R @ F, np.diagonal(R)
    squares, g = (E**2).sum(axis=1), 1 / diagonal**2
    gradient = (R * (squares * g / diagonal)) @ R - (R @ (g[:, None] * E)) @ E.T
    gradient = (gradient + gradient.T) / n
    return float(g @ squares / n), gradient, float(np.trace(gradient))


def relevance_multiples(
    kernel: Stationary,
    gaps: list[np.ndarray],
    differ: list[np.ndarray],
    F: np.ndarray,
    reg: float,
    fixed_reg: bool,
    steps: int = 40,
) -> np.ndarray:
    """Multiples of the lengthscales, one a column, with less loss: of numbers, then of categories, (d,).

    Args:
        kernel: family of the kernel of the numbers: Gaussian, Matérn-3/2 or the product of Laplace kernels.
        gaps: for each column of numbers ``(xⱼ − x'ⱼ)²/ℓⱼ²``, (n, n); ``|xⱼ − x'ⱼ|/ℓⱼ`` for the product.
        differ: for each category ``−log k`` of its own kernel, (n, n).
        F: a factor of the output Gram.
        reg: λ to start from.
        fixed_reg: whether λ is given by the user and stays.
        steps: of the quasi-Newton method, at most.
    """
    from scipy.optimize import minimize

    n, numbers = len(F), len(gaps)
    power = np.array([_power(kernel)] * numbers + [2.0] * len(differ))
    distances = np.stack([*gaps, *differ])
    flat = distances.reshape(len(distances), -1)

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        shrink = np.exp(-power * u[:-1])
        s = (shrink[:numbers] @ flat[:numbers]).reshape(n, n)
        K, slope = _family(kernel, s)
        if differ:
            others = np.exp(-(shrink[numbers:] @ flat[numbers:])).reshape(n, n)
            K, slope = K * others, slope * others
        c = n * np.exp(u[-1])
        value, in_K, in_c = leave_one_out_gradient(K, F, c)
        # ∂K/∂uⱼ = −power shrinkⱼ Dⱼ ∂K/∂sⱼ, which for a category is −K.
        in_u = power * shrink
        in_u[:numbers] *= -(flat[:numbers] @ (in_K * slope).ravel())
        in_u[numbers:] *= flat[numbers:] @ (in_K * K).ravel()
        gradient = np.append(in_u, 0.0 if fixed_reg else in_c * c)
        # Losses range over orders of magnitude: their logarithm has a sane slope everywhere.
        return np.log(value), gradient / value

    reach = np.log(REACH)
    bounds = [(-reach, reach)] * len(flat) + [(np.log(1e-11), 0.0)]
    start = np.append(np.zeros(len(flat)), np.log(np.clip(reg, 1e-11, 1.0)))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
    return np.exp(found.x[:-1])


def _power(kernel: Stationary) -> float:
    return 1.0 if isinstance(kernel, Laplace) else 2.0


def _family(kernel: Stationary, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """k and its derivative in s, the distance (Laplace) or squared distance."""
    if isinstance(kernel, Laplace):
        K = np.exp(-s)
        return K, -K
    if isinstance(kernel, Matern):  # (1 + r) e^{−r} with r = √(3s)
        r = np.sqrt(3 * s)
        decay = np.exp(-r)
        return (1 + r) * decay, -1.5 * decay
    K = np.exp(-0.5 * s)
    return K, -0.5 * K
