"""The ratio of two densities as an estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._tables import Encoder
from muhat._threads import one_blas_thread
from muhat._validation import as_generator, check_choice, check_positive, check_same_columns
from muhat._words import percent
from muhat.embedding import Embedding
from muhat.engine import Rows, as_source, digest, map_rows, open_rows, sample_rows, sum_rows
from muhat.gram import Exact, FeatureKernel, as_representation
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.leave_one_out import stretch
from muhat.models.base import Estimator
from muhat.operators.ratio import Cover, LeastSquares, kulsif, rulsif, spectrum

METHODS = ("kulsif", "ulsif", "rulsif")
TARGETS = {"zero": 0.0, "one": 1.0}
REGULARISERS = np.logspace(-6, 1, 15)
MULTIPLES = 2.0 ** np.arange(-3, 3)
# Landmarks beyond which the exact KuLSIF gives way to Nyström's unless a representation is given.
LANDMARKS = 1000
# The share of the numerator that may lie away from the denominator without a warning.
UNCOVERED = 0.05


@dataclass(frozen=True)
class RatioChoice:
    """What leave-one-out chose.

    Attributes:
        kernel: with its lengthscale.
        reg: the regulariser.
        score: the leave-one-out loss.
        path: rows (multiple of the lengthscale, regulariser, loss) of all that was tried.
    """

    kernel: Kernel
    reg: float
    score: float
    path: np.ndarray


class DensityRatio(Estimator):
    """The density of one distribution over that of another, by least squares.

    ``fit(numerator, denominator)`` takes samples, and for the numerator also an embedding; ``predict`` is
    the ratio, never negative.

    Args:
        method: ``"kulsif"`` (in the RKHS [KSS12]), ``"ulsif"`` (kernels at points of the numerator
            [KHS09]) or ``"rulsif"``, the relative ratio ``num / (α num + (1 − α) den)`` [YSKHS11].
        kernel: None for the default kernel with a lengthscale chosen by leave-one-out.
        reg: η > 0, on the operator scale for KuLSIF: ``(Ĉ + ηI)⁻¹``. None for leave-one-out.
        alpha: α of the relative ratio.
        target: what the ratio shrinks to where data are few: ``"one"`` (no difference) or ``"zero"``.
        representation: how the RKHS is held (KuLSIF): exact by default, with landmarks beyond 1 000 points.
        random_state: seed of landmarks and centres.

    Attributes:
        kernel_, reg_: in use.
        selection_: what leave-one-out tried, or None.
        coefficients_: θ of ``r = t + θᵀφ``.
    """

    def __init__(
        self,
        method: str = "kulsif",
        kernel: Kernel | None = None,
        reg: float | None = None,
        alpha: float = 0.1,
        target: str = "one",
        representation: Representation | None = None,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.kernel = kernel
        self.reg = reg
        self.alpha = alpha
        self.target = target
        self.representation = representation
        self.random_state = random_state

    def fit(self, numerator: Any, denominator: Any, checkpoint: Any = None) -> DensityRatio:
        """Learn the ratio: samples (m, d) or an embedding over samples (n, d).

        Samples that outgrow memory (see :func:`muhat.open_rows`) are each read twice: for the rows that
        choices are made from, and for the sums. ``checkpoint`` is then the path of a file that an interrupted
        fit goes on from.
        """
        check_choice(self.method, "method", METHODS)
        check_choice(self.target, "target", tuple(TARGETS))
        if isinstance(self.alpha, bool) or not (isinstance(self.alpha, Real) and 0 <= self.alpha < 1):
            raise ValueError(f"alpha must be a number from 0 to below 1, got {self.alpha!r}: 0.1 is usual.")
        if self.reg is not None:
            check_positive(self.reg, "reg", "give η > 0, or None to have it chosen", scalar=True)
        seed = as_generator(self.random_state).integers(2**63)
        num, weights, den = self._sources(numerator, denominator)
        saved = self._checkpoint(checkpoint, num, den)
        _, (B,) = sample_rows(den, names=("denominator",), checkpoint=saved)
        top = [num] if weights is None else [num, weights]
        m, (A, *w) = sample_rows(*top, names=("numerator", "weights"), checkpoint=saved, label="few")
        # Of the same sum, were all rows alike.
        w = w[0][:, 0] * (m / len(A)) if w else np.full(len(A), 1 / len(A))
        kernel = resolve_kernel(self.kernel, B, self.encoder_x_, "kernel")
        alpha = self.alpha if self.method == "rulsif" else 0.0
        cover = None

        def problem(candidate: Kernel) -> LeastSquares:
            features = self._basis(candidate, A, B, np.random.default_rng(seed))  # the same points for each
            return LeastSquares(features.features(A), w, features.features(B), alpha, TARGETS[self.target])

        with one_blas_thread():  # many small factorisations; blocks of rows run on all cores anyway
            self.selection_ = None
            if self.kernel is None or self.reg is None:
                tried = candidates(kernel, B.shape[1], self.kernel is None)
                regs = REGULARISERS if self.reg is None else np.array([self.reg])
                if alpha == 0:  # a relative ratio is bounded, and so is its loss
                    cover = Cover(B)
                    A, w, cover = self._covered(A, w, cover)
                self.selection_ = choose_ratio(tried, regs, problem)
                kernel, self.reg_ = self.selection_.kernel, self.selection_.reg
            else:
                self.reg_ = self.reg
            self.kernel_ = self._basis(kernel, A, B, np.random.default_rng(seed))
            self.coefficients_ = self._solve(top, m, den, alpha, cover, saved)
        if saved is not None:
            saved.finish()
        return self

    def _sources(self, numerator: Any, denominator: Any) -> tuple[Rows, Rows | None, Rows]:
        """The points of the numerator, their weights (None where all are alike), those of the denominator."""
        den = as_source(denominator)
        if den is None:
            den = open_rows(self._fit_rows(denominator, name="denominator"))
        else:
            self._fit_source(den)
        num = None if isinstance(numerator, Embedding) else as_source(numerator)
        if num is None:
            A, weights = numerator_points(numerator, self.encoder_x_, den.shape[1])
            return open_rows(A), open_rows(weights), den
        check_same_columns(num, den.shape[1], "numerator", "the denominator")
        return num, None, den

    def _solve(
        self, num: list[Rows], m: int, den: Rows, alpha: float, cover: Cover | None, saved: Any
    ) -> Array:
        """θ from sums over the rows of both; of the numerator's ``m``, with weights or without."""
        kernel, t = self.kernel_, TARGETS[self.target]
        mark = digest(kernel)

        def below(B: Array) -> tuple[Array, Array, Array]:
            Phi = kernel.features(B)
            return Phi.T @ Phi, Phi.sum(axis=0), np.array(len(B))

        def above(A: Array, *w: Array) -> tuple[Array, Array]:
            Phi, v = kernel.features(A), w[0][:, 0] if w else np.full(len(A), 1 / m)
            if cover is not None:
                v = np.where(cover(A), v, 0.0)
            return v @ Phi, Phi.T @ (v[:, None] * Phi) if alpha else np.zeros((0, 0))

        options: Any = {"width": kernel.size, "checkpoint": saved}
        H, base, n = sum_rows(below, den, names=("denominator",), label=f"below {mark}", **options)
        h, own = sum_rows(above, *num, names=("numerator", "weights"), label=f"above {mark}", **options)
        H, base = (1 - alpha) / n * H, (1 - alpha) / n * base
        if alpha:
            H, base = H + alpha * own, base + alpha * h
        values, V, rotated = spectrum(H, h - t * base)
        return V @ (rotated / (values + self.reg_))

    @staticmethod
    def _covered(A: Array, weights: Array, cover: Cover) -> tuple[Array, Array, Cover | None]:
        """The part of the numerator that the denominator covers: of the rest the ratio cannot be known."""
        near = cover(A)
        lost = float(np.abs(weights[~near]).sum() / np.abs(weights).sum())
        if lost > UNCOVERED:
            warnings.warn(
                f"{percent(lost)} of the numerator lies where the denominator has no rows near: the ratio "
                "says nothing of it.",
                stacklevel=3,
            )
        return (A[near], weights[near], cover) if near.any() else (A, weights, None)

    def _basis(self, kernel: Kernel, A: Array, B: Array, rng: np.random.Generator) -> FeatureKernel:
        if self.method != "kulsif":
            return rulsif.basis(kernel, A, B, rng)
        representation = as_representation(self.representation)
        if not isinstance(representation, Exact):
            fitted: Any = representation.fit(kernel, B, rng)
            return fitted
        both = np.concatenate([A, B])
        if len(both) > LANDMARKS:
            both = both[rng.choice(len(both), LANDMARKS, replace=False)]
        return kulsif.basis(kernel, both, both[:0], rng)

    def predict(self, z: Any) -> np.ndarray:
        """The ratio at each row of ``z``, (q,); on Dask, a Dask array."""
        source = self._source(z, "z")
        if source is not None:
            return map_rows(self._function, source, "z", self.kernel_.size)
        return self._function(self._rows(z, "z"))

    @property
    def _function(self) -> Callable[[Array], np.ndarray]:
        """The ratio, without the rest of the estimator: it may be sent to other processes."""
        target, kernel, theta = TARGETS[self.target], self.kernel_, self.coefficients_
        return lambda z: np.maximum(target + kernel.features(z) @ theta, 0.0)


def candidates(kernel: Kernel, d: int, tune: bool) -> list[tuple[float, Kernel]]:
    """The kernel at several multiples of its lengthscales, or itself alone."""
    if not tune:
        return [(1.0, kernel)]
    return [(float(c), stretch(kernel, np.full(d, c))) for c in MULTIPLES]


def choose_ratio(kernels: list[tuple[float, Kernel]], regs: np.ndarray, problem: Any) -> RatioChoice:
    """The kernel and regulariser with the least leave-one-out loss."""
    path: list[tuple[float, float, float]] = []
    best: RatioChoice | None = None
    for multiple, kernel in kernels:
        least = problem(kernel)
        scores = np.array([least.score(reg) for reg in regs])
        path.extend((multiple, r, s) for r, s in zip(regs, scores, strict=True))
        i = int(scores.argmin())
        if best is None or scores[i] < best.score:
            best = RatioChoice(kernel, float(regs[i]), float(scores[i]), np.empty(0))
    assert best is not None
    return RatioChoice(best.kernel, best.reg, best.score, np.array(path))


def numerator_points(
    numerator: Any, encoder: Encoder, d: int, name: str = "numerator", than: str = "the denominator"
) -> tuple[Array, Array]:
    """Points (m, d) and weights (m,) of samples or of an embedding, in the codes of ``encoder``."""
    if isinstance(numerator, Embedding):
        if numerator.is_batch:
            if len(numerator) != 1:
                raise ValueError(
                    f"{name} is a batch of {len(numerator)} embeddings: pass one of them, e.g. {name}[0]."
                )
            numerator = numerator[0]
        check_same_columns(numerator.points, d, f"{name}.points", than)
        points = encoder.recode(numerator.points, numerator.encoder or Encoder(), name)
        weights = np.asarray(numerator.weights)
        if not (np.isfinite(weights).all() and weights.sum() > 1e-10 * np.abs(weights).sum()):
            raise ValueError(
                f"{name} must be a distribution, but its weights sum to {weights.sum():.3g}: a difference of "
                "embeddings is none, and far from all data a posterior has no mass left."
            )
        return np.asarray(points, dtype=float), weights
    A = np.asarray(encoder.transform(numerator, name), dtype=np.float64)
    check_same_columns(A, d, name, than)
    return A, np.full(len(A), 1 / len(A))
