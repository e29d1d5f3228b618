"""The marginal pseudolikelihood of a sample given the kernel [F16, Section 4.3].

``p(x₁, …, xₙ | θ) = N(vec K_zx; 0, 1 1ᵀ ⊗ R_zz + τ² I) · Πᵢ γ(xᵢ)`` with ``γ = √det JᵀJ`` and
``J = ∂k(x, z)/∂x``: the Gaussian of eq. (15) in the closed form of eq. (33), and the volume by which
``x ↦ k(x, z)`` stretches space, eq. (13).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import log, pi, sqrt
from typing import Any

import numpy as np

from muhat._array import Array, Namespace, namespace, root
from muhat._linalg import Cholesky, cholesky
from muhat.kernels.algebra import Product, Restricted, Scaled, Sum
from muhat.kernels.base import Kernel
from muhat.kernels.delta import Delta
from muhat.kernels.stationary import Gaussian, Laplace, Matern, Stationary, _matern_polynomial, _StudentType

# Numbers in a block of rows of the Jacobian: bounds the memory of its gradient.
BLOCK = 1_000_000
# A row of unit length that is closer to the span of others lies in it.
TINY = 1e-12


def log_marginal(K: Array, R: Array, tau2: Array) -> Array:
    """``log N(vec K; 0, 1 1ᵀ ⊗ R + τ² I)`` in O(m³ + nm) [F16, eq. (33)].

    Args:
        K: ``k(xᵢ, zⱼ)``, (n, m).
        R: ``r(zᵢ, zⱼ)``, (m, m).
        tau2: τ² > 0.
    """
    xp = namespace(K, R, tau2)
    n, m = K.shape
    mean = K.mean(axis=0)
    factor = _factor(R, tau2 / n, xp)
    # ‖K‖² − n‖μ̂‖², summed about the mean: no digits are lost when k hardly varies.
    within = ((K - mean) ** 2).sum()
    return -0.5 * (
        factor.logdet()
        + mean @ factor.solve(mean)
        + within / tau2
        + m * log(n)
        + m * (n - 1) * xp.log(tau2)
        + m * n * log(2 * pi)
    )


def _factor(R: Array, noise: Array, xp: Namespace) -> Cholesky:
    """The Cholesky factor of ``R + noise · I``."""
    eye = xp.eye(R.shape[0], dtype=R.dtype)
    if xp is np:
        return cholesky(R + noise * eye, "R + (τ²/n)I", "Raise noise.")
    # Compiled, and called thousands of times: rounding error is added to the diagonal at once, not in a
    # search, and what still fails is NaN.
    rounding = 10 * float(xp.finfo(R.dtype).eps) * xp.diagonal(R).sum()
    return Cholesky(xp.linalg.cholesky(R + (noise + rounding) * eye), rounding)


def log_volume(L: Array, V: Array) -> Array:
    """``½ log det JᵀJ`` for ``J = diag(e^L) V``, with ``L`` (m,) and ``V`` (m, D), in JAX.

    Few z may be near x: then the rows of J differ by more than floating-point numbers can, and JᵀJ
    underflows. So D long and independent rows are chosen as a basis B, each row is written in that basis,
    and with ``J = b diag(e^{L_B}) B`` the volume is ``|det B| Π e^{L_B} √det bᵀb``. The basis having been
    chosen greedily, the entries of b are of order 1.
    """
    if V.shape[1] == 1:
        return _length(L, V[:, 0])
    return _differentiable_volume()(L, V)


def _length(L: Array, v: Array) -> Array:
    """:func:`log_volume` in one dimension: ``½ log Σ e^{2L} v²``."""
    import jax
    import jax.numpy as jnp

    seen = (v != 0) & jnp.isfinite(L)
    # The largest e^L with a slope at all; what underflows beside it is less than its own share.
    top = jax.lax.stop_gradient(jnp.max(jnp.where(seen, L, -jnp.inf)))
    total = (jnp.exp(2 * (jnp.where(seen, L, -jnp.inf) - top)) * v**2).sum()
    return jnp.where(total > 0, top + 0.5 * jnp.log(jnp.where(total > 0, total, 1.0)), -jnp.inf)


@cache
def _differentiable_volume() -> Callable[[Array, Array], Array]:
    import jax

    value = jax.custom_vjp(lambda L, V: _volume_and_slopes(L, V)[0])

    def forward(L: Array, V: Array) -> tuple[Array, tuple[Array, Array]]:
        out, in_L, in_V = _volume_and_slopes(L, V)
        return out, (in_L, in_V)

    value.defvjp(forward, lambda kept, g: (g * kept[0], g * kept[1]))
    return value


def _volume_and_slopes(L: Array, V: Array) -> tuple[Array, Array, Array]:
    """:func:`log_volume` and its derivatives, ``Jₗ(JᵀJ)⁻¹Jₗᵀ`` in L and ``e^{Lₗ} (JᵀJ)⁻¹ Jₗ`` in V."""
    import jax.numpy as jnp

    size = jnp.sqrt((V**2).sum(axis=1))
    seen = (size > 0) & jnp.isfinite(L)
    size = jnp.where(seen, size, 1.0)
    V = V / size[:, None]
    L = jnp.where(seen, L + jnp.log(size), -jnp.inf)
    rows, axes, triangle = _long_rows(L, V)
    # B = triangle · axesᵀ, so that in the basis a row v is v axes triangle⁻¹.
    inverse = _inverse_lower(triangle)
    beta = jnp.where(seen[:, None], V @ (axes @ inverse), 0.0)
    beta = jnp.where(jnp.abs(beta) > TINY, beta, 0.0)
    is_basis = (jnp.arange(len(L))[:, None] == rows).any(axis=1)
    beta = jnp.where(is_basis[:, None], (jnp.arange(len(L))[:, None] == rows).astype(V.dtype), beta)
    stretch = jnp.exp(jnp.where(beta != 0, L[:, None] - L[rows], 0.0))
    b = beta * stretch
    inner = _inverse_lower(_lower(b.T @ b))
    y = b @ (inner.T @ inner)
    out = jnp.log(jnp.diagonal(triangle)).sum() + L[rows].sum() - jnp.log(jnp.diagonal(inner)).sum()
    # In β; of the basis itself from Σₗ βₗᵢ ∂/∂βₗⱼ = δᵢⱼ, whose terms do not overflow.
    in_beta = jnp.where((beta != 0) & ~is_basis[:, None], stretch * y, 0.0)
    in_beta = in_beta.at[rows].set(jnp.eye(V.shape[1]) - beta.T @ in_beta)
    in_V = in_beta @ (axes @ inverse).T / size[:, None]
    full = (jnp.diagonal(triangle) > 0).all() & jnp.isfinite(L[rows]).all()
    return jnp.where(full, out, -jnp.inf), (b * y).sum(axis=1), in_V


def _long_rows(L: Array, V: Array) -> tuple[Array, Array, Array]:
    """D rows of ``diag(e^L) V``, each the longest off those before, and ``V[rows] = T Aᵀ``.

    Returns their indices (D,), the axes A (D, D) and the lower triangle T (D, D), whose diagonal is 0 from
    where there are no more rows.
    """
    import jax
    import jax.numpy as jnp

    D = V.shape[1]

    def step(i: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        rows, axes, W = state
        square = (W**2).sum(axis=1)
        # What is left of a parallel row is rounding error, however long the row.
        seen = square > TINY**2
        length = jnp.where(seen, L + 0.5 * jnp.log(jnp.where(seen, square, 1.0)), -jnp.inf)
        p = jnp.argmax(length)
        axis = W[p] / jnp.where(seen[p], jnp.sqrt(square[p]), jnp.inf)
        return rows.at[i].set(p), axes.at[:, i].set(axis), W - (W @ axis)[:, None] * axis

    start = (jnp.zeros(D, dtype=int), jnp.zeros((D, D), V.dtype), V)
    rows, axes, _ = jax.lax.fori_loop(0, D, step, start)
    return rows, axes, jnp.tril(V[rows] @ axes)


# Small triangles, by loops: many calls of LAPACK inside compiled code are slow, and can block each other.


def _lower(A: Array) -> Array:
    """The Cholesky factor of a small ``A`` (D, D)."""
    import jax
    import jax.numpy as jnp

    D = A.shape[0]

    def step(j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        lower, rest = state
        column = jnp.where(jnp.arange(D) >= j, rest[:, j], 0.0) / jnp.sqrt(rest[j, j])
        return lower.at[:, j].set(column), rest - column[:, None] * column

    return jax.lax.fori_loop(0, D, step, (jnp.zeros_like(A), A))[0]


def _inverse_lower(T: Array) -> Array:
    """The inverse of a small lower triangle (D, D)."""
    import jax
    import jax.numpy as jnp

    eye = jnp.eye(T.shape[0], dtype=T.dtype)

    def step(i: Array, out: Array) -> Array:
        return out.at[i].set((eye[i] - T[i] @ out) / T[i, i])

    return jax.lax.fori_loop(0, T.shape[0], step, jnp.zeros_like(T))


def log_jacobian(kernel: Kernel, X: Array, Z: Array, directions: Any) -> Array:
    """``Σᵢ log γ(xᵢ)`` [F16, eq. (13)], in JAX.

    Args:
        kernel: k.
        X: rows, (n, d).
        Z: the points z, (m, d).
        directions: (d, D): in which x may move. The identity, except where columns hold categories, are
            constant or depend on each other.
    """
    import jax

    m, D = Z.shape[0], directions.shape[1]
    move = _moves(np.asarray(directions))

    def of_row(x: Array) -> Array:
        L, V = _slopes(kernel, x, Z)
        return log_volume(L, move(V))

    block = max(1, BLOCK // (m * D))
    if X.shape[0] <= block:
        return jax.vmap(of_row)(X).sum()
    return jax.lax.map(of_row, X, batch_size=block).sum()


def _moves(directions: np.ndarray) -> Callable[[Array], Array]:
    """``V ↦ V directions``, or nothing when these are the axes."""
    if directions.shape[0] == directions.shape[1] and np.array_equal(directions, np.eye(len(directions))):
        return lambda V: V
    return lambda V: V @ directions


def _slopes(kernel: Kernel, x: Array, Z: Array) -> tuple[Array, Array]:
    """``L`` (m,) and ``V`` (m, d) with ``∂k(x, zₗ)/∂x = e^{Lₗ} Vₗ``."""
    import jax
    import jax.numpy as jnp

    if _is_positive(kernel):
        return _log_slopes(kernel, x, Z)
    J = jax.jacfwd(lambda at: kernel(at[None], Z)[0])(x)
    size = jnp.abs(J).max(axis=1)
    seen = size > 0
    safe = jnp.where(seen, size, 1.0)
    return jnp.where(seen, jnp.log(safe), -jnp.inf), J / safe[:, None]


def _is_positive(kernel: Kernel) -> bool:
    """Whether ``log k`` is known, here: for kernels made of stationary ones and Deltas."""
    if isinstance(kernel, (Sum, Product)):
        return _is_positive(kernel.left) and _is_positive(kernel.right)
    if isinstance(kernel, (Scaled, Restricted)):
        return _is_positive(kernel.kernel)
    return isinstance(kernel, (Gaussian, Laplace, Matern, _StudentType, Delta))


def _log_slopes(kernel: Kernel, x: Array, Z: Array) -> tuple[Array, Array]:
    """``log k(x, zₗ)`` (m,) and its gradient in x (m, d): k itself may underflow, these do not."""
    import jax.numpy as jnp

    if isinstance(kernel, Scaled):
        L, V = _log_slopes(kernel.kernel, x, Z)
        return L + jnp.log(kernel.scale), V
    if isinstance(kernel, Restricted):
        c = jnp.asarray(kernel.indices(x.shape[0]))
        L, V = _log_slopes(kernel.kernel, x[c], Z[:, c])
        return L, jnp.zeros(Z.shape, V.dtype).at[:, c].set(V)
    if isinstance(kernel, (Sum, Product)):
        (L1, V1), (L2, V2) = (_log_slopes(part, x, Z) for part in (kernel.left, kernel.right))
        if isinstance(kernel, Product):
            return L1 + L2, V1 + V2
        L = jnp.logaddexp(L1, L2)
        return L, jnp.exp(L1 - L)[:, None] * V1 + jnp.exp(L2 - L)[:, None] * V2
    if isinstance(kernel, Delta):  # constant in x almost everywhere
        return jnp.log(kernel(x[None], Z)[0]), jnp.zeros_like(Z)
    assert isinstance(kernel, Stationary)
    return _stationary_slopes(kernel, x, Z)


def _stationary_slopes(kernel: Stationary, x: Array, Z: Array) -> tuple[Array, Array]:
    import jax
    import jax.numpy as jnp

    ell = kernel._unit(Z, jnp)
    difference = x - Z
    if isinstance(kernel, Laplace) and kernel.norm == 1:
        return -jnp.abs(difference / ell).sum(axis=1), -jnp.sign(difference) / ell
    s = ((difference / ell) ** 2).sum(axis=1)
    if isinstance(kernel, Gaussian):  # F16, before eq. (17), with its sign
        return -0.5 * s, -difference / ell**2
    L, in_s = jax.jvp(lambda s: _log_of(kernel, s), (s,), (jnp.ones_like(s),))
    return L, (2 * in_s)[:, None] * difference / ell**2


def _log_of(kernel: Stationary, s: Array) -> Array:
    """``log f(s)``."""
    import jax.numpy as jnp

    if isinstance(kernel, _StudentType):
        return -kernel._power() * jnp.log1p(s / kernel._width())
    nu = kernel.nu if isinstance(kernel, Matern) else 0.5  # the ℓ2 Laplace kernel is Matérn 1/2
    r = sqrt(2 * nu) * root(s, jnp)
    return jnp.log(jnp.polyval(jnp.asarray(_matern_polynomial(nu)[::-1]), r)) - r


def log_pseudolikelihood(
    kernel: Kernel, X: Array, Z: Array, tau2: Array, prior: Kernel, directions: Any, amplitude: bool = False
) -> Array:
    """``log p(x₁, …, xₙ | θ, τ²)``, eq. (33) plus the Jacobian of eq. (13) [F16], in JAX.

    With ``amplitude`` it is that of the kernel ``k/τ`` at noise 1, which is the same but for
    ``n (m − D) log τ``. Eq. (15) evaluates a Gaussian in m dimensions on the image of D: as a function
    of (θ, τ²) together it has no maximum for m > D, for it grows like ``2n (m − D) log θ`` when θ → ∞
    and τ² follows the variance of k, which vanishes like θ⁻⁴. As a function of the lengthscale and the
    amplitude of k at a given noise it has one; so that is what is learned, and reported as τ².

    Args:
        kernel: k.
        X: rows, (n, d).
        Z: the points z at which embeddings are compared, (m, d), m ≥ D.
        tau2: τ².
        prior: r.
        directions: (d, D), see :func:`log_jacobian`.
        amplitude: whether the noise stands for the amplitude of k.
    """
    xp = namespace(X, Z, tau2, *kernel.leaves())
    out = log_marginal(kernel(X, Z), prior(Z), tau2) + log_jacobian(kernel, X, Z, directions)
    if amplitude:
        out = out + 0.5 * X.shape[0] * (Z.shape[0] - directions.shape[1]) * xp.log(tau2)
    return out


__all__ = ["log_jacobian", "log_marginal", "log_pseudolikelihood", "log_volume"]
