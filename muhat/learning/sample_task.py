"""The posterior of the parameters of a task-transformed Gaussian process, by NUTS."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._progress import progress_bar
from muhat.learning.problem import SERIAL
from muhat.learning.sample_kernel import RHAT, effective_size, split_rhat
from muhat.learning.task_transformed import AMPLITUDE_SD, TaskProblem, amplitude

# Median, as a multiple of where the search is centred, and standard deviation of the logarithm, before z is
# seen: a lengthscale is within a factor of 20 of that of the data, the noise from a hundredth to all of z.
PRIORS = {
    "amplitude": (1.0, AMPLITUDE_SD),
    "lengthscale": (1.0, 1.5),
    "noise": (0.3, 1.5),
    "other": (1.0, 1.0),
}
# Spread of the chains' beginnings about the maximum.
SPREAD = 0.2
# Compiled samplers by structure, the latest ones.
_COMPILED: dict[tuple[Any, ...], Callable[..., Any]] = {}
MOST_COMPILED = 4
# What a compiled sampler calls at each step: the bar of the run that is going on.
_STEP: list[Callable[[], None]] = [lambda: None]


@dataclass(frozen=True)
class SampledTask:
    """How the chains went.

    Attributes:
        labels: names of the parameters that were free.
        mean, sd: of each parameter itself, by name.
        rhat: split R̂ of its logarithm, 1 when the chains agree.
        ess: effective sample size of its logarithm, of all chains together.
        divergences: steps at which the integrator failed.
        shape: chains, and draws in each.
    """

    labels: list[str]
    mean: dict[str, float] = field(repr=False)
    sd: dict[str, float] = field(repr=False)
    rhat: dict[str, float] = field(repr=False)
    ess: dict[str, float] = field(repr=False)
    divergences: int
    shape: tuple[int, int]

    def __repr__(self) -> str:
        width = max(map(len, self.labels))
        lines = [
            f"SampledTask: {self.shape[0]} chains × {self.shape[1]} draws, {self.divergences} divergences"
        ]
        lines.append(f"{'':{width}}  {'mean':>9} {'sd':>9} {'R̂':>6} {'ESS':>6}")
        for name in self.labels:
            shown = f"{self.mean[name]:9.4g} {self.sd[name]:9.4g}"
            lines.append(f"{name:{width}}  {shown} {self.rhat[name]:6.3f} {self.ess[name]:6.0f}")
        return "\n".join(lines)


def prior(problem: TaskProblem) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the free numbers v, before z is seen; they are Gaussian."""
    kinds = [_kind(name) for name, free in zip(problem.labels, problem.free, strict=True) if free]
    median, sd = np.array([PRIORS[kind] for kind in kinds]).reshape(-1, 2).T
    return np.log(median), sd


def _kind(name: str) -> str:
    if name == "noise":
        return "noise"
    return "amplitude" if amplitude(name) else "lengthscale" if "lengthscale" in name else "other"


def sample_task(
    problem: TaskProblem,
    start: np.ndarray,
    chains: int,
    samples: int,
    warmup: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, SampledTask]:
    """Draws of the logarithms of all parameters, (chains, samples, p), from likelihood times prior.

    Args:
        problem: with ``base`` at the centre of the priors; inducing points stay where they are.
        start: logarithms of all parameters, about which the chains begin.
        chains: how many.
        samples: draws kept in each chain.
        warmup: steps before, in which step size and scales are adapted, and which are dropped.
        rng: generator.
    """
    problem = replace(problem, move=False)
    if not problem.free.any():
        raise ValueError("There is nothing to sample: every parameter is given.")
    v, divergences = _nuts(problem, (start - problem.base)[problem.free], chains, samples, warmup, rng)
    draws = np.broadcast_to(problem.base, (*v.shape[:2], len(problem.base))).copy()
    draws[..., problem.free] += v
    found = summary(draws, problem, divergences)
    worst = max(found.rhat, key=lambda name: found.rhat[name])
    if not found.rhat[worst] <= RHAT:
        warnings.warn(
            f"The chains do not agree: R̂ of {worst} is {found.rhat[worst]:.3f} (it should be below {RHAT}). "
            "Raise warmup and samples, or give the noise.",
            stacklevel=5,
        )
    return draws, found


def summary(draws: np.ndarray, problem: TaskProblem, divergences: int) -> SampledTask:
    """What is to be said of ``draws`` (chains, samples, p)."""
    of = {name: draws[..., i] for i, name in enumerate(problem.labels) if problem.free[i]}
    return SampledTask(
        list(of),
        {name: float(np.exp(x).mean()) for name, x in of.items()},
        {name: float(np.exp(x).std()) for name, x in of.items()},
        {name: split_rhat(x) for name, x in of.items()},
        {name: effective_size(x) for name, x in of.items()},
        divergences,
        draws.shape[:2],
    )


def _nuts(
    problem: TaskProblem,
    start: np.ndarray,
    chains: int,
    samples: int,
    warmup: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Draws v, (chains, samples, q), and the number of divergences: one compiled function."""
    import jax

    mean, sd = prior(problem)
    structure = problem._structure()
    key = None if structure is None else (structure, chains, samples, warmup)
    compiled = _COMPILED.get(key) if key is not None else None
    if compiled is None:
        frame = replace(problem, data={})  # what is compiled must not keep the data alive
        compiled = jax.jit(_sampler(frame, chains, samples, warmup), compiler_options=SERIAL)
        if key is not None:
            _COMPILED[key] = compiled
            if len(_COMPILED) > MOST_COMPILED:
                del _COMPILED[next(iter(_COMPILED))]
    seed = int(rng.integers(2**31))
    done = 0
    with progress_bar("sampling the kernels", chains * samples) as move, jax.enable_x64(True):

        def step() -> None:
            nonlocal done
            done += 1
            move(done, "")

        move(0, "(warm-up)")
        _STEP[0] = step
        try:
            v, diverged = compiled(jax.random.key(seed), start, problem.base, mean, sd, problem.arguments())
            v, diverged = np.asarray(v), np.asarray(diverged)
            jax.effects_barrier()
        finally:
            _STEP[0] = lambda: None
    return v, int(diverged.sum())


def _sampler(problem: TaskProblem, chains: int, samples: int, warmup: int) -> Callable[..., Any]:
    import blackjax
    import jax
    import jax.numpy as jnp

    nuts: Any = blackjax.nuts

    def run(key: Array, best: Array, base: Array, mean: Array, sd: Array, data: Any) -> tuple[Array, Array]:
        def density(v: Array) -> Array:
            value = problem.log_likelihood(v, base, data) - 0.5 * (((v - mean) / sd) ** 2).sum()
            return jnp.where(jnp.isnan(value), -jnp.inf, value)

        def chain(key: Array) -> tuple[Array, Array]:
            begin, adapt, go = jax.random.split(key, 3)
            start = best + SPREAD * jax.random.normal(begin, best.shape, best.dtype)
            adaptation: Any = blackjax.window_adaptation(nuts, density)
            (state, tuned), _ = adaptation.run(adapt, start, warmup)
            kernel = nuts(density, **tuned)

            def step(state: Any, key: Array) -> tuple[Any, tuple[Array, Array]]:
                state, info = kernel.step(key, state)
                # Without arguments, so that it waits for no array.
                jax.debug.callback(lambda: _STEP[0]())
                return state, (state.position, info.is_divergent)

            _, out = jax.lax.scan(step, state, jax.random.split(go, samples))
            return out

        # One after the other: side by side, each step would take as long as the longest of them.
        return jax.lax.map(chain, jax.random.split(key, chains))

    return run


__all__ = ["PRIORS", "SampledTask", "prior", "sample_task"]
