"""What learning a kernel from one sample needs, made once: rows, points z, ν, free parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._tables import Encoder, encode
from muhat._validation import check_count, check_positive, check_same_columns
from muhat.embedding.bayesian import Measure, prior_kernel
from muhat.kernels.algebra import Restricted, Scaled, _Pair
from muhat.kernels.base import Kernel
from muhat.kernels.default import default_kernel
from muhat.kernels.delta import Delta
from muhat.kernels.stationary import Gaussian, Stationary
from muhat.learning.parameters import Parameters, reset_lengthscales
from muhat.learning.pseudolikelihood import log_pseudolikelihood

# Rows looked at by default; more are thinned at random.
ROWS = 1000
# Most points z by default.
POINTS = 128
# XLA's thread pool on a CPU can wait for itself for ever, in loops on few cores; it brings little here.
SERIAL: dict[str, Any] = {"xla_cpu_multi_thread_eigen": False}
# Compiled functions by structure, the latest ones.
_COMPILED: dict[tuple[Any, ...], Callable[..., Any]] = {}
MOST_COMPILED = 16


@dataclass(frozen=True)
class Problem:
    """A sample, and the family of kernels among which one is sought for it.

    The free numbers are u (q,): ``log θ = base + ties u``, followed by ``log τ²`` unless that is given.

    Attributes:
        X: the rows of the likelihood, (n, d): all but the points z.
        Z: the points z, (m, d).
        parameters: of the kernel.
        base: log θ at u = 0: lengthscales at their median heuristic, (p,).
        ties: (p, q); the identity, or a column of ones where one multiple moves all lengthscales.
        names: of the q numbers.
        noise: τ² when given, else None.
        nu: the measure ν of the prior.
        directions: (d, D), in which the rows vary and the kernel sees it.
        given: log θ of the kernel as the user wrote it where it says more than ``base``, or None.
    """

    X: np.ndarray
    Z: np.ndarray
    parameters: Parameters
    base: np.ndarray
    ties: np.ndarray
    names: list[str]
    noise: float | None
    nu: Measure
    directions: np.ndarray
    given: np.ndarray | None

    def kernel(self, u: Array) -> Kernel:
        """The kernel at ``u`` (q,)."""
        return self.parameters.at(self.base + self.ties @ u)

    def offset(self) -> np.ndarray:
        """log of each free number's value at u = 0, (q,): a multiple's is 0."""
        own = (self.ties == 1).sum(axis=0) == 1
        return np.where(own, self.base @ self.ties, 0.0)

    def free(self, values: np.ndarray) -> np.ndarray:
        """u (q,) from the values of the free numbers."""
        return np.log(values) - self.offset()

    def log_likelihood(self, v: Array, X: Array, Z: Array) -> Array:
        """The log pseudolikelihood at ``v = (u, log τ²)``, or ``v = u`` for given τ², in JAX.

        The data are arguments: as constants of the compiled function they would be folded, slowly.
        """
        import jax.numpy as jnp

        free = self.noise is None
        u = v[:-1] if free else v
        kernel = self.kernel(u)
        prior = prior_kernel(kernel, self.X.shape[1], self.nu)
        tau2 = jnp.exp(v[-1]) if free else jnp.asarray(self.noise, v.dtype)
        return log_pseudolikelihood(kernel, X, Z, tau2, prior, self.directions, amplitude=free)

    def value_and_grad(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """:meth:`log_likelihood` and its gradient in v; NumPy in and out.

        Compiled once for all problems of the same structure: other data or another seed of the same shape
        do not compile again.
        """
        import jax

        key = self._structure()
        both = _COMPILED.get(key) if key is not None else None
        if both is None:
            # The structure alone: what is compiled must not keep the data alive.
            frame = replace(self, X=self.X[:0], Z=self.Z[:0])

            def value(v: Array, X: Array, Z: Array, base: Array, noise: Array, volume: Array, points: Array):
                noise = None if frame.noise is None else noise
                nu = Measure(volume, frame.nu.levels, points)
                return replace(frame, base=base, noise=noise, nu=nu).log_likelihood(v, X, Z)

            both = jax.jit(jax.value_and_grad(value), compiler_options=SERIAL)
            if key is not None:
                _COMPILED[key] = both
                if len(_COMPILED) > MOST_COMPILED:
                    del _COMPILED[next(iter(_COMPILED))]
        noise = np.float64(0.0 if self.noise is None else self.noise)
        data = (self.X, self.Z, self.base, noise, np.float64(self.nu.volume), self.nu.points)

        def call(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            with jax.enable_x64(True):
                value, gradient = both(np.asarray(v, dtype=np.float64), *data)
                return np.asarray(value), np.asarray(gradient)

        return call

    def _structure(self) -> tuple[Any, ...] | None:
        """What the compiled function depends on beside its arguments; None for kernels of a user's own."""
        if not all(part.startswith("muhat.") for part in _modules(self.parameters.kernel)):
            return None
        unit = self.parameters.at(np.zeros(len(self.base)))
        return (
            repr(unit),
            self.parameters.shapes,
            self.ties.shape,
            self.ties.tobytes(),
            self.noise is None,
            self.directions.shape,
            self.directions.tobytes(),
            tuple(self.nu.levels.items()),
        )

    def usual_noise(self, u: np.ndarray) -> float:
        """τ² that is about best at ``u``: ``(m/D)`` times the mean variance of ``k(X, z)``."""
        K = np.asarray(self.kernel(u)(self.X, self.Z))
        scale = len(self.Z) / self.directions.shape[1]
        return float(np.maximum(scale * np.mean(K.var(axis=0)), 1e-12 * np.mean(K**2) + 1e-300))


def _modules(kernel: Kernel) -> list[str]:
    inside = [getattr(kernel, name) for name in kernel._parameters]
    return [type(kernel).__module__, *(m for k in inside if isinstance(k, Kernel) for m in _modules(k))]


def make_problem(
    X: Any,
    kernel: Kernel | str | None,
    points: Any,
    noise: float | None,
    ard: bool,
    rng: np.random.Generator,
    max_rows: int = ROWS,
) -> Problem:
    """Check and prepare; at most ``max_rows`` rows enter the likelihood.

    Rows are first brought into an order of their own, so that what is learned depends on the set of rows
    and the seed alone: a test that permutes labels may use it on the pooled sample.
    """
    encoder, A = encode(X, "X", min_rows=5)
    A = np.asarray(A, dtype=np.float64)
    if noise is not None:
        check_positive(noise, "noise", "give τ² > 0, or None to learn it", scalar=True)
    A = A[np.lexsort(A.T[::-1])]
    base, given, tied = _family(kernel, A, encoder, ard)
    directions = _directions(A, _columns(base, A.shape[1]) - set(encoder.categories))
    rows, Z = _points(A, points, directions.shape[1], encoder, rng)
    if len(rows) > max_rows:
        rows = rows[np.sort(rng.choice(len(rows), max_rows, replace=False))]
    parameters = Parameters.of(base)
    lengths = parameters.is_lengthscale()
    p = len(lengths)
    ties, names = np.eye(p), parameters.labels
    if tied and lengths.sum() > 1:
        ties = np.column_stack([lengths.astype(float), np.eye(p)[:, ~lengths]])
        names = ["multiple", *np.array(names)[~lengths]]
    return Problem(
        rows,
        Z,
        parameters,
        parameters.vector(),
        ties,
        names,
        None if noise is None else float(noise),
        Measure.of(A, sorted(encoder.categories), rng),
        directions,
        None if given is None else parameters.vector(given),
    )


def _family(
    kernel: Kernel | str | None, A: np.ndarray, encoder: Encoder, ard: bool
) -> tuple[Kernel, Kernel | None, bool]:
    """The kernel at the median heuristic, as given (or None), and whether one multiple moves it all."""
    if isinstance(kernel, str) and kernel == "median":
        kernel = None
    numeric = [j for j in range(A.shape[1]) if j not in encoder.categories]
    if not any(np.ptp(A[:, j]) > 0 for j in numeric):
        raise ValueError(
            "X has no column of numbers that varies, so there is no lengthscale to learn: categories and "
            "constants need none. Use kernel=None in a model, which takes mh.Delta on categories."
        )
    if kernel is None:
        if A.shape[1] == 1:
            return Gaussian("median").resolve(A), None, False
        return default_kernel(A, encoder), None, not ard
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a kernel or None, got {kernel!r}: pass e.g. mh.Gaussian().")
    if ard:
        kernel = _per_column(kernel)
    resolved = kernel.resolve(A, encoder.names)
    resolved(A[:1])
    return reset_lengthscales(kernel, A, encoder.names), resolved, False


def _per_column(kernel: Kernel) -> Kernel:
    """``kernel`` with a lengthscale for each column."""
    if isinstance(kernel, Stationary):
        return kernel if np.ndim(kernel.lengthscale) == 1 else kernel.replace(lengthscale="scaled")
    inside = [n for n in kernel._parameters if isinstance(getattr(kernel, n), Kernel)]
    return kernel.replace(**{n: _per_column(getattr(kernel, n)) for n in inside})


def _columns(kernel: Kernel, d: int) -> set[int]:
    """The columns in which ``kernel`` is smooth and not constant."""
    if isinstance(kernel, Delta):
        return set()
    if isinstance(kernel, _Pair):
        return set().union(*(_columns(part, d) for part in kernel.parts))
    if isinstance(kernel, Scaled):
        return _columns(kernel.kernel, d)
    if isinstance(kernel, Restricted):
        c = kernel.indices(d)
        return {c[j] for j in _columns(kernel.kernel, len(c))}
    return set(range(d))


def _directions(A: np.ndarray, columns: set[int]) -> np.ndarray:
    """Directions (d, D) that span the rows within ``columns``: axes, if these are independent."""
    c = sorted(columns)
    centred = A[:, c] - A[:, c].mean(axis=0)
    sd = centred.std(axis=0)
    # Rounding of a constant column is no direction.
    varies = sd > 1e-12 * np.abs(A[:, c]).max(axis=0)
    c, sd, centred = list(np.array(c, dtype=int)[varies]), sd[varies], centred[:, varies]
    if not c:
        raise ValueError(
            "X does not vary in any column that the kernel looks at: there is nothing to learn. Check "
            "the columns of the kernel."
        )
    place = np.eye(A.shape[1])[:, c]
    _, values, Vt = np.linalg.svd(centred / sd, full_matrices=False)
    rank = int((values > 1e-9 * values[0]).sum())
    return place if rank == len(c) else place @ (sd[:, None] * Vt[:rank].T)


def _points(
    A: np.ndarray, points: Any, D: int, encoder: Encoder, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the likelihood and the points z."""
    n = len(A)
    if points is None or np.ndim(points) == 0:
        usual = min(max(ceil(1.5 * D * sqrt(n)), 2 * D, 3), POINTS if POINTS > 2 * D else 2 * D, n // 2)
        m = usual if points is None else check_count(points, "points")
        if m < D or n - m < 2:
            raise ValueError(
                f"points must number at least {D}, the dimensions in which X varies, and leave 2 of its {n} "
                f"rows, got {m}: pass more rows, fewer columns, or points of your own."
            )
        held = np.zeros(n, dtype=bool)
        held[rng.choice(n, m, replace=False)] = True
        return A[~held], A[held]
    Z = np.asarray(encoder.transform(points, "points"), dtype=np.float64)
    check_same_columns(Z, A.shape[1], "points", "X")
    if len(Z) < D:
        raise ValueError(f"points must be at least {D} rows, the dimensions of X, got {len(Z)}: pass more.")
    return A, Z


__all__ = ["Problem", "make_problem"]
