"""The conditional mean learns: errors fall with n, distributions are calibrated, laws of probability hold."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import muhat as mh

pytestmark = pytest.mark.statistics


def draw(n, seed):
    """Y | x ~ N(sin 2x, (.1 + .2 |x|)²)."""
    rng = np.random.default_rng([n, seed])
    x = rng.uniform(-2, 2, (n, 1))
    return x, np.sin(2 * x) + (0.1 + 0.2 * np.abs(x)) * rng.standard_normal((n, 1))


QUERY = np.linspace(-1.8, 1.8, 61)[:, None]
MEAN, SD = np.sin(2 * QUERY), 0.1 + 0.2 * np.abs(QUERY)


@pytest.mark.parametrize("representation", [None, mh.Nystrom(60)])
def test_error_of_the_mean_falls_with_n(representation):
    sizes = (50, 200, 800)
    errors = []
    for n in sizes:
        models = [mh.ConditionalMean(representation=representation).fit(*draw(n, seed)) for seed in range(4)]
        errors.append(np.sqrt(np.mean([(model.predict(QUERY) - MEAN) ** 2 for model in models])))
    assert errors[0] > 1.4 * errors[1] > 1.96 * errors[2]
    assert errors[2] < 0.06


def test_error_in_the_rkhs_falls_with_n():
    kernel = mh.Gaussian(0.5)
    # ‖μ_{Y|x}‖² and μ_{Y|x}(y) of a normal are known.
    square = 1 / np.sqrt(1 + 2 * (SD[:, 0] / 0.5) ** 2)
    errors = []
    for n in (100, 400, 1600):
        mu = mh.ConditionalMean(kernel_y=kernel).fit(*draw(n, 0)).at(QUERY)
        at = np.stack([kernel.gaussian_embedding(mu.points, m, s**2) for m, s in zip(MEAN, SD, strict=True)])
        errors.append(np.mean(mu.norm() ** 2 - 2 * (mu.weights * at).sum(axis=1) + square))
    assert errors[0] > 1.8 * errors[1] > 3.24 * errors[2] > 0


def test_quantiles_are_calibrated():
    model = mh.ConditionalMean().fit(*draw(1500, 0))
    x, y = draw(3000, 1)
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    below = (y <= model.at(x).quantile(levels)[:, :, 0]).mean(axis=0)
    assert_allclose(below, levels, atol=0.05)


def test_probabilities_of_events():
    model = mh.ConditionalMean().fit(*draw(1500, 0))
    above = model.expect(lambda y: y[:, 0] > 0.5, QUERY)
    assert np.abs(above - norm.sf(0.5, MEAN, SD)[:, 0]).mean() < 0.05


def test_sum_rule_gives_the_marginal():
    x, y = draw(1500, 0)
    model = mh.ConditionalMean().fit(x, y)
    new = np.random.default_rng(5).normal(0.5, 0.3, (4000, 1))
    pushed = model.push(mh.embed(new, model.kernel_x_))
    truth = np.sin(2 * new) + (0.1 + 0.2 * np.abs(new)) * np.random.default_rng(6).standard_normal((4000, 1))
    assert_allclose(pushed.mean(), truth.mean(axis=0), atol=0.03)  # about two standard errors
    assert_allclose(
        pushed.simplex().quantile([0.1, 0.5, 0.9]), np.quantile(truth, [0.1, 0.5, 0.9])[:, None], atol=0.06
    )


def test_chain_rule_gives_joint_moments():
    x, y = draw(1500, 0)
    model = mh.ConditionalMean().fit(x, y)
    joint = model.chain(mh.embed(x, model.kernel_x_))
    assert_allclose(joint.expect(lambda z: z[:, 0] * z[:, 1]), np.mean(x * y), atol=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_automatic_choice_is_near_the_best_on_new_data(seed):
    x, y = draw(300, seed)
    test = draw(1000, seed + 100)
    chosen = mh.ConditionalMean().fit(x, y).score(*test)
    scale = np.std(x)
    scores = [
        mh.ConditionalMean(mh.Gaussian(ell * scale), reg=reg).fit(x, y).score(*test)
        for ell in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
        for reg in 10.0 ** np.arange(-8, 1)
    ]
    assert chosen > max(scores) - 0.02
    # Centred outputs are forgiving: half of the grid is as good.
    assert chosen > np.quantile(scores, 0.25) + 0.02
