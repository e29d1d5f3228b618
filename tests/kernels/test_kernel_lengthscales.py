"""Lengthscales from the data: ``"median"`` and ``"scaled"``."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import muhat as mh
from muhat.kernels import median

FAMILIES = [
    mh.Gaussian(),
    mh.Laplace(),
    mh.Laplace(norm=2),
    mh.Matern(0.5),
    mh.Matern(1.5),
    mh.Matern(2.5),
    mh.Matern(3.5),
    mh.RationalQuadratic(),
    mh.RationalQuadratic(alpha=0.3),
    mh.Cauchy(),
    mh.InverseMultiquadric(),
    mh.InverseMultiquadric(beta=2.0),
]


def data(n: int = 80, d: int = 4) -> np.ndarray:
    return np.random.default_rng(0).gamma(2.0, size=(n, d)) * np.array([1.0, 5.0, 0.1, 2.0])[:d]


def test_gaussian_median_is_the_median_distance() -> None:
    X = data()
    i, j = np.triu_indices(len(X), 1)
    assert mh.Gaussian("median").resolve(X).lengthscale == pytest.approx(
        np.median(np.linalg.norm(X[i] - X[j], axis=1)), rel=1e-13
    )


LINES = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "far out": lambda rng, n: rng.standard_cauchy(n),
    "rounded": lambda rng, n: rng.standard_normal(n).round(1),
    "few values": lambda rng, n: rng.integers(0, 3, n),
    "mostly one": lambda rng, n: np.concatenate([np.full(n, 7.0), rng.standard_normal(2)]),
    "far from zero": lambda rng, n: 1e6 + rng.standard_normal(n),
}


@pytest.mark.parametrize("n", [2, 3, 7, 40, 700])
@pytest.mark.parametrize("law", LINES)
def test_median_on_a_line_is_that_of_all_distances(law: str, n: int) -> None:
    for seed in range(5):
        X = np.asarray(LINES[law](np.random.default_rng(seed), n), dtype=np.float64)[:, None]
        distances = pdist(X)
        if not distances.any():
            continue
        middle = np.median(distances)
        expected = middle if middle > 0 else np.median(distances[distances > 0])
        assert median.median_distance(X) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kernel", FAMILIES, ids=repr)
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_every_family_is_e_to_minus_one_half_at_the_median(kernel: mh.Kernel, scale: float) -> None:
    X = scale * data()
    typical = np.median(pdist(X, kernel._metric))
    at_median = np.zeros((2, 4))
    at_median[1, 0] = typical
    K = kernel.resolve(X)(at_median)
    assert K[0, 1] == pytest.approx(np.exp(-0.5), rel=1e-10)
    np.testing.assert_allclose(kernel.gram(X), kernel.gram(data()), rtol=1e-9)


@pytest.mark.parametrize("kernel", FAMILIES, ids=repr)
def test_scaled_is_the_median_after_standardising(kernel: mh.Kernel) -> None:
    X = data()
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    scaled = kernel.replace(lengthscale="scaled")
    np.testing.assert_allclose(scaled.gram(X), kernel.gram(standard), rtol=1e-10)
    # Units of single columns do not matter.
    np.testing.assert_allclose(
        scaled.gram(X * [1e8, 1e-8, 3.0, 1.0] + [0, 1, 1e3, -5]), scaled.gram(X), rtol=1e-6
    )


def test_scaled_leaves_constant_columns_out_of_account() -> None:
    X = data()
    with_constant = np.column_stack([X, np.full(len(X), 0.1)])  # whose mean is off by rounding
    kernel = mh.Gaussian("scaled")
    np.testing.assert_allclose(kernel.gram(with_constant), kernel.gram(X), rtol=1e-12)
    assert kernel.resolve(with_constant).lengthscale[4] > 0.1


def test_median_of_many_rows_is_of_a_fixed_subset() -> None:
    X = np.random.default_rng(1).normal(size=(median.ROWS + 500, 3))
    first, second = (mh.Gaussian().resolve(X).lengthscale for _ in range(2))
    assert first == second
    assert first == pytest.approx(np.median(pdist(X)), rel=0.02)
    assert first != np.median(pdist(X))
    # Up to the limit all pairs count.
    Y = X[: median.ROWS]
    assert mh.Gaussian().resolve(Y).lengthscale == pytest.approx(np.median(pdist(Y)), rel=1e-13)


@pytest.mark.parametrize("d", [1, 2])  # on a line the median is found in a way of its own
def test_ties_do_not_make_the_scale_vanish(d: int) -> None:
    X = np.zeros((20, d))
    X[:3, 0] = [1.0, 2.0, 4.0]  # most pairs coincide
    distances = pdist(X)
    assert np.median(distances) == 0
    assert mh.Gaussian().resolve(X).lengthscale == np.median(distances[distances > 0])


@pytest.mark.parametrize("lengthscale", ["median", "scaled"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 + 0.1])
def test_constant_data_has_no_scale(lengthscale: str, value: float) -> None:
    with pytest.raises(ValueError, match=r"all rows are the same.*constant.*Give a positive number"):
        mh.Gaussian(lengthscale).gram(np.full((7, 2), value))


@pytest.mark.parametrize("lengthscale", ["median", "scaled"])
def test_one_row_has_no_scale(lengthscale: str) -> None:
    with pytest.raises(ValueError, match=r"needs at least 2 rows, got 1.*give a number"):
        mh.Gaussian(lengthscale).gram(np.ones((1, 2)))


def test_the_cross_matrix_takes_its_scale_from_the_first_argument() -> None:
    X, Y = data(), 100 * data(10)
    kernel = mh.Gaussian("median")
    np.testing.assert_array_equal(kernel.gram(X, Y), kernel.resolve(X)(X, Y))
    np.testing.assert_array_equal(kernel(X, Y), kernel.resolve(X)(X, Y))


def test_facts_need_a_number() -> None:
    for fact in (
        lambda: mh.Gaussian().integral(2),
        lambda: mh.Gaussian().variance(2),
        lambda: mh.Gaussian().smoothed(2),
        lambda: mh.Gaussian().spectral_sample(3, 2, np.random.default_rng(0)),
    ):
        with pytest.raises(ValueError, match=r"no number for its lengthscale yet.*kernel\.resolve\(X\)"):
            fact()
