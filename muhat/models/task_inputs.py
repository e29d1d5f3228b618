"""What the task-transformed Gaussian process takes in, checked."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from muhat._validation import as_rows, check_count, check_positive, check_same_columns
from muhat.embedding.familiar import UNLIKE
from muhat.engine import as_source
from muhat.gram import Nystrom, as_representation, streamed_representation
from muhat.gram.landmarks import kmeanspp_landmarks
from muhat.gram.representation import Representation
from muhat.kernels.algebra import Scaled
from muhat.kernels.base import Kernel
from muhat.kernels.default import default_kernel, resolve_kernel
from muhat.learning.leave_one_out import stretch
from muhat.learning.parameters import Parameters
from muhat.learning.task_transformed import amplitude

# Rows that are looked at, of the task and of the pairs, to see whether they come near each other.
LOOK_AT = 2000, 4096
# Landmarks are chosen for lengthscales of this multiple of those that the search starts from.
SHORT = 0.1


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


def check_in_memory(Y_task: Any, z_task: Any) -> None:
    """Refuse a task that is read in blocks: it is the pairs that may be many."""
    for part, name in ((Y_task, "Y_task"), (z_task, "z_task")):
        if not isinstance(part, np.ndarray) and as_source(part) is not None:
            raise TypeError(f"{name} is read in blocks, as only the pairs X, Y may be: take it into memory.")


def chosen_landmarks(
    representations: Any, kernels: Any, points: Any, learns: bool, rng: np.random.Generator
) -> list[Any]:
    """Landmarks among points of x and of y where a representation has some, else None."""
    found = []
    for r, kernel, X in zip(representations, kernels, points, strict=True):
        if not isinstance(r, Nystrom) or kernel is None or X is None:
            found.append(None)
            continue
        # Shorter lengthscales than those of the start may be learned: landmarks must serve them, too.
        plain = kernel.kernel if isinstance(kernel, Scaled) else kernel
        short = stretch(plain, np.full(X.shape[1], SHORT if learns else 1.0))
        found.append(r.fit(short, X, rng).landmarks)  # type: ignore[attr-defined]
    return found


def both_representations(given: Any, streamed: bool) -> tuple[Representation, Representation]:
    """Those of x and y, which have features where the pairs are read in blocks."""
    given = given if isinstance(given, tuple) else (given,) * 2
    if len(given) != 2:
        raise ValueError(f"representation must be one or a pair for x and y, got {len(given)}.")
    read = streamed_representation if streamed else as_representation
    return read(given[0]), read(given[1])


def first_inducing(given: Any, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Where the inducing points start: a number of rows of ``X``, or points that are given."""
    if np.ndim(given) == 0:
        p = min(check_count(given, "inducing", 2), len(X))
        return np.array(kmeanspp_landmarks(X, p, rng, default_kernel(X)))
    points = as_rows(as_columns(given), "inducing", 2).astype(np.float64)
    check_same_columns(points, X.shape[1], "inducing", "X")
    return np.array(points)


def first_kernel(given: Any, X: np.ndarray, encoder: Any, name: str, scale: float, learns: bool) -> Kernel:
    """The kernel that the search starts from, with an amplitude if there is a search or none is given."""
    kernel = resolve_kernel(given, X, encoder, name)
    if given is None:
        return scale * kernel
    if not learns:
        return kernel
    scaled = any(map(amplitude, parameters_of(scale * kernel).names[:-1]))
    return kernel if scaled else scale * kernel


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
    "both_representations",
    "check_in_memory",
    "check_memory",
    "chosen_landmarks",
    "first_inducing",
    "first_kernel",
    "parameters_of",
    "warn_if_far",
]
