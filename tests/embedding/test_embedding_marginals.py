"""Distributions of single columns, against values found by hand and against each other."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from muhat.embedding.marginals import Marginals, Scatter
from muhat.gram import Factored

LEVELS = np.array([0.01, 0.1, 0.25, 0.5, 0.77, 0.9, 0.99])


def marginals(shares=(0.3, 0.3, 0.4), q=5, n=40, atoms=False, mixing=None, seed=0):
    """A batch of two columns, with atoms in the second if asked."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n, 2))
    if atoms:
        Y[:, 1] = rng.integers(0, 4, n)
    residuals = tuple(np.sort(rng.standard_normal((30, 2)), axis=0) for _ in range(2))
    scatter = Scatter(Y, residuals, np.array([shares, shares]), (None, np.arange(4.0) if atoms else None))
    W = rng.standard_normal((q, n)) / n
    W += (1 - W.sum(axis=1, keepdims=True)) / n
    mean, scale = rng.standard_normal((q, 2)), rng.uniform(0.5, 2, (q, 2))
    return Marginals(scatter, mean, scale, rng.uniform(0, 1, q), W, mixing)


PARTS = {
    "weights": (1.0, 0.0, 0.0),
    "residuals": (0.0, 1.0, 0.0),
    "spread": (0.0, 0.0, 1.0),
    "all": (0.3, 0.3, 0.4),
}


@pytest.fixture(params=PARTS)
def shares(request):
    return PARTS[request.param]


class TestCdf:
    @pytest.mark.parametrize("atoms", [False, True])
    def test_rises_from_0_to_1(self, shares, atoms):
        m = marginals(shares, atoms=atoms)
        t = np.tile(np.linspace(-12, 12, 501), (5, 1))
        for column in (0, 1):
            F = m.cdf(column, t)
            assert F.shape == t.shape
            assert np.diff(F, axis=1).min() >= -1e-12
            assert_allclose(F[:, 0], 0, atol=1e-12)
            assert_allclose(F[:, -1], 1, rtol=1e-12)

    def test_by_hand(self):
        """Two outputs, two residuals: every component is a pair of steps."""
        residuals = np.array([[-1.0], [1.0]]), np.array([[-0.5], [0.5]])
        scatter = Scatter(np.array([[0.0], [10.0]]), residuals, np.array([[0.2, 0.3, 0.5]]), (None,))
        m = Marginals(
            scatter, np.array([[4.0]]), np.array([[6.0]]), np.array([0.25]), np.array([[0.75, 0.25]])
        )
        # Weights step at 0 and 10, residuals at 3 and 5, those in units of the spread at 1 and 7.
        t = np.array([[-1.0, 0.5, 2.0, 4.0, 6.0, 8.0, 11.0]])
        weights = np.array([0, 0.75, 0.75, 0.75, 0.75, 0.75, 1])
        near = np.array([0, 0, 0, 0.5, 1, 1, 1])
        wide = np.array([0, 0, 0.5, 0.5, 0.5, 1, 1])
        marginal = np.array([0, 0.5, 0.5, 0.5, 0.5, 0.5, 1])
        expected = 0.75 * (0.2 * weights + 0.3 * near + 0.5 * wide) + 0.25 * marginal
        assert_allclose(m.cdf(0, t)[0], expected, rtol=1e-12)

    def test_weights_count_after_projection(self):
        """Of (1.2, −0.2) the projection is (1, 0)."""
        scatter = Scatter(
            np.array([[0.0], [10.0]]), (np.zeros((2, 1)), np.zeros((2, 1))), np.array([[1.0, 0, 0]]), (None,)
        )
        m = Marginals(scatter, np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1), np.array([[1.2, -0.2]]))
        assert_allclose(m.cdf(0, np.array([[-1.0, 5.0]])), [[0.0, 1.0]])

    def test_what_is_lost_is_the_marginal(self):
        m = marginals()
        gone = Marginals(m.scatter, m.mean, m.scale, np.ones(5), m.weights)
        y = m.scatter.outputs[:, 0]
        t = np.linspace(-2, 2, 9)
        expected = (y[:, None] <= t).mean(axis=0)
        assert_allclose(gone.cdf(0, np.tile(t, (5, 1))), np.tile(expected, (5, 1)), rtol=1e-12)

    def test_low_rank_weights(self):
        rng = np.random.default_rng(3)
        m = marginals()
        factors = Factored(rng.standard_normal((5, 3)), rng.standard_normal((3, 40)))
        low = Marginals(m.scatter, m.mean, m.scale, m.lost, factors)
        dense = Marginals(m.scatter, m.mean, m.scale, m.lost, factors.dense())
        assert_allclose(low.quantile(LEVELS), dense.quantile(LEVELS), rtol=1e-12)
        assert_allclose(low[1:3].quantile(LEVELS), dense[1:3].quantile(LEVELS), rtol=1e-12)


class TestQuantile:
    @pytest.mark.parametrize("mixing", [None, np.full((2, 5), 0.2)])
    def test_inverts_the_cdf(self, shares, mixing):
        """The least value that reaches the level: just below it the level is not reached."""
        m = marginals(shares, mixing=mixing)
        q = m.quantile(LEVELS)
        assert q.shape == (5 if mixing is None else 2, len(LEVELS), 2)
        for column in (0, 1):
            at = q[:, :, column]
            assert (m.cdf(column, at + 1e-9) >= LEVELS - 1e-8).all()
            assert (m.cdf(column, at - 1e-9) < LEVELS).all()

    def test_rises_with_the_level(self, shares):
        q = marginals(shares).quantile(np.linspace(0, 1, 33))
        assert np.diff(q, axis=1).min() >= -1e-9
        assert np.isfinite(q).all()

    def test_of_residuals_alone_are_about_the_mean(self):
        m = marginals((0.0, 1.0, 0.0))
        m = Marginals(m.scatter, m.mean, m.scale, np.zeros(5), None)
        levels = (np.arange(30) + 1) / 30
        expected = m.mean[:, None, :] + m.scatter.residuals[0][None]
        assert_allclose(m.quantile(levels), expected, atol=1e-10)

    def test_of_residuals_in_units_of_the_spread(self):
        m = marginals((0.0, 0.0, 1.0))
        m = Marginals(m.scatter, m.mean, m.scale, np.zeros(5), None)
        levels = (np.arange(30) + 1) / 30
        expected = m.mean[:, None, :] + m.scale[:, None, :] * m.scatter.residuals[1][None]
        assert_allclose(m.quantile(levels), expected, atol=1e-10)

    def test_in_parts_is_the_same(self, monkeypatch):
        m = marginals()
        whole = m.quantile(LEVELS)
        monkeypatch.setattr("muhat.embedding.marginals.WEIGHTS", 80)  # two rows at once
        assert_allclose(m.quantile(LEVELS), whole, rtol=0, atol=1e-9)


class TestAtoms:
    def test_by_hand(self):
        """Residuals −0.6, 0, 0.6 about 1.2: at 0.6, 1.2 and 1.8, cut at 0.5 and 1.5."""
        residuals = np.array([[-0.6], [0.0], [0.6]])
        scatter = Scatter(
            np.array([[0.0], [1.0], [2.0], [2.0]]),
            (residuals, residuals),
            np.array([[0.5, 0.5, 0.0]]),
            (np.array([0.0, 1.0, 2.0]),),
        )
        weights = np.array([[0.1, 0.3, 0.4, 0.2]])
        m = Marginals(scatter, np.array([[1.2]]), np.ones((1, 1)), np.array([0.2]), weights)
        mixed = 0.5 * np.array([0, 2 / 3, 1 / 3]) + 0.5 * np.array([0.1, 0.3, 0.6])
        expected = 0.8 * mixed + 0.2 * np.array([0.25, 0.25, 0.5])
        assert_allclose(m.probabilities(0), [expected], rtol=1e-12)
        steps = np.cumsum(expected)
        levels = np.array([0.0, steps[0] - 0.01, steps[0] + 0.01, steps[1] - 0.01, steps[1] + 0.01, 1.0])
        assert m.quantile(levels)[0, :, 0].tolist() == [0, 0, 1, 1, 2, 2]

    @pytest.mark.parametrize("mixing", [None, np.random.default_rng(0).dirichlet(np.ones(5), 3)])
    def test_probabilities_are_probabilities(self, shares, mixing):
        p = marginals(shares, atoms=True, mixing=mixing).probabilities(1)
        assert p.shape == (5 if mixing is None else 3, 4)
        assert p.min() >= -1e-12
        assert_allclose(p.sum(axis=1), 1, rtol=1e-12)

    def test_quantiles_are_atoms_and_agree_with_probabilities(self, shares):
        m = marginals(shares, atoms=True)
        q = m.quantile(LEVELS)[:, :, 1]
        assert set(np.unique(q)) <= {0.0, 1.0, 2.0, 3.0}
        reached = np.cumsum(m.probabilities(1), axis=1)
        expected = (reached[:, None, :] < LEVELS[None, :, None] - 1e-9).sum(axis=2)
        assert_allclose(q, expected)


class TestMixing:
    def test_is_the_average_of_the_cdfs(self, shares):
        W = np.zeros((2, 5))
        W[0, [1, 3]] = 0.5
        W[1, 2] = 1.0
        alone, mixed = marginals(shares), marginals(shares, mixing=W)
        t = np.linspace(-4, 4, 33)
        each = alone.cdf(0, np.tile(t, (5, 1)))
        got = mixed.cdf(0, np.tile(t, (2, 1)))
        assert_allclose(got, [(each[1] + each[3]) / 2, each[2]], rtol=1e-12, atol=1e-14)
        assert_allclose(mixed.quantile(LEVELS)[1], alone.quantile(LEVELS)[2], atol=1e-9)


class TestIndex:
    @pytest.mark.parametrize(
        "index", [2, -1, slice(1, 4), [0, 3], np.array([True, False, True, False, False])]
    )
    @pytest.mark.parametrize("mixing", [None, np.random.default_rng(0).dirichlet(np.ones(5), 5)])
    def test_is_a_smaller_batch(self, index, mixing):
        m = marginals(atoms=True, mixing=mixing)
        whole = m.quantile(LEVELS)
        part = m[index].quantile(LEVELS)
        assert part.ndim == 3
        assert_allclose(part, np.atleast_3d(whole[index]).reshape(-1, len(LEVELS), 2), atol=1e-9)

    def test_without_weights(self):
        m = marginals((0.0, 0.5, 0.5))
        m = Marginals(m.scatter, m.mean, m.scale, m.lost, None)
        assert_allclose(m[1:3].quantile(LEVELS), m.quantile(LEVELS)[1:3], atol=1e-9)


class TestMasses:
    """A value that many rows take has its own probability, whichever component gives the rest its shape."""

    def batch(self, shares, jumps=((0.3, 0.6), (0.0, 0.25), (0.9, 0.5), (-0.1, 1.2), (0.4, 0.4))):
        m = marginals(shares)
        masses = (np.array([0.2]), np.empty(0))
        steps = np.array(jumps)[:, None, :], np.empty((5, 0, 2))
        return Marginals(
            replace(m.scatter, masses=masses), m.mean, m.scale, np.zeros(5), m.weights, None, steps
        )

    def test_the_jump_is_what_was_regressed(self, shares):
        m = self.batch(shares)
        below, at = m.cdf(0, np.full((5, 1), 0.2 - 1e-13))[:, 0], m.cdf(0, np.full((5, 1), 0.2))[:, 0]
        # Probabilities are cut to [0, 1], and made to rise.
        assert_allclose(below, [0.3, 0.0, 0.9, 0.0, 0.4], atol=1e-9)
        assert_allclose(at, [0.6, 0.25, 0.9, 1.0, 0.4], atol=1e-9)

    def test_rises_from_0_to_1(self, shares):
        F = self.batch(shares).cdf(0, np.tile(np.linspace(-12, 12, 501), (5, 1)))
        assert np.diff(F, axis=1).min() >= -1e-12
        assert_allclose(F[:, 0], 0, atol=1e-12)
        assert_allclose(F[:, -1], 1, rtol=1e-12)

    def test_quantiles_within_the_jump_are_the_value_itself(self, shares):
        m = self.batch(shares)
        q = m.quantile(np.array([0.2, 0.31, 0.45, 0.6, 0.8]))[0, :, 0]
        assert (q[1:4] == 0.2).all()
        assert q[0] < 0.2 < q[4]
        assert (m[1:2].quantile(np.array([0.1]))[0, 0, 0]) == 0.2  # a smaller batch keeps its jumps

    def test_the_other_column_is_as_before(self, shares):
        t = np.tile(np.linspace(-3, 3, 11), (5, 1))
        m = marginals(shares)
        plain = Marginals(m.scatter, m.mean, m.scale, np.zeros(5), m.weights)
        assert_allclose(self.batch(shares).cdf(1, t), plain.cdf(1, t), rtol=1e-12)


def test_sorted_sums_of_signed_weights_are_nearer_than_clipped_ones():
    """At a threshold the signed sum is unbiased; sorting keeps the multiset of sums."""
    y = np.array([0.0, 1.0, 1.0, 2.0])
    W = np.array([[0.5, -0.2, 0.5, 0.2], [0.9, -0.4, 0.1, 0.4]])
    scatter = Scatter(y[:, None], (np.zeros((1, 1)),) * 2, np.array([[1.0, 0.0, 0.0]]), (None,))
    m = Marginals(scatter, np.zeros((2, 1)), np.ones((2, 1)), np.zeros(2), W)
    F = m.cdf(0, np.tile([-1.0, 0.0, 1.0, 2.0], (2, 1)))
    assert_allclose(F, [[0, 0.5, 0.8, 1], [0, 0.6, 0.9, 1]], atol=1e-12)
