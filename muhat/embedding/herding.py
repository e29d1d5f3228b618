"""Super-samples: points whose plain average stands for an embedding."""

from __future__ import annotations

import numpy as np

from muhat.gram import kernel_matmul
from muhat.kernels.base import Kernel


def herd_candidates(kernel: Kernel, candidates: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """Indices of ``n`` candidates chosen greedily by kernel herding [CH10].

    Step t takes the candidate with the largest ``μ(z) − (1/(t+1)) Σ_{s<t} k(z, z_s)``.

    Args:
        kernel: k.
        candidates: (m, d).
        values: μ at the candidates, (m,).
        n: how many to take (a candidate may be taken again).
    """
    chosen = np.empty(n, dtype=int)
    repulsion = np.zeros(len(candidates))
    for t in range(n):
        chosen[t] = best = int(np.argmax(values - repulsion / (t + 1)))
        repulsion += np.asarray(kernel(candidates, candidates[best : best + 1]))[:, 0]
    return chosen


def herd_ascent(
    kernel: Kernel, points: np.ndarray, weights: np.ndarray, n: int, starts: np.ndarray
) -> np.ndarray:
    """``n`` super-samples anywhere in space, each by ascent from the best of ``starts``, (n, d).

    The objective of step t is a weighted sum of kernels on the points and on the samples so far; slots
    for all n samples are kept from the beginning, so that one compilation serves every step.
    """
    import jax
    import jax.numpy as jnp
    from scipy.optimize import minimize

    values = kernel_matmul(kernel, starts, points, weights)
    repulsion = np.zeros(len(starts))
    samples = np.repeat(starts[:1], n, axis=0)
    with jax.enable_x64(True):

        def loss(x: jax.Array, slots: jax.Array, slot_weights: jax.Array) -> jax.Array:
            z = x[None, :]
            return -(kernel(z, jnp.asarray(points)) @ weights)[0] + (kernel(z, slots) @ slot_weights)[0]

        step = jax.jit(jax.value_and_grad(loss))
        spread = points.std(axis=0)  # one unit of ascent is one standard deviation
        spread = np.where(spread > 0, spread, 1.0)
        for t in range(n):
            slot_weights = (np.arange(n) < t) / (t + 1)
            x0 = starts[int(np.argmax(values - repulsion / (t + 1)))]

            def objective(u: np.ndarray, w: np.ndarray = slot_weights) -> tuple[float, np.ndarray]:
                value, gradient = step(u * spread, samples, w)
                return float(value), np.asarray(gradient, dtype=float) * spread

            found = minimize(objective, x0 / spread, jac=True, method="L-BFGS-B")
            start_value = objective(x0 / spread)[0]
            samples[t] = found.x * spread if found.fun < start_value else x0
            repulsion += np.asarray(kernel(starts, samples[t : t + 1]))[:, 0]
    return samples
