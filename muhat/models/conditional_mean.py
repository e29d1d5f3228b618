"""The conditional mean embedding as an estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from muhat._array import Array
from muhat._tables import Encoder
from muhat._validation import (
    as_generator,
    as_values,
    as_weights,
    check_positive,
    check_same_columns,
    check_same_rows,
)
from muhat.embedding import Embedding
from muhat.gram import Factored, FeatureKernel, Features, Neural, NeuralKernel, Ridge, as_representation
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.features import target_features
from muhat.learning.leave_one_out import LeaveOneOut, choose_conditional
from muhat.models.base import Estimator, encode_outputs
from muhat.operators.conditional import conditional_ridge, conditional_weights, group_rows


class ConditionalMean(RegressorMixin, Estimator):
    """The distribution of Y given X, as the conditional mean embedding [HR19, Def. 3.3; G15].

    ``μ_{Y|x} = Σᵢ wᵢ(x) ℓ(yᵢ, ·)`` with ``w(x) = (K + nλI)⁻¹ k(X, x)``: λ is on the operator scale,
    ``(Ĉ_XX + λI)⁻¹``. Equal inputs are grouped, with the same answer.

    Args:
        kernel_x: k on the inputs. None for a Gaussian (times a Delta on each category) whose
            lengthscale is chosen by leave-one-out.
        kernel_y: ℓ on the outputs. None for the default kernel with median lengthscale.
        reg: λ > 0. None for leave-one-out in the RKHS norm of y.
        representation: how Grams are held, e.g. ``mh.Nystrom(500)``; exact by default. A pair is for x and
            for y; ``mh.Features`` or ``mh.Neural`` alone is for x, with y exact, and takes no ``kernel_x``.
        random_state: seed of the representation's and the search's random choices.

    Attributes:
        kernel_x_: the input kernel in use (with features, in a low-rank representation).
        kernel_y_: the output kernel in use.
        reg_: λ in use.
        selection_: what leave-one-out tried and found (with ``mh.Neural``, the rows that its training kept
            out), or None if nothing was left to choose.
        gram_: of the distinct inputs.
        groups_: which rows share an input, or None.
        Y_: the outputs, (n, k).
    """

    _prepared: ClassVar[tuple[str, ...]] = ("_ridge", "_mean", "_features_y")

    def __init__(
        self,
        kernel_x: Kernel | None = None,
        kernel_y: Kernel | None = None,
        reg: float | None = None,
        representation: Representation | tuple[Representation, Representation] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.reg = reg
        self.representation = representation
        self.random_state = random_state

    def fit(self, X: Any, Y: Any) -> ConditionalMean:
        """Learn from pairs: ``X`` (n, d) and ``Y`` (n, k) or (n,)."""
        represent_x, represent_y = _both(self.representation)
        rng = as_generator(self.random_state)
        if self.reg is not None:
            check_positive(self.reg, "reg", "give λ > 0, or None to have it chosen", scalar=True)
        A = self._fit_rows(X)
        self.encoder_y_, B, self.flat_y_ = encode_outputs(Y)
        check_same_rows(A, B, "X", "Y")
        kernel_x = resolve_kernel(self.kernel_x, A, self.encoder_x_, "kernel_x")
        kernel_y = resolve_kernel(self.kernel_y, B, self.encoder_y_, "kernel_y")
        # What they cannot take is refused before any work.
        represent_y.fit(kernel_y, B[:1], 0)
        if isinstance(represent_x, Neural):
            targets = target_features(kernel_y, B, rng, not self.encoder_y_.categories)
            kernel_x = represent_x.train(A, targets, random_state=rng)
        else:
            represent_x.fit(kernel_x, A[:1], 0)
        tune = self.kernel_x is None
        if isinstance(represent_x, (Features, Neural)):  # the features are the kernel
            kernel_x, tune = represent_x.fit(kernel_x, A, rng), False
        self.reg_, self.selection_ = self.reg, None
        if self.reg is None or tune:
            self.selection_ = _held_out(kernel_x) or choose_conditional(
                A, B, kernel_x, kernel_y, self.reg, tune, rng
            )
            kernel_x, self.reg_ = self.selection_.kernel, self.selection_.reg
        self.groups_ = group_rows(A)
        inputs = A if self.groups_ is None else self.groups_.points
        self.kernel_x_ = represent_x.fit(kernel_x, inputs, rng)
        self.kernel_y_ = represent_y.fit(kernel_y, B, rng)
        self.gram_ = represent_x.gram_of(self.kernel_x_, inputs)
        self.Y_ = B
        self._prepare()
        return self

    def _prepare(self) -> None:
        """What follows from the fitted attributes: the factored ridge and the functions in use."""
        self._ridge: Ridge = conditional_ridge(self.gram_, self.reg_, self.groups_)
        self._mean: Array | None = None if self.encoder_y_.categories else self._fit_function(self.Y_)
        self._features_y: Array | None = None
        if isinstance(self.kernel_y_, FeatureKernel):
            self._features_y = self._fit_function(self.kernel_y_.features(self.Y_))

    def _fit_function(self, values: Array) -> Array:
        """Coefficients of the regression of ``values`` (n, k) on x."""
        return self._ridge.fit(values if self.groups_ is None else self.groups_.mean(values))

    def at(self, x: Any) -> Embedding:
        """The embeddings of Y given each row of ``x`` (q, d): a batch of q."""
        return self._at(self._rows(x, "x"))

    def _at(self, x: Array) -> Embedding:
        theta = None if self._features_y is None else self.gram_.evaluate(x, self._features_y)
        return self._output(self.gram_.cross(x), theta)

    def push(self, mu: Embedding) -> Embedding:
        """The kernel sum rule: the embedding of Y when X is distributed as ``mu`` (or a batch)."""
        cross, theta = self._integrate(mu)
        return self._output(cross, theta, single=not mu.is_batch)

    def chain(self, mu: Embedding) -> Embedding:
        """The kernel chain rule: the joint embedding of (X, Y) when X is distributed as ``mu``.

        Points are the training pairs, x and y side by side; the kernel is ``k(x, x') ℓ(y, y')``.
        """
        cross, _ = self._integrate(mu)
        weights = self._weights(cross)
        inputs = self.gram_.points if self.groups_ is None else self.groups_.points[self.groups_.inverse]
        d, k = inputs.shape[1], self.Y_.shape[1]
        kernel = self.kernel_x_.on(range(d)) * self.kernel_y_.on(range(d, d + k))
        pairs = np.concatenate([inputs, self.Y_], axis=1)
        encoder = self.encoder_x_.beside(self.encoder_y_, d)
        return Embedding(kernel, pairs, weights if mu.is_batch else _only(weights), None, encoder)

    def _integrate(self, mu: Any) -> tuple[Array | Factored, Array | None]:
        """``μ(X)`` at the inputs, (n, batch), and the coefficients of its push-forward."""
        if not isinstance(mu, Embedding):
            raise TypeError(
                f"mu must be an Embedding over x, got {type(mu).__name__}: use mh.embed(samples, "
                "model.kernel_x_), or at(x) for points."
            )
        check_is_fitted(self)
        check_same_columns(mu.points, self.n_features_in_, "mu.points", "the X seen in fit")
        x = self.encoder_x_.recode(mu.points, mu.encoder or Encoder(), "mu")
        W = np.atleast_2d(mu.weights)
        theta = None if self._features_y is None else W @ self.gram_.evaluate(x, self._features_y)
        cross = self.gram_.cross(x)
        if isinstance(cross, Factored):
            return Factored(cross.left, cross.right @ W.T), theta
        return cross @ W.T, theta

    def _weights(self, cross: Array | Factored) -> Array | Factored:
        return conditional_weights(self._ridge, cross, self.groups_)

    def _output(self, cross: Array | Factored, theta: Array | None, single: bool = False) -> Embedding:
        weights = self._weights(cross)
        if single:
            weights, theta = _only(weights), None if theta is None else theta[0]
        return Embedding(self.kernel_y_, self.Y_, weights, theta, self.encoder_y_)

    def expect(self, f: Callable[[Array], Array] | Array, x: Any) -> Array:
        """``E[f(Y) | x]`` at each row of ``x``, (q,) or (q, k).

        Args:
            f: a function of rows of Y, or the array of its values at the training outputs.
            x: (q, d).
        """
        x = self._rows(x, "x")
        values = as_values(f(self.Y_) if callable(f) else f, len(self.Y_), "training outputs")
        out = self.gram_.evaluate(x, self._fit_function(values.reshape(len(values), -1)))
        return out[:, 0] if values.ndim == 1 else out

    def predict(self, X: Any) -> np.ndarray:
        """``E[Y | x]`` at each row, (q, k), or (q,) when fitted on a vector."""
        x = self._rows(X)
        if self._mean is None:
            raise ValueError(
                "Y has categories, which have no mean: use expect(f, x), e.g. with an indicator."
            )
        out = self.gram_.evaluate(x, self._mean)
        return out[:, 0] if self.flat_y_ else out

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the variance of ψ(Y) in its RKHS that X explains; 1 is best.

        ``1 − Σ‖ψ(yᵢ) − μ_{Y|xᵢ}‖² / Σ‖ψ(yᵢ) − μ̂_Y‖²``: with a linear output kernel the usual R².
        """
        mu = self._at(self._rows(X))
        B = self.encoder_y_.transform(_column(y, self.flat_y_), "y")
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
