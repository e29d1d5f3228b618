"""Rotations as rows of nine numbers: a wandering camera, the nearest rotation, quaternions, the error."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter
from scipy.spatial.transform import Rotation

# The camera yaws all round; pitch and roll swing this far to both sides of level.
SWING = np.deg2rad(45.0)
PERIODS = np.array([90.0, 71.0, 53.0])  # frames of a turn, or of a swing and back
# The angular velocities vary by this share of their means, and forget in about so many frames.
UNSTEADY, MEMORY = 0.6, 20.0


def wander(n: int, rng: np.random.Generator) -> np.ndarray:
    """A smooth random path over SO(3), (n, 9): camera to world, each matrix by rows.

    Yaw is a phase, pitch and roll are sines of phases. Noise drives the velocities of the phases alone, so
    that the path is smooth, yet no two rounds are the same.
    """
    keep = np.exp(-1 / MEMORY)
    kicks = rng.standard_normal((n, 3))
    kicks[1:] *= np.sqrt(1 - keep**2)  # stationary from the first frame on
    rate = np.asarray(lfilter([1.0], [1.0, -keep], kicks, axis=0))
    start = rng.uniform(0, 2 * np.pi, 3)
    phase = start + np.cumsum(2 * np.pi / PERIODS * (1 + UNSTEADY * rate), axis=0)
    angles = np.column_stack([phase[:, 0], SWING * np.sin(phase[:, 1:])])
    return Rotation.from_euler("ZYX", angles).as_matrix().reshape(n, 9)  # yaw, then pitch, then roll


def nearest_rotation(M: np.ndarray) -> np.ndarray:
    """The rotation nearest to each row, in the Frobenius norm, (n, 9): U diag(1, 1, ±1) Vᵀ.

    Of all rotations it is also the one with the largest ``tr(R Mᵀ)``: the point where the embedding
    with the trace kernel is largest, and whose own embedding is nearest to it.
    """
    U, _, Vt = np.linalg.svd(M.reshape(-1, 3, 3))
    U[:, :, 2] *= np.linalg.det(U @ Vt)[:, None]
    return (U @ Vt).reshape(-1, 9)


def quaternions(R: np.ndarray) -> np.ndarray:
    """Unit quaternions of a path of rotations, (n, 4), with signs that make it continuous."""
    q = Rotation.from_matrix(R.reshape(-1, 3, 3)).as_quat()
    turned = np.sum(q[1:] * q[:-1], axis=1) < 0
    q[1:][np.cumsum(turned) % 2 == 1] *= -1
    return q


def from_quaternions(q: np.ndarray) -> np.ndarray:
    """Rotations of quaternions of any length but zero, (n, 9)."""
    return Rotation.from_quat(q).as_matrix().reshape(-1, 9)


def errors(estimate: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """``‖R̂ − R‖²`` in the Frobenius norm, (n,); between rotations 8 sin²(θ/2) of their angle θ."""
    return np.sum((estimate - truth) ** 2, axis=1)
