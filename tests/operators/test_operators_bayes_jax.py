"""Bayes' rules, one code for NumPy and JAX: the same values, the right derivatives, under jit too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import muhat as mh
from muhat.gram import DenseGram, Factored, LowRankGram
from muhat.operators.bayes import RULES, Pairs, Prior, importance

rng = np.random.default_rng(0)
X, Z = rng.standard_normal((12, 2)), rng.standard_normal((12, 2))
POINTS, Q = 0.5 * rng.standard_normal((7, 2)) + 0.2, rng.standard_normal((3, 2))
ALPHA = rng.dirichlet(np.ones(7))
D = rng.uniform(0.01, 0.2, 12)
PSI, PHI = rng.standard_normal((12, 4)), rng.standard_normal((12, 3))
PSI_Q, PHI_P = rng.standard_normal((3, 4)), 0.3 * rng.standard_normal((7, 3)) + 0.5


def dense(name, target=0.0):
    """Weights of a rule as a function of a lengthscale and a regulariser, from kernel matrices."""

    def weights(ell, reg):
        kx, kz = mh.Matern(1.5, ell), mh.Matern(1.5, 1.3 * ell)
        pairs = Pairs(DenseGram(kx(X)), DenseGram(kz(Z)), 0.05 * reg, target)
        cross = kz(Z, POINTS)
        prior = Prior((cross @ ALPHA)[:, None], POINTS, ALPHA, cross)
        return RULES[name].posterior_weights(pairs, prior, kx(X, Q), reg)

    return weights


def low_rank(name, target=0.0):
    """The same from features, scaled by the lengthscale."""

    def weights(ell, reg):
        gram_x, gram_z = LowRankGram(PSI / ell), LowRankGram(PHI / ell)
        pairs = Pairs(gram_x, gram_z, reg, target)
        cross = Factored(gram_z.Phi, PHI_P.T / ell)
        prior = Prior(Factored(gram_z.Phi, (cross.right @ ALPHA)[:, None]), POINTS, ALPHA, cross)
        return RULES[name].posterior_weights(pairs, prior, Factored(gram_x.Phi, PSI_Q.T / ell), reg)

    return weights


def regression(ell, reg):
    kernel = mh.Matern(1.5, ell)
    return importance.weighted_regression(DenseGram(kernel(X)), D, kernel(X, Q), reg)


FUNCTIONS = {
    "weighted_regression": regression,
    **{f"{name}, dense": dense(name) for name in RULES},
    **{f"{name}, features": low_rank(name) for name in RULES},
    "importance to one, dense": dense("importance", 1.0),
    "importance to one, features": low_rank("importance", 1.0),
}


# Compilation takes its time: a few by default, the others among the slow.
QUICK = ("weighted_regression", "kbr_b, features", "deconditional, dense")
ELL, REG = 0.9, 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FUNCTIONS]
)
def test_jit_agrees_and_derivatives_are_finite_differences(name):
    f = FUNCTIONS[name]
    expected = f(ELL, REG)
    assert isinstance(expected, np.ndarray)
    assert np.abs(expected).max() > 1e-3
    probe = np.random.default_rng(1).standard_normal(expected.shape)

    def scalar(ell, reg):
        W = f(ell, reg)
        return (probe * W).sum(), W

    with jax.enable_x64(True):
        (_, W), gradient = jax.jit(jax.value_and_grad(scalar, argnums=(0, 1), has_aux=True))(ELL, REG)
        got, gradient = np.asarray(W), [float(g) for g in gradient]
    assert got.dtype == np.float64
    assert_allclose(got, expected, rtol=1e-8, atol=1e-10)
    h = 1e-5
    finite = [
        (scalar(ELL + h, REG)[0] - scalar(ELL - h, REG)[0]) / (2 * h),
        (scalar(ELL, REG + h)[0] - scalar(ELL, REG - h)[0]) / (2 * h),
    ]
    assert_allclose(gradient, finite, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_concrete_jax_arrays(name):
    with jax.enable_x64(True):
        got = FUNCTIONS[name](jnp.asarray(ELL), jnp.asarray(REG))
        assert isinstance(got, jax.Array)
        assert_allclose(np.asarray(got), FUNCTIONS[name](ELL, REG), rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_derivative_with_respect_to_the_ratio():
    kernel = mh.Gaussian(0.9)
    gram, cross = DenseGram(kernel(X)), kernel(X, Q)

    def scalar(r):
        return (importance.weighted_regression(gram, r, cross, 0.1) ** 2).sum()

    with jax.enable_x64(True):
        gradient = np.asarray(jax.grad(scalar)(jnp.asarray(D)))
    moved = D + 1e-7 * np.eye(12)[4]
    assert_allclose(gradient[4], (scalar(moved) - scalar(D)) / 1e-7, rtol=1e-4)
