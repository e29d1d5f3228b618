"""The facts a kernel knows about itself, against Monte Carlo and quadrature."""

from __future__ import annotations

from collections.abc import Callable
from math import gamma, inf, pi

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernel_cases import STATIONARY
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.legendre import leggauss
from scipy.integrate import dblquad, quad

import muhat as mh

# -- quadrature ------------------------------------------------------------------------------------


def panels(breaks: list[float], nodes: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights between the sorted ``breaks``, where the integrand may kink."""
    u, w = leggauss(nodes)
    edges = np.sort(np.array(breaks))
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    return (middle + half * u).ravel(), (half * w).ravel()


def grid(axes: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, d) and weights (n,) of the product of one-dimensional rules."""
    points = np.stack([a.ravel() for a in np.meshgrid(*[x for x, _ in axes], indexing="ij")], axis=1)
    weights = np.ones(1)
    for _, w in axes:
        weights = (weights[:, None] * w).ravel()
    return points, weights


def around(*kinks: float, reach: float = 30.0) -> tuple[np.ndarray, np.ndarray]:
    """A rule for the whole line, finer where the kernel is large."""
    return panels([k + s for k in kinks for s in (-reach, -6.0, -2.0, 0.0, 2.0, 6.0, reach)])


def radial(kernel: mh.Kernel, d: int, power: int) -> float:
    """``∫ ‖u‖^power k(0, u) du`` over ℝᵈ of a rotation-invariant kernel."""

    def integrand(r: float) -> float:
        u = np.zeros((1, d))
        u[0, 0] = r
        return r ** (d - 1 + power) * kernel(np.zeros((1, d)), u)[0, 0]

    surface = 2 * pi ** (d / 2) / gamma(d / 2)
    return surface * quad(integrand, 0, inf, epsabs=0, epsrel=1e-10, limit=500)[0]


# -- spectral samples ------------------------------------------------------------------------------

SPECTRAL = [(case.name, case.kernel) for case in STATIONARY] + [
    ("sum", 2.0 * mh.Gaussian(0.8) + 0.5 * mh.Laplace(1.4)),
    ("product", 3.0 * mh.Gaussian(1.5) * mh.Matern(1.5, 1.1)),
    ("restricted", mh.Gaussian(np.array([0.5, 2.0])).on([2, 0])),
    ("separate", mh.Gaussian(0.8).on(0) * mh.Laplace(1.4).on([1, 2])),
    ("last", mh.Gaussian(0.8).on(-1) + mh.Cauchy(1.0).on([0, 1])),
]


@pytest.mark.parametrize(("name", "kernel"), SPECTRAL, ids=[name for name, _ in SPECTRAL])
def test_spectral_samples_reproduce_the_kernel(name: str, kernel: mh.Kernel) -> None:
    n = 100_000
    frequencies = kernel.spectral_sample(n, 3, np.random.default_rng(5))
    assert frequencies.shape == (n, 3)
    shifts = np.array([[0.4, 0, 0], [0, 0.7, 0], [0, 0, 1.5], [0.3, -0.5, 0.8], [2.0, 1.0, -1.0]])
    cosines = np.cos(frequencies @ shifts.T)
    error = kernel.amplitude * cosines.mean(axis=0) - kernel(shifts, np.zeros((1, 3)))[:, 0]
    spread = kernel.amplitude * cosines.std(axis=0) / np.sqrt(n)
    # Columns a kernel does not look at have frequency 0 and no spread at all.
    assert (np.abs(error) <= 4.5 * spread + 1e-12).all()
    # The measure is symmetric.
    sines = np.sin(frequencies @ shifts.T)
    assert (np.abs(sines.mean(axis=0)) <= 4.5 * sines.std(axis=0) / np.sqrt(n) + 1e-12).all()


def test_spectral_samples_depend_on_the_generator_alone() -> None:
    kernel = mh.Gaussian(0.8) + mh.Laplace(1.0)
    first, second = (kernel.spectral_sample(50, 2, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, kernel.spectral_sample(50, 2, np.random.default_rng(2)))


# -- integral and variance -------------------------------------------------------------------------

ISOTROPIC = [
    (mh.Gaussian(0.7), (1, 2, 3)),
    (mh.Laplace(0.7, norm=2), (1, 2, 3)),
    (mh.Matern(0.5, 0.7), (2,)),
    (mh.Matern(1.5, 0.7), (1, 2, 3)),
    (mh.Matern(2.5, 0.7), (1, 2)),
    (mh.Matern(3.5, 0.7), (3,)),
    (mh.RationalQuadratic(0.7, alpha=3.5), (1, 2, 3)),
    (mh.InverseMultiquadric(0.7, beta=2.8), (1, 2, 3)),
]


@pytest.mark.parametrize(
    ("kernel", "d"), [(k, d) for k, ds in ISOTROPIC for d in ds], ids=lambda value: repr(value)
)
def test_integral_and_variance_by_radial_quadrature(kernel: mh.Kernel, d: int) -> None:
    mass = radial(kernel, d, 0)
    assert kernel.integral(d) == pytest.approx(mass, rel=1e-7)
    np.testing.assert_allclose(kernel.variance(d), np.full(d, radial(kernel, d, 2) / mass / d), rtol=1e-6)
    assert (2.5 * kernel).integral(d) == pytest.approx(2.5 * mass, rel=1e-7)
    np.testing.assert_allclose((2.5 * kernel).variance(d), kernel.variance(d), rtol=1e-14)
    assert kernel.is_density(d)


BY_GRID = [
    ("gaussian-ard", mh.Gaussian(np.array([0.5, 1.2])), 2),
    ("laplace-1d", mh.Laplace(0.8), 1),
    ("laplace-ard", mh.Laplace(np.array([0.5, 1.2])), 2),
    ("product", 3.0 * mh.Gaussian(0.5).on(1) * mh.Laplace(1.2).on(0), 2),
    ("product-matern", mh.Matern(1.5, 0.6).on(0) * (2.0 * mh.Matern(2.5, 1.1)).on(-1), 2),
    ("product-3", 2.0 * (mh.Gaussian(0.5).on(2) * mh.Laplace(1.2).on(0)) * mh.Gaussian(0.9).on(1), 3),
    ("product-pair", mh.Gaussian(np.array([0.4, 0.8])).on([2, 0]) * mh.Laplace(0.6).on(1), 3),
    ("turned", mh.Gaussian(np.array([0.5, 1.2])).on([1, 0]), 2),
    ("sum", 2.0 * mh.Gaussian(0.5) + mh.Laplace(np.array([0.9, 0.4])), 2),
    ("sum-of-products", mh.Gaussian(0.5) + mh.Laplace(0.6).on(0) * mh.Gaussian(1.1).on(1), 2),
]


@pytest.mark.parametrize(("name", "kernel", "d"), BY_GRID, ids=[name for name, *_ in BY_GRID])
def test_integral_and_variance_on_a_grid(name: str, kernel: mh.Kernel, d: int) -> None:
    rule = around(0.0) if d < 3 else panels([-28.0, -5.0, 0.0, 5.0, 28.0], 24)
    points, weights = grid([rule] * d)
    density = kernel(np.zeros((1, d)), points)[0] * weights
    assert kernel.integral(d) == pytest.approx(density.sum(), rel=1e-6)
    np.testing.assert_allclose(kernel.variance(d), density @ points**2 / density.sum(), rtol=1e-5)


def test_cauchy_has_mass_but_no_variance() -> None:
    kernel = mh.Cauchy(0.7)
    assert kernel.integral(1) == pytest.approx(radial(kernel, 1, 0), rel=1e-8)
    assert np.isinf(kernel.variance(1)).all()
    assert np.isinf((kernel + mh.Gaussian(1.0)).variance(1)).all()


@pytest.mark.parametrize(
    ("kernel", "d"),
    [
        (mh.Cauchy(1.0), 2),
        (mh.Cauchy(1.0), 3),
        (mh.InverseMultiquadric(1.0), 1),
        (mh.InverseMultiquadric(1.0, beta=1.5), 3),
        (mh.RationalQuadratic(1.0, alpha=1.0), 2),
        (mh.RationalQuadratic(1.0, alpha=0.5), 1),
    ],
    ids=repr,
)
def test_infinite_integrals_are_refused(kernel: mh.Kernel, d: int) -> None:
    for fact in (kernel.integral, kernel.variance, (2.0 * kernel + mh.Gaussian(1.0)).integral):
        with pytest.raises(mh.NoClosedForm, match=r"integral is infinite; use mh\.Gaussian") as error:
            fact(d)
        assert repr(kernel) in str(error.value)
    assert not kernel.is_density(d)


def test_mass_just_above_the_limit_is_finite() -> None:
    kernel = mh.InverseMultiquadric(1.0, beta=1.6)
    assert kernel.integral(3) == pytest.approx(radial(kernel, 3, 0), rel=1e-3)
    assert np.isinf(kernel.variance(3)).all()


# -- smoothing -------------------------------------------------------------------------------------

PAIRS = np.array([[0.0, 0.0, 0.3], [0.4, -0.7, 1.1], [-1.3, 0.2, -0.4], [2.0, 1.1, 0.9]])


@pytest.mark.parametrize(
    ("kernel", "d"),
    [
        (mh.Gaussian(0.6), 1),
        (mh.Gaussian(np.array([0.6, 1.1])), 2),
        (mh.Laplace(0.6), 1),
        (mh.Laplace(np.array([0.6, 1.1])), 2),
        (mh.Laplace(0.6, norm=2), 1),
        (mh.Matern(0.5, 0.6), 1),
        (mh.Matern(1.5, 0.6), 1),
        (mh.Matern(2.5, 0.6), 1),
        (2.5 * mh.Matern(1.5, 0.6), 1),
        (3.0 * mh.Laplace(np.array([0.6, 1.1])), 2),
    ],
    ids=repr,
)
def test_smoothed_under_lebesgue_measure(kernel: mh.Kernel, d: int) -> None:
    points = PAIRS[:, :d]
    r = kernel.smoothed(d)(points)
    for i, x in enumerate(points):
        for j, y in enumerate(points):
            nodes, weights = grid([around(x[k], y[k], reach=15.0) for k in range(d)])
            both = kernel(points[[i, j]], nodes)
            assert r[i, j] == pytest.approx((both[0] * both[1] * weights).sum(), rel=2e-6)


def test_the_scale_of_a_product_is_smoothed_with_itself() -> None:
    left, right = mh.Gaussian(0.5).on(0), mh.Gaussian(1.5).on(1)
    plain, scaled = ((s * left * right).smoothed(2)(PAIRS[:, :2]) for s in (1.0, 3.0))
    np.testing.assert_allclose(scaled, 9 * plain, rtol=1e-12)


@pytest.mark.parametrize(
    "kernel", [mh.Matern(0.5, 0.6), mh.Matern(1.5, 0.6), mh.Laplace(0.6, norm=2)], ids=repr
)
def test_smoothed_in_three_dimensions(kernel: mh.Kernel) -> None:
    # In bipolar coordinates about x and y, at distance s: (2π/s) ∫∫ ρ f(ρ) t f(t) dt dρ over the
    # triangles of sides ρ, t and s.
    s = 0.9

    def f(r: float) -> float:
        return float(kernel(np.zeros((1, 3)), np.array([[r, 0.0, 0.0]]))[0, 0])

    inner, _ = dblquad(
        lambda t, rho: rho * f(rho) * t * f(t),
        0,
        15,
        lambda rho: abs(s - rho),
        lambda rho: s + rho,
        epsabs=1e-7,
    )
    r = kernel.smoothed(3)(np.zeros((1, 3)), np.array([[s, 0.0, 0.0]]))[0, 0]
    assert r == pytest.approx(2 * pi / s * inner, rel=1e-4)


@pytest.mark.parametrize(
    ("kernel", "d"),
    [
        (mh.Gaussian(0.6), 1),
        (mh.Gaussian(np.array([0.6, 1.1])), 2),
        (2.0 * mh.Gaussian(0.8), 2),
        (mh.Linear(), 1),
        (mh.Linear(), 2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("sd", [0.7, 2.0])
def test_smoothed_under_a_gaussian_measure(kernel: mh.Kernel, d: int, sd: float) -> None:
    # F16, A.3, with m = (x + y)/2.
    points = PAIRS[:, :d]
    nodes, weights = grid([panels([-20.0, -6.0, -2.0, 0.0, 2.0, 6.0, 20.0])] * d)
    both = kernel(points, nodes)
    nu = weights * np.exp(-(nodes**2).sum(axis=1) / (2 * sd**2))
    smoothed = kernel.smoothed(d, sd=sd)
    np.testing.assert_allclose(smoothed(points), (both * nu) @ both.T, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(smoothed.diag(points), (both**2 * nu).sum(axis=1), rtol=1e-8, atol=1e-12)


def test_wide_gaussian_measure_tends_to_lebesgue() -> None:
    kernel = mh.Gaussian(np.array([0.6, 1.1]))
    wide, flat = kernel.smoothed(2, sd=1e6)(PAIRS[:, :2]), kernel.smoothed(2)(PAIRS[:, :2])
    np.testing.assert_allclose(wide, flat, rtol=1e-10)


# -- embeddings of Gaussians -----------------------------------------------------------------------

MEAN = np.array([0.3, -0.8])
COV = np.array([[0.9, 0.4], [0.4, 0.5]])
AT = np.array([[0.0, 0.0], [1.0, -1.0], [-2.0, 0.5], [0.3, -0.8], [6.0, 6.0]])


def hermite(mean: np.ndarray, cov: np.ndarray, nodes: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """A rule for N(mean, cov) that is good for smooth functions."""
    z, w = hermegauss(nodes)
    points, weights = grid([(z, w / np.sqrt(2 * pi))] * len(mean))
    return mean + points @ np.linalg.cholesky(cov).T, weights


@pytest.mark.parametrize(
    "kernel",
    [
        mh.Gaussian(0.9),
        mh.Gaussian(np.array([0.7, 1.4])),
        mh.Linear(),
        mh.Linear(0.4),
        mh.Polynomial(2),
        mh.Polynomial(3, bias=0.5),
        mh.Polynomial(4, bias=0.0),
        2.0 * mh.Gaussian(0.9) + mh.Linear(0.4),
        mh.Gaussian(0.9).on(1),
        mh.Gaussian(0.9).on("y").resolve(AT, ["x", "y"]),
        mh.Gaussian(np.array([0.7, 1.4])).on([1, 0]),
    ],
    ids=repr,
)
def test_gaussian_embedding_with_full_covariance(kernel: mh.Kernel) -> None:
    nodes, weights = hermite(MEAN, COV)
    expected = kernel(AT, nodes) @ weights
    np.testing.assert_allclose(kernel.gaussian_embedding(AT, MEAN, COV), expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    "kernel",
    [
        mh.Laplace(0.8),
        mh.Laplace(np.array([0.6, 1.7])),
        mh.Laplace(0.8).on(0),
        mh.Laplace(0.8).on(0) * mh.Gaussian(1.1).on(1),
        3.0 * mh.Laplace(0.8).on(1) * (2.0 * mh.Polynomial(2).on(0)),
        mh.Laplace(0.8).on([0]) + mh.Gaussian(1.1) * 2.0,
        mh.Laplace(0.8, norm=2).on(1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("variances", [np.array([0.9, 0.2]), 0.5], ids=["vector", "number"])
def test_gaussian_embedding_with_independent_columns(kernel: mh.Kernel, variances: object) -> None:
    v = np.broadcast_to(variances, 2)
    expected = []
    for x in AT:
        axes = [
            panels([m - 9 * s**0.5, m - 3 * s**0.5, m, m + 3 * s**0.5, m + 9 * s**0.5, c], 60)
            for c, m, s in zip(x, MEAN, v, strict=True)
        ]
        nodes, weights = grid(axes)
        density = np.exp(-((nodes - MEAN) ** 2 / (2 * v)).sum(axis=1)) / (2 * pi * np.sqrt(v.prod()))
        expected.append(kernel(x[None], nodes)[0] @ (density * weights))
    for cov in (variances, np.diag(v)):
        np.testing.assert_allclose(kernel.gaussian_embedding(AT, MEAN, cov), expected, rtol=1e-8)


def test_gaussian_embedding_of_three_columns_by_monte_carlo() -> None:
    rng = np.random.default_rng(0)
    mean, root = rng.normal(size=3), rng.normal(size=(3, 3)) / 2
    kernel = mh.Gaussian(np.array([0.8, 1.5, 1.0])) + 0.3 * mh.Polynomial(2)
    values = kernel(np.zeros((1, 3)) + 0.2, mean + rng.normal(size=(200_000, 3)) @ root.T)[0]
    closed = kernel.gaussian_embedding(np.full((1, 3), 0.2), mean, root @ root.T)
    assert abs(closed[0] - values.mean()) < 4 * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize(
    "kernel", [mh.Gaussian(0.9), mh.Laplace(0.8), mh.Linear(), mh.Polynomial(3)], ids=repr
)
def test_gaussian_without_spread_is_a_point(kernel: mh.Kernel) -> None:
    expected = kernel(AT, MEAN[None])[:, 0]
    np.testing.assert_allclose(kernel.gaussian_embedding(AT, MEAN, 0.0), expected, rtol=1e-12)
    nearly = kernel.gaussian_embedding(AT, MEAN, 1e-10)
    np.testing.assert_allclose(nearly, expected, rtol=1e-4)


def test_laplace_embedding_does_not_overflow() -> None:
    far = np.array([[0.0], [1e3], [-1e3]])
    value = mh.Laplace(0.1).gaussian_embedding(far, 0.0, 25.0)
    assert np.isfinite(value).all()
    assert value[1] == value[2] < value[0]


def embedded(kernel, p, xp):
    return kernel.gaussian_embedding(xp.asarray(AT), p[1] + xp.asarray(MEAN), p[2]).sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    "fact",
    [
        lambda p, xp: embedded(
            2.0 * mh.Laplace(p[0]).on(0) * mh.Gaussian(p[0]).on(1) + mh.Polynomial(3, p[0]), p, xp
        ),
        lambda p, xp: mh.Gaussian(p[0] * xp.ones(2)).smoothed(2, sd=p[1] + 2)(xp.asarray(AT)).sum(),
        pytest.param(lambda p, xp: embedded(mh.Gaussian(p[0]), p, xp), marks=pytest.mark.slow),
        pytest.param(
            lambda p, xp: (p[2] * mh.Matern(1.5, p[0])).smoothed(1)(xp.asarray(AT[:, :1])).sum(),
            marks=pytest.mark.slow,
        ),
        lambda p, xp: (p[2] * mh.Laplace(p[0]) + mh.Gaussian(p[1] + 1)).integral(2),
        lambda p, xp: (mh.Laplace(p[0]) + mh.Gaussian(p[1] + 1)).variance(2).sum(),
    ],
    ids=["product", "smoothed", "gaussian", "matern", "integral", "variance"],
)
def test_facts_in_jax_and_their_gradients(fact) -> None:
    p = np.array([0.9, 0.2, 0.5])
    with jax.enable_x64(True):
        value, gradient = jax.jit(jax.value_and_grad(lambda q: fact(q, jnp)))(p)
    assert value == pytest.approx(fact(p, np), rel=1e-10)
    for i in range(3):
        h = 1e-6 * np.eye(3)[i]
        assert gradient[i] == pytest.approx((fact(p + h, np) - fact(p - h, np)) / 2e-6, rel=1e-6, abs=1e-7)


# -- what a kernel does not know -------------------------------------------------------------------

D = mh.Delta()
G = mh.Gaussian(1.0)
FULL = np.array([[1.0, 0.5], [0.5, 1.0]])
AT3, PAIR = np.zeros((1, 3)), np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    ("ask", "named", "instead"),
    [
        (lambda: mh.Linear().amplitude, "Linear", r"kernel\.diag"),
        (lambda: mh.Polynomial().amplitude, "Polynomial", r"kernel\.diag"),
        (lambda: mh.Linear().spectral_sample(5, 2, np.random.default_rng(0)), "Linear", r"mh\.Nystrom"),
        (lambda: D.spectral_sample(5, 2, np.random.default_rng(0)), "Delta", r"mh\.Nystrom"),
        (lambda: mh.Rotation().spectral_sample(5, 9, np.random.default_rng(0)), "Rotation", r"mh\.Nystrom"),
        (lambda: (G * D).spectral_sample(5, 2, np.random.default_rng(0)), "Delta", r"mh\.Nystrom"),
        (lambda: mh.Linear().integral(2), "Linear", r"mh\.Gaussian"),
        (lambda: D.variance(2), "Delta", r"mh\.Gaussian"),
        (lambda: G.on(0).integral(2), "Gaussian", "does not depend on every column"),
        (lambda: G.on(0).variance(2), "Gaussian", "does not depend on every column"),
        (lambda: (G * mh.Laplace(1.0)).integral(2), "Laplace", "separate columns"),
        (lambda: (G.on(0) * G.on(0)).integral(1), "Gaussian", "separate columns"),
        (lambda: (G.on(0) * G.on(1)).variance(3), "Gaussian", "separate columns"),
        (lambda: mh.Cauchy(1.0).smoothed(1), "Cauchy", r"mh\.Gaussian"),
        (lambda: mh.Polynomial().smoothed(1, sd=1.0), "Polynomial", r"mh\.Gaussian"),
        (lambda: (G + mh.Laplace(1.0)).smoothed(1), "Laplace", "sums of Gaussians"),
        (lambda: mh.Matern(1.5, 1.0).smoothed(2), "Matern", "odd dimensions"),
        (lambda: mh.Laplace(1.0, norm=2).smoothed(2), "Laplace", r"mh\.Laplace\(norm=1\)"),
        (lambda: mh.Matern(1.5, 1.0).smoothed(1, sd=1.0), "Matern", "sd=None"),
        (lambda: mh.Laplace(1.0).smoothed(1, sd=1.0), "Laplace", "sd=None"),
        (lambda: mh.Linear().smoothed(2), "Linear", "give sd"),
        (lambda: mh.Linear(1.0).smoothed(2, sd=1.0), "Linear", "bias=0"),
        (lambda: mh.Matern(1.5, 1.0).gaussian_embedding(AT, 0.0, 1.0), "Matern", "large sample"),
        (lambda: mh.Cauchy(1.0).gaussian_embedding(AT, 0.0, 1.0), "Cauchy", "large sample"),
        (lambda: mh.Laplace(1.0, norm=2).gaussian_embedding(AT, 0.0, 1.0), "Laplace", "norm=1"),
        (lambda: mh.Laplace(1.0).gaussian_embedding(AT, 0.0, FULL), "Laplace", r"correlated.*mh\.Gaussian"),
        (lambda: (G.on(0) * G.on(1)).gaussian_embedding(AT, 0.0, FULL), "Gaussian", "correlated across"),
        (
            lambda: (G.on(0) * G.on([1, 2])).gaussian_embedding(AT3, 0.0, PAIR),
            "Gaussian",
            "correlated across",
        ),
        (lambda: (G * G).gaussian_embedding(AT, 0.0, 1.0), "Gaussian", "separate columns"),
        (lambda: mh.Delta().gaussian_embedding(AT, 0.0, 1.0), "Delta", "large sample"),
    ],
    ids=range(30),
)
def test_missing_facts_say_so(ask: Callable[[], object], named: str, instead: str) -> None:
    with pytest.raises(mh.NoClosedForm, match=rf"(?s){named}.*has no closed form for .*{instead}"):
        ask()


def test_is_density_tells_beforehand() -> None:
    assert G.is_density(2)
    assert (G.on(0) * mh.Laplace(1.0).on(1)).is_density(2)
    assert not mh.Linear().is_density(2)
    assert not (G * D).is_density(2)
    assert not G.on(0).is_density(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: G.gaussian_embedding(AT, np.zeros(3), 1.0), r"mean has shape \(3,\).*2 columns"),
        (lambda: G.gaussian_embedding(AT, MEAN, np.eye(3)), r"cov has shape \(3, 3\).*2 columns"),
        (lambda: G.gaussian_embedding(AT, MEAN, np.ones(3)), r"cov has shape \(3,\).*2 columns"),
        (lambda: G.smoothed(2, sd=-1.0), r"sd must be positive.*got -1"),
        (lambda: mh.Linear().smoothed(2, sd=0.0), r"sd must be positive.*got 0"),
        (lambda: G.integral(0), r"d must be at least 1"),
        (lambda: G.on("x").integral(1), r"'x'.*no column names"),
        (lambda: G.on(2).gaussian_embedding(AT, MEAN, 1.0), r"index 2.*2 columns"),
    ],
    ids=range(8),
)
def test_bad_arguments_of_facts(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
