"""The conditional mean embedding as an estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from muhat._array import Array
from muhat._tables import Encoder, is_frame
from muhat._validation import (
    as_generator,
    as_rows,
    as_values,
    as_weights,
    check_positive,
    check_same_columns,
    check_same_rows,
    check_share,
)
from muhat.embedding import Embedding
from muhat.embedding.marginals import Marginals
from muhat.embedding.moments import POINTS, Functions, MomentEmbedding, split_moments
from muhat.embedding.simplex import project_simplex
from muhat.engine import (
    Rows,
    digest,
    map_rows,
    open_rows,
    paired_sources,
    sample_indices,
    sample_rows,
    sum_rows,
)
from muhat.gram import (
    Factored,
    FeatureKernel,
    Features,
    LowRankGram,
    Neural,
    NeuralKernel,
    Ridge,
    as_representation,
    default_representation,
)
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.features import target_features
from muhat.learning.leave_one_out import LeaveOneOut, choose_conditional
from muhat.learning.scatter import OutputScatter, fit_scatter
from muhat.models.base import Estimator, both_streamed, encode_outputs
from muhat.operators.conditional import complete_weights, conditional_ridge, conditional_weights, group_rows
from muhat.operators.moments import Moments


class ConditionalMean(RegressorMixin, Estimator):
    """The distribution of Y given X, as the conditional mean embedding [HR19, Def. 3.3; G15].

    ``μ_{Y|x} = μ_Y + Σᵢ wᵢ(x) (ℓ(yᵢ, ·) − μ_Y)`` with ``w(x) = (K + nλI)⁻¹ k(X, x)``: λ is on the operator
    scale, ``(Ĉ_XX + λI)⁻¹``. Many lengthscales from the data w vanishes, and the answer is the distribution
    of all outputs; outside the training inputs, but nearer, the regression extrapolates, and intervals grow
    with its variance. Nothing makes them hold there: ``familiarity`` says where that is.
    Equal inputs are grouped, with the same answer.

    Moments and expectations use the weights as they are. Quantiles and intervals use the mean as a location,
    about which leave-one-out residuals scatter; the weights take part as far as that lowers the leave-one-out
    CRPS.

    Args:
        kernel_x: k on the inputs. None for a Gaussian, a Matérn-3/2 or a product of Laplace kernels over the
            columns (times a Delta on each category), with family and lengthscales chosen by leave-one-out.
        kernel_y: ℓ on the outputs. None for the default kernel with median lengthscale.
        reg: λ > 0. None for leave-one-out: of the error of the outputs and of their features in the RKHS.
        representation: how Grams are held, e.g. ``mh.Nystrom(500)``. None for exact up to 4 000 distinct
            inputs, and for landmarks beyond; ``representation_`` says which. A pair is for x and for y;
            ``mh.Features`` or ``mh.Neural`` alone is for x, with y exact, and takes no ``kernel_x``.
        random_state: seed of the representation's and the search's random choices.
        center: whether outputs are centred. False for the plain form of the papers, ``Σᵢ wᵢ(x) ℓ(yᵢ, ·)``,
            whose mass falls to 0 far from the data.

    Attributes:
        representation_: of the inputs, in use.
        kernel_x_: the input kernel in use (with features, in a low-rank representation).
        kernel_y_: the output kernel in use.
        reg_: λ in use.
        selection_: what leave-one-out tried and found (with ``mh.Neural``, the rows that its training kept
            out), or None if nothing was left to choose.
        gram_: of the distinct inputs.
        groups_: which rows share an input, or None.
        Y_: the outputs, (n, k); of rows that were read in blocks, some of them.
        moments_: the sums, for rows that were read in blocks or came by ``partial_fit``; else None.
    """

    _prepared: ClassVar[tuple[str, ...]] = (
        "_ridge",
        "_mean",
        "_features_y",
        "_moment_values",
        "_sources",
        "_scatter",
    )
    _sources: tuple[Rows, Rows] | None = None

    def __init__(
        self,
        kernel_x: Kernel | None = None,
        kernel_y: Kernel | None = None,
        reg: float | None = None,
        representation: Representation | tuple[Representation, Representation] | None = None,
        random_state: Any = 0,
        center: bool = True,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.reg = reg
        self.representation = representation
        self.random_state = random_state
        self.center = center

    def fit(self, X: Any, Y: Any, checkpoint: Any = None) -> ConditionalMean:
        """Learn from pairs: ``X`` (n, d) and ``Y`` (n, k) or (n,).

        Rows that outgrow memory (see :func:`muhat.open_rows`) are read twice: for the sample that kernels,
        landmarks and λ are chosen from, and for the sums. ``checkpoint`` is then the path of a file that an
        interrupted fit goes on from.
        """
        rng = as_generator(self.random_state)
        if self.reg is not None:
            check_positive(self.reg, "reg", "give λ > 0, or None to have it chosen", scalar=True)
        sources = paired_sources(X, Y)
        if sources is not None:
            return self._fit_streamed(*sources, rng, checkpoint)
        if checkpoint is not None:
            raise ValueError("checkpoint is for rows that are read in blocks: leave it out for arrays.")
        A = self._fit_rows(X)
        encoder_y, B, flat = encode_outputs(Y)
        check_same_rows(A, B, "X", "Y")
        return self._fit_encoded(A, B, self.encoder_x_, encoder_y, flat)

    def _fit_encoded(
        self, A: Array, B: Array, encoder_x: Encoder, encoder_y: Encoder, flat: bool
    ) -> ConditionalMean:
        """As :meth:`fit`, of rows in memory that were taken in already."""
        rng = as_generator(self.random_state)
        self.encoder_x_, self.encoder_y_, self.flat_y_ = encoder_x, encoder_y, flat
        self.n_features_in_ = A.shape[1]
        self.groups_ = group_rows(A)
        represent_x, represent_y = _both(self.representation)
        if self.representation is None:
            represent_x = default_representation(len(A if self.groups_ is None else self.groups_.points))
        self.representation_ = represent_x
        self._choose(A, B, represent_x, represent_y, rng)
        self.gram_ = represent_x.gram_of(self.kernel_x_, A if self.groups_ is None else self.groups_.points)
        self.Y_, self.moments_, self._sources = B, None, None
        self._prepare()
        return self

    def _choose(
        self,
        A: Array,
        B: Array,
        represent_x: Representation,
        represent_y: Representation,
        rng: np.random.Generator,
    ) -> None:
        """Kernels, landmarks and λ, from a sample of the rows where there are many."""
        some = sample_indices(len(A))
        part, out = A[some], B[some]
        kernel_x = resolve_kernel(self.kernel_x, part, self.encoder_x_, "kernel_x")
        kernel_y = resolve_kernel(self.kernel_y, out, self.encoder_y_, "kernel_y")
        # What they cannot take is refused before any work.
        represent_y.fit(kernel_y, out[:1], 0)
        if isinstance(represent_x, Neural):
            targets = target_features(kernel_y, B, rng, not self.encoder_y_.categories)
            kernel_x = represent_x.train(A, targets, random_state=rng)
        else:
            represent_x.fit(kernel_x, part[:1], 0)
        tune = self.kernel_x is None
        if isinstance(represent_x, (Features, Neural)):  # the features are the kernel
            kernel_x, tune = represent_x.fit(kernel_x, part, rng), False
        self.reg_, self.selection_ = self.reg, None
        if self.reg is None or tune:
            self.selection_ = _held_out(kernel_x) or choose_conditional(
                part,
                out,
                kernel_x,
                kernel_y,
                self.reg,
                tune,
                rng,
                families=tune,
                means=self.center and not self.encoder_y_.categories,
            )
            kernel_x, self.reg_ = self.selection_.kernel, self.selection_.reg
        groups = group_rows(part)
        self.kernel_x_ = represent_x.fit(kernel_x, part if groups is None else groups.points, rng)
        self.kernel_y_ = represent_y.fit(kernel_y, out, rng)

    def _fit_streamed(
        self, X: Rows, Y: Rows, rng: np.random.Generator, checkpoint: Any = None
    ) -> ConditionalMean:
        represent_x, represent_y = both_streamed(self.representation)
        self.representation_ = represent_x
        self._fit_source(X)
        self.encoder_y_, self.flat_y_ = Encoder(Y.names), Y.flat
        saved = self._checkpoint(checkpoint, X, Y)
        n, (A, B) = sample_rows(X, Y, checkpoint=saved)
        if n < 2:
            raise ValueError(f"X has {n} row, but at least 2 are needed: pass more rows.")
        self._choose(A, B, represent_x, represent_y, rng)
        self.groups_, self.centre_y_, self.Y_ = None, B.mean(axis=0), B[:POINTS]
        # The Gram of no rows: it knows the features.
        kernel: Any = self.kernel_x_
        self.gram_ = LowRankGram(kernel.features(A[:1]), kernel, A[:1])
        self.moments_ = self._sums(X, Y, self._targets, saved)
        self._sources = X, Y
        if saved is not None:
            saved.finish()
        self._prepare()
        return self

    @property
    def _targets(self) -> Functions:
        """What is regressed on x: mass and moments of y, and its features."""
        return Functions(self.kernel_y_, self.centre_y_)

    def _sums(self, X: Any, Y: Any, functions: Callable[[Array], Array], saved: Any = None) -> Moments:
        """Sums over the rows of features of x with themselves and with ``functions`` of y."""
        kernel: Any = self.kernel_x_

        def work(A: Array, B: Array) -> tuple[Array, ...]:
            Phi = kernel.features(A)
            F = functions(B)
            return Phi.T @ Phi, Phi.T @ F, Phi.sum(axis=0), F.sum(axis=0), np.array(len(A))

        width = kernel.size + getattr(self.kernel_y_, "size", 0) + self.Y_.shape[1] ** 2
        label = "sums " + digest(kernel, self.kernel_y_, self.centre_y_)
        sums = sum_rows(work, X, Y, width=width, checkpoint=saved, label=label)
        gram, cross, features, values, n = sums
        return Moments(gram, cross, features, values, int(n))

    def partial_fit(self, X: Any, Y: Any) -> ConditionalMean:
        """Learn from more pairs, at a cost that does not grow with those before.

        The first call chooses kernels, landmarks and λ, as ``fit`` on these rows; give it rows enough. The
        rows themselves are not kept, and the representation must have features (Nyström's by default).
        """
        if not hasattr(self, "gram_"):
            pair = paired_sources(X, Y) or (open_rows(as_rows(X, "X")), open_rows(np.asarray(Y)))
            pair[0].names = [str(c) for c in X.columns] if is_frame(X) else pair[0].names
            self.fit(*pair)
        elif self.moments_ is None:  # after a fit in memory: its rows and these, as if for the first time
            before = self.gram_.points if self.groups_ is None else self.groups_.points[self.groups_.inverse]
            if self.encoder_x_.categories or self.encoder_y_.categories:
                raise ValueError("Categories have no sums to add to: fit on all rows at once.")
            A, B = self._rows(X), np.asarray(Y).reshape(len(Y), -1)
            outputs = np.concatenate([self.Y_, B])
            self.fit(
                open_rows(np.concatenate([before, A])),
                open_rows(outputs[:, 0] if self.flat_y_ else outputs),
            )
        else:
            pair = paired_sources(X, Y) or (open_rows(self._rows(X)), open_rows(np.asarray(Y)))
            check_same_columns(pair[1], self.Y_.shape[1], "Y", "the Y seen before")
            before: Any = self.moments_
            self.moments_ = before + self._sums(*pair, self._targets)
            self._prepare()
        self._sources = None  # the rows are no longer those of one source
        return self

    def _prepare(self) -> None:
        """What follows from the fitted attributes: the factored ridge and the functions in use."""
        self._scatter: OutputScatter | None = None
        if self.moments_ is not None:
            d, reg = self.Y_.shape[1], float(self.reg_)  # type: ignore[arg-type]
            values = Function(*self.moments_.regression(reg, self.center))
            split = 1 + d + d * d
            self._moment_values, self._features_y = values[:split], values[split:]
            mass, first = self._moment_values[:1], self._moment_values[1 : 1 + d]
            self._mean = Function(
                first.coefficients + mass.coefficients * self.centre_y_,
                first.offset + mass.offset * self.centre_y_,
            )
            return
        self._ridge: Ridge = conditional_ridge(self.gram_, self.reg_, self.groups_)
        self._mean: Function | None = None if self.encoder_y_.categories else self._fit_function(self.Y_)
        self._features_y: Function | None = None
        if isinstance(self.kernel_y_, FeatureKernel):
            self._features_y = self._fit_function(self.kernel_y_.features(self.Y_))

    def _fit_function(self, values: Array) -> Function:
        """The regression of ``values`` (n, k) on x."""
        offset = values.mean(axis=0) if self.center else np.zeros(values.shape[1])
        rest = values - offset
        return Function(self._ridge.fit(rest if self.groups_ is None else self.groups_.mean(rest)), offset)

    def at(self, x: Any) -> Embedding:
        """The embeddings of Y given each row of ``x`` (q, d): a batch of q."""
        return self._at(self._rows(x, "x"))

    def _at(self, x: Array) -> Embedding:
        theta = None if self._features_y is None else self._features_y.at(self.gram_, x)
        if self.moments_ is not None:
            return self._from_moments(theta, self._moment_values.at(self.gram_, x))
        weights = self._weights(self.gram_.cross(x), np.ones(len(x)))
        marginals = self._lazy_marginals(x, lambda: weights, None)
        return Embedding(self.kernel_y_, self.Y_, weights, theta, self.encoder_y_, marginals)

    def _from_moments(self, theta: Any, values: Array) -> Embedding:
        kernel: Any = self.kernel_y_
        moments = split_moments(values, self.Y_.shape[1])
        return MomentEmbedding(kernel, self.Y_, theta, moments, self.centre_y_, self.encoder_y_)

    def _lazy_marginals(
        self, x: Array, weights: Callable[[], Any], mixing: Array | None
    ) -> Callable[[], Marginals] | None:
        """How quantiles at ``x`` are found, when they are asked for; None where y has no numbers."""
        if self._mean is None:
            return None
        return lambda: self._marginals(x, weights, mixing)

    def _marginals(self, x: Array, weights: Callable[[], Any], mixing: Array | None = None) -> Marginals:
        if self._scatter is None:
            inputs = self.gram_.points if self.groups_ is None else self.groups_.points[self.groups_.inverse]
            self._scatter = fit_scatter(
                self.gram_, self._ridge, self.groups_, inputs, self.Y_, self.center, np.random.default_rng(0)
            )
        mean: Any = self._mean
        return self._scatter.at(self.gram_, x, mean.at(self.gram_, x), weights, mixing)

    def push(self, mu: Embedding) -> Embedding:
        """The kernel sum rule: the embedding of Y when X is distributed as ``mu`` (or a batch)."""
        x, W = self._distribution(mu)
        theta = None if self._features_y is None else W @ self._features_y.at(self.gram_, x)
        if self.moments_ is not None:
            out = self._from_moments(theta, W @ self._moment_values.at(self.gram_, x))
            return out if mu.is_batch else out[0]
        weights = self._weights(self._integrate(x, W), W.sum(axis=1))
        marginals = self._lazy_marginals(
            x, lambda: self._weights(self.gram_.cross(x), np.ones(len(x))), project_simplex(W)
        )
        out = Embedding(self.kernel_y_, self.Y_, weights, theta, self.encoder_y_, marginals)
        return out if mu.is_batch else out[0]

    def chain(self, mu: Embedding) -> Embedding:
        """The kernel chain rule: the joint embedding of (X, Y) when X is distributed as ``mu``.

        Points are the training pairs, x and y side by side; the kernel is ``k(x, x') ℓ(y, y')``.
        """
        if self.moments_ is not None:
            raise ValueError(
                "The joint embedding has the training pairs as its points, and these were not kept: fit on "
                "arrays in memory, or use push(mu) for Y alone."
            )
        x, W = self._distribution(mu)
        weights = self._weights(self._integrate(x, W), W.sum(axis=1))
        inputs = self.gram_.points if self.groups_ is None else self.groups_.points[self.groups_.inverse]
        d, k = inputs.shape[1], self.Y_.shape[1]
        kernel = self.kernel_x_.on(range(d)) * self.kernel_y_.on(range(d, d + k))
        pairs = np.concatenate([inputs, self.Y_], axis=1)
        encoder = self.encoder_x_.beside(self.encoder_y_, d)
        return Embedding(kernel, pairs, weights if mu.is_batch else _only(weights), None, encoder)

    def _distribution(self, mu: Any) -> tuple[Array, Array]:
        """The points of an embedding over x, in our codes, and its weights (batch, m)."""
        if not isinstance(mu, Embedding):
            raise TypeError(
                f"mu must be an Embedding over x, got {type(mu).__name__}: use mh.embed(samples, "
                "model.kernel_x_), or at(x) for points."
            )
        check_is_fitted(self)
        check_same_columns(mu.points, self.n_features_in_, "mu.points", "the X seen in fit")
        x = self.encoder_x_.recode(mu.points, mu.encoder or Encoder(), "mu")
        # Estimators work in NumPy and in double precision, whatever the embedding is made of.
        return np.asarray(x, dtype=np.float64), np.atleast_2d(np.asarray(mu.weights, dtype=np.float64))

    def _integrate(self, x: Array, W: Array) -> Array | Factored:
        """``μ(X)`` at the inputs, (n, batch)."""
        cross = self.gram_.cross(x)
        return Factored(cross.left, cross.right @ W.T) if isinstance(cross, Factored) else cross @ W.T

    def _weights(self, cross: Array | Factored, mass: Array) -> Array | Factored:
        """Weights on the outputs, (batch, n), of sum ``mass`` (batch,) if outputs are centred."""
        weights = conditional_weights(self._ridge, cross, self.groups_)
        return complete_weights(weights, mass) if self.center else weights

    def expect(self, f: Callable[[Array], Array] | Array, x: Any) -> Array:
        """``E[f(Y) | x]`` at each row of ``x``, (q,) or (q, k).

        Args:
            f: a function of rows of Y, or the array of its values at the training outputs.
            x: (q, d).
        """
        x = self._rows(x, "x")
        if self.moments_ is not None:
            return self._expect_streamed(f, x)
        values = as_values(f(self.Y_) if callable(f) else f, len(self.Y_), "training outputs")
        out = self._fit_function(values.reshape(len(values), -1)).at(self.gram_, x)
        return out[:, 0] if values.ndim == 1 else out

    def _expect_streamed(self, f: Any, x: Array) -> Array:
        if not callable(f) or self._sources is None:
            raise ValueError(
                "The training outputs were not kept: give f as a function, in the process that fitted on "
                "rows of one source (read once more); or use at(x).expect(f), on a sample of them."
            )
        shown: Any = f(self.Y_)
        sums = self._sums(*self._sources, lambda B: as_values(f(B), len(B), "outputs").reshape(len(B), -1))
        reg: Any = self.reg_
        out = Function(*sums.regression(reg, self.center)).at(self.gram_, x)
        return out[:, 0] if np.ndim(shown) == 1 else out

    def predict(self, X: Any) -> np.ndarray:
        """``E[Y | x]`` at each row, (q, k), or (q,) when fitted on a vector; on Dask, a Dask array."""
        source = self._source(X)
        if self._mean is None:
            raise ValueError(
                "Y has categories, which have no mean: use expect(f, x), e.g. with an indicator."
            )
        if source is not None:
            return map_rows(self._function, source, width=len(self._mean.coefficients))
        return self._function(self._rows(X))

    @property
    def _function(self) -> Callable[[Array], np.ndarray]:
        """The regression of y, without the rest of the estimator: it may be sent to other processes."""
        gram, mean, flat = self.gram_, self._mean, self.flat_y_
        if isinstance(gram, LowRankGram):
            gram = LowRankGram(gram.Phi[:1], gram.kernel)

        def predict(x: Array) -> np.ndarray:
            out = mean.at(gram, x)  # type: ignore[union-attr]
            return out[:, 0] if flat else out

        return predict

    def quantile(self, x: Any, q: Any) -> np.ndarray:
        """Quantiles of each output: (q, k), or (q, m, k) for m levels; without k when fitted on a vector."""
        out = self.at(x).quantile(q)
        return out[..., 0] if self.flat_y_ else out

    def interval(self, x: Any, level: float = 0.9) -> np.ndarray:
        """Between the quantiles (1 ± level)/2 of each output, (q, k, 2); (q, 2) when fitted on a vector."""
        level = check_share(level, "level", "give e.g. 0.9")
        out = np.swapaxes(self.at(x).quantile([(1 - level) / 2, (1 + level) / 2]), 1, 2)
        return out[:, 0] if self.flat_y_ else out

    def familiarity(self, x: Any) -> np.ndarray:
        """How near each row of ``x`` is to the training rows, (q,): see :class:`muhat.embedding.Familiar`.

        Where it is below 0.1 or so, ``predict``, ``quantile`` and ``interval`` are guesses.
        """
        x = self._rows(x, "x")
        if self.moments_ is not None:
            raise ValueError(
                "The training inputs were not kept, so that nothing is near them or far: fit on a sample of "
                "the rows in memory to ask for familiarity."
            )
        return self._near(self.gram_.points).at(x)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of :meth:`predict`, as of any regressor; for categories, :meth:`explained`."""
        if self._mean is None:
            return self.explained(X, y, sample_weight)
        return super().score(X, y, sample_weight)

    def explained(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the variance of ψ(Y) in its RKHS that X explains; 1 is best.

        ``1 − Σ‖ψ(yᵢ) − μ_{Y|xᵢ}‖² / Σ‖ψ(yᵢ) − μ̂_Y‖²``: with a linear output kernel the usual R².
        """
        mu = self._at(self._rows(X))
        B = np.asarray(self.encoder_y_.transform(_column(y, self.flat_y_), "y"), dtype=np.float64)
        check_same_columns(B, self.Y_.shape[1], "y", "the Y seen in fit")
        if len(B) != len(mu):
            raise ValueError(f"X has {len(mu)} rows but y has {len(B)}: rows are pairs.")
        w = np.ones(len(B)) if sample_weight is None else as_weights(sample_weight, len(B), "sample_weight")
        w = w / w.sum()
        own = np.asarray(self.kernel_y_.diag(B))
        fit = w @ (own - 2 * _paired(mu, B) + mu._squared_norm())
        marginal = Embedding(self.kernel_y_, B, w)
        spread = w @ (own - 2 * marginal(B) + marginal._squared_norm())
        rounding = 1e-14 * (w @ own)
        # Without any variance to explain, the usual R²: 1 for a perfect fit, else 0.
        return float(1 - fit / spread if spread > rounding else fit <= rounding)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.input_tags.categorical = True
        return tags


@dataclass(frozen=True)
class Function:
    """A regression on x: ``offset + Σ k(x, ·) coefficients``.

    Attributes:
        coefficients: (g or p, k).
        offset: (k,).
    """

    coefficients: Array
    offset: Array

    def __getitem__(self, columns: slice) -> Function:
        return Function(self.coefficients[:, columns], self.offset[columns])

    def at(self, gram: Any, x: Array) -> Array:
        """Values at the rows of ``x``, (q, k)."""
        return self.offset + gram.evaluate(x, self.coefficients)


def _both(representation: Any) -> tuple[Representation, Representation]:
    """The representations of x and of y."""
    if isinstance(representation, tuple) and len(representation) == 2:
        return as_representation(representation[0]), as_representation(representation[1])
    both = as_representation(representation)
    return both, as_representation(None) if isinstance(both, (Features, Neural)) else both


def _held_out(kernel: Kernel) -> LeaveOneOut | None:
    """What the rows say that the training of a network kept out: those it saw would ask for too small a λ."""
    training = kernel.training if isinstance(kernel, NeuralKernel) else None
    if training is None or not len(training.path):
        return None
    path = np.insert(training.path, 0, 1.0, axis=1)
    return LeaveOneOut(kernel, training.reg, float(path[:, 2].min()), path)


def _only(weights: Array | Factored) -> Array:
    """The single row of weights."""
    return (weights.dense() if isinstance(weights, Factored) else weights)[0]


def _paired(mu: Embedding, B: Array) -> Array:
    """``μᵢ(bᵢ)``, the i-th embedding of the batch at the i-th row, (batch,)."""
    if isinstance(mu.kernel, FeatureKernel):
        return (mu.coefficients * mu.kernel.features(B)).sum(axis=1)
    return (mu.weights * mu.kernel(B, mu.points)).sum(axis=1)


def _column(Y: Any, flat: bool) -> Any:
    if hasattr(Y, "to_frame"):
        return Y.to_frame()
    return np.asarray(Y).reshape(-1, 1) if flat or np.ndim(Y) == 1 else Y
