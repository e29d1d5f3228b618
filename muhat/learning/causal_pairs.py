"""Artificial pairs of cause and effect, to learn the direction of real ones from [LMST15, §5].

A pair is made as x ~ P, y = f(x, e) with noise e independent of x: P, f and the law of e are drawn anew for
each pair. Whatever is done to measured values (rounding, noise of measurement) is done to causes as often as
to effects, so that it gives nothing away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator, UnivariateSpline

from muhat._validation import check_choice

NOISES = ("deviation", "variance")
CAUSES = ("mixture", "uniform", "normal", "skewed", "warped")
MECHANISMS = ("additive", "scaled", "inside", "surface")
FUNCTIONS = ("smoothed", "spline", "hermite", "increasing", "power", "tanh", "exponential", "line")
LAWS = ("normal", "uniform", "laplace", "mixture", "skewed")


@dataclass(frozen=True)
class Generator:
    """What artificial pairs are drawn from; of the names in a tuple, one is drawn for each pair.

    One named twice is drawn twice as often. ``Generator.published()`` is in the manner of [LMST15]: mixtures
    of up to three Gaussians, smoothed splines and additive Gaussian noise.

    Attributes:
        sizes: least and greatest number of points; in between, uniform in the logarithm.
        causes: laws of x: ``"mixture"`` of 1 to ``components`` Gaussians, ``"uniform"``, ``"normal"``,
            ``"skewed"`` (gamma), ``"warped"`` (an increasing function of a normal variable).
        components: most Gaussians in a mixture.
        functions: f: ``"smoothed"`` splines (cubic polynomials, mostly), ``"spline"`` and ``"hermite"``
            through random values, ``"increasing"`` ones, ``"power"``, ``"tanh"``, ``"exponential"``,
            ``"line"``.
        knots: least and greatest number of knots of splines.
        mechanisms: ``"additive"``, f(x) + e; ``"scaled"``, f(x) + s(x) e with s > 0 another function;
            ``"inside"``, f(x) + g(x + c e); ``"surface"``, a Gaussian process of (x, e).
        laws: of e: as ``causes``, and ``"laplace"``.
        level: greatest noise, of an f(x) of unit variance.
        noise: what is uniform on [0, level]: ``"variance"``, as the paper has it, or ``"deviation"``, as its
            code does.
        warped: share of effects that pass through an increasing function (post-nonlinear).
        measured: greatest deviation of the noise of measurement, which half of the pairs have.
        rounded: share of variables that are rounded, to some 8 to 1000 steps; measured values mostly are.
    """

    sizes: tuple[int, int] = (100, 2000)
    causes: tuple[str, ...] = (*("mixture",) * 6, "uniform", "normal", "warped", "skewed")
    components: int = 5
    functions: tuple[str, ...] = (
        *("smoothed", "spline", "hermite", "increasing") * 3,
        *("smoothed", "increasing", "power", "tanh", "exponential", "line"),
    )
    knots: tuple[int, int] = (4, 8)
    mechanisms: tuple[str, ...] = (*("additive", "scaled", "surface") * 2, "inside")
    laws: tuple[str, ...] = (*("normal",) * 4, "uniform", "laplace", "mixture", "skewed")
    level: float = 2.0
    noise: str = "deviation"
    warped: float = 0.2
    measured: float = 0.2
    rounded: float = 0.7

    def __post_init__(self) -> None:
        check_choice(self.noise, "noise", NOISES)
        for name, known in (
            ("causes", CAUSES),
            ("functions", FUNCTIONS),
            ("mechanisms", MECHANISMS),
            ("laws", LAWS),
        ):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: name at least one of {known}.")
            for kind in getattr(self, name):
                check_choice(kind, name, known)
        for name, least in (("sizes", 20), ("knots", 4)):
            low, high = getattr(self, name)
            if not least <= low <= high:
                raise ValueError(
                    f"{name} must be a least and a greatest number from {least} on, got {(low, high)}."
                )

    @classmethod
    def published(cls, noise: str = "deviation") -> Generator:
        """In the manner of [LMST15]: deviations up to 2, as its code has it, or variances up to 5."""
        return cls(
            sizes=(1000, 1000),
            causes=("mixture",),
            components=3,
            functions=("smoothed",),
            knots=(5, 5),
            mechanisms=("additive",),
            laws=("normal",),
            level=2.0 if noise == "deviation" else 5.0,
            noise=noise,
            warped=0.0,
            measured=0.0,
            rounded=0.0,
        )


def standardize(x: np.ndarray) -> np.ndarray:
    """``x`` (n,) with mean 0 and variance 1; it must not be constant."""
    # A power of two changes no digit, and squares of what is left neither overflow nor vanish.
    x = np.ldexp(x, -np.frexp(np.abs(x).max())[1])
    x = x - x.mean()
    return x / x.std()


def mixture(n: int, components: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` standardized draws of a random mixture of at most ``components`` Gaussians."""
    k = int(rng.integers(1, components + 1))
    spread, width = rng.uniform(0, 5, 2)
    means = spread * rng.standard_normal(k)
    deviations = np.abs(width * rng.standard_normal(k)) + rng.choice([0.02, 1.0])
    share = rng.random(k) + 1e-3
    which = rng.choice(k, n, p=share / share.sum())
    return standardize(means[which] + deviations[which] * rng.standard_normal(n))


def variable(kind: str, n: int, components: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` standardized draws of a variable of this kind: a cause, or noise."""
    if kind == "mixture":
        return mixture(n, components, rng)
    if kind == "uniform":
        return standardize(rng.random(n))
    if kind == "laplace":
        return standardize(rng.laplace(size=n))
    if kind == "skewed":
        return standardize(rng.choice([-1, 1]) * rng.gamma(np.exp(rng.uniform(-0.5, 2)), size=n))
    x = standardize(rng.standard_normal(n))
    return warp(x, rng) if kind == "warped" else x


def warp(x: np.ndarray, rng: np.random.Generator, bend: float = 1.0) -> np.ndarray:
    """``x`` through a random increasing function, standardized: its slope is the exponential of a spline."""
    at = np.linspace(x.min(), x.max(), 64)
    slopes = np.exp(bend * CubicSpline(np.linspace(at[0], at[-1], 5), rng.standard_normal(5))(at))
    heights = np.concatenate([[0.0], np.cumsum((slopes[1:] + slopes[:-1]) / 2)])
    return standardize(np.interp(x, at, heights))


def mechanism(x: np.ndarray, kind: str, knots: int, rng: np.random.Generator) -> np.ndarray:
    """A random function of this kind at ``x``, standardized.

    Splines have standard normal values at even knots, one deviation beyond the data, as in [LMST15]; its code
    smooths them by as much as their number of knots, by which most are cubic polynomials.
    """
    at = np.linspace(x.min() - x.std(), x.max() + x.std(), knots)
    if kind == "smoothed":
        y = UnivariateSpline(at, rng.standard_normal(knots), s=knots)(x)
    elif kind == "spline":
        y = CubicSpline(at, rng.standard_normal(knots), bc_type="natural")(x)
    elif kind == "hermite":
        y = PchipInterpolator(at, rng.standard_normal(knots))(x)
    elif kind == "increasing":
        y = warp(x, rng)
    elif kind == "power":
        moved = x - rng.uniform(-1, 1) * rng.integers(0, 2)
        y = np.sign(moved) * np.abs(moved) ** rng.uniform(0.4, 4)
    elif kind == "tanh":
        y = np.tanh(rng.uniform(0.5, 3) * (x - rng.uniform(-1, 1)))
    elif kind == "exponential":
        y = np.exp(rng.uniform(-1.2, 1.2) * x)
    else:
        y = x
    return standardize(np.asarray(y)) if np.std(y) > 1e-9 else x


def surface(x: np.ndarray, e: np.ndarray, rng: np.random.Generator, features: int = 60) -> np.ndarray:
    """A Gaussian process of (x, e), in random Fourier features, as the pairs of [MPJZS16] are made."""
    widths = np.exp(rng.uniform(np.log([0.5, 0.1]), np.log([2.0, 1.0])))
    a, b = rng.standard_normal((2, features)) * widths[:, None]
    angles = np.outer(x, a) + np.outer(e, b) + rng.uniform(0, 2 * np.pi, features)
    return standardize(np.cos(angles) @ rng.standard_normal(features))


def noise_deviation(level: float, noise: str, rng: np.random.Generator) -> float:
    """The standard deviation of the noise of a pair; see :class:`Generator`."""
    value = rng.uniform(0, level)
    return float(np.sqrt(value) if noise == "variance" else value)


def effect(x: np.ndarray, settings: Generator, rng: np.random.Generator) -> np.ndarray:
    """The effect of ``x``, standardized."""

    def function(v: np.ndarray) -> np.ndarray:
        kind = settings.functions[rng.integers(len(settings.functions))]
        return mechanism(v, kind, int(rng.integers(settings.knots[0], settings.knots[1] + 1)), rng)

    kind = settings.mechanisms[rng.integers(len(settings.mechanisms))]
    law = settings.laws[rng.integers(len(settings.laws))]
    e = variable(law, len(x), settings.components, rng)
    deviation = noise_deviation(settings.level, settings.noise, rng)
    if kind == "surface":
        return surface(x, e, rng)
    f = function(x)
    if kind == "additive":
        y = f + deviation * e
    elif kind == "scaled":
        scale = np.exp(rng.uniform(0.1, 1) * np.clip(function(x), -4, 4))
        y = f + deviation * e * scale / np.sqrt(np.mean(scale**2))
    else:
        y = f + deviation * function(standardize(x + np.exp(rng.uniform(-1, 1.5)) * e))
    return standardize(y)


def coarse(v: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """``v`` rounded to some 8 to 1000 steps; as it is if all values would become one."""
    step = np.ptp(v) / np.exp(rng.uniform(np.log(8), np.log(1000)))
    out = np.round(v / step) * step
    return out if np.ptp(out) > 0 else v


def synthetic_pair(settings: Generator, rng: np.random.Generator) -> np.ndarray:
    """A pair (n, 2) of standardized variables whose first column causes the second."""
    low, high = settings.sizes
    n = int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))
    kind = settings.causes[rng.integers(len(settings.causes))]
    x = variable(kind, n, settings.components, rng)
    y = effect(x, settings, rng)
    if rng.random() < settings.warped:
        y = warp(y, rng, 0.7)
    pair = np.stack([x, y], axis=1)
    if rng.random() < 0.5:
        pair += rng.uniform(0, settings.measured, 2) * rng.standard_normal((n, 2))
    columns = [coarse(v, rng) if rng.random() < settings.rounded else v for v in pair.T]
    return np.stack([standardize(v) for v in columns], axis=1)
