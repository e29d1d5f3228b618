"""Everything that is free in a filter, by its error on held-out stretches of the training sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from muhat._array import Array, column_sd
from muhat._linalg import SingularSystem
from muhat._progress import progress_bar
from muhat._threads import one_blas_thread
from muhat.gram import DenseGram, FeatureKernel, Gram, LowRankGram
from muhat.gram.landmarks import kmeanspp_landmarks
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.base import Kernel
from muhat.kernels.stationary import Stationary
from muhat.learning.leave_one_out import stretch
from muhat.operators.bayes import Pairs, importance
from muhat.operators.filtering import Machine, State, Steps, machine, smooth_back
from muhat.operators.kalman import LinearSystem, fits

# The search works in this many landmarks.
LANDMARKS = 100
# Steps of a held-out stretch, at most. The search tracks FOLDS of them for every candidate, and its time is
# proportional to them. On two windows of weather, 60 in place of 100 changed the kernel filter's error by 7%
# at most, and with fewer evaluations halved the time.
HELD_OUT = 60
# Steps of a stretch by which kernel and linear filter are compared, at most: each is tracked once.
AHEAD = 125
STRETCHES = 4  # so many of these, in the second half of the training sequences
# The kernel filter answers alone if its error is less than this share of the mixture's. Errors of few
# stretches are uncertain, and the mixture is the safer of the two: over six windows of weather the kernel
# filter, with shares from 0.88 to 1.15, was up to 14% behind the linear filter afterwards, the mixture 1%.
ALONE = 0.8
# Where they leave more than this share of k(x, x) unexplained, as in noisy images, what is good in landmarks
# need not be good without them. Up to so many rows the importance rule is then searched exactly; longer
# sequences, and rules whose steps cost more, get more landmarks.
UNEXPLAINED = 0.1
EXACT_ROWS = 1000
MORE_LANDMARKS = 200
FOLDS = 4
EVALUATIONS = 24
# What may be free: multiples of the median lengthscales of x and z, and regularisers.
NAMES = ("x", "z", "reg", "reg_prior", "reg_transition", "x carried", "reg carried")
# Where the search may start (that of the rule squared for squared operators); it goes on from the best. The
# first is good where distances vary much, the last where they hardly do, as between images.
STARTS = np.log(
    [
        [1.5, 0.3, 3e-3, 5e-4, 1e-5, 0.25, 3e-2],
        [0.5, 0.3, 2e-2, 1e-3, 1e-5, 0.5, 2e-2],
        [1.0, 0.3, 1e-2, 1e-3, 1e-4, 1.0, 1e-2],
        [2.0, 0.3, 1e-3, 1e-3, 1e-4, 2.0, 1e-3],
    ]
)
# Where it may start as well if landmarks do not explain x.
STARTS_UNEXPLAINED = np.log([[3.0, 1.0, 1e-4, 3e-3, 1e-3, 3.0, 1e-4]])
# First moves of the search in natural logarithms, and the prior standard deviations of the answer.
MOVES = np.array([0.5, 0.5, 1.0, 1.0, 1.0, 0.5, 1.0])
BOUNDS = np.log([1e-9, 10.0])
# Regularisers of the smoother's way back. With the last, the filter's answer stands.
BACKWARD = np.array([1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, np.inf])
# Smoothing is worth it if its error on held-out stretches is less than this share of the filter's: a
# difference of a few percent there says nothing of the next stretch.
WORTH = 0.95
# Smoothed states are too sure if their mean log score is worse than the filter's by more than this: Gaussians
# of .7 times the right deviation lose .16, and those of 1.4 times lose .1.
TOO_SURE = 0.1
# Of log scores: the share of a Gaussian as wide as all states, and the least variance in its units.
WIDE_SHARE = 0.05
LEAST_VARIANCE = 1e-6
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
        kernel_carried, reg_carried: those of the Bayes' rule whose posterior the next prediction starts from;
            None where it is the reported one.
        score: the error on held-out stretches: the mean squared distance from the posterior mean to the
            state, in standard deviations of the state; NaN if nothing was chosen.
        path: rows of all that was tried: the logarithms of the seven (lengthscales as multiples of the
            median), and the score.
        method: what answers: ``"kernel"``, ``"linear"`` for the Kalman filter learned by least squares, or
            ``"both"`` for the even mixture of the two.
        score_kernel, score_linear, score_both: the errors by which these were compared, in the units of
            ``score``: on stretches of the training sequences, each tracked by what was learned from the rows
            before it; NaN if they were not compared.
    """

    kernel_x: Kernel
    kernel_z: Kernel
    reg: float
    reg_prior: float
    reg_transition: float
    kernel_carried: Kernel | None
    reg_carried: float | None
    score: float
    path: np.ndarray
    method: str = "kernel"
    score_kernel: float = np.nan
    score_linear: float = np.nan
    score_both: float = np.nan


@dataclass(frozen=True)
class FilterTask:
    """A rule and training sequences, with what is given and what is free (None, or a ``tune`` flag).

    ``method`` is ``"kernel"``, ``"linear"``, ``"both"``, or ``"auto"`` for the best of them.
    """

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
    method: str = "kernel"

    @property
    def apart(self) -> bool:
        """Whether what is reported and what is carried forward may be regressed in different ways.

        A mean is found best with a smooth regression; the next prediction needs the shape of the posterior,
        which a smooth one blurs. Only where both are free, and with the rule whose weights are those of a
        regression.
        """
        return self.tune_x and self.reg is None and self.normalize and self.rule is importance


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


def folds_ahead(X: list[Array], Z: list[Array]) -> list[Fold]:
    """Stretches of the second half of the training sequences, each with all rows before it to learn from.

    A stretch with training rows on both sides is easier than the future: a regression that follows a drift
    from one side to the other looks good there, and fails where the drift goes on.
    """
    total = sum(len(z) for z in Z)
    width = total // (2 * STRETCHES)
    starts = np.cumsum([0, *(len(z) for z in Z)])[:-1]
    out = []
    for first in total - width * np.arange(STRETCHES, 0, -1):
        learn, tests = [], []
        for x, z, a in zip(X, Z, starts, strict=True):
            lo, hi = np.clip([first - a, first - a + min(width, AHEAD)], 0, len(z))
            if lo >= 2:
                learn.append((x[:lo], z[:lo]))
            if hi - lo >= 2:
                tests.append((x[lo:hi], z[lo:hi]))
        if learn and tests:
            A, B = (np.concatenate(p) for p in zip(*learn, strict=True))
            out.append(Fold(A, B, Steps.of([len(z) for _, z in learn]), tests))
    return out


def choose_filter(task: FilterTask, rng: np.random.Generator) -> FilterChoice:
    """The free parameters with the least error on held-out stretches, and whether a linear filter helps."""
    if task.method == "linear":
        return replace(_apply(task, _free(task)[1][0]), method="linear")
    choice = replace(_search(task, rng), method="both" if task.method == "both" else "kernel")
    return _compare(task, choice, rng) if task.method == "auto" else choice


def _compare(task: FilterTask, choice: FilterChoice, rng: np.random.Generator) -> FilterChoice:
    """The kernel filter, the linear one, or their mixture, by the error ahead."""
    folds = _to_compare(task)
    if not folds:
        return choice
    scale, errors = _units(task), []
    with one_blas_thread():
        for fold in folds:
            try:
                kernel = _kernel_means(task, choice, fold, _both_landmarks(task, fold, rng))
            except SingularSystem:
                return replace(choice, method="linear")
            linear = _linear_means(fold)
            means = kernel, linear, _mixed(kernel, linear)
            errors.append([_errors(m, fold, scale) for m in means])
    kernel, linear, both = (float(e) for e in np.mean(errors, axis=0))
    method = "linear" if linear <= min(both, kernel) else "kernel" if kernel < ALONE * both else "both"
    return replace(choice, method=method, score_kernel=kernel, score_linear=linear, score_both=both)


def _to_compare(task: FilterTask) -> list[Fold]:
    """Stretches ahead for which a linear filter can be learned."""
    d, k = task.X[0].shape[1], task.Z[0].shape[1]
    return [f for f in folds_ahead(task.X, task.Z) if fits(len(f.Z), d, k)]


def _kernel_means(
    task: FilterTask, choice: FilterChoice, fold: Fold, landmarks: list[Array | None]
) -> list[Array]:
    """Filtered means of the stretches."""
    carry, report = _machines(task, choice, fold, landmarks)
    tracks = [track(carry, report, X)[1] for X, _ in fold.tests]
    return [np.array([report.weights(s) @ fold.Z for s in states]) for states in tracks]


def _linear_means(fold: Fold) -> list[Array]:
    """Filtered means of the stretches by the linear filter."""
    system = LinearSystem.learn(fold.X, fold.Z, fold.steps)
    return [system.filter(X)[0] for X, _ in fold.tests]


def _mixed(kernel: list[Array], linear: list[Array]) -> list[Array]:
    return [(a + b) / 2 for a, b in zip(kernel, linear, strict=True)]


def _search(task: FilterTask, rng: np.random.Generator) -> FilterChoice:
    """The free parameters, by Nelder and Mead's method."""
    from scipy.optimize import minimize

    free, starts = _free(task)
    given, task = task, _in_few_columns(task) if free.any() else task
    folds = folds_of(task.X, task.Z)
    start = starts[0]
    if not folds or not free.any():  # too short to hold anything out, or nothing to choose
        return _apply(given, start)
    scale = _units(task)
    path: list[Array] = []
    landmarks = [_both_landmarks(task, f, rng) for f in folds]
    if any(of_x is None or len(of_x) > LANDMARKS for of_x, _ in landmarks):
        _, starts = _free(task, unexplained=True)
    # −2 log posterior of a Gaussian error model, up to constants: N log(loss) + ‖moves‖².
    count = scale.size * sum(len(Z) for fold in folds for _, Z in fold.tests)

    def error(u: Array) -> float:
        values = _at(u, free, start)
        candidate = _apply(task, values)
        try:
            each = zip(folds, landmarks, strict=True)
            loss = float(np.mean([_fold_error(task, candidate, f, l, scale) for f, l in each]))
        except SingularSystem:
            loss = np.inf
        path.append(np.append(values, loss))
        move(len(path), f"error {min(row[-1] for row in path):.3g}")
        if not np.isfinite(loss):
            return 1e6
        moves = float((((u - start[free]) / MOVES[free]) ** 2).sum())
        return np.log(max(loss, 1e-300)) + CAUTION * moves / count

    with one_blas_thread(), progress_bar("choosing the filter", len(starts) + EVALUATIONS) as move:
        first = []
        for start in starts:  # from which ``error`` counts its moves
            first.append(error(start[free]))
        start = starts[int(np.argmin(first))]
        simplex = np.vstack([start[free], start[free] + np.diag(MOVES[free])])
        options = {"maxfev": EVALUATIONS, "initial_simplex": simplex, "xatol": 0.05, "fatol": 1e-4}
        found = minimize(error, start[free], method="Nelder-Mead", options=options)
    values = _at(found.x, free, start)
    tried = np.array(path)
    score = float(np.min(tried[np.isclose(tried[:, :-1], values, atol=1e-9).all(axis=1), -1], initial=np.inf))
    return replace(_apply(given, values), score=score, path=tried)


def _in_few_columns(task: FilterTask) -> FilterTask:
    """Observations with more columns than rows (images) in coordinates of their span: distances are kept."""
    kernel, wide = task.kernel_x, task.X[0].shape[1] > sum(len(x) for x in task.X)
    if not isinstance(kernel, Stationary) or kernel._metric != "euclidean" or not wide:
        return task
    X = np.concatenate(task.X)
    scaled = (X - X.mean(axis=0)) / kernel.lengthscale
    coordinates = np.asarray(np.linalg.qr(scaled.T, mode="r")).T
    ends = np.cumsum([len(x) for x in task.X])[:-1]
    return replace(task, X=np.split(coordinates, ends), kernel_x=kernel.replace(lengthscale=1.0))


def _at(u: Array, free: Array, start: Array) -> Array:
    """All of NAMES, those that are free at ``u``, regularisers inside their bounds."""
    values = start.copy()
    values[free] = u
    bounded = free & np.char.startswith(NAMES, "reg")
    values[bounded] = np.clip(values[bounded], *BOUNDS)
    return values


def _free(task: FilterTask, unexplained: bool = False) -> tuple[Array, Array]:
    """Which of NAMES are free, and where the search may start, (k, 7)."""
    given = (task.reg, task.reg_prior, task.reg_transition)
    free = np.array([task.tune_x, task.tune_z, *(v is None for v in given), task.apart, task.apart])
    starts = np.vstack([STARTS, STARTS_UNEXPLAINED]) if unexplained else STARTS.copy()
    if not task.apart:  # one regression for both
        starts[:2] = starts[1::-1].copy()
        starts[:, [0, 2]] = starts[:, [5, 6]]
        starts[:, 5:] = 0.0
    if task.rule.SQUARED:
        starts[:, 2] *= 2
    starts[:, :2][:, ~free[:2]] = 0.0
    for j, value in enumerate(given, 2):
        if value is not None:
            starts[:, j] = np.log(value)
    return free, np.array(list(dict.fromkeys(map(tuple, starts))))


def _apply(task: FilterTask, values: Array) -> FilterChoice:
    def kernel(base: Kernel, tune: bool, log: float, X: list[Array]) -> Kernel:
        return stretch(base, np.full(X[0].shape[1], np.exp(log))) if tune else base

    given = (task.reg, task.reg_prior, task.reg_transition)  # exactly, not by way of their logarithms
    reg, prior, ahead = (
        float(np.exp(log)) if v is None else v for v, log in zip(given, values[2:5], strict=True)
    )
    return FilterChoice(
        kernel(task.kernel_x, task.tune_x, values[0], task.X),
        kernel(task.kernel_z, task.tune_z, values[1], task.Z),
        reg,
        prior,
        ahead,
        kernel(task.kernel_x, True, values[5], task.X) if task.apart else None,
        float(np.exp(values[6])) if task.apart else None,
        np.nan,
        np.empty((0, 8)),
    )


def _both_landmarks(task: FilterTask, fold: Fold, rng: np.random.Generator) -> list[Array | None]:
    """Landmarks of x and of z; None for x where it is to be exact."""
    of_x, of_z = (_landmarks(k, A, rng) for k, A in ((task.kernel_x, fold.X), (task.kernel_z, fold.Z)))
    if unexplained(task.kernel_x, fold.X, of_x) <= UNEXPLAINED:
        return [of_x, of_z]
    if task.rule is importance and len(fold.X) <= EXACT_ROWS:
        return [None, of_z]
    return [_landmarks(task.kernel_x, fold.X, rng, MORE_LANDMARKS), of_z]


def unexplained(kernel: Kernel, X: Array, landmarks: Array) -> float:
    """The share of the trace of the Gram matrix of X (n, d) that is not in the span of the landmarks."""
    if isinstance(kernel, FeatureKernel) or landmarks is X:
        return 0.0
    return 1 - float((_gram(kernel, X, landmarks).Phi ** 2).sum() / np.asarray(kernel.diag(X)).sum())


def _landmarks(kernel: Kernel, X: Array, rng: np.random.Generator, p: int | None = None) -> Array:
    p = p or LANDMARKS
    return X if len(X) <= p else kmeanspp_landmarks(X, p, rng, kernel)


def _gram(kernel: Kernel, X: Array, landmarks: Array | None) -> Any:
    if landmarks is None:
        return DenseGram(None, kernel, X)
    features: Any = kernel if isinstance(kernel, FeatureKernel) else NystromKernel.fit(kernel, landmarks)
    return LowRankGram(features.features(X), features, X)


def machines(
    task: FilterTask, choice: FilterChoice, steps: Steps, grams: tuple[Gram, Gram, Gram | None]
) -> tuple[Machine, Machine]:
    """The filter that carries the state forward, and the one whose posteriors are reported.

    Args:
        task: what is to be done.
        choice: with these kernels and regularisers.
        steps: of the training points.
        grams: of x, of z, and of x as it is carried; None where that is the same.
    """
    gram_x, gram_z, carried = _hold(grams[0]), grams[1], _hold(grams[2])
    rest = (choice.reg_transition, task.normalize)
    pairs = Pairs(gram_x, gram_z, choice.reg_prior, task.target)
    report = machine(pairs, steps, task.rule, choice.reg, *rest)
    if carried is None:
        return report, report
    pairs = Pairs(carried, gram_z, choice.reg_prior, task.target)
    return machine(pairs, steps, task.rule, choice.reg_carried, *rest), report


class _HeldGram(DenseGram):
    """A matrix that steps take parts of: it is made once, and the parts go without points (images, say)."""

    def take(self, rows: Array) -> Gram:
        return DenseGram(self.K.take(rows, axis=0).take(rows, axis=1))


def _hold(gram: Any) -> Any:
    return _HeldGram(gram.K, gram.kernel, gram.points) if type(gram) is DenseGram else gram


def _machines(
    task: FilterTask, choice: FilterChoice, fold: Fold, landmarks: list[Array | None]
) -> tuple[Machine, Machine]:
    of_x, of_z = landmarks
    carried = None if choice.kernel_carried is None else _gram(choice.kernel_carried, fold.X, of_x)
    grams = (_gram(choice.kernel_x, fold.X, of_x), _gram(choice.kernel_z, fold.Z, of_z), carried)
    return machines(task, choice, fold.steps, grams)


def _fold_error(
    task: FilterTask, choice: FilterChoice, fold: Fold, landmarks: list[Array | None], scale: Array
) -> float:
    return _errors(_kernel_means(task, choice, fold, landmarks), fold, scale)


def _errors(means: list[Array], fold: Fold, scale: Array) -> float:
    """The mean squared distance of the means (T, k) from the states of the stretches."""
    each = [(((m - Z) / scale) ** 2).sum(axis=1) for m, (_, Z) in zip(means, fold.tests, strict=True)]
    return float(np.concatenate(each).mean())


def track(carry: Machine, report: Machine, X: Array) -> tuple[list[State], list[State]]:
    """The states of one sequence as carried forward and as reported, from a uniform start."""
    n = len(carry.pairs)
    state, carried, reported = carry.at(np.full(n, 1 / n)), [], []
    crosses = [m.pairs.gram_x.cross(X) for m in ((carry,) if carry is report else (carry, report))]
    for t in range(len(X)):
        if t:
            state = carry.predict(state)
        told = report.condition(state, column(crosses[-1], t)).state
        state = told if carry is report else carry.condition(state, column(crosses[0], t)).state
        carried.append(state)
        reported.append(told)
    return carried, reported


def column(cross: Any, t: int) -> Any:
    """One column of ``k(X, x)``, (n, 1), factored if it is."""
    if hasattr(cross, "right"):
        return type(cross)(cross.left, cross.right[:, t : t + 1])
    return cross[:, t : t + 1]


def _units(task: FilterTask) -> Array:
    """The standard deviations of the states, one for a constant: errors are in units of these."""
    sd = column_sd(np.concatenate(task.Z))
    return np.where(sd > 0, sd, 1.0)


def choose_backward(task: FilterTask, choice: FilterChoice, rng: np.random.Generator) -> float:
    """λ of the smoother's way back, by the error of smoothed means on held-out stretches.

    Infinite where no λ has a clearly smaller error than the filter with a log score about as good. Means
    alone do not show that smoothed states are too sure. The linear smoother has no λ: zero, or infinite.
    """
    regs = BACKWARD**2 if task.rule.SQUARED else BACKWARD
    regs = np.array([0.0, np.inf]) if choice.method == "linear" else regs
    folds = folds_ahead(task.X, task.Z) if choice.method == "kernel" else _to_compare(task)
    if not folds:
        return float(regs[len(regs) // 2 - 1])
    scale, errors, surprise = _units(task), np.zeros(len(regs)), np.zeros(len(regs))
    with one_blas_thread():
        for fold in folds:
            linear = None if choice.method == "kernel" else _linear_moments(fold)
            if choice.method == "linear":
                runs = list(linear[::-1])  # type: ignore[index]
            else:
                runs = _smoothed(task, choice, fold, _both_landmarks(task, fold, rng), regs)
            if choice.method == "both" and linear is not None:
                each = [linear[int(np.isfinite(reg))] for reg in regs]
                runs = [_mixed(a, b) for a, b in zip(runs, each, strict=True)]
            k = len(scale)
            errors += [_errors([m[:, :k] for m in moments], fold, scale) for moments in runs]
            surprise += [_surprise(moments, fold, scale) for moments in runs]
    honest = surprise <= surprise[-1] + TOO_SURE * len(folds)
    best = int(np.nanargmin(np.where(honest, errors, np.inf)))
    return float(regs[best] if errors[best] < WORTH * errors[-1] else np.inf)


def _moments(fold: Fold) -> Array:
    """States of the training points and their squares about the mean, (n, 2k): what moments are made of."""
    return np.hstack([fold.Z, (fold.Z - fold.Z.mean(axis=0)) ** 2])


def _linear_moments(fold: Fold) -> tuple[list[Array], list[Array]]:
    """Moments, as of :func:`_moments`, of filtered and smoothed states by the linear filter."""
    system, centre = LinearSystem.learn(fold.X, fold.Z, fold.steps), fold.Z.mean(axis=0)

    def told(means: Array, covs: Array) -> Array:
        return np.hstack([means, np.diagonal(covs, axis1=1, axis2=2) + (means - centre) ** 2])

    filtered = [told(*system.filter(X)) for X, _ in fold.tests]
    return filtered, [told(*system.smooth(X)) for X, _ in fold.tests]


def _surprise(moments: list[Array], fold: Fold, scale: Array) -> float:
    """Minus the mean log score of the columns of the states by Gaussians with these moments (T, 2k).

    The Gaussians have a small share of one as wide as all states, so that no single step decides.
    """
    k, centre, losses = len(scale), fold.Z.mean(axis=0), []
    for m, (_, Z) in zip(moments, fold.tests, strict=True):
        var = np.maximum((m[:, k:] - (m[:, :k] - centre) ** 2) / scale**2, LEAST_VARIANCE)
        error = (m[:, :k] - Z) / scale
        narrow = np.exp(-0.5 * error**2 / var) / np.sqrt(var)
        losses.append(-np.log((1 - WIDE_SHARE) * narrow + WIDE_SHARE * np.exp(-0.5 * error**2) + 1e-300))
    return float(np.concatenate(losses).mean())


def _smoothed(
    task: FilterTask, choice: FilterChoice, fold: Fold, landmarks: list[Array | None], regs: Array
) -> list[list[Array]]:
    """Moments, as of :func:`_moments`, of the smoothed states of the stretches for each λ."""
    forward, report = _machines(task, choice, fold, landmarks)
    tracks = [track(forward, report, X) for X, _ in fold.tests]
    values, out = _moments(fold), []
    for reg in regs:
        backward = forward.backward(float(reg)) if np.isfinite(reg) else None
        states = [r if backward is None else smooth_back(forward, backward, c, r) for c, r in tracks]
        out.append([np.array([report.weights(s) @ values for s in each]) for each in states])
    return out
