"""What the task-transformed Gaussian process takes in, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._validation import as_rows, check_positive


def as_columns(X: Any) -> Any:
    """A vector of numbers as one column."""
    if hasattr(X, "to_frame"):
        return X.to_frame()
    return X.reshape(-1, 1) if getattr(X, "ndim", 2) == 1 else X


def as_targets(z: Any, name: str) -> np.ndarray:
    """Observations as a finite vector of at least two numbers."""
    A = np.asarray(z)
    if A.ndim == 2 and A.shape[1] == 1:
        A = A[:, 0]
    if A.ndim != 1:
        raise ValueError(f"{name} must be a vector, one number an observation, got shape {A.shape}.")
    return as_rows(A.reshape(-1, 1), name, 2)[:, 0].astype(np.float64)


def as_combinations(M: Any, n: int, m: int) -> np.ndarray | None:
    """M as a checked matrix (m, n); None for the identity."""
    if M is None:
        return None
    A = as_rows(M.toarray() if hasattr(M, "tocsr") else M, "M").astype(np.float64)
    if A.shape != (m, n):
        hint = " It looks transposed: pass M.T." if A.shape == (n, m) else ""
        raise ValueError(
            f"M must have shape ({m}, {n}), a row for each of the {m} entries of z and a column for each of "
            f"the {n} rows of X, got {A.shape}.{hint}"
        )
    return A


def as_covariance(Sigma: Any, m: int) -> np.ndarray:
    """Σ as checked variances (m,) or a positive definite matrix (m, m)."""
    A = np.asarray(Sigma, dtype=np.float64)
    if A.shape not in ((m,), (m, m)):
        raise ValueError(f"Sigma must be variances ({m},) or a covariance ({m}, {m}), got shape {A.shape}.")
    if A.ndim == 1:
        check_positive(A, "Sigma", "give the variance of each observation's noise")
        return A
    as_rows(A, "Sigma")
    if not np.allclose(A, A.T, rtol=1e-8, atol=1e-12 * float(np.abs(A).max())):
        raise ValueError("Sigma must be symmetric: pass a covariance matrix, e.g. (Sigma + Sigma.T) / 2.")
    least = float(np.linalg.eigvalsh(A)[0])
    if least < -1e-10 * float(np.trace(A)) / m or not np.trace(A) > 0:
        raise ValueError(
            f"Sigma must be positive semi-definite, but its least eigenvalue is {least:.3g}: pass a "
            "covariance matrix."
        )
    return A


__all__ = ["as_columns", "as_combinations", "as_covariance", "as_targets"]
