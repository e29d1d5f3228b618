"""The kernel Bayes filter as an estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from muhat._array import Array
from muhat._tables import Encoder, is_frame, missing_rows
from muhat._validation import as_generator, check_choice, check_count, check_positive
from muhat.embedding import Embedding
from muhat.embedding.moments import POINTS, Functions, MomentEmbedding, split_moments
from muhat.engine import Rows, sample_indices
from muhat.engine.stretches import sample_stretches, stretch_indices, stretch_lengths
from muhat.gram import Features, Neural
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.features import target_features
from muhat.learning.filtering import (
    FilterTask,
    choose_backward,
    choose_filter,
    column,
    machines,
)
from muhat.models.base import Estimator, both_streamed, encode_outputs
from muhat.models.filtered import Filtered, MomentFiltered
from muhat.models.kernel_bayes import both_representations, check_rule, prior_points, target_value
from muhat.models.posterior import familiarity, seen_gram
from muhat.models.sequences import (
    advise,
    check_gaps,
    check_lengths,
    is_list,
    join,
    sequences_of,
    split,
    split_at_gaps,
    split_sequences,
)
from muhat.operators.bayes import RULES, Prior
from muhat.operators.filtering import LEAST_MASS, State, Steps, smooth_back
from muhat.operators.kalman import LinearMachine, MixedMachine, MixedState, fits
from muhat.operators.streamed_filtering import (
    Evidence,
    FilterMoments,
    FilterRows,
    StreamedMachine,
    StreamedState,
)

# Observations whose k(X, x) are made at a time.
BLOCK = 256
# A smoothed mean may leave the range of the training states by this share of it more than the filter's does.
# A line through the data leaves it by a little, rightly; regressions that lost their way leave it by far.
BEYOND = 0.5
NO_HELP = (
    "On held-out stretches of the training sequences the smoother was no better than the filter: its errors "
    "were not clearly smaller, or it was too sure of its states. smooth gives the filter's answer. Set "
    "reg_backward_ (0.1, say) to smooth all the same."
)


class KernelBayesFilter(Estimator):
    """Track a hidden state z from observations x, learned from sequences where both were seen [X22, Alg. 2].

    Nothing is assumed of the dynamics p(z_{t+1} | z_t) or of the observations p(x_t | z_t) but that they stay
    the same. Each step is a prediction (the kernel sum rule) and a Bayes' rule.

    Args:
        rule: ``"importance"`` [X22], ``"kbr_b"`` [FSG13], ``"kbr_a"`` [SFG13] or ``"deconditional"``.
        kernel_x: kernel of the observations. None for the default kernel with a lengthscale chosen.
        kernel_z: kernel of the states, None as above.
        reg: λ, δ or ε of the rule, as in :class:`muhat.KernelBayes`.
        reg_prior: η of its density ratio.
        reg_transition: λ' of the prediction, ``(Ĉ_ZZ + λ'I)⁻¹``.
        target: what the density ratio shrinks to, ``"one"`` or ``"zero"``.
        normalize: whether weights are scaled to sum to one at each step (an observation that leaves hardly
            any mass is then passed over); the papers do not.
        representation: how Grams are held; a pair is for x and for z, and ``mh.Features`` or ``mh.Neural``
            alone is for x.
        method: ``"kernel"``, ``"linear"`` for the Kalman filter learned by least squares
            (:class:`muhat.operators.kalman.LinearSystem`), ``"both"`` for the even mixture of the two, or
            ``"auto"`` to choose by the error on stretches of the training sequences that are tracked from the
            rows before them: the linear filter where its error is the smallest, the kernel filter where its
            error is clearly below that of the mixture (such errors are uncertain, and the mixture is the
            safer of the two), and else the mixture. ``choice_`` has the three errors. It is ``"kernel"``
            where a rule, kernels, regularisers or a representation are given, for categories, and for
            sequences that are read in blocks.
        random_state: seed of the representation's and the search's random choices.

    What is None is chosen by the error on held-out stretches of the training sequences. With the importance
    rule and ``kernel_x`` and ``reg`` both None, two regressions are chosen: a smooth one for the posterior
    that is reported, and a sharper one for that which is carried to the next step, whose shape counts.

    Attributes:
        choice_: kernels and regularisers in use, with the held-out error and all that was tried; its
            ``method`` says whether the kernel filter, the linear one or both answer.
        X_, Z_: the training points, one sequence after the other; of those that are read in blocks, stretches
            of them.
        lengths_: of the training sequences.
        state_: weights (n,) of the last state, from which :meth:`update` and :meth:`forecast` go on; None
            before the first. Of a mixture those of each filter, (2, n). Of training points that were not
            kept, moments and features in their place.
        moments_: what was kept of training points that are read in blocks; None elsewhere.
        reg_backward_: λ of the smoother's way back; None until it is chosen in the first :meth:`smooth`.
            Infinite where held-out stretches say that smoothing does not help; 0 of the linear smoother.
    """

    _prepared: ClassVar[tuple[str, ...]] = (
        "_machine",
        "_report",
        "_backward",
        "_state",
        "_sources",
        "_nearness",
    )
    _sources: list[tuple[Rows, Rows]] | None = None

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
        method: str = "auto",
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
        self.method = method
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, Z: Any, missing: str = "raise") -> KernelBayesFilter:
        """Learn from one sequence, ``X`` (T, d) and ``Z`` (T, k), or from lists of sequences.

        Args:
            X: observations.
            Z: states.
            missing: what a row with NaN or inf in X or Z means: ``"raise"`` an error, or ``"split"`` the
                sequence there, so that no step is learned across the gap. Single rows are left out.

        What is chosen is chosen from 20 000 steps at most, in stretches of 400. Sequences that outgrow memory
        (see :func:`muhat.open_rows`) are read twice: for these stretches, and for moments in features. A step
        of the filter then costs nothing that grows with them for ``"kbr_a"`` and ``"kbr_b"`` with up to some
        250 features, whose third-order moments are kept. ``"importance"`` and ``"deconditional"`` truncate
        their weights, and read the sequences once for every observation. Means and covariances of the
        states are those of all training points; :meth:`smooth` needs these in memory.
        """
        check_rule(self)
        check_choice(missing, "missing", ("raise", "split"))
        check_choice(self.method, "method", ("auto", "kernel", "linear", "both"))
        if self.reg_transition is not None:
            check_positive(self.reg_transition, "reg_transition", "give λ' > 0, or None", scalar=True)
        with advise(split_at_gaps()):
            self._sources = sequences_of(X, Z)
        self.streamed_ = self._sources is not None
        if self.streamed_ and missing == "split":
            raise ValueError(
                'missing="split" needs sequences in memory, and these are read in blocks: pass lists of the '
                "pieces between the gaps."
            )
        represent_x, represent_z = self._representations()
        rng = as_generator(self.random_state)
        with advise(split_at_gaps()):
            self._take(X, Z, missing)
        self._check_linear()
        A, B = self._sample()
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
        self.moments_: FilterMoments | None = self._rows_read().measure() if self.streamed_ else None
        self._prepare()
        return self

    def _representations(self) -> tuple[Representation, Representation]:
        return (both_streamed if self.streamed_ else both_representations)(self.representation)

    def _check_linear(self) -> None:
        """Refuse a linear filter of what is not numbers in memory, or of too few rows."""
        if self.method not in ("linear", "both"):
            return
        if self.streamed_ or self.encoder_x_.categories or self.encoder_z_.categories:
            raise ValueError(
                f'method="{self.method}" needs columns of numbers, in memory: use method="kernel" for '
                "categories and for rows that are read in blocks."
            )
        n, d, k = len(self.X_), self.X_.shape[1], self.Z_.shape[1]
        if not fits(n, d, k):
            raise ValueError(
                f'method="{self.method}" needs more than {n} rows for {d} observed and {k} hidden columns: '
                'use method="kernel", or fewer columns.'
            )

    @property
    def _candidates(self) -> str:
        """The method of the search: both only where nothing was asked for that a linear filter has not."""
        if self.method != "auto":
            return self.method
        given = (self.kernel_x, self.kernel_z, self.reg, self.reg_prior, self.reg_transition)
        plain = self.rule == "importance" and self.normalize and self.target == "one"
        numbers = not (self.encoder_x_.categories or self.encoder_z_.categories)
        free = plain and all(g is None for g in (*given, self.representation)) and not self.streamed_
        return "auto" if free and numbers else "kernel"

    def _take(self, X: Any, Z: Any, missing: str) -> None:
        """The training points, or stretches of them, and how long these are."""
        if self._sources is None:
            self.lengths_, self.X_, self.Z_ = self._fit_sequences(X, Z, missing)
            self.stretches_ = stretch_lengths(stretch_indices(len(self.X_)), self.lengths_)
            return
        of_x, of_z = self._sources[0]
        self._fit_source(of_x)
        self.encoder_z_, self.flat_z_ = Encoder(of_z.names), of_z.flat
        self.lengths_, index, (self.X_, self.Z_) = sample_stretches(self._sources)
        self.stretches_ = stretch_lengths(index, self.lengths_)
        check_lengths(self.lengths_)

    def _sample(self) -> tuple[Array, Array]:
        """The training points that choices are made from."""
        some = slice(None) if self.streamed_ else stretch_indices(len(self.X_))
        return self.X_[some], self.Z_[some]

    def _task(self, kernel_x: Kernel, kernel_z: Kernel, tune_x: bool, tune_z: bool) -> FilterTask:
        ends = np.cumsum(self.stretches_)[:-1]
        A, B = self._sample()
        return FilterTask(
            RULES[self.rule],
            np.split(A, ends),
            np.split(B, ends),
            kernel_x,
            kernel_z,
            tune_x,
            tune_z,
            self.reg,
            self.reg_prior,
            self.reg_transition,
            target_value(self),
            self.normalize,
            self._candidates,
        )

    def _fit_sequences(self, X: Any, Z: Any, missing: str) -> tuple[list[int], Array, Array]:
        listed = is_list(X)
        listed_z = is_list(Z) or (listed and isinstance(Z, (list, tuple)))
        xs, zs = split(X, listed, "X"), split(Z, listed_z, "Z")
        if len(xs) != len(zs):
            raise ValueError(f"X has {len(xs)} sequences but Z has {len(zs)}: they come in pairs.")
        for i, (x, z) in enumerate(zip(xs, zs, strict=True)):
            where = f" of sequence {i}" if len(xs) > 1 else ""
            if len(x) != len(z):
                raise ValueError(f"X{where} has {len(x)} rows but Z has {len(z)}: rows are moments in time.")
        if missing == "split":
            xs, zs = split_sequences(xs, zs)
        check_lengths([len(x) for x in xs])
        check_gaps(xs, zs, (listed, listed_z))
        A = self._fit_rows(join(xs))
        self.encoder_z_, B, self.flat_z_ = encode_outputs(join(zs), "Z")
        return [len(x) for x in xs], A, B

    def _rows_read(self) -> FilterRows:
        """The training sequences as they are read in blocks."""
        kernels = [k for k in (self.kernel_x_, self.kernel_carried_) if k is not None]
        return FilterRows(
            self._sources,
            tuple(kernels),
            Functions(self.kernel_z_, self.Z_.mean(axis=0)),
            RULES[self.rule],  # type: ignore[arg-type]
            self.choice_.reg_prior,
            target_value(self),
            self.normalize,
            self._kept,
        )

    @property
    def _kept(self) -> Array:
        """Some of the training states."""
        return self.Z_[sample_indices(len(self.Z_), POINTS)]

    def _prepare(self) -> None:
        self._nearness = self._near(self.X_)
        self._backward: Any = None
        self._machine: Any
        self._report: Any
        if self.moments_ is None:
            self._in_memory()
        else:
            choice, carried = self.choice_, self.kernel_carried_
            evidence = Evidence(self._rows_read(), self.moments_)
            grams = [seen_gram(k, self.X_) for k in evidence.rows.kernels_x]
            report = StreamedMachine(evidence, 0, grams[0], choice.reg, choice.reg_transition)
            self._report = self._machine = report
            if carried is not None:
                assert choice.reg_carried is not None
                rest = choice.reg_carried, choice.reg_transition
                self._machine = StreamedMachine(evidence, 1, grams[1], *rest)
        self._state: Any = None if self.state_ is None else self._machine.at(self.state_)

    def _in_memory(self) -> None:
        represent_x, represent_z = both_representations(self.representation)
        carried = self.kernel_carried_
        method = self.choice_.method
        linear: Any = None
        if method != "kernel":
            gram_x = represent_x.gram_of(self.kernel_x_, self.X_)
            linear = LinearMachine.learn(self.X_, self.Z_, self.lengths_, gram_x)
        if method == "linear":
            self._machine = self._report = linear
            return
        grams = (
            represent_x.gram_of(self.kernel_x_, self.X_),
            represent_z.gram_of(self.kernel_z_, self.Z_),
            None if carried is None else represent_x.gram_of(carried, self.X_),
        )
        task = self._task(self.choice_.kernel_x, self.choice_.kernel_z, False, False)
        # Which carries the state forward, and which reports it.
        carry, report = machines(task, self.choice_, Steps.of(self.lengths_), grams)
        if method == "both":
            mixed = MixedMachine(report, linear)
            carry, report = mixed if carry is report else MixedMachine(carry, linear), mixed
        self._machine, self._report = carry, report

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
            A batch embedding with one row of weights a step (:class:`Filtered`), or a list of them; of
            training sequences that are read in blocks a :class:`MomentFiltered`. The last state is where
            :meth:`update` and :meth:`forecast` go on from.
        """
        check_is_fitted(self)
        check_choice(missing, "missing", ("raise", "predict"))
        if is_list(X):
            return [self.filter(x, initial, missing, restarts) for x in X]
        rows = self._observations(X, missing)
        carried, states, mass, near, observed = self._track(rows, self._initial(initial), restarts)
        self._keep(carried[-1])
        return self._filtered(states, mass, near, observed)

    def update(self, x: Any, initial: Any = None) -> Any:
        """One step online: the state given one more observation (d,); None where it is missing.

        The first call starts from ``initial``; later ones go on from the last state, also from that of
        :meth:`filter`. :meth:`reset` starts anew. The result is a single step of what :meth:`filter` gives,
        with its ``familiarity``, ``mass`` and ``observed``.
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
        carried, states, *told = self._track(row, start, ())
        self._keep(carried[0])
        return self._filtered(states, *told)[0]

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
        if self.streamed_:
            raise ValueError(
                "smooth needs the training points in memory, and they were read in blocks: fit on as many as "
                "fit there, e.g. np.asarray(X[:100_000])."
            )
        if is_list(X):
            return [self.smooth(x, initial, missing) for x in X]
        rows = self._observations(X, missing)
        states, reported, mass, near, observed = self._track(rows, self._initial(initial), ())
        self._keep(states[-1])
        if self.reg_backward_ is None:
            task = self._task(self.choice_.kernel_x, self.choice_.kernel_z, False, False)
            self.reg_backward_ = choose_backward(task, self.choice_, as_generator(self.random_state))
        if np.isinf(self.reg_backward_):
            warnings.warn(NO_HELP, stacklevel=2)
            return self._filtered(reported, mass, near, observed)
        smoothed = self._smoothed(states, reported)
        before, after = (self._filtered(s, mass, near, observed) for s in (reported, smoothed))
        lost = np.flatnonzero(self._beyond(after) > self._beyond(before) + BEYOND)
        if not len(lost):
            return after
        warnings.warn(
            f"At {len(lost)} of {len(rows)} steps (first: {lost[0]}) the smoothed state went far outside the "
            "training states, and the filter's did not: the filter's answer is given there. Set a larger "
            "reg_backward_, or train on more sequences.",
            stacklevel=2,
        )
        left = set(lost.tolist())
        mended = [f if t in left else s for t, (f, s) in enumerate(zip(reported, smoothed, strict=True))]
        return self._filtered(mended, mass, near, observed)

    def _beyond(self, found: Any) -> np.ndarray:
        """How far the mean of each step lies outside the training states, in units of their range, (T,)."""
        if self.encoder_z_.categories:
            return np.zeros(len(found))
        Z, mean = np.asarray(self.Z_), np.asarray(found.mean())
        width = np.ptp(Z, axis=0)
        out = np.maximum(Z.min(axis=0) - mean, mean - Z.max(axis=0)) / np.where(width > 0, width, 1.0)
        return np.maximum(out, 0.0).max(axis=1)

    def _smoothed(self, carried: list[Any], reported: list[Any]) -> list[Any]:
        machine = self._machine
        if isinstance(machine, LinearMachine):
            return machine.smooth_back(reported)
        kernel = machine.kernel if isinstance(machine, MixedMachine) else machine
        assert self.reg_backward_ is not None
        if self._backward is None or self._backward.reg != self.reg_backward_:
            self._backward = kernel.backward(self.reg_backward_)
        if isinstance(machine, MixedMachine):
            return machine.smooth_back(self._backward, carried, reported)
        return smooth_back(kernel, self._backward, carried, reported)

    def _keep(self, state: Any) -> None:
        """Remember the last state, also in copies and files."""
        machine = self._machine
        self._state = state
        self.state_ = machine.both(state) if isinstance(machine, MixedMachine) else machine.weights(state)

    def _track(
        self, rows: Array, state: State, restarts: Sequence[int]
    ) -> tuple[list[State], list[State], Array, Array, Array]:
        """States as carried and as reported, their masses, familiarities, which observations were used."""
        T, first = len(rows), state
        again = {int(r) for r in restarts}
        if not all(0 <= r < T for r in again):
            raise ValueError(f"restarts must be rows of X, from 0 to {T - 1}, got {list(restarts)}.")
        carry, report = self._machine, self._report
        kernel = self.choice_.method == "kernel"
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
                told = report.gram_x.cross(block)
                moved = told if carry is report else carry.gram_x.cross(block)
                near[t : t + BLOCK] = np.where(
                    gone, np.nan, familiarity(self._nearness, carry.gram_x, block, moved)
                )
            if t:
                state = first if t in again else carry.predict(state)
            answer = state
            if not missing[t]:
                here = [column(cross, t % BLOCK) for cross in (told, moved)]
                seen = here if kernel else [(cross, rows[t]) for cross in here]
                step = report.condition(state, seen[0])
                answer, mass[t], observed[t] = step.state, step.mass, step.met
                state = answer if carry is report else carry.condition(state, seen[1]).state
            carried.append(state)
            reported.append(answer)
        return carried, reported, mass, near, observed

    def _initial(self, initial: Any) -> Any:
        if self.moments_ is not None:
            return self._start(initial)
        n = len(self.Z_)
        if initial is None:
            return self._machine.at(np.full(n, 1 / n))
        points, weights = prior_points(self, initial, "initial")
        if np.array_equal(points, self.Z_):  # whichever array holds them
            return self._machine.at(weights)
        machine = self._machine
        kernel, linear = machine, machine
        if isinstance(machine, MixedMachine):
            kernel, linear = machine.kernel, machine.linear
        gaussian: Any = None
        if isinstance(linear, LinearMachine):
            gaussian = replace(linear, points=points).at(weights)
            if linear is machine:
                return gaussian
        # The nearest embedding on the training points: (G + nηI)⁻¹ μ(Z).
        prior = Prior.of(kernel.gram_z, points, weights)
        state = kernel.at(kernel.pairs.ratio(prior) / n)
        return state if gaussian is None else MixedState(state, gaussian)

    def _start(self, initial: Any) -> StreamedState:
        """The same where training points are read in blocks."""
        evidence: Evidence = self._machine.evidence
        if initial is None:
            return evidence.start(None)
        if isinstance(initial, MomentEmbedding) and initial.kernel == self.kernel_z_:
            theta = np.atleast_2d(initial.coefficients)[0]
            if RULES[self.rule].ON_PRIOR:
                return evidence.start(theta)
            parts = [np.ravel(np.asarray(m)) for m in initial.moments]
            return StreamedState(np.concatenate([*parts, theta]))
        points, weights = prior_points(self, initial, "initial")
        kernel: Any = self.kernel_z_
        return evidence.start(weights @ kernel.features(points))

    def _observations(
        self,
        X: Any,
        missing: str,
        name: str = "X",
        remedy: str = 'pass missing="predict" to have the states there predicted without an observation',
    ) -> Array:
        """Rows (T, d), those with a missing cell as NaN if that is allowed."""
        gone = missing_rows(X)
        endless = missing_rows(X, infinite=True) & ~gone
        if endless.any():
            first = "" if name == "x" else "make it NaN and "
            raise ValueError(
                f"{name} contains inf in {int(endless.sum())} of {len(gone)} rows, first in row "
                f"{int(endless.argmax())}: give a number, or {first}{remedy}."
            )
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

    def _weights(self, states: list[Any]) -> Array:
        """Weights of the states (T, n); those that are predictions have yet to be normalised."""
        W = np.stack([self._machine.weights(s) for s in states])
        total = W.sum(axis=1, keepdims=True) if self.moments_ is None else W[:, :1]
        return W / np.where(total > LEAST_MASS, total, 1.0) if self.normalize else W

    def _filtered(self, states: list[Any], mass: Array, near: Array, observed: Array) -> Any:
        W = self._weights(states)
        if self.moments_ is not None:
            return MomentFiltered(mass, observed, near, *self._moments(W))
        return Filtered(self.kernel_z_, self.Z_, W, mass, near, observed, self.encoder_z_)

    def _moments(self, values: Array) -> tuple[Any, ...]:
        """What a batch of embeddings is made of, from values (T, f) of states."""
        d = self.Z_.shape[1]
        theta, moments = values[:, 1 + d + d * d :], split_moments(values, d)
        return self.kernel_z_, self._kept, theta, moments, self.Z_.mean(axis=0), self.encoder_z_

    def _embedding(self, states: list[Any]) -> Embedding:
        W = self._weights(states)
        if self.moments_ is not None:
            return MomentEmbedding(*self._moments(W))
        return Embedding(self.kernel_z_, self.Z_, W, None, self.encoder_z_)


__all__ = ["KernelBayesFilter"]
