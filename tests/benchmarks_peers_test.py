"""The comparisons with other packages: their data, their yardsticks, their verdicts."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks import power
from benchmarks.peers import bare
from benchmarks.peers.limits import limits
from benchmarks.peers.packages import NotInstalled, peer
from benchmarks.peers.testing import SKELETON, missing_and_extra
from benchmarks.peers.timing import Timing

_SCENARIOS = [s for s in power.SCENARIOS if s.draw is not power.ozone or power.ozone_file().is_file()]


@pytest.mark.parametrize("scenario", _SCENARIOS, ids=lambda s: s.name)
def test_a_scenario_is_a_function_of_its_seed(scenario: power.Scenario):
    x, y = scenario.sample(3)
    assert x.shape == y.shape == (scenario.n, x.shape[1])
    assert all(map(np.array_equal, scenario.sample(3), (x, y)))
    assert not np.array_equal(scenario.sample(4)[0], x)


def test_the_grid_has_the_eigenvalues_and_the_strata_it_says():
    x, y = power.grid(4.0, 90_000, np.random.default_rng(0), stratified=True)
    cells = np.clip(np.round(y / 10.0), 0.0, 2.0)
    assert np.abs(np.unique(cells, axis=0, return_counts=True)[1] - 10_000).max() < 30
    np.testing.assert_allclose(np.linalg.eigvalsh(np.cov((y - 10 * cells).T)), [1.0, 4.0], rtol=0.05)
    np.testing.assert_allclose(np.cov((y - 10 * cells).T)[0, 1], 1.5, rtol=0.05)  # rotated by 45°
    np.testing.assert_allclose(np.cov((x - 10 * np.clip(np.round(x / 10), 0, 2)).T), np.eye(2), atol=0.03)


def test_tails_and_correlations_leave_the_variances_at_one():
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(power.tail(6.0, 100_000, rng, d=2)[1].var(axis=0), 1.0, rtol=0.05)
    y = power.correlation(0.3, 100_000, rng, d=3)[1]
    np.testing.assert_allclose(np.cov(y.T), 0.7 * np.eye(3) + 0.3, atol=0.02)


def test_a_mixture_uses_no_row_twice():
    first, second = np.arange(40.0)[:, None], np.arange(40.0, 80.0)[:, None]
    x, y = power._mixed(first, second, 0.5, 20, np.random.default_rng(0))
    assert len(np.unique(np.concatenate([x, y]))) == 40
    assert x.max() < 40 <= y.max()


def test_the_default_is_behind_only_beyond_chance():
    scenario = power.SCENARIOS[0]

    def rates(ours: int) -> list[power.Rate]:
        counts = {"ours": ours, "MMDAgg": 40, "MMD-FUSE": 60}
        return [power.Rate(scenario, name, count, 100) for name, count in counts.items()]

    assert not power.shortfalls(rates(52))
    assert power.shortfalls(rates(40)) == [f"{scenario.name}: 0.40, MMD-FUSE 0.60"]


def test_the_bare_test_is_the_biased_mmd():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 30, 3))
    z = np.concatenate([x, y])
    K = np.exp(-((z[:, None] - z) ** 2).sum(-1) / (2 * 1.5**2))
    expected = K[:30, :30].mean() + K[30:, 30:].mean() - 2 * K[:30, 30:].mean()
    H = bare.signs(30, 30, 5, rng)
    np.testing.assert_allclose(bare.quadratic_forms(np.float32(z), H, 1.5)[0] / 900, expected, rtol=1e-4)
    np.testing.assert_array_equal(H.sum(axis=0), 0.0)
    assert bare.mmd_test(x, y + 2.0, 1.5, 99, 0) == 0.01


def test_the_compiled_loop_is_the_trace():
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    K, L = (np.float32(a @ a.T) for a in rng.standard_normal((2, 20, 4)))
    orders = np.int32([rng.permutation(20) for _ in range(3)])
    expected = [np.sum(K * L[np.ix_(p, p)]) for p in orders]
    np.testing.assert_allclose(bare.compiled_traces()(K, L, orders), expected, rtol=1e-4)


def test_a_missing_peer_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mmdagg", None)  # as if not installed
    with pytest.raises(NotInstalled, match=r"mmdagg not installed.*antoninschrab/mmdagg"):
        peer("mmdagg.jax")


def test_a_limit_is_missed_when_ours_is_slow_cold_or_warm():
    theirs = Timing("mmd", 1000, "bare arithmetic", cold=0.2, warm=0.1, memory=1e8)

    def verdicts(cold: float, warm: float) -> list[bool]:
        ours = Timing("mmd", 1000, "ours", cold=cold, warm=warm, memory=1e8)
        return [f.holds for f in limits([ours, theirs])]

    assert verdicts(cold=0.29, warm=0.14) == [True, True]
    assert verdicts(cold=0.31, warm=0.16) == [False, False]
    failed = Timing("mmd", 1000, "ours", reason="failed: …")
    assert limits([failed, theirs]) == []


def test_edges_are_counted_either_way_round():
    adjacency = np.zeros((6, 6))
    for k, (i, j) in enumerate(SKELETON[1:]):
        adjacency[(i, j) if k % 2 else (j, i)] = -1
    adjacency[0, 5] = 1
    assert missing_and_extra(adjacency) == pytest.approx(1.01)
