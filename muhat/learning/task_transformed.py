"""Learning task-transformed Gaussian processes by their marginal likelihood [HR19, Thm. 5.3].

``log p(z) = log N(z; 0, M K Mᵀ + Σ)`` as a function of the parameters of both kernels, of the noise and, in
sparse representations [HR19, §8.2], of the points that stand for the pairs. Four forms of one number, by
what is given: function space (full inference, or few observations), the n×n alternative (MAP), weight space
(features), all in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log, pi
from typing import Any

import numpy as np

from muhat._array import Array, namespace
from muhat._progress import progress_bar
from muhat.gram import FeatureMap, Features, LowRankGram, Nystrom
from muhat.gram.features import MapKernel
from muhat.gram.nystrom import NystromKernel
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.learning.parameters import Parameters
from muhat.learning.problem import SERIAL
from muhat.learning.task_gradient import Matrices, full_log_likelihood, smooth
from muhat.operators.deconditional import Sums, Transformation, printed_log_likelihood, sums_of, weight_space

# How far a lengthscale, an amplitude and the noise may go from where their search is centred.
REACH = {"lengthscale": (0.02, 10.0), "other": (1e-4, 1e4), "noise": (1e-3, 3.0)}
# Standard deviation of the logarithm of an amplitude, before z is seen, where there are two of them.
AMPLITUDE_SD = 1.0
# Inducing points may leave the box of the data by this share of its width.
ROOM = 0.1
# Multiples of the lengthscales of x and of y, and of the noise, from which the search may start.
MULTIPLES_X, MULTIPLES_Y, NOISES = (0.15, 0.4, 1.0), (0.15, 0.4, 1.0), (0.1, 0.4)
# Random places of the inducing points from which the search may start.
PLACEMENTS = 21
# Rows of one block of observations; sums over more are made block by block, and made again for the gradient.
BLOCK_ROWS = 8192
# The loss where the likelihood is not finite.
WRONG = 1e10
# Compiled functions by structure, the latest ones.
_COMPILED: dict[tuple[Any, ...], tuple[Callable[..., Any], ...]] = {}
MOST_COMPILED = 16


def tie(m: int) -> float:
    """ℓ over k where x and y are the same, so that f is its own conditional mean.

    ``(L + σ²I)⁻¹`` must not shrink any direction that m observations tell of: those with eigenvalues of k
    above σ²/m. It shrinks those below σ²/m².
    """
    return float(m) ** 2


@dataclass(frozen=True)
class TaskProblem:
    """Observations, and the family of models among which one is sought for them.

    The free numbers v are the logarithms of all parameters less ``base``: those of the kernel of x, of the
    kernel of y and the noise's standard deviation, as far as they are free; then the inducing points in
    units of the columns' standard deviations, row by row.

    Attributes:
        x, y: parameters of the kernels; y is None where M is given, or where x = y are inducing points and ℓ
            is ``ratio`` times k.
        base: logarithms of all parameters, with the noise last, at v = 0.
        free: which of them are free.
        full: whether g has a posterior of its own.
        data: arrays by name: X (n, d), Y (n, k), Y_task (m, k), z (m,), M (m, n), Sigma, landmarks; without X
            and Y the points are inducing ones.
        representation: of both kernels, or None.
        points: inducing points at v = 0, (p, k), or None.
        units: standard deviations of the columns of Y_task, in which inducing points move.
        move: whether they do.
        seed: of random features.
        ratio: ℓ over k where these are tied, as from :func:`tie`.
    """

    x: Parameters
    y: Parameters | None
    base: np.ndarray
    free: np.ndarray
    full: bool
    data: dict[str, Any]
    representation: tuple[Representation | None, Representation | None] = (None, None)
    points: np.ndarray | None = None
    units: np.ndarray | None = None
    move: bool = True
    seed: int = 0
    ratio: float = 1e4

    @property
    def by_features(self) -> bool:
        """Whether both kernels are represented by features."""
        return None not in self.representation

    @property
    def tied(self) -> bool:
        """Whether ℓ is a large multiple of k."""
        return self.y is None and self.points is not None

    @property
    def count(self) -> int:
        """How many numbers are free."""
        return int(self.free.sum()) + (self.points.size if self.points is not None and self.move else 0)

    @property
    def labels(self) -> list[str]:
        """A name for each parameter: ``"x.lengthscale"``, …, ``"noise"``."""
        names = [f"x.{name}" for name in self.x.labels]
        names += [f"y.{name}" for name in self.y.labels] if self.y is not None else []
        return [*names, "noise"]

    def theta(self, v: np.ndarray) -> np.ndarray:
        """Logarithms of all parameters at ``v``."""
        theta = np.array(self.base, dtype=float)
        theta[self.free] += v[: int(self.free.sum())]
        return theta

    def kernels(self, theta: Array) -> tuple[Kernel, Kernel | None, Array]:
        """Both kernels and the noise variance at the logarithms ``theta``."""
        p = len(self.x.labels)
        kernel_x = self.x.at(theta[:p])
        kernel_y = self.ratio * kernel_x if self.tied else None if self.y is None else self.y.at(theta[p:-1])
        return kernel_x, kernel_y, namespace(theta).exp(2 * theta[-1])

    def inducing(self, v: np.ndarray) -> np.ndarray | None:
        """The inducing points at ``v``."""
        if self.points is None or not self.move:
            return self.points
        return self.points + v[int(self.free.sum()) :].reshape(self.points.shape) * self.units

    def log_likelihood(self, v: Array, base: Array, data: dict[str, Array]) -> Array:
        """``log p(z)`` at ``v``, in JAX; the data are arguments, so that they are not compiled in."""
        import jax.numpy as jnp

        where = np.flatnonzero(self.free)
        theta = jnp.asarray(base).at[where].add(v[: len(where)])
        kernel_x, kernel_y, variance = self.kernels(theta)
        if kernel_y is None:
            return self._given(kernel_x, variance, data)
        X, Y = data.get("X"), data.get("Y")
        if self.points is not None:
            X = Y = data["points"]
            if self.move:
                X = Y = X + v[len(where) :].reshape(self.points.shape) * data["units"]
        kernel_x = self._feature_kernel(0, kernel_x, X, data)
        kernel_y = self._feature_kernel(1, kernel_y, Y, data)
        if self.by_features:
            return self._by_features(kernel_x, kernel_y, variance, X, Y, data)
        return self._exact(kernel_x, kernel_y, variance, X, Y, data)

    def _given(self, kernel: Kernel, variance: Array, data: dict[str, Array]) -> Array:
        import jax.numpy as jnp

        M, z, Sigma = data.get("M"), data["z"], data.get("Sigma")
        noise = jnp.broadcast_to(variance, z.shape) if Sigma is None else Sigma
        if self.representation[0] is not None:
            Phi = self._feature_kernel(0, kernel, data["X"], data).features(data["X"])
            H = Phi if M is None else M @ Phi
            return weight_space(FeatureMap(Phi), _dense_sums(H, z, noise)).log_likelihood
        K = kernel(data["X"])
        if M is not None:
            m, n = M.shape
            if noise.ndim == 1 and m > n:
                return printed_log_likelihood(K, _dense_sums(M, z, noise))
            K = M @ (K @ M.T)
        return smooth().logpdf(K + (noise if noise.ndim == 2 else jnp.diag(noise)), z)

    def _exact(self, kernel_x: Any, kernel_y: Any, variance: Array, X: Array, Y: Array, data: Any) -> Array:
        import jax.numpy as jnp

        n, z = X.shape[0], data["z"]
        inverse = smooth().inverse(kernel_y(Y) + variance * jnp.eye(n))
        if z.ndim == 2 or (not self.full and z.shape[0] > n):
            sums = _scan_sums(lambda y: kernel_y(y, Y), inverse, data, variance)
            return printed_log_likelihood(kernel_x(X), sums)
        cross = kernel_y(Y, data["Y_task"])
        A = inverse @ cross
        S = kernel_x(X) @ A
        if self.full:  # AᵀKA + ℓ(ỹ, ỹ) − ℓ(ỹ, y) A, with one product
            S = A.T @ (S - cross) + kernel_y(data["Y_task"])
        else:
            S = A.T @ S
        return smooth().logpdf(S + variance * jnp.eye(len(z)), z)

    def _by_features(
        self, kernel_x: Any, kernel_y: Any, variance: Array, X: Array, Y: Array, data: Any
    ) -> Array:
        Phi = kernel_x.features(X)
        task = Transformation.of(LowRankGram(kernel_y.features(Y), kernel_y, Y), variance, self.full)
        sums = _scan_sums(kernel_y.features, task.coefficients(Phi), data, variance)
        return weight_space(FeatureMap(Phi), sums).log_likelihood

    def _feature_kernel(self, which: int, kernel: Kernel, X: Array, data: dict[str, Array]) -> Any:
        landmarks = data.get("landmarks_" + "xy"[which])
        return feature_kernel(self.representation[which], kernel, X, self.seed + which, landmarks)

    def matrices(self, v: Array, base: Array, data: dict[str, Array]) -> Matrices:
        """What the full likelihood with exact kernels depends on, in JAX."""
        import jax.numpy as jnp

        kernel_x, kernel_y, variance = self.kernels(jnp.asarray(base).at[np.flatnonzero(self.free)].add(v))
        kernel_x = self._feature_kernel(0, kernel_x, data["X"], data)
        kernel_y = self._feature_kernel(1, kernel_y, data["Y"], data)  # type: ignore[arg-type]
        Y, Y_task = data["Y"], data["Y_task"]
        return Matrices(kernel_x(data["X"]), kernel_y(Y), kernel_y(Y, Y_task), kernel_y(Y_task), variance)

    def value_and_grad(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """:meth:`log_likelihood` and its gradient in v; NumPy in and out, compiled once for a structure."""
        import jax

        dense = self.full and not self.by_features
        key = self._structure()
        compiled = _COMPILED.get(key) if key is not None else None
        if compiled is None:
            frame = replace(self, data={})  # what is compiled must not keep the data alive
            if dense:

                def pull(v: Array, base: Array, data: Any, slopes: Matrices) -> Array:
                    return jax.vjp(lambda v: frame.matrices(v, base, data), v)[1](slopes)[0]

                functions = (frame.matrices, pull)
            else:
                functions = (jax.value_and_grad(frame.log_likelihood),)
            compiled = tuple(jax.jit(f, compiler_options=SERIAL) for f in functions)
            if key is not None:
                _COMPILED[key] = compiled
                if len(_COMPILED) > MOST_COMPILED:
                    del _COMPILED[next(iter(_COMPILED))]
        data = self.arguments()

        def call(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            v = np.asarray(v, dtype=np.float64)
            with jax.enable_x64(True):
                if not dense:
                    value, gradient = compiled[0](v, self.base, data)
                    return np.asarray(value), np.asarray(gradient)
                found = Matrices(*map(np.asarray, compiled[0](v, self.base, data)))
                value, slopes = full_log_likelihood(found, data["z"])
                if slopes is None:
                    return np.asarray(value), np.full_like(v, np.nan)
                return np.asarray(value), np.asarray(compiled[1](v, self.base, data, slopes))

        return call

    def arguments(self) -> dict[str, Array]:
        """The data as they enter :meth:`log_likelihood`: many observations in blocks, the last one padded."""
        data = {k: np.asarray(v, dtype=np.float64) for k, v in self.data.items() if v is not None}
        if self.points is not None:
            data |= {"points": self.points, "units": np.asarray(self.units)}
        dense = self.full and not self.by_features
        m = len(data["z"])
        if "Y_task" not in data or dense or m <= BLOCK_ROWS:
            return data
        blocks = -(-m // BLOCK_ROWS)
        rest = blocks * BLOCK_ROWS - m
        Y, z = data["Y_task"], data["z"]
        # Rows that are no observations repeat the first one, at weight 0.
        Y = np.concatenate([Y, np.repeat(Y[:1], rest, axis=0)]).reshape(blocks, BLOCK_ROWS, -1)
        mask = (np.arange(blocks * BLOCK_ROWS) < m).astype(float).reshape(blocks, BLOCK_ROWS)
        z = np.concatenate([z, np.zeros(rest)]).reshape(blocks, BLOCK_ROWS)
        return {**data, "Y_task": Y, "z": z, "mask": mask}

    def _structure(self) -> tuple[Any, ...] | None:
        """What the compiled function depends on beside its arguments; None for functions of a user's own."""
        kernels = [self.x.kernel] if self.y is None else [self.x.kernel, self.y.kernel]
        if not all(_own(k) for k in kernels) or any(isinstance(r, Features) for r in self.representation):
            return None
        units = [repr(p.at(np.zeros(len(p.vector())))) for p in (self.x, self.y) if p is not None]
        shapes = tuple((k, np.shape(v)) for k, v in sorted(self.data.items()) if v is not None)
        points = None if self.points is None else self.points.shape
        chosen = tuple(type(r).__name__ if isinstance(r, Nystrom) else repr(r) for r in self.representation)
        frame = (tuple(units), self.free.tobytes(), self.full, shapes, chosen, points, self.move, self.seed)
        return (*frame, self.x.shapes, None if self.y is None else self.y.shapes)

    def log_prior(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density, up to a constant, of the amplitudes before z is seen, and its gradient.

        The amplitudes of k and ℓ trade places, within what the pairs leave open: f may be large and shrunk by
        M, or small and not. Both are of the size of z by a factor of e or so, which is where they start.
        """
        slope = np.zeros_like(v)
        if self.y is not None and self.points is None:
            of = np.array([amplitude(name) for name in self.labels])[self.free]
            slope[: len(of)][of] = -v[: len(of)][of] / AMPLITUDE_SD**2
        return float(0.5 * slope @ v), slope

    def bounds(self) -> list[tuple[float, float]]:
        """Of each free number."""
        out = []
        for name, free in zip(self.labels, self.free, strict=True):
            kind = "noise" if name == "noise" else "lengthscale" if "lengthscale" in name else "other"
            if free:
                out.append(tuple(np.log(REACH[kind])))
        if self.points is not None and self.move:
            Y = self.data["Y_task"]
            low, high = Y.min(axis=0), Y.max(axis=0)
            room = ROOM * (high - low)
            lower = (low - room - self.points) / self.units
            upper = (high + room - self.points) / self.units
            out.extend(zip(lower.ravel(), upper.ravel(), strict=True))
        return out

    def starting_points(self) -> list[np.ndarray]:
        """v to start from: as given, and multiples of the lengthscales and of the noise."""
        labels = np.array(self.labels)[self.free]
        length = np.array(["lengthscale" in name for name in labels], dtype=bool)
        of_x = np.array([name.startswith("x.") for name in labels], dtype=bool)
        noise = labels == "noise"
        out = [np.zeros(self.count)]
        several = MULTIPLES_X if (length & of_x).any() else (1.0,)
        others = MULTIPLES_Y if (length & ~of_x).any() else (1.0,)
        for a in several:
            for b in others:
                for c in NOISES if noise.any() else (1.0,):
                    v = np.zeros(self.count)
                    head = v[: len(labels)]
                    head[length & of_x], head[length & ~of_x], head[noise] = np.log(a), np.log(b), np.log(c)
                    out.append(v)
        return [*out, *self._placements(out)]

    def _placements(self, starts: list[np.ndarray]) -> list[np.ndarray]:
        """Starts with inducing points elsewhere: at rows of the data, drawn at random."""
        if self.points is None or not self.move:
            return []
        rng, Y, p = np.random.default_rng(self.seed), self.data["Y_task"], len(self.points)
        out = []
        for i in range(PLACEMENTS):
            v = starts[i % len(starts)].copy()
            rows = Y[rng.choice(len(Y), p, replace=p > len(Y))]
            v[int(self.free.sum()) :] = ((rows - self.points) / self.units).ravel()
            out.append(v)
        return out


def amplitude(name: str) -> bool:
    """Whether a parameter is an amplitude."""
    return name.split(".")[-1] == "scale"


def _own(kernel: Kernel) -> bool:
    inside = [getattr(kernel, name) for name in kernel._parameters]
    own = type(kernel).__module__.startswith("muhat.") and not isinstance(kernel, MapKernel)
    return own and all(_own(k) for k in inside if isinstance(k, Kernel))


def feature_kernel(
    representation: Representation | None, kernel: Kernel, X: Array, seed: int, landmarks: Array | None = None
) -> Any:
    """The kernel of finitely many features that stands for ``kernel``, in NumPy or JAX."""
    if isinstance(representation, Features):  # the features of a user's own, times the kernel's amplitude
        function, scale = representation.function, kernel.amplitude
        return MapKernel(lambda X: function(X) * scale**0.5, 0)
    if landmarks is not None:
        return NystromKernel.fit(kernel, landmarks)
    if representation is None:
        return kernel
    return representation.fit(kernel, X, seed)


# -- sums and matrices in JAX ---------------------------------------------------------------------


def _dense_sums(H: Array, z: Array, noise: Array) -> Sums:
    if noise.ndim == 1:
        return sums_of(H, z, noise)
    import jax.numpy as jnp
    from jax.scipy.linalg import solve_triangular

    lower = jnp.linalg.cholesky(noise)
    H, z = solve_triangular(lower, H, lower=True), solve_triangular(lower, z, lower=True)
    constant = len(z) * log(2 * pi) + 2 * jnp.log(jnp.diagonal(lower)).sum()
    return Sums(H.T @ H, H.T @ z, z @ z, constant)


def _scan_sums(rows: Callable[[Array], Array], W: Array, data: dict[str, Array], variance: Array) -> Sums:
    """:class:`Sums` of ``H = rows(y) W``, block by block; blocks are made again for the gradient."""
    import jax
    import jax.numpy as jnp

    Y, z, mask = data["Y_task"], data["z"], data.get("mask")
    if mask is None:
        H = rows(Y) @ W
        HH, Hz = H.T @ H, H.T @ z
    else:

        def add(total: tuple[Array, Array], block: tuple[Array, Array, Array]) -> tuple[Any, None]:
            y, z, mask = block
            H = (rows(y) @ W) * mask[:, None]
            return (total[0] + H.T @ H, total[1] + H.T @ z), None

        r = W.shape[1]
        start = (jnp.zeros((r, r)), jnp.zeros(r))
        (HH, Hz), _ = jax.lax.scan(jax.checkpoint(add), start, (Y, z, mask))
    count = z.size if mask is None else mask.sum()
    constant = count * (log(2 * pi) + jnp.log(variance))
    return Sums(HH / variance, Hz / variance, (z**2).sum() / variance, constant)


# -- search ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearnedTask:
    """What the search found.

    Attributes:
        theta: logarithms of all parameters: of the kernel of x, of y, and of the noise's standard deviation.
        labels: their names.
        log_likelihood: ``log p(z)`` there.
        points: inducing points, or None.
        starts: one row a start that was followed: log likelihood and log prior there and at its end.
        evaluations: of the likelihood and its gradient, in all.
    """

    theta: np.ndarray
    labels: list[str]
    log_likelihood: float
    points: np.ndarray | None = field(repr=False)
    starts: np.ndarray = field(repr=False)
    evaluations: int = 0


def maximise_task(
    problem: TaskProblem, starts: int, iterations: int = 200, only_given: bool = False
) -> LearnedTask:
    """The best maximum of likelihood and prior from the ``starts`` best starting points, by L-BFGS.

    With ``only_given`` the search starts from v = 0 alone.
    """
    from scipy.optimize import minimize

    both, bounds, m = problem.value_and_grad(), problem.bounds(), len(problem.data["z"])
    low, high = np.array(bounds).reshape(-1, 2).T
    calls = 0

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal calls
        calls += 1
        move(calls, "")
        value, gradient = both(v)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return WRONG, np.zeros_like(v)  # a line search steps back from here
        prior, slope = problem.log_prior(v)
        return -(float(value) + prior) / m, -(gradient + slope) / m

    candidates = [np.clip(v, low, high) for v in problem.starting_points()]
    candidates = candidates[:1] if only_given else candidates
    with progress_bar("learning the kernels", len(candidates) + starts * 60) as move:
        values = np.array([loss(v)[0] for v in candidates])
        if not (values < WRONG).any():
            raise ValueError(
                "The marginal likelihood is not finite at any starting point: pass kernels with other "
                "lengthscales, or more noise."
            )
        followed = []
        for i in np.argsort(values, kind="stable")[:starts]:
            options = {"maxiter": iterations, "ftol": 1e-9, "gtol": 1e-5}
            found = minimize(loss, candidates[i], jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            followed.append((-m * values[i], -m * float(found.fun), found.x))
    best = max(followed, key=lambda row: row[1])
    table = np.array([row[:2] for row in followed])
    v = best[2]
    value = best[1] - problem.log_prior(v)[0]
    return LearnedTask(problem.theta(v), problem.labels, value, problem.inducing(v), table, calls)


__all__ = ["LearnedTask", "TaskProblem", "feature_kernel", "maximise_task"]
