"""The linear-Gaussian comparison: the Kalman filter is right, and the experiment runs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from papers.xu2022 import kalman


@pytest.mark.parametrize("name", kalman.SYSTEMS)
def test_states_have_variance_one_and_stay_so(name):
    A, Q, _, _ = kalman.SYSTEMS[name]
    assert_allclose(A @ A.T + Q, np.eye(len(A)), atol=1e-12)


@pytest.mark.parametrize("name", kalman.SYSTEMS)
def test_means_are_those_of_the_joint_gaussian(name):
    """Against one big Gaussian of all states and observations, conditioned at once."""
    system = kalman.SYSTEMS[name]
    X, _ = kalman.draw(system, 5, np.random.default_rng(0))
    k, power = len(system.A), [np.eye(len(system.A))]
    for _ in range(4):
        power.append(system.A @ power[-1])
    states = np.block([[power[i - j] if i >= j else power[j - i].T for j in range(5)] for i in range(5)])
    H = np.kron(np.eye(5), system.H)
    means = []
    for t in range(1, 6):
        rows = H[: t * len(system.H)]
        seen = rows @ states @ rows.T + np.kron(np.eye(t), system.R)
        means.append((states @ rows.T @ np.linalg.solve(seen, X[:t].ravel()))[(t - 1) * k : t * k])
    assert_allclose(kalman.kalman(system, X), means, atol=1e-10)


def test_draws_follow_the_system():
    system = kalman.SYSTEMS["plane, half seen"]
    X, Z = kalman.draw(system, 20_000, np.random.default_rng(0))
    moves = Z[1:] - Z[:-1] @ system.A.T
    assert_allclose(np.cov(moves.T), system.Q, atol=0.005)
    assert_allclose(np.var(X - Z @ system.H.T), system.R.item(), rtol=0.05)


def test_summary_pairs_the_runs():
    rows = [
        {
            "system": "line",
            "T": 9,
            "seed": s,
            "filter": f,
            "Kalman": 1.0,
            "no past": 2.0,
            "from Kalman": f - 1,
        }
        for s, f in enumerate((1.1, 1.3))
    ]
    (row,) = kalman.summary(rows)
    assert_allclose([row["excess %"], row["se of that"], row["runs"]], [20, 10 / np.sqrt(2), 2])


@pytest.mark.statistics
def test_runs(tmp_path):
    kalman.run(tmp_path, quick=True)
    assert {path.name for path in tmp_path.iterdir()} == {"kalman.csv", "kalman_runs.csv", "kalman.png"}
