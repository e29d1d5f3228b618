"""NUTS over a kernel's parameters: the known posterior, diagnostics, priors, bad input."""

import sys
import warnings

import jax
import numpy as np
import pytest
from scipy import stats

import muhat as mh
from muhat.learning.problem import Problem, make_problem
from muhat.learning.sample_kernel import _log_prior, effective_size, split_rhat


@pytest.fixture(scope="module")
def sample():
    X = np.random.default_rng(0).standard_normal((40, 1))
    return X, mh.sample_kernel(X, mh.Gaussian(), points=6, samples=500, warmup=200)


def problem_of(X, kernel, points=6, noise=None):
    return make_problem(X, kernel, points, noise, False, np.random.default_rng(0))


@pytest.mark.statistics
def test_the_draws_are_of_the_posterior(sample):
    """Against the posterior on a grid of (log θ, log τ²), normalised by a sum."""
    X, drawn = sample
    problem = problem_of(X, mh.Gaussian())
    np.testing.assert_array_equal(problem.Z, drawn.points)
    log_prior = _log_prior(problem, ["lengthscale", "noise"], {}, False)
    u, t = np.meshgrid(np.linspace(-5, 2, 141), np.linspace(-5, 3, 121), indexing="ij")
    grid = np.stack([u.ravel(), t.ravel()], axis=1)
    with jax.enable_x64(True):
        density = jax.jit(
            lambda V: jax.lax.map(lambda v: problem.log_likelihood(v, problem.X, problem.Z) + log_prior(v), V)
        )
        logs = np.asarray(density(grid))
    p = np.exp(logs - logs.max())
    p /= p.sum()
    assert p.reshape(u.shape)[[0, -1]].sum() + p.reshape(u.shape)[:, [0, -1]].sum() < 1e-3
    found = {"lengthscale": grid[:, 0] + problem.base[0], "noise": grid[:, 1]}
    for name, values in found.items():
        mean, x = p @ values, np.log(drawn.samples[name])
        sd = np.sqrt(p @ (values - mean) ** 2)
        error = sd / np.sqrt(drawn.ess[name])
        assert drawn.ess[name] > 200
        assert x.mean() == pytest.approx(mean, abs=4 * error)
        assert x.std() == pytest.approx(sd, rel=4 / np.sqrt(drawn.ess[name]))
        for q in (0.1, 0.5, 0.9):  # the share of draws below the grid's quantile
            order = np.argsort(values, kind="stable")
            at = values[order][np.searchsorted(np.cumsum(p[order]), q)]
            share = 4 * np.sqrt(q * (1 - q) / drawn.ess[name]) + 0.02
            assert (x <= at).mean() == pytest.approx(q, abs=share)


@pytest.mark.slow
def test_the_result_gives_kernels_and_a_table(sample):
    _, drawn = sample
    assert drawn.samples["lengthscale"].shape == drawn.noise.shape == (4, 500)
    assert max(drawn.rhat.values()) < 1.05
    assert len(drawn.kernels()) == 2000
    pairs = drawn.draws(5)
    assert len(pairs) == len(drawn.kernels(5)) == 5
    assert pairs[0][0].lengthscale == pytest.approx(drawn.samples["lengthscale"][0, 0])
    assert pairs[-1][0].lengthscale == pytest.approx(drawn.samples["lengthscale"][-1, -1])
    assert pairs[-1][1] == pytest.approx(drawn.noise[-1, -1])
    table = repr(drawn)
    assert "4 chains × 500 draws" in table
    assert all(name in table for name in ("lengthscale", "noise", "R̂", "ESS"))


@pytest.mark.slow
def test_one_run_is_one_compilation_and_repeats(monkeypatch):
    X = np.random.default_rng(0).standard_normal((20, 1))
    compiled = []
    original = jax.jit
    monkeypatch.setattr(
        jax,
        "jit",
        lambda f, **k: (compiled.append(f) if "compiler_options" in k else None) or original(f, **k),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short chains may disagree
        runs = [
            mh.sample_kernel(X, mh.Gaussian(), points=4, chains=2, samples=50, warmup=50, noise=1.0)
            for _ in range(2)
        ]
    assert len(compiled) == 2
    np.testing.assert_array_equal(runs[0].samples["lengthscale"], runs[1].samples["lengthscale"])
    assert (runs[0].noise == 1.0).all()
    assert "noise" not in runs[0].samples


def test_priors_are_densities_of_the_parameters():
    X = np.random.default_rng(0).standard_normal((30, 2)) * 10
    problem = problem_of(X, mh.Gaussian(np.ones(2)))
    names = [*problem.names, "noise"]
    v = np.array([0.1, -0.2, 0.5])
    values = np.exp(v + np.append(problem.base, 0))
    with jax.enable_x64(True):
        given = _log_prior(
            problem,
            names,
            {"lengthscale": stats.lognorm(0.7, scale=3.0), "noise": stats.gamma(2, scale=0.5)},
            False,
        )(jax.numpy.array(v))
        raw = _log_prior(problem, names, {}, True)(jax.numpy.array(v))
        median = _log_prior(problem, names, {}, False)(jax.numpy.array(v))
        own = _log_prior(problem, names, {"lengthscale[1]": lambda x: -5 * x}, True)(jax.numpy.array(v))
    jacobian = np.log(values).sum()
    expected = stats.lognorm(0.7, scale=3.0).logpdf(values[:2]).sum() + stats.gamma(2, scale=0.5).logpdf(
        values[2]
    )
    assert float(given) == pytest.approx(expected + jacobian)
    assert float(raw) == pytest.approx(-values.sum() + jacobian)
    assert float(median) == pytest.approx(-np.exp(v).sum() + v.sum())
    assert float(own) == pytest.approx(-values[0] - 5 * values[1] - values[2] + jacobian)


def test_diagnostics_see_agreement_and_disagreement():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 1000))
    assert split_rhat(x) == pytest.approx(1, abs=0.01)
    assert effective_size(x) == pytest.approx(4000, rel=0.15)
    shifted = x + np.arange(4)[:, None]
    assert split_rhat(shifted) > 1.3
    assert effective_size(shifted) < 50
    drift = x + np.linspace(0, 3, 1000)
    assert split_rhat(drift) > 1.2
    # An autoregression of coefficient ρ has (1 − ρ)/(1 + ρ) of the size.
    slow = np.zeros((4, 5000))
    for i in range(1, 5000):
        slow[:, i] = 0.8 * slow[:, i - 1] + rng.standard_normal(4)
    assert effective_size(slow) == pytest.approx(20_000 / 9, rel=0.2)


def test_chains_that_disagree_are_reported(monkeypatch):
    def stuck(problem, log_prior, chains, samples, warmup, rng):
        return rng.standard_normal((chains, samples, 2)) * 0.1 + np.arange(chains)[:, None, None], 0

    # The module, whose name in its package is that of the function.
    monkeypatch.setattr(sys.modules["muhat.learning.sample_kernel"], "_nuts", stuck)
    with pytest.warns(UserWarning, match="chains do not agree: R̂ of .* Raise warmup"):
        mh.sample_kernel(np.random.default_rng(0).standard_normal((20, 1)))


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"priors": {"width": stats.gamma(1)}}, ValueError, r"priors names \['width'\].*lengthscale"),
        ({"priors": {"noise": 1.0}}, TypeError, "frozen distribution"),
        ({"priors": {"noise": stats.invgauss(1.0)}}, ValueError, "invgauss, whose density JAX does not have"),
        ({"chains": 0}, ValueError, "chains must be at least 1"),
        ({"warmup": 3}, ValueError, "warmup must be at least 20"),
        ({"samples": 2.5}, TypeError, "samples must be a whole number"),
        ({"units": "cm"}, ValueError, "units must be one of"),
        ({"noise": 0.0}, ValueError, "noise must be positive"),
        ({"kernel": mh.Linear()}, ValueError, "no parameters to learn"),
    ],
)
def test_bad_input_to_the_sampler_is_refused(options, error, match):
    with pytest.raises(error, match=match):
        mh.sample_kernel(np.random.default_rng(0).standard_normal((30, 1)), **options)


def test_the_problem_knows_the_values_of_its_free_numbers():
    X = np.random.default_rng(0).standard_normal((30, 2)) * [1, 7]
    tied: Problem = problem_of(X, None)
    assert tied.names == ["multiple"]
    kernel = tied.kernel(tied.free(np.array([0.5])))
    np.testing.assert_allclose(kernel.lengthscale, 0.5 * np.exp(tied.base))
    own = problem_of(X, mh.Gaussian(np.ones(2)))
    np.testing.assert_allclose(own.kernel(own.free(np.array([3.0, 4.0]))).lengthscale, [3, 4])
