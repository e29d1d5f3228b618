"""Learning a kernel: it finds scales, whatever units and order, and refuses what it cannot learn from."""

import jax
import numpy as np
import pytest

import muhat as mh
from muhat.datasets import gaussian_grid
from muhat.learning.parameters import Parameters
from muhat.learning.problem import Problem, make_problem


def problem_of(X, kernel=None, **options):
    options = {"points": None, "noise": None, "ard": False, **options}
    return make_problem(X, kernel, rng=np.random.default_rng(0), **options)


def test_parameters_go_there_and_back():
    kernel = mh.Gaussian(np.array([1.0, 2.0])) + 3.0 * (mh.RationalQuadratic(0.5, 2.0) * mh.Delta(0.3).on(0))
    parameters = Parameters.of(kernel)
    assert parameters.names == (
        "k1.lengthscale",
        "k2.k1.lengthscale",
        "k2.k1.alpha",
        "k2.scale",
    )
    assert parameters.labels[:2] == ["k1.lengthscale[0]", "k1.lengthscale[1]"]
    values = parameters.vector()
    np.testing.assert_allclose(np.exp(values), [1, 2, 0.5, 2, 3])
    X = np.random.default_rng(0).standard_normal((5, 2))
    np.testing.assert_allclose(parameters.at(values)(X), kernel(X))
    moved = parameters.at(values + np.log([1, 1, 1, 1, 2.0]))
    first = mh.Gaussian(np.array([1.0, 2.0]))(X)
    np.testing.assert_allclose(moved(X) - first, 2 * (kernel(X) - first))


@pytest.mark.slow
def test_the_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) * [1, 5]
    problem = problem_of(X, mh.Gaussian(np.ones(2)) + 0.5 * mh.Gaussian(3.0), points=12)
    both = problem.value_and_grad()
    v = np.append(0.3 * rng.standard_normal(problem.ties.shape[1]), -1.0)
    _, gradient = both(v)
    for i in range(len(v)):
        h = 1e-5 * np.eye(len(v))[i]
        change = (both(v + h)[0] - both(v - h)[0]) / 2e-5
        assert gradient[i] == pytest.approx(change, rel=1e-5, abs=1e-4)


@pytest.mark.slow
def test_one_run_is_one_compilation(monkeypatch):
    traced = []
    original = Problem.log_likelihood
    monkeypatch.setattr(Problem, "log_likelihood", lambda *a: traced.append(1) or original(*a))
    mh.learn_kernel(np.random.default_rng(0).standard_normal((60, 1)))
    assert len(traced) == 1


@pytest.mark.slow
def test_the_scale_of_narrow_modes_is_found():
    rng = np.random.default_rng(0)
    X = rng.choice([-3.0, 3.0], (300, 1)) + 0.1 * rng.standard_normal((300, 1))
    found = mh.learn_kernel(X)
    assert 0.01 < found.kernel.lengthscale < 0.1
    # A maximum: the neighbours are lower.
    problem = problem_of(X)
    best = np.log([found.kernel.lengthscale, found.noise]) - np.append(problem.base, 0)
    value = problem.value_and_grad()
    assert value(best)[0] == pytest.approx(found.log_likelihood, rel=1e-10)
    for step in 0.05 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
        assert value(best + step)[0] < found.log_likelihood


@pytest.mark.slow
def test_neither_units_nor_order_matter():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2)) @ np.array([[1, 0.5], [0, 1]])
    found = mh.learn_kernel(X)
    scale = np.array([1000.0, 0.01])
    np.testing.assert_allclose(
        mh.learn_kernel(X * scale).kernel.lengthscale, found.kernel.lengthscale * scale
    )
    mixed = mh.learn_kernel(X[rng.permutation(150)])
    assert mixed.kernel == found.kernel
    assert mixed.noise == found.noise
    assert mh.learn_kernel(X, random_state=1).kernel != found.kernel


@pytest.mark.slow
def test_isotropic_kernels_scale_too():
    X = np.random.default_rng(0).standard_normal((150, 2))
    for kernel in (mh.Gaussian(), mh.RationalQuadratic()):
        small, large = mh.learn_kernel(X, kernel).kernel, mh.learn_kernel(1000 * X, kernel).kernel
        assert large.lengthscale == pytest.approx(1000 * small.lengthscale, rel=1e-3)


@pytest.mark.slow
def test_columns_are_told_apart():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.choice([-1.0, 1.0], 400) + 0.02 * rng.standard_normal(400), rng.normal(size=400)]
    )
    ell = mh.learn_kernel(X, ard=True).kernel.lengthscale
    sd = X.std(axis=0)
    assert ell[0] / sd[0] < ell[1] / sd[1] / 4


@pytest.mark.slow
def test_a_sum_is_at_least_as_good_as_its_terms():
    """Two equal terms are one, at another noise: the sum can only gain."""
    X = gaussian_grid(50)
    found = mh.learn_kernel(X, mh.Gaussian() + mh.Gaussian())
    first, second = (part.lengthscale for part in found.kernel.parts)
    assert abs(np.log(first / second)) > 0.1
    assert found.log_likelihood > mh.learn_kernel(X, mh.Gaussian()).log_likelihood + 10


@pytest.mark.slow
def test_categories_keep_their_kernel_and_constants_do_not_disturb():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=80), "c": rng.choice(["x", "y", "z"], 80), "one": np.ones(80)})
    table["twice"] = 2 * table["a"]
    found = mh.learn_kernel(table)
    gaussian, delta = found.kernel.parts
    assert delta == mh.Delta(np.exp(-0.5)).on(1)
    assert gaussian.columns == (0, 3)
    assert np.isfinite(found.log_likelihood)
    assert gaussian.kernel.lengthscale[0] < 2


@pytest.mark.slow
def test_a_given_noise_is_kept():
    X = np.random.default_rng(0).standard_normal((100, 1))
    found = mh.learn_kernel(X, mh.Gaussian(1.0), noise=1.0)
    assert found.noise == 1.0
    assert found.starts.shape[1] == 3
    assert (found.starts[:, 2] >= found.starts[:, 1]).all()
    assert found.log_likelihood == found.starts[:, 2].max() >= found.path[:, 1].max()
    np.testing.assert_allclose(found.parameters["lengthscale"], found.kernel.lengthscale)


@pytest.mark.statistics
def test_the_grid_of_gaussians_has_the_scale_of_its_bumps():
    """F16, Fig. 2 (D): the maximum is near 0.85, the median heuristic at 14."""
    X = np.concatenate([gaussian_grid(), gaussian_grid(ratio=2.0, random_state=1)])
    for seed in range(3):
        ell = mh.learn_kernel(X, random_state=seed).kernel.lengthscale
        assert (ell > 0.5).all()
        assert (ell < 1.2).all()
    literal = mh.learn_kernel(X, mh.Gaussian(), noise=1.0, points=90)
    assert literal.kernel.lengthscale == pytest.approx(0.85, abs=0.25)


@pytest.mark.slow
def test_jax_is_left_as_it_was():
    mh.learn_kernel(np.random.default_rng(0).standard_normal((40, 1)))
    assert not jax.config.jax_enable_x64
    assert jax.numpy.ones(2).dtype == np.float32


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"X": np.ones((20, 2))}, ValueError, "no column of numbers that varies"),
        ({"X": np.zeros(5)}, ValueError, "2-dimensional"),
        ({"X": np.full((20, 1), np.nan)}, ValueError, "NaN"),
        ({"X": np.random.default_rng(0).standard_normal((3, 1))}, ValueError, "at least 5"),
        (
            {"X": np.random.default_rng(0).standard_normal((8, 30))},
            ValueError,
            "points must number at least 7",
        ),
        ({"points": 1}, ValueError, "at least 2"),
        ({"points": 29}, ValueError, "leave 2 of its 30 rows"),
        ({"points": np.zeros((1, 2))}, ValueError, "at least 2 rows"),
        ({"points": np.zeros((5, 3))}, ValueError, "points has 3 columns"),
        ({"noise": -1.0}, ValueError, "noise must be positive"),
        ({"noise": "1"}, TypeError, "noise must be a number"),
        ({"kernel": "gauss"}, TypeError, "kernel must be a kernel"),
        ({"kernel": mh.Linear()}, ValueError, "no parameters to learn"),
        ({"kernel": mh.Gaussian(np.ones(3))}, ValueError, "3 entries"),
        ({"starts": 0}, ValueError, "starts must be at least 1"),
        ({"random_state": "x"}, ValueError, "random_state"),
    ],
)
def test_bad_input_is_refused(options, error, match):
    X = options.pop("X", np.random.default_rng(0).standard_normal((30, 2)))
    with pytest.raises(error, match=match):
        mh.learn_kernel(X, **options)


def test_a_table_of_categories_has_nothing_to_learn():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="no lengthscale to learn"):
        mh.learn_kernel(pd.DataFrame({"a": list("xyxyxyxy")}))
