"""Kernels on distributions against their formulas, by brute force and by Monte Carlo."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.kernels import on_distributions


def some_bags(seed=0, sizes=(3, 7, 1, 40, 12), d=2):
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.normal(), rng.uniform(0.5, 2), size=(n, d)) for n in sizes]


def brute(bags, others, inner, weights=None, other_weights=None):
    out = np.empty((len(bags), len(others)))
    for i, A in enumerate(bags):
        for j, B in enumerate(others):
            a = np.full(len(A), 1 / len(A)) if weights is None else weights[i] / np.sum(weights[i])
            b = (
                np.full(len(B), 1 / len(B))
                if other_weights is None
                else other_weights[j] / np.sum(other_weights[j])
            )
            out[i, j] = sum(
                a[r] * b[s] * inner(A[r : r + 1], B[s : s + 1])[0, 0]
                for r in range(len(A))
                for s in range(len(B))
            )
    return out


def brute_mmd(bags, others, inner):
    x2, y2 = np.diag(brute(bags, bags, inner)), np.diag(brute(others, others, inner))
    return np.sqrt(np.maximum(x2[:, None] + y2 - 2 * brute(bags, others, inner), 0))


# G15, the table of kernels on mean embeddings, with D the MMD.
OUTERS = [
    (mh.Gaussian(0.3), lambda D: np.exp(-(D**2) / (2 * 0.3**2))),
    (mh.Laplace(2 * 0.5**2, norm=2), lambda D: np.exp(-D / (2 * 0.5**2))),
    (mh.Cauchy(0.3), lambda D: 1 / (1 + D**2 / 0.3**2)),
    (mh.Student(1.0, power=1.5), lambda D: 1 / (1 + D**1.5)),
    (0.3**-1 * mh.InverseMultiquadric(0.3), lambda D: (D**2 + 0.3**2) ** -0.5),
    (mh.Matern(0.5, 0.3) + 2.0 * mh.Gaussian(0.2), lambda D: np.exp(-D / 0.3) + 2 * np.exp(-(D**2) / 0.08)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("outer", "formula"), OUTERS, ids=[repr(outer)[:30] for outer, _ in OUTERS])
@pytest.mark.parametrize("inner", [mh.Gaussian(0.8), mh.Laplace(1.0) + mh.Linear()], ids=repr)
def test_outer_kernels_are_their_formulas_and_positive(outer, formula, inner):
    bags, others = some_bags(), some_bags(1, (5, 9))
    kernel = mh.OnDistributions(outer, inner)
    assert_allclose(kernel(bags, others), formula(brute_mmd(bags, others, inner)), atol=1e-9)
    K = kernel(bags)
    assert_allclose(K, formula(brute_mmd(bags, bags, inner)), atol=1e-6)  # MMD 0 on the diagonal: √eps
    assert_allclose(np.diag(K), kernel.diag(bags), atol=1e-9)
    many = some_bags(2, (6,) * 40)
    assert np.linalg.eigvalsh(kernel(many)).min() > -1e-10


def test_linear_outer_is_the_set_kernel():
    bags, others = some_bags(), some_bags(1, (5, 9))
    kernel = mh.OnDistributions(mh.Linear(), mh.Gaussian(0.8))
    assert_allclose(kernel(bags, others), brute(bags, others, mh.Gaussian(0.8)), rtol=1e-12)
    cubed = mh.OnDistributions(mh.Polynomial(3, 0.5), mh.Gaussian(0.8))
    assert_allclose(cubed(bags), (brute(bags, bags, mh.Gaussian(0.8)) + 0.5) ** 3, rtol=1e-12)


def test_the_mmd_is_that_of_embeddings():
    A, B = some_bags(0, (30, 20))
    kernel = mh.Gaussian(0.7)
    D = mh.OnDistributions(mh.Gaussian(1.0), kernel).mmd([A], [B])
    assert_allclose(D[0, 0], mh.mmd(mh.embed(A, kernel), mh.embed(B, kernel)), rtol=1e-10)


def test_blocks_change_nothing(monkeypatch):
    bags, others = some_bags(), some_bags(1, (5, 9, 31))
    kernel = mh.OnDistributions(mh.Gaussian(0.5), mh.Matern(1.5, 1.0))
    whole = kernel(bags), kernel(bags, others), kernel.diag(bags)
    monkeypatch.setattr(on_distributions, "BLOCK_ROWS", 4)
    for a, b in zip(whole, (kernel(bags), kernel(bags, others), kernel.diag(bags)), strict=True):
        assert_allclose(a, b, rtol=1e-12)


def test_weights_are_repeated_points():
    rng = np.random.default_rng(0)
    bags = some_bags()
    counts = [rng.integers(1, 4, len(b)) for b in bags]
    repeated = [np.repeat(b, c, axis=0) for b, c in zip(bags, counts, strict=True)]
    kernel = mh.OnDistributions(mh.Gaussian(0.5), mh.Gaussian(1.0))
    weighted = mh.Bags(bags, weights=counts)
    assert_allclose(kernel(weighted), kernel(repeated), atol=1e-12)
    assert_allclose(kernel(weighted, bags), kernel(repeated, bags), atol=1e-12)
    assert abs(kernel(weighted) - kernel(bags)).max() > 1e-3


def test_the_order_of_points_does_not_matter():
    rng = np.random.default_rng(0)
    bags = some_bags()
    shuffled = [rng.permutation(b) for b in bags]
    kernel = mh.OnDistributions().resolve(bags)
    assert_allclose(kernel(bags), kernel(shuffled), atol=1e-12)


@pytest.mark.slow
def test_gaussians_in_closed_form_are_their_samples():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 2))
    factors = rng.normal(size=(3, 2, 2)) + 1.5 * np.eye(2)
    covs = factors @ np.swapaxes(factors, 1, 2)
    exact = mh.GaussianBags(means, covs)
    samples = [m + rng.standard_normal((4000, 2)) @ F.T for m, F in zip(means, factors, strict=True)]
    for inner in (mh.Gaussian([0.8, 1.5]), mh.Linear(0.5)):
        kernel = mh.OnDistributions(mh.Linear(), inner)
        drawn = kernel(samples, [s[::-1] for s in some_draws(means, factors, 1)])
        assert_allclose(kernel(exact), drawn, atol=0.02 if isinstance(inner, mh.Gaussian) else 0.2)
        # One side in closed form is the mean of the embedding over the points of the other.
        half = kernel(samples, exact)
        want = [
            [np.mean(inner.gaussian_embedding(s, m, S)) for m, S in zip(means, covs, strict=True)]
            for s in samples
        ]
        assert_allclose(half, want, rtol=1e-10)


def some_draws(means, factors, seed):
    rng = np.random.default_rng(seed)
    return [m + rng.standard_normal((4000, 2)) @ F.T for m, F in zip(means, factors, strict=True)]


def test_gaussians_by_laplace_agree_with_the_integral():
    means, variances = np.array([[0.0], [1.0]]), np.array([[0.5], [2.0]])
    kernel = mh.OnDistributions(mh.Linear(), mh.Laplace(0.7))
    x = np.linspace(-12, 12, 4001)[:, None]
    density = lambda m, v: np.exp(-((x[:, 0] - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)  # noqa: E731
    p, q = density(0.0, 0.5), density(1.0, 2.0)
    step = x[1, 0] - x[0, 0]
    want = p @ mh.Laplace(0.7)(x) @ q * step**2
    assert_allclose(kernel(mh.GaussianBags(means, variances))[0, 1], want, rtol=1e-5)


def test_medians_come_from_the_bags():
    bags = some_bags(sizes=(5,) * 8)
    kernel = mh.OnDistributions(mh.Gaussian("median"), mh.Gaussian("median")).resolve(bags)
    assert kernel.inner.lengthscale == mh.Gaussian().resolve(np.concatenate(bags)).lengthscale
    D = brute_mmd(bags, bags, kernel.inner)
    assert_allclose(kernel.outer.lengthscale, np.median(D[np.triu_indices(8, 1)]), rtol=1e-10)


def test_what_is_no_kernel_of_embeddings_is_refused():
    with pytest.raises(TypeError, match="distance or inner product"):
        mh.OnDistributions(mh.Laplace(1.0, norm=1))
    with pytest.raises(ValueError, match="embeddings have no columns"):
        mh.OnDistributions(mh.Gaussian([1.0, 2.0]))
    with pytest.raises(TypeError, match="combine their outer kernels"):
        mh.OnDistributions(mh.Gaussian(1.0)) + mh.Gaussian(1.0)
    with pytest.raises(ValueError, match="power must be a number above 0 and at most 2, got 3"):
        mh.Student(power=3)
    X = np.arange(3.0)[:, None]
    np.testing.assert_allclose(mh.Student(0.5, power=2)(X), mh.Cauchy(0.5)(X))  # 2 itself is allowed
    with pytest.raises(ValueError, match="3 columns but X has 2"):
        mh.OnDistributions()(some_bags(), some_bags(d=3))
    with pytest.raises(mh.NoClosedForm, match="closed form for the product"):
        mh.OnDistributions(mh.Linear(), mh.Polynomial())(mh.GaussianBags(np.zeros((1, 1)), np.ones((1, 1))))


def test_it_is_saved(tmp_path):
    kernel = mh.OnDistributions(mh.Student(0.4, power=0.5), mh.Gaussian([0.8, 1.0]))
    mh.save(kernel, tmp_path / "kernel")
    assert mh.load(tmp_path / "kernel") == kernel


def test_a_location_splits_a_bag_into_its_mean_and_its_shape():
    rng = np.random.default_rng(0)
    weights = [rng.random(n) for n in (4, 7, 5)]
    bags = mh.Bags([rng.normal(size=(n, 2)) + 3 * i for i, n in enumerate((4, 7, 5))], weights)
    inner, unit = mh.Gaussian(0.8), np.array([2.0, 5.0])
    kernel = mh.OnDistributions(mh.Cauchy(1.3), inner, location=unit)
    means = np.array([bags.weights(i) @ part for i, part in enumerate(bags.parts)])
    shapes = mh.Bags([part - m for part, m in zip(bags.parts, means, strict=True)], weights)
    D2 = mh.OnDistributions(None, inner).mmd(shapes) ** 2
    D2 = D2 + (((means[:, None] - means) / unit) ** 2).sum(axis=-1)
    np.testing.assert_allclose(kernel(bags), 1 / (1 + D2 / 1.3**2), atol=1e-12)
    np.testing.assert_allclose(kernel.mmd(bags), np.sqrt(D2), atol=1e-7)
    np.testing.assert_allclose(kernel(bags, bags.select([2, 0])), kernel(bags)[:, [2, 0]], atol=1e-12)
    np.testing.assert_allclose(kernel.diag(bags), 1)
    moved = bags.shifted(np.array([4.0, -1.0]))
    np.testing.assert_allclose(kernel(moved), kernel(bags), atol=1e-12)
    assert abs(kernel(moved, bags) - kernel(bags)).max() > 0.1
    free = mh.OnDistributions(mh.Cauchy(1.3), inner, location=np.inf)
    np.testing.assert_allclose(free(moved, bags), free(bags), atol=1e-12)


@pytest.mark.slow
def test_a_location_of_gaussians_is_that_of_many_draws():
    rng = np.random.default_rng(0)
    known = mh.GaussianBags(rng.normal(size=(3, 1)), rng.uniform(0.3, 2, (3, 1)))
    draws = mh.Bags(
        [
            m + np.sqrt(S[0]) * rng.standard_normal((4000, 1))
            for m, S in zip(known.means, known.covs, strict=True)
        ]
    )
    inner = 0.5 * mh.Gaussian(0.7) + 2.0 * mh.Gaussian(2.0)
    kernel = mh.OnDistributions(mh.Gaussian(1.0), inner, location=1.5)
    np.testing.assert_allclose(kernel(known), kernel(draws), atol=0.03)
    np.testing.assert_allclose(kernel(known, draws), kernel(known), atol=0.03)


@pytest.mark.parametrize(
    ("location", "message"), [(0.0, "must be a positive"), ([1.0, 2.0], "2 lengthscales")]
)
def test_a_location_that_is_none(location, message):
    with pytest.raises(ValueError, match=message):
        mh.OnDistributions(mh.Gaussian(1.0), mh.Gaussian(1.0), location)([np.ones((2, 1)), np.zeros((3, 1))])
