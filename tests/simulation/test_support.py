"""No draw leaves the support of the parameters, whichever method, prior and way out of the library."""

import warnings

import numpy as np
import polars as pl
import pytest
from scipy import stats

import muhat as mh
from muhat.learning.coordinates import BOX, INTERVAL, LINE, POSITIVE, SOFT, find_coordinates
from muhat.learning.prior_supports import support_of
from muhat.learning.simulations import METHODS
from muhat.learning.supports import infer_support
from muhat.simulation import check_calibration, to_arviz

# What each kind of support is tried with: the prior, a simulator of its draws, and an observation that pulls
# posteriors towards the boundary.
KINDS = {
    "interval": (stats.beta(8, 2), lambda t, rng: t + 0.1 * rng.standard_normal(t.shape), [1.05]),
    "positive": (stats.halfnorm(), lambda t, rng: t + 0.2 * rng.standard_normal(t.shape), [-0.1]),
    "upper": (stats.weibull_max(1.5), lambda t, rng: t + 0.2 * rng.standard_normal(t.shape), [0.1]),
    "integer": (stats.poisson(4), lambda t, rng: t + 0.5 * rng.standard_normal(t.shape), [-0.5]),
    "simplex": (
        stats.dirichlet([1, 1, 1]),
        lambda t, rng: t + 0.1 * rng.standard_normal(t.shape),
        [1.1, 0.0, -0.1],
    ),
}


def simulated(kind, n=200):
    prior, simulator, x = KINDS[kind]
    return mh.simulate(simulator, prior, n, vectorized=True, random_state=0), np.array([x])


def is_inside(kind, theta):
    """Written without the library's own answer."""
    theta = np.reshape(theta, (-1, theta.shape[-1]))
    if kind == "interval":
        return ((theta > 0) & (theta < 1)).all()
    if kind == "positive":
        return (theta > 0).all()
    if kind == "upper":
        return (theta < 0).all()
    if kind == "integer":
        return ((theta >= 0) & (theta == np.round(theta))).all()
    return (theta >= 0).all() and np.allclose(theta.sum(axis=1), 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("dme", "kbr", "importance")])
def test_nothing_leaves_the_support(kind, method):
    stays_inside(kind, method)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["dme", "kbr", "importance"])
def test_nothing_leaves_the_support_by_dearer_methods(kind, method):
    stays_inside(kind, method)


def stays_inside(kind, method):
    runs, x = simulated(kind, 120)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = mh.LikelihoodFree(method, random_state=0).fit(runs)
        posterior, draws = model.posterior(x)[0], model.sample(x, 300)
    assert is_inside(kind, draws)
    assert is_inside(kind, posterior.points)
    assert is_inside(kind, posterior.quantile([0.0, 0.05, 0.5, 0.95, 1.0])) or kind == "simplex"
    mean = posterior.mean()
    assert is_inside(kind, np.round(mean) if kind == "integer" else mean)
    assert (np.linalg.eigvalsh(posterior.cov()) >= -1e-9).all() or method not in ("adjusted", "surrogate")
    if kind not in ("integer", "simplex"):
        low, high = model.support_.lower[0], model.support_.upper[0]
        beyond = np.array([[low - 0.01], [low - 1.0]]) if np.isfinite(low) else np.array([[high + 0.01]])
        density = posterior.density()
        assert (density.pdf(beyond) == 0).all()
        assert ((density.sample(200, 0) >= low) & (density.sample(200, 0) <= high)).all()


def test_a_probability_with_mass_at_its_bounds():
    # 20 of 20 under Jeffreys' prior: draws were outside (0, 1) in 17 of 100.
    prior = stats.beta(0.5, 0.5)
    runs = mh.simulate(lambda t, rng: rng.binomial(20, t), prior, 1000, vectorized=True, random_state=0)
    exact = stats.beta(20.5, 0.5)
    model = mh.LikelihoodFree(random_state=0).fit(runs)
    draws = model.sample(np.array([[20.0]]), 2000)
    assert is_inside("interval", draws)
    assert draws.mean() == pytest.approx(exact.mean(), abs=0.01)
    assert float(model.posterior(np.array([[20.0]])).mean()[0, 0]) == pytest.approx(exact.mean(), abs=0.01)


# -- an epidemic whose cases are reported in part --------------------------------------------------

DAYS = np.arange(5)


def epidemic(theta, rng):
    return rng.poisson(theta[:, [1]] * 100 * np.exp(theta[:, [0]] * DAYS))


EPIDEMIC = {"growth": stats.norm(0.2, 0.05), "rho": stats.beta(8, 2)}
COUNTS = np.array([112.0, 140.0, 171.0, 202.0, 257.0])  # more than 100 e^{growth t}: nearly all were reported


def exact_rho():
    """Mean and standard deviation of ρ on a grid."""
    growth, rho = np.linspace(-0.1, 0.5, 601), np.linspace(0.0005, 0.9995, 1000)
    rate = rho[None, :, None] * 100 * np.exp(growth[:, None, None] * DAYS)
    log = stats.poisson.logpmf(COUNTS, rate).sum(axis=-1)
    log = log + EPIDEMIC["growth"].logpdf(growth)[:, None] + EPIDEMIC["rho"].logpdf(rho)
    w = np.exp(log - log.max()).sum(axis=0)
    w /= w.sum()
    return w @ rho, np.sqrt(w @ (rho - w @ rho) ** 2)


@pytest.fixture(scope="module")
def outbreak():
    return mh.simulate(epidemic, EPIDEMIC, 1000, vectorized=True, random_state=0)


def test_a_reporting_rate_stays_a_rate(outbreak):
    model = mh.LikelihoodFree(random_state=0).fit(outbreak)
    posterior, rho = model.posterior(COUNTS), model.sample(COUNTS, 2000)[:, 1]
    mean, sd = exact_rho()
    assert ((rho > 0) & (rho < 1)).all()
    assert rho.mean() == pytest.approx(mean, abs=sd)
    assert posterior.mean()[1] == pytest.approx(mean, abs=sd)
    assert rho.std() == pytest.approx(sd, rel=0.7)
    assert str(model.support_) == "The support is growth any number; rho within 0 to 1."


# -- where the support comes from ------------------------------------------------------------------


def test_the_support_of_priors():
    parts = {
        "p": stats.beta(2, 3),
        "rate": stats.gamma(2),
        "mu": stats.norm(),
        "k": stats.binom(7, 0.3),
        "b": stats.uniform(-1, 3),
    }
    runs = mh.simulate(lambda t: t.sum(), parts, 40, random_state=0)
    support = runs.support
    np.testing.assert_array_equal(support.lower, [0, 0, -np.inf, 0, -1])
    np.testing.assert_array_equal(support.upper, [1, np.inf, np.inf, 7, 2])
    assert support.integer.tolist() == [False, False, False, True, False]
    assert not support.inferred.any()
    assert support.words == (
        "p within 0 to 1; rate positive; mu any number; k a whole number within 0 to 7; b within -1 to 2"
    )
    assert mh.simulate(lambda t: t.sum(), np.random.default_rng(0).random((40, 2))).support is None
    given = mh.simulate(lambda t: t.sum(), lambda n, rng: rng.random((n, 2)), 40, support=[(0, 1), (0, None)])
    np.testing.assert_array_equal(given.support.upper, [1, np.inf])
    tied = support_of([stats.dirichlet([1, 2]), stats.norm()], np.array([[0.2, 0.8, 3.0], [0.5, 0.5, -1.0]]))
    assert tied.simplex == ((0, 1),)


def test_a_prior_and_bounds_say_the_same(outbreak):
    x = outbreak.x.astype(float)
    answers = []
    for prior in (EPIDEMIC, [None, (0, 1)], mh.Support([-np.inf, 0], [np.inf, 1])):
        model = mh.LikelihoodFree("adjusted", prior=prior, random_state=0).fit(outbreak.theta, x)
        answers.append(model.posterior(COUNTS).mean())
    np.testing.assert_allclose(answers[1:], answers[:1] * 2)


def test_a_dict_goes_by_names():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"mu": rng.normal(size=60), "p": rng.random(60), "rate": rng.gamma(2, 1, 60)})
    support = support_of({"p": stats.uniform(), "mu": stats.norm()}, frame.to_numpy(), frame.columns)
    assert support.lower.tolist() == [-np.inf, 0, 0]
    assert support.inferred.tolist() == [False, False, True]
    with pytest.raises(ValueError, match="give them in the same order"):
        support_of(mh.Support(0, 1, names=["b", "a"]), rng.random((40, 2)), ["a", "b"])


def test_bounds_say_nothing_about_whole_numbers():
    theta = np.random.default_rng(0).poisson(3, (50, 1)).astype(float)
    assert support_of([(0, 20)], theta).words == "theta a whole number within 0 to 20"
    assert support_of(mh.Support(0, 20), theta).words == "theta within 0 to 20"


def test_distributions_of_both_kinds_of_scipy():
    law = getattr(stats, "Uniform", None)
    if law is None:
        pytest.skip("this SciPy has no random variables")
    support = support_of([law(a=0.0, b=2.0), stats.randint(1, 5)], np.array([[0.5, 1.0], [1.0, 4.0]]))
    assert (support.lower.tolist(), support.upper.tolist()) == ([0, 1], [2, 4])
    assert support.integer.tolist() == [False, True]


def test_what_is_inferred_is_said():
    rng = np.random.default_rng(0)
    n = 500
    columns = {
        "rate": rng.gamma(2, 2, n),
        "rho": rng.beta(8, 2, n),
        "mu": rng.normal(5, 1, n),
        "sd": np.abs(rng.standard_normal(n)),
        "k": rng.poisson(6, n).astype(float),
        "box": rng.uniform(-1, 3, n),
        "small": rng.exponential(0.1, n),
    }
    support = infer_support(np.stack(list(columns.values()), axis=1), list(columns))
    np.testing.assert_array_equal(support.lower[[0, 1, 2, 3, 5, 6]], [0, 0, -np.inf, 0, -1, 0])
    np.testing.assert_array_equal(support.upper[[0, 1, 2, 3, 5, 6]], [np.inf, 1, np.inf, np.inf, 3, np.inf])
    assert support.integer.tolist() == [False] * 4 + [True] + [False] * 2
    assert "not given" in support.summary
    assert "rho within 0 to 1" in support.summary
    assert "No bounds were given or found for mu" in support.summary
    shares = rng.dirichlet([1, 2, 3], n) * 100
    tied = infer_support(np.column_stack([columns["mu"], shares]))
    assert tied.simplex == ((1, 2, 3),)
    assert tied.totals[0] == pytest.approx(100)
    frame = pl.DataFrame({"rho": columns["rho"]})
    model = mh.LikelihoodFree("rejection").fit(frame, columns["rho"] + 0.1 * rng.standard_normal(n))
    assert model.support_.summary in str(model.posterior(0.9).support)
    assert "rho within 0 to 1" in model.support_.guess


def test_bounds_are_not_found_where_there_are_none():
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        Z = np.stack([rng.normal(5, 1, 300), rng.normal(0.5, 0.1, 300), rng.standard_t(5, 300) + 20], axis=1)
        support = infer_support(Z)
        found += np.isfinite(support.lower).sum() + np.isfinite(support.upper).sum()
    assert found <= 2  # of 240; a bound that far away would do no harm


def test_round_bounds_of_uniform_parameters_are_hardly_missed():
    """A prior on (0, 1) must not be cut because a sample ends a little before 1."""
    for low, high, n in ((0, 1, 2000), (0, 10, 300), (-1, 1, 300), (0.1, 100, 1000), (-100, 0, 200)):
        rng = np.random.default_rng(n)
        support = infer_support(rng.uniform(low, high, (n, 60)))
        looked = np.isfinite(support.upper)  # some columns do not look uniform
        assert looked.sum() > 50
        assert (support.upper[looked] == high).mean() > 0.98
        assert low == 0.1 or (support.lower[looked] == low).mean() > 0.98
        assert ((support.lower <= low) & (support.upper >= high))[looked].mean() > 0.98


def test_bounds_that_are_not_round_stay_near_the_sample():
    rng = np.random.default_rng(0)
    support = infer_support(rng.uniform(0.317, 0.933, (1000, 40)))
    looked = np.isfinite(support.upper)
    assert (support.upper[looked] < 0.945).all()
    assert (support.lower[looked] > 0.305).all()


def test_a_normal_parameter_far_above_zero_is_not_harmed():
    rng = np.random.default_rng(0)
    theta = rng.normal(5, 1, 800)
    x = theta + 0.5 * rng.standard_normal(800)
    means = [
        mh.LikelihoodFree("adjusted", prior=prior).fit(theta, x).posterior(5.5).mean()[0]
        for prior in (None, [(0, None)], stats.norm(5, 1))
    ]
    np.testing.assert_allclose(means, 0.2 * 5 + 0.8 * 5.5, atol=0.07)


# -- coordinates -----------------------------------------------------------------------------------


def test_bounds_are_found_where_they_are():
    rng = np.random.default_rng(0)
    draws = np.stack(
        [np.abs(rng.normal(size=(200, 40))), rng.beta(8, 2, (200, 40)), rng.exponential(1, (200, 40))]
    )
    half, rates, positive = (
        [(infer_support(Z[:, [j]]).lower[0], infer_support(Z[:, [j]]).upper[0]) for j in range(40)]
        for Z in draws
    )
    assert half.count((0.0, np.inf)) >= 39
    assert rates.count((0.0, 1.0)) >= 36
    assert positive.count((0.0, np.inf)) >= 39


def test_coordinates_go_there_and_back():
    rng = np.random.default_rng(0)
    Z = np.column_stack(
        [
            rng.normal(size=300),
            rng.gamma(2, 2, 300),
            np.abs(rng.normal(size=300)),
            rng.beta(8, 2, 300),
            rng.random(300),
            rng.poisson(3, 300),
            rng.dirichlet([1, 1, 2], 300),
            -rng.gamma(2, 2, 300),
        ]
    )
    laws = [
        stats.norm(),
        stats.gamma(2),
        stats.halfnorm(),
        stats.beta(8, 2),
        stats.uniform(),
        stats.poisson(3),
    ]
    line = find_coordinates(Z, support_of([*laws, stats.dirichlet([1, 1, 2]), (None, 0)], Z))
    assert line.kinds[:5] == (LINE, POSITIVE, SOFT, INTERVAL, BOX)
    T = line.to_line(Z)
    assert T.shape == (300, 9)  # a simplex has one coordinate less
    assert np.isfinite(T).all()
    np.testing.assert_allclose(line.from_line(T), Z, rtol=1e-7, atol=1e-9)
    wild = line.from_line(1e4 * rng.standard_normal((200, 9)))
    assert line.support.contains(wild).all()
    assert np.isfinite(np.log(wild[:, 3])).all()  # open ends stay open
    assert np.isfinite(np.log1p(-wild[:, 3])).all()


def test_values_on_the_bounds_are_numbers():
    Z = np.array([[0.0], [1.0], [1 - 1e-16], [5e-324], *np.random.default_rng(0).beta(0.5, 0.5, (60, 1))])
    line = find_coordinates(Z, mh.Support(0, 1))
    T = line.to_line(Z)
    assert np.abs(T).max() < 40
    np.testing.assert_allclose(line.from_line(T), Z, atol=1e-4)


# -- bad input, files, and other ways out ----------------------------------------------------------


def test_theta_outside_its_support_is_refused():
    theta = np.random.default_rng(0).normal(0.5, 0.5, (50, 1))
    row = int(np.flatnonzero((theta < 0) | (theta > 1))[0])
    message = (
        rf"theta \(column 0\) is {theta[row, 0]:.6g} in row {row}, but must be within 0 to 1. Give the prior"
    )
    with pytest.raises(ValueError, match=message):
        mh.LikelihoodFree(prior=stats.beta(2, 2)).fit(theta, theta)
    with pytest.raises(ValueError, match="prior has 2 columns but theta has 1"):
        mh.LikelihoodFree(prior=[stats.norm(), stats.norm()]).fit(theta, theta)
    with pytest.raises(TypeError, match="prior must say where theta can be, got function"):
        mh.LikelihoodFree(prior=lambda rng: rng.random()).fit(theta, theta)
    with pytest.raises(TypeError, match="x is missing"):
        mh.LikelihoodFree().fit(theta)
    with pytest.raises(ValueError, match="lower must be below upper, but is 1 to 0 in rho"):
        mh.Support(1, 0, names=["rho"])


def test_the_support_is_kept_in_files(tmp_path):
    runs, x = simulated("interval")
    model = mh.LikelihoodFree("adjusted", prior=stats.beta(8, 2)).fit(runs.theta, runs.x)
    for name, thing in (("runs", runs), ("model", model), ("posterior", model.posterior(x))):
        mh.save(thing, tmp_path / name)
    assert mh.load(tmp_path / "runs").support.words == "theta within 0 to 1"
    again = mh.load(tmp_path / "model")
    np.testing.assert_array_equal(again.sample(x, 50), model.sample(x, 50))
    assert again.fit(runs.theta, runs.x).support_.words == "theta within 0 to 1"
    assert mh.load(tmp_path / "posterior").support.words == "theta within 0 to 1"


def test_arviz_gets_draws_inside():
    pytest.importorskip("arviz")
    runs, x = simulated("interval")
    posterior = mh.LikelihoodFree("adjusted").fit(runs).posterior(x)[0]
    assert is_inside("interval", np.asarray(to_arviz(posterior).posterior["theta"])[..., None])


def test_another_prior_has_a_support_of_its_own():
    rng = np.random.default_rng(0)
    theta = rng.normal(0.5, 1.0, (400, 1))
    x = theta + 0.2 * rng.standard_normal(theta.shape)
    rates = rng.beta(8, 2, (500, 1))
    for method in ("adjusted", "surrogate", "importance"):
        model = mh.LikelihoodFree(method, random_state=0).fit(theta, x)
        posterior = model.posterior(np.array([[1.05]]), prior=rates)[0]
        assert is_inside("interval", posterior.points[posterior.weights != 0])
        assert is_inside("interval", model.sample(np.array([[1.05]]), 300, prior=rates))
        mean = float(model.posterior(np.array([[1.05]]), prior=rates).mean()[0, 0])
        assert 0.75 < mean < 1


class Careless:
    """Draws of a rate that do not know that it is one."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def sample(self, x, n):
        return self.rng.normal(x[0, 0], 0.1, (n, 1))


def test_calibration_counts_draws_outside():
    runs, _ = simulated("interval", 100)
    found = check_calibration(Careless(), runs.theta, runs.x, n=100, support=runs.support)
    draws = stats.norm(runs.x[:, 0], 0.1)
    assert found.outside == pytest.approx((draws.sf(1) + draws.cdf(0)).mean(), abs=0.03)
    assert (
        f"A share of {found.outside:.0%} of the draws lies outside the support: theta within 0 to 1."
        in str(found)
    )
    shown = check_calibration(Careless(), runs.theta, runs.x, n=100)  # no support is given: theta shows it
    assert shown.outside == found.outside
    model = mh.LikelihoodFree("rejection").fit(runs)
    ours = check_calibration(model, runs.theta, runs.x)
    assert ours.outside == 0
    assert "No draw lies outside the support." in str(ours)
