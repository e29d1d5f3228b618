"""Artificial pairs are as documented."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from muhat.learning import causal_pairs as c


@pytest.mark.parametrize(("noise", "mean"), [("deviation", 3.0**2 / 3), ("variance", 3.0 / 2)])
def test_variance_of_the_noise_is_as_documented(noise, mean):
    rng = np.random.default_rng(0)
    drawn = np.array([c.noise_deviation(3.0, noise, rng) for _ in range(20_000)])
    assert_allclose(np.mean(drawn**2), mean, rtol=0.03)
    value = drawn if noise == "deviation" else drawn**2
    assert_allclose(np.quantile(value, [0.25, 0.5, 0.75]), [0.75, 1.5, 2.25], rtol=0.05)  # uniform on [0, 3]


@pytest.mark.parametrize("kind", c.FUNCTIONS)
def test_mechanism_is_a_standardized_function_of_x_alone(kind):
    x = np.repeat(c.mixture(200, 3, np.random.default_rng(1)), 2)
    y = c.mechanism(x, kind, 6, np.random.default_rng(0))
    assert np.array_equal(y[::2], y[1::2])
    assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-9)


@pytest.mark.parametrize("kind", ["increasing", "power", "tanh", "line"])
def test_these_mechanisms_increase(kind):
    x = np.sort(c.mixture(400, 3, np.random.default_rng(0)))
    y = c.mechanism(x, kind, 6, np.random.default_rng(1))
    assert (np.diff(y) >= -1e-12).all()


@pytest.mark.parametrize("kind", sorted({*c.CAUSES, *c.LAWS}))
def test_variables_are_standardized(kind):
    x = c.variable(kind, 500, 4, np.random.default_rng(3))
    assert x.shape == (500,)
    assert_allclose([x.mean(), x.std()], [0, 1], atol=1e-9)


def test_surface_needs_the_noise_and_the_cause():
    rng = np.random.default_rng(0)
    x, e = rng.standard_normal((2, 300))
    first = c.surface(x, e, np.random.default_rng(1))
    assert np.abs(c.surface(x, -e, np.random.default_rng(1)) - first).max() > 0.1
    assert np.abs(c.surface(-x, e, np.random.default_rng(1)) - first).max() > 0.1


def only(mechanism, **other):
    plain = {"functions": ("line",), "causes": ("uniform",), "laws": ("normal",)}
    return c.Generator(sizes=(5000, 5000), mechanisms=(mechanism,), **plain, **other)


def test_additive_noise_has_the_same_size_everywhere_and_scaled_noise_has_not():
    for kind, even in (("additive", True), ("scaled", False)):
        ratios = []
        for seed in range(8):
            rng = np.random.default_rng(seed)
            x = c.variable("uniform", 5000, 3, rng)
            y = c.effect(x, only(kind), rng)
            rest = y - np.polyval(np.polyfit(x, y, 1), x)
            parts = [rest[part].std() for part in np.array_split(np.argsort(x), 5)]
            ratios.append(max(parts) / min(parts))
        assert (max(ratios) < 1.15) == even


def test_synthetic_pairs_are_standardized_of_the_sizes_asked_for_and_reproducible():
    settings = c.Generator(sizes=(50, 80))
    first, again = (
        [c.synthetic_pair(settings, rng) for rng in [np.random.default_rng(0)] for _ in range(60)]
        for _ in range(2)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert {len(p) for p in first} <= set(range(50, 81))
    assert len({len(p) for p in first}) > 10
    for p in first:
        assert_allclose(p.mean(axis=0), 0, atol=1e-9)
        assert_allclose(p.std(axis=0), 1, rtol=1e-9)


def test_causes_and_effects_are_rounded_alike():
    rng = np.random.default_rng(0)
    settings = c.Generator(sizes=(300, 300), rounded=0.5, measured=0.0)
    few = np.array(
        [[len(np.unique(column)) < 300 for column in c.synthetic_pair(settings, rng).T] for _ in range(300)]
    )
    assert_allclose(few.mean(axis=0), 0.5, atol=0.1)  # else rounding would give the direction away


def test_published_pairs_are_smooth_functions_with_gaussian_noise():
    settings = c.Generator.published("variance")
    assert (settings.sizes, settings.level, settings.mechanisms) == ((1000, 1000), 5.0, ("additive",))
    rng = np.random.default_rng(0)
    x = c.mixture(1000, 3, rng)
    curves = [c.mechanism(x, "smoothed", 5, rng) for _ in range(40)]
    cubic = [np.std(y - np.polyval(np.polyfit(x, y, 3), x)) < 1e-6 for y in curves]
    assert np.mean(cubic) > 0.7  # smoothing by as much as there are knots leaves cubic polynomials


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": "loud"}, "noise must be one of"),
        ({"mechanisms": ("magic",)}, "mechanisms must be one of"),
        ({"causes": ()}, "causes is empty"),
        ({"sizes": (10, 50)}, "sizes must be a least and a greatest"),
        ({"knots": (8, 5)}, "knots must be"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        c.Generator(**settings)
