"""One lengthscale a column, by the gradient of the leave-one-out loss."""

from __future__ import annotations

import numpy as np

from muhat._linalg import cholesky

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
    rest: np.ndarray, squares: list[np.ndarray], F: np.ndarray, reg: float, fixed_reg: bool, steps: int = 40
) -> np.ndarray:
    """Multiples of the lengthscales of a Gaussian kernel, one a column, with less loss, (d,).

    Args:
        rest: what multiplies the Gaussian and stays, e.g. of categories, (n, n).
        squares: for each column ``(xⱼ − x'ⱼ)²/ℓⱼ²``, (n, n).
        F: a factor of the output Gram.
        reg: λ to start from.
        fixed_reg: whether λ is given by the user and stays.
        steps: of the quasi-Newton method, at most.
    """
    from scipy.optimize import minimize

    n, d = len(rest), len(squares)
    scale = float(np.diagonal(rest).mean())

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        shrink = np.exp(-2 * u[:d])
        A = rest * np.exp(-0.5 * sum(s * D for s, D in zip(shrink, squares, strict=True)))
        c = n * scale * np.exp(u[d])
        value, in_K, in_c = leave_one_out_gradient(A, F, c)
        weighted = in_K * A
        in_u = [s * float((weighted * D).sum()) for s, D in zip(shrink, squares, strict=True)]
        gradient = np.array([*in_u, 0.0 if fixed_reg else in_c * c])
        # Losses range over orders of magnitude: their logarithm has a sane slope everywhere.
        return np.log(value), gradient / value

    reach = np.log(REACH)
    bounds = [(-reach, reach)] * d + [(np.log(1e-11), 0.0)]
    start = np.append(np.zeros(d), np.log(np.clip(reg / scale, 1e-11, 1.0)))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
    return np.exp(found.x[:d])
