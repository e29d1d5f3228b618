"""The Bayesian kernel embedding as an estimator, and the posterior of a witness function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from muhat._array import Array
from muhat._tables import encode
from muhat._validation import as_generator, check_choice, check_count, check_positive, check_same_columns
from muhat.embedding.bayesian import (
    Measure,
    Posterior,
    noise_covariance,
    noise_variance,
    posterior,
    posterior_cov,
    posterior_mean,
    posterior_var,
    prior_kernel,
)
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.learn_kernel import learn_kernel
from muhat.learning.sample_kernel import SampledKernel
from muhat.models.base import Estimator

# Points z by default: all rows up to this number, else as many drawn at random.
POINTS = 1000


class _Process:
    """Readouts of a Gaussian process: what follows from its mean and covariance at points (q, d)."""

    def mean(self, points: Any) -> np.ndarray:
        """Posterior mean at ``points`` (q, d), (q,)."""
        raise TypeError("write mean")

    def cov(self, points: Any) -> np.ndarray:
        """Posterior covariance between ``points`` (q, d), (q, q)."""
        raise TypeError("write cov")

    def _var(self, points: Any) -> np.ndarray:
        raise TypeError("write _var")

    def std(self, points: Any) -> np.ndarray:
        """Posterior standard deviation at ``points`` (q, d), (q,)."""
        return np.sqrt(self._var(points))

    def interval(self, points: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the credible interval at each of ``points`` (q, d), (q,) each."""
        half = ndtri(0.5 + _level(level) / 2) * self.std(points)
        mean = self.mean(points)
        return mean - half, mean + half

    def sample(self, points: Any, n: int = 1, random_state: Any = 0) -> np.ndarray:
        """``n`` functions drawn from the posterior, at ``points`` (q, d), (n, q)."""
        n = check_count(n, "n")
        return _draw(self.mean(points), self.cov(points), n, as_generator(random_state))


class BayesianEmbedding(_Process, Estimator):
    """The mean embedding of a sample, with its uncertainty [F16, Sections 3 and 4.1].

    Prior ``μ ~ GP(0, r)``, ``r(x, y) = ∫ k(x, u) k(u, y) ν(du)``; likelihood ``μ̂(z) ~ N(μ(z), S/n)`` at
    points z. The posterior mean is ``r(x, z) (R + S/n)⁻¹ μ̂(z)``, for ``S = τ² I`` a shrunk estimate of the
    kind of S-KMSE, which it equals for r = k. ν is Lebesgue measure in units of the columns' standard
    deviations; for kernels without a closed form, the distribution of the data.

    Args:
        kernel: k. None to learn it by :func:`muhat.learn_kernel`, ``"median"`` for the default kernel with
            median lengthscale.
        noise: S. None for the covariance of ``k(X, z)``, as the central limit theorem has it at all z
            together; its intervals hold what they promise. A number τ² > 0, or ``"variance"`` for the
            variance of ``k(X, z)`` averaged over z, make ``S = τ² I`` as in F16: errors that neighbouring z
            share then count as independent, and with many z the intervals are far too narrow.
        points: the points z: how many rows, drawn at random, or the points themselves, (m, d). By default all
            rows, or 1000 of them; the cost is O(m³ + nm).
        random_state: seed of the choice of points and of learning.

    Attributes:
        kernel_: k in use.
        prior_: r in use.
        noise_: S in use: τ², or (m, m).
        points_: z, (m, d).
        values_: ``μ̂(z)``, (m,).
        n_rows_: n.
        learned_: parameters that were learned, or None.
    """

    _prepared: ClassVar[tuple[str, ...]] = ("_posterior",)

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        noise: float | str | None = None,
        points: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.points = points
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> BayesianEmbedding:
        """Learn from a sample ``X`` (n, d); ``y`` is not used."""
        if isinstance(self.noise, str):
            check_choice(self.noise, "noise", ("variance",))
        elif self.noise is not None:
            check_positive(self.noise, "noise", "give τ² > 0, or None for that of the data", scalar=True)
        if isinstance(self.kernel, str):
            check_choice(self.kernel, "kernel", ("median",))
        rng = as_generator(self.random_state)
        A = self._fit_rows(X).astype(np.float64)
        Z = self._choose_points(A, rng)
        self.learned_ = None
        if self.kernel is None:
            found = learn_kernel(X, random_state=rng)
            self.kernel_, self.learned_ = found.kernel, found.parameters
        else:
            kernel = None if isinstance(self.kernel, str) else self.kernel
            self.kernel_ = resolve_kernel(kernel, A, self.encoder_x_, "kernel")
        K = np.asarray(self.kernel_(A, Z))
        self.points_, self.values_, self.n_rows_ = Z, K.mean(axis=0), len(A)
        self.noise_ = _noise(K, self.noise)
        if not np.any(self.noise_):
            raise ValueError(
                "k(x, z) does not vary over the rows of X (they may all be the same), so it gives no noise: "
                "pass noise, τ² > 0."
            )
        nu = Measure.of(A, sorted(self.encoder_x_.categories), rng)
        self.prior_ = prior_kernel(self.kernel_, A.shape[1], nu)
        self._prepare()
        return self

    def _choose_points(self, A: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.points is not None and np.ndim(self.points) > 0:
            Z = np.asarray(self.encoder_x_.transform(self.points, "points"), dtype=np.float64)
            check_same_columns(Z, A.shape[1], "points", "X")
            return Z
        m = POINTS if self.points is None else check_count(self.points, "points")
        return A if m >= len(A) else A[np.sort(rng.choice(len(A), m, replace=False))]

    def _prepare(self) -> None:
        R = np.asarray(self.prior_(self.points_))
        self._posterior: Posterior = posterior(R, self.values_, self.noise_ / self.n_rows_)

    def _cross(self, points: Any) -> tuple[Array, Array]:
        at = self._rows(points, "points")
        return at, np.asarray(self.prior_(at, self.points_))

    def mean(self, points: Any) -> np.ndarray:
        """Posterior mean of μ at ``points`` (q, d), (q,) [F16, eq. (8)]."""
        return posterior_mean(self._cross(points)[1], self._posterior)

    def cov(self, points: Any) -> np.ndarray:
        """Posterior covariance of μ between ``points`` (q, d), (q, q) [F16, eq. (8)]."""
        at, cross = self._cross(points)
        return posterior_cov(np.asarray(self.prior_(at)), cross, self._posterior)

    def _var(self, points: Any) -> np.ndarray:
        at, cross = self._cross(points)
        return posterior_var(np.asarray(self.prior_.diag(at)), cross, self._posterior)

    def __sub__(self, other: Any) -> BayesianWitness:
        return BayesianWitness(self, other) if isinstance(other, BayesianEmbedding) else NotImplemented

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


class BayesianWitness(_Process):
    """The witness function ``μ_P − μ_Q`` of two independent samples, with its uncertainty.

    Made by ``p - q`` from two fitted embeddings of the same kernel: learn one on both samples together,
    ``kernel = mh.learn_kernel(both).kernel``.
    """

    def __init__(self, left: BayesianEmbedding, right: BayesianEmbedding) -> None:
        for part in (left, right):
            check_is_fitted(part)
        if left.kernel_ != right.kernel_:
            raise ValueError(
                f"Only embeddings of the same kernel can be subtracted, got {left.kernel_!r} and "
                f"{right.kernel_!r}: learn one kernel on both samples and pass it to both."
            )
        self.left, self.right = left, right

    def mean(self, points: Any) -> np.ndarray:
        """Posterior mean of ``μ_P − μ_Q`` at ``points`` (q, d), (q,)."""
        return self.left.mean(points) - self.right.mean(points)

    def cov(self, points: Any) -> np.ndarray:
        """Posterior covariance of ``μ_P − μ_Q`` between ``points`` (q, d), (q, q)."""
        return self.left.cov(points) + self.right.cov(points)

    def _var(self, points: Any) -> np.ndarray:
        return self.left._var(points) + self.right._var(points)


class WitnessPosterior:
    """The witness function with the kernel integrated out: a mixture of Gaussian processes.

    Attributes:
        mean: of the mixture at the points, (q,).
        std: of the mixture at the points, (q,).
        draws: one function a kernel, at the points, (k, q).
    """

    def __init__(self, means: np.ndarray, variances: np.ndarray, draws: np.ndarray) -> None:
        self.mean = means.mean(axis=0)
        self.std = np.sqrt(variances.mean(axis=0) + means.var(axis=0))
        self.draws = draws

    def interval(self, level: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the credible interval at each point, from the draws, (q,) each."""
        tail = (1 - _level(level)) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail], axis=0)
        return low, high


def witness_posterior(
    x: Any,
    y: Any,
    kernels: SampledKernel | Iterable[Kernel | tuple[Kernel, float]],
    points: Any,
    *,
    noise: str | None = None,
    random_state: Any = 0,
) -> WitnessPosterior:
    """The posterior of ``μ_P − μ_Q`` at points, integrated over the kernel [F16, Section 5].

    For every draw of the kernel, both embeddings have a Gaussian posterior, from which one function each is
    drawn.

    Args:
        x: sample of P, (n, d).
        y: sample of Q, (m, d).
        kernels: draws of the kernel given both samples together, e.g. ``mh.sample_kernel(both)``; or a list
            of kernels, or of pairs (kernel, τ²).
        points: where, (q, d).
        noise: None or ``"variance"`` as in :class:`BayesianEmbedding`, for each kernel, or ``"sampled"`` for
            the τ² of the draws as in F16.
        random_state: seed of the draws.
    """
    check_choice(noise, "noise", (None, "variance", "sampled"))
    rng = as_generator(random_state)
    encoder, A = encode(x, "x", min_rows=2, also=y)
    B, at = encoder.transform(y, "y"), encoder.transform(points, "points")
    check_same_columns(B, A.shape[1], "y", "x")
    check_same_columns(at, A.shape[1], "points", "x")
    A, B, at = (np.asarray(rows, dtype=np.float64) for rows in (A, B, at))
    pairs = kernels.draws() if isinstance(kernels, SampledKernel) else list(kernels)
    if not pairs:
        raise ValueError("kernels is empty: pass at least one kernel, or mh.sample_kernel(both samples).")
    nu = Measure.of(np.concatenate([A, B]), sorted(encoder.categories), rng)
    chosen = [s if len(s) <= POINTS else s[rng.choice(len(s), POINTS, replace=False)] for s in (A, B)]
    means, variances, draws = [], [], []
    for pair in pairs:
        kernel, tau2 = (pair, None) if isinstance(pair, Kernel) else pair
        if noise == "sampled" and tau2 is None:
            raise ValueError('noise="sampled" needs pairs (kernel, τ²): pass mh.sample_kernel(...).')
        r = prior_kernel(kernel, A.shape[1], nu)
        own = np.asarray(r(at))
        mean, cov = np.zeros(len(at)), np.zeros((len(at), len(at)))
        for sign, sample, Z in ((1, A, chosen[0]), (-1, B, chosen[1])):
            K = np.asarray(kernel(sample, Z))
            S = _noise(K, tau2 if noise == "sampled" else noise)
            post = posterior(np.asarray(r(Z)), K.mean(axis=0), S / len(sample))
            cross = np.asarray(r(at, Z))
            mean += sign * posterior_mean(cross, post)
            cov += posterior_cov(own, cross, post)
        means.append(mean)
        variances.append(np.maximum(np.diagonal(cov), 0.0))
        draws.append(_draw(mean, cov, 1, rng)[0])
    return WitnessPosterior(np.array(means), np.array(variances), np.array(draws))


def _noise(K: np.ndarray, noise: float | str | None) -> Any:
    """S from ``k(X, z)`` (n, m): a covariance (m, m), or τ²."""
    if noise is None:
        return noise_covariance(K)
    return float(noise_variance(K)) if isinstance(noise, str) else float(noise)


def _draw(mean: np.ndarray, cov: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` draws of a Gaussian, (n, q); the covariance may be singular."""
    values, U = np.linalg.eigh((cov + cov.T) / 2)
    return mean + (rng.standard_normal((n, len(mean))) * np.sqrt(np.maximum(values, 0.0))) @ U.T


def _level(level: Any) -> float:
    if not isinstance(level, (int, float, np.number)) or isinstance(level, bool) or not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}: pass e.g. 0.9.")
    return float(level)


__all__ = ["BayesianEmbedding", "BayesianWitness", "WitnessPosterior", "witness_posterior"]
