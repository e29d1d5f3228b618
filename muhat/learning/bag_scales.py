"""How much the place of a bag and each scale of its shape count for a target, by marginal likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from muhat._bags import AnyBags
from muhat._linalg import SingularSystem, cholesky
from muhat.gram.octaves import OctaveKernel, octave_sum
from muhat.kernels.on_distributions import OnDistributions, inner_products, squared_mmd
from muhat.kernels.stationary import Gaussian, Stationary
from muhat.learning.bags import choose_noise
from muhat.operators.bags import mean_features

# Lengthscales of the shape: from this multiple of the median distance within bags downwards, in octaves.
LONGEST, OCTAVES = 4.0, 6
# A weight below this share of where the search starts counts for nothing.
NOTHING = np.exp(-9.0)
STEP = 1e-5
FOLDS = 3


@dataclass(frozen=True)
class Scales:
    """In which units a bag is looked at.

    Attributes:
        place: standard deviations of the means of bags, (d,); inf for a column in which they are all alike.
        longest: the longest lengthscale of the shape, (d,).
    """

    place: np.ndarray
    longest: np.ndarray

    @classmethod
    def of(cls, bags: AnyBags) -> Scales:
        """From bags to learn from."""
        spread = bags.means.std(axis=0)
        inside = bags.centred().pool()
        sd = inside.std(axis=0)
        rounding = 1e-14 * np.abs(bags.means).max(axis=0)
        # A column that is constant in every bag has a place and no shape; what rounding leaves of it is none.
        sd = np.where(sd > rounding, sd, 1.0)
        try:
            unit = float(Gaussian("median").resolve(inside / sd).lengthscale)  # type: ignore[attr-defined]
        except ValueError:  # no bag has two points
            unit = 1.0
        return cls(np.where(spread > np.maximum(1e-12 * sd, rounding), spread, np.inf), LONGEST * unit * sd)

    def distances(self, bags: AnyBags, first: OctaveKernel | None) -> np.ndarray:
        """Squared distances of place and of shape in every octave, (1 + J, n, n); exact without features."""
        M, shapes = bags.means / self.place, bags.centred()
        if first is None:
            inner = [Gaussian(self.longest / 2**j) for j in range(OCTAVES)]
            products = [inner_products(shapes, shapes, k) for k in inner]
        else:
            U = mean_features(shapes, first)
            products = [U[:, g] @ U[:, g].T for g in first.groups()]
        return np.stack([squared_mmd(C, np.diagonal(C), np.diagonal(C)) for C in (M @ M.T, *products)])

    def kernel(self, outer: Stationary, weights: np.ndarray) -> OnDistributions:
        """The kernel on distributions with these weights of place and octaves."""
        shape = weights[1:] if weights[1:].any() else np.full(OCTAVES, 1e-12)
        with np.errstate(divide="ignore"):
            location = self.place / np.sqrt(weights[0])
        return OnDistributions(outer, octave_sum(self.longest, shape), location)


@dataclass(frozen=True)
class Weighted:
    """Weights of distances, amplitude and noise in units of the standardised target, log likelihood."""

    weights: np.ndarray
    amplitude: float
    noise: float
    log_likelihood: float


def choose_weights(D: np.ndarray, Y: np.ndarray, outer: Stationary) -> Weighted:
    """Best log N(y; 0, a k(Σⱼ wⱼ Dⱼ) + s I) over w, a and s, by its gradient.

    Args:
        D: squared distances, (J, n, n).
        Y: standardised targets, (n, k); several share all parameters.
        outer: the function of a squared distance, with lengthscale 1.
    """
    from scipy.optimize import minimize

    n, k = Y.shape
    medians = np.array([_typical(d) for d in D])
    used = np.flatnonzero(medians > 0)
    if not len(used):
        raise ValueError("All bags are alike: there is nothing to learn from. Pass other bags.")
    flat = D[used].reshape(len(used), -1)

    def cost(t: np.ndarray) -> tuple[float, np.ndarray]:
        a, s, w = np.exp(t[0]), np.exp(t[1]), np.exp(t[2:])
        S = w @ flat
        E = outer._of(S, np)
        S *= 1 + STEP
        slope = outer._of(S, np)
        S *= (1 - STEP) / (1 + STEP)
        slope -= outer._of(S, np)
        S /= 1 - STEP
        slope /= np.where(S > 0, 2 * STEP * S, 1.0)
        K = a * E.reshape(n, n)
        V = K.copy()
        V[np.diag_indices(n)] += s
        try:
            factor = cholesky(V, "The covariance of the targets", "")
        except SingularSystem:
            return 1e25, np.zeros_like(t)
        inverse = factor.solve(np.eye(n))
        alpha = inverse @ Y
        G = 0.5 * (k * inverse - alpha @ alpha.T)
        value = 0.5 * float((alpha * Y).sum()) + 0.5 * k * factor.logdet()
        gradient = [(G * K).sum(), s * np.trace(G), *(w * (flat @ (a * G.ravel() * slope)))]
        return value, np.array(gradient)

    start = np.concatenate([[0.0, np.log(0.1)], -np.log(medians[used] * len(used))])
    bounds = [(-7.0, 9.0), (np.log(1e-6), 1.0), *((t - 10, t + 6) for t in start[2:])]
    found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 100})
    weights = np.zeros(len(D))
    weights[used] = np.where(found.x[2:] > start[2:] + np.log(NOTHING), np.exp(found.x[2:]), 0.0)
    if not weights.any():
        weights[used] = np.exp(start[2:])
    a, s = np.exp(found.x[:2])
    return Weighted(weights, float(a), float(s), -float(found.fun) - 0.5 * n * k * np.log(2 * np.pi))


def gram_of(D: np.ndarray, weights: np.ndarray, outer: Stationary) -> np.ndarray:
    """k(Σⱼ wⱼ Dⱼ), (n, n)."""
    return outer._of(np.tensordot(weights, D, 1), np)


def held_out_scores(
    learn: Callable[[np.ndarray], tuple[np.ndarray, float, float]],
    z: np.ndarray,
    known: np.ndarray,
    own: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Errors over predicted standard deviations of bags that had no part in learning, (n,).

    Args:
        learn: from indices of bags, the Gram over all (n, n), amplitude and noise.
        z: standardised targets, (n,).
        known: first-order variance from finite bags of typical spread, (n,).
        own: the same with the spread of each bag, (n,).
        rng: draws the folds.
    """
    n, out = len(z), np.empty(len(z))
    for held in np.array_split(rng.permutation(n), FOLDS):
        rest = np.setdiff1d(np.arange(n), held)
        K, a, s = learn(rest)
        a, s, c, _ = choose_noise(K[np.ix_(rest, rest)], z[rest], known[rest], a, s)
        V = a * K[np.ix_(rest, rest)] + np.diag(c * known[rest] + s)
        factor = cholesky(V, "The covariance of the targets", "Raise noise.")
        half = factor.half_solve(a * K[np.ix_(rest, held)])
        mean = half.T @ factor.half_solve(z[rest])
        variance = a * np.diagonal(K)[held] - (half**2).sum(axis=0) + c * own[held] + s
        out[held] = (z[held] - mean) / np.sqrt(np.maximum(variance, 1e-300))
    return out


def _typical(D: np.ndarray) -> float:
    above = D[np.triu_indices(len(D), 1)]
    above = above[above > 1e-14]
    return float(np.median(above)) if len(above) else 0.0


__all__ = ["Scales", "Weighted", "choose_weights", "gram_of", "held_out_scores"]
