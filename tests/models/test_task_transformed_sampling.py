"""Parameters of the task-transformed Gaussian process by NUTS."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm

import muhat as mh
from muhat.learning.sample_task import SampledTask, prior, sample_task
from muhat.models.task_transformed_gp import STATES

QUERY = np.linspace(-1.9, 1.9, 25)


def make(seed=1, n=25, m=25):
    """``f(x) = sin 2x`` seen through ``X = 2 sin Y + noise``."""
    rng = np.random.default_rng(seed)
    y, y_task = rng.uniform(-3, 3, n), rng.uniform(-3, 3, m)
    x = 2 * np.sin(y) + 0.2 * rng.normal(size=n)
    z = np.sin(2 * (2 * np.sin(y_task) + 0.2 * rng.normal(size=m))) + 0.1 * rng.normal(size=m)
    return x, y, y_task, z


def fit(seed=1, **arguments):
    return mh.TaskTransformedGP(optimize="sample", **arguments).fit(*make(seed))


@pytest.fixture(scope="module")
def model():
    return fit()


def moments(log_density, grid):
    weights = np.exp(log_density - log_density.max())
    mean = (weights * grid).sum() / weights.sum()
    return mean, np.sqrt((weights * (grid - mean) ** 2).sum() / weights.sum())


def agree(draws, ess, mean, sd):
    """Mean and sd of ``draws`` within four standard errors of those of quadrature."""
    assert abs(draws.mean() - mean) < 4 * sd / np.sqrt(ess)
    assert abs(draws.std() / sd - 1) < 4 / np.sqrt(ess)  # wider than the Gaussian's 1/√(2 ess)


@pytest.mark.statistics
def test_the_noise_alone_agrees_with_quadrature():
    """The density is made by hand, from [HR19, Thm. 5.3]."""
    x, y, y_task, z = make()
    start = mh.TaskTransformedGP(1.0 * mh.Gaussian(0.8), 1.0 * mh.Gaussian(0.6), 0.3, optimize=False)
    problem = start.fit(x, y, y_task, z)._problem()
    problem = replace(problem, free=np.array([name == "noise" for name in problem.labels]))
    draws, found = sample_task(problem, problem.base, 4, 500, 200, np.random.default_rng(0))
    assert found.labels == ["noise"]
    assert_array_equal(draws[..., :-1], np.broadcast_to(problem.base[:-1], draws[..., :-1].shape))
    grid = np.linspace(-4.5, 2.5, 400)
    X, Y, T = (a[:, None] for a in (x, y, y_task))
    kx, ky, density = start.kernel_x_, start.kernel_y_, []
    for log_noise in grid:
        s2 = np.exp(2 * log_noise)
        A = np.linalg.solve(ky(Y) + s2 * np.eye(25), ky(Y, T))
        S = A.T @ kx(X) @ A + ky(T) - ky(T, Y) @ A + s2 * np.eye(25)
        likelihood = multivariate_normal(np.zeros(25), (S + S.T) / 2).logpdf(z)
        density.append(likelihood + norm.logpdf(log_noise, np.log(0.3 * 0.3), 1.5))
    agree(draws[..., -1], found.ess["noise"], *moments(np.array(density), grid))


@pytest.mark.statistics
def test_all_parameters_of_a_plain_process_agree_with_quadrature():
    """Priors are about what the data say: the default kernel, and mean squares of z."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, 25)
    z = np.sin(1.5 * x) + 0.2 * rng.normal(size=25)
    model = mh.TaskTransformedGP(optimize="sample", samples=400).fit_direct(x, z)
    assert [name.split(".")[1][:5] for name in model.labels_[:-1]] == ["lengt", "scale"]
    default = mh.TaskTransformedGP(optimize=False, center=True).fit_direct(x, z)
    size = np.sqrt(np.mean((z - z.mean()) ** 2))
    axes = [
        default.theta_[0] + np.linspace(-4, 4, 60),
        2 * np.log(size) + np.linspace(-4, 4, 45),
        np.log(size) + np.linspace(-5, 1.5, 60),
    ]
    density = np.empty((60, 45, 60))
    for i, log_length in enumerate(axes[0]):
        values, U = np.linalg.eigh(np.exp(-0.5 * (x[:, None] - x) ** 2 / np.exp(2 * log_length)))
        spectrum = np.exp(axes[1])[:, None, None] * np.maximum(values, 0) + np.exp(2 * axes[2])[:, None]
        density[i] = -0.5 * ((U.T @ (z - z.mean())) ** 2 / spectrum + np.log(spectrum)).sum(axis=2)
    density += norm.logpdf(axes[0], default.theta_[0], 1.5)[:, None, None]
    density += norm.logpdf(axes[1], 2 * np.log(size), 1.0)[:, None]
    density += norm.logpdf(axes[2], np.log(0.3 * size), 1.5)
    for i, grid in enumerate(np.meshgrid(*axes, indexing="ij")):
        agree(model.draws_[..., i], model.diagnostics_.ess[model.labels_[i]], *moments(density, grid))


@pytest.mark.slow
class TestModel:
    def test_shapes_and_diagnostics(self, model):
        assert model.draws_.shape == (4, 200, len(model.labels_))
        assert len(model._states) == STATES
        found = model.diagnostics_
        assert isinstance(found, SampledTask)
        assert found.labels == model.labels_
        assert max(found.rhat.values()) < 1.05
        assert min(found.ess.values()) > 100
        assert_allclose(found.mean["noise"], np.exp(model.draws_[..., -1]).mean())
        assert found.divergences <= 8
        assert all(name in repr(found) for name in ("4 chains", "200 draws", "noise", "ESS"))

    def test_predictions_are_mixtures_of_those_at_the_draws(self, model):
        x, y, y_task, z = make()
        draws, problem = model.draws_.reshape(-1, model.draws_.shape[-1]), model._problem()
        rows = np.linspace(0, len(draws) - 1, STATES).round().astype(int)
        means, covs, tasks = [], [], []
        for theta in draws[rows]:
            kx, ky, variance = problem.kernels(theta)
            one = mh.TaskTransformedGP(kx, ky, float(np.sqrt(variance)), optimize=False, center=True)
            mean, cov = one.fit(x, y, y_task, z).predict(QUERY, return_cov=True)
            means.append(mean)
            covs.append(cov)
            tasks.append(one.predict_task(QUERY))
        mean, cov = model.predict(QUERY, return_cov=True)
        assert_allclose(mean, np.mean(means, axis=0), atol=1e-10)
        assert_allclose(cov, np.mean(covs, axis=0) + np.cov(np.array(means).T, bias=True), atol=1e-10)
        assert_allclose(model.predict(QUERY, return_std=True)[1] ** 2, np.diagonal(cov), atol=1e-10)
        assert_allclose(model.predict(QUERY), mean, atol=1e-12)
        assert_allclose(model.predict_task(QUERY), np.mean(tasks, axis=0), atol=1e-10)

    def test_functions_are_drawn_from_the_mixture(self, model):
        mean, cov = model.predict(QUERY, return_cov=True)
        drawn = model.sample(QUERY, 20_000, random_state=0)
        sd = np.sqrt(np.diagonal(cov))
        assert drawn.shape == (20_000, len(QUERY))
        assert np.abs(drawn.mean(axis=0) - mean).max() < 5 * sd.max() / np.sqrt(20_000)
        assert np.abs(np.cov(drawn.T) - cov).max() < 0.06 * cov.max()
        assert_array_equal(model.sample(QUERY, 5, random_state=3), model.sample(QUERY, 5, random_state=3))

    def test_near_the_maximum(self, model):
        best = mh.TaskTransformedGP().fit(*make())
        assert_array_equal(model.theta_, best.theta_)
        assert model.log_marginal_likelihood_ == best.log_marginal_likelihood_
        mean, spread = best.predict(QUERY, return_std=True)
        assert np.abs(model.predict(QUERY) - mean).mean() < spread.mean()

    def test_seeds(self, model):
        assert_array_equal(fit().draws_, model.draws_)
        assert np.abs(fit(random_state=1).draws_ - model.draws_).max() > 0.01

    def test_save_and_load(self, model, tmp_path):
        mh.save(model, tmp_path / "model.mh")
        back = mh.load(tmp_path / "model.mh")
        assert_array_equal(back.draws_, model.draws_)
        assert repr(back.diagnostics_) == repr(model.diagnostics_)
        for ask in (model.predict, model.predict_task):
            again = getattr(back, ask.__name__)(QUERY, return_std=True)
            assert_allclose(again, ask(QUERY, return_std=True), rtol=1e-10)

    def test_chains_that_disagree_warn(self):
        with pytest.warns(UserWarning, match="The chains do not agree: R̂ of .* Raise warmup and samples"):
            fit(samples=4, warmup=20)

    @pytest.mark.statistics
    @pytest.mark.parametrize("arguments", [{"inducing": 4}, {"representation": mh.Nystrom(10)}])
    def test_inducing_points_and_features(self, arguments):
        rng = np.random.default_rng(0)
        x = rng.uniform(-3, 3, 60)
        z = np.sin(x) + 0.2 * rng.normal(size=60)
        model = mh.TaskTransformedGP(optimize="sample", **arguments).fit_direct(x, z)
        best = mh.TaskTransformedGP(**arguments).fit_direct(x, z)
        assert_array_equal(model.X_, best.X_)  # inducing points stay
        assert np.abs(model.predict(QUERY) - np.sin(QUERY)).max() < 0.35
        assert abs(model.diagnostics_.mean["noise"] - 0.2) < 0.06


def test_priors_are_about_the_start():
    problem = mh.TaskTransformedGP(optimize=False).fit(*make())._problem()
    mean, sd = prior(problem)
    assert_allclose(mean, [0, 0, 0, 0, np.log(0.3)])
    assert_allclose(sd, [1.5, 1, 1.5, 1, 1.5])


def test_without_sampling_there_are_no_draws():
    model = mh.TaskTransformedGP(optimize=False).fit(*make())
    assert model.draws_ is None
    assert model.diagnostics_ is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"optimize": "nuts"}, "optimize must be"),
        ({"chains": 0}, "chains must be"),
        ({"samples": 3}, "samples must be"),
        ({"warmup": 5}, "warmup must be"),
        ({"samples": 10.5}, "samples must be"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        mh.TaskTransformedGP(**{"optimize": "sample", **arguments}).fit(*make())


def test_nothing_to_sample():
    problem = mh.TaskTransformedGP(optimize=False).fit(*make())._problem()
    problem = replace(problem, free=np.zeros_like(problem.free))
    with pytest.raises(ValueError, match="nothing to sample"):
        sample_task(problem, problem.base, 2, 10, 20, np.random.default_rng(0))
