"""The same kernels on JAX arrays: equal answers, gradients, ``jit`` and pytrees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernel_cases import ALL, Case, ids, points

import muhat as mh


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


WIDE = 40
WIDE_ARD = np.linspace(4.0, 9.0, WIDE)
WIDE_CASES = [
    Case("wide-gaussian-ard", mh.Gaussian(WIDE_ARD), None, WIDE),
    Case("wide-laplace-1", mh.Laplace(20.0), None, WIDE),
    Case("wide-laplace-2", mh.Laplace(6.0, norm=2), None, WIDE),
    Case("wide-matern-3/2", mh.Matern(1.5, 6.0), None, WIDE),
    Case("wide-matern-7/2", mh.Matern(3.5, WIDE_ARD), None, WIDE),
    Case("wide-rational", mh.RationalQuadratic(6.0, alpha=0.7), None, WIDE),
    Case("wide-multiquadric", mh.InverseMultiquadric(6.0, beta=1.2), None, WIDE),
    Case("wide-polynomial", mh.Polynomial(3), None, WIDE),
    Case("wide-smoothed", mh.Gaussian(6.0).smoothed(WIDE, sd=0.4), None, WIDE),
    Case("wide-sum", 2.0 * mh.Cauchy(6.0) + mh.Laplace(6.0, norm=2) * mh.Linear(), None, WIDE),
    Case("wide-on", mh.Gaussian(5.0).on(list(range(35))) * mh.Delta(0.5).on(36), None, WIDE),
]


def parameters(kernel):
    """All numbers in a kernel as one vector, and the way back."""
    leaves, tree = jax.tree.flatten(kernel)
    sizes = [np.size(leaf) for leaf in leaves]
    theta = np.concatenate([np.ravel(np.asarray(leaf, dtype=float)) for leaf in leaves] or [np.zeros(0)])

    def build(values):
        parts, at = [], 0
        for leaf, size in zip(leaves, sizes, strict=True):
            parts.append(values[at : at + size] if np.ndim(leaf) else values[at])
            at += size
        return jax.tree.unflatten(tree, parts)

    return theta, build


def numeric_gradient(function, theta, step=1e-6):
    """Central differences, one number at a time."""
    out = np.empty_like(theta)
    for i in np.ndindex(theta.shape):
        shift = np.zeros_like(theta)
        shift[i] = step
        out[i] = (function(theta + shift) - function(theta - shift)) / (2 * step)
    return out


class Answers:
    """Matrix, diagonal and gradients of one kernel, all from one compilation."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.X, self.Y = points(9, case.d), points(7, case.d, seed=1)
        self.Y[0], self.Y[5] = self.X[0], self.X[5]  # coincident points: no NaN
        self.W = np.random.default_rng(2).normal(size=(9, 7))
        self.theta, self.build = parameters(case.kernel)

        def everything(theta, x, y):
            kernel = self.build(theta)
            K = kernel(x, y)
            return (self.W * K).sum(), (K, kernel.diag(x))

        with jax.enable_x64(True):
            # Little optimisation: quicker here, and rounding differs from that of the default.
            run = jax.jit(
                jax.value_and_grad(everything, argnums=(0, 1), has_aux=True),
                compiler_options={"xla_backend_optimization_level": 0},
            )
            (_, (self.K, self.diag)), (self.in_theta, self.in_points) = run(self.theta, self.X, self.Y)

    def total(self, theta, x):
        """The same number in NumPy."""
        return (self.W * self.build(theta)(x, self.Y)).sum()


# Of twins one is enough by default.
TWINS = "gaussian laplace-1 laplace-2 matern-3/2 cauchy rational-quadratic inverse-multiquadric linear delta"
TWINS += " polynomial-2 on-one wide-matern-3/2 wide-rational"
CASES = [
    pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name in TWINS.split() else [])
    for case in ALL + WIDE_CASES
]


@pytest.fixture(scope="module", params=CASES)
def answers(request: pytest.FixtureRequest) -> Answers:
    return Answers(request.param)


@pytest.mark.slow
def test_numpy_and_jax_agree(answers: Answers) -> None:
    # Beyond 32 columns distances are multiplied out: coincident points must still be at distance 0.
    kernel = answers.case.kernel
    assert answers.K.dtype == np.float64
    np.testing.assert_allclose(answers.K, kernel(answers.X, answers.Y), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(answers.diag, kernel.diag(answers.X), rtol=1e-12)


def test_gradient_in_the_parameters(answers: Answers) -> None:
    expected = numeric_gradient(lambda theta: answers.total(theta, answers.X), answers.theta)
    np.testing.assert_allclose(answers.in_theta, expected, rtol=2e-5, atol=1e-7)


def test_gradient_in_the_points(answers: Answers) -> None:
    assert np.isfinite(answers.in_points).all()
    if "Delta" in repr(answers.case.kernel):
        return  # flat wherever it is continuous
    # A kink at a coincident point has the derivative between its slopes, as central differences do.
    expected = numeric_gradient(lambda x: answers.total(answers.theta, x), answers.X)
    np.testing.assert_allclose(answers.in_points, expected, rtol=2e-5, atol=2e-7)


@pytest.mark.slow
def test_without_compilation_the_same_comes_out() -> None:
    X, Y = points(), points(7, seed=1)
    for kernel in (mh.Matern(2.5, 0.8) + mh.Linear(), mh.Laplace(0.8).on([2, 0])):
        K = kernel(jnp.asarray(X), jnp.asarray(Y))
        assert isinstance(K, jax.Array)
        np.testing.assert_allclose(K, kernel(X, Y), rtol=1e-10, atol=1e-12)


def test_one_jax_argument_is_enough() -> None:
    X = points()
    for K in (
        mh.Gaussian(0.8)(jnp.asarray(X), X),
        mh.Gaussian(0.8)(X, jnp.asarray(X)),
        mh.Gaussian(jnp.asarray(0.8))(X),
        (jnp.asarray(1.0) * mh.Gaussian(0.8))(X),
    ):
        assert isinstance(K, jax.Array)
        np.testing.assert_allclose(K, mh.Gaussian(0.8)(X), rtol=1e-12)
    assert type(mh.Gaussian(jnp.asarray(0.8)).gram(X)) is np.ndarray


def test_single_precision_without_x64() -> None:
    X = points()
    with jax.enable_x64(False):
        K = mh.Gaussian(0.8)(jnp.asarray(X))
        assert K.dtype == jnp.float32
    np.testing.assert_allclose(K, mh.Gaussian(0.8)(X), atol=1e-6)


def test_whole_numbers_are_numbers_in_jax() -> None:
    X = np.array([[0, 1], [2, 1], [1, 1]])
    np.testing.assert_allclose(mh.Gaussian(0.5)(jnp.asarray(X)), mh.Gaussian(0.5)(X), rtol=1e-12)


@pytest.mark.parametrize("case", ALL, ids=ids(ALL))
def test_kernels_are_pytrees(case: Case) -> None:
    leaves, tree = jax.tree.flatten(case.kernel)
    assert len(leaves) == len(case.kernel.leaves())
    assert jax.tree.unflatten(tree, leaves) == case.kernel
    doubled = jax.tree.map(lambda leaf: 2 * np.asarray(leaf), case.kernel)
    for a, b in zip(jax.tree.leaves(doubled), leaves, strict=True):
        np.testing.assert_array_equal(a, 2 * np.asarray(b))


def test_a_kernel_is_an_argument_of_a_compiled_function() -> None:
    compiled = []

    @jax.jit
    def gram(kernel, x):
        compiled.append(kernel)
        return kernel(x)

    X = points()
    for ell in (0.5, 0.8, 2.0):
        kernel = 2.0 * mh.Gaussian(ell).on([0, 2]) + mh.Matern(1.5, ell)
        np.testing.assert_allclose(gram(kernel, X), kernel(X), rtol=1e-10)
    assert len(compiled) == 1  # numbers change, the program does not
    gram(mh.Gaussian(1.0).on([0, 1]), X)
    assert len(compiled) == 2  # columns are part of the program


def test_gradient_with_respect_to_a_kernel_is_a_kernel_of_gradients() -> None:
    X = points()
    kernel = 2.0 * mh.Gaussian(0.8) + mh.RationalQuadratic(1.5, alpha=0.7)
    gradient = jax.jit(jax.grad(lambda k: k(X).sum()))(kernel)
    assert type(gradient) is type(kernel)
    np.testing.assert_allclose(gradient.left.scale, mh.Gaussian(0.8)(X).sum(), rtol=1e-10)


def test_an_open_lengthscale_survives_the_tree() -> None:
    leaves, tree = jax.tree.flatten(2.0 * mh.Gaussian("median"))
    assert leaves == [2.0]
    assert jax.tree.unflatten(tree, leaves) == 2.0 * mh.Gaussian("median")


def test_a_median_cannot_be_found_under_jit() -> None:
    with pytest.raises(ValueError, match=r'"median".*under jit.*kernel\.resolve\(X\)'):
        jax.jit(lambda x: mh.Gaussian("median")(x))(points())


def test_vmap_over_lengthscales() -> None:
    X = points()
    ells = jnp.array([0.5, 1.0, 2.0])
    stack = jax.jit(jax.vmap(lambda ell: mh.Gaussian(ell)(X)))(ells)
    for K, ell in zip(stack, ells, strict=True):
        np.testing.assert_allclose(K, mh.Gaussian(float(ell))(X), rtol=1e-10)


def test_a_kernel_subclass_made_by_the_user_is_a_pytree() -> None:
    from muhat.kernels.stationary import Stationary

    class Triangle(Stationary):
        """k = max(0, 1 − |x − x'|/ℓ), positive definite in one dimension."""

        def _of(self, s, xp):
            return xp.maximum(0.0, 1 - xp.sqrt(s))

    X = np.linspace(0, 1, 5)[:, None]
    K = jax.jit(lambda k: k(X))(Triangle(0.5))
    np.testing.assert_allclose(K, Triangle(0.5)(X), atol=1e-12)
    np.testing.assert_allclose(K[0], [1, 0.5, 0, 0, 0], atol=1e-12)
