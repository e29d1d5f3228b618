"""Everything that is free in a filter, by its error on held-out stretches of the training sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._threads import one_blas_thread
from muhat.gram import FeatureKernel, LowRankGram
from muhat.gram.landmarks import kmeanspp_landmarks
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.base import Kernel
from muhat.learning.leave_one_out import stretch
from muhat.operators.bayes import Pairs
from muhat.operators.filtering import Machine, State, Steps, machine, smooth_back

# The search works in this many landmarks, on stretches of at most this many steps.
LANDMARKS = 120
HELD_OUT = 250
FOLDS = 4
EVALUATIONS = 40
# Where the search starts: multiples of the median lengthscales of x and z, reg (its square for squared
# operators), reg_prior, reg_transition. Good on many systems, so that the search has to earn its moves.
START = np.log([0.5, 0.3, 2e-2, 1e-3, 1e-5])
# First moves of the search in natural logarithms, and the prior standard deviations of the answer.
MOVES = np.array([0.5, 0.5, 1.0, 1.0, 1.0])
BOUNDS = np.log([1e-9, 10.0])
# Regularisers of the smoother's way back.
BACKWARD = np.logspace(-5, 1, 7)
# How much a move must earn: errors in a sequence are dependent, so that they count for fewer.
CAUTION = 4.0


@dataclass(frozen=True)
class FilterChoice:
    """What is in use in a filter.

    Attributes:
        kernel_x, kernel_z: on observations and states.
        reg: of the Bayes' rule.
        reg_prior: of its density ratio.
        reg_transition: of the prediction.
        score: the error on held-out stretches: the mean squared distance from the posterior mean to the
            state, in standard deviations of the state; NaN if nothing was chosen.
        path: rows (log multiple of the lengthscale of x, that of z, log reg, log reg_prior, log
            reg_transition, score) of all that was tried.
    """

    kernel_x: Kernel
    kernel_z: Kernel
    reg: float
    reg_prior: float
    reg_transition: float
    score: float
    path: np.ndarray


@dataclass(frozen=True)
class FilterTask:
    """A rule and training sequences, with what is given and what is free (None, or a ``tune`` flag)."""

    rule: ModuleType
    X: list[Array]
    Z: list[Array]
    kernel_x: Kernel
    kernel_z: Kernel
    tune_x: bool
    tune_z: bool
    reg: float | None
    reg_prior: float | None
    reg_transition: float | None
    target: float
    normalize: bool


@dataclass(frozen=True)
class Fold:
    """Sequences to learn from, and stretches to be tracked."""

    X: Array
    Z: Array
    steps: Steps
    tests: list[tuple[Array, Array]]


def folds_of(X: list[Array], Z: list[Array]) -> list[Fold]:
    """Stretches spread evenly over the training sequences, each held out from what it is tracked by."""
    total = sum(len(z) for z in Z)
    length = max(2, min(HELD_OUT, total // FOLDS))
    starts = np.cumsum([0, *(len(z) for z in Z)])
    out = []
    for first in np.linspace(0, total - length, FOLDS).round().astype(int):
        learn: list[tuple[int, slice]] = []
        tests = []
        for i, a in enumerate(starts[:-1]):
            n = len(Z[i])
            lo, hi = np.clip([first - a, first + length - a], 0, n)
            if hi - lo >= 2:
                tests.append((X[i][lo:hi], Z[i][lo:hi]))
            learn += [(i, s) for s in (slice(0, lo), slice(hi, n)) if s.stop - s.start >= 2]
        if tests and sum(s.stop - s.start for _, s in learn) >= 4:
            steps = Steps.of([s.stop - s.start for _, s in learn])
            A, B = (np.concatenate([S[i][s] for i, s in learn]) for S in (X, Z))
            out.append(Fold(A, B, steps, tests))
    return out


def choose_filter(task: FilterTask, rng: np.random.Generator) -> FilterChoice:
    """The free parameters with the least error on held-out stretches, by Nelder and Mead's method."""
    from scipy.optimize import minimize

    folds = folds_of(task.X, task.Z)
    free, start = _free(task)
    if not folds or not free.any():  # too short to hold anything out, or nothing to choose
        return _apply(task, start)
    scale = np.concatenate(task.Z).std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    path: list[Array] = []
    landmarks = [[_landmarks(k, A, rng) for k, A in _kernels(task, f)] for f in folds]
    # −2 log posterior of a Gaussian error model, up to constants: N log(loss) + ‖moves‖².
    count = scale.size * sum(len(Z) for fold in folds for _, Z in fold.tests)

    def error(u: Array) -> float:
        values = start.copy()
        values[free] = u
        values[2:] = np.clip(values[2:], *BOUNDS)
        candidate = _apply(task, values)
        losses = [_fold_error(task, candidate, f, l, scale) for f, l in zip(folds, landmarks, strict=True)]
        loss = float(np.mean(losses))
        if not np.isfinite(loss):
            return 1e6
        path.append(np.append(values, loss))
        return np.log(loss) + CAUTION * float((((u - start[free]) / MOVES[free]) ** 2).sum()) / count

    with one_blas_thread():
        simplex = np.vstack([start[free], start[free] + np.diag(MOVES[free])])
        options = {"maxfev": EVALUATIONS, "initial_simplex": simplex, "xatol": 0.05, "fatol": 1e-4}
        found = minimize(error, start[free], method="Nelder-Mead", options=options)
    values = start.copy()
    values[free] = found.x
    tried = np.array(path)
    score = float(np.min(tried[np.isclose(tried[:, :5], values, atol=1e-9).all(axis=1), -1], initial=np.inf))
    return replace(_apply(task, values), score=score, path=tried)


def _free(task: FilterTask) -> tuple[Array, Array]:
    """Which of the five are free, and where the search starts: (x, z, reg, reg_prior, reg_transition)."""
    start = START.copy()
    if task.rule.SQUARED:
        start[2] *= 2
    given = (task.reg, task.reg_prior, task.reg_transition)
    free = np.array([task.tune_x, task.tune_z, *(v is None for v in given)])
    start[:2][~free[:2]] = 0.0
    start[2:] = [s if v is None else np.log(v) for s, v in zip(start[2:], given, strict=True)]
    return free, start


def _apply(task: FilterTask, values: Array) -> FilterChoice:
    kernels = []
    for kernel, tune, log, X in zip(
        (task.kernel_x, task.kernel_z), (task.tune_x, task.tune_z), values[:2], (task.X, task.Z), strict=True
    ):
        kernels.append(stretch(kernel, np.full(X[0].shape[1], np.exp(log))) if tune else kernel)
    return FilterChoice(*kernels, *(float(v) for v in np.exp(values[2:])), np.nan, np.empty((0, 6)))


def _kernels(task: FilterTask, fold: Fold) -> list[tuple[Kernel, Array]]:
    return [(task.kernel_x, fold.X), (task.kernel_z, fold.Z)]


def _landmarks(kernel: Kernel, X: Array, rng: np.random.Generator) -> Array:
    return X if len(X) <= LANDMARKS else kmeanspp_landmarks(X, LANDMARKS, rng, kernel)


def _gram(kernel: Kernel, X: Array, landmarks: Array) -> LowRankGram:
    features: Any = kernel if isinstance(kernel, FeatureKernel) else NystromKernel.fit(kernel, landmarks)
    return LowRankGram(features.features(X), features, X)


def _machine(task: FilterTask, choice: FilterChoice, fold: Fold, landmarks: list[Array]) -> Machine:
    kernels = (choice.kernel_x, choice.kernel_z)
    grams = [_gram(k, A, l) for k, A, l in zip(kernels, (fold.X, fold.Z), landmarks, strict=True)]
    pairs = Pairs(*grams, choice.reg_prior, task.target)
    return machine(pairs, fold.steps, task.rule, choice.reg, choice.reg_transition, task.normalize)


def _fold_error(
    task: FilterTask, choice: FilterChoice, fold: Fold, landmarks: list[Array], scale: Array
) -> float:
    filter_ = _machine(task, choice, fold, landmarks)
    errors = []
    for X, Z in fold.tests:
        means = np.array([filter_.weights(s) @ fold.Z for s in track(filter_, X)])
        errors.append((((means - Z) / scale) ** 2).sum(axis=1))
    return float(np.concatenate(errors).mean())


def track(filter_: Machine, X: Array) -> list[State]:
    """The filtered states of one sequence, from a uniform start."""
    n = len(filter_.pairs)
    state, states = filter_.at(np.full(n, 1 / n)), []
    cross = filter_.pairs.gram_x.cross(X)
    for t in range(len(X)):
        if t:
            state = filter_.predict(state)
        state = filter_.condition(state, column(cross, t)).state
        states.append(state)
    return states


def column(cross: Any, t: int) -> Any:
    """One column of ``k(X, x)``, (n, 1), factored if it is."""
    if hasattr(cross, "right"):
        return type(cross)(cross.left, cross.right[:, [t]])
    return cross[:, [t]]


def choose_backward(task: FilterTask, choice: FilterChoice, rng: np.random.Generator) -> float:
    """λ of the smoother's way back, by the error of smoothed means on one held-out stretch."""
    folds = folds_of(task.X, task.Z)[:1]
    regs = BACKWARD**2 if task.rule.SQUARED else BACKWARD
    if not folds:
        return float(regs[2])
    fold = folds[0]
    landmarks = [_landmarks(k, A, rng) for k, A in _kernels(task, fold)]
    with one_blas_thread():
        forward = _machine(task, choice, fold, landmarks)
        errors = np.zeros(len(regs))
        for X, Z in fold.tests:
            states = track(forward, X)
            for j, reg in enumerate(regs):
                smoothed = smooth_back(forward, forward.backward(float(reg)), states)
                means = np.array([forward.weights(s) @ fold.Z for s in smoothed])
                errors[j] += ((means - Z) ** 2).sum()
    return float(regs[int(np.nanargmin(errors))])
