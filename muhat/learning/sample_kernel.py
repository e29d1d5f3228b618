"""The posterior of a kernel's parameters by NUTS [F16, Sections 4.3 and 5]."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._validation import as_generator, check_choice, check_count
from muhat.kernels.base import Kernel
from muhat.learning.learn_kernel import starting_points
from muhat.learning.problem import SERIAL, Problem, make_problem

# Rows looked at; more are thinned at random.
ROWS = 4000
# Above this R̂ the chains disagree.
RHAT = 1.05


@dataclass(frozen=True)
class SampledKernel:
    """Draws from the posterior of a kernel's parameters.

    Attributes:
        samples: name → values, (chains, draws); ``"noise"`` is τ², ``"multiple"`` that of the default
            kernel's lengthscales.
        rhat: name → split R̂, 1 when the chains agree.
        ess: name → effective sample size of all chains together.
        divergences: steps at which the integrator failed.
        points: the points z, (m, d).
        problem: the sample and the family of kernels.
    """

    samples: dict[str, np.ndarray]
    rhat: dict[str, float]
    ess: dict[str, float]
    divergences: int
    points: np.ndarray = field(repr=False)
    problem: Problem = field(repr=False)

    @property
    def noise(self) -> np.ndarray:
        """τ² of each draw, (chains, draws)."""
        some = next(iter(self.samples.values()))
        return self.samples.get("noise", np.full(some.shape, self.problem.noise))

    def draws(self, k: int | None = None) -> list[tuple[Kernel, float]]:
        """``k`` draws of (kernel, τ²), evenly spaced over all chains; all of them by default."""
        values = np.stack([self.samples[name].reshape(-1) for name in self.problem.names], axis=1)
        noise = self.noise.reshape(-1)
        if k is None:
            rows = np.arange(len(noise))
        else:
            k = min(check_count(k, "k"), len(noise))
            rows = np.linspace(0, len(noise) - 1, k).round().astype(int)
        return [(self.problem.kernel(self.problem.free(values[i])), float(noise[i])) for i in rows]

    def kernels(self, k: int | None = None) -> list[Kernel]:
        """``k`` kernels of the posterior, evenly spaced over all chains; all of them by default."""
        return [kernel for kernel, _ in self.draws(k)]

    def __repr__(self) -> str:
        chains, draws = self.noise.shape
        width = max(len(name) for name in self.samples)
        lines = [f"SampledKernel: {chains} chains × {draws} draws, {self.divergences} divergences"]
        lines.append(f"{'':{width}}  {'mean':>9} {'sd':>9} {'5%':>9} {'95%':>9} {'R̂':>6} {'ESS':>6}")
        for name, x in self.samples.items():
            numbers = (x.mean(), x.std(), *np.quantile(x, [0.05, 0.95]))
            shown = " ".join(f"{v:9.4g}" for v in numbers)
            lines.append(f"{name:{width}}  {shown} {self.rhat[name]:6.3f} {self.ess[name]:6.0f}")
        return "\n".join(lines)


def sample_kernel(
    X: Any,
    kernel: Kernel | None = None,
    *,
    priors: Mapping[str, Any] | None = None,
    points: Any = None,
    noise: float | None = None,
    ard: bool = False,
    chains: int = 4,
    samples: int = 200,
    warmup: int = 200,
    units: str = "median",
    random_state: Any = 0,
) -> SampledKernel:
    """Draws of the kernel's parameters and τ² given the sample ``X``, by NUTS [F16, Section 5].

    The pseudolikelihood is that of :func:`muhat.learn_kernel`. It has several maxima; chains start about
    the highest of those tried, so R̂ speaks of that one.

    Args:
        X: (n, d): an array or a data frame. Text columns are categories; their kernel is kept.
        kernel: any kernel with parameters; None for the default kernel, as in ``learn_kernel``.
        priors: name → prior of that parameter (``"lengthscale"``, ``"k2.lengthscale"``, ``"noise"``, …): a
            frozen distribution of ``scipy.stats`` or a function that gives the log density in JAX. A name
            without index holds for every entry of a vector. By default Gamma(1, 1).
        points: as in ``learn_kernel``.
        noise: τ² of eq. (15); None to sample it.
        ard: one lengthscale a column.
        chains: number of chains, run side by side.
        samples: draws kept in each chain.
        warmup: steps before, in which step size and scales are adapted, and which are dropped.
        units: of the lengthscales under the default prior: ``"median"`` for multiples of the median
            heuristic, ``"raw"`` for the units of the data, as in F16.
        random_state: seed.
    """
    check_choice(units, "units", ("median", "raw"))
    chains, samples, warmup = (
        check_count(value, name, least)
        for value, name, least in ((chains, "chains", 1), (samples, "samples", 4), (warmup, "warmup", 20))
    )
    rng = as_generator(random_state)
    problem = make_problem(X, kernel, points, noise, ard, rng, ROWS)
    names = [*problem.names, *(["noise"] if noise is None else [])]
    log_prior = _log_prior(problem, names, dict(priors or {}), units == "raw")
    draws, divergences = _nuts(problem, log_prior, chains, samples, warmup, rng)
    values = np.exp(draws + np.append(problem.offset(), np.zeros(len(names) - len(problem.names))))
    kept = {name: values[:, :, i] for i, name in enumerate(names)}
    rhat = {name: split_rhat(np.log(x)) for name, x in kept.items()}
    ess = {name: effective_size(np.log(x)) for name, x in kept.items()}
    worst = max(rhat, key=lambda name: rhat[name])
    if not rhat[worst] <= RHAT:
        warnings.warn(
            f"The chains do not agree: R̂ of {worst} is {rhat[worst]:.3f} (it should be below {RHAT}). Raise "
            "warmup and samples, give narrower priors, or fix noise.",
            stacklevel=2,
        )
    return SampledKernel(kept, rhat, ess, divergences, problem.Z, problem)


def _log_prior(
    problem: Problem, names: list[str], priors: dict[str, Any], raw: bool
) -> Callable[[Array], Array]:
    """The log density of the free numbers v (logarithms), from that of the parameters themselves."""
    from scipy.stats import gamma

    known = {*names, *(name.split("[")[0] for name in names)}
    unknown = sorted(set(priors) - known)
    if unknown:
        raise ValueError(f"priors names {unknown}, but the parameters are {sorted(known)}.")
    offsets = np.append(problem.offset(), np.zeros(len(names) - len(problem.names)))
    terms = []
    for name, offset in zip(names, offsets, strict=True):
        prior = priors.get(name, priors.get(name.split("[")[0]))
        if prior is None and not raw and name != "noise":
            offset = 0.0  # in units of the start: Gamma(1, 1) of the multiple
        terms.append((_log_density(prior if prior is not None else gamma(1), name), offset))

    def density(v: Array) -> Array:
        import jax.numpy as jnp

        total = 0.0
        for i, (log_density, offset) in enumerate(terms):
            log_value = v[i] + offset
            total = total + log_density(jnp.exp(log_value)) + log_value
        return total

    return density


def _log_density(prior: Any, name: str) -> Callable[[Array], Array]:
    """The log density of a prior, in JAX."""
    frozen = getattr(prior, "dist", None)
    if frozen is None:
        if callable(prior):
            return prior
        raise TypeError(
            f"priors[{name!r}] must be a frozen distribution of scipy.stats, e.g. scipy.stats.gamma(1), or a "
            f"function of the value, got {prior!r}."
        )

    def density(value: Array) -> Array:
        import jax.numpy as jnp
        import jax.scipy.stats as stats

        if frozen.name == "lognorm":
            shape, loc, scale = frozen._parse_args(*prior.args, **prior.kwds)
            at = jnp.log(value - loc)
            return stats.norm.logpdf(at, jnp.log(scale), shape[0]) - at
        return getattr(stats, frozen.name).logpdf(value, *prior.args, **prior.kwds)

    import jax.scipy.stats

    if frozen.name != "lognorm" and not hasattr(getattr(jax.scipy.stats, frozen.name, None), "logpdf"):
        raise ValueError(
            f"priors[{name!r}] is scipy.stats.{frozen.name}, whose density JAX does not have: use gamma, "
            "lognorm, expon, uniform, chi2 or a function of your own."
        )
    return density


def _nuts(
    problem: Problem,
    log_prior: Callable[[Array], Array],
    chains: int,
    samples: int,
    warmup: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Draws v, (chains, samples, q), and the number of divergences: one compiled function."""
    import blackjax
    import jax
    import jax.numpy as jnp

    nuts: Any = blackjax.nuts
    candidates = np.array([v for _, v in starting_points(problem, rng)])

    def run(key: Array, candidates: Array, X: Array, Z: Array) -> tuple[Array, Array]:
        def density(v: Array) -> Array:
            value = problem.log_likelihood(v, X, Z) + log_prior(v)
            return jnp.where(jnp.isnan(value), -jnp.inf, value)

        best = candidates[jnp.argmax(jax.lax.map(density, candidates))]
        keys = jax.random.split(key, chains)

        def chain(key: Array) -> tuple[Array, Array]:
            begin, adapt, go = jax.random.split(key, 3)
            start = best + 0.2 * jax.random.normal(begin, best.shape, best.dtype)
            adaptation: Any = blackjax.window_adaptation(nuts, density)
            (state, tuned), _ = adaptation.run(adapt, start, warmup)
            kernel = nuts(density, **tuned)

            def step(state: Any, key: Array) -> tuple[Any, tuple[Array, Array]]:
                state, info = kernel.step(key, state)
                return state, (state.position, info.is_divergent)

            _, out = jax.lax.scan(step, state, jax.random.split(go, samples))
            return out

        return jax.vmap(chain)(keys)

    with jax.enable_x64(True):
        key = jax.random.key(int(rng.integers(2**31)))
        compiled = jax.jit(run, compiler_options=SERIAL)
        positions, diverged = compiled(key, candidates, problem.X, problem.Z)
        return np.asarray(positions), int(np.asarray(diverged).sum())


def split_rhat(x: np.ndarray) -> float:
    """R̂ of draws ``x`` (chains, draws), each chain cut in two [GR92]."""
    half = x.shape[1] // 2
    parts = np.concatenate([x[:, :half], x[:, -half:]])
    within = parts.var(axis=1, ddof=1).mean()
    between = half * parts.mean(axis=1).var(ddof=1)
    return float(np.sqrt(((half - 1) / half * within + between / half) / within)) if within > 0 else np.inf


def effective_size(x: np.ndarray) -> float:
    """Effective sample size of draws ``x`` (chains, draws), by Geyer's initial sequence [GE92]."""
    chains, n = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    covariance = (np.fft.irfft(spectrum, axis=1)[:, :n] / n).mean(axis=0)
    within = covariance[0] * n / (n - 1)
    total = within * (n - 1) / n + (x.mean(axis=1).var(ddof=1) if chains > 1 else 0.0)
    if not total > 0:
        return float("nan")
    correlation = 1 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs < 0)) if (pairs < 0).any() else len(pairs)
    time = 2 * np.minimum.accumulate(pairs[: max(stop, 1)]).sum() - 1
    return float(chains * n / max(time, 1 / np.log10(chains * n)))


__all__ = ["SampledKernel", "effective_size", "sample_kernel", "split_rhat"]
