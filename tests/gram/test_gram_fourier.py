"""Random Fourier features: unbiased, of order p^(-1/2), better when orthogonal."""

from __future__ import annotations

import numpy as np
import pytest

import muhat as mh

KERNELS = [
    2.0 * mh.Gaussian(1.2),
    mh.Laplace(2.0),
    mh.Matern(1.5, 1.5),
    mh.RationalQuadratic(1.2),
    mh.Gaussian(1.2) + mh.Laplace(2.0),
    mh.Gaussian(1.2).on(0) * mh.Matern(2.5, 1.0).on([1, 2]),
]


def data(n: int = 30, d: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


def errors(kernel: mh.Kernel, X: np.ndarray, p: int, repetitions: int, orthogonal: bool) -> np.ndarray:
    """K̂ − K for several draws, (repetitions, n, n)."""
    K, representation = kernel(X), mh.Fourier(p, orthogonal)
    return np.array([representation.gram(kernel, X, s).dense() - K for s in range(repetitions)])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("orthogonal", [False, True])
def test_features_are_unbiased(kernel: mh.Kernel, orthogonal: bool) -> None:
    E = errors(kernel, data(8), 40, 400, orthogonal)
    z = E.mean(axis=0) / (E.std(axis=0) / np.sqrt(len(E)) + 1e-12)
    assert np.abs(z).max() < 5


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_error_falls_like_the_root_of_the_number_of_features(kernel: mh.Kernel) -> None:
    X, ps = data(), np.array([16, 32, 64, 128, 256, 512])
    error = [np.sqrt((errors(kernel, X, int(p), 40, False) ** 2).mean()) for p in ps]
    slope = np.polyfit(np.log(ps), np.log(error), 1)[0]
    assert -0.6 < slope < -0.4


@pytest.mark.parametrize(
    ("kernel", "d"), [(mh.Gaussian(2.0), 4), (mh.Gaussian(3.0), 8), (mh.Matern(2.5, 4.0), 8)], ids=repr
)
def test_orthogonal_frequencies_have_less_variance(kernel: mh.Kernel, d: int) -> None:
    X = data(25, d)
    plain, orthogonal = ((errors(kernel, X, 4 * d, 150, o) ** 2).mean() for o in (False, True))
    assert orthogonal < 0.85 * plain


@pytest.mark.parametrize("kernel", [mh.Gaussian(1.5), 2.0 * mh.Gaussian([1.0, 2.0, 0.5])], ids=repr)
def test_orthogonal_frequencies_are_orthogonal_in_units_of_the_lengthscale(kernel: mh.Kernel) -> None:
    ell = np.broadcast_to(getattr(kernel, "kernel", kernel).lengthscale, 3)
    scaled = mh.Fourier(12).fit(kernel, data(), 0).frequencies * ell
    for block in (scaled[:3], scaled[3:]):
        products = block @ block.T
        np.testing.assert_allclose(products, np.diag(np.diagonal(products)), atol=1e-12)
    # Lengths keep their distribution: they differ from one another.
    assert np.ptp(np.linalg.norm(scaled, axis=1)) > 0.1


def test_orthogonality_is_asked_of_isotropic_kernels_only() -> None:
    X = data()
    for kernel in (mh.Laplace(1.0), mh.Gaussian(1.0) + mh.Cauchy(1.0)):
        a, b = (mh.Fourier(8, orthogonal=o).fit(kernel, X, 0).frequencies for o in (False, True))
        np.testing.assert_array_equal(a, b)


def test_p_counts_features_and_is_rounded_up_to_even() -> None:
    X = data()
    for p, size in ((2, 2), (7, 8), (10, 10)):
        gram = mh.Fourier(p).gram(mh.Gaussian(1.0), X, 0)
        assert gram.kernel.size == size
        assert gram.Phi.shape == (30, size)


def test_the_diagonal_is_exact() -> None:
    np.testing.assert_allclose(mh.Fourier(6).gram(2.5 * mh.Gaussian(1.0), data(), 0).diag(), 2.5, rtol=1e-12)


def test_the_same_seed_gives_the_same_features() -> None:
    X = data()
    first, second, other = (mh.Fourier(6).gram(mh.Gaussian(1.0), X, s).Phi for s in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    "kernel", [mh.Linear(), mh.Delta(), mh.Polynomial(), mh.Gaussian(1.0) * mh.Delta()], ids=repr
)
def test_kernels_without_a_spectral_measure_are_sent_to_nystrom(kernel: mh.Kernel) -> None:
    with pytest.raises(mh.NoClosedForm, match=r"spectral samples: use mh\.Nystrom\(p\)"):
        mh.Fourier(10).gram(kernel, data(), 0)
