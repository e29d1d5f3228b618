"""Outputs that take few values: probabilities instead of a density."""

import numpy as np
import pytest

import muhat as mh
from muhat.embedding import Atoms
from muhat.embedding.reference import as_reference
from muhat.learning.density import _grid_crps


def ratings(n, seed=0, sd=0.7):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    score = 3 + 1.5 * X[:, 0] + X[:, 1] ** 2 + sd * rng.standard_normal(n)
    return X, np.clip(np.round(score), 1, 6)


@pytest.fixture(scope="module")
def fitted():
    return mh.ConditionalDensity().fit(*ratings(400))


def test_the_mean_is_kept(fitted):
    from sklearn.linear_model import RidgeCV

    X, y = ratings(1000, 1)
    ridge = RidgeCV().fit(*ratings(400))
    error = np.sqrt(np.mean((fitted.predict(X) - y) ** 2))
    assert error < np.sqrt(np.mean((ridge.predict(X) - y) ** 2))
    np.testing.assert_allclose(fitted.predict(X[:5]), fitted.density(X[:5]).probabilities @ fitted.atoms_)


def test_probabilities_are_calibrated(fitted):
    X, y = ratings(2000, 2)
    P = fitted.density(X).probabilities
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    # As often as they say, value by value and where they say much.
    np.testing.assert_allclose(P.mean(axis=0), [(y == v).mean() for v in fitted.atoms_], atol=0.05)
    sure = P > 0.35
    assert abs((y[:, None] == fitted.atoms_)[sure].mean() - P[sure].mean()) < 0.05
    ends = fitted.interval(X, 0.8)
    assert 0.78 < ((ends[:, 0] <= y) & (y <= ends[:, 1])).mean() <= 1


def test_log_score_beats_the_shares_of_all_rows(fitted):
    X, y = ratings(1000, 3)
    shares = np.array([(ratings(400)[1] == v).mean() for v in fitted.atoms_])
    assert fitted.score(X, y) > np.log(shares[np.searchsorted(fitted.atoms_, y)]).mean() + 0.3


def test_every_readout_takes_the_values(fitted):
    x = ratings(5, 4)[0]
    given = fitted.density(x)
    assert isinstance(given, Atoms)
    assert set(np.unique(fitted.quantile(x, [0.1, 0.5, 0.9]))) <= set(fitted.atoms_)
    assert set(np.unique(fitted.sample(x, 50, 0))) <= set(fitted.atoms_)
    np.testing.assert_allclose(fitted.pdf(x, fitted.atoms_), given.probabilities)
    assert (fitted.pdf(x, [2.5]) == 0).all()
    mixed = fitted.at(x)
    np.testing.assert_allclose(mixed.probabilities, given.probabilities.mean(axis=0))
    with pytest.raises(ValueError, match="Y takes only 6 values"):
        fitted.raw(x, [1.0])


def test_calibrated_intervals_cover():
    X, y = ratings(600, 5)
    model = mh.ConditionalDensity(calibration=0.3).fit(X, y)
    X, y = ratings(2000, 6)
    ends = model.interval(X, 0.9)
    assert ((ends[:, 0] <= y) & (y <= ends[:, 1])).mean() > 0.88


def test_far_away_the_shares_of_all_rows(fitted):
    _, y = ratings(400)
    far = fitted.density([[50.0, 50.0, -50.0, 50.0]])
    np.testing.assert_allclose(far.probabilities[0], [(y == v).mean() for v in fitted.atoms_], atol=0.01)
    assert far.familiarity[0] < 0.01


def test_comes_back_from_a_file(fitted, tmp_path):
    mh.save(fitted, tmp_path / "model.muhat")
    x = ratings(5, 7)[0]
    again = mh.load(tmp_path / "model.muhat").density(x)
    np.testing.assert_allclose(again.probabilities, fitted.density(x).probabilities)


@pytest.mark.parametrize("given", [{"kernel_y": mh.Gaussian(0.5)}, {"standardize": False}])
def test_what_is_given_is_used(given):
    X, y = ratings(100)
    assert mh.ConditionalDensity(**given).fit(X, y).atoms_ is None


def test_many_values_are_no_atoms():
    X, _ = ratings(60)
    assert mh.ConditionalDensity().fit(X, np.arange(60.0)).atoms_ is None


class TestAtoms:
    given = Atoms(np.array([0.0, 1.0, 3.0]), np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]))

    def test_by_hand(self):
        np.testing.assert_allclose(self.given.mean()[:, 0], [1.0, 3.0])
        np.testing.assert_allclose(self.given.var()[:, 0], [0.25 + 2.25 - 1, 0])
        np.testing.assert_allclose(self.given[0].cdf([0.5, 1.0, 9.0]), [0.5, 0.75, 1.0])
        np.testing.assert_allclose(self.given.quantile([0.5, 0.51])[:, :, 0], [[0, 1], [3, 3]])
        np.testing.assert_allclose(self.given.paired([[1.0], [1.0]]), [0.25, 0])
        assert len(self.given) == 2
        assert self.given[0].mean() == [1.0]

    def test_what_lies_within_a_reach_is_what_has_it(self):
        atoms = self.given[[0, 0, 0]]
        far = atoms.reach([[0.0], [1.0], [3.0]])[:, 0]
        np.testing.assert_allclose(far, [0.25, 0.125, 0.375])
        np.testing.assert_allclose(atoms.within(0.25)[0], [0, 1])
        np.testing.assert_allclose(atoms.within(0.375)[0], [0, 3])
        assert np.isinf(atoms.within(1.0)).all()

    def test_drawn(self):
        figure = self.given.plot()
        assert len(figure.axes) == 2
        assert len(figure.axes[0].patches) == 3


def test_crps_on_a_grid_is_that_of_the_cells():
    axis = np.linspace(0, 4, 401)
    reference = as_reference([axis], None, 1)
    density = np.exp(-0.5 * ((axis - 2) / 0.3) ** 2)[None]
    found = _grid_crps(density, reference, np.array([[2.2]]))[0, 0]
    # CRPS of a normal, Gneiting & Raftery (2007)
    from scipy.stats import norm

    z = 0.2 / 0.3
    exact = 0.3 * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert found == pytest.approx(exact, rel=0.02)
