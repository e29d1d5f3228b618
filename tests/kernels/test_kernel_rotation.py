"""The trace kernel on rotations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernel_cases import rotation_about_z
from scipy.spatial.transform import Rotation

import muhat as mh


def rotations(n: int, seed: int = 0) -> Rotation:
    return Rotation.random(n, rng=np.random.default_rng(seed))


def rows(R: Rotation) -> np.ndarray:
    return R.as_matrix().reshape(-1, 9)


def test_value_is_the_trace_and_one_plus_twice_the_cosine_of_the_angle() -> None:
    A, B = rotations(20), rotations(15, 1)
    K = mh.Rotation().gram(rows(A), rows(B))
    for i in range(20):
        for j in range(15):
            assert K[i, j] == pytest.approx(np.trace(A[i].as_matrix() @ B[j].as_matrix().T), abs=1e-12)
            angle = (A[i] * B[j].inv()).magnitude()
            assert K[i, j] == pytest.approx(1 + 2 * np.cos(angle), abs=1e-9)


def test_known_angles() -> None:
    turned = np.array([rotation_about_z(a).ravel() for a in (0.0, np.pi / 3, np.pi / 2, np.pi)])
    np.testing.assert_allclose(mh.Rotation().gram(turned)[0], [3, 2, 1, -1], atol=1e-15)


def test_positive_definite_with_constant_diagonal() -> None:
    X = rows(rotations(30))
    K = mh.Rotation()(X)
    np.testing.assert_allclose(np.diagonal(K), mh.Rotation().diag(X), rtol=1e-12)
    assert mh.Rotation().amplitude == 3
    values = np.linalg.eigvalsh(K)
    assert values[0] > -1e-12
    assert (values > 1e-9).sum() == 9  # nine features: the entries


def test_does_not_depend_on_the_frame() -> None:
    A, turn = rotations(10), rotations(1, 2)[0]
    np.testing.assert_allclose(mh.Rotation()(rows(turn * A)), mh.Rotation()(rows(A)), atol=1e-12)
    np.testing.assert_allclose(mh.Rotation()(rows(A * turn)), mh.Rotation()(rows(A)), atol=1e-12)


def test_in_jax_and_in_compositions() -> None:
    X = rows(rotations(6))
    with jax.enable_x64(True):
        np.testing.assert_allclose(mh.Rotation()(jnp.asarray(X)), mh.Rotation()(X), rtol=1e-12)
        np.testing.assert_allclose(jax.jit(mh.Rotation())(X), mh.Rotation()(X), rtol=1e-12)
    T = np.column_stack([np.arange(6.0), X])
    kernel = mh.Rotation().on(list(range(1, 10))) * mh.Gaussian(1.0).on(0)
    np.testing.assert_allclose(kernel.gram(T), mh.Rotation()(X) * mh.Gaussian(1.0)(T[:, :1]), rtol=1e-12)


def test_single_precision_rotations_pass() -> None:
    X = rows(rotations(5)).astype(np.float32)
    np.testing.assert_allclose(mh.Rotation().gram(X), mh.Rotation().gram(rows(rotations(5))), atol=1e-6)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda R: 2 * R,
        lambda R: R @ np.diag([1.0, 1.0, -1.0]),
        lambda R: np.zeros((3, 3)),
        lambda R: R + 1e-4,
        lambda R: np.diag([2.0, 0.5, 1.0]),
    ],
    ids=["stretched", "mirrored", "zero", "perturbed", "sheared"],
)
@pytest.mark.parametrize("argument", ["X", "Y"])
def test_what_is_no_rotation_is_refused(spoil: object, argument: str) -> None:
    good, bad = rows(rotations(5)), rows(rotations(5))
    bad[3] = spoil(bad[3].reshape(3, 3)).ravel()
    pair = (bad, good) if argument == "X" else (good, bad)
    with pytest.raises(
        ValueError, match=rf"{argument} has rows that are no rotations, first row 3.*orthogonal"
    ):
        mh.Rotation().gram(*pair)


def test_nine_columns_are_needed() -> None:
    with pytest.raises(ValueError, match=r"X has 4 columns, but a rotation is a row of 9.*reshape\(-1, 9\)"):
        mh.Rotation().gram(np.eye(4))
