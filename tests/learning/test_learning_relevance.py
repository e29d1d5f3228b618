"""One lengthscale a column, learned by the gradient of the leave-one-out loss."""

import numpy as np
import pytest

import muhat as mh
from muhat.learning.leave_one_out import stretch
from muhat.learning.relevance import leave_one_out_gradient, relevance_multiples


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    return rng.standard_normal((30, 2)), rng.standard_normal((30, 3))


def test_loss_equals_refits_without_each_row(problem):
    X, F = problem
    K, c = mh.Gaussian(1.0)(X), 0.5
    residuals = []
    for i in range(30):
        rest = np.arange(30) != i
        weights = np.linalg.solve(K[np.ix_(rest, rest)] + c * np.eye(29), F[rest])
        residuals.append(F[i] - K[i, rest] @ weights)
    assert leave_one_out_gradient(K, F, c)[0] == pytest.approx(np.mean(np.sum(np.square(residuals), axis=1)))


def test_gradient_equals_finite_differences(problem):
    X, F = problem
    K = mh.Gaussian(1.0)(X)
    D = np.random.default_rng(1).standard_normal((30, 30))
    D, h = D + D.T, 1e-6
    _, in_K, in_c = leave_one_out_gradient(K, F, 0.5)
    along = [leave_one_out_gradient(K + s * h * D, F, 0.5)[0] for s in (1, -1)]
    assert (in_K * D).sum() == pytest.approx((along[0] - along[1]) / (2 * h), rel=1e-6)
    along = [leave_one_out_gradient(K, F, 0.5 + s * h)[0] for s in (1, -1)]
    assert in_c == pytest.approx((along[0] - along[1]) / (2 * h), rel=1e-6)


def test_multiples_lower_the_loss_and_tell_columns_apart():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    F = np.sin(3 * X[:, :1])
    squares = [((X[:, j, None] - X[:, j]) / 2.0) ** 2 for j in range(3)]
    multiples = relevance_multiples(np.ones((200, 200)), squares, F, 1e-6, fixed_reg=False)
    assert multiples[0] < 1 < 8 < multiples[1:].min()


def test_irrelevant_columns_are_found_in_a_fit():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 4))
    y = np.sin(3 * X[:, 2]) + 0.1 * rng.standard_normal(300)
    model = mh.ConditionalMean().fit(X, y)
    ell = model.kernel_x_.lengthscale
    assert ell[2] < ell[[0, 1, 3]].min() / 4
    x = rng.uniform(-1.8, 1.8, (200, 4))
    error = np.sqrt(np.mean((model.predict(x) - np.sin(3 * x[:, 2])) ** 2))
    scale = mh.Gaussian("scaled").resolve(X)
    common = [
        mh.ConditionalMean(stretch(scale, np.full(4, m)), model.kernel_y_).fit(X, y)
        for m in 2.0 ** np.arange(-3, 2)
    ]
    best = min(np.sqrt(np.mean((m.predict(x) - np.sin(3 * x[:, 2])) ** 2)) for m in common)
    assert error < best / 2


def test_categories_keep_their_kernel():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.normal(size=200), "c": rng.choice(["x", "y"], 200), "b": rng.normal(size=200)}
    )
    y = np.sin(2 * table["a"].to_numpy()) * np.where(table["c"] == "x", 1.0, -1.0)
    model = mh.ConditionalMean().fit(table, y)
    gaussian, delta = model.kernel_x_.parts
    assert gaussian.columns == (0, 2)
    assert gaussian.kernel.lengthscale[1] > 4 * gaussian.kernel.lengthscale[0]
    assert delta == mh.Delta(np.exp(-0.5)).on(1)
