"""Bayes' rule from samples as an estimator."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from muhat._array import Array
from muhat._tables import is_frame
from muhat._validation import as_generator, check_choice, check_positive, check_same_rows
from muhat.embedding import Embedding
from muhat.gram import Exact, Features, Gram, Neural, as_representation
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.features import target_features
from muhat.learning.held_out import BayesChoice, Task, choose_bayes
from muhat.models.base import Estimator, encode_outputs
from muhat.models.density_ratio import numerator_points
from muhat.models.posterior import Posterior, familiarity
from muhat.operators.bayes import RULES, Pairs, Prior
from muhat.operators.bayes.importance import weighted_regression


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
        reg_prior: of the first: η of the density ratio ``(Ĉ_ZZ + ηI)⁻¹``. None for leave-one-out.
        target: what the density ratio shrinks to where data are few: ``"one"`` (the pairs as they are) or
            ``"zero"`` (as in the papers).
        representation: how Grams are held, exact by default; a pair is for x and for z, and ``mh.Features``
            or ``mh.Neural`` alone is for x.
        random_state: seed of the representation's and the search's random choices.

    Attributes:
        kernel_x_, kernel_z_: in use; with a prior, lengthscales that were left free are those of
            :meth:`choose`.
        X_, Z_: the pairs.

    Authors' code and papers scale differently. In terms of ours: X22 as printed has λ/n; X22 and FSG13 with
    sums have δ = δ_paper/n² and η as here.
    """

    _prepared: ClassVar[tuple[str, ...]] = ("_last",)

    def __init__(
        self,
        rule: str = "importance",
        kernel_x: Kernel | None = None,
        kernel_z: Kernel | None = None,
        reg: float | None = None,
        reg_prior: float | None = None,
        target: str = "one",
        representation: Representation | tuple[Representation, Representation] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.rule = rule
        self.kernel_x = kernel_x
        self.kernel_z = kernel_z
        self.reg = reg
        self.reg_prior = reg_prior
        self.target = target
        self.representation = representation
        self.random_state = random_state

    def fit(self, X: Any, Z: Any) -> KernelBayes:
        """Take in pairs: observations ``X`` (n, d) and latent variables ``Z`` (n, k) or (n,)."""
        check_rule(self)
        represent_x, represent_z = both_representations(self.representation)
        self.X_ = self._fit_rows(X)
        self.encoder_z_, self.Z_, self.flat_z_ = encode_outputs(Z, "Z")
        check_same_rows(self.X_, self.Z_, "X", "Z")
        self.kernel_x_ = resolve_kernel(self.kernel_x, self.X_, self.encoder_x_, "kernel_x")
        self.kernel_z_ = resolve_kernel(self.kernel_z, self.Z_, self.encoder_z_, "kernel_z")
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
        self._last: tuple[Any, BayesChoice, Pairs] | None = None

    def choose(self, prior: Any = None) -> BayesChoice:
        """The kernels and regularisers in use with this prior: those given, those chosen from the pairs."""
        check_is_fitted(self)
        return self._for(*self._prior(prior))[0]

    def posterior(self, x: Any, prior: Any = None) -> Posterior:
        """The posteriors of z given each row of ``x`` (q, d): a batch of q embeddings.

        Their ``unlike`` are the rows that lie far from every x of the pairs, of which these say nothing.

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
            each = [self._posterior(rows[[i]], prior[i]) for i in range(len(rows))]
            weights = np.concatenate([mu.weights for mu in each])
            near = np.concatenate([mu.familiarity for mu in each])
            return Posterior(self.kernel_z_, each[0].points, weights, near, self.encoder_z_)
        return self._posterior(rows, prior)

    def _posterior(self, rows: Array, prior: Any) -> Posterior:
        points, weights = self._prior(prior)
        choice, pairs = self._for(points, weights)
        rule: Any = RULES[self.rule]
        cross = pairs.gram_x.cross(rows)
        if prior is None and self.rule == "importance":  # the ratio is one: nothing to estimate
            n = len(self.Z_)
            W = weighted_regression(pairs.gram_x, np.full(n, 1 / n), cross, choice.reg)
        else:
            W = rule.posterior_weights(pairs, Prior.of(pairs.gram_z, points, weights), cross, choice.reg)
        on = points if rule.ON_PRIOR else self.Z_
        return Posterior(self.kernel_z_, on, W, familiarity(pairs.gram_x, rows, cross), self.encoder_z_)

    def _prior(self, prior: Any) -> tuple[Array, Array]:
        if prior is None:
            return self.Z_, np.full(len(self.Z_), 1 / len(self.Z_))
        return prior_points(self, prior, "prior")

    def _for(self, points: Array, weights: Array) -> tuple[BayesChoice, Pairs]:
        """What is in use with this prior, and the pairs in its Grams."""
        represent_x, represent_z = both_representations(self.representation)
        tune_x = self.kernel_x is None and not isinstance(represent_x, (Features, Neural))
        tune_z = self.kernel_z is None and not isinstance(represent_z, Features)
        free = tune_x or tune_z or self.reg is None or self.reg_prior is None
        if self._last is not None:
            (p, w), choice, pairs = self._last
            if not free or (np.array_equal(p, points) and np.array_equal(w, weights)):
                return choice, pairs
        rng = as_generator(self.random_state)
        kernel_x, kernel_z = self.kernel_x_, self.kernel_z_
        if isinstance(represent_x, Features):  # the features are the kernel
            kernel_x = represent_x.fit(kernel_x, self.X_, rng)
        if isinstance(represent_z, Features):
            kernel_z = represent_z.fit(kernel_z, self.Z_, rng)
        task = Task(
            RULES[self.rule],
            self.X_,
            self.Z_,
            points,
            weights,
            kernel_x,
            kernel_z,
            tune_x,
            tune_z,
            self.reg,
            self.reg_prior,
            target_value(self),
        )
        if self.reg is not None and self.reg_prior is not None and not (tune_x or tune_z):
            choice = BayesChoice(kernel_x, kernel_z, self.reg, self.reg_prior, np.nan, np.empty((0, 3)))
        else:
            choice = choose_bayes(task, rng)
        gram_x = _gram(represent_x, choice.kernel_x, self.X_, rng)
        gram_z = _gram(represent_z, choice.kernel_z, self.Z_, rng)
        pairs = Pairs(gram_x, gram_z, choice.reg_prior, target_value(self))
        self._last = ((points.copy(), weights.copy()), choice, pairs)  # the caller's arrays may change
        return choice, pairs


def _gram(representation: Representation, kernel: Kernel, X: Array, rng: np.random.Generator) -> Gram:
    return representation.gram_of(representation.fit(kernel, X, rng), X)


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
