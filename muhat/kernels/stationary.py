"""Stationary kernels: functions of the scaled difference of two points.

With lengthscales ℓ (a number, or one for every column), each is written as its formula in
``s = Σⱼ (xⱼ − x'ⱼ)² / ℓⱼ²`` or, for the ℓ1 Laplace kernel, ``s = Σⱼ |xⱼ − x'ⱼ| / ℓⱼ``.
"""

from __future__ import annotations

from functools import cache
from math import exp, factorial, inf, lgamma, log, pi, sqrt
from typing import Any, ClassVar

import numpy as np

from muhat._array import Array, Namespace, floating, is_jax, is_traced, namespace, root, special
from muhat._threads import row_blocks, run_blocks
from muhat._validation import check_choice, check_count, check_positive
from muhat.kernels.base import Kernel
from muhat.kernels.distance import DIRECT_COLUMNS, Plan, city_distances, squared_distances
from muhat.kernels.median import median_distance, scaled_distances

# Distances that are held at a time where only the least is wanted.
NEAREST_ELEMENTS = 1 << 18


class Stationary(Kernel):
    """k(x, x') = f(s), s the squared distance in units of the lengthscale.

    Args:
        lengthscale: ℓ: a positive number, a vector with one for every column (ARD), ``"median"``
            (the median distance between rows, scaled so that k there is e^{-1/2} in every family) or
            ``"scaled"`` (the same after bringing every column to unit variance).
    """

    _parameters: ClassVar[tuple[str, ...]] = ("lengthscale",)
    isotropic = True
    _metric = "euclidean"

    def __init__(self, lengthscale: Any = "median") -> None:
        self.lengthscale = _check_lengthscale(lengthscale)

    def _of(self, s: Array, xp: Namespace) -> Array:
        """The formula f(s)."""
        raise TypeError(f"{type(self).__name__} does not define its formula: write _of.")

    def _median_factor(self) -> float:
        """ℓ over the median distance, such that k at the median is e^{-1/2}."""
        raise TypeError(f"{type(self).__name__} does not scale the median: write _median_factor.")

    def resolve(self, X: Array, names: list[str] | None = None) -> Kernel:
        if not isinstance(self.lengthscale, str):
            return self
        find = median_distance if self.lengthscale == "median" else scaled_distances
        return self.replace(lengthscale=self._median_factor() * find(X, self._metric))

    def _unit(self, X: Array, xp: Namespace) -> Array:
        """The lengthscale as an array that divides rows of ``X``."""
        ell = self.lengthscale
        if np.ndim(ell) == 1 and np.shape(ell)[0] not in (1, X.shape[1]):
            raise ValueError(
                f"lengthscale has {np.shape(ell)[0]} entries but the points have {X.shape[1]} columns: "
                "give a number, or one entry for every column."
            )
        return ell if is_jax(ell) else xp.asarray(ell, dtype=X.dtype)

    def _distances(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        distances = city_distances if self._metric == "cityblock" else squared_distances
        return distances(X, Y, xp, self._unit(X, xp))

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        block = self._distances(X, Y, xp)
        return lambda rows: self._of(block(rows), xp)

    def largest(self, X: Array, Y: Array) -> Array:
        """``maxⱼ k(xᵢ, yⱼ)``, (n,): f falls, so only the nearest point counts."""
        xp = namespace(X, Y)
        block = self._distances(X, Y, xp)
        if xp is not np:
            return self._of(block(slice(None)).min(axis=1), xp)
        # Few columns: blocks that stay in the cache. Many: a product has to read all of Y for each block.
        elements = NEAREST_ELEMENTS * min(32, max(1, X.shape[1] // DIRECT_COLUMNS))
        blocks = row_blocks(len(X), len(Y), elements)
        return self._of(np.concatenate(run_blocks(lambda rows: block(rows).min(axis=1), blocks)), xp)

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return xp.ones(X.shape[0], dtype=X.dtype)

    @property
    def amplitude(self) -> float:
        return 1.0

    def _lengthscales(self, d: int) -> Array:
        """The lengthscale as a vector (d,); known only once it is a number."""
        check_count(d, "d")
        if isinstance(self.lengthscale, str):
            raise ValueError(
                f"{self!r} has no number for its lengthscale yet: call kernel.resolve(X), or give one."
            )
        xp = namespace(self.lengthscale)
        return xp.broadcast_to(xp.asarray(self.lengthscale), (d,))

    def spectral_sample(self, n: int, d: int, rng: np.random.Generator) -> Array:
        return self._unit_spectral(n, d, rng) / self._lengthscales(d)

    def _unit_spectral(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        """Frequencies of the kernel with unit lengthscale."""
        raise self._no("spectral samples", "use mh.Nystrom(p), which takes every kernel")

    def integral(self, d: int) -> Any:
        return self._unit_integral(d) * self._lengthscales(d).prod()

    def _unit_integral(self, d: int) -> float:
        """``∫ f(‖u‖²) du`` over ℝᵈ."""
        raise self._no("its integral over space", "use a kernel that is a density, e.g. mh.Gaussian")

    def variance(self, d: int) -> Array:
        return self._unit_variance(d) * self._lengthscales(d) ** 2

    def _unit_variance(self, d: int) -> float:
        """Variance of a coordinate under the density ``f(‖u‖²) / ∫f``."""
        raise self._no("the variance of its density", "use a kernel that is a density, e.g. mh.Gaussian")


def _check_lengthscale(value: Any) -> Any:
    if isinstance(value, str):
        check_choice(value, "lengthscale", ("median", "scaled"))
        return value
    check_positive(value, "lengthscale", 'give a positive number, one for every column, or "median"')
    if np.ndim(value) > 1:
        raise ValueError(
            f"lengthscale must be a number or a vector, got shape {np.shape(value)}: pass one entry "
            "for every column."
        )
    if is_jax(value) or is_traced(value):
        return value
    return float(value) if np.ndim(value) == 0 else np.asarray(value, dtype=np.float64)


class Gaussian(Stationary):
    """k(x, x') = exp(−s/2), s = ‖(x − x')/ℓ‖²."""

    def _of(self, s: Array, xp: Namespace) -> Array:
        return xp.exp(-0.5 * s)

    def _median_factor(self) -> float:
        return 1.0

    def _unit_spectral(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((n, d))

    def _unit_integral(self, d: int) -> float:
        return (2 * pi) ** (d / 2)

    def _unit_variance(self, d: int) -> float:
        return 1.0

    def smoothed(self, d: int, sd: float | None = None) -> Kernel:
        ell = self._lengthscales(d)
        if sd is None:  # F16, eq. (27), with θ = ℓ²
            return (pi ** (d / 2) * ell.prod()) * Gaussian(sqrt(2) * ell)
        check_positive(sd, "sd", "give the standard deviation of ν, or None for Lebesgue measure")
        return SmoothedGaussian(ell, sd)

    def gaussian_embedding(self, X: Array, mean: Array, cov: Array) -> Array:
        # E exp(−½(x−Z)ᵀΛ⁻¹(x−Z)) = |I + Λ⁻¹S|^{-1/2} exp(−½(x−m)ᵀ(Λ+S)⁻¹(x−m)), Λ = diag ℓ².
        mean, cov, xp = _gaussian_arguments(X, mean, cov, self)
        d = X.shape[1]
        ell = self._lengthscales(d)
        total = xp.diag(ell**2) + cov
        factor = xp.linalg.cholesky(total)
        # Whitened differences; d is small, so a general solve costs nothing.
        z = xp.linalg.solve(factor, (X - mean).T)
        log_scale = xp.log(ell).sum() - xp.log(xp.diagonal(factor)).sum()
        return xp.exp(log_scale - 0.5 * (z**2).sum(axis=0))


class SmoothedGaussian(Kernel):
    """∫ k(x, u) k(u, y) ν(du) for the Gaussian k and ν(du) = exp(−‖u‖²/(2 sd²)) du [F16, A.3].

    r(x, y) = (2π)^{d/2} |2Λ⁻¹ + I/sd²|^{-1/2} exp(−¼ (x−y)ᵀΛ⁻¹(x−y)) exp(−½ mᵀ(Λ/2 + sd² I)⁻¹ m)
    with Λ = diag ℓ² and m = (x + y)/2.
    """

    _parameters: ClassVar[tuple[str, ...]] = ("lengthscale", "sd")

    def __init__(self, lengthscale: Any, sd: Any) -> None:
        self.lengthscale, self.sd = lengthscale, sd

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        ell2 = xp.asarray(self.lengthscale) ** 2
        # ‖(x − y)/(√2 ℓ)‖² and ‖(x + y)/2‖² in the norm of (Λ/2 + sd²)⁻¹: the latter is the
        # distance from x to −y.
        w = xp.sqrt(ell2 / 2 + self.sd**2) * 2
        near = squared_distances(X / xp.sqrt(2 * ell2), Y / xp.sqrt(2 * ell2), xp)
        middle = squared_distances(X / w, -Y / w, xp)
        log_scale = self._log_scale(X.shape[1], ell2, xp)
        return lambda rows: xp.exp(log_scale - 0.5 * (near(rows) + middle(rows)))

    def _diag(self, X: Array, xp: Namespace) -> Array:
        ell2 = xp.asarray(self.lengthscale) ** 2
        m2 = (X**2 / (ell2 / 2 + self.sd**2)).sum(axis=1)
        return xp.exp(self._log_scale(X.shape[1], ell2, xp) - 0.5 * m2)

    def _log_scale(self, d: int, ell2: Array, xp: Namespace) -> Array:
        per_column = xp.log(2 / ell2 + 1 / self.sd**2) * xp.ones(d)
        return 0.5 * (d * log(2 * pi) - per_column.sum())


class Laplace(Stationary):
    """k(x, x') = exp(−s) with s = Σⱼ |xⱼ − x'ⱼ|/ℓⱼ (``norm=1``) or ‖(x − x')/ℓ‖ (``norm=2``).

    The ℓ1 form is a product over columns; the ℓ2 form is Matérn 1/2.
    """

    _choices: ClassVar[tuple[str, ...]] = ("norm",)

    def __init__(self, lengthscale: Any = "median", norm: int = 1) -> None:
        super().__init__(lengthscale)
        check_choice(norm, "norm", (1, 2))
        self.norm = norm

    @property
    def _metric(self) -> str:  # type: ignore[override]
        return "cityblock" if self.norm == 1 else "euclidean"

    @property
    def isotropic(self) -> bool:  # type: ignore[override]
        return self.norm == 2

    def _of(self, s: Array, xp: Namespace) -> Array:
        return xp.exp(-s) if self.norm == 1 else xp.exp(-root(s, xp))

    def _median_factor(self) -> float:
        return 2.0

    def _unit_spectral(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_cauchy((n, d)) if self.norm == 1 else _student(1.0, n, d, rng)

    def _unit_integral(self, d: int) -> float:
        return 2.0**d if self.norm == 1 else _matern_integral(0.5, d)

    def _unit_variance(self, d: int) -> float:
        return 2.0 if self.norm == 1 else _matern_variance(0.5, d)

    def smoothed(self, d: int, sd: float | None = None) -> Kernel:
        if sd is not None:
            raise self._no("smoothing by itself under a Gaussian ν", "use sd=None (Lebesgue measure)")
        ell = self._lengthscales(d)
        if self.norm == 2:
            return _smoothed_matern(0.5, ell, d, self)
        # ∫ e^{−|x−u|/ℓ} e^{−|u−y|/ℓ} du = ℓ (1 + |x−y|/ℓ) e^{−|x−y|/ℓ}: Matérn 3/2 in each column.
        out: Kernel = ell.prod() * Matern(1.5, sqrt(3) * ell[0]).on(0)
        for j in range(1, d):
            out = out * Matern(1.5, sqrt(3) * ell[j]).on(j)
        return out

    def gaussian_embedding(self, X: Array, mean: Array, cov: Array) -> Array:
        if self.norm == 2 and X.shape[1] > 1:
            raise self._no("the mean embedding of a Gaussian", "use norm=1, or embed a large sample")
        mean, cov, xp = _gaussian_arguments(X, mean, cov, self)
        if not is_traced(cov) and np.any(np.asarray(cov) != np.diag(np.diag(np.asarray(cov)))):
            raise self._no(
                "the mean embedding of a Gaussian with correlated columns",
                "use mh.Gaussian, or embed a large sample",
            )
        # Column by column, with t = (x − m)/ℓ and v = s²/ℓ²:
        # E e^{−|t−W|}, W ~ N(0, v), = e^{v/2} [e^{−t} Φ((t−v)/√v) + e^{t} Φ((−t−v)/√v)].
        ell = self._lengthscales(X.shape[1])
        t, v = (X - mean) / ell, xp.diagonal(cov) / ell**2
        spread = v > 0  # a column of variance 0 is a point
        v = xp.where(spread, v, 1.0)
        log_ndtr = special(xp).log_ndtr
        sides = [v / 2 + sign * -t + log_ndtr((sign * t - v) / xp.sqrt(v)) for sign in (1.0, -1.0)]
        return xp.exp(xp.where(spread, xp.logaddexp(*sides), -xp.abs(t)).sum(axis=1))


class Matern(Stationary):
    """Matérn kernel of half-integer smoothness ν = p + 1/2, with r = √(2ν) ‖(x − x')/ℓ‖.

    k = e^{−r} Σᵢ (p+i)!/(i! (p−i)!) (2r)^{p−i} · p!/(2p)!: e^{−r}, (1 + r) e^{−r} and
    (1 + r + r²/3) e^{−r} for ν = 1/2, 3/2, 5/2.
    """

    _choices: ClassVar[tuple[str, ...]] = ("nu",)

    def __init__(self, nu: float = 1.5, lengthscale: Any = "median") -> None:
        super().__init__(lengthscale)
        seen = np.asarray(nu)
        if seen.ndim or seen.dtype.kind not in "iuf" or not (seen > 0 and float(nu) % 1 == 0.5):
            raise ValueError(
                f"nu must be a half-integer, got {nu!r}: use 0.5, 1.5 or 2.5 "
                "(mh.Gaussian is the limit of large nu)."
            )
        self.nu = float(nu)

    def _of(self, s: Array, xp: Namespace) -> Array:
        r = sqrt(2 * self.nu) * root(s, xp)
        coefficients = _matern_polynomial(self.nu)
        total = coefficients[-1]
        for c in coefficients[-2::-1]:
            total = total * r + c
        return total * xp.exp(-r)

    def _median_factor(self) -> float:
        return _matern_factor(self.nu)

    def _unit_spectral(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return _student(2 * self.nu, n, d, rng)

    def _unit_integral(self, d: int) -> float:
        return _matern_integral(self.nu, d)

    def _unit_variance(self, d: int) -> float:
        return _matern_variance(self.nu, d)

    def smoothed(self, d: int, sd: float | None = None) -> Kernel:
        if sd is not None:
            raise self._no("smoothing by itself under a Gaussian ν", "use sd=None (Lebesgue measure)")
        return _smoothed_matern(self.nu, self._lengthscales(d), d, self)


@cache
def _matern_polynomial(nu: float) -> tuple[float, ...]:
    """Coefficients of 1, r, r², …"""
    p = int(nu - 0.5)
    return tuple(
        factorial(p) / factorial(2 * p) * factorial(2 * p - j) / (factorial(p - j) * factorial(j)) * 2**j
        for j in range(p + 1)
    )


@cache
def _matern_factor(nu: float) -> float:
    from scipy.optimize import brentq

    unit = Matern(nu, 1.0)
    return 1 / brentq(lambda r: float(unit._of(np.array(r * r), np)) - exp(-0.5), 1e-6, 10.0)  # type: ignore


def _matern_integral(nu: float, d: int) -> float:
    return exp(d * log(2) + d / 2 * log(pi / (2 * nu)) + lgamma(nu + d / 2) - lgamma(nu))


def _matern_variance(nu: float, d: int) -> float:
    return (nu + d / 2) / nu


def _smoothed_matern(nu: float, ell: Array, d: int, kernel: Kernel) -> Kernel:
    """Matérn convolved with itself: its spectral density squared is Matérn 2ν + d/2 again."""
    smoother = 2 * nu + d / 2
    if smoother % 1 != 0.5:
        raise kernel._no(
            f"smoothing by itself in {d} dimensions",
            "it is one in odd dimensions only; use mh.Gaussian, or mh.Laplace(norm=1)",
        )
    unit = _matern_integral(nu, d) ** 2 / (_matern_integral(smoother, d) * (smoother / nu) ** (d / 2))
    return (unit * ell.prod()) * Matern(smoother, ell * sqrt(smoother / nu))


def _student(degrees: float, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Multivariate Student t: the spectral measure of Matérn kernels."""
    return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(degrees, (n, 1)) / degrees)


class _StudentType(Stationary):
    """k(x, x') = (1 + s/c)^{−β}: mixtures of Gaussians over their scale."""

    def _power(self) -> Any:
        raise TypeError("write _power")

    def _width(self) -> Any:
        """c, the squared scale in units of ℓ²."""
        return 1.0

    def _of(self, s: Array, xp: Namespace) -> Array:
        return (1 + s / self._width()) ** -self._power()

    def _median_factor(self) -> float:
        return float(1 / np.sqrt(self._width() * np.expm1(0.5 / self._power())))

    def _unit_spectral(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        # (1 + s/c)^{−β} = E exp(−τ s/c), τ ~ Gamma(β): given τ the frequency is N(0, 2τ/c).
        tau = rng.gamma(self._power(), size=(n, 1))
        return rng.standard_normal((n, d)) * np.sqrt(2 * tau / self._width())

    def _unit_integral(self, d: int) -> float:
        beta, c = float(self._power()), float(self._width())
        if 2 * beta <= d:
            raise self._no(
                f"its integral over {d} dimensions",
                f"its tail decays like distance^-{2 * beta:g}, so the integral is infinite; "
                "use mh.Gaussian, mh.Laplace or mh.Matern",
            )
        return exp(d / 2 * log(pi * c) + lgamma(beta - d / 2) - lgamma(beta))

    def _unit_variance(self, d: int) -> float:
        self._unit_integral(d)  # there must be a density to speak of
        degrees = 2 * float(self._power()) - d
        return float(self._width()) / (degrees - 2) if degrees > 2 else inf


class RationalQuadratic(_StudentType):
    """k(x, x') = (1 + s/(2α))^{−α}; the Gaussian kernel is its limit of large α."""

    _parameters: ClassVar[tuple[str, ...]] = ("lengthscale", "alpha")

    def __init__(self, lengthscale: Any = "median", alpha: Any = 1.0) -> None:
        super().__init__(lengthscale)
        check_positive(alpha, "alpha", "give a positive number, e.g. 1.0")
        self.alpha = alpha

    def _power(self) -> Any:
        return self.alpha

    def _width(self) -> Any:
        return 2 * self.alpha


class Cauchy(_StudentType):
    """k(x, x') = 1/(1 + s)."""

    def _power(self) -> float:
        return 1.0


class InverseMultiquadric(_StudentType):
    """k(x, x') = (1 + s)^{−β}, by default with β = 1/2."""

    _parameters: ClassVar[tuple[str, ...]] = ("lengthscale", "beta")

    def __init__(self, lengthscale: Any = "median", beta: Any = 0.5) -> None:
        super().__init__(lengthscale)
        check_positive(beta, "beta", "give a positive number, e.g. 0.5")
        self.beta = beta

    def _power(self) -> Any:
        return self.beta


def _gaussian_arguments(X: Array, mean: Any, cov: Any, kernel: Kernel) -> tuple[Array, Array, Namespace]:
    """Mean (d,) and covariance (d, d) of the Gaussian; a number or vector stands for a diagonal."""
    xp = namespace(X, mean, cov, *kernel.leaves())
    d = X.shape[1]
    dtype = floating(X[:0], xp).dtype
    mean, cov = xp.asarray(mean, dtype=dtype), xp.asarray(cov, dtype=dtype)
    if mean.shape not in ((), (1,), (d,)):
        raise ValueError(
            f"mean has shape {mean.shape}, but the points have {d} columns: pass ({d},) or one number."
        )
    mean = xp.broadcast_to(mean, (d,))
    if cov.shape in ((), (1,), (d,)):
        cov = xp.diag(xp.broadcast_to(cov, (d,)))
    if cov.shape != (d, d):
        raise ValueError(
            f"cov has shape {cov.shape}, but the points have {d} columns: pass ({d}, {d}), a vector of "
            f"{d} variances, or one variance."
        )
    return mean, cov, xp


__all__ = [
    "Cauchy",
    "Gaussian",
    "InverseMultiquadric",
    "Laplace",
    "Matern",
    "RationalQuadratic",
    "SmoothedGaussian",
    "Stationary",
]
