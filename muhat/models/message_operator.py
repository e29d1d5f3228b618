"""A message operator: learns to answer for an expensive oracle, and knows when to ask it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import reduce
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from muhat._linalg import Cholesky
from muhat._validation import as_rows, check_count, check_positive
from muhat.gram.representation import Fourier
from muhat.kernels.base import Kernel
from muhat.kernels.on_distributions import OnDistributions, has_open, resolve_outer
from muhat.kernels.stationary import Gaussian, Matern
from muhat.learning.bags import BagsChoice, choose_bags, embedded, features_of
from muhat.messages.families import Message
from muhat.messages.tuples import Tuples
from muhat.models.base import Estimator
from muhat.models.distribution_base import new_seed
from muhat.operators.bags import TwoStage, Weights, two_stage
from muhat.operators.messages import to_ask

# Messages worked on at a time, and messages that the kernel is learned from.
BATCH, SEARCH = 2048, 500


class Sent(NamedTuple):
    """What an operator answers.

    Attributes:
        belief: the answers: messages of the family of the variable ``to``, or rows (n, k).
        std: how unsure the operator was before it asked, (n,): the largest standard deviation of a number
            of the answer; infinite in warm-up.
        asked: which answers are the oracle's, (n,).
        failed: which should have been but the oracle failed: the operator's own, or while it has learned
            nothing the incoming message itself, (n,).
    """

    belief: Any
    std: np.ndarray
    asked: np.ndarray
    failed: np.ndarray


class Examples(NamedTuple):
    """Messages with answers.

    Attributes:
        tuples: of incoming messages.
        targets: the numbers that are learned, (n, k).
        errors: their standard errors where the oracle gives them, NaN elsewhere, (n, k).
    """

    tuples: Tuples
    targets: np.ndarray
    errors: np.ndarray

    def select(self, index: Any) -> Examples:
        """Some of them."""
        return Examples(self.tuples.select(index), self.targets[index], self.errors[index])

    def joined(self, other: Examples) -> Examples:
        """These and then the others."""
        columns = zip(self[1:], other[1:], strict=True)
        return Examples(self.tuples.joined(other.tuples), *(np.vstack(pair) for pair in columns))


class MessageOperator(Estimator):
    """Incoming messages → outgoing message, learned just in time from an oracle [JIT15].

    The tuple of incoming messages becomes two stages of random Fourier features, above which each number of
    the answer has a Bayesian linear regression with rank-one updates. Where that is unsure the oracle is
    asked, and its answer learned from; elsewhere the operator answers itself, in its place.

    The answer is the *belief* about the variable ``to``, a message of its family (belief over incoming
    message is the outgoing message of expectation propagation, which may be improper; the belief is not).
    What is learned are two numbers that say how it differs from the incoming message of that variable, in
    units of that message: for Gaussians ``(m' − m)/√v`` and ``log v'/v``.

    Args:
        oracle: ``oracle(messages)`` takes a tuple with a batch of messages for every variable and gives the
            beliefs, or rows of numbers where ``to`` is None; or a pair of these and the standard errors of
            the numbers that are learned, (n, k), if it is known how noisy an answer is. What it raises is
            kept in ``log_`` and the operator answers itself. It is not saved: set ``operator.oracle`` again
            after loading.
        to: which of the variables the answer is about; None for rows of numbers without a family.
        max_std: the oracle is asked where a number of the answer has a larger standard deviation, without
            the noise of the oracle, which no answer can take away. [JIT15] asks above a log variance of −8.5
            with noise of variance 1e-4 in it, which leaves the default. An error that all factors share
            moves a posterior of d parameters from n factors by about n/d times as much.
        warm_up: so many answers are asked for before the first are given.
        relearn: whether the kernel is learned again when the answers have doubled; they are then kept.
        kernel: on embeddings; None for a Gaussian. A lengthscale that is a number is kept.
        inner: on the variables, side by side; None for a Matérn 3/2 on columns of unit variance, since
            messages are of many widths.
        representation: Fourier features of the variables and of embeddings.
        noise: standard deviation of the oracle where it gives none; None to learn it.
        random_state: seed of the features.

    Attributes:
        kernel_: the kernel on tuples of messages in use.
        features_: of tuples of messages.
        weights_: posterior of their coefficients, one column a number.
        noise_: standard deviation of the oracle, (k,).
        sent_: messages answered.
        oracle_calls_: messages asked about.
        oracle_seconds_: time that took.
        log_: what the oracle raised, in words, with the number of the message.
    """

    kernel_: OnDistributions
    features_: TwoStage
    weights_: Weights
    selection_: BagsChoice
    _warned = False

    def __init__(
        self,
        oracle: Callable[[tuple[Any, ...]], Any] | None = None,
        to: int | None = 0,
        max_std: float = 0.01,
        warm_up: int = 300,
        relearn: bool = True,
        kernel: Kernel | None = None,
        inner: Kernel | None = None,
        representation: tuple[Fourier, Fourier] = (Fourier(300), Fourier(500)),
        noise: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.oracle = oracle
        self.to = to
        self.max_std = max_std
        self.warm_up = warm_up
        self.relearn = relearn
        self.kernel = kernel
        self.inner = inner
        self.representation = representation
        self.noise = noise
        self.random_state = random_state

    @property
    def oracle(self) -> Callable[[tuple[Any, ...]], Any] | None:
        """Who is asked. Files do not hold it (its name begins with an underscore): they hold no functions."""
        return getattr(self, "_oracle", None)

    @oracle.setter
    def oracle(self, value: Callable[[tuple[Any, ...]], Any] | None) -> None:
        self._oracle, self._warned = value, False

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    # -- learning ------------------------------------------------------------------------------

    def fit(self, messages: Any, outputs: Any, std: Any = None) -> MessageOperator:
        """Learn from messages and the beliefs (or rows of numbers) that belong to them; forget the rest.

        ``std`` are the standard errors of the numbers that are learned, (n, k), if they are known.
        """
        self._check()
        return self._first(self._examples(Tuples(messages), outputs, std))

    def _first(self, examples: Examples) -> MessageOperator:
        """Begin with these, which may be too few; what waits from a warm-up is forgotten."""
        count = len(examples.targets)
        if count < 3:
            raise ValueError(f"There are {count} messages, but at least 3 are needed: pass more.")
        if not _vary(examples.targets).any():
            raise ValueError("The outputs do not differ: there is nothing to learn. Pass other messages.")
        self.__dict__.pop("_warm_up", None)
        return self._begin(examples)

    def _begin(self, examples: Examples) -> MessageOperator:
        self.seed_ = new_seed(self.random_state)
        self.kinds_, self.n_features_in_ = examples.tuples.kinds, examples.tuples.dimension
        self._count()
        self._learn(examples)
        return self

    def partial_fit(self, messages: Any, outputs: Any, std: Any = None) -> MessageOperator:
        """Learn from more messages: a rank-one update each, at a cost free of the past.

        With ``relearn`` the kernel is learned anew when the messages have doubled. A warm-up ends with it:
        the first fit is from these messages and the answers so far.
        """
        waiting = self._waiting()
        if not hasattr(self, "weights_"):
            if waiting is None:
                return self.fit(messages, outputs, std)
            self._check()
            tuples = Tuples(messages)
            tuples.check_same(waiting.tuples.kinds)
            return self._first(waiting.joined(self._examples(tuples, outputs, std)))
        return self._add(self._examples(self._known(messages), outputs, std))

    def _check(self) -> None:
        check_positive(self.max_std, "max_std", "give a standard deviation, e.g. 0.01", scalar=True)
        check_count(self.warm_up, "warm_up", 3)
        if self.noise is not None:
            check_positive(self.noise, "noise", "give a standard deviation, or None to learn it", scalar=True)
        pair = self.representation
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(p, Fourier) for p in pair)):
            raise TypeError(f"representation must be (mh.Fourier(d), mh.Fourier(d')), got {pair!r}.")

    def _count(self) -> None:
        """Counters, which a new fit lets run on."""
        if not hasattr(self, "sent_"):
            self.sent_, self.oracle_calls_, self.oracle_seconds_ = 0, 0, 0.0
            self.log_: list[str] = []

    def _learn(self, examples: Examples) -> None:
        """Kernel, noise and features, and then the weights."""
        tuples, targets, _ = examples
        vary = _vary(targets)
        self.offset_, self.scale_ = targets.mean(axis=0), np.where(vary, targets.std(axis=0), 0.0)
        # Tuples know their own mean features: they stand in for bags.
        sample: Any = tuples
        looked = (targets - self.offset_)[:, vary] / self.scale_[vary]
        if len(tuples) > SEARCH:
            index = np.random.default_rng([self.seed_, 0]).choice(len(tuples), SEARCH, replace=False)
            sample, looked = tuples.select(np.sort(index)), looked[np.sort(index)]
        first, second = self.representation
        given = Matern(1.5, "scaled") if self.inner is None else self.inner
        outer = Gaussian() if self.kernel is None else self.kernel
        inner = given.resolve(sample.pool())
        start = resolve_outer(outer, embedded(inner, sample, first, self.seed_)) if has_open(outer) else outer
        self.selection_ = choose_bags(
            sample,
            looked,
            OnDistributions(start, inner),
            any(isinstance(leaf, str) for leaf in given.leaves()),
            has_open(outer),
            first,
            self.seed_,
        )
        self.kernel_ = self.selection_.kernel
        phi = features_of(self.kernel_.inner, sample, first, self.seed_)
        rng = np.random.default_rng([self.seed_, 1])
        self.features_ = two_stage(phi, self.kernel_.outer, second.p, rng)
        self.unit_noise_ = (
            self.selection_.noise
            if self.noise is None
            else float(((self.noise / self.scale_[vary]) ** 2).mean())
        )
        self.noise_ = np.sqrt(self.unit_noise_) * self.scale_
        p = self.features_.size
        self.weights_ = Weights(np.eye(p), np.zeros((p, targets.shape[1])), np.eye(p))
        self.examples_: tuple[Any, ...] | None = None
        self.learned_from_ = len(tuples)
        self._add(examples)

    def _add(self, examples: Examples) -> MessageOperator:
        if self.relearn:
            # A file gives a plain tuple back.
            kept = examples if self.examples_ is None else Examples(*self.examples_).joined(examples)
            if len(kept.targets) >= 2 * self.learned_from_:
                self._learn(kept)
                return self
            self.examples_ = kept
        scale = np.where(self.scale_ > 0, self.scale_, 1.0)
        for rows in _batches(len(examples.targets)):
            part = examples.select(rows)
            Z = (part.targets - self.offset_) / scale
            self.weights_ = self.weights_.updated(self._features(part.tuples), Z, self._noises(part.errors))
        return self

    def _noises(self, errors: np.ndarray) -> np.ndarray:
        """Variance of each answer, of all its numbers alike, in units of the targets, (n,)."""
        vary = self.scale_ > 0
        given = ((errors[:, vary] / self.scale_[vary]) ** 2).mean(axis=1)
        # Not below what the precision of the coefficients bears.
        given = np.maximum(given, 1e-7 * self.selection_.amplitude)
        return np.where(np.isnan(given), self.unit_noise_, given)

    def _features(self, tuples: Tuples) -> np.ndarray:
        return self.selection_.amplitude**0.5 * self.features_.of(tuples)  # type: ignore[arg-type]

    # -- what is learned of an answer ------------------------------------------------------------

    def _base(self, tuples: Tuples) -> Message:
        """The incoming message of the variable that the answer is about."""
        assert self.to is not None
        if not 0 <= self.to < len(tuples.parts):
            raise ValueError(
                f"to must be the number of a variable, 0 to {len(tuples.parts) - 1}, got {self.to}."
            )
        base = tuples.parts[self.to]
        if not isinstance(base, Message):
            raise TypeError(
                f"The variable to={self.to} sends {type(base).__name__}, which have no family: use to=None "
                "with outputs that are rows of numbers."
            )
        return base

    def _examples(self, tuples: Tuples, outputs: Any, std: Any = None) -> Examples:
        """Outputs as rows of numbers that are free of bounds."""
        if self.to is None:
            outputs = np.asarray(outputs, dtype=np.float64)
            outputs = as_rows(outputs[:, None] if outputs.ndim == 1 else outputs, "outputs")
        elif type(outputs) is not type(self._base(tuples)):
            raise TypeError(
                f"outputs must be {type(self._base(tuples)).__name__} messages, which the variable "
                f"to={self.to} sends, got {type(outputs).__name__}; use to=None for rows of numbers."
            )
        if len(outputs) != len(tuples):
            raise ValueError(
                f"outputs has {len(outputs)} rows for {len(tuples)} messages: pass one for each."
            )
        targets: Any = outputs if self.to is None else outputs.relative_to(self._base(tuples))
        if std is None:
            return Examples(tuples, targets, np.full(targets.shape, np.nan))
        errors = np.asarray(std, dtype=np.float64)
        if errors.shape != targets.shape or not (np.isfinite(errors) & (errors >= 0)).all():
            raise ValueError(
                f"std must be standard errors of shape {targets.shape}, finite and not negative, got shape "
                f"{errors.shape}: pass one for every number that is learned."
            )
        return Examples(tuples, targets, errors)

    def _decode(self, tuples: Tuples, steps: np.ndarray) -> Any:
        if self.to is None:
            return steps
        base = self._base(tuples)
        return type(base).moved(base, steps)

    # -- answers -------------------------------------------------------------------------------

    def predict(self, messages: Any, return_std: bool = False) -> Any:
        """The operator's own answers, and with ``return_std`` standard deviations of their numbers, (n, k).

        These are what is not known of the map, without the noise of the oracle; the numbers of a belief are
        those that are learned (see above). Nobody is asked.
        """
        tuples = self._known(messages)
        steps, stds = self._own(tuples)
        belief = self._decode(tuples, steps)
        return (belief, stds) if return_std else belief

    def _own(self, tuples: Tuples) -> tuple[np.ndarray, np.ndarray]:
        means, stds, coef = [], [], self.weights_.mean
        for rows in _batches(len(tuples)):
            Psi = self._features(tuples.select(rows))
            means.append(self.offset_ + self.scale_ * (Psi @ coef))
            stds.append(np.sqrt(self.weights_.variance(Psi))[:, None] * self.scale_)
        return np.vstack(means), np.vstack(stds)

    def __call__(self, messages: Any) -> Any:
        """The answers alone: the operator in the oracle's place."""
        return self.send(messages).belief

    def send(self, messages: Any) -> Sent:
        """Answers to messages, asking and learning where the operator is unsure."""
        if not hasattr(self, "weights_"):
            self._check()
            self._count()
        tuples = Tuples(messages)
        if self.to is not None:
            self._base(tuples)  # what is wrong with it is no failure of the oracle
        done: list[tuple[np.ndarray, ...]] = []
        start = 0
        while start < len(tuples):
            if hasattr(self, "weights_"):
                part = tuples.select(np.arange(start, min(start + BATCH, len(tuples))))
                done.append(self._send(self._known(part)))
            else:
                waiting = self._waiting()
                # None are left, and all is still asked, if all answers so far are the same.
                left = max(self.warm_up - (0 if waiting is None else len(waiting.targets)), 0)
                part = tuples.select(np.arange(start, min(start + (left or BATCH), len(tuples))))
                done.append(self._warm(part))
            start += len(part)
            self.sent_ += len(part)
        width = max(part[0].shape[1] for part in done)  # of failures at the very start it is not known
        done = [(np.broadcast_to(s, (len(s), width)), *rest) for s, *rest in done]
        steps, std, asked, failed = (np.concatenate(column) for column in zip(*done, strict=True))
        return Sent(self._decode(tuples, steps), std, asked, failed)

    def _waiting(self) -> Examples | None:
        """Answers of the warm-up."""
        return getattr(self, "_warm_up", None)

    def _warm(self, tuples: Tuples) -> tuple[np.ndarray, ...]:
        waiting = self._waiting()
        if waiting is not None:
            tuples.check_same(waiting.tuples.kinds)
        new, good = self._ask(tuples, np.arange(len(tuples)))
        if new is not None:
            waiting = self._warm_up = new if waiting is None else waiting.joined(new)
        # Steps of 0 are the incoming message: what a factor that says nothing would send.
        width = (1 if self.to is None else 2) if waiting is None else waiting.targets.shape[1]
        answers = np.full((len(tuples), width), np.nan if self.to is None else 0.0)
        if new is not None:
            answers[good] = new.targets
        if waiting is not None and len(waiting.targets) >= self.warm_up and _vary(waiting.targets).any():
            self._begin(waiting)
            del self._warm_up
        return answers, np.full(len(tuples), np.inf), good, ~good

    def _send(self, tuples: Tuples) -> tuple[np.ndarray, ...]:
        Psi = self._features(tuples)
        half = Cholesky(self.weights_.lower, 0.0).half_solve(Psi.T)
        largest = float(self.scale_.max())
        std = largest * np.sqrt((half**2).sum(axis=0))
        index = to_ask(half, self.unit_noise_, (self.max_std / largest) ** 2)
        asked, failed = np.zeros(len(tuples), dtype=bool), np.zeros(len(tuples), dtype=bool)
        if not len(index):
            return self.offset_ + self.scale_ * (Psi @ self.weights_.mean), std, asked, failed
        new, good = self._ask(tuples.select(index), index)
        asked[index], failed[index] = good, ~good
        if new is None:
            return self._own(tuples)[0], std, asked, failed
        self._add(new)
        steps = self._own(tuples)[0]
        steps[index[good]] = new.targets
        return steps, std, asked, failed

    def _ask(self, tuples: Tuples, index: np.ndarray) -> tuple[Examples | None, np.ndarray]:
        """The oracle's good answers, and which these are, (n,); ``index`` counts from the last one sent."""
        if self.oracle is None:
            raise ValueError(
                "The operator is unsure of a message and has no oracle to ask: files do not hold it. Set "
                "operator.oracle = ..., or use predict, which asks nobody."
            )
        start = perf_counter()
        good = np.ones(len(tuples), dtype=bool)
        numbers = self.sent_ + index
        out = self._try(tuples, numbers)
        if out is None:  # one that fails must not cost the others their answers
            alone = range(len(tuples) if len(tuples) > 1 else 0)
            rows = [self._try(tuples.select([i]), numbers[[i]]) for i in alone] or [None]
            good = np.array([row is not None for row in rows])
            found = [row for row in rows if row is not None]
            out = reduce(Examples.joined, found) if found else None
        self.oracle_seconds_ += perf_counter() - start
        self.oracle_calls_ += len(tuples)
        if out is None and not self._warned:
            self._warned = True
            warnings.warn(
                f"The oracle failed for all {len(tuples)} messages that it was asked about, the last with "
                f"{self.log_[-1]!r}: these answers are not its own. See failed of send, and log_.",
                RuntimeWarning,
                stacklevel=2,
            )
        return out, good

    def _try(self, tuples: Tuples, numbers: np.ndarray) -> Examples | None:
        """The oracle's answers, or None if it fails; that of a single message is logged by its number."""
        try:
            assert self.oracle is not None
            answer = self.oracle(tuples.parts)
            belief, std = answer if isinstance(answer, tuple) else (answer, None)
            out = self._examples(tuples, belief, std)
            if not np.isfinite(out.targets).all():
                raise ArithmeticError("the answer is not finite")
        except Exception as error:  # whatever an oracle raises must not stop the inference
            if len(numbers) == 1:
                self.log_.append(f"message {numbers[0]}: {type(error).__name__}: {error}")
            return None
        return out

    def _known(self, messages: Any) -> Tuples:
        check_is_fitted(self)
        tuples = Tuples(messages)
        tuples.check_same(self.kinds_)
        return tuples


def _vary(targets: np.ndarray) -> np.ndarray:
    """Which numbers of the answers are not always the same."""
    return targets.std(axis=0) > 1e-12 * (1 + np.abs(targets).max(axis=0))


def _batches(n: int) -> list[np.ndarray]:
    return [np.arange(start, min(start + BATCH, n)) for start in range(0, n, BATCH)]


__all__ = ["MessageOperator", "Sent"]
