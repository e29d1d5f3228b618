"""Which messages to ask about."""

import numpy as np

from muhat.operators.messages import to_ask


def posterior(half, noise, index):
    """Variances after answers at ``index``, by the formula of Gaussian conditioning."""
    C = half.T @ half
    gain = np.linalg.solve(C[np.ix_(index, index)] + noise * np.eye(len(index)), C[index])
    return np.diag(C) - (C[:, index] * gain.T).sum(axis=1)


def test_answers_make_the_rest_sure():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 10, 80))
    half = np.linalg.cholesky(np.exp(-((t[:, None] - t) ** 2)) + 1e-9 * np.eye(80)).T
    asked = to_ask(half, 1e-4, 0.01)
    left = posterior(half, 1e-4, asked)
    others = np.setdiff1d(np.arange(80), asked)
    assert left[others].max() <= 0.01
    assert 5 < len(asked) < 30
    # None of the questions was idle: without the last, one would be unsure.
    assert np.array_equal(asked, np.unique(asked))
    for drop in range(len(asked)):
        fewer = np.delete(asked, drop)
        if posterior(half, 1e-4, fewer).max() > 0.01:
            break
    else:
        raise AssertionError("all questions but one would have been enough")


def test_nobody_is_asked_when_sure_and_each_is_asked_when_alone():
    assert len(to_ask(0.05 * np.eye(4), 0.1, 0.01)) == 0
    np.testing.assert_array_equal(to_ask(np.eye(4), 0.1, 0.01), [0, 1, 2, 3])
    np.testing.assert_array_equal(to_ask(np.diag([1.0, 0.01, 1.0]), 0.1, 0.01), [0, 2])


def test_twins_are_asked_once():
    half = np.repeat(np.eye(3), 5, axis=1)
    assert len(to_ask(half, 1e-6, 0.01)) == 3
