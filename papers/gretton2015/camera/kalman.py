"""Kalman filters whose dynamics and observation function are estimated from the training frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from papers.gretton2015.camera.ridge import Ridge, fit_ridge
from papers.gretton2015.camera.rotations import from_quaternions, quaternions

Observe = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
SCORES = 40  # principal components of the images that the filters observe


@dataclass(frozen=True)
class Components:
    """Principal components of images: ``(x − centre) axes``.

    Args:
        centre: (d,).
        axes: (d, p).
    """

    centre: np.ndarray
    axes: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray, p: int = SCORES) -> Components:
        centre = X.mean(axis=0)
        _, vectors = np.linalg.eigh((X - centre).T @ (X - centre))
        return cls(centre, vectors[:, ::-1][:, :p])

    def scores(self, X: np.ndarray) -> np.ndarray:
        return (X - self.centre) @ self.axes


@dataclass(frozen=True)
class Linear:
    """``b ≈ A a + c`` by least squares, with the covariance of what is left over."""

    A: np.ndarray
    c: np.ndarray
    covariance: np.ndarray

    @classmethod
    def fit(cls, a: np.ndarray, b: np.ndarray) -> Linear:
        with_one = np.column_stack([a, np.ones(len(a))])
        solution = np.linalg.lstsq(with_one, b, rcond=None)[0]
        return cls(solution[:-1].T, solution[-1], _covariance(b - with_one @ solution))

    def __call__(self, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.A @ a + self.c, self.A


def _covariance(residuals: np.ndarray) -> np.ndarray:
    # A trace of the identity keeps what lies on the sphere or in SO(3) from being singular.
    S = residuals.T @ residuals / len(residuals)
    return S + 1e-6 * np.trace(S) / len(S) * np.eye(len(S))


def ridge_observation(ridge: Ridge) -> Observe:
    """The scores of the image of a matrix (9,), by kernel ridge, and their Jacobian (p, 9).

    Of a Gaussian kernel, ``∂k(r, rᵢ)/∂r = k(r, rᵢ) (rᵢ − r)/ℓ²``.
    """
    points, scale = ridge.mean.gram_.points, ridge.lengthscale
    coefficients = ridge.mean._mean.coefficients

    def observe(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        away = points - r
        k = np.exp(-0.5 * np.sum(away**2, axis=1) / scale**2)
        weighted = k[:, None] * coefficients
        return weighted.sum(axis=0) + ridge.centre, weighted.T @ away / scale**2

    return observe


def matrix_of(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The matrix (9,) of a quaternion x, y, z, w as a quadratic form, and its Jacobian (9, 4).

    For a unit quaternion it is the rotation; in general, the rotation times ‖q‖².
    """
    forms = FORMS @ q
    return forms @ q, 2 * forms


def _forms() -> np.ndarray:
    """Symmetric matrices F with ``R_ij = qᵀ F_ij q``, (9, 4, 4), by polarisation."""
    out = np.empty((9, 4, 4))
    for a in range(4):
        for b in range(4):
            plus, minus = (np.eye(4)[a] + sign * np.eye(4)[b] for sign in (1, -1))
            out[:, a, b] = (_scaled(plus) - _scaled(minus)) / 4
    return out


def _scaled(q: np.ndarray) -> np.ndarray:
    return (q @ q) * from_quaternions(q[None])[0] if q.any() else np.zeros(9)


FORMS = _forms()


def extended_kalman(
    Y: np.ndarray,
    start: np.ndarray,
    transition: Linear,
    observe: Observe,
    noise: np.ndarray,
    project: Callable[[np.ndarray], np.ndarray] = lambda s: s,
) -> np.ndarray:
    """Filtered means, (T, d): predict by ``transition``, then correct by the linearised ``observe``.

    Args:
        Y: observations, (T, p).
        start: the mean before the first observation, which is corrected without a prediction.
        transition: of the state.
        observe: the observation of a state (d,) and its Jacobian (p, d).
        noise: covariance of the observation, (p, p).
        project: back to where states are, after each correction.
    """
    out = np.empty((len(Y), len(start)))
    s, P = start, transition.covariance
    whitener = np.linalg.inv(np.linalg.cholesky(noise))
    for t, y in enumerate(Y):
        if t:
            s, A = transition(s)
            P = A @ P @ A.T + transition.covariance
        expected, J = observe(s)
        J, gap = whitener @ J, whitener @ (y - expected)
        # In the information form the system has the size of the state, not of the observation.
        factor = cho_factor(np.linalg.inv(P) + J.T @ J)
        P = cho_solve(factor, np.eye(len(s)))
        s = project(s + cho_solve(factor, J.T @ gap))
        out[t] = s
    return out


def kalman_filters(X: np.ndarray, R: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
    """Rotations (T, 9) of test images ``x`` by four filters learned from frames ``X`` and rotations ``R``.

    The state is the nine entries of the matrix, or a quaternion. The dynamics are linear in it, by least
    squares. The observation, principal components of the image, is linear in the state too, which is how
    the published filters estimate it; or a kernel ridge regression on the matrix, which the filter
    linearises at each step. Each starts at the training frame most like the first image.
    """
    components = Components.fit(X)
    Y, y = components.scores(X), components.scores(x)
    first = int(np.argmin(np.sum((X - x[0]) ** 2, axis=1)))
    ridge = fit_ridge(R, Y)
    learned, noise = ridge_observation(ridge), _covariance(ridge.residuals)
    q = quaternions(R)
    # An image cannot tell q from −q: a regression on q needs one sign, even if the path then jumps.
    half = q * np.where(q[:, 3:] < 0, -1.0, 1.0)
    steps, steps_q, steps_half = (Linear.fit(s[:-1], s[1:]) for s in (R, q, half))
    linear, linear_half = Linear.fit(R, Y), Linear.fit(half, Y)

    def learned_of_quaternion(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r, outer = matrix_of(s)
        value, inner = learned(r)
        return value, inner @ outer

    def unit(s: np.ndarray) -> np.ndarray:
        return s / np.linalg.norm(s)

    nine = extended_kalman(y, R[first], steps, linear, linear.covariance)
    four = extended_kalman(y, half[first], steps_half, linear_half, linear_half.covariance)
    nine_learned = extended_kalman(y, R[first], steps, learned, noise)
    four_learned = extended_kalman(y, q[first], steps_q, learned_of_quaternion, noise, unit)
    return {
        "kalman_9": nine,
        "kalman_quaternion": from_quaternions(four),
        "ekf_9": nine_learned,
        "ekf_quaternion": from_quaternions(four_learned),
    }
