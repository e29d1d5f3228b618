"""Every Gram in JAX: the same answers as in NumPy, compiled, with right gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gram_cases import GRAMS, NEW, WEIGHTS, WITH_POINTS, N, X, Z, kernel_of

import muhat as mh
from muhat.gram import KroneckerGram, as_dense, kernel_matmul, kernel_quadratic

B = np.random.default_rng(5).normal(size=(N, 3))
A = np.random.default_rng(6).normal(size=N)
THETA = np.array([0.8, 0.3, 1.1])  # lengthscale, ridge, scale of the weights


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def readings(name, theta, xp, weighted):
    """What a ridge says, as a vector of numbers that depend on all of it."""
    gram = GRAMS[name](theta[0], xp)
    ridge = gram.ridge(theta[1], theta[2] * xp.asarray(WEIGHTS) if weighted else None)
    out = [
        ridge.logdet(),
        ridge.inverse_diag() @ xp.asarray(A),
        (ridge.solve(xp.asarray(B)) * xp.asarray(B[::-1])).sum(),
        ridge.regress(xp.asarray(A)) @ xp.asarray(B[:, 0]),
        (gram @ xp.asarray(B)).sum() + gram.diag() @ xp.asarray(A),
    ]
    if name in WITH_POINTS:
        new = xp.asarray(NEW)
        out.append((gram.evaluate(new, ridge.fit(xp.asarray(B))) ** 2).sum())
        out.append((as_dense(ridge.regress(gram.cross(new))) * xp.asarray(A)[:, None]).sum())
    return xp.stack([xp.asarray(value) for value in out])


def check(reading, tolerance: float = 1e-10) -> None:
    """``reading`` in JAX, compiled, against itself in NumPy and its gradient against differences."""
    mix = np.random.default_rng(7).normal(size=len(reading(THETA, np)))

    def mixed(theta):
        value = reading(theta, jnp)
        return value @ mix, value

    # Little optimisation: quicker, and rounding differs from that of the default.
    run = jax.jit(jax.grad(mixed, has_aux=True), compiler_options={"xla_backend_optimization_level": 0})
    gradient, value = run(THETA)
    np.testing.assert_allclose(value, reading(THETA, np), rtol=tolerance)
    for i in range(len(THETA)):
        step = 1e-5 * np.eye(len(THETA))[i]
        numeric = mix @ (reading(THETA + step, np) - reading(THETA - step, np)) / 2e-5
        assert gradient[i] == pytest.approx(numeric, rel=5e-7, abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dense", "nystrom", "fourier", "features"])
def test_values_and_gradients(name: str) -> None:
    # Without and with weights, in one compilation.
    check(lambda theta, xp: xp.concatenate([readings(name, theta, xp, w) for w in (False, True)]))


@pytest.mark.slow
def test_values_and_gradients_of_kronecker() -> None:
    check(lambda theta, xp: readings("kronecker", theta, xp, False))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "weighted"), [("blocked", False), ("blocked", True), ("kronecker", True)])
def test_values_and_gradients_of_iterative_ridges(name: str, weighted: bool) -> None:
    check(lambda theta, xp: readings(name, theta, xp, weighted), 1e-8)


@pytest.mark.slow
def test_values_and_gradients_of_a_blocked_solve() -> None:
    def reading(theta, xp):
        ridge = GRAMS["blocked"](theta[0], xp).ridge(theta[1], theta[2] * xp.asarray(WEIGHTS))
        return (ridge.solve(xp.asarray(B)) * xp.asarray(B[::-1])).sum(axis=0)

    check(reading, 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAMS))
def test_without_compilation_the_same_comes_out(name: str) -> None:
    gram = GRAMS[name](0.8, jnp)
    assert isinstance(gram.dense(), jax.Array)
    np.testing.assert_allclose(gram.dense(), GRAMS[name](0.8, np).dense(), rtol=1e-9, atol=1e-10)
    ridge = gram.ridge(0.3)
    assert isinstance(ridge.solve(jnp.asarray(B)), jax.Array)
    np.testing.assert_allclose(
        ridge.solve(B), GRAMS[name](0.8, np).ridge(0.3).solve(B), rtol=1e-9, atol=1e-10
    )


@pytest.mark.slow
def test_numpy_gram_with_a_traced_ridge() -> None:
    # The regulariser alone is learned: everything else stays in NumPy.
    for name in ("dense", "nystrom"):
        gram = GRAMS[name](0.8, np)
        gradient = jax.jit(jax.grad(lambda c, gram=gram: gram.ridge(c).logdet()))(0.3)
        numeric = (gram.ridge(0.3 + 1e-5).logdet() - gram.ridge(0.3 - 1e-5).logdet()) / 2e-5
        assert gradient == pytest.approx(numeric, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("jacobian", [jax.jacrev, pytest.param(jax.jacfwd, marks=pytest.mark.slow)])
def test_kronecker_gradients_with_equal_eigenvalues(jacobian) -> None:
    # Eigenvectors of a repeated eigenvalue have no derivative; solves and determinants do.
    def function(t, xp):
        gram = KroneckerGram([t * xp.eye(3), t**2 * xp.ones((3, 3)) + xp.eye(3)])
        ridge = gram.ridge(0.1 * t)
        a = xp.arange(9.0)
        return xp.stack([ridge.logdet(), ridge.inverse_diag() @ a, ridge.solve(a) @ xp.sin(a)])

    gradient = jax.jit(jacobian(lambda t: function(t, jnp)))(0.7)
    numeric = (function(0.7 + 1e-6, np) - function(0.7 - 1e-6, np)) / 2e-6
    np.testing.assert_allclose(gradient, numeric, rtol=1e-7)


@pytest.mark.slow
def test_kronecker_gradients_with_tiny_eigenvalues() -> None:
    # A smooth kernel on many points: most eigenvalues are rounding error, all close together.
    axes = np.linspace(-1, 1, 12)[:, None], np.linspace(-1, 1, 10)[:, None]

    def function(ell, xp):
        ridge = KroneckerGram([mh.Gaussian(ell)(xp.asarray(axis)) for axis in axes]).ridge(0.1)
        a = xp.sin(xp.arange(120.0))
        return xp.stack([ridge.logdet(), ridge.inverse_diag() @ a**2, ridge.solve(a) @ a])

    gradient = jax.jit(jax.jacrev(lambda ell: function(ell, jnp)))(1.0)
    numeric = (function(1 + 1e-5, np) - function(1 - 1e-5, np)) / 2e-5
    np.testing.assert_allclose(gradient, numeric, rtol=1e-7)


@pytest.mark.slow
def test_products_in_blocks_and_their_gradients() -> None:
    def total(ell, points, xp):
        out = kernel_matmul(kernel_of(ell), points, xp.asarray(Z), xp.asarray(B[:8]), block_elements=40)
        w = xp.asarray(A)
        return (out**2).sum() + kernel_quadratic(kernel_of(ell), points, w)

    run = jax.jit(jax.value_and_grad(lambda ell, x: total(ell, x, jnp), argnums=(0, 1)))
    value, (in_ell, in_points) = run(0.8, X)
    assert value == pytest.approx(total(0.8, X, np), rel=1e-10)
    assert in_ell == pytest.approx((total(0.8 + 1e-6, X, np) - total(0.8 - 1e-6, X, np)) / 2e-6, rel=1e-6)
    for i, j in ((0, 0), (N - 1, 1)):
        step = np.zeros_like(X)
        step[i, j] = 1e-6
        assert in_points[i, j] == pytest.approx(
            (total(0.8, X + step, np) - total(0.8, X - step, np)) / 2e-6, rel=1e-5
        )


def test_landmarks_are_chosen_outside() -> None:
    with pytest.raises(ValueError, match=r"Landmarks cannot be chosen under jit.*landmarks=Z"):
        jax.jit(lambda x: mh.Nystrom(5).gram(mh.Gaussian(1.0), x, 0).dense())(X)
    for choice in ("kmeans++", "leverage"):
        with pytest.raises(ValueError, match=r"Landmarks cannot be chosen under jit or grad"):
            jax.grad(lambda ell, c=choice: mh.Nystrom(5, c).gram(mh.Gaussian(ell), X, 0).dense().sum())(1.0)
    gram = mh.Nystrom(5).gram(mh.Gaussian(1.0), jnp.asarray(X), 0)
    assert isinstance(gram.Phi, jax.Array)
    np.testing.assert_allclose(
        gram.dense(), mh.Nystrom(5).gram(mh.Gaussian(1.0), X, 0).dense(), rtol=1e-9, atol=1e-10
    )


def test_one_compilation_serves_all_parameters() -> None:
    traces = []

    @jax.jit
    def logdet(ell, c):
        traces.append(1)
        return mh.Exact().gram(mh.Gaussian(ell), X).ridge(c).logdet()

    for ell, c in ((0.5, 0.1), (1.0, 0.2), (2.0, 1.0)):
        expected = np.linalg.slogdet(mh.Gaussian(ell)(X) + c * np.eye(N))[1]
        assert logdet(ell, c) == pytest.approx(expected, rel=1e-10)
    assert len(traces) == 1


@pytest.mark.slow
def test_single_precision() -> None:
    with jax.enable_x64(False):
        points = jnp.asarray(X, dtype=jnp.float32)
        b = jnp.asarray(A, dtype=jnp.float32)
        for representation in (mh.Exact(), mh.Nystrom(N), mh.Exact(memory=0, rank=9)):
            solved = representation.gram(kernel_of(0.8), points, 0).ridge(0.3).solve(b)
            assert solved.dtype == jnp.float32
            expected = np.linalg.solve(kernel_of(0.8)(X) + 0.3 * np.eye(N), A)
            np.testing.assert_allclose(solved, expected, rtol=5e-3, atol=5e-3)
