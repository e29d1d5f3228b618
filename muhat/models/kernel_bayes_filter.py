"""The kernel Bayes filter as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from muhat._array import Array
from muhat._tables import is_frame, missing_rows
from muhat._validation import as_generator, check_choice, check_count, check_positive
from muhat.embedding import Embedding
from muhat.gram import Features, Neural
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.features import target_features
from muhat.learning.filtering import (
    FilterChoice,
    FilterTask,
    choose_backward,
    choose_filter,
    column,
    machines,
)
from muhat.models.base import Estimator, encode_outputs
from muhat.models.kernel_bayes import both_representations, check_rule, prior_points, target_value
from muhat.models.posterior import Posterior, familiarity
from muhat.operators.bayes import RULES, Prior
from muhat.operators.filtering import LEAST_MASS, Machine, State, Steps, smooth_back

# Observations whose k(X, x) are made at a time.
BLOCK = 256


class Filtered(Posterior):
    """The states of a sequence, one embedding a step, and how the filter got there.

    ``effective_size()`` says how many training points carry each state, and ``unlike`` at which steps the
    observation lies far from anything seen in training.

    Attributes:
        mass: what each observation left of the prediction before it was normalised, (T,): near one where both
            agree, near zero where the observation contradicts it.
        familiarity: the largest kernel correlation of each observation with one seen in training, (T,): one
            for a copy, zero for an observation unlike all of them; NaN where it is missing.
        observed: whether each observation was used, (T,); where not, the state is the prediction.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        weights: Array,
        mass: Array,
        familiarity: Array,
        observed: Array,
        encoder: Any,
    ) -> None:
        super().__init__(kernel, points, weights, familiarity, encoder)
        self.mass, self.observed = mass, observed

    def summary(self) -> str:
        """One sentence on how the filter fared."""
        T, missed = len(self), int((~self.observed).sum())
        size = float(np.median(np.asarray(self.effective_size())))
        parts = [f"{T} steps, carried by {size:.0f} training points (median)"]
        if missed:
            parts.append(f"{missed} predicted without an observation")
        if k := len(self.unlike):
            parts.append(f"{k} observation{'s' if k > 1 else ''} unlike anything in training")
        return "; ".join(parts) + "."


class KernelBayesFilter(Estimator):
    """Track a hidden state z from observations x, learned from sequences where both were seen [X22, Alg. 2].

    Nothing is assumed of the dynamics p(z_{t+1} | z_t) or of the observations p(x_t | z_t) but that they stay
    the same. Each step is a prediction (the kernel sum rule) and a Bayes' rule.

    Args:
        rule: ``"importance"`` [X22], ``"kbr_b"`` [FSG13], ``"kbr_a"`` [SFG13] or ``"deconditional"``.
        kernel_x, kernel_z: on observations and states. None for the default kernels with lengthscales chosen.
        reg: λ, δ or ε of the rule, as in :class:`muhat.KernelBayes`.
        reg_prior: η of its density ratio.
        reg_transition: λ' of the prediction, ``(Ĉ_ZZ + λ'I)⁻¹``.
        target: what the density ratio shrinks to, ``"one"`` or ``"zero"``.
        normalize: whether weights are scaled to sum to one at each step (an observation that leaves hardly
            any mass is then passed over); the papers do not.
        representation: how Grams are held; a pair is for x and for z, and ``mh.Features`` or ``mh.Neural``
            alone is for x.
        random_state: seed of the representation's and the search's random choices.

    What is None is chosen by the error on held-out stretches of the training sequences. With the importance
    rule and ``kernel_x`` and ``reg`` both None, two regressions are chosen: a smooth one for the posterior
    that is reported, and a sharper one for that which is carried to the next step, whose shape counts.

    Attributes:
        choice_: kernels and regularisers in use, with the held-out error and all that was tried.
        X_, Z_: the training points, one sequence after the other.
        lengths_: of the training sequences.
        state_: weights (n,) of the last state, from which :meth:`update` and :meth:`forecast` go on; None
            before the first.
        reg_backward_: λ of the smoother's way back; None until it is chosen in the first :meth:`smooth`.
    """

    _prepared: ClassVar[tuple[str, ...]] = ("_machine", "_report", "_backward", "_state")

    def __init__(
        self,
        rule: str = "importance",
        kernel_x: Kernel | None = None,
        kernel_z: Kernel | None = None,
        reg: float | None = None,
        reg_prior: float | None = None,
        reg_transition: float | None = None,
        target: str = "one",
        normalize: bool = True,
        representation: Representation | tuple[Representation, Representation] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.rule = rule
        self.kernel_x = kernel_x
        self.kernel_z = kernel_z
        self.reg = reg
        self.reg_prior = reg_prior
        self.reg_transition = reg_transition
        self.target = target
        self.normalize = normalize
        self.representation = representation
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, Z: Any) -> KernelBayesFilter:
        """Learn from one sequence, ``X`` (T, d) and ``Z`` (T, k), or from lists of sequences."""
        check_rule(self)
        if self.reg_transition is not None:
            check_positive(self.reg_transition, "reg_transition", "give λ' > 0, or None", scalar=True)
        represent_x, represent_z = both_representations(self.representation)
        rng = as_generator(self.random_state)
        self.lengths_, A, B = self._fit_sequences(X, Z)
        self.X_, self.Z_ = A, B
        kernel_x = resolve_kernel(self.kernel_x, A, self.encoder_x_, "kernel_x")
        kernel_z = resolve_kernel(self.kernel_z, B, self.encoder_z_, "kernel_z")
        tune_x, tune_z = self.kernel_x is None, self.kernel_z is None
        if isinstance(represent_x, Neural):
            targets = target_features(kernel_z, B, rng, not self.encoder_z_.categories)
            kernel_x, tune_x = represent_x.train(A, targets, random_state=rng), False
        elif isinstance(represent_x, Features):
            kernel_x, tune_x = represent_x.fit(kernel_x, A, rng), False
        if isinstance(represent_z, Features):
            kernel_z, tune_z = represent_z.fit(kernel_z, B, rng), False
        self.choice_ = choice = choose_filter(self._task(kernel_x, kernel_z, tune_x, tune_z), rng)
        self.kernel_x_ = represent_x.fit(choice.kernel_x, A, rng)
        self.kernel_z_ = represent_z.fit(choice.kernel_z, B, rng)
        carried = choice.kernel_carried
        self.kernel_carried_ = None if carried is None else represent_x.fit(carried, A, rng)
        self.state_, self.reg_backward_ = None, None
        self._prepare()
        return self

    def _task(self, kernel_x: Kernel, kernel_z: Kernel, tune_x: bool, tune_z: bool) -> FilterTask:
        ends = np.cumsum(self.lengths_)[:-1]
        return FilterTask(
            RULES[self.rule],
            np.split(self.X_, ends),
            np.split(self.Z_, ends),
            kernel_x,
            kernel_z,
            tune_x,
            tune_z,
            self.reg,
            self.reg_prior,
            self.reg_transition,
            target_value(self),
            self.normalize,
        )

    def _fit_sequences(self, X: Any, Z: Any) -> tuple[list[int], Array, Array]:
        listed = _is_list(X)
        xs = _sequences(X, listed, "X")
        zs = _sequences(Z, _is_list(Z) or (listed and isinstance(Z, (list, tuple))), "Z")
        if len(xs) != len(zs):
            raise ValueError(f"X has {len(xs)} sequences but Z has {len(zs)}: they come in pairs.")
        for i, (x, z) in enumerate(zip(xs, zs, strict=True)):
            where = f" of sequence {i}" if len(xs) > 1 else ""
            if len(x) != len(z):
                raise ValueError(f"X{where} has {len(x)} rows but Z has {len(z)}: rows are moments in time.")
            if len(x) < 2:
                raise ValueError(
                    f"X{where} has {len(x)} row{'s' if len(x) != 1 else ''}: a sequence needs at least 2 to "
                    "show a step; leave shorter ones out."
                )
        A = self._fit_rows(_join(xs))
        self.encoder_z_, B, self.flat_z_ = encode_outputs(_join(zs), "Z")
        return [len(x) for x in xs], A, B

    def _prepare(self) -> None:
        represent_x, represent_z = both_representations(self.representation)
        carried = self.kernel_carried_
        grams = (
            represent_x.gram_of(self.kernel_x_, self.X_),
            represent_z.gram_of(self.kernel_z_, self.Z_),
            None if carried is None else represent_x.gram_of(carried, self.X_),
        )
        task = self._task(self.choice_.kernel_x, self.choice_.kernel_z, False, False)
        # Which carries the state forward, and which reports it.
        self._machine, self._report = machines(task, self.choice_, Steps.of(self.lengths_), grams)
        self._backward: Machine | None = None
        self._state: State | None = None if self.state_ is None else self._machine.at(self.state_)

    # -- filtering -----------------------------------------------------------------------------

    def filter(
        self, X: Any, initial: Any = None, missing: str = "raise", restarts: Sequence[int] = ()
    ) -> Any:
        """The distribution of the state at each step given the observations up to it.

        Args:
            X: observations (T, d), or a list of sequences.
            initial: the distribution of the first state, before its observation: samples or an embedding.
                None for uniform over the training states.
            missing: what a row with NaN means: ``"raise"`` an error, or ``"predict"`` the state without it.
            restarts: rows at which a new sequence begins from ``initial``.

        Returns:
            A batch embedding with one row of weights a step (:class:`Filtered`), or a list of them. The last
            state is where :meth:`update` and :meth:`forecast` go on from.
        """
        check_is_fitted(self)
        check_choice(missing, "missing", ("raise", "predict"))
        if _is_list(X):
            return [self.filter(x, initial, missing, restarts) for x in X]
        rows = self._observations(X, missing)
        carried, states, mass, near, observed = self._track(rows, self._initial(initial), restarts)
        self._keep(carried[-1])
        W = self._weights(states)
        return Filtered(self.kernel_z_, self.Z_, W, mass, near, observed, self.encoder_z_)

    def update(self, x: Any, initial: Any = None) -> Embedding:
        """One step online: the state given one more observation (d,); None where it is missing.

        The first call starts from ``initial``; later ones go on from the last state, also from that of
        :meth:`filter`. :meth:`reset` starts anew.
        """
        check_is_fitted(self)
        row = np.full((1, self.n_features_in_), np.nan)
        if x is not None:
            if not is_frame(x):
                x = np.asarray(x)
                x = x.reshape(1, -1) if x.ndim < 2 else x
            row = self._observations(x, "raise", "x", "pass None for an observation that is missing")
            if len(row) != 1:
                raise ValueError(f"x has {len(row)} rows, but update takes one: use filter(X) for more.")
        start = self._initial(initial) if self._state is None else self._machine.predict(self._state)
        carried, states, *_ = self._track(row, start, ())
        self._keep(carried[0])
        return self._embedding(states)[0]

    def reset(self) -> KernelBayesFilter:
        """Forget the last state, so that :meth:`update` starts anew."""
        check_is_fitted(self)
        self._state = self.state_ = None
        return self

    def forecast(self, h: int = 1) -> Embedding:
        """The state 1, …, h steps after the last one, without observations: a batch of h."""
        check_is_fitted(self)
        h = check_count(h, "h")
        if self._state is None:
            raise ValueError("There is no state to go on from: call filter(X) or update(x) first.")
        states, state = [], self._state
        for _ in range(h):
            state = self._machine.predict(state)
            states.append(state)
        return self._embedding(states)

    def smooth(self, X: Any, initial: Any = None, missing: str = "raise") -> Any:
        """The distribution of the state at each step given the whole sequence, past and future [NI16].

        Args and result as in :meth:`filter`.
        """
        check_is_fitted(self)
        check_choice(missing, "missing", ("raise", "predict"))
        if _is_list(X):
            return [self.smooth(x, initial, missing) for x in X]
        rows = self._observations(X, missing)
        states, reported, mass, near, observed = self._track(rows, self._initial(initial), ())
        self._keep(states[-1])
        if self.reg_backward_ is None:
            task = self._task(self.choice_.kernel_x, self.choice_.kernel_z, False, False)
            self.reg_backward_ = choose_backward(task, self.choice_, as_generator(self.random_state))
        if self._backward is None or self._backward.reg != self.reg_backward_:
            self._backward = self._machine.backward(self.reg_backward_)
        # Nothing comes after the last state: there the filter's own answer stands.
        W = self._weights([*smooth_back(self._machine, self._backward, states)[:-1], reported[-1]])
        return Filtered(self.kernel_z_, self.Z_, W, mass, near, observed, self.encoder_z_)

    def _keep(self, state: State) -> None:
        """Remember the last state, also in copies and files."""
        self._state, self.state_ = state, self._machine.weights(state)

    def _track(
        self, rows: Array, state: State, restarts: Sequence[int]
    ) -> tuple[list[State], list[State], Array, Array, Array]:
        """States as carried and as reported, their masses, familiarities, which observations were used."""
        T, first = len(rows), state
        again = {int(r) for r in restarts}
        if not all(0 <= r < T for r in again):
            raise ValueError(f"restarts must be rows of X, from 0 to {T - 1}, got {list(restarts)}.")
        carry, report = self._machine, self._report
        missing = np.isnan(rows).any(axis=1)
        carried: list[State] = []
        reported: list[State] = []
        mass, near, observed = np.full(T, np.nan), np.full(T, np.nan), np.zeros(T, dtype=bool)
        told: Any = None  # k(X, x) of a block of observations, as reported and as carried
        moved: Any = None
        for t in range(T):
            if t % BLOCK == 0:
                gone = missing[t : t + BLOCK]
                block = np.where(gone[:, None], self.X_[0], rows[t : t + BLOCK])
                told = report.pairs.gram_x.cross(block)
                moved = told if carry is report else carry.pairs.gram_x.cross(block)
                seen = familiarity(carry.pairs.gram_x, block, moved)
                near[t : t + BLOCK] = np.where(gone, np.nan, seen)
            if t:
                state = first if t in again else carry.predict(state)
            answer = state
            if not missing[t]:
                step = report.condition(state, column(told, t % BLOCK))
                answer, mass[t], observed[t] = step.state, step.mass, step.met
                state = answer if carry is report else carry.condition(state, column(moved, t % BLOCK)).state
            carried.append(state)
            reported.append(answer)
        return carried, reported, mass, near, observed

    def _initial(self, initial: Any) -> State:
        n = len(self.Z_)
        if initial is None:
            return self._machine.at(np.full(n, 1 / n))
        points, weights = prior_points(self, initial, "initial")
        if points is self.Z_:
            return self._machine.at(weights)
        # The nearest embedding on the training points: (G + nηI)⁻¹ μ(Z).
        prior = Prior.of(self._machine.gram_z, points, weights)
        return self._machine.at(self._machine.pairs.ratio(prior) / n)

    def _observations(
        self,
        X: Any,
        missing: str,
        name: str = "X",
        remedy: str = 'pass missing="predict" to have the states there predicted without an observation',
    ) -> Array:
        """Rows (T, d), those with a missing cell as NaN if that is allowed."""
        gone = missing_rows(X)
        if not gone.any():
            return self._rows(X, name)
        if missing == "raise":
            raise ValueError(
                f"{name} contains NaN (missing cells) in {int(gone.sum())} of {len(gone)} rows, first in row "
                f"{int(gone.argmax())}: {remedy}, or impute them."
            )
        table: Any = X if is_frame(X) else np.asarray(X)
        if table.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {table.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        out = np.full((len(gone), self.n_features_in_), np.nan)
        if not gone.all():
            out[~gone] = self._rows(table.filter(~gone) if hasattr(table, "vstack") else table[~gone], name)
        return out

    def _weights(self, states: list[State]) -> Array:
        """Weights of the states (T, n); those that are predictions have yet to be normalised."""
        W = np.stack([self._machine.weights(s) for s in states])
        total = W.sum(axis=1, keepdims=True)
        return W / np.where(total > LEAST_MASS, total, 1.0) if self.normalize else W

    def _embedding(self, states: list[State]) -> Embedding:
        return Embedding(self.kernel_z_, self.Z_, self._weights(states), None, self.encoder_z_)


def _is_list(X: Any) -> bool:
    """Whether ``X`` is a list of sequences, and not one sequence written as nested lists of numbers."""
    return (
        isinstance(X, (list, tuple))
        and len(X) > 0
        and all(is_frame(x) or np.ndim(x) >= 1 for x in X)
        and (is_frame(X[0]) or np.ndim(X[0]) == 2)
    )


def _sequences(X: Any, listed: bool, name: str) -> list[Any]:
    parts = list(X) if listed else [X]
    parts = [p if is_frame(p) or hasattr(p, "to_frame") else np.asarray(p) for p in parts]
    if any(np.ndim(p) == 0 for p in parts if not is_frame(p)):
        raise ValueError(f"{name} must be a sequence (T, d), or a list of them, got {X!r}: pass arrays.")
    return parts


def _join(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if all(is_frame(p) for p in parts):
        names = {tuple(p.columns) for p in parts}
        if len(names) > 1:
            raise ValueError(f"The sequences have different columns, {sorted(names)}: give all the same.")
        if hasattr(parts[0], "vstack"):
            import polars as pl

            return pl.concat(parts)
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    columns = {np.shape(p)[1:] for p in parts}
    if len(columns) > 1:
        raise ValueError(f"The sequences have different columns, {sorted(columns)}: give all the same.")
    return np.concatenate(parts)


__all__ = ["FilterChoice", "Filtered", "KernelBayesFilter"]
