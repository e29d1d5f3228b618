"""The kernel Bayes filter as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from muhat._array import Array
from muhat._tables import is_frame
from muhat._validation import as_generator, check_choice, check_count, check_positive
from muhat.embedding import Embedding
from muhat.gram import Factored, Features, Neural
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.features import target_features
from muhat.learning.filtering import FilterChoice, FilterTask, choose_backward, choose_filter, column
from muhat.models.base import Estimator, encode_outputs
from muhat.models.density_ratio import numerator_points
from muhat.models.kernel_bayes import both_representations, check_rule, target_value
from muhat.operators.bayes import RULES, Pairs, Prior
from muhat.operators.filtering import Machine, State, Steps, machine, smooth_back

# Observations whose k(X, x) are made at a time.
BLOCK = 256
# An observation whose nearest neighbour in training has less kernel correlation than this is unlike all.
UNLIKE = 0.1


class Filtered(Embedding):
    """The states of a sequence, one embedding a step, and how the filter got there.

    Attributes:
        effective_size: how many training points carry each state, (T,).
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
        super().__init__(kernel, points, weights, None, encoder)
        self.mass, self.familiarity, self.observed = mass, familiarity, observed

    @property
    def unlike(self) -> np.ndarray:
        """Steps whose observation lies far from anything seen in training, (k,)."""
        return np.flatnonzero(self.familiarity < UNLIKE)

    def summary(self) -> str:
        """One sentence on how the filter fared."""
        T, missed = len(self), int((~self.observed).sum())
        size = float(np.median(np.asarray(self.effective_size())))
        parts = [f"{T} steps, carried by {size:.0f} training points (median)"]
        if missed:
            parts.append(f"{missed} predicted without an observation")
        if len(self.unlike):
            parts.append(f"{len(self.unlike)} observations unlike anything in training")
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

    What is None is chosen by the error on held-out stretches of the training sequences.

    Attributes:
        choice_: kernels and regularisers in use, with the held-out error and all that was tried.
        X_, Z_: the training points, one sequence after the other.
        lengths_: of the training sequences.
    """

    _prepared: ClassVar[tuple[str, ...]] = ("_machine", "_backward", "_state")

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
        self.choice_ = choose_filter(self._task(kernel_x, kernel_z, tune_x, tune_z), rng)
        self.kernel_x_ = represent_x.fit(self.choice_.kernel_x, A, rng)
        self.kernel_z_ = represent_z.fit(self.choice_.kernel_z, B, rng)
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
        xs, zs = _sequences(X), _sequences(Z)
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
        grams = represent_x.gram_of(self.kernel_x_, self.X_), represent_z.gram_of(self.kernel_z_, self.Z_)
        pairs = Pairs(*grams, self.choice_.reg_prior, target_value(self))
        self._machine: Machine = machine(
            pairs,
            Steps.of(self.lengths_),
            RULES[self.rule],
            self.choice_.reg,
            self.choice_.reg_transition,
            self.normalize,
        )
        self._backward: Machine | None = None
        self._state: State | None = None

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
        states, mass, familiarity, observed = self._track(rows, self._initial(initial), restarts)
        self._state = states[-1]
        weights = np.stack([self._machine.weights(s) for s in states])
        return Filtered(self.kernel_z_, self.Z_, weights, mass, familiarity, observed, self.encoder_z_)

    def update(self, x: Any, initial: Any = None) -> Embedding:
        """One step online: the state given one more observation (d,); None where it is missing.

        The first call starts from ``initial``; later ones go on from the last state, also from that of
        :meth:`filter`. :meth:`reset` starts anew.
        """
        check_is_fitted(self)
        row = np.full((1, self.n_features_in_), np.nan)
        if x is not None:
            row = self._observations(x if is_frame(x) else np.reshape(np.asarray(x), (1, -1)), "raise", "x")
        start = self._initial(initial) if self._state is None else self._machine.predict(self._state)
        states, *_ = self._track(row, start, ())
        self._state = states[0]
        return self._embedding(states)[0]

    def reset(self) -> KernelBayesFilter:
        """Forget the last state, so that :meth:`update` starts anew."""
        check_is_fitted(self)
        self._state = None
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
        mu = self._embedding(states)
        return mu.normalize() if self.normalize else mu

    def smooth(self, X: Any, initial: Any = None, missing: str = "raise") -> Any:
        """The distribution of the state at each step given the whole sequence, past and future [NFG16].

        Args and result as in :meth:`filter`.
        """
        check_is_fitted(self)
        check_choice(missing, "missing", ("raise", "predict"))
        if _is_list(X):
            return [self.smooth(x, initial, missing) for x in X]
        rows = self._observations(X, missing)
        states, mass, familiarity, observed = self._track(rows, self._initial(initial), ())
        self._state = states[-1]
        if self._backward is None:
            task = self._task(self.choice_.kernel_x, self.choice_.kernel_z, False, False)
            reg = choose_backward(task, self.choice_, as_generator(self.random_state))
            self._backward = self._machine.backward(reg)
        out = smooth_back(self._machine, self._backward, states)
        weights = np.stack([self._machine.weights(s) for s in out])
        return Filtered(self.kernel_z_, self.Z_, weights, mass, familiarity, observed, self.encoder_z_)

    def _track(
        self, rows: Array, state: State, restarts: Sequence[int]
    ) -> tuple[list[State], Array, Array, Array]:
        """The states, their masses, familiarities, and which observations were used."""
        T, first = len(rows), state
        again = set(int(r) for r in restarts)
        if not all(0 <= r < T for r in again):
            raise ValueError(f"restarts must be rows of X, from 0 to {T - 1}, got {list(restarts)}.")
        missing = np.isnan(rows).any(axis=1)
        states: list[State] = []
        mass, familiarity, observed = np.full(T, np.nan), np.full(T, np.nan), np.zeros(T, dtype=bool)
        cross: Any = None
        for t in range(T):
            if t % BLOCK == 0:
                block = np.where(missing[t : t + BLOCK, None], self.X_[0], rows[t : t + BLOCK])
                cross = self._machine.pairs.gram_x.cross(block)
                near = self._familiarity(block, cross)
                familiarity[t : t + BLOCK] = np.where(missing[t : t + BLOCK], np.nan, near)
            if t and t not in again:
                state = self._machine.predict(state)
            elif t:
                state = first
            if not missing[t]:
                step = self._machine.condition(state, column(cross, t % BLOCK))
                state, mass[t], observed[t] = step.state, step.mass, step.met
            states.append(state)
        return states, mass, familiarity, observed

    def _familiarity(self, x: Array, cross: Array | Factored) -> Array:
        """The largest ``k(xᵢ, x)/√(k(xᵢ, xᵢ) k(x, x))`` over the training points, (q,)."""
        gram = self._machine.pairs.gram_x
        kernel: Any = getattr(gram.kernel, "kernel", gram.kernel)  # of Nyström: the kernel it stands for
        K = kernel(self.X_, x) if isinstance(cross, Factored) else cross
        own, theirs = np.asarray(kernel.diag(x)), np.asarray(kernel.diag(self.X_))
        return (K / np.sqrt(theirs)[:, None]).max(axis=0) / np.sqrt(own)

    def _initial(self, initial: Any) -> State:
        n = len(self.Z_)
        if initial is None:
            return self._machine.at(np.full(n, 1 / n))
        points, weights = numerator_points(initial, self.encoder_z_, self.Z_.shape[1])
        if points is self.Z_:
            return self._machine.at(weights)
        # The nearest embedding on the training points: (G + nηI)⁻¹ μ(Z).
        prior = Prior.of(self._machine.gram_z, points, weights)
        return self._machine.at(self._machine.pairs.ratio(prior) / n)

    def _observations(self, X: Any, missing: str, name: str = "X") -> Array:
        """Rows (T, d), those with a missing cell as NaN if that is allowed."""
        if missing == "raise" or self.encoder_x_.categories:
            return self._rows(X, name)
        values = np.asarray(X, dtype=float)
        values = values.reshape(-1, 1) if values.ndim == 1 and self.n_features_in_ == 1 else values
        if values.ndim != 2:
            return self._rows(X, name)
        gone = np.isnan(values).any(axis=1)
        if len(values) and not gone.all():
            self._rows(values[~gone], name)
        return np.where(gone[:, None], np.nan, values)

    def _embedding(self, states: list[State]) -> Embedding:
        weights = np.stack([self._machine.weights(s) for s in states])
        return Embedding(self.kernel_z_, self.Z_, weights, None, self.encoder_z_)


def _is_list(X: Any) -> bool:
    """Whether ``X`` is a list of sequences, and not one sequence written as nested lists of numbers."""
    return (
        isinstance(X, (list, tuple))
        and len(X) > 0
        and all(is_frame(x) or np.ndim(x) >= 1 for x in X)
        and (is_frame(X[0]) or np.ndim(X[0]) == 2)
    )


def _sequences(X: Any) -> list[Any]:
    parts = list(X) if _is_list(X) else [X]
    return [p if is_frame(p) or hasattr(p, "to_frame") else np.asarray(p) for p in parts]


def _join(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if all(is_frame(p) for p in parts):
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
