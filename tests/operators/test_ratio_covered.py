"""Which points lie near rows of a sample."""

import numpy as np

from muhat.operators.ratio import covered


def test_what_lies_beyond_the_loneliest_row_is_not_covered():
    Z = np.array([[0.0], [1.0], [2.0], [4.0]])  # the loneliest is 2 from its neighbour
    points = np.array([[-2.3], [-2.5], [0.5], [3.0], [6.3], [6.5]])
    assert covered(points, Z).tolist() == [True, False, True, True, True, False]


def test_units_do_not_matter():
    rng = np.random.default_rng(0)
    Z, points = rng.standard_normal((200, 2)), 3 * rng.standard_normal((100, 2))
    scale = np.array([1e3, 1e-3])
    near = covered(points, Z)
    assert 0 < near.sum() < 100
    assert (covered(points * scale, Z * scale) == near).all()


def test_repeated_rows_cover_themselves_alone():
    Z = np.repeat([[0.0], [1.0]], 5, axis=0)
    assert covered(np.array([[0.0], [1.0], [2.0]]), Z).tolist() == [True, True, False]
