"""Figures of densities show what the densities say."""

import warnings

import numpy as np
import pytest

import muhat as mh
from muhat.report.density import density, modes, values


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 4, 80)
    y = x * rng.choice([-1, 1], 80) + 0.3 * rng.standard_normal(80)
    return mh.ConditionalDensity(mh.Gaussian(0.5), mh.Gaussian(0.3), 1e-3, 0.02).fit(x[:, None], y)


def curves(figure):
    return [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) > 100]


def test_a_batch_is_curves_that_integrate_to_one_with_their_intervals(model):
    x = np.array([[1.0], [3.0]])
    figure = density(model.density(x), ["a", "b"], ["_y$"], 0.8)
    drawn = curves(figure)
    assert len(drawn) == 2
    for line in drawn:
        assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(1, abs=0.03)
    below = figure.axes[1]
    bars = [line.get_xdata() for line in below.get_lines() if len(line.get_xdata()) == 2]
    np.testing.assert_allclose(bars, model.interval(x, 0.8))
    assert [t.get_text() for t in below.get_yticklabels()] == ["a", "b"]
    assert "_y$" in below.get_xlabel()


def test_intervals_of_your_own_and_endless_ones(model):
    x = np.array([[1.0], [3.0]])
    figure = density(model.density(x), intervals=np.array([[[-1.0, 1.0]], [[-np.inf, np.inf]]]))
    bars = [line.get_xdata() for line in figure.axes[1].get_lines() if len(line.get_xdata()) == 2]
    np.testing.assert_allclose(bars[0], [-1, 1])
    np.testing.assert_allclose(bars[1], figure.axes[0].get_xlim())


@pytest.mark.parametrize("what", ["one", "mixture", "embedding"])
def test_one_density(model, what):
    rng = np.random.default_rng(1)
    given = {
        "one": lambda: model.density([[3.0]])[0],
        "mixture": lambda: model.at(rng.normal(2, 0.5, (20, 1))),
        "embedding": lambda: mh.embed(rng.standard_normal((100, 1))).density(),
    }[what]()
    figure = density(given)
    (line,) = curves(figure)
    np.testing.assert_allclose(line.get_ydata(), values(given, line.get_xdata()[:, None]))
    assert len(figure.axes) == 1


def test_no_more_than_six_are_drawn(model):
    assert len(curves(density(model.density(np.linspace(0, 4, 9)[:, None])))) == 6


def test_the_plane_is_contours_that_hold_their_share():
    rng = np.random.default_rng(0)
    given = mh.embed(rng.standard_normal((500, 2)) * [1, 2]).density()
    figure = density(given, names=["a", "b"])
    (ax,) = figure.axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")
    outer = ax.collections[0].levels[0]
    draws = given.sample(4000, random_state=0)
    assert np.mean(values(given, draws) >= outer) == pytest.approx(0.9, abs=0.03)


def test_three_columns_are_marginals():
    rng = np.random.default_rng(0)
    figure = density(mh.embed(rng.standard_normal((100, 3))).density(), names=["a", "b", "c"])
    assert [ax.get_xlabel() for ax in figure.axes] == ["a", "b", "c"]
    for ax in figure.axes:
        heights, edges, _ = ax.patches[0].get_data()
        assert (heights * np.diff(edges)).sum() == pytest.approx(1, abs=0.05)


def test_modes(model):
    found = modes(model.density([[3.0]])[0])
    assert len(found) == 2
    np.testing.assert_allclose(np.sort(found), [-3, 3], atol=0.4)
    heights = values(model.density([[3.0]])[0], found[:, None])
    assert heights[0] >= heights[1]
    rng = np.random.default_rng(0)
    assert len(modes(mh.embed(rng.standard_normal((500, 1))).density())) == 1


def test_a_dent_is_no_valley_and_a_small_branch_is_a_mode():
    axis = np.linspace(-3, 5, 400)
    small = np.concatenate([np.random.default_rng(0).normal(0, 0.3, 800), np.full(200, 4.0)])
    kernel = mh.Gaussian(0.3)
    assert len(modes(mh.embed(small[:, None]).density([axis], 1e-2, kernel))) == 2
    dented = np.array([[-0.33], [0.33]])  # two kernels of this width leave a dent of a few per cent
    shallow = mh.embed(dented).density([axis], 1e-6, kernel)
    heights = values(shallow, np.array([[-0.33], [0.0], [0.33]]))
    found = modes(shallow)
    assert (len(found) == 1) == (heights[1] > 0.75 * heights[0])


def test_drawing_beyond_the_box_is_silent(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(model.density([[3.0]])[0], np.array([[1e6]])) == 0
