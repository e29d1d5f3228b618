"""The conditional density operator: corrected formula, groups, Kronecker grids, representations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.embedding import Reference
from muhat.embedding.reference import as_reference, box_reference
from muhat.gram import Exact
from muhat.operators import density as module
from muhat.operators.conditional import group_rows
from muhat.operators.density import DensityOperator, completion

K, REG_X, REG_Y = mh.Gaussian(0.7), 0.01, 0.03


def pairs(n=40, d=2, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(X[:, :1]) + 0.4 * rng.standard_normal((n, k))


def operator(X, Y, reference, kernel=None, representation=None, groups=None):
    inputs = X if groups is None else groups.points
    gram = (representation or Exact()).gram(K, inputs, 0)
    return DensityOperator(gram, groups, Y, kernel or mh.Gaussian(0.5), reference, REG_X, REG_Y)


def grid(k, size=9, reach=3.0):
    return box_reference(np.full(k, -reach), np.full(k, reach), np.ones(k), "grid", size)


def test_it_is_the_corrected_formula():
    """β = (M/V) (L + (Mα'/V) I)⁻² L_ZY (K + nλI)⁻¹ k(x): eq. (6) of the paper mis-scales ρ."""
    X, Y = pairs(k=1)
    reference = Reference(np.sort(np.random.default_rng(1).uniform(-4, 4, 60))[:, None], 8.0, random=True)
    kernel, x = mh.Laplace(0.6), np.array([[0.2, -0.1], [1.0, 0.5]])
    Z, n, M = reference.points, len(X), 60
    w = np.linalg.solve(K(X) + n * REG_X * np.eye(n), K(X, x))
    A = np.linalg.inv(kernel(Z) + M * REG_Y / 8.0 * np.eye(M))
    beta = M / 8.0 * A @ A @ kernel(Z, Y) @ w
    density = operator(X, Y, reference, kernel).density(x, complete=False)
    y = np.linspace(-2, 2, 7)[:, None]
    assert_allclose(density.raw(y), (kernel(y, Z) @ beta).T, rtol=1e-9, atol=1e-12)


def test_equal_inputs_grouped_give_the_same_answer():
    X, Y = pairs(30)
    X = np.round(X)
    groups = group_rows(X)
    assert len(set(groups.counts)) > 1  # unequal sizes, where the printed form of A.3.1 fails
    x = np.array([[0.3, 0.4], [-1.0, 0.0]])
    one, other = (operator(X, Y, grid(2), groups=g).embedding(x) for g in (None, groups))
    for a, b in zip(one, other, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", [mh.Gaussian([0.5, 0.8, 0.6]), mh.Laplace(0.7)])
def test_kronecker_grid_equals_dense_points(kernel):
    X, Y = pairs(25, k=3)
    product = grid(3, 6)
    scattered = Reference(product.points, product.mass)
    x, y = X[:3], Y[:5]
    one, other = (operator(X, Y, r, kernel).density(x) for r in (product, scattered))
    assert_allclose(one.raw(y), other.raw(y), rtol=1e-8, atol=1e-10)
    assert_allclose(one.mass, other.mass, rtol=1e-9)
    assert_allclose(one.negative, other.negative, rtol=1e-7, atol=1e-10)


def test_a_matern_on_a_grid_is_no_product_and_still_right():
    X, Y = pairs(25)
    kernel, product = mh.Matern(1.5, 0.8), grid(2, 7)
    one, other = (
        operator(X, Y, r, kernel).density(X[:2]) for r in (product, Reference(product.points, 36.0))
    )
    assert_allclose(one.raw(Y[:4]), other.raw(Y[:4]), rtol=1e-9)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("features", [False, True])
def test_values_that_are_not_kept_give_the_same_answer(monkeypatch, grouped, features):
    X, Y = pairs(30)
    X = np.round(X) if grouped else X
    groups = group_rows(X) if grouped else None
    represent = mh.Nystrom(8) if features else None
    kept = operator(X, Y, grid(2), None, represent, groups)
    expected = kept.embedding(X[:4]), kept.marginal
    monkeypatch.setattr(module, "KEPT", 1)
    streamed = operator(X, Y, grid(2), None, represent, groups)
    assert streamed._values is None
    found = streamed.embedding(X[:4]), streamed.marginal
    assert_allclose(found[0][0], expected[0][0], rtol=1e-8, atol=1e-11)
    assert_allclose(found[0][1], expected[0][1], rtol=1e-8)
    assert_allclose(found[1], expected[1], rtol=1e-9)


def test_nystrom_with_all_points_is_exact():
    X, Y = pairs()
    one, other = (operator(X, Y, grid(2), representation=r).embedding(X[:5]) for r in (None, mh.Nystrom(40)))
    assert_allclose(one[0], other[0], rtol=1e-5, atol=1e-7)


def test_an_uncertain_input_is_the_mixture_of_its_points():
    X, Y = pairs()
    op, weights = operator(X, Y, grid(2)), np.array([[0.5, 0.3, 0.2]])
    mixed, mass = op.embedding(X[:3], weights)
    each, masses = op.embedding(X[:3])
    assert_allclose(mixed, weights @ each, rtol=1e-9)
    assert_allclose(mass, weights @ masses, rtol=1e-9)


def test_far_from_the_data_the_answer_is_the_marginal():
    X, Y = pairs()
    op = operator(X, Y, grid(2))
    far = op.density(np.full((1, 2), 1e3))
    marginal = mh.embed(Y, op.kernel).density(op.reference, REG_Y, op.kernel)
    y = Y[:6]
    assert_allclose(far.pdf(y)[0], marginal.pdf(y), rtol=1e-8)
    assert_allclose(completion([0.0, 0.9, 1.0, 1.2]), [1.0, 0.01, 0.0, 0.0], atol=1e-15)


def test_reference_kinds_share_the_volume_of_the_box():
    lower, upper = np.array([0.0, -1.0]), np.array([2.0, 3.0])
    for kind, size, count in (("grid", 5, 25), ("sobol", 60, 64), ("random", 60, 60)):
        reference = box_reference(lower, upper, np.ones(2), kind, size)
        assert reference.mass == 8.0
        assert len(reference.points) == count
        assert reference.inside(reference.points).all()
        assert not reference.inside(np.array([2.1, 0.0]))
        assert reference.random == (kind == "random")


def test_a_grid_of_given_axes_reaches_half_a_step_beyond():
    reference = as_reference([np.arange(4.0), np.arange(3.0)], None, 2)
    assert reference.mass == 12.0
    lower, upper = reference.box()
    assert_allclose([lower, upper], [[-0.5, -0.5], [3.5, 2.5]])
    assert_allclose(reference.spacing, 1.0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_spectrum_is_that_of_the_gram(k):
    reference, kernel = grid(k, 5), mh.Gaussian(np.linspace(0.6, 1.1, k))
    Y = np.random.default_rng(0).standard_normal((7, k))
    spectrum, Z = reference.spectrum(kernel), reference.points
    assert_allclose(spectrum.back(spectrum.features(Y)), kernel(Y, Z), atol=1e-10)
    scaled = spectrum.features(Y) * spectrum.eigenvalues
    assert_allclose(spectrum.back(scaled), kernel(Y, Z) @ kernel(Z), atol=1e-9)
    assert_allclose(reference.embed(kernel, Y, np.ones((1, 7)))[0], kernel(Y, Z).sum(axis=0), rtol=1e-10)
