"""The LSTM baseline of [X22, Section 5.3]: the state from the last ten images, no model of the dynamics."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from muhat.gram import Convolutional, Perceptron

WINDOW, HIDDEN, FEATURES = 10, 64, 32
LEARNING_RATE, WEIGHT_DECAY = 3e-3, 1e-2
KEPT_OUT = 0.1


class Tracker(eqx.Module):
    """Features of each image, an LSTM over windows of them, and a linear readout."""

    network: Any
    cell: eqx.nn.LSTMCell
    readout: eqx.nn.Linear

    def __init__(self, network: Convolutional | Perceptron, d: int, k: int, key: Any) -> None:
        keys = jax.random.split(key, 3)
        self.network = network.build(d, FEATURES, keys[0])
        self.cell = eqx.nn.LSTMCell(FEATURES, HIDDEN, key=keys[1])
        self.readout = eqx.nn.Linear(HIDDEN, k, key=keys[2])

    def __call__(self, X: jax.Array) -> jax.Array:
        """The states at the ends of all windows in ``X`` (T, d), (T − 9, k)."""
        features = jax.nn.relu(jax.vmap(self.network)(X))
        ends = jnp.arange(len(X) - WINDOW + 1)
        state = (jnp.zeros((len(ends), HIDDEN)), jnp.zeros((len(ends), HIDDEN)))
        for i in range(WINDOW):
            state = jax.vmap(self.cell)(features[ends + i], state)
        return jax.vmap(self.readout)(state[0])


@eqx.filter_jit
def _loss(model: Tracker, X: jax.Array, Z: jax.Array) -> jax.Array:
    return ((model(X) - Z) ** 2).sum(axis=1).mean()


def lstm(
    X: np.ndarray,
    Z: np.ndarray,
    tests: np.ndarray,
    network: Convolutional | Perceptron,
    iterations: int,
    stopping: bool,
    seed: int,
) -> np.ndarray:
    """States of ``tests``, which go on from ``X`` (T, d), by an LSTM trained on ``X`` and ``Z``, (q, k).

    Args:
        X: images.
        Z: states.
        tests: images to be tracked.
        network: that makes the features of an image, the same as that of the learned features.
        iterations: steps of AdamW on all windows.
        stopping: whether the last tenth of the sequence is kept out and the best iteration on it taken.
        seed: of the first weights.
    """
    one_scale = isinstance(network, Convolutional)
    centre, scale = (X.mean(), X.std()) if one_scale else (X.mean(axis=0), X.std(axis=0))
    middle, spread = Z.mean(axis=0), Z.std(axis=0)
    A, B = (jnp.asarray(a, jnp.float32) for a in ((X - centre) / scale, (Z - middle) / spread))
    cut = round(len(A) * (1 - KEPT_OUT)) if stopping else len(A)
    learn = (A[:cut], B[WINDOW - 1 : cut])
    judge = (A[cut - WINDOW + 1 :], B[cut:])
    model = Tracker(network, X.shape[1], Z.shape[1], jax.random.key(seed))
    adam = optax.adamw(optax.cosine_decay_schedule(LEARNING_RATE, iterations), weight_decay=WEIGHT_DECAY)
    memory = adam.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model: Tracker, memory: Any, X: jax.Array, Z: jax.Array) -> tuple[Tracker, Any]:
        slope = eqx.filter_grad(_loss)(model, X, Z)
        change, memory = adam.update(slope, memory, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, change), memory

    best, least = model, np.inf
    for i in range(iterations):
        model, memory = step(model, memory, *learn)
        if not stopping:
            best = model
        elif i % 5 == 4 and (value := float(_loss(model, *judge))) < least:
            best, least = model, value
    both = np.concatenate([np.asarray(A[-WINDOW + 1 :]), ((tests - centre) / scale).astype(np.float32)])
    return np.asarray(eqx.filter_jit(best)(jnp.asarray(both)), dtype=float) * spread + middle
