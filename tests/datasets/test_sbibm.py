"""Simulators have the posterior that is said of them; the reference files are read and checked."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp

from muhat import datasets
from muhat.datasets.simulators import SIMULATORS, TIMES, lotka_volterra_path

FOLDER = os.environ.get("MUHAT_DATA", "")
TASKS = ("two_moons", "gaussian_mixture", "gaussian_linear", "lotka_volterra")


def needs(name):
    there = bool(FOLDER) and (Path(FOLDER) / f"sbibm_{name}.npz").is_file()
    return pytest.mark.skipif(not there, reason=f"needs sbibm_{name}.npz in the folder MUHAT_DATA")


@pytest.mark.parametrize("name", SIMULATORS)
def test_rows_seeds_and_single_parameters(name):
    task = datasets.simulator(name)
    theta = task.prior(50, 3)
    assert theta.shape == (50, len(task.parameters))
    x = task(theta, 4)
    np.testing.assert_array_equal(x, task.simulate(theta, np.random.default_rng(4)))
    assert not np.array_equal(x, task(theta, 5))
    np.testing.assert_array_equal(task(theta[0], 1), task(theta[:1], 1)[0])
    with pytest.raises(ValueError, match="columns"):
        task(np.ones((3, 7)))


def test_exponential_gamma_has_its_posterior():
    task = datasets.simulator("exponential_gamma")
    theta = task.prior(400_000, 0)
    x = task.simulate(theta, 1)
    assert stats.kstest(theta[:5000, 0], stats.gamma(2, scale=2).cdf).pvalue > 0.001
    # The mean of 15 draws, drawn one by one.
    one_by_one = np.random.default_rng(2).exponential(1 / 3, (5000, 15)).mean(axis=1)
    assert stats.ks_2samp(task.simulate(np.full((5000, 1), 3.0), 3)[:, 0], one_by_one).pvalue > 0.001
    near = theta[np.abs(x[:, 0] - 0.4) < 0.004, 0]
    exact = datasets.exponential_gamma_posterior(0.4)
    assert exact.mean() == pytest.approx(17 / (0.5 + 15 * 0.4))
    assert len(near) > 500
    assert stats.kstest(near, exact.cdf).pvalue > 0.001


@pytest.mark.slow
def test_lotka_volterra_solves_its_equations():
    theta = datasets.simulator("lotka_volterra").prior(30, 0)
    path = lotka_volterra_path(theta)
    for (a, b, c, d), found in zip(theta, path, strict=True):
        exact = solve_ivp(
            lambda t, u, a=a, b=b, c=c, d=d: [a * u[0] - b * u[0] * u[1], d * u[0] * u[1] - c * u[1]],
            (0, 19),
            [30.0, 1.0],
            t_eval=TIMES,
            rtol=1e-10,
            atol=1e-12,
        )
        np.testing.assert_allclose(np.exp(found), exact.y, rtol=1e-4)


def log_posterior(name, theta, x):
    """Up to a constant, at rows of θ."""
    if name == "lotka_volterra":
        task_mean = np.array([-0.125, -3.0, -0.125, -3.0])
        residual = np.log(x) - lotka_volterra_path(theta).reshape(len(theta), -1)
        prior = -0.5 * (((np.log(theta) - task_mean) / 0.5) ** 2).sum(axis=1) - np.log(theta).sum(axis=1)
        return prior - 0.5 * (residual**2).sum(axis=1) / 0.01
    squares = ((theta - x) ** 2).sum(axis=1)
    if name == "gaussian_linear":
        return -0.5 * squares / 0.1 - 0.5 * (theta**2).sum(axis=1) / 0.1
    inside = (np.abs(theta) < 10).all(axis=1)
    wide, narrow = -0.5 * squares - np.log(2), -0.5 * squares / 0.01 - np.log(2) - 2 * np.log(0.1)
    return np.where(inside, np.logaddexp(wide, narrow), -np.inf)


SLOW = {"lotka_volterra": [pytest.mark.slow]}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[needs(name), *SLOW.get(name, [])]) for name in TASKS]
)
def test_reference_samples_are_of_our_simulators(name):
    found = datasets.sbibm(name)
    p = len(datasets.simulator(name).parameters)
    assert found.theta.shape == (10, p)
    assert found.reference.shape == (10, 2000, p)
    rng = np.random.default_rng(0)
    for x, reference in zip(found.x, found.reference, strict=True):
        if name == "two_moons":
            # x minus the crescent's centre must lie on a half ring of radius 0.1 ± 0.01, both moons alike.
            centre = np.stack(
                [-np.abs(reference.sum(axis=1)), reference[:, 1] - reference[:, 0]], axis=1
            ) / np.sqrt(2)
            ring = x - centre - [0.25, 0]
            if np.abs(reference).max() < 0.99:  # else the prior cuts a part of the ring off
                assert stats.kstest((np.hypot(*ring.T) - 0.1) / 0.01, "norm").pvalue > 1e-4
                assert stats.kstest(np.arctan2(*ring.T[::-1]) / np.pi + 0.5, "uniform").pvalue > 1e-4
            assert (ring[:, 0] > -1e-6).all()
            assert 0.4 < (reference.sum(axis=1) > 0).mean() < 0.6
            continue
        # Metropolis steps from our density leave the samples as they are.
        state, value = reference.copy(), log_posterior(name, reference, x)
        step = 0.5 * np.cov(reference.T)
        for _ in range(30):
            proposal = state + rng.multivariate_normal(np.zeros(p), step, len(state))
            proposal = np.where(proposal > 0, proposal, state) if name == "lotka_volterra" else proposal
            new = log_posterior(name, proposal, x)
            accept = np.log(rng.random(len(state))) < new - value
            state[accept], value[accept] = proposal[accept], new[accept]
        for j in range(p):
            assert stats.ks_2samp(state[:, j], reference[:, j]).pvalue > 1e-5
        if name == "lotka_volterra":
            break  # ten would take a minute


@needs("two_moons")
def test_two_moons_data_come_from_the_simulator():
    """True parameters of other tasks' observations: simulated data look like those observed."""
    found = datasets.sbibm("two_moons")
    x = datasets.simulator("two_moons").simulate(np.repeat(found.theta, 200, axis=0), 0).reshape(10, 200, 2)
    nearest = np.linalg.norm(x - found.x[:, None], axis=-1).min(axis=1)
    assert (nearest < 0.05).all()


def test_what_is_unknown_or_absent_is_refused(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="two_moons"):
        datasets.sbibm("slcp")
    with pytest.raises(ValueError, match="exponential_gamma"):
        datasets.simulator("slcp")
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    with pytest.raises(datasets.DataNotFound, match=r"sbibm_two_moons\.npz"):
        datasets.sbibm("two_moons")
    zeros = {"true_parameters": (10, 2), "observation": (10, 2), "reference_samples": (10, 2000, 2)}
    np.savez(tmp_path / "sbibm_two_moons.npz", **{name: np.zeros(shape) for name, shape in zeros.items()})
    with pytest.raises(ValueError, match="checksum"):
        datasets.sbibm("two_moons")
