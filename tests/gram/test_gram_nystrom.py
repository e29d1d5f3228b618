"""Nyström features: the projection they are, and how good the landmarks are."""

from __future__ import annotations

import numpy as np
import pytest

import muhat as mh
from muhat.gram import landmarks
from muhat.gram.landmarks import kmeanspp_landmarks, leverage_landmarks, uniform_landmarks
from muhat.gram.nystrom import NystromKernel


def clustered(seed: int = 0) -> np.ndarray:
    """One large cluster and many small ones far off: uniform draws miss the small ones."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-20, 20, size=(15, 2))
    small = np.concatenate([c + 0.3 * rng.normal(size=(6, 2)) for c in centres])
    return np.concatenate([0.3 * rng.normal(size=(410, 2)), small])


def relative_error(gram: object, K: np.ndarray) -> float:
    return float(np.trace(K - gram.dense()) / np.trace(K))


def test_the_approximation_is_a_projection_from_below() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    kernel = mh.Gaussian(0.7)
    K = kernel(X)
    gram = mh.Nystrom(15).gram(kernel, X, 0)
    values = np.linalg.eigvalsh(K - gram.dense())
    assert values[0] > -1e-10
    assert values[-1] > 1e-3
    # On the landmarks nothing is lost.
    Z = gram.kernel.landmarks
    np.testing.assert_allclose(gram.kernel(Z, X), kernel(Z, X), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(gram.kernel.diag(Z), kernel.diag(Z), rtol=1e-9)


@pytest.mark.parametrize("landmarks", ["kmeans++", "uniform", "leverage"])
def test_landmarks_are_distinct_rows_of_the_data(landmarks: str) -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    kernel = mh.Nystrom(20, landmarks).fit(mh.Gaussian(0.3), X, 0)
    assert kernel.size == 20
    rows = {tuple(x) for x in X}
    chosen = {tuple(z) for z in kernel.landmarks}
    assert len(chosen) == 20
    assert chosen <= rows


@pytest.mark.parametrize("landmarks", ["kmeans++", "uniform", "leverage"])
def test_the_same_seed_gives_the_same_landmarks(landmarks: str) -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))

    def fit(seed: object) -> np.ndarray:
        return mh.Nystrom(10, landmarks).fit(mh.Gaussian(0.5), X, seed).landmarks

    np.testing.assert_array_equal(fit(3), fit(3))
    np.testing.assert_array_equal(fit(3), fit(np.random.default_rng(3)))
    assert not np.array_equal(np.sort(fit(3), axis=0), np.sort(fit(4), axis=0))


@pytest.mark.parametrize("landmarks", ["kmeans++", "uniform", "leverage"])
def test_error_falls_with_the_number_of_landmarks(landmarks: str) -> None:
    X = clustered()
    kernel = mh.Gaussian(1.0)
    K = kernel(X)
    errors = [
        np.mean([relative_error(mh.Nystrom(p, landmarks).gram(kernel, X, s), K) for s in range(5)])
        for p in (5, 15, 45, 135)
    ]
    assert (np.diff(np.log(errors)) < -0.2).all()
    assert errors[-1] < 0.25 * errors[0]


@pytest.mark.parametrize("landmarks", ["kmeans++", "leverage"])
def test_chosen_landmarks_beat_uniform_ones_on_clusters(landmarks: str) -> None:
    X = clustered()
    kernel = mh.Gaussian(1.0)
    K = kernel(X)

    def error(choice: str) -> float:
        return float(
            np.mean([relative_error(mh.Nystrom(20, choice).gram(kernel, X, s), K) for s in range(12)])
        )

    best = 1 - np.linalg.eigvalsh(K)[-20:].sum() / np.trace(K)
    assert best <= error(landmarks) < 0.7 * error("uniform")


def test_kmeanspp_picks_one_of_each_cluster() -> None:
    X = np.repeat(np.arange(8.0)[:, None] * 100, 30, axis=0) + np.random.default_rng(0).normal(size=(240, 1))
    Z = kmeanspp_landmarks(X, 8, np.random.default_rng(0), mh.Gaussian(20.0))
    assert sorted(np.round(Z[:, 0] / 100)) == list(range(8))


def test_kmeanspp_stops_when_all_is_covered() -> None:
    X = np.repeat(np.eye(3), 10, axis=0)
    Z = kmeanspp_landmarks(X, 12, np.random.default_rng(0), mh.Gaussian(1.0))
    assert len(Z) == 3
    assert {tuple(z) for z in Z} == {tuple(x) for x in np.eye(3)}


def test_landmarks_from_a_subset_of_many_rows() -> None:
    X = np.random.default_rng(0).normal(size=(300, 1))
    for choose in (kmeanspp_landmarks, leverage_landmarks):
        Z = choose(X, 10, np.random.default_rng(0), mh.Gaussian(0.2), rows=50)
        assert Z.shape == (10, 1)
        assert set(Z[:, 0]) <= set(X[:, 0])


def test_leverage_landmarks_follow_the_leverage_scores() -> None:
    # One lonely point among many close together is nearly always taken.
    X = np.concatenate([0.01 * np.random.default_rng(0).normal(size=(200, 1)), [[50.0]]])
    kernel = mh.Gaussian(1.0)
    draws = [leverage_landmarks(X, 5, np.random.default_rng(s), kernel, reg=1e-4).max() for s in range(40)]
    assert np.mean(np.array(draws) == 50.0) > 0.8
    uniform = [uniform_landmarks(X, 5, np.random.default_rng(s)).max() for s in range(40)]
    assert np.mean(np.array(uniform) == 50.0) < 0.2


def test_leverage_scores_are_those_of_the_exact_ridge() -> None:
    # With a sketch of all points, one draw has the probabilities K(K + nλI)⁻¹ on its diagonal.
    X = np.random.default_rng(0).gamma(0.5, size=(12, 1))
    kernel, reg = mh.Gaussian(0.5), 1e-3
    K = kernel(X)
    score = np.diagonal(K @ np.linalg.inv(K + 12 * reg * np.eye(12)))
    seen = []

    class Spy:
        """A generator that remembers the probabilities it is given."""

        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)

        def choice(self, *args: object, **kwargs: object) -> np.ndarray:
            seen.append(kwargs.get("p"))
            return self.rng.choice(*args, **kwargs)

    leverage_landmarks(X, 6, Spy(), kernel, reg=reg)
    np.testing.assert_allclose(seen[-1], score / score.sum(), rtol=1e-6)


def test_weights_on_landmarks() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    kernel = mh.Nystrom(9).fit(mh.Gaussian(0.8), X, 0)
    theta = np.random.default_rng(1).normal(size=(3, kernel.size))
    weights = kernel.landmark_weights(theta)
    direct = kernel.features(X) @ theta.T
    np.testing.assert_allclose(kernel.kernel(X, kernel.landmarks) @ weights.T, direct, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(kernel.landmark_weights(theta[0]), weights[0], rtol=1e-9)


def test_landmarks_that_add_nothing_do_no_harm() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    Z = np.concatenate([X[:6], X[:6], X[:6] + 1e-12])
    kernel = mh.Gaussian(1.0)
    doubled, once = (NystromKernel.fit(kernel, z).features(X) for z in (Z, X[:6]))
    np.testing.assert_allclose(doubled @ doubled.T, once @ once.T, rtol=1e-6, atol=1e-7)


def test_features_of_many_rows_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from muhat import _threads

    X = np.random.default_rng(0).normal(size=(101, 2))
    kernel = mh.Nystrom(7).fit(mh.Gaussian(0.8), X, 0)
    whole = kernel.features(X)
    blocks = _threads.row_blocks
    monkeypatch.setattr(_threads, "row_blocks", lambda n, m, e=1: blocks(n, m, 3 * m))
    np.testing.assert_allclose(kernel.features(X), whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        mh.Linear(0.5),
        mh.Polynomial(2),
        mh.Gaussian(1.0).on(0) * mh.Delta(0.4).on(1),
        mh.Laplace(1.0) + mh.Linear(),
    ],
    ids=repr,
)
def test_nystrom_takes_every_kernel(kernel: mh.Kernel) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=40), rng.integers(0, 3, size=40)])
    gram = mh.Nystrom(40).gram(kernel, X, 0)
    np.testing.assert_allclose(gram.dense(), kernel(X), rtol=1e-7, atol=1e-7)


def test_kmeanspp_chooses_the_same_from_one_gram_as_from_a_pass_per_landmark(monkeypatch) -> None:
    X = np.random.default_rng(3).normal(size=(300, 40))
    whole = kmeanspp_landmarks(X, 30, np.random.default_rng(0), mh.Gaussian(5.0))
    monkeypatch.setattr(landmarks, "WHOLE_ROWS", 299)
    passes = kmeanspp_landmarks(X, 30, np.random.default_rng(0), mh.Gaussian(5.0))
    np.testing.assert_array_equal(whole, passes)
