"""Bayes' rule from samples as an estimator."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from muhat._array import Array
from muhat._tables import Encoder, is_frame
from muhat._validation import as_generator, check_choice, check_positive, check_same_rows
from muhat._words import percent
from muhat.embedding import Embedding
from muhat.embedding.familiar import UNLIKE
from muhat.embedding.moments import POINTS, Functions, MomentEmbedding, split_moments
from muhat.engine import Rows, paired_sources, sample_indices, sample_rows
from muhat.gram import Exact, Features, Gram, LowRankGram, Neural, as_representation
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.features import target_features
from muhat.learning.held_out import BayesChoice, Task, choose_bayes
from muhat.learning.nearness import Nearness
from muhat.models.base import Estimator, both_streamed, encode_outputs
from muhat.models.density_ratio import numerator_points
from muhat.models.posterior import MomentPosterior, Posterior, familiarity, seen_gram
from muhat.operators.bayes import RULES, Pairs, Prior
from muhat.operators.bayes.balance import Balance
from muhat.operators.bayes.importance import weighted_regression
from muhat.operators.bayes.streamed import (
    NOT_AT_HAND,
    LastPrior,
    StreamedPairs,
    posterior_values,
    prior_weights,
)
from muhat.operators.conditional import complete_weights

PRIOR_POINTS = 500  # of a prior that are compared with the pairs, those of the largest weights
BESIDE = 0.2  # share of a prior beyond the pairs that is warned of


class KernelBayes(Estimator):
    """The posterior of z given x, from pairs (x, z) and a prior over z; no likelihood function is needed.

    The pairs may come with any distribution of z that covers the prior: only p(x | z) is learned from them.

    Args:
        rule: ``"importance"`` [X22, Alg. 1], ``"kbr_b"`` [FSG13], ``"kbr_a"`` [SFG13], or
            ``"deconditional"`` [HR19, §6], which is Bayes' rule only where x is a function of z.
        kernel_x: on x. None for the default kernel with lengthscale chosen on held-out pairs.
        kernel_z: on z. None for the default kernel; its lengthscale in the density ratio is chosen by
            leave-one-out, its median lengthscale is that of the posterior embedding.
        reg: the regulariser of the last inversion, on the operator scale: λ of ``importance``, δ of KBR
            (added to the squared operator), ε of ``deconditional``. None for held-out choice.
        reg_prior: of the first: η of the density ratio ``(Ĉ_ZZ + ηI)⁻¹``. None for leave-one-out, after which
            ``importance`` tilts the weights of the pairs so that z has the prior's mean, covariance, and
            shares of categories and of few values. A given η has the plain ratio.
        target: what the density ratio shrinks to where data are few: ``"one"`` (the pairs as they are) or
            ``"zero"`` (as in the papers).
        center: whether what the posterior's weights lack of mass goes to the prior, so that regularisation
            shrinks towards it. False for the plain form of the papers, which shrinks to zero: a mean of z is
            then wrong by the mass lost times the distance of z from 0.
        representation: how Grams are held, exact by default; a pair is for x and for z, and ``mh.Features``
            or ``mh.Neural`` alone is for x.
        random_state: seed of the representation's and the search's random choices.

    Attributes:
        kernel_x_, kernel_z_: in use; with a prior, lengthscales that were left free are those of
            :meth:`choose`.
        X_, Z_: the pairs; of those that are read in blocks, a sample.
        last_prior_: what the last prior made of pairs that are read in blocks; None elsewhere.

    Authors' code and papers scale differently. In terms of ours: X22 as printed has λ/n; X22 and FSG13 with
    sums have δ = δ_paper/n² and η as here.
    """

    _prepared: ClassVar[tuple[str, ...]] = ("_last", "_sources", "_nearness", "_nearness_z")
    _sources: tuple[Rows, Rows] | None = None
    last_prior_: LastPrior | None = None

    def __init__(
        self,
        rule: str = "importance",
        kernel_x: Kernel | None = None,
        kernel_z: Kernel | None = None,
        reg: float | None = None,
        reg_prior: float | None = None,
        target: str = "one",
        center: bool = True,
        representation: Representation | tuple[Representation, Representation] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.rule = rule
        self.kernel_x = kernel_x
        self.kernel_z = kernel_z
        self.reg = reg
        self.reg_prior = reg_prior
        self.target = target
        self.center = center
        self.representation = representation
        self.random_state = random_state

    def fit(self, X: Any, Z: Any) -> KernelBayes:
        """Take in pairs: observations ``X`` (n, d) and latent variables ``Z`` (n, k) or (n,).

        Pairs that outgrow memory (see :func:`muhat.open_rows`) are read once here, for the sample that
        choices are made from, once for their moments, and once for every new prior of ``posterior``, whose
        mean and covariance are those of all pairs. A copy of the estimator, and one that was saved and
        loaded, has no rows to read: it answers with the last prior that was asked for.
        """
        check_rule(self)
        self._sources = paired_sources(X, Z)
        if self._sources is None:
            self.X_ = self._fit_rows(X)
            self.encoder_z_, self.Z_, self.flat_z_ = encode_outputs(Z, "Z")
            check_same_rows(self.X_, self.Z_, "X", "Z")
        else:
            of_x, of_z = self._sources
            self._fit_source(of_x)
            self.encoder_z_, self.flat_z_ = Encoder(of_z.names), of_z.flat
            _, (self.X_, self.Z_) = sample_rows(of_x, of_z, names=("X", "Z"))
        self.streamed_ = self._sources is not None
        self.last_prior_ = None
        return self._start()

    def partial_fit(self, X: Any, Z: Any) -> KernelBayes:
        """Take in more pairs; with features, at a cost that does not grow with those before.

        The kernels and regularisers of the last posterior stay in use, for every prior; ``fit`` chooses anew.
        """
        if not hasattr(self, "X_"):
            return self.fit(X, Z)
        if self.streamed_ or paired_sources(X, Z) is not None:
            raise ValueError(
                "partial_fit takes arrays, and the pairs are read in blocks: fit on all of them."
            )
        A, (B, _) = self._rows(X), prior_points(self, Z, "Z")
        check_same_rows(A, B, "X", "Z")
        self.X_, self.Z_ = np.concatenate([self.X_, A]), np.concatenate([self.Z_, B])
        self._nearness, self._nearness_z = self._near(self.X_), None
        if self._last is not None:
            _, choice, pairs = self._last
            assert isinstance(pairs, Pairs)
            grams = (_extended(pairs.gram_x, self.X_, len(A)), _extended(pairs.gram_z, self.Z_, len(A)))
            self._last = (None, choice, Pairs(*grams, pairs.reg_prior, pairs.target))
        return self

    def _representations(self) -> tuple[Representation, Representation]:
        choose = both_streamed if self.streamed_ else both_representations
        return choose(self.representation)

    def _start(self) -> KernelBayes:
        represent_x, represent_z = self._representations()
        some = sample_indices(len(self.X_))
        self.kernel_x_ = resolve_kernel(self.kernel_x, self.X_[some], self.encoder_x_, "kernel_x")
        self.kernel_z_ = resolve_kernel(self.kernel_z, self.Z_[some], self.encoder_z_, "kernel_z")
        # What the representations cannot take is refused now, though they are first needed with a prior.
        rng = as_generator(self.random_state)
        represent_z.fit(self.kernel_z_, self.Z_[:1], 0)
        if not isinstance(represent_x, Neural):
            represent_x.fit(self.kernel_x_, self.X_[:1], 0)
        else:  # trained once, for every prior
            targets = target_features(self.kernel_z_, self.Z_, rng, not self.encoder_z_.categories)
            self.kernel_x_ = represent_x.train(self.X_, targets, random_state=rng)
        self._prepare()
        return self

    def _prepare(self) -> None:
        # The last prior's points, its choice and its Grams: the next posterior often has the same prior.
        self._last: tuple[Any, BayesChoice, Pairs | StreamedPairs] | None = None
        self._nearness, self._nearness_z = self._near(self.X_), None
        if (last := self.last_prior_) is not None:
            functions = Functions(last.kernel, last.centre)
            rest = (last.choice.reg_prior, target_value(self), functions, last.held)
            pairs = StreamedPairs(*(self._sources or (None, None)), last.kernel_x, last.kernel_z, *rest)
            self._last = ((last.points, last.weights), last.choice, pairs)

    def choose(self, prior: Any = None) -> BayesChoice:
        """The kernels and regularisers in use with this prior: those given, those chosen from the pairs."""
        check_is_fitted(self)
        return self._for(*self._prior(prior))[0]

    def posterior(self, x: Any, prior: Any = None) -> Any:
        """The posteriors of z given each row of ``x`` (q, d): a batch of q embeddings.

        A :class:`Posterior`, or of pairs that are read in blocks a :class:`MomentPosterior`. Their ``unlike``
        are the rows that lie far from every x of the pairs, of which these say nothing.

        Args:
            x: observations.
            prior: samples (m, k), or an embedding over z (one, or a batch with one prior a row of x). None
                for the distribution of z in the pairs.
        """
        rows = self._rows(x, "x")
        if isinstance(prior, Embedding) and prior.is_batch and len(prior) != 1:
            if len(prior) != len(rows):
                raise ValueError(
                    f"prior is a batch of {len(prior)} embeddings for {len(rows)} rows of x: give one prior, "
                    "or one for each row."
                )
            each: Any = [self._posterior(rows[[i]], prior[i]) for i in range(len(rows))]
            if isinstance(each[0], MomentPosterior):
                return MomentPosterior.joined(each)
            weights = np.concatenate([mu.weights for mu in each])
            near = np.concatenate([mu.familiarity for mu in each])
            return Posterior(self.kernel_z_, each[0].points, weights, near, self.encoder_z_)
        return self._posterior(rows, prior)

    def _posterior(self, rows: Array, prior: Any) -> Posterior:
        points, weights = self._prior(prior)
        choice, pairs = self._for(points, weights)
        rule: Any = RULES[self.rule]
        if isinstance(pairs, StreamedPairs):
            return self._from_stream(pairs, rule, choice.reg, rows, prior, points, weights)
        cross = pairs.gram_x.cross(rows)
        if prior is None and self.rule == "importance":  # the ratio is one: nothing to estimate
            n = len(self.Z_)
            W = weighted_regression(pairs.gram_x, np.full(n, 1 / n), cross, choice.reg)
            W = complete_weights(W, 1.0) if self.center else W
        else:
            balance = self._balance(points, weights)
            kept = () if balance is None else (balance(self.Z_), balance.means)
            known = Prior.of(pairs.gram_z, points, weights, *kept)
            W = rule.posterior_weights(pairs, known, cross, choice.reg)
            W = pairs.completed(known, W, rule.ON_PRIOR) if self.center else W
        if prior is not None:
            self._look_at(points, weights)
        on = points if rule.ON_PRIOR else self.Z_
        return Posterior(
            self.kernel_z_, on, W, familiarity(self._nearness, pairs.gram_x, rows, cross), self.encoder_z_
        )

    def _look_at(self, points: Array, weights: Array) -> None:
        """Warn of a prior that lies beside the pairs, which know nothing of such z."""
        sizes = np.abs(np.asarray(weights))
        some = np.argsort(-sizes)[:PRIOR_POINTS]
        near: Nearness | None = getattr(self, "_nearness_z", None)
        if near is None:
            self._nearness_z = near = Nearness.of(self.Z_, self.encoder_z_.categories)
        beside = near.at(np.asarray(points)[some]) < UNLIKE
        share = float(sizes[some][beside].sum() / sizes[some].sum())
        if share > BESIDE:
            warnings.warn(
                f"{percent(share)} of the prior lies far from every z of the pairs, which say nothing of "
                "such z: the posterior rests on pairs unlike the prior. Learn from pairs with such z.",
                stacklevel=4,
            )

    def _from_stream(
        self,
        pairs: StreamedPairs,
        rule: Any,
        reg: float,
        rows: Array,
        prior: Any,
        points: Array,
        weights: Array,
    ) -> Any:
        psi = pairs.kernel_x.features(rows).T
        gram = seen_gram(pairs.kernel_x, self.X_)
        near = familiarity(self._nearness, gram, rows, gram.cross(rows))
        features = pairs.kernel_z.features(points)
        if rule.ON_PRIOR and prior is not None:
            W = prior_weights(pairs, rule, features, weights, psi, reg)
            W = complete_weights(W, 1.0, weights / weights.sum()) if self.center else W
            return Posterior(self.kernel_z_, points, W, near, self.encoder_z_)
        mean = None if prior is None else weights @ features
        if isinstance(prior, MomentEmbedding) and prior.kernel == pairs.kernel_z:
            mean = np.atleast_2d(prior.coefficients)[0]
        values, base = posterior_values(pairs, rule, mean, psi, reg)
        if self.center:
            values = values + (1 - values[:, :1]) * base
        d = self.Z_.shape[1]
        theta, moments = values[:, 1 + d + d * d :], split_moments(values, d)
        centre = pairs.functions.centre  # type: ignore[attr-defined]
        kept = self.Z_[:POINTS]
        kernel = pairs.functions.kernel  # type: ignore[attr-defined]
        return MomentPosterior(near, kernel, kept, theta, moments, centre, self.encoder_z_)

    @property
    def _features_z(self) -> Any:
        """The kernel of the posterior embedding, in features."""
        return self._representations()[1].fit(self.kernel_z_, self.Z_, as_generator(self.random_state))

    def _prior(self, prior: Any) -> tuple[Array, Array]:
        if prior is None:
            return self.Z_, np.full(len(self.Z_), 1 / len(self.Z_))
        return prior_points(self, prior, "prior")

    def _balance(self, points: Array, weights: Array) -> Balance | None:
        """What weights of the pairs keep of the prior, where the density ratio is chosen and not given."""
        if self.reg_prior is not None or self.rule != "importance":
            return None
        return Balance.of(self.Z_, points, weights, set(self.encoder_z_.categories))

    def _for(self, points: Array, weights: Array) -> tuple[BayesChoice, Pairs | StreamedPairs]:
        """What is in use with this prior, and the pairs in its Grams."""
        represent_x, represent_z = self._representations()
        tune_x = self.kernel_x is None and not isinstance(represent_x, (Features, Neural))
        tune_z = self.kernel_z is None and not isinstance(represent_z, Features)
        free = tune_x or tune_z or self.reg is None or self.reg_prior is None
        if self._last is not None:
            prior, choice, pairs = self._last
            if not free or prior is None or all(map(np.array_equal, prior, (points, weights))):
                return choice, pairs
        if self.streamed_ and self._sources is None:
            raise ValueError(NOT_AT_HAND)
        rng = as_generator(self.random_state)
        kernel_x, kernel_z = self.kernel_x_, self.kernel_z_
        some = sample_indices(len(self.X_))
        X, Z = self.X_[some], self.Z_[some]
        if isinstance(represent_x, Features):  # the features are the kernel
            kernel_x = represent_x.fit(kernel_x, X, rng)
        if isinstance(represent_z, Features):
            kernel_z = represent_z.fit(kernel_z, Z, rng)
        # The distribution of z in the pairs is, for choices, that in their sample.
        even = points is self.Z_ and np.ptp(weights) == 0
        asked = (Z, np.full(len(Z), 1 / len(Z))) if even else (points, weights)
        task = Task(
            RULES[self.rule],
            X,
            Z,
            *asked,
            kernel_x,
            kernel_z,
            tune_x,
            tune_z,
            self.reg,
            self.reg_prior,
            target_value(self),
            self.center,
            None if even else self._balance(points, weights),
        )
        if self.reg is not None and self.reg_prior is not None and not (tune_x or tune_z):
            choice = BayesChoice(kernel_x, kernel_z, self.reg, self.reg_prior, np.nan, np.empty((0, 3)))
        else:
            choice = choose_bayes(task, rng)
        used_x, used_z = represent_x.fit(choice.kernel_x, X, rng), represent_z.fit(choice.kernel_z, Z, rng)
        regs = (choice.reg_prior, target_value(self))
        if self.streamed_:
            functions = Functions(self._features_z, Z.mean(axis=0))
            known = {"balance": task.balance, "sample": Z}
            pairs = StreamedPairs(*self._sources, used_x, used_z, *regs, functions, **known)  # type: ignore[misc]
            last = (choice, used_x, used_z, functions.kernel, functions.centre, pairs.held)
            self.last_prior_ = LastPrior(points.copy(), weights.copy(), *last)
        else:
            grams = represent_x.gram_of(used_x, self.X_), represent_z.gram_of(used_z, self.Z_)
            pairs = Pairs(*grams, *regs)
        self._last = ((points.copy(), weights.copy()), choice, pairs)  # the caller's arrays may change
        return choice, pairs


def _extended(gram: Gram, points: Array, more: int) -> Gram:
    """The Gram of ``points``, of which the last ``more`` are new."""
    if not isinstance(gram, LowRankGram):
        return Exact().gram_of(gram.kernel, points)
    kernel: Any = gram.kernel
    return LowRankGram(np.concatenate([gram.Phi, kernel.features(points[-more:])]), kernel, points)


def prior_points(model: Any, prior: Any, name: str) -> tuple[Array, Array]:
    """Points and weights of a distribution over the z of a model: samples, a vector of them, an embedding."""
    if not isinstance(prior, Embedding) and not is_frame(prior):
        if hasattr(prior, "to_frame"):
            prior = prior.to_frame()
        elif model.flat_z_ and np.ndim(prior) == 1:
            prior = np.asarray(prior).reshape(-1, 1)
    return numerator_points(prior, model.encoder_z_, model.Z_.shape[1], name, "the Z seen in fit")


def target_value(model: Any) -> float:
    """t of the density ratio: rules other than importance take the papers' zero."""
    return 1.0 if model.target == "one" and model.rule == "importance" else 0.0


def check_rule(model: Any) -> None:
    """The arguments that the Bayes' rules share."""
    check_choice(model.rule, "rule", tuple(RULES))
    check_choice(model.target, "target", ("one", "zero"))
    for name in ("reg", "reg_prior"):
        if getattr(model, name) is not None:
            check_positive(getattr(model, name), name, "give a number > 0, or None to have it chosen", True)
    if model.rule == "deconditional":
        warnings.warn(
            'rule="deconditional" is Bayes\' rule only where x is a function of z; with noise in x its '
            'posterior leans too little on the prior. rule="importance" has no such limit.',
            stacklevel=3,
        )


def both_representations(representation: Any) -> tuple[Representation, Representation]:
    """The representations of x and of z."""
    if isinstance(representation, tuple) and len(representation) == 2:
        return as_representation(representation[0]), as_representation(representation[1])
    both = as_representation(representation)
    return both, Exact() if isinstance(both, (Features, Neural)) else both
