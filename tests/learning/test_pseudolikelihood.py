"""The marginal pseudolikelihood against brute force: the mn-dimensional Gaussian and a numerical Jacobian."""

from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp

import muhat as mh
from muhat.embedding.bayesian import Measure, SmoothedBy, prior_kernel
from muhat.learning import pseudolikelihood
from muhat.learning.pseudolikelihood import log_marginal

log_volume = jax.jit(pseudolikelihood.log_volume)

KERNELS = {
    "gaussian": mh.Gaussian(0.8),
    "ard": mh.Gaussian(np.array([0.5, 1.5])),
    "laplace": mh.Laplace(1.2),
    "laplace2": mh.Laplace(1.2, norm=2),
    "matern": mh.Matern(2.5, 0.9),
    "rational": mh.RationalQuadratic(0.7, 1.3),
    "imq": mh.InverseMultiquadric(0.7),
    "sum": mh.Gaussian(0.4) + 0.5 * mh.Gaussian(np.array([2.0, 1.0])),
    "product": mh.Gaussian(0.6).on(1) * mh.Matern(1.5, 2.0).on(0),
    "polynomial": mh.Polynomial(3),
}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((6, 2)), rng.standard_normal((4, 2))


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def log_jacobian(kernel, X, Z, directions):
    return jax.jit(lambda X, Z: pseudolikelihood.log_jacobian(kernel, X, Z, directions))(X, Z)


@partial(jax.jit, static_argnames="amplitude")
def log_pseudolikelihood(kernel, X, Z, tau2, prior, amplitude=False):
    return pseudolikelihood.log_pseudolikelihood(kernel, X, Z, tau2, prior, np.eye(2), amplitude)


def nu_of(X, volume=1.0):
    return Measure(volume, {}, X)


@pytest.mark.parametrize("name", list(KERNELS))
def test_the_gaussian_is_that_of_mn_dimensions(name, data):
    X, Z = data
    kernel, tau2 = KERNELS[name], 0.3
    K, R = kernel(X, Z), prior_kernel(kernel, 2, nu_of(X))(Z)
    cov = np.kron(np.ones((6, 6)), R) + tau2 * np.eye(24)
    brute = stats.multivariate_normal(np.zeros(24), cov).logpdf(K.reshape(-1))
    assert log_marginal(K, R, tau2) == pytest.approx(brute, rel=1e-9)
    assert float(log_marginal(jnp.array(K), jnp.array(R), jnp.array(tau2))) == pytest.approx(brute, rel=1e-9)


SLOW = {"ard", "laplace", "laplace2", "rational", "imq"}
CASES = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in KERNELS]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_jacobian_is_that_of_finite_differences(name, data):
    X, Z = data
    kernel, h = KERNELS[name], 1e-6
    total = 0.0
    for x in X:
        columns = [(kernel(x[None] + h * e, Z) - kernel(x[None] - h * e, Z))[0] / (2 * h) for e in np.eye(2)]
        J = np.stack(columns, axis=1)
        total += 0.5 * np.linalg.slogdet(J.T @ J)[1]
    ours = log_jacobian(kernel, jnp.array(X), jnp.array(Z), np.eye(2))
    assert float(ours) == pytest.approx(total, rel=1e-6)


@pytest.mark.slow
def test_both_parts_are_added_and_the_amplitude_is_a_kernel_at_noise_1(data):
    X, Z = (jnp.array(a) for a in data)
    kernel, tau2, nu = mh.Gaussian(0.8), 0.3, nu_of(data[0], 2.0)
    prior = prior_kernel(kernel, 2, nu)
    whole = log_pseudolikelihood(kernel, X, Z, jnp.array(tau2), prior)
    parts = log_marginal(kernel(X, Z), prior(Z), tau2) + log_jacobian(kernel, X, Z, np.eye(2))
    assert float(whole) == pytest.approx(float(parts), rel=1e-12)
    scaled = kernel * (1 / np.sqrt(tau2))
    at_one = log_pseudolikelihood(scaled, X, Z, jnp.array(1.0), prior_kernel(scaled, 2, nu))
    ours = log_pseudolikelihood(kernel, X, Z, jnp.array(tau2), prior, amplitude=True)
    assert float(ours) == pytest.approx(float(at_one), rel=1e-12)


def test_free_noise_has_no_maximum_but_the_amplitude_has_one(data):
    """Eq. (15) grows like 2n(m − D) log θ along τ² ~ θ⁻⁴; the amplitude's form tends to a constant."""
    X, Z = (jnp.array(a) for a in data)
    literal, bounded = [], []
    for ell in (1e2, 1e4):
        kernel = mh.Gaussian(ell)
        tau2 = jnp.array(float(np.var(np.asarray(kernel(*data)), axis=0).mean()))
        prior = prior_kernel(kernel, 2, nu_of(data[0]))
        literal.append(log_pseudolikelihood(kernel, X, Z, tau2, prior))
        bounded.append(log_pseudolikelihood(kernel, X, Z, tau2, prior, amplitude=True))
    growth = 2 * 6 * (4 - 2) * np.log(100)
    # The m dimensions of the mean embedding itself cost a few logarithms, whatever n.
    assert float(literal[1] - literal[0]) == pytest.approx(growth, abs=4 * 4 * np.log(100))
    assert literal[1] - literal[0] > 20
    assert bounded[1] < bounded[0]


@pytest.mark.parametrize("D", [1, 2, 3])
def test_the_volume_does_not_underflow(D):
    """Rows down to e^{-5000}: the answer is Cauchy and Binet's sum over minors, in logarithms."""
    rng = np.random.default_rng(D)
    V = rng.standard_normal((6, D))
    V[1] = V[0]  # two equal rows are one direction
    L = np.array([0.0, -1.0, -900.0, -2500.0, -2501.0, -5000.0])
    minors = [list(rows) for rows in combinations(range(6), D) if D == 1 or not {0, 1} <= set(rows)]
    exact = 0.5 * logsumexp([2 * L[r].sum() + 2 * np.linalg.slogdet(V[r])[1] for r in minors])
    assert float(log_volume(jnp.array(L), jnp.array(V))) == pytest.approx(exact, rel=1e-12)
    # Rows in any order.
    turn = rng.permutation(6)
    assert float(log_volume(jnp.array(L[turn]), jnp.array(V[turn]))) == pytest.approx(exact, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_the_volume_has_its_derivatives(spread):
    rng = np.random.default_rng(0)
    L, V = jnp.array(-spread * rng.random(7)), jnp.array(rng.standard_normal((7, 3)))
    dL, dV = rng.standard_normal(7), rng.standard_normal((7, 3))
    h = 1e-5
    change = (log_volume(L + h * dL, V + h * dV) - log_volume(L - h * dL, V - h * dV)) / (2 * h)
    in_L, in_V = jax.grad(log_volume, argnums=(0, 1))(L, V)
    assert float((in_L * dL).sum() + (in_V * dV).sum()) == pytest.approx(float(change), rel=1e-6)
    # A common factor of all rows is D factors of the volume; each row counts by its leverage.
    assert float(in_L.sum()) == pytest.approx(3, rel=1e-10)


@pytest.mark.slow
def test_too_few_directions_have_no_volume():
    V = jnp.array([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]])
    assert float(log_volume(jnp.zeros(3), V)) == -np.inf
    assert float(log_volume(jnp.array([0.0, -jnp.inf, 0.0]), V + jnp.eye(3, 2)[::-1])) > -np.inf


@pytest.mark.slow
def test_blocks_of_rows_make_no_difference(data, monkeypatch):
    X, Z = (jnp.array(a) for a in data)
    whole = log_jacobian(mh.Gaussian(0.8), X, Z, np.eye(2))
    monkeypatch.setattr("muhat.learning.pseudolikelihood.BLOCK", 32)
    assert float(log_jacobian(mh.Gaussian(0.8), X, Z, np.eye(2))) == pytest.approx(float(whole), rel=1e-12)


def test_smoothing_of_sums_and_products_is_the_integral():
    first, second = mh.Gaussian(0.5), 2.0 * mh.Gaussian(1.5)
    x, y = np.array([[0.3]]), np.array([[-0.4]])
    for kernel in (first + second, first + second + 0.5 * mh.Gaussian(3.0)):
        value, _ = quad(
            lambda u, k=kernel: (k(x, np.array([[u]])) * k(np.array([[u]]), y)).item(), -30, 30, limit=200
        )
        assert kernel.smoothed(1)(x, y).item() == pytest.approx(value, rel=1e-9)
    product = 3.0 * (mh.Gaussian(0.5).on(0) * mh.Laplace(2.0).on(1))
    a, b = np.array([[0.3, 1.0]]), np.array([[-0.4, 0.2]])
    parts = mh.Gaussian(0.5).smoothed(1)(x, y) * mh.Laplace(2.0).smoothed(1)(a[:, 1:], b[:, 1:])
    assert product.smoothed(2)(a, b).item() == pytest.approx(9 * parts.item(), rel=1e-12)
    turned = mh.Gaussian(np.array([1.0, 3.0])).on([1, 0])
    np.testing.assert_allclose(turned.smoothed(2)(a, b), mh.Gaussian(np.array([3.0, 1.0])).smoothed(2)(a, b))
    with pytest.raises(mh.NoClosedForm, match="sums of Gaussians"):
        (mh.Gaussian(1.0) + mh.Laplace(1.0)).smoothed(1)


def test_the_prior_of_any_kernel_is_an_integral():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(40), rng.integers(3, size=40)])
    # Categories: the mean over their values, here by hand.
    kernel = mh.Gaussian(0.7).on(0) * mh.Delta(0.2).on(1)
    r = prior_kernel(kernel, 2, Measure(2.0, {1: 3}, X))
    a, b = np.array([[0.1, 0.0]]), np.array([[0.5, 2.0]])
    over = np.mean(
        [(mh.Delta(0.2)(a[:, 1:], [[c]]) * mh.Delta(0.2)([[c]], b[:, 1:])).item() for c in range(3)]
    )
    smooth = mh.Gaussian(0.7).smoothed(1)(a[:, :1], b[:, :1]).item() / 2.0
    assert r(a, b).item() == pytest.approx(over * smooth, rel=1e-12)
    # No closed form: a sum over the data.
    kernel = mh.RationalQuadratic(0.7)
    r = prior_kernel(kernel, 2, Measure(2.0, {}, X))
    assert isinstance(r, SmoothedBy)
    assert r(a, b).item() == pytest.approx((kernel(a, X) @ kernel(X, b)).item() / 40, rel=1e-12)
    np.testing.assert_allclose(r.diag(X), np.diag(r(X)))
