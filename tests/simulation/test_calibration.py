"""Calibration: right posteriors pass at the level said, wrong ones fail, and are told how they are wrong."""

import sys

import numpy as np
import polars as pl
import pytest
from scipy import stats

import muhat as mh
from muhat.datasets import exponential_gamma_posterior, simulator
from muhat.simulation import Calibration, check_calibration, to_arviz
from muhat.simulation.calibration import probability_below, region_level
from muhat.simulation.draws import Weighted, weighted

TASK = simulator("exponential_gamma")


class Exact:
    """Draws of the exact posterior, stretched by a factor and moved by standard deviations."""

    def __init__(self, stretch=1.0, move=0.0, seed=0):
        self.stretch, self.move, self.rng = stretch, move, np.random.default_rng(seed)

    def sample(self, x, n):
        law = exponential_gamma_posterior(x)
        draws = law.rvs(n, random_state=self.rng)
        return (law.mean() + self.stretch * (draws - law.mean()) + self.move * law.std())[:, None]


class Plane:
    """θ ~ N(0, I) in the plane and x = θ + N(0, I): draws of the posterior N(x/2, I/2), or not quite."""

    def __init__(self, correlation=0.0, seed=0):
        self.root = np.linalg.cholesky([[0.5, 0.5 * correlation], [0.5 * correlation, 0.5]])
        self.rng = np.random.default_rng(seed)

    def sample(self, x, n):
        return x / 2 + self.rng.standard_normal((n, 2)) @ self.root.T


class Weights:
    """Embeddings: prior draws weighted by the exact likelihood."""

    def __init__(self, n=4000, power=1.0):
        self.theta, self.power = TASK.prior(n, 77), power

    def posterior(self, x):
        like = stats.gamma.logpdf(x, 15, scale=1 / (15 * self.theta.T)) * self.power
        W = np.exp(like - like.max(axis=1, keepdims=True))
        return mh.embed(self.theta, mh.Gaussian(1.0), weights=W / W.sum(axis=1, keepdims=True) * 0.9)


def data(m, seed=0):
    theta = TASK.prior(m, seed)
    return theta, TASK.simulate(theta, seed + 10_000)


def plane(m, seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((m, 2))
    return theta, theta + rng.standard_normal((m, 2))


@pytest.mark.statistics
def test_right_posteriors_fail_as_often_as_the_level_says():
    one = [check_calibration(Exact(seed=k), *data(100, k), n=60) for k in range(100)]
    two = [check_calibration(Plane(seed=k), *plane(100, k), n=60) for k in range(100)]
    for found in (one, two):
        # Bonferroni: at most the level. 100 runs at 5% give up to 12 with probability 0.999.
        assert sum(c.pvalue <= 0.05 for c in found) <= 12
        for values in (
            [c.ks_pvalues[0] for c in found],
            [c.region_pvalue for c in found],
        ):
            assert stats.kstest(values, "uniform").pvalue > 1e-4
        assert stats.kstest([c.pit[0, 0] for c in found], "uniform").pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Exact(), "Nothing speaks against"),
        (Exact(stretch=0.6), "too narrow"),
        (Exact(stretch=1.6), "too wide"),
        (Exact(move=0.5), "lie too high"),
        (Exact(move=-0.5), "lie too low"),
        (Weights(), "Nothing speaks against"),
        (Weights(power=0.4), "too wide"),
        (Weights(power=2.5), "too narrow"),
    ],
)
def test_the_verdict_names_the_fault(model, words):
    found = check_calibration(model, *data(300, 1), names=["rate"])
    assert words in found.summary
    assert (found.pvalue > 0.05) == ("Nothing" in words)
    assert "rate" in found.summary or "Nothing" in words


def test_coverage_is_what_intervals_of_the_draws_hold():
    theta, x = data(200, 3)
    found = check_calibration(Exact(0.7, seed=5), theta, x, n=2000)
    model, inside = Exact(0.7, seed=5), []
    for t, row in zip(theta, x, strict=True):
        low, high = np.quantile(model.sample(row[None], 2000), [0.1, 0.9])
        inside.append(low <= t[0] <= high)
    assert found.coverage([0.8])[0, 0] == pytest.approx(np.mean(inside), abs=0.011)
    assert found.coverage([0.0, 1.0])[:, 0].tolist() == [0, 1]
    # Of one mode and nearly symmetric: the region is about the interval.
    assert found.region_coverage(0.8)[0] == pytest.approx(np.mean(inside), abs=0.05)


def test_a_wrong_correlation_is_seen_by_the_region_alone():
    found = check_calibration(Plane(correlation=0.95), *plane(400, 2))
    assert (found.pvalues > 0.01).all()
    assert found.region_pvalue < 1e-4
    assert "region holds the truth" in found.summary


def test_equal_weights_are_ranks():
    """(r + U)/(L + 1), for every rank r of L + 1 (Talts et al., Thm. 1)."""
    points = np.arange(9.0)[:, None]
    posterior = Weighted(points, np.full(9, 1 / 9), 0.0)
    for r in range(10):
        u = [
            probability_below(posterior, np.array([r - 0.5]), np.random.default_rng(k))[0] for k in range(200)
        ]
        assert r / 10 <= min(u) < r / 10 + 0.02 < r / 10 + 0.08 < max(u) <= (r + 1) / 10
    tied = [probability_below(posterior, np.array([4.0]), np.random.default_rng(k))[0] for k in range(100)]
    assert min(tied) < 0.47
    assert max(tied) > 0.53


def test_repeated_points_count_as_one_point_of_their_weight():
    rng = np.random.default_rng(0)
    posterior = Weighted(np.array([[0.0], [1.0]]), np.array([0.25, 0.75]), 0.0)
    L = 1 / (0.25**2 + 0.75**2)
    u = np.array([probability_below(posterior, np.array([0.5]), rng)[0] for _ in range(500)])
    assert u.min() == pytest.approx(0.25 * L / (L + 1), abs=0.01)
    assert u.max() == pytest.approx((0.25 * L + 1) / (L + 1), abs=0.01)


def test_region_levels_rise_from_the_mode():
    rng = np.random.default_rng(0)
    cloud = Weighted(rng.standard_normal((4000, 2)), np.full(4000, 1 / 4000), 0.0)
    for radius in (0.5, 1.2, 2.0, 5.0):
        levels = [region_level(cloud, np.array([radius, 0.0]), rng) for _ in range(20)]
        assert np.mean(levels) == pytest.approx(stats.chi2(2).cdf(radius**2), abs=0.05)


def test_negative_weights_are_projected_and_reported():
    mu = mh.embed(np.arange(4.0)[:, None], mh.Gaussian(1.0), weights=[0.6, 0.5, -0.2, 0.3])
    found = weighted(mu)
    np.testing.assert_allclose(found.weights.sum(), 1)
    assert (found.weights > 0).all()
    assert found.negative == pytest.approx(0.2 / 1.6)
    scaled = weighted(mu * 3.0)
    np.testing.assert_allclose(scaled.weights, found.weights)

    class Signed(Weights):
        def posterior(self, x):
            mu = super().posterior(x)
            return mh.Embedding(mu.kernel, mu.points, mu.weights - 0.0001)

    found = check_calibration(Signed(500), *data(40))
    assert found.negative > 0.01
    assert "negative" in found.summary


def test_posteriors_without_mass_are_counted():
    class Sparse(Weights):
        def posterior(self, x):
            mu = super().posterior(x)
            return mh.Embedding(mu.kernel, mu.points, mu.weights * (x > 0.1))

    theta, x = data(120)
    found = check_calibration(Sparse(), theta, x)
    assert found.without == (x <= 0.1).sum() > 0
    assert len(found) + found.without == 120
    assert f"{found.without} more had no posterior" in found.summary

    class Empty(Weights):
        def posterior(self, x):
            return super().posterior(x) * 0.0

    with pytest.raises(ValueError, match="Only 0 of the 120 x have a posterior"):
        check_calibration(Empty(), theta, x)


def test_extrapolated_posteriors_are_counted_not_warned_of_one_by_one():
    theta, x = data(120)
    model = mh.LikelihoodFree("rejection").fit(*data(200, 9))
    far = x.copy()
    far[:7] = 1e3
    assert check_calibration(model, theta, far).unlike == 7 + check_calibration(model, theta, x).unlike
    assert "lie far from anything" in check_calibration(model, theta, far).summary


def test_resampling_keeps_the_weights():
    rng = np.random.default_rng(0)
    w = rng.dirichlet(np.ones(7))
    drawn = Weighted(np.arange(7.0)[:, None], w, 0.0).resample(1000, rng)[:, 0]
    counts = np.bincount(drawn.astype(int), minlength=7)
    assert (np.abs(counts - 1000 * w) < 1 + 1e-9).all()
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.15  # in random order


def test_seeds_tables_figures():
    theta, x = data(60)
    frame = pl.DataFrame(theta, schema=["rate"])
    found = check_calibration(Weights(), frame, x, random_state=4)
    again = check_calibration(Weights(), frame, x, random_state=4)
    np.testing.assert_array_equal(found.pit, again.pit)
    assert isinstance(found, Calibration)
    assert str(found) == found.summary
    rows = found.table()
    assert rows["parameter"].to_list() == ["rate", "(region)"]
    assert rows["covers_0.9"].to_list() == [found.coverage(0.9)[0, 0], found.region_coverage(0.9)[0]]
    assert (found.ranks >= 0).all()
    assert (found.ranks <= found.size).all()
    figure = found.plot()
    bars = [patch for patch in figure.axes[0].patches if patch.get_height() > 0 and patch.get_width() < 0.6]
    assert sum(bar.get_height() for bar in bars) == 60
    line = figure.axes[1].get_lines()[1]
    np.testing.assert_allclose(line.get_ydata(), found.coverage(line.get_xdata())[:, 0])
    many = check_calibration(Plane(), *plane(60), names=["$a_", "_b"]).plot()
    many.canvas.draw()


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"model": object()}, TypeError, "posterior"),
        ({"theta": np.ones((10, 1)), "x": np.ones((10, 1))}, ValueError, "at least 20"),
        ({"theta": np.ones((30, 1))}, ValueError, "30 rows but x has 40"),
        ({"theta": np.ones((40, 2))}, ValueError, "2 columns but the posteriors of model have 1"),
        ({"theta": np.full((40, 1), np.nan)}, ValueError, "NaN"),
        ({"names": ["a", "b"]}, ValueError, "2 entries but theta has 1"),
        ({"n": 3}, ValueError, "n must be at least 10"),
    ],
)
def test_bad_input_is_refused(arguments, error, match):
    theta, x = data(40)
    with pytest.raises(error, match=match):
        check_calibration(**{"model": Exact(), "theta": theta, "x": x, **arguments})


# -- ArviZ ---------------------------------------------------------------------------------------


def test_draws_for_arviz():
    pytest.importorskip("arviz", reason="needs arviz", exc_type=ImportError)
    theta, x = data(3)
    mu = Weights().posterior(x)
    found = to_arviz(mu[0], 2000, ["rate"], prior=theta, observed=x[0])
    draws = np.asarray(found["posterior"]["rate"])
    assert draws.shape == (1, 2000)
    exact = exponential_gamma_posterior(x[0])
    assert draws.mean() == pytest.approx(exact.mean(), abs=0.15 * exact.std())
    assert draws.std() == pytest.approx(exact.std(), rel=0.15)
    np.testing.assert_array_equal(np.asarray(found["prior"]["rate"])[0], theta[:, 0])
    np.testing.assert_array_equal(np.asarray(found["observed_data"]["x"]), x[0])
    table = pl.DataFrame(plane(20)[0], schema=["a", "b"])
    np.testing.assert_array_equal(np.asarray(to_arviz(table)["posterior"]["b"])[0], table["b"])
    named = mh.embed(table)
    assert set(to_arviz(named, 5)["posterior"].data_vars) == {"a", "b"}
    with pytest.raises(ValueError, match="choose one"):
        to_arviz(mu)
    with pytest.raises(ValueError, match="1 different names"):
        to_arviz(mu[0], names=["a", "b"])
    with pytest.raises(ValueError, match="prior has 2 columns but the posterior 1"):
        to_arviz(mu[0], prior=np.ones((3, 2)))


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"muhat\[arviz\]"):
        to_arviz(np.ones((3, 1)))


class Births:
    """N ~ Poisson(3) and x of them seen, each with probability one half: draws of N, x + Poisson(1.5)."""

    def __init__(self, move=0, mean=1.5, seed=0):
        self.move, self.mean, self.rng = move, mean, np.random.default_rng(seed)

    @staticmethod
    def data(m, seed):
        rng = np.random.default_rng(seed)
        N = rng.poisson(3, m)
        return N[:, None].astype(float), rng.binomial(N, 0.5)[:, None].astype(float)

    def sample(self, x, n):
        return x.reshape(-1, 1, 1) + self.move + self.rng.poisson(self.mean, (len(x), n, 1))


class Grid:
    """The same as probabilities of 0 to 29."""

    def __init__(self, move=0, mean=1.5):
        self.move, self.mean = move, mean

    def posterior(self, x):
        values = np.arange(30.0)
        W = stats.poisson(self.mean).pmf(values - self.move - x)
        return mh.embed(values[:, None], mh.Gaussian(1.0), weights=W / W.sum(axis=1, keepdims=True))


COUNTS = mh.Support(0, np.inf, integer=True)


@pytest.mark.parametrize(
    "model", [Births(), Grid(), pytest.param(Births(), marks=pytest.mark.slow, id="many")]
)
def test_exact_posteriors_of_whole_numbers_pass(model, request):
    m = 1500 if "many" in request.node.name else 150
    checked = check_calibration(model, *Births.data(m, 1), n=100, support=COUNTS)
    assert checked.pvalue > 0.05
    np.testing.assert_allclose(checked.coverage([0.5, 0.9])[:, 0], [0.5, 0.9], atol=2.5 / np.sqrt(m))
    np.testing.assert_allclose(checked.region_coverage([0.5, 0.9]), [0.5, 0.9], atol=2.5 / np.sqrt(m))


@pytest.mark.parametrize("kind", [Births, Grid])
@pytest.mark.parametrize(("fault", "words"), [({"move": 1}, "too high"), ({"mean": 0.7}, "too low")])
def test_wrong_posteriors_of_whole_numbers_fail(kind, fault, words):
    checked = check_calibration(kind(**fault), *Births.data(150, 2), n=100, support=COUNTS)
    assert checked.pvalue < 1e-4
    assert words in str(checked)
    assert checked.region_pvalue < 0.01 or words == "too low"


def test_a_narrow_posterior_of_whole_numbers_fails():
    class Narrow(Births):
        def sample(self, x, n):
            return x.reshape(-1, 1, 1) + self.rng.integers(1, 3, (len(x), n, 1))

    assert "too narrow" in str(check_calibration(Narrow(), *Births.data(200, 3), n=100, support=COUNTS))


@pytest.mark.parametrize("n", [100, 0])
def test_exact_posteriors_of_zero_or_one_pass(n):
    """θ is 0 or 1 evenly, x ~ N(θ, 1): draws, and an embedding with two points."""

    class Coin:
        rng = np.random.default_rng(0)

        def sample(self, x, n):
            return (self.rng.random((len(x), n, 1)) < self.chance(x)[:, None]).astype(float)

        def chance(self, x):
            return 1 / (1 + np.exp(0.5 - x))

    class Two(Coin):
        sample = None

        def posterior(self, x):
            p = self.chance(x)
            return mh.embed(np.array([[0.0], [1.0]]), mh.Gaussian(1.0), weights=np.hstack([1 - p, p]))

    rng = np.random.default_rng(5)
    theta = rng.integers(0, 2, (300, 1)).astype(float)
    checked = check_calibration(Coin() if n else Two(), theta, theta + rng.normal(size=(300, 1)), n=n or 100)
    assert checked.pvalue > 0.05
    assert checked.coverage([0.9])[0, 0] == pytest.approx(0.9, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Births, Grid])
def test_exact_posteriors_of_whole_numbers_fail_as_often_as_the_level_says(kind):
    found = [check_calibration(kind(), *Births.data(60, s), n=60, support=COUNTS) for s in range(80)]
    assert sum(c.pvalue <= 0.05 for c in found) <= 9
    # One p-value alone is uniform, but for what chi-squared and Kolmogorov make of few simulations.
    assert stats.kstest([c.region_pvalue for c in found], "uniform").pvalue > 0.001
