"""Bayes' rules learn: on Gaussians their means approach the closed form as n grows, whatever the prior."""

import warnings

import numpy as np
import pytest

import muhat as mh

pytestmark = pytest.mark.statistics

# Z ~ N(0, 1.5²) in the pairs, X = Z + N(0, .5²); prior N(.7, .5²): E[Z | x] = .35 + x/2.
QUERY = np.linspace(-0.3, 1.7, 21)[:, None]
MEAN = 0.35 + QUERY / 2


def draw(n, seed):
    rng = np.random.default_rng([n, seed])
    z = 1.5 * rng.standard_normal((n, 1))
    return z + 0.5 * rng.standard_normal((n, 1)), z, 0.5 * rng.standard_normal((n, 1)) + 0.7


def error(rule, n, prior=True, runs=4, **arguments):
    squares = []
    for seed in range(runs):
        X, Z, P = draw(n, seed)
        mu = mh.KernelBayes(rule, **arguments).fit(X, Z).posterior(QUERY, P if prior else None)
        squares.append(np.mean((mu.normalize().mean() - MEAN) ** 2))
    return np.sqrt(np.mean(squares))


@pytest.mark.parametrize("rule", ["importance", "kbr_a", "kbr_b"])
def test_posterior_means_approach_the_closed_form(rule):
    errors = [error(rule, n) for n in (50, 200, 800)]
    assert errors[0] > 1.5 * errors[1] > 1.8 * errors[2]
    assert errors[2] < 0.06
    # Without the prior it would be E[Z | x] = .9 x.
    assert error("importance", 200, prior=False) > 3 * errors[1]


@pytest.mark.parametrize("rule", ["importance", "kbr_a", "kbr_b"])
def test_and_so_do_those_in_features(rule):
    assert error(rule, 800, runs=2, representation=mh.Nystrom(100)) < 0.08


def test_posterior_quantiles_approach_the_closed_form():
    """The posterior is N(.35 + x/2, 1/8)."""
    X, Z, P = draw(1000, 0)
    mu = mh.KernelBayes().fit(X, Z).posterior(QUERY, P)
    spread = mu.quantile(0.84)[:, 0] - mu.quantile(0.16)[:, 0]
    assert abs(np.median(spread) / (2 * 0.9945 * np.sqrt(1 / 8)) - 1) < 0.2


def test_deconditional_departs_under_noise_and_not_without():
    """X = Z + 0.5 ε, standard normal prior: E[Z | x = 1] = .80, the rule says .94–1.06; X = sinh Z: exact."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((1000, 1))
    arguments = {"kernel_x": mh.Gaussian(1.0), "kernel_z": mh.Gaussian(1.0), "reg": 1e-4, "reg_prior": 1e-4}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message='rule="deconditional" is Bayes')
        model = mh.KernelBayes("deconditional", **arguments)
        noisy = model.fit(z + 0.5 * rng.standard_normal((1000, 1)), z).posterior([[1.0]]).mean().item()
        exact = model.fit(np.sinh(z), z).posterior(np.sinh([[0.8], [-0.5]])).mean()[:, 0]
    assert 0.9 < noisy < 1.1
    np.testing.assert_allclose(exact, [0.8, -0.5], atol=0.05)
    # The default rule, whose mean at one n of 1 000 has a standard deviation of about .05.
    means = []
    for _ in range(10):
        z = rng.standard_normal((1000, 1))
        model = mh.KernelBayes(**arguments).fit(z + 0.5 * rng.standard_normal((1000, 1)), z)
        means.append(model.posterior([[1.0]]).mean().item())
    assert abs(np.mean(means) - 0.8) < 0.06


@pytest.mark.parametrize("method", ["kulsif", "ulsif", "rulsif"])
def test_density_ratios_converge(method):
    grid = np.linspace(-0.5, 1.9, 30)[:, None]
    ratio = np.exp(-((grid - 0.7) ** 2) / 0.5 + grid**2 / 4.5) * 3.0
    if method == "rulsif":
        ratio = ratio / (0.1 * ratio + 0.9)
    errors = []
    for n in (100, 400, 1600):
        each = []
        for seed in range(4):
            _, Z, P = draw(n, seed)
            each.append(np.mean((mh.DensityRatio(method).fit(P, Z).predict(grid) - ratio[:, 0]) ** 2))
        errors.append(np.sqrt(np.mean(each)) / ratio.mean())
    assert errors[0] > 1.2 * errors[1] > 1.44 * errors[2]
    assert errors[2] < 0.15
