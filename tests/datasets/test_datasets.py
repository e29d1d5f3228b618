"""The data sets have the shapes, moments and densities their docstrings promise."""

import numpy as np
import pytest
from scipy import stats

from muhat import datasets

MANY = 200_000


def near(estimate, truth, spread, n=MANY):
    """Within five standard errors."""
    np.testing.assert_allclose(estimate, truth, atol=5 * spread / np.sqrt(n))


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: datasets.gaussian_mixture(20, random_state=seed),
        lambda seed: datasets.normal_and_laplace(20, seed).y,
        lambda seed: datasets.fork(20, seed).y,
        lambda seed: datasets.daily_load(2, seed).y,
    ],
)
def test_seeds_repeat_and_differ(draw):
    np.testing.assert_array_equal(draw(3), draw(3))
    assert not np.array_equal(draw(3), draw(4))
    assert not np.array_equal(*[draw(rng) for rng in [np.random.default_rng(0)] * 2])  # one generator goes on


@pytest.mark.parametrize(("d", "mean"), [(1, [0.0]), (2, [-0.125, -0.05])])
def test_the_mixture_has_its_mean_and_density(d, mean):
    x = datasets.gaussian_mixture(MANY, d)
    assert x.shape == (MANY, d)
    near(x.mean(axis=0), mean, 2.0)
    # E p(x) = ∫p²: the density integrates against itself as the sample says.
    axes = [np.linspace(-7, 7, 701 if d == 2 else 7001)] * d
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    p, cell = datasets.gaussian_mixture_pdf(grid), (axes[0][1] - axes[0][0]) ** d
    assert p.sum() * cell == pytest.approx(1, abs=1e-6)
    values = datasets.gaussian_mixture_pdf(x)
    near(values.mean(), (p**2).sum() * cell, values.std())


def test_the_mixture_refuses_other_dimensions():
    with pytest.raises(ValueError, match="d must be one of 1, 2, got 3"):
        datasets.gaussian_mixture(10, d=3)
    with pytest.raises(ValueError, match="columns"):
        datasets.gaussian_mixture_pdf(np.zeros((2, 3)))


def test_normal_and_laplace_agree_in_mean_and_variance_alone():
    x, y = datasets.normal_and_laplace(MANY)
    assert x.shape == y.shape == (MANY, 1)
    for sample in (x, y):
        near(sample.mean(), 0, 1)
        near(sample.var(), 1, np.sqrt(5))
    assert stats.kurtosis(x[:, 0], fisher=False) == pytest.approx(3, abs=0.1)
    assert stats.kurtosis(y[:, 0], fisher=False) == pytest.approx(6, abs=0.7)


@pytest.mark.parametrize("x", [0.5, 2.0, 3.5])
def test_the_fork_has_its_mean_density_and_quantiles(x):
    y = datasets.fork(x=np.full(MANY, x)).y
    near(y.mean(), datasets.fork_mean([x])[0], y.std())
    levels = np.array([0.1, 0.5, 0.9])
    q = datasets.fork_quantile([x], levels)[0]
    near((y[:, None] <= q).mean(axis=0), levels, 0.5)
    grid = np.linspace(-6, 6, 6001)
    pdf = datasets.fork_pdf([x, x], grid)
    assert pdf.shape == (2, 6001)
    assert pdf[0].sum() * 0.002 == pytest.approx(1, abs=1e-6)
    assert (grid * pdf[0]).sum() * 0.002 == pytest.approx(datasets.fork_mean([x])[0], abs=1e-6)


def test_the_fork_draws_its_inputs():
    X, y = datasets.fork(500)
    assert X.shape == (500, 1)
    assert y.shape == (500,)
    assert 0 <= X.min() < 0.1
    assert 3.9 < X.max() <= 4


def test_the_daily_load_repeats_its_hours():
    X, y = datasets.daily_load(5000)
    hours, counts = np.unique(X[:, 0], return_counts=True)
    np.testing.assert_array_equal(hours, np.arange(24))
    assert set(counts) == {5000}
    by_hour = y.reshape(5000, 24)
    sd = datasets.daily_load_sd(hours)
    near((by_hour.mean(axis=0) - datasets.daily_load_mean(hours)) / sd, 0, 1, 5000)
    near(by_hour.std(axis=0) / sd, 1, np.sqrt(0.5), 5000)


def test_the_real_tables_are_what_they_say():
    import polars as pl

    X, y = datasets.diabetes()
    assert X.shape == (442, 10)
    assert [name for name, kind in X.schema.items() if kind == pl.String] == ["sex"]
    assert set(X["sex"]) == {"1", "2"}
    assert (y.min(), y.max()) == (25, 346)
    assert y.mean() == pytest.approx(152.13, abs=0.01)
    X, species = datasets.iris()
    assert X.columns == ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    assert species.name == "species"
    assert species.value_counts()["count"].to_list() == [50, 50, 50]


@pytest.mark.parametrize("bad", [0, -1, 2.5, "10"])
def test_sizes_are_checked(bad):
    for draw in (datasets.gaussian_mixture, datasets.normal_and_laplace, datasets.fork, datasets.daily_load):
        with pytest.raises((ValueError, TypeError), match="must be"):
            draw(bad)
