"""The task-transformed Gaussian process as an estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from muhat._tables import Encoder, encode
from muhat._validation import (
    as_generator,
    as_rows,
    check_choice,
    check_count,
    check_positive,
    check_same_columns,
    check_same_rows,
)
from muhat.engine import open_rows, paired_sources, sample_indices, sample_rows
from muhat.gram import DenseGram, Exact, Gram, LowRankGram, Neural
from muhat.gram.features import FeatureKernel
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.learning.sample_task import SampledTask, sample_task
from muhat.learning.task_transformed import (
    LearnedTask,
    TaskProblem,
    feature_kernel,
    maximise_task,
    tie,
)
from muhat.models.base import Estimator
from muhat.models.task_inputs import (
    as_columns,
    as_combinations,
    as_covariance,
    as_targets,
    both_representations,
    check_in_memory,
    check_memory,
    chosen_landmarks,
    first_inducing,
    first_kernel,
    parameters_of,
    warn_if_far,
)
from muhat.models.task_state import (
    State,
    answer,
    combined,
    drawn,
    of_f,
    of_g,
    of_pairs,
    of_task,
    summed,
    triangle_of_pairs,
    triangle_of_rows,
)
from muhat.operators.deconditional import Transformation

# Observations that the first part of a search looks at; the second goes on with all of them.
SUBSET = 20_000
# Steps of the second part.
REFINE = 15
# Draws of the parameters over which predictions are averaged, of all that were made.
STATES = 32
# The noise's standard deviation where nothing is learned and none is given, as a share of that of z.
NOISE = 0.1


class TaskTransformedGP(Estimator):
    """f from its conditional means ``g(y) = E[f(X) | Y = y]``, by a task-transformed Gaussian process [HR19].

    Pairs (x, y) say how x varies with y; the task is z, seen with noise at other y, never beside x. The
    model is ``z = M f(x) + e``, ``e ~ N(0, Σ)``, with M and Σ from the pairs; the posterior mean of f is the
    deconditional mean embedding of z [HR19, Thm. 5.3]. With M given (:meth:`fit_transformed`) it is a
    Gaussian process on linear combinations of f, with M = I (:meth:`fit_direct`) a plain one; with features
    (``representation=``) Bayesian linear regression on them. Means alone are the ridge regressions of
    [HR19, Fig. 1].

    Args:
        kernel_x: k, prior covariance of f; None for the default kernel times an amplitude.
        kernel_y: ℓ, prior covariance of g; likewise.
        noise: standard deviation σ of z about g(y). None to learn it (a tenth of that of z where nothing is
            learned).
        inference: ``"full"``, with the uncertainty of g given f, or ``"map"``, without: the deconditional
            mean embedding proper, at a cost linear in the observations.
        optimize: whether the parameters of both kernels and the noise are learned, by the largest marginal
            likelihood; with pairs, the amplitudes of k and ℓ have a weak prior about the variance of z (they
            trade places otherwise). A kernel that is given is where the search starts, with an amplitude.
            ``"inducing"`` to learn the inducing points alone. ``"sample"`` to go on from the maximum by NUTS:
            draws from marginal likelihood times weak log-normal priors, over which every prediction is
            averaged, so that its spread has that of the parameters, too. It evaluates the likelihood some
            ten thousand times: for hundreds of rows. Inducing points stay at the maximum.
        inducing: for :meth:`fit_direct`, number of points that stand for all of the data, or where they
            start; they are learned with the rest [HR19, §8.2]. Inference is then ``"map"``, and ℓ is m² k
            unless it is given: f is its own conditional mean.
        representation: how both Grams are held, e.g. ``mh.Nystrom(300)``, or a pair for x and y; exact by
            default.
        center: whether f is the Gaussian process plus a constant, estimated from z. None for yes where
            parameters are learned.
        starts: how many starting points are followed, of the many that are tried.
        chains: number of chains, for ``optimize="sample"``.
        samples: draws kept in each chain.
        warmup: steps of each chain before these, which are dropped.
        random_state: seed.

    Attributes:
        kernel_x_, kernel_y_, noise_, offset_: in use; ``offset_`` is the constant.
        learned_: what the search found, or None.
        log_marginal_likelihood_: ``log p(z)`` at these.
        theta_, labels_: logarithms of all parameters, and their names.
        draws_: logarithms of all parameters, drawn, (chains, samples, p), or None; the attributes above are
            of the maximum.
        diagnostics_: of the draws: means, R̂, effective sizes, divergences; or None.
        X_, Y_: the pairs, a sample of them beyond 20 000 in a low-rank representation; inducing points in a
            sparse one.
        triangle_: what the posterior needs of more rows than the sample, and their number; or None.

    In terms of a kernel ℓ of amplitude 1 and operators that are averages, ``λ = σ²/(n·amp_ℓ)`` and
    ``ε = σ²/(m·amp_k)``.
    """

    _prepared: ClassVar[tuple[str, ...]] = ("_states",)
    streamed_: bool = False  # whether pairs were read in blocks

    def __init__(
        self,
        kernel_x: Kernel | None = None,
        kernel_y: Kernel | None = None,
        noise: float | None = None,
        inference: str = "full",
        optimize: bool | str = True,
        inducing: Any = None,
        representation: Representation | tuple[Representation, Representation] | None = None,
        center: bool | None = None,
        starts: int = 3,
        random_state: Any = 0,
        chains: int = 4,
        samples: int = 200,
        warmup: int = 200,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.noise = noise
        self.inference = inference
        self.optimize = optimize
        self.inducing = inducing
        self.representation = representation
        self.center = center
        self.starts = starts
        self.random_state = random_state
        self.chains = chains
        self.samples = samples
        self.warmup = warmup

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, X: Any, Y: Any, Y_task: Any, z_task: Any, checkpoint: Any = None) -> TaskTransformedGP:
        """Learn f from pairs ``X`` (n, d), ``Y`` (n, k) and values ``z_task`` (m,) seen at ``Y_task`` (m, k).

        Vectors are taken for one column. Beyond 20 000 pairs in a low-rank representation parameters are
        learned from a sample of them, and the posterior is that of all, in two passes: the pairs may be read
        in blocks (see :func:`muhat.open_rows`), in ``mh.Nystrom()`` unless another is given, with the path of
        a file to go on from after an interruption as ``checkpoint``.
        """
        rows = paired_sources(X, Y)
        self.streamed_, saved = rows is not None, None
        self._check_arguments()
        if self.inducing is not None:
            if X is None and Y is None:
                return self.fit_direct(Y_task, z_task)
            raise ValueError(
                "inducing points take the place of the pairs (X, Y): call fit_direct(X, z), or leave "
                "inducing out and pass representation=mh.Nystrom(300) for many pairs."
            )
        if rows is None:
            if checkpoint is not None:
                raise ValueError("checkpoint is for pairs that are read in blocks: leave it out.")
            A = self._fit_rows(as_columns(X), name="X")
            self.encoder_y_, B = encode(as_columns(Y), "Y", 2, also=as_columns(Y_task))
            check_same_rows(A, B, "X", "Y")
            n, some = len(A), slice(None)
            if not any(isinstance(r, Exact) for r in self._representations()):
                some = sample_indices(n)
                rows = open_rows(A), open_rows(np.asarray(B))
            A, B = A[some], B[some]
        else:
            check_in_memory(Y_task, z_task)
            self._fit_source(rows[0])
            self.encoder_y_, saved = Encoder(rows[1].names), self._checkpoint(checkpoint, *rows)
            n, (A, B) = sample_rows(*rows, checkpoint=saved)
        C = self._task_rows(Y_task, B.shape[1], 2)
        z = as_targets(z_task, "z_task")
        check_same_rows(C, z, "Y_task", "z_task")
        B = np.asarray(B, dtype=np.float64)
        warn_if_far(B, C, self.encoder_y_)
        self.X_, self.Y_, self.Y_task_ = A.astype(np.float64), B, C
        self.M_ = self.Sigma_ = self.inducing_ = None
        self.full_ = self.inference == "full"
        self._learn(z, np.ones(len(z)))
        if n > len(A):
            self._with_all(n, triangle_of_pairs, rows, saved)
        if saved is not None:
            saved.finish()
        return self

    def _with_all(self, n: int, reduce: Any, rows: Any, saved: Any) -> None:
        """The posterior of all n rows, where what was learned was learned from a sample of them."""
        if self.draws_ is not None:
            raise ValueError(f'optimize="sample" is for hundreds of rows, not for {n}: use True.')
        self.triangle_ = reduce(self._states[0], *rows, self.offset_, saved)
        self._prepare()
        self.log_marginal_likelihood_ = float(self._states[0].posterior.log_likelihood)

    def fit_transformed(self, X: Any, M: Any, z: Any, Sigma: Any = None) -> TaskTransformedGP:
        """Learn f from combinations of its values, ``z = M f(X) + e`` [HR19, §5.1].

        Args:
            X: points, (n, d).
            M: (m, n), one row an observation, e.g. averages of blocks of points. None for the identity.
            z: (m,).
            Sigma: covariance (m, m) or variances (m,) of e, in place of ``noise``; by default σ²I.
        """
        self.streamed_ = False
        self._check_arguments()
        if self.inducing is not None:
            raise ValueError("inducing points are for fit_direct(X, z): leave inducing out.")
        A = self._fit_rows(as_columns(X), name="X")
        values = as_targets(z, "z")
        M = as_combinations(M, len(A), len(values))
        if M is None:
            check_same_rows(A, values, "X", "z")
        if Sigma is not None and self.noise is not None:
            raise ValueError("noise and Sigma both say what the noise is: leave one of them out.")
        self.Sigma_ = None if Sigma is None else as_covariance(Sigma, len(values))
        self.X_, self.M_ = A.astype(np.float64), M
        self.Y_ = self.Y_task_ = self.inducing_ = None
        self.full_ = False
        self._learn(values, np.ones(len(values)) if M is None else M.sum(axis=1))
        return self

    def fit_direct(self, X: Any, z: Any, checkpoint: Any = None) -> TaskTransformedGP:
        """Learn f from its own values ``z`` (n,) at ``X`` (n, d), seen with noise.

        A plain Gaussian process; with ``inducing``, a sparse one of cost linear in the rows [HR19, §8.2].
        Beyond 20 000 rows parameters are learned from a sample of them, and the posterior is that of all, in
        two passes: they may be read in blocks (see :func:`muhat.open_rows`), with the path of a file to go
        on from after an interruption as ``checkpoint``.
        """
        rows = paired_sources(X, z)
        if self.inducing is None:
            if rows is not None:
                raise ValueError("Rows that are read in blocks need inducing points: pass inducing=100.")
            return self.fit_transformed(X, None, z)
        self.streamed_ = False
        self._check_arguments()
        if rows is None:
            A = self._fit_rows(as_columns(X), name="X").astype(np.float64)
            if self.encoder_x_.categories:
                raise ValueError("X has categories, where no inducing point can lie: leave inducing out.")
            values = as_targets(z, "z")
            check_same_rows(A, values, "X", "z")
            rows = open_rows(A), open_rows(values)
        else:
            self._fit_source(rows[0])
        saved = self._checkpoint(checkpoint, *rows)
        m, (A, values) = sample_rows(*rows, names=("X", "z"), checkpoint=saved)
        A, values = np.asarray(A, dtype=np.float64), as_targets(values, "z")
        self.encoder_y_ = self.encoder_x_
        rng = as_generator(self.random_state)
        self.inducing_ = first_inducing(self.inducing, A, rng)
        self.X_ = self.Y_ = self.inducing_
        self.Y_task_, self.M_, self.Sigma_ = A, None, None
        self.full_ = False
        self._learn(values, np.ones(len(values)))
        if m > len(A):
            self._with_all(m, triangle_of_rows, rows, saved)
        if saved is not None:
            saved.finish()
        return self

    @property
    def _learns(self) -> bool:
        """Whether kernels and noise are learned."""
        return self.optimize is True or self.optimize == "sample"

    def _check_arguments(self) -> None:
        check_choice(self.inference, "inference", ("full", "map"))
        check_choice(self.optimize, "optimize", (True, False, "inducing", "sample"))
        for name, least in (("starts", 1), ("chains", 1), ("samples", 4), ("warmup", 20)):
            check_count(getattr(self, name), name, least)
        if self.optimize == "inducing" and self.inducing is None:
            raise ValueError('optimize="inducing" needs inducing points to learn: pass inducing=50.')
        if self.noise is not None:
            check_positive(self.noise, "noise", "give a standard deviation, or None to learn it", scalar=True)
        for r in self._representations():
            if isinstance(r, Neural):
                raise TypeError("representation=mh.Neural() is not for this model: use mh.Nystrom(300).")

    def _representations(self) -> tuple[Representation, Representation]:
        return both_representations(self.representation, self.streamed_)

    def _task_rows(self, Y: Any, k: int, least: int = 1) -> np.ndarray:
        C = np.asarray(self.encoder_y_.transform(as_columns(Y), "Y_task"), dtype=np.float64)
        check_same_columns(C, k, "Y_task", "Y")
        return as_rows(C, "Y_task", least)

    # -- learning ----------------------------------------------------------------------------------

    def _learn(self, z: np.ndarray, sums: np.ndarray) -> None:
        """Choose what is free, and make the posterior. ``sums`` is what a constant f = 1 gives."""
        rng, self.triangle_ = as_generator(self.random_state), None
        center = self._learns if self.center is None else self.center
        self.offset_ = float(sums @ z / max(sums @ sums, 1e-300)) if center else 0.0
        self.z_ = z - self.offset_ * sums
        scale = float(np.sqrt(np.mean(self.z_**2))) or 1.0
        typical = scale / (float(np.sqrt(np.mean(sums**2))) or 1.0)
        self.seed_ = int(rng.integers(2**31))
        self.kernel_x_ = self._kernel("x", self.X_, typical**2)
        self.kernel_y_ = None
        if self.Y_ is not None:
            inputs: Any = self.Y_ if self.inducing_ is None else self.Y_task_
            if self.inducing_ is not None:
                self.kernel_x_ = self._kernel("x", inputs, scale**2)
            self.kernel_y_ = self._kernel("y", inputs, scale**2)
            if self.inducing_ is not None and self.kernel_y is None:
                self.kernel_y_ = tie(len(z)) * self.kernel_x_
        exact = isinstance(self._representations()[0], Exact)
        check_memory(len(self.X_), len(z), exact, self.full_)
        self.noise_ = self.noise if self.noise is not None else scale * (1.0 if self._learns else NOISE)
        # Landmarks stay where they are while the kernels are learned.
        kernels, points = (self.kernel_x_, self.kernel_y_), (self.X_, self.Y_)
        found = chosen_landmarks(self._representations(), kernels, points, self._learns, rng)
        self.landmarks_x_, self.landmarks_y_ = found
        self.learned_: LearnedTask | None = None
        self.draws_: np.ndarray | None = None
        self.diagnostics_: SampledTask | None = None
        start = self._problem()
        if self.optimize:
            self._maximise(rng)
        problem = self._problem()
        self.theta_, self.labels_ = problem.base, problem.labels
        self._prepare()
        self.log_marginal_likelihood_ = float(self._states[0].posterior.log_likelihood)
        if self.optimize == "sample":
            around = replace(problem, base=start.base)  # the priors are about where the search began
            counts = (self.chains, self.samples, self.warmup)
            self.draws_, self.diagnostics_ = sample_task(around, self.theta_, *counts, rng)
            self._prepare()

    def _kernel(self, of: str, X: np.ndarray, scale: float) -> Kernel:
        given, encoder = getattr(self, f"kernel_{of}"), getattr(self, f"encoder_{of}_")
        return first_kernel(given, X, encoder, f"kernel_{of}", scale, self._learns)

    def _problem(self, rows: Any = None, move: bool = False) -> TaskProblem:
        """The marginal likelihood as a function of the parameters, of all observations or of some."""
        x = parameters_of(self.kernel_x_)
        tied = self.inducing_ is not None and self.kernel_y is None
        y = None if self.kernel_y_ is None or tied else parameters_of(self.kernel_y_)
        base = [x.vector(), [] if y is None else y.vector(), [np.log(self.noise_)]]
        free = np.ones(sum(map(len, base)), dtype=bool)
        free[-1] = self.noise is None and self.Sigma_ is None
        free &= self.optimize != "inducing"
        take = slice(None) if rows is None else rows
        data = {"z": self.z_[take], "landmarks_x": self.landmarks_x_, "landmarks_y": self.landmarks_y_}
        if self.kernel_y_ is None:
            data |= {"X": self.X_, "M": self.M_, "Sigma": self.Sigma_}
        else:
            data["Y_task"] = self.Y_task_[take]  # type: ignore[index]
            if self.inducing_ is None:
                data |= {"X": self.X_, "Y": self.Y_}
        exact = [isinstance(r, Exact) for r in self._representations()]
        represent: Any = tuple(None if e else r for e, r in zip(exact, self._representations(), strict=True))
        units = None
        if self.inducing_ is not None:
            units = np.maximum(self.Y_task_.std(axis=0), 1e-12)  # type: ignore[union-attr]
        return TaskProblem(
            x,
            y,
            np.concatenate(base),
            free,
            self.full_,
            data,
            represent,
            self.inducing_,
            units,
            move,
            self.seed_,  # type: ignore[arg-type]
            tie(len(self.z_)),
        )

    def _maximise(self, rng: np.random.Generator) -> None:
        many = len(self.z_) > SUBSET and self.M_ is None and self.Y_task_ is not None
        rows = np.sort(rng.choice(len(self.z_), SUBSET, replace=False)) if many else None
        found = maximise_task(self._problem(rows, True), self.starts)
        self._adopt(found)
        if many:
            # Few steps with all rows from there: the posterior uses all of them, and so may its parameters.
            found = maximise_task(self._problem(None, True), 1, REFINE, only_given=True)
            self._adopt(found)
        self.learned_ = found

    def _adopt(self, found: LearnedTask) -> None:
        problem = self._problem()
        kernel_x, kernel_y, variance = problem.kernels(found.theta)
        self.kernel_x_, self.noise_ = kernel_x, float(np.sqrt(variance))
        self.kernel_y_ = kernel_y
        if found.points is not None:
            self.inducing_ = self.X_ = self.Y_ = found.points

    def log_marginal_likelihood(self, theta: Any = None, gradient: bool = False) -> Any:
        """``log p(z)`` at the logarithms ``theta`` of the parameters ``labels_``, by default those in use.

        With ``gradient``, also its derivatives in the parameters that are free. At a ``theta``, of the sample
        where there are more rows.
        """
        check_is_fitted(self)
        if theta is None and not gradient:
            return self.log_marginal_likelihood_
        problem = self._problem()
        base = self.theta_ if theta is None else np.asarray(theta, dtype=np.float64)
        if base.shape != self.theta_.shape:
            raise ValueError(
                f"theta must have {len(self.theta_)} entries, {self.labels_}, got shape {base.shape}."
            )
        value, slope = replace(problem, base=base).value_and_grad()(np.zeros(problem.count))
        return (float(value), slope) if gradient else float(value)

    # -- the posterior -----------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self.draws_ is None:
            self._states = [self._state(self.kernel_x_, self.kernel_y_, float(self.noise_) ** 2)]
            return
        problem, draws = self._problem(), self.draws_.reshape(-1, self.draws_.shape[-1])
        rows = np.linspace(0, len(draws) - 1, min(STATES, len(draws))).round().astype(int)
        found = (problem.kernels(draws[i]) for i in rows)
        self._states = [self._state(k, ell, float(variance)) for k, ell, variance in found]

    def _gram(self, which: int, kernel: Kernel, X: np.ndarray) -> Gram:
        r = self._representations()[which]
        landmarks = (self.landmarks_x_, self.landmarks_y_)[which]
        kernel = feature_kernel(None if isinstance(r, Exact) else r, kernel, X, self.seed_ + which, landmarks)
        if isinstance(kernel, FeatureKernel):
            return LowRankGram(kernel.features(X), kernel, X)
        return DenseGram(None, kernel, X)

    def _state(self, kernel_x: Kernel, kernel_y: Kernel | None, variance: float) -> State:
        gram = self._gram(0, kernel_x, self.X_)
        if kernel_y is None:
            noise = np.full(len(self.z_), variance) if self.Sigma_ is None else self.Sigma_
            return State(gram, combined(gram, self.M_, self.z_, noise), None, None)
        task = Transformation.of(self._gram(1, kernel_y, self.Y_), variance, self.full_)  # type: ignore[arg-type]
        if self.triangle_ is None:
            return of_task(gram, task, self.Y_task_, self.z_)
        if self.inducing_ is None:
            return of_pairs(gram, task, self.triangle_, self.Y_task_, self.z_)
        return summed(gram, task, self.triangle_, variance)

    # -- answers -----------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Posterior mean of f, without noise, at ``X`` (q, d), (q,).

        With ``return_std`` also its standard deviation (q,), with ``return_cov`` its covariance (q, q).
        """
        A = self._rows(as_columns(X)).astype(np.float64)
        return answer(self._states, A, of_f, return_std, return_cov, self.offset_)

    def predict_task(self, Y: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Posterior mean of ``g(y) = E[f(X) | Y = y]``, without noise, at ``Y`` (q, k), (q,)."""
        check_is_fitted(self)
        if self.Y_ is None:
            raise ValueError(
                "predict_task needs pairs (x, y), but M was given: use predict(X, return_cov=True) and "
                "multiply by rows of M."
            )
        C = self._task_rows(Y, self.Y_.shape[1])
        Y_task, full = self.Y_task_, self.full_

        def of(state: State, rows: np.ndarray, kind: str) -> Any:
            return of_g(state, rows, kind, Y_task, full)

        return answer(self._states, C, of, return_std, return_cov, self.offset_)

    def sample(self, X: Any, n: int = 1, random_state: Any = 0) -> np.ndarray:
        """``n`` functions drawn from the posterior of f, at ``X`` (q, d), (n, q)."""
        n = check_count(n, "n")
        A, rng = self._rows(as_columns(X)).astype(np.float64), as_generator(random_state)
        return self.offset_ + drawn(self._states, A, n, rng)


__all__ = ["TaskTransformedGP"]
