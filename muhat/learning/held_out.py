"""Choosing what a Bayes' rule leaves free, from the pairs alone."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._threads import one_blas_thread
from muhat.gram import DenseGram
from muhat.gram.landmarks import uniform_landmarks
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.base import Kernel
from muhat.learning.leave_one_out import stretch
from muhat.operators.bayes import Pairs, Prior
from muhat.operators.bayes.balance import Balance
from muhat.operators.ratio import LeastSquares, covered, kulsif

# Pairs and points of the prior that the search looks at, at most.
ROWS = 500
FOLDS = 5
# Lengthscales beyond twice the median make a line and a constant of the Gaussian; held-out losses can hardly
# tell those apart, and regularisers on a grid miss the narrow range that suits them.
MULTIPLES_X = 2.0 ** np.arange(-2, 2)
MULTIPLES_Z = 2.0 ** np.arange(-2, 4)
RATIO_REGULARISERS = np.logspace(-6, 1, 15)
REGULARISERS = np.logspace(-5, 0, 11)
# Losses within this factor of the least count as equal; of these the largest regulariser is taken, since too
# small a one costs more than too large a one. Those of squared operators are further apart on their grid.
FLAT, FLAT_SQUARED = 1.01, 1.002
# Of what x brings at all, the loss of the prior less the least, no more than this share is given away.
GAIN = 0.05


@dataclass(frozen=True)
class BayesChoice:
    """What was chosen for a rule and a prior, and by what.

    Attributes:
        kernel_x: on the observations.
        kernel_z: of the density ratio or conditional operator.
        reg: of the last inversion.
        reg_prior: of the first.
        score: the mean held-out loss ``‖φ(z) − m(x)‖²``, pairs weighted as the prior would draw them.
        path: rows (multiple of the lengthscale of x, reg, loss) of all that was tried.
    """

    kernel_x: Kernel
    kernel_z: Kernel
    reg: float
    reg_prior: float
    score: float
    path: np.ndarray


@dataclass(frozen=True)
class Task:
    """A rule, its pairs and its prior, with what is given and what is free (None).

    ``center`` says whether what the posterior's weights lack of mass goes to the prior; ``balance`` has
    functions whose means under the prior the weights of the pairs are to keep.
    """

    rule: ModuleType
    X: Array
    Z: Array
    points: Array
    weights: Array
    kernel_x: Kernel
    kernel_z: Kernel
    tune_x: bool
    tune_z: bool
    reg: float | None
    reg_prior: float | None
    target: float
    center: bool = False
    balance: Balance | None = None

    def thin(self, rng: np.random.Generator) -> Task:
        """The same on few enough rows, equal points of the prior as one."""
        rows = _some(len(self.Z), rng)
        points, weights = _distinct(self.points, self.weights)
        mine, weights = _thin_weights(weights, rng)
        fields = vars(self) | {"X": self.X[rows], "Z": self.Z[rows]}
        return Task(**(fields | {"points": points[mine], "weights": weights}))

    def prior(self, cross: Array, rows: Array) -> Prior:
        """The prior seen from these pairs, for ``k(Z, points)`` (n, m)."""
        known: tuple[Any, ...] = ()
        if self.balance is not None:
            known = (self.balance(self.Z[rows]), self.balance.means)
        values = (cross[rows] @ self.weights)[:, None]
        return Prior(values, self.points, self.weights, cross[rows], *known)


def choose_bayes(task: Task, rng: np.random.Generator) -> BayesChoice:
    """First the ratio by its leave-one-out loss, then the rest by the held-out loss of the posterior."""
    with one_blas_thread():
        task = task.thin(rng)
        kernel_z, reg_prior = choose_prior_part(task)
        path: list[tuple[float, float, float]] = []
        features = _embedding_features(task, rng)
        scale = _scale(task)
        folds = rng.permutation(len(task.Z)) % FOLDS
        ratio = _whole_ratio(task, kernel_z, reg_prior)
        flat = FLAT_SQUARED if task.rule.SQUARED else FLAT
        nothing = _loss_without_x(ratio, features[0])
        best: tuple[float, Kernel, float] | None = None
        for multiple in MULTIPLES_X if task.tune_x else (1.0,):
            kernel_x = stretch(task.kernel_x, np.full(task.X.shape[1], multiple))
            regs = np.array([task.reg]) if task.reg is not None else scale * _regularisers(task.rule)
            losses = held_out_losses(task, kernel_x, kernel_z, reg_prior, regs, folds, ratio, features)
            path.extend((float(multiple), float(r), float(v)) for r, v in zip(regs, losses, strict=True))
            enough = min(flat * losses.min(), losses.min() + GAIN * max(nothing - losses.min(), 0.0))
            i = int(np.flatnonzero(losses <= enough)[-1])
            if best is None or losses[i] < best[0]:
                best = (float(losses[i]), kernel_x, float(regs[i]))
    assert best is not None
    score, kernel_x, reg = best
    return BayesChoice(kernel_x, kernel_z, reg, reg_prior, score, np.array(path))


def choose_prior_part(task: Task) -> tuple[Kernel, float]:
    """η and the kernel of z by the leave-one-out loss of the density ratio."""
    if task.reg_prior is not None and not task.tune_z:
        return task.kernel_z, task.reg_prior
    near = covered(task.points, task.Z)
    points, weights = (task.points[near], task.weights[near]) if near.any() else (task.points, task.weights)
    known = _shared(points, task.Z)
    best: tuple[float, Kernel, float] | None = None
    regs = RATIO_REGULARISERS if task.reg_prior is None else np.array([task.reg_prior])
    for multiple in MULTIPLES_Z if task.tune_z else (1.0,):
        kernel = stretch(task.kernel_z, np.full(task.Z.shape[1], multiple))
        features = kulsif.basis(kernel, points, task.Z, np.random.default_rng(0))
        A, B = features.features(points), features.features(task.Z)
        least = LeastSquares(A, weights, B, target=task.target, known=known)
        scores = np.array([least.score(float(r)) for r in regs])
        i = int(scores.argmin())
        if best is None or scores[i] < best[0]:
            best = (float(scores[i]), kernel, float(regs[i]))
    assert best is not None
    return best[1], best[2]


def held_out_losses(
    task: Task,
    kernel_x: Kernel,
    kernel_z: Kernel,
    reg_prior: float,
    regs: Array,
    folds: Array,
    ratio: Array,
    features: tuple[Array, Array],
) -> Array:
    """Mean ``‖φ(zᵢ) − m(xᵢ)‖²`` over held-out pairs for each regulariser, weighted by the ratio."""
    of_pairs, of_prior = features
    K, G = kernel_x(task.X), kernel_z(task.Z)
    cross = kernel_z(task.Z, task.points)
    total = np.zeros(len(regs))
    for fold in range(FOLDS):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        pairs = Pairs(_cut(K, train), _cut(G, train), reg_prior, task.target)
        prior = task.prior(cross, train)
        known = of_prior if task.rule.ON_PRIOR else of_pairs[train]
        for j, reg in enumerate(regs):
            W = task.rule.posterior_weights(pairs, prior, K[np.ix_(train, test)], float(reg))
            W = pairs.completed(prior, W, task.rule.ON_PRIOR) if task.center else W
            total[j] += ratio[test] @ ((of_pairs[test] - W @ known) ** 2).sum(axis=1)
    return total / ratio.sum()


def _cut(K: Array, rows: Array) -> DenseGram:
    return DenseGram(K[np.ix_(rows, rows)])


def _whole_ratio(task: Task, kernel_z: Kernel, reg_prior: float) -> Array:
    gram = DenseGram(None, kernel_z, task.Z)
    prior = task.prior(kernel_z(task.Z, task.points), np.arange(len(task.Z)))
    return Pairs(gram, gram, reg_prior, task.target).truncated(prior)


def _loss_without_x(ratio: Array, features: Array) -> float:
    """The loss of the same answer for every x: that of the weighted pairs."""
    mean = ratio @ features / ratio.sum()
    return float(ratio @ ((features - mean) ** 2).sum(axis=1) / ratio.sum())


def _embedding_features(task: Task, rng: np.random.Generator) -> tuple[Array, Array]:
    """Features of the kernel of z at the pairs and at the prior's points."""
    kernel: Any = NystromKernel.fit(task.kernel_z, uniform_landmarks(task.Z, min(300, len(task.Z)), rng))
    return kernel.features(task.Z), kernel.features(task.points)


def _scale(task: Task) -> float:
    """The regularisers' unit: the mean of k(x, x), squared for a rule with a squared operator."""
    scale = float(np.asarray(task.kernel_x.diag(task.X)).mean())
    return scale**2 if task.rule.SQUARED else scale


def _regularisers(rule: ModuleType) -> Array:
    return REGULARISERS**2 if rule.SQUARED else REGULARISERS


def _distinct(points: Array, weights: Array) -> tuple[Array, Array]:
    """Each point once, in order of appearance, with the weight of all its copies.

    A prior is what its rows say together: written twice it is the same.
    """
    _, first, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(points):
        return points, weights
    order = np.argsort(first)
    return points[first[order]], np.bincount(inverse.ravel(), weights, len(first))[order]


def _shared(points: Array, Z: Array) -> Array:
    """Which points (m, d) are values that several rows of ``Z`` (n, d) have, (m,).

    There the prior is known: how often a value comes is stated, and left out it would be lost.
    """
    seen, counts = np.unique(Z, axis=0, return_counts=True)
    several = {row.tobytes() for row in seen[counts > 1] + 0.0}
    return np.array([row.tobytes() in several for row in points + 0.0], dtype=bool)


def _thin_weights(weights: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Some of the weighted points and their weights, the same on average."""
    if len(weights) <= ROWS:
        return np.arange(len(weights)), weights
    if np.ptp(weights) == 0:
        rows = _some(len(weights), rng)
        return rows, np.full(len(rows), weights.sum() / len(rows))
    # Weights may be concentrated on few points, and of either sign: the large ones are drawn more often.
    size = np.abs(weights)
    rows = rng.choice(len(weights), ROWS, p=size / size.sum())
    return rows, np.sign(weights[rows]) * size.sum() / ROWS


def _some(n: int, rng: np.random.Generator) -> Array:
    return np.arange(n) if n <= ROWS else np.sort(rng.choice(n, ROWS, replace=False))
