"""The donut has the shape, order and density that it promises."""

import numpy as np
import pytest

from muhat import datasets

AXIS = np.linspace(-2.5, 2.5, 161)
GRID = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1).reshape(-1, 2)
CELL = (AXIS[1] - AXIS[0]) ** 2


def test_rows_stand_about_a_tilted_circle_in_its_order():
    X, Y = datasets.donut(tilt=0.5, sd=1e-6, means=40, each=3)
    assert X.shape == (120, 1)
    assert Y.shape == (120, 2)
    points = np.hstack([X, Y])
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(points[:, 2], np.tan(0.5) * points[:, 0], atol=1e-5)
    np.testing.assert_allclose(points[0], [np.cos(0.5), 0, np.sin(0.5)], atol=1e-5)
    np.testing.assert_allclose(points[30], [0, 1, 0], atol=1e-5)  # a quarter on


def test_turned_about_the_input_only_the_outputs_turn():
    X, Y = datasets.donut(tilt=0.5, sd=1e-6, means=40, each=3, about="x")
    np.testing.assert_allclose(X[0], 1, atol=1e-5)
    np.testing.assert_allclose(Y[30], [np.cos(0.5), np.sin(0.5)], atol=1e-5)
    with pytest.raises(ValueError, match="about"):
        datasets.donut(about="z")


@pytest.mark.parametrize(("tilt", "sd", "about"), [(0.3, 0.2, "y"), (0.5, 0.1, "x")])
def test_the_density_is_that_of_draws(tilt, sd, about):
    X, Y = datasets.donut(tilt, sd, each=20_000, random_state=1, about=about)
    for x in (0.0, 0.8):
        near = abs(X[:, 0] - x) < 0.02
        p = datasets.donut_pdf([x], GRID, tilt, sd, about=about)[0]
        assert p.sum() * CELL == pytest.approx(1, abs=1e-4)
        for f in (lambda y: y[:, 0] ** 2, lambda y: y[:, 1], lambda y: (abs(y[:, 0]) > 0.8).astype(float)):
            values = f(Y[near])
            spread = values.std() / np.sqrt(near.sum())
            assert values.mean() == pytest.approx((f(GRID) * p).sum() * CELL, abs=5 * spread + 0.01)


def test_the_joint_density_integrates_to_one_and_is_the_conditional_times_the_marginal():
    x = np.linspace(-2, 2, 81)
    joint = datasets.donut_pdf(x, GRID, joint=True)
    assert joint.sum() * CELL * (x[1] - x[0]) == pytest.approx(1, abs=1e-4)
    marginal = joint.sum(axis=1) * CELL
    np.testing.assert_allclose(datasets.donut_pdf(x, GRID) * marginal[:, None], joint, atol=1e-6)


def test_far_from_the_ring_there_is_still_a_density():
    p = datasets.donut_pdf([40.0], GRID)[0]
    assert p.sum() * CELL == pytest.approx(1, abs=1e-3)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="sd"):
        datasets.donut(sd=0.0)
    with pytest.raises(ValueError, match="means"):
        datasets.donut(means=0)
