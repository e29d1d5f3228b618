"""What the task-transformed Gaussian process takes in, checked."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from muhat._validation import as_rows, check_positive
from muhat.kernels.algebra import Scaled
from muhat.kernels.base import Kernel
from muhat.kernels.default import default_kernel
from muhat.learning.parameters import Parameters
from muhat.models.posterior import UNLIKE

# Rows that are looked at, of the task and of the pairs, to see whether they come near each other.
LOOK_AT = 2000, 4096


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


def warn_if_far(Y: np.ndarray, Y_task: np.ndarray, encoder: Any) -> None:
    """Say so where no y of the task comes near one of the pairs."""
    rows = np.random.default_rng(0).permutation(len(Y_task))[: LOOK_AT[0]]
    nearest = float(default_kernel(Y, encoder)(Y_task[rows], Y[: LOOK_AT[1]]).max())
    if nearest < UNLIKE:
        warnings.warn(
            f"No y of the task comes near one of the pairs (largest kernel correlation {nearest:.2g}): "
            "they say nothing of x there, so that f stays as uncertain as before. Check the units of Y "
            "and Y_task, or collect pairs where the task is.",
            stacklevel=3,
        )


def check_memory(n: int, m: int, exact: bool, full: bool) -> None:
    """Refuse kernel matrices of more than 4 GB, for ``n`` points and ``m`` observations."""
    limit = int((4e9 / 8) ** 0.5)
    if exact and n > limit:
        raise ValueError(
            f"X has {n} rows, too many for exact kernel matrices: pass representation=mh.Nystrom(300)."
        )
    if full and exact and m > limit:
        raise ValueError(
            f"z_task has {m} rows, too many for full inference with exact kernels: pass "
            'inference="map" or representation=mh.Nystrom(300).'
        )


def parameters_of(kernel: Kernel) -> Parameters:
    """Those of the kernel, or its amplitude where it has none."""
    try:
        return Parameters.of(kernel)
    except ValueError:
        return Parameters.of(Scaled(kernel, 1.0))


__all__ = [
    "as_columns",
    "as_combinations",
    "as_covariance",
    "as_targets",
    "check_memory",
    "parameters_of",
    "warn_if_far",
]
