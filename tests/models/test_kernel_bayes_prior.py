"""A prior is what its rows say together: few rows, copies of rows, weights, narrow priors."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.engine import open_rows
from muhat.operators.bayes import RULES


def table(n, rng):
    """A category with three values, told by a noisy category."""
    z = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    chance = {"a": [0.7, 0.2, 0.1], "b": [0.2, 0.6, 0.2], "c": [0.1, 0.3, 0.6]}
    x = np.array([rng.choice(["A", "B", "C"], p=chance[v]) for v in z])
    return pd.DataFrame({"x": x}), pd.DataFrame({"z": z}), chance


RNG = np.random.default_rng(0)
X_TABLE, Z_TABLE, CHANCE = table(600, RNG)
ASKED = pd.DataFrame({"x": ["A", "B", "C"]})


def bayes(prior):
    """Bayes' formula with the frequencies in the pairs, (3 observations, 3 values)."""
    frequency = pd.crosstab(Z_TABLE["z"], X_TABLE["x"], normalize="index").to_numpy()
    joint = np.asarray(prior)[:, None] * frequency
    return (joint / joint.sum(axis=0)).T


def shares(posterior):
    return np.stack([posterior.expect((Z_TABLE["z"] == v).to_numpy().astype(float)) for v in "abc"], axis=1)


@pytest.mark.parametrize("counts", [(1, 1, 8), (2, 5, 3), (1, 9, 0)])
def test_ten_rows_of_categories(counts):
    prior = pd.DataFrame({"z": np.repeat(["a", "b", "c"], counts)})
    found = shares(mh.KernelBayes().fit(X_TABLE, Z_TABLE).posterior(ASKED, prior))
    assert_allclose(found, bayes(np.array(counts) / 10), atol=0.05)


@pytest.mark.parametrize("text", [True, False])
def test_ten_rows_given_a_number(text):
    """Two groups, told by a continuous measurement; the groups named, or numbered 0 and 1."""
    rng = np.random.default_rng(1)
    z = rng.random(400) < 0.5
    x = np.where(z, 1.0, -1.0) + rng.standard_normal(400)
    group = pd.DataFrame({"z": np.where(z, "yes", "no") if text else z.astype(float)})
    prior = pd.DataFrame({"z": (["yes"] if text else [1.0]) + (["no"] if text else [0.0]) * 9})
    at = np.array([-1.0, 0.0, 1.0, 2.0])
    found = mh.KernelBayes().fit(x[:, None], group).posterior(at[:, None], prior).expect(z.astype(float))
    exact = 0.1 * np.exp(2 * at) / (0.1 * np.exp(2 * at) + 0.9)
    assert np.abs(found - exact).max() < 0.12
    assert np.abs(found - exact).mean() < 0.06


def numbers(rng):
    z = rng.uniform(-3, 3, 300)
    return (z + 0.5 * rng.standard_normal(300))[:, None], z


@pytest.mark.parametrize("seed", range(3))
def test_ten_rows_of_numbers(seed):
    rng = np.random.default_rng(seed)
    x, z = numbers(rng)
    prior = rng.normal(1.0, 0.6, 10)
    at = np.array([0.5, 1.0, 1.5])
    found = mh.KernelBayes().fit(x, z).posterior(at[:, None], prior)
    precision = 1 / prior.var() + 4
    exact = (prior.mean() / prior.var() + 4 * at) / precision
    assert_allclose(found.mean()[:, 0], exact, atol=0.4 * precision**-0.5)
    assert_allclose(np.sqrt(found.cov()[:, 0, 0]), precision**-0.5, rtol=0.45)


@pytest.mark.filterwarnings("ignore:rule=")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["categories", "numbers", "whole numbers"])
def test_copies_of_all_rows_change_nothing(rule, kind):
    """Also beyond the rows that the search looks at; in any order."""
    rng = np.random.default_rng(3)
    if kind == "categories":
        X, Z, at = X_TABLE[:200], Z_TABLE[:200], ASKED
        prior = pd.DataFrame({"z": list("aaabbccccc")})
        more = pd.concat([prior] * 60, ignore_index=True)
    else:
        X, z = numbers(rng)
        Z, at = np.round(z) if kind == "whole numbers" else z, np.array([[0.0], [1.0]])
        prior = rng.normal(1.0, 0.6, 12)
        prior = np.round(prior) if kind == "whole numbers" else prior
        more = np.tile(prior, 60)
    model = mh.KernelBayes(rule).fit(X, Z)
    at_z = pd.DataFrame({"z": list("abc")}) if kind == "categories" else np.linspace(-2, 3, 7)[:, None]
    once, often = model.posterior(at, prior), model.posterior(at, more)
    assert_allclose(often(at_z), once(at_z), rtol=1e-5, atol=1e-6)
    a, b = model.choose(prior), model.choose(more)
    assert (a.reg, a.reg_prior, a.kernel_z) == (b.reg, b.reg_prior, b.kernel_z)


def test_weights_are_copies():
    prior = np.array([0.0, 0.5, 1.5])
    X, z = numbers(np.random.default_rng(4))
    model = mh.KernelBayes().fit(X, z)
    rows = model.posterior([[0.5]], np.repeat(prior, [1, 2, 5]))
    weighed = model.posterior([[0.5]], mh.embed(prior[:, None], weights=np.array([1, 2, 5]) / 8))
    assert_allclose(weighed.weights, rows.weights, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("rows", [10, 150, 1000])
def test_a_narrow_prior_is_not_made_wider(rows):
    """Heights given weights, skewed and rounded: the posterior's spread is below that of the prior."""
    rng = np.random.default_rng(5)

    def people(mean, sd, n):
        height = np.round(rng.normal(mean, sd, n), 2)
        y = 0.55 * (height - 1.69) / 0.1 + np.sqrt(1 - 0.55**2) * rng.standard_normal(n)
        return height, 68 * np.exp(0.17 * y)

    height, weight = people(1.69, 0.1, 1500)
    prior = np.round(rng.normal(1.6, 0.04, rows), 2)
    many, heavy = people(prior.mean(), prior.std(), 400_000)
    posterior = mh.KernelBayes().fit(weight[:, None], height).posterior([[58.0], [66.0]], prior)
    for i, at in enumerate((58.0, 66.0)):
        near = many[np.abs(heavy - at) < 1]
        assert abs(posterior.mean()[i, 0] - near.mean()) < 0.25 * near.std()
        assert_allclose(np.sqrt(posterior.cov()[i, 0, 0]), near.std(), rtol=0.15)


def test_pairs_read_in_blocks_keep_the_priors_moments_too(tmp_path):
    X, z = numbers(np.random.default_rng(6))
    prior = np.random.default_rng(7).normal(0.5, 0.5, (40, 1))
    given = {"kernel_x": mh.Gaussian(1.0), "kernel_z": mh.Gaussian(0.7), "reg": 1e-3}
    model = mh.KernelBayes(representation=mh.Nystrom(40), **given)
    here = model.fit(X, z[:, None]).posterior([[0.5], [40.0]], prior)
    sources = []
    for name, part in (("X", X), ("Z", z[:, None])):
        np.save(tmp_path / f"{name}.npy", part)
        sources.append(open_rows(tmp_path / f"{name}.npy"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there = model.fit(*sources).posterior([[0.5], [40.0]], prior)
    assert_allclose(there.mean(), here.mean(), rtol=1e-4)
    assert_allclose(there.cov(), here.cov(), rtol=1e-3)
    # An observation unlike all pairs has the prior's moments.
    assert_allclose(here.mean()[1], prior.mean(), atol=1e-3)
    assert_allclose(here.cov()[1, 0, 0], prior.var(), rtol=0.01)


def test_a_given_regulariser_has_the_plain_ratio():
    X, z = numbers(np.random.default_rng(8))
    given = {"kernel_x": mh.Gaussian(1.0), "kernel_z": mh.Gaussian(0.7), "reg": 1e-3}
    prior = np.random.default_rng(9).normal(0.5, 0.5, 40)
    far = mh.KernelBayes(reg_prior=100.0, **given).fit(X, z).posterior([[40.0]], prior)
    assert_allclose(far.mean()[0], z.mean(), atol=0.05)


@pytest.mark.parametrize(("centre", "beside"), [(0.0, False), (8.0, True), (50.0, True)])
def test_a_prior_beside_the_pairs_is_warned_of(centre, beside):
    rng = np.random.default_rng(0)
    z = rng.uniform(-3, 3, (120, 1))
    model = mh.KernelBayes(reg=1e-2, reg_prior=1e-2).fit(z + 0.5 * rng.normal(size=z.shape), z)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.posterior([[1.0]], centre + 0.5 * rng.normal(size=(60, 1)))
    assert any("of the prior lies far from every z" in str(w.message) for w in said) is beside


def test_a_prior_of_a_category_that_no_pair_has():
    rng = np.random.default_rng(0)
    kind = rng.choice(["p", "q"], 80)
    model = mh.KernelBayes(reg=1e-2, reg_prior=1e-2).fit(
        (kind == "p")[:, None] + 0.3 * rng.normal(size=(80, 1)), pd.DataFrame({"kind": kind})
    )
    with pytest.warns(UserWarning, match="33% of the prior lies far"):
        model.posterior([[1.0]], pd.DataFrame({"kind": ["p", "p", "zz"]}))
