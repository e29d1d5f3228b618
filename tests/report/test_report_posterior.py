"""Figures of posteriors show what the weights say."""

import numpy as np
import pytest
from scipy import stats

import muhat as mh
from muhat.report.posterior import marginal_density, posterior


def cloud(n=1500, p=1, seed=0):
    """Standard normal points weighted into N(1, ½) in the first column."""
    points = np.random.default_rng(seed).standard_normal((n, p))
    w = np.exp(-0.5 * (points[:, 0] - 2) ** 2)
    return mh.embed(points, mh.Gaussian(1.0), weights=w / w.sum())


def line(ax):
    return next(each for each in ax.get_lines() if each.get_label() == "posterior")


def test_the_curve_is_the_weighted_density():
    mu = cloud()
    prior = mu.points
    figure = posterior(mu, ["rate"], prior, 0.8, truth=[1.2])
    (ax,) = figure.axes
    x, y = line(ax).get_data()
    assert np.trapezoid(y, x) == pytest.approx(1, abs=0.03)
    exact = stats.norm(1, np.sqrt(0.5)).pdf(x)
    assert np.abs(y - exact).max() < 0.08
    assert ax.get_xlabel() == "rate"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["prior", "0.8 interval", "posterior"]
    shaded = ax.collections[1].get_paths()[0].vertices[:, 0]
    np.testing.assert_allclose([shaded.min(), shaded.max()], mu.quantile([0.1, 0.9])[:, 0], atol=0.02)
    assert any(np.allclose(each.get_xdata(), 1.2) for each in ax.get_lines())


def test_weights_of_copies_and_copies_are_the_same():
    values, grid = np.array([0.0, 1.0, 3.0]), np.linspace(-2, 5, 50)
    heavy = marginal_density(values, np.array([0.5, 0.25, 0.25]), grid)
    assert np.trapezoid(heavy, grid) == pytest.approx(1, abs=0.1)
    shifted = marginal_density(values + 10, np.array([0.5, 0.25, 0.25]), grid + 10)
    np.testing.assert_allclose(heavy, shifted, rtol=1e-9)
    doubled = marginal_density(2 * values, np.array([0.5, 0.25, 0.25]), 2 * grid)
    np.testing.assert_allclose(heavy, 2 * doubled, rtol=1e-9)


def test_pairs_are_below_and_draws_follow_the_weights():
    mu = cloud(4000, 3)
    figure = posterior(mu, ["_a", "$b", "c"], mu.points)
    axes = np.array(figure.axes).reshape(3, 3)
    assert [[ax.axison for ax in row] for row in axes] == [
        [True, False, False],
        [True, True, False],
        [True] * 3,
    ]
    drawn = axes[1, 0].get_lines()[-1].get_xydata()
    assert drawn[:, 0].mean() == pytest.approx(1, abs=0.1)
    assert drawn[:, 1].mean() == pytest.approx(0, abs=0.12)
    assert [ax.get_xlabel().strip() for ax in axes[2]] == ["_a", "$b", "c"]
    assert axes[2, 0].get_ylabel() == "c"
    figure.canvas.draw()


def test_many_parameters_points_and_signed_weights():
    assert len(posterior(cloud(100, 8)).axes) == 25
    one = posterior(mh.embed(np.full((3, 2), 4.0), mh.Gaussian(1.0)), prior=np.ones((5, 2)))
    one.canvas.draw()
    signed = mh.embed(np.arange(6.0)[:, None], mh.Gaussian(1.0), weights=[0.4, 0.5, 0.3, -0.1, -0.1, 0.0])
    ax = posterior(signed).axes[0]
    assert (line(ax).get_ydata() >= 0).all()
    with pytest.raises(ValueError, match="choose one"):
        posterior(mh.embed(np.ones((3, 2)), mh.Gaussian(1.0), weights=np.ones((2, 3))))
