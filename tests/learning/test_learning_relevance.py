"""One lengthscale a column, learned by the gradient of the leave-one-out loss."""

import numpy as np
import pytest

import muhat as mh
from muhat.learning.leave_one_out import stretch
from muhat.learning.relevance import _family, leave_one_out_gradient, relevance_multiples


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


FAMILIES = {"gaussian": mh.Gaussian(1.0), "matern": mh.Matern(1.5, 1.0), "laplace": mh.Laplace(1.0)}


def gaps_of(kernel, X, ell):
    """Distances of each column in the units that the family is a function of."""
    power = 1 if isinstance(kernel, mh.Laplace) else 2
    return [(np.abs(X[:, j, None] - X[:, j]) / ell) ** power for j in range(X.shape[1])]


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_the_kernels(name):
    X = np.random.default_rng(0).standard_normal((12, 3))
    kernel = FAMILIES[name]
    K, _ = _family(kernel, sum(gaps_of(kernel, X, 1.0)))
    np.testing.assert_allclose(K, kernel(X), rtol=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_have_the_derivative_of_finite_differences(name):
    s, h = np.linspace(0.05, 9, 50), 1e-6
    _, slope = _family(FAMILIES[name], s)
    above, below = (_family(FAMILIES[name], s + e)[0] for e in (h, -h))
    np.testing.assert_allclose(slope, (above - below) / (2 * h), rtol=1e-6, atol=1e-9)
    assert np.isfinite(_family(FAMILIES[name], np.zeros(3))[1]).all()


def searched_function(monkeypatch, *arguments):
    """The function that the search minimises, and where it starts."""
    import scipy.optimize

    seen = []

    def catch(fun, x0, **options):
        seen.append((fun, x0))
        return scipy.optimize.OptimizeResult(x=x0)

    monkeypatch.setattr(scipy.optimize, "minimize", catch)
    relevance_multiples(*arguments)
    return seen[0]


@pytest.mark.parametrize("fixed_reg", [False, True])
@pytest.mark.parametrize("categories", [0, 2])
@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_of_the_search_equals_finite_differences(monkeypatch, name, categories, fixed_reg):
    rng = np.random.default_rng(0)
    X, F, kernel = rng.standard_normal((25, 2)), rng.standard_normal((25, 3)), FAMILIES[name]
    codes = rng.integers(0, 3, (25, categories))
    differ = [0.7 * (codes[:, j, None] != codes[:, j]) for j in range(categories)]
    arguments = (kernel, gaps_of(kernel, X, 0.8), differ, F, 1e-2, fixed_reg)
    loss, start = searched_function(monkeypatch, *arguments)
    assert len(start) == 2 + categories + 1
    u = start + rng.uniform(-0.5, 0.5, len(start))
    value, gradient = loss(u)
    h = 1e-5
    for j in range(len(u) - fixed_reg):
        step = h * np.eye(len(u))[j]
        expected = (loss(u + step)[0] - loss(u - step)[0]) / (2 * h)
        assert gradient[j] == pytest.approx(expected, rel=1e-5, abs=1e-8)
    if fixed_reg:
        assert gradient[-1] == 0
    # The value is that of the kernel itself with these multiples.
    multiples = np.exp(u[:-1])
    K = stretch(kernel.replace(lengthscale=0.8), multiples[:2])(X)
    for j in range(categories):
        K *= stretch(mh.Delta(np.exp(-0.7)), multiples[[2 + j]])(codes[:, [j]].astype(float))
    assert value == pytest.approx(np.log(leave_one_out_gradient(K, F, 25 * np.exp(u[-1]))[0]), rel=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_multiples_lower_the_loss_and_tell_columns_apart(name):
    rng = np.random.default_rng(0)
    X, kernel = rng.standard_normal((120, 3)), FAMILIES[name]
    F = np.sin(3 * X[:, :1])
    gaps = gaps_of(kernel, X, 2.0)
    multiples = relevance_multiples(kernel, gaps, [], F, 1e-6, fixed_reg=False)
    assert multiples[0] < 1 < 4 < multiples[1:].min()
    assert multiples[0] < multiples[1:].min() / 8

    def least(m):
        K = stretch(kernel.replace(lengthscale=2.0), m)(X)
        return min(leave_one_out_gradient(K, F, 120 * reg)[0] for reg in np.logspace(-9, -1, 9))

    assert least(multiples) < 0.5 * min(least(np.full(3, m)) for m in 2.0 ** np.arange(-4, 3))


def test_a_category_that_says_nothing_is_let_go_and_one_that_does_is_kept():
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((120, 1)), rng.integers(0, 3, (120, 2))
    F = np.sin(2 * X) * np.array([1.0, -1.0, 0.0])[codes[:, :1]] + 0.1 * rng.standard_normal((120, 1))
    differ = [0.5 * (codes[:, j, None] != codes[:, j]) for j in range(2)]
    kernel = FAMILIES["gaussian"]
    multiples = relevance_multiples(kernel, gaps_of(kernel, X, 1.0), differ, F, 1e-3, fixed_reg=False)
    assert multiples[1] < 1 < 8 < multiples[2]


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


def test_categories_have_their_rest_learned():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "a": rng.normal(size=200),
            "c": rng.choice(["x", "y"], 200),
            "b": rng.normal(size=200),
            "e": rng.choice(["u", "v", "w"], 200),
        }
    )
    y = np.sin(2 * table["a"].to_numpy()) * np.where(table["c"] == "x", 1.0, -1.0)
    model = mh.ConditionalMean().fit(table, y)
    numbers, *categories = model.kernel_x_.parts
    assert numbers.columns == (0, 2)
    assert numbers.kernel.lengthscale[1] > 4 * numbers.kernel.lengthscale[0]
    rest = {part.columns: part.kernel.rest for part in categories}
    # Other signs have nothing in common; the last column says nothing.
    assert rest[(1,)] < 0.2 < 0.9 < rest[(3,)] < 1


@pytest.mark.parametrize("seed", range(3))
def test_lengthscales_of_many_columns_do_not_fit_noise(seed):
    """Ten rows a column are few: a lengthscale each would find patterns that are not there."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((150, 12)), rng.standard_normal(150)
    model = mh.ConditionalMean().fit(X, y)
    x, out = rng.standard_normal((3000, 12)), rng.standard_normal(3000)
    loss = np.mean((model.predict(x) - out) ** 2)
    assert loss < 1.05 * np.mean((out - y.mean()) ** 2)
