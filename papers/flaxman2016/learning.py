"""Bayesian kernel learning of one lengthscale on many samples of one shape, compiled once.

:func:`muhat.learn_kernel` compiles once a call. The figures learn hundreds of isotropic Gaussian kernels on
samples of the same size; here they share what is compiled. What is maximised, and how, is the library's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np

import muhat as mh
from muhat.embedding.bayesian import Measure, prior_kernel
from muhat.learning.learn_kernel import LearnedKernel, maximise
from muhat.learning.problem import SERIAL, Problem, make_problem
from muhat.learning.pseudolikelihood import log_pseudolikelihood


@cache
def _compiled(d: int, free: bool) -> Callable[..., Any]:
    """Log pseudolikelihood and gradient in (log ℓ, log τ²), for ν the Lebesgue measure."""
    import jax
    import jax.numpy as jnp

    nu, axes = Measure(1.0, {}, np.zeros((1, d))), np.eye(d)

    def value(v: Any, X: Any, Z: Any) -> Any:
        kernel = mh.Gaussian(jnp.exp(v[0]))
        prior = prior_kernel(kernel, d, nu)
        return log_pseudolikelihood(kernel, X, Z, jnp.exp(v[1]), prior, axes, amplitude=free)

    return jax.jit(jax.value_and_grad(value), compiler_options=SERIAL)


class SharedProblem(Problem):
    """A problem of one lengthscale whose compiled likelihood is that of all others of its shape."""

    def value_and_grad(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        import jax

        n, d = self.X.shape
        # In units in which ν has volume 1, so that the volume is no constant of the compiled function.
        unit = self.nu.volume ** (1 / d)
        X, Z, start = self.X / unit, self.Z / unit, float(self.base[0]) - np.log(unit)
        given = self.noise
        both = _compiled(d, given is None)

        def call(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            at = np.array([start + v[0], v[1] if given is None else np.log(given)])
            with jax.enable_x64(True):
                value, gradient = both(at, X, Z)
            return np.asarray(value) - n * d * np.log(unit), np.asarray(gradient)[: len(v)]

        return call


def shared_problem(
    X: Any, points: int | None, noise: float | None, rng: np.random.Generator
) -> SharedProblem:
    """The problem of the lengthscale of an isotropic Gaussian kernel; arguments as in ``learn_kernel``."""
    problem = make_problem(X, mh.Gaussian("median"), points, noise, False, rng)
    return SharedProblem(**{f.name: getattr(problem, f.name) for f in fields(problem)})


def learn_lengthscale(
    X: Any, points: int | None = None, noise: float | None = None, starts: int = 3, random_state: Any = 0
) -> LearnedKernel:
    """``mh.learn_kernel(X, mh.Gaussian("median"), …)``, without compiling again."""
    rng = np.random.default_rng(random_state)
    return maximise(shared_problem(X, points, noise, rng), starts, rng)


def profile(problem: Problem, lengthscales: np.ndarray) -> np.ndarray:
    """The log pseudolikelihood at each lengthscale, with τ² at its best there unless it is given, (s,)."""
    from scipy.optimize import minimize_scalar

    both = problem.value_and_grad()
    out = []
    for ell in lengthscales:
        u = np.log([ell]) - problem.base
        if problem.noise is not None:
            out.append(float(both(u)[0]))
            continue
        middle = np.log(problem.usual_noise(u))
        best: Any = minimize_scalar(
            lambda t, u=u: -float(both(np.append(u, t))[0]), (middle - 1, middle + 1), tol=1e-3
        )
        out.append(-float(best.fun))
    return np.array(out)
