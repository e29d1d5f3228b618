"""The learned linear filter: against Gaussian conditioning of the whole sequence at once."""

import numpy as np
import pytest
from filter_cases import GIVEN, TEST, X, Z
from numpy.testing import assert_allclose

import muhat as mh
from muhat.operators.filtering import Steps
from muhat.operators.kalman import (
    GaussianState,
    LinearMachine,
    LinearSystem,
    MixedMachine,
    fits,
)

A = 0.9 * np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
SYSTEM = LinearSystem(
    A,
    np.array([0.3, -0.1]),
    np.array([[0.09, 0.02], [0.02, 0.05]]),
    np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]]),
    np.array([1.0, 0.0, -1.0]),
    np.diag([0.2, 0.1, 0.4]),
    np.array([0.5, 0.5]),
    np.array([[0.5, 0.1], [0.1, 0.4]]),
)


def draw(T, seed=0):
    rng = np.random.default_rng(seed)
    s, z, out = SYSTEM, rng.multivariate_normal(SYSTEM.mean, SYSTEM.cov), []
    for _ in range(T):
        out.append(z)
        z = s.A @ z + s.a + rng.multivariate_normal(np.zeros(2), s.Q)
    states = np.array(out)
    return states @ s.H.T + s.h + rng.multivariate_normal(np.zeros(3), s.R, T), states


def joint(x, seen):
    """Mean and covariance of all states given the observations ``seen``, from their joint Gaussian."""
    s, T = SYSTEM, len(x)
    means, cov = [s.mean], np.zeros((2 * T, 2 * T))
    cov[:2, :2] = s.cov
    for t in range(1, T):
        now, last = slice(2 * t, 2 * t + 2), slice(2 * t - 2, 2 * t)
        means.append(s.A @ means[-1] + s.a)
        cov[now, : 2 * t] = s.A @ cov[last, : 2 * t]
        cov[: 2 * t, now] = cov[now, : 2 * t].T
        cov[now, now] = s.A @ cov[last, last] @ s.A.T + s.Q
    mean = np.concatenate(means)
    H = np.zeros((3 * len(seen), 2 * T))
    for i, t in enumerate(seen):
        H[3 * i : 3 * i + 3, 2 * t : 2 * t + 2] = s.H
    gap = x[seen].ravel() - H @ mean - np.tile(s.h, len(seen))
    gain = cov @ H.T @ np.linalg.inv(H @ cov @ H.T + np.kron(np.eye(len(seen)), s.R))
    cov = cov - gain @ H @ cov
    return (mean + gain @ gap).reshape(T, 2), np.array(
        [cov[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] for t in range(T)]
    )


@pytest.mark.parametrize("gap", [(), (2, 3)])
class TestJointGaussian:
    def data(self, gap):
        x = draw(7)[0]
        x[list(gap), 1] = np.nan
        return x, [t for t in range(7) if t not in gap]

    def test_filter(self, gap):
        x, seen = self.data(gap)
        means, covs = SYSTEM.filter(x)
        for t in range(7):
            m, P = joint(x, [s for s in seen if s <= t])
            assert_allclose(means[t], m[t], atol=1e-10)
            assert_allclose(covs[t], P[t], atol=1e-10)

    def test_smoother(self, gap):
        x, seen = self.data(gap)
        for got, expected in zip(SYSTEM.smooth(x), joint(x, seen), strict=True):
            assert_allclose(got, expected, atol=1e-10)


class TestLearn:
    def test_finds_the_system(self):
        x, z = draw(20_000)
        found = LinearSystem.learn(x, z)
        for name in ("A", "a", "Q", "H", "h", "R"):
            assert_allclose(getattr(found, name), getattr(SYSTEM, name), atol=0.03)

    def test_no_step_across_the_end_of_a_sequence(self):
        z = np.r_[0.5 ** np.arange(6), 8 * 0.5 ** np.arange(6)][:, None]
        found = LinearSystem.learn(z, z, Steps.of([6, 6]))
        assert_allclose([found.A[0, 0], found.a[0]], [0.5, 0.0], atol=1e-12)

    def test_sensors_that_copy_one_another_or_stand_still(self):
        x, z = draw(60)
        x = np.c_[x, x[:, 0], np.full(60, 3.0)]
        assert_allclose(
            LinearSystem.learn(x, z).filter(x)[0],
            LinearSystem.learn(x[:, :3], z).filter(x[:, :3])[0],
            atol=1e-3,
        )

    @pytest.mark.parametrize(
        ("n", "d", "k", "enough"), [(30, 1, 2, True), (29, 1, 2, False), (50, 10, 1, False)]
    )
    def test_rows_that_it_needs(self, n, d, k, enough):
        assert fits(n, d, k) is enough


class TestMachine:
    x, z = draw(200)
    machine = LinearMachine.learn(x, z, [120, 80], None)

    @pytest.mark.parametrize("mean", [[0.5, 0.0], [1.5, -1.0], [9.0, 9.0]])
    @pytest.mark.parametrize("scale", [1e-4, 0.1, 1.0])
    def test_weights_have_the_moments_of_the_gaussian(self, mean, scale):
        P = scale * np.array([[1.0, 0.3], [0.3, 0.5]])
        w = self.machine.weights(GaussianState(np.array(mean), P))
        assert_allclose(w.sum(), 1.0, atol=1e-8)
        assert_allclose(w @ self.z, mean, atol=1e-6)
        back = self.machine.at(w)
        assert_allclose(back.mean, mean, atol=1e-6)
        assert_allclose(back.cov, P, atol=1e-6)

    def test_weights_amid_the_points_are_nearly_a_distribution(self):
        w = self.machine.weights(GaussianState(self.z.mean(axis=0), 0.5 * np.cov(self.z.T)))
        assert np.minimum(w, 0).sum() > -0.02

    def test_steps_are_those_of_the_system(self):
        means, covs = self.machine.system.filter(self.x[:5])
        state = GaussianState(self.machine.system.mean, self.machine.system.cov)
        for t, x in enumerate(self.x[:5]):
            state = self.machine.predict(state) if t else state
            step = self.machine.condition(state, (None, x))
            state = step.state
            assert step.met
            assert 0 < step.mass < 1
            assert_allclose(state.mean, means[t])
            assert_allclose(state.cov, covs[t])

    def test_an_observation_from_nowhere_is_passed_over(self):
        state = self.machine.at(np.full(200, 1 / 200))
        step = self.machine.condition(state, (None, np.full(3, 100.0)))
        assert step.state is state
        assert not step.met
        assert step.mass < 1e-8
        longest = max(self.machine.system.longest(part) for part in (self.x[:120], self.x[120:]))
        assert self.machine.longest == longest > 2


def test_a_mixture_is_half_of_each():
    both, kernel, linear = (
        mh.KernelBayesFilter(**GIVEN, method=m).fit(X, Z) for m in ("both", "kernel", "linear")
    )
    assert isinstance(both._machine, MixedMachine)
    parts = [m.filter(TEST) for m in (kernel, linear)]
    assert_allclose(both.filter(TEST).weights, (parts[0].weights + parts[1].weights) / 2, atol=1e-10)
    ahead = [m.forecast(3).weights for m in (kernel, linear)]
    assert_allclose(both.forecast(3).weights, (ahead[0] + ahead[1]) / 2, atol=1e-10)
    for model in (both, kernel, linear):
        model.reg_backward_ = 0.1
    back = [m.smooth(TEST).weights for m in (kernel, linear)]
    assert_allclose(both.smooth(TEST).weights, (back[0] + back[1]) / 2, atol=1e-10)
