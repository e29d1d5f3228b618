"""The kernel on distributions and the noise of a regression on bags, by marginal likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from muhat._bags import AnyBags
from muhat._linalg import SingularSystem, cholesky
from muhat.gram.features import FeatureKernel
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.on_distributions import OnDistributions, median_mmd, outer_of, products
from muhat.kernels.stationary import Stationary
from muhat.learning.parameters import Parameters
from muhat.operators.bags import mean_features

# Factors of the median lengthscale that are tried; the best is then refined.
INNER = (0.25, 0.5, 1.0, 2.0, 4.0)
OUTER = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# Noise over amplitude: the search goes over a grid of logarithms.
RATIOS = np.logspace(-7, 2, 37)


@dataclass(frozen=True)
class BagsChoice:
    """What was chosen for a regression on bags, in units of the standardised target.

    Attributes:
        kernel: on distributions, with nothing left open.
        amplitude: of the regression function: its prior variance over K.
        noise: variance of the target around it.
        log_likelihood: of the bags that were looked at.
        path: what was tried: factors of the inner and outer lengthscale, log marginal likelihood.
        relevance: where place and scales of shape were weighed against each other, the median of each
            weighted squared distance: place first, then octaves from the longest lengthscale down.
    """

    kernel: OnDistributions
    amplitude: float
    noise: float
    log_likelihood: float
    path: np.ndarray
    relevance: np.ndarray | None = None


def scaled_kernel(kernel: Kernel, factor: float) -> Kernel:
    """``kernel`` with every lengthscale times ``factor``."""
    if factor == 1.0 or not any(True for _ in kernel.leaves()):
        return kernel
    try:
        parameters = Parameters.of(kernel)
    except ValueError:  # nothing to scale
        return kernel
    return parameters.at(parameters.vector() + np.log(factor) * parameters.is_lengthscale())


def profiled_likelihood(K: np.ndarray, Y: np.ndarray) -> tuple[float, float, float]:
    """Best log N(y; 0, a(K + ρI)) over a and ρ, with that a and the noise aρ; summed over columns of ``Y``.

    One eigendecomposition serves every ρ, and a has a closed form.
    """
    values, vectors = np.linalg.eigh(K)
    values = np.maximum(values, 0.0)
    z2 = ((vectors.T @ Y) ** 2).sum(axis=1)
    n, k = Y.shape
    ratios = RATIOS * max(float(values.mean()), 1e-300)
    total = values + ratios[:, None]
    amplitude = (z2 / total).sum(axis=1) / (n * k)
    score = -0.5 * k * (n * np.log(2 * np.pi * amplitude) + np.log(total).sum(axis=1) + n)
    best = int(np.argmax(score))
    return float(score[best]), float(amplitude[best]), float(amplitude[best] * ratios[best])


def embedded(
    kernel: Kernel, bags: AnyBags, represent: Representation | None, seed: int, location: Any = None
) -> np.ndarray:
    """Inner products of the embeddings of ``bags``: exact, or of mean features in a representation."""
    if represent is None:
        return products(bags, bags, OnDistributions(None, kernel, location))
    first = features_of(kernel, bags, represent, seed)
    if location is None:
        U = mean_features(bags, first)
    else:
        U = np.hstack([bags.means / location, mean_features(bags.centred(), first)])
    return U @ U.T


def features_of(kernel: Kernel, bags: AnyBags, represent: Representation, seed: int) -> FeatureKernel:
    """The features of points in a representation; the same draw for the same seed, whatever the scale."""
    first = represent.fit(kernel, bags.pool(), np.random.default_rng(seed))
    if not isinstance(first, FeatureKernel):
        raise TypeError(
            f"representation must have features, got {represent!r}: pass mh.Fourier(p) or mh.Nystrom(p) for "
            "the points, or mh.Exact() for all."
        )
    return first


def choose_bags(
    bags: AnyBags,
    Y: np.ndarray,
    kernel: OnDistributions,
    open_inner: bool,
    open_outer: bool,
    represent: Representation | None,
    seed: int,
) -> BagsChoice:
    """Lengthscales within and on embeddings, amplitude and noise, by marginal likelihood.

    Args:
        bags: that are looked at.
        Y: standardised targets, (n, k); several share all parameters.
        kernel: with numbers everywhere: where the search starts.
        open_inner: whether the lengthscales of the inner kernel are free.
        open_outer: whether that of the outer kernel is.
        represent: of the points; None for exact inner products.
        seed: of the random features.
    """
    path: list[tuple[float, float, float]] = []
    best: tuple[float, float, float, OnDistributions] | None = None

    def look(factor: float, C: np.ndarray, inner: Kernel, outer: Kernel, relative: float) -> float:
        nonlocal best
        norms = np.diagonal(C)
        score, amplitude, noise = profiled_likelihood(outer_of(outer, C, norms, norms), Y)
        path.append((factor, relative, score))
        if best is None or score > best[0]:
            best = (score, amplitude, noise, OnDistributions(outer, inner, kernel.location))
        return score

    def search(factor: float) -> float:
        inner = scaled_kernel(kernel.inner, factor)
        C = embedded(inner, bags, represent, seed, kernel.location)
        if not open_outer or not isinstance(kernel.outer, Stationary):
            return look(factor, C, inner, kernel.outer, 1.0)
        unit = kernel.outer._median_factor() * median_mmd(C)
        at = lambda r: look(factor, C, inner, kernel.outer.replace(lengthscale=unit * r), r)  # noqa: E731
        return _climb(at, OUTER)

    if open_inner:
        _climb(search, INNER)
    else:
        search(1.0)
    assert best is not None
    score, amplitude, noise, chosen = best
    return BagsChoice(chosen, amplitude, noise, score, np.array(path))


def _climb(score: Callable[[float], float], factors: tuple[float, ...]) -> float:
    """The best score over ``factors``, and then between the best and its neighbours."""
    scores = {f: score(f) for f in factors}
    best = max(scores, key=lambda f: scores[f])
    for f in (best / 2**0.5, best * 2**0.5):
        scores[f] = score(f)
    return max(scores.values())


def choose_noise(
    K: np.ndarray, y: np.ndarray, known: np.ndarray, amplitude: float, noise: float, free_noise: bool = True
) -> tuple[float, float, float, float]:
    """Amplitude a, noise s and share c of ``y ~ N(0, aK + diag(c·known) + s·I)``, and that log density.

    ``known`` is the first-order variance from finite bags (n,); the sampling error that a regression has
    learned to live with is less. The share has a log-normal prior around 1 (sd ½): bags of one size cannot
    tell it from the noise.
    """
    from scipy.optimize import minimize

    def cost(t: np.ndarray) -> float:
        a, c, s = np.exp(t[0]), np.exp(t[1]), (np.exp(t[2]) if free_noise else noise)
        S = a * K
        S[np.diag_indices_from(S)] += c * known + s
        try:
            factor = cholesky(S, "The covariance of the targets", "")
        except SingularSystem:
            return 1e25
        return float(0.5 * (factor.half_solve(y) ** 2).sum() + 0.5 * factor.logdet() + 2 * t[1] ** 2)

    floor = max(noise * 1e-3, 1e-8)
    share = min(1.0, 0.8 * noise / max(float(known.mean()), 1e-300)) if free_noise else 1.0
    start = np.log([amplitude, max(share, 0.03), max(noise - share * known.mean(), 0.1 * noise, floor)])
    start = start[: 2 + free_noise]
    bounds = [(start[0] - 7, start[0] + 7), (-4.0, 1.5), (np.log(floor), np.log(10.0))][: 2 + free_noise]
    found = minimize(
        cost, start, method="Nelder-Mead", bounds=bounds, options={"maxfev": 90, "xatol": 0.05, "fatol": 0.02}
    )
    a, c = (float(np.exp(t)) for t in found.x[:2])
    return a, float(np.exp(found.x[2])) if free_noise else noise, c, -float(found.fun)


__all__ = ["BagsChoice", "choose_bags", "choose_noise", "embedded", "features_of", "profiled_likelihood"]
