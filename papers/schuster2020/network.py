"""A mixture density network: the mark to beat where the density is smooth and known to be a mixture."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

HIDDEN, LAYERS, PARTS = 64, 2, 20
BATCH, STEPS, LEARNING_RATE = 256, 3000, 3e-3
EVERY = 100  # steps between looks at the held-out rows
KEPT_OUT = 0.1


def log_density(network: eqx.nn.MLP, x: jax.Array, y: jax.Array) -> jax.Array:
    """log p(y | x) of one x (d,) at one y (k,): a mixture of normals with diagonal covariances."""
    k = len(y)
    out = network(x).reshape(PARTS, 2 * k + 1)
    weight, mean, log_sd = jax.nn.log_softmax(out[:, 0]), out[:, 1 : k + 1], out[:, k + 1 :]
    log_sd = jnp.maximum(log_sd, -6.0)
    z = (y - mean) * jnp.exp(-log_sd)
    each = -0.5 * (z**2).sum(axis=1) - log_sd.sum(axis=1) - 0.5 * k * jnp.log(2 * jnp.pi)
    return jax.nn.logsumexp(weight + each)


def _loss(network: eqx.nn.MLP, X: jax.Array, Y: jax.Array) -> jax.Array:
    return -jax.vmap(log_density, (None, 0, 0))(network, X, Y).mean()


def _adam(steps: int) -> Any:
    return optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, steps))


@eqx.filter_jit
def _train(network: Any, learn: Any, held: Any, key: Any, steps: int) -> Any:
    """The network with the least loss on the held-out rows."""
    weights, rest = eqx.partition(network, eqx.is_inexact_array)
    adam = _adam(steps)

    def step(state: Any, key: Any) -> tuple[Any, None]:
        weights, memory = state
        rows = jax.random.randint(key, (BATCH,), 0, len(learn[0]))
        slope = jax.grad(lambda w: _loss(eqx.combine(w, rest), learn[0][rows], learn[1][rows]))(weights)
        change, memory = adam.update(slope, memory)
        return (optax.apply_updates(weights, change), memory), None

    def look(state: Any, keys: Any) -> tuple[Any, None]:
        inner, best, least = state
        inner, _ = jax.lax.scan(step, inner, keys)
        value = _loss(eqx.combine(inner[0], rest), *held)
        best = jax.tree.map(lambda a, b: jnp.where(value < least, a, b), inner[0], best)
        return (inner, best, jnp.minimum(value, least)), None

    keys = jax.random.split(key, (steps // EVERY, EVERY))
    start = ((weights, adam.init(weights)), weights, jnp.inf)
    (_, best, _), _ = jax.lax.scan(look, start, keys)
    return eqx.combine(best, rest)


@eqx.filter_jit
def _values(network: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.exp(jax.vmap(lambda a: jax.vmap(lambda b: log_density(network, a, b))(y))(x))


def mixture_network(X: np.ndarray, Y: np.ndarray, seed: int, steps: int = STEPS) -> Any:
    """Two layers of 64 units and 20 normals; Adam, the best look on a held-out tenth."""
    (mx, sx), (my, sy) = ((A.mean(axis=0), A.std(axis=0)) for A in (X, Y))
    order = np.random.default_rng(seed).permutation(len(X))
    A, B = (jnp.asarray(a[order], jnp.float32) for a in ((X - mx) / sx, (Y - my) / sy))
    cut = round(KEPT_OUT * len(A))
    keys = jax.random.split(jax.random.key(seed), 2)
    network = eqx.nn.MLP(
        X.shape[1], PARTS * (2 * Y.shape[1] + 1), HIDDEN, LAYERS, activation=jax.nn.tanh, key=keys[0]
    )
    network = _train(network, (A[cut:], B[cut:]), (A[:cut], B[:cut]), keys[1], steps)
    jax.block_until_ready(eqx.filter(network, eqx.is_array))

    def pdf(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        a, b = (jnp.asarray(v, jnp.float32) for v in ((x - mx) / sx, (y - my) / sy))
        return np.asarray(_values(network, a, b), dtype=float) / sy.prod()

    return pdf
