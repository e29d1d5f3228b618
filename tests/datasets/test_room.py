"""The rendered room: shapes, geometry, and that every direction can be told from its view."""

import numpy as np
import pytest

from muhat import datasets
from muhat.datasets.room import WALLS


def test_views_have_their_shape_and_range():
    views = datasets.room(np.linspace(0, 6, 7))
    assert views.shape == (7, 36, 48, 3)
    assert views.min() >= 0
    assert views.max() <= 1
    assert datasets.room(0.3, height=9, width=12).shape == (1, 9, 12, 3)
    assert datasets.room(np.empty(0)).shape == (0, 36, 48, 3)


def test_nothing_is_random_and_a_full_turn_comes_back():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 20)
    np.testing.assert_array_equal(datasets.room(angle), datasets.room(angle))
    np.testing.assert_array_equal(datasets.room(angle)[3], datasets.room(angle[3])[0])  # blocks do not matter
    np.testing.assert_allclose(datasets.room(angle + 2 * np.pi), datasets.room(angle), atol=1e-6)


def test_views_differ_more_the_further_the_turn():
    angle = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    views = datasets.room(angle).reshape(72, -1)
    distance = np.sqrt(((views[:, None] - views) ** 2).mean(axis=2))
    turn = np.abs((angle[:, None] - angle + np.pi) % (2 * np.pi) - np.pi)
    # Pixel noise of 0.1 makes two views of the same direction 0.14 apart.
    assert distance[turn > 0.4].min() > 0.15
    for i in range(72):  # the nearest other view is that of a neighbouring direction
        others = np.where(np.arange(72) == i, np.inf, distance[i])
        assert turn[i, others.argmin()] < 0.2


@pytest.mark.parametrize("wall", range(4))
def test_the_middle_of_a_view_is_the_wall_it_faces(wall):
    turn = 0.05
    view = datasets.room(wall * np.pi / 2 + turn, height=201, width=201, samples=1)[0]
    seen = view[100, 100] / (1.1 - 0.25 / np.cos(turn))  # less light at a distance
    expected = WALLS[wall](np.array([np.tan(turn)]), np.array([0.5]))[0]
    np.testing.assert_allclose(seen, expected, atol=1e-9)


def test_turning_left_moves_the_view_to_the_right():
    # A pixel at tan(a) to the right of the axis shows the direction a clockwise of it.
    wide = datasets.room([0.0, 0.1], height=3, width=4001, samples=1)[:, 1]
    right = 2 * (np.arange(4001) + 0.5) / 4001 - 1
    at = np.tan(np.arctan(right) + 0.1)  # where the same wall point stands after the turn
    inside = np.abs(at) < 0.95
    column = np.round((at[inside] + 1) / 2 * 4001 - 0.5).astype(int)
    same = (np.abs(wide[1][column] - wide[0][inside]).max(axis=1) < 0.12).mean()
    assert same > 0.97


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"angle": [0.0, np.nan]}, "angle must be finite"),
        ({"angle": [[0.0]]}, "shape"),
        ({"angle": 0.0, "field": np.pi}, "field must be below π"),
        ({"angle": 0.0, "field": -1.0}, "field must be positive"),
        ({"angle": 0.0, "height": 0}, "height must be at least 1"),
        ({"angle": 0.0, "samples": 0}, "samples must be at least 1"),
    ],
)
def test_bad_input(options, match):
    with pytest.raises(ValueError, match=match):
        datasets.room(**options)
