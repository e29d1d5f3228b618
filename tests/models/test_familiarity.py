"""How familiar an observation is, whatever the number of points it is asked of."""

import numpy as np
import pytest

import muhat as mh
from muhat.kernels.algebra import used_columns
from muhat.learning.nearness import Nearness
from muhat.models import posterior

X = np.random.default_rng(0).normal(size=(3000, 2))
ROWS = np.array([X[1], [30.0, 30.0]])  # one of the points, and far from all


@pytest.mark.parametrize("some", [False, True])
def test_points_near_and_far(some, monkeypatch):
    if some:  # as beyond 20 000 points
        monkeypatch.setattr(posterior, "sample_indices", lambda n: np.arange(0, n, 3))
    kernel = mh.Gaussian(0.5)
    gram = mh.Nystrom(50).gram_of(mh.Nystrom(50).fit(kernel, X, 0), X)
    near, far = map(float, posterior.largest_correlation(gram, ROWS, gram.cross(ROWS)))
    points = X[::3] if some else X
    assert (near < 1) is some  # the point itself is not among every third
    assert near == pytest.approx(float(np.asarray(kernel(ROWS[:1], points)).max()), abs=1e-12)
    assert far < 1e-12


@pytest.mark.parametrize(
    "kernel",
    [
        mh.Gaussian([0.5, 2.0]),
        mh.Laplace(0.5),
        mh.Matern(1.5, 0.7),
        mh.Cauchy(0.5),
        2.0 * mh.Gaussian(0.5),
        mh.Gaussian(0.5) + mh.Linear(),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_the_largest_normalised_value(kernel):
    gram = mh.Nystrom(50).gram_of(mh.Nystrom(50).fit(kernel, X, 0), X)
    rows = np.random.default_rng(1).normal(size=(40, 2))
    scale = np.sqrt(np.outer(kernel.diag(rows), kernel.diag(X)))
    expected = (np.asarray(kernel(rows, X)) / scale).max(axis=1)
    np.testing.assert_allclose(
        posterior.largest_correlation(gram, rows, gram.cross(rows)), expected, rtol=1e-12
    )


class TestNearness:
    """Familiarity that no lengthscale can raise."""

    @pytest.mark.parametrize("d", [1, 2, 5, 10])
    def test_falls_outside_the_data_and_not_among_them(self, d):
        rng = np.random.default_rng(d)
        near = Nearness.of(rng.normal(size=(500, d)))
        assert np.quantile(near.at(rng.normal(size=(500, d))), 0.05) > 0.7
        out = np.zeros((3, d))
        out[:, 0] = 6, 9, 1e6
        assert (near.at(out) < 0.1).all()

    def test_a_hole_amid_the_data_and_off_their_line(self):
        rng = np.random.default_rng(0)
        a = rng.normal(size=(400, 1)) / 10
        assert Nearness.of(np.r_[a - 5, a + 5]).at(np.array([[0.0], [5.0]])) == pytest.approx([0, 1], abs=0.2)
        line = Nearness.of(np.c_[10 * a, 10 * a + 0.05 * rng.normal(size=(400, 1))])
        assert line.at(np.array([[1.5, 1.5], [1.5, -1.5]])) == pytest.approx([1, 0], abs=0.2)

    def test_units_tails_and_columns_that_are_not_used_do_not_matter(self):
        rng = np.random.default_rng(1)
        A, rows = rng.normal(size=(300, 2)), np.array([[0.5, 0.5], [1.5, 2.5], [4.0, 0.0]])
        plain = Nearness.of(A).at(rows)
        np.testing.assert_allclose(Nearness.of(1e6 * A + 3).at(1e6 * rows + 3), plain, rtol=1e-5, atol=1e-12)
        wide = Nearness.of(np.c_[A, A], used=[0, 1])
        np.testing.assert_allclose(wide.at(np.c_[rows, 1e9 + rows]), plain)
        typo = np.r_[A, [[99999.0, 0.0]]]
        assert Nearness.of(typo).at(np.array([[20.0, 0.0]]))[0] < 1e-6

    def test_categories_never_seen_and_few_or_equal_rows(self):
        rng = np.random.default_rng(2)
        A = np.c_[rng.normal(size=200), rng.integers(0, 3, 200)]
        near = Nearness.of(A, [1])
        assert near.at(np.array([[0.0, 1.0], [0.0, -1.0]])) == pytest.approx([1, 0], abs=0.05)
        assert Nearness.of(A[:, 1:], [0]).at(np.array([[2.0], [-1.0]])) == pytest.approx([1, 0])
        for rows in (A[:1], np.repeat(A[:1], 5, axis=0)):
            assert Nearness.of(rows, [1]).at(rows) == pytest.approx(1)


@pytest.mark.parametrize("atoms", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_smooth_regression_is_not_familiar_with_what_lies_beyond(atoms):
    """The kernel of nearly linear data has a lengthscale far beyond them."""
    rng = np.random.default_rng(0)
    x = np.exp(7.3 + 0.4 * rng.normal(size=(150, 1)))
    y = 100 * x[:, 0] + 20000 * rng.normal(size=150)
    y = np.round(y / 1e5) if atoms else y
    model = mh.ConditionalDensity().fit(x, y)
    found = model.density([[1500.0], [9000.0]])
    assert (model.atoms_ is not None) is atoms
    assert found.familiarity == pytest.approx([1, 0], abs=0.01)
    assert found.unlike.tolist() == [1]


def test_of_a_regression():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(80, 2))
    for representation in (None, mh.Nystrom(20)):
        model = mh.ConditionalMean(mh.Gaussian(9.0), None, 1e-3, representation).fit(x, x[:, 0])
        assert model.familiarity([[0.5, 0.5], [0.5, 3.0]]) == pytest.approx([1, 0], abs=1e-3)
    streamed = mh.ConditionalMean(mh.Gaussian(9.0), reg=1e-3).partial_fit(x, x[:, 0])
    with pytest.raises(ValueError, match="not kept"):
        streamed.familiarity(x)


def test_a_posterior_is_not_familiar_with_what_lies_beyond():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 1))
    x = z + 0.1 * rng.normal(size=(200, 1))
    mu = mh.KernelBayes(kernel_x=mh.Gaussian(20.0), kernel_z=mh.Gaussian(1.0), reg=1e-3).fit(x, z)
    assert mu.posterior([[0.0], [9.0]]).unlike.tolist() == [1]


def test_used_columns():
    kernel = (mh.Gaussian(1.0).on([0, 2]) * mh.Laplace(1.0).on(0)).on([3, 1, 4]) + 2.0 * mh.Gaussian(1.0).on(
        3
    )
    assert used_columns(kernel, 6) == [3, 4]
    assert used_columns(mh.Nystrom(5).fit(mh.Gaussian(1.0).on(1), X, 0), 2) == [1]
    assert used_columns(mh.Gaussian(1.0) + mh.Linear(), 3) == [0, 1, 2]
