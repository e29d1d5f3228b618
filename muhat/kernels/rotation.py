"""A kernel on rotations."""

from __future__ import annotations

import numpy as np

from muhat._array import Array, Namespace, is_traced
from muhat.kernels.base import Kernel
from muhat.kernels.distance import Plan


class Rotation(Kernel):
    """k(A, B) = tr(A Bᵀ) on SO(3): the trace kernel of [G15] (kernel Bayes' rule on camera angles).

    A point is a rotation matrix as a row of its nine entries, ``R.reshape(n, 9)``. The value is
    1 + 2 cos θ, θ the angle between the two rotations.
    """

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        _check_rotations(X, "X")
        if Y is not X:
            _check_rotations(Y, "Y")
        return lambda rows: X[rows] @ Y.T

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return xp.full(X.shape[0], 3.0, dtype=X.dtype)

    @property
    def amplitude(self) -> float:
        return 3.0


def _check_rotations(X: Array, name: str) -> None:
    if X.shape[1] != 9:
        raise ValueError(
            f"{name} has {X.shape[1]} columns, but a rotation is a row of 9: pass R.reshape(-1, 9)."
        )
    if is_traced(X):
        return
    R = np.asarray(X).reshape(-1, 3, 3)
    tolerance = 1e-3 if R.dtype == np.float32 else 1e-6
    off = np.abs(R @ R.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2)) > tolerance
    bad = off | (np.linalg.det(R) < 0)
    if bad.any():
        raise ValueError(
            f"{name} has rows that are no rotations, first row {int(bad.argmax())}: the matrix must be "
            "orthogonal with determinant 1; project it, e.g. with scipy.spatial.transform.Rotation."
        )
