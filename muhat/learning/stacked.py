"""Several regressions on the same inputs, weighted by how well they predict rows that were held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from muhat.learning.feature_ridge import FeatureRidge, GaussianFeatures, median_distance
from muhat.learning.metric import gradient_metric, metric_root
from muhat.learning.pursuit import line_along, pursue, scan

FOLDS = 5
LANDMARKS = 150  # of kernels of all columns
COLUMN_FEATURES = 200  # of all columns together in sums over columns
FINE, FINE_FEATURES = 35, 150  # narrow features of a column, and of all columns, at most
SPAN = 7.0  # lengthscale of narrow kernels times their number, in units of a column's spread
COLUMN_LENGTHSCALE = 0.7  # of a single column, in units of its spread
# What regularisers are divided by. Two regressions that err in the same places make residuals look dependent;
# the noise that smaller regularisers let in is each side's own.
UNDERSMOOTH = 8.0
TREES: dict[str, Any] = {
    "early_stopping": False,
    "max_leaf_nodes": 4,
    "min_samples_leaf": 2,
    "learning_rate": 0.15,
}
SOME, MANY = 100, 200  # boosted trees that predict best, and that follow every step
# Where trees have this share of the weights, and z explains this share of the output, there are steps. Both
# were set on designs with n = 200: with steps the trees' share is .4 to .7, without at most .2.
SHARP, EXPLAINED = 0.35, 0.3
LEAF = 3  # rows of a leaf of the pruned tree
METRIC_ROUNDS = 1  # regressions in a learned metric that improve it, after the first


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to predict.

    Attributes:
        number: of the fold that is held out; -1 where nothing is.
        train: rows to learn from.
        asked: rows to predict.
    """

    number: int
    train: np.ndarray
    asked: np.ndarray


@dataclass(frozen=True)
class Inputs:
    """Inputs of the regressions: columns in comparable units, (n, d), and how rows are held out.

    Attributes:
        Z: (n, d).
        fold: of each row, (n,).
        some: rows that serve as landmarks.
        seed: of trees.
    """

    Z: np.ndarray
    fold: np.ndarray
    some: np.ndarray
    seed: int
    _ridges: dict[tuple[str, int], FeatureRidge] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, Z: np.ndarray, rng: np.random.Generator) -> Inputs:
        n = len(Z)
        some = rng.permutation(n)[: min(n, LANDMARKS)]
        return cls(Z, rng.permutation(n) % min(FOLDS, n), some, int(rng.integers(1 << 30)))

    @cached_property
    def splits(self) -> list[Split]:
        """Each fold held out in turn."""
        numbers = range(int(self.fold.max()) + 1)
        return [Split(k, np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k)) for k in numbers]

    @cached_property
    def whole(self) -> Split:
        """Every row learned from and predicted."""
        rows = np.arange(len(self.Z))
        return Split(-1, rows, rows)

    def ridge(self, features: str, split: Split) -> FeatureRidge:
        """The factored ridge on features of this name, made once for all outputs."""
        key = features, split.number
        if key not in self._ridges:
            self._ridges[key] = FeatureRidge(getattr(self, features)[split.train])
        return self._ridges[key]

    @cached_property
    def kernel(self) -> GaussianFeatures:
        """A Gaussian kernel of all columns."""
        return GaussianFeatures(self.Z[self.some], median_distance(self.Z))

    @cached_property
    def curved(self) -> np.ndarray:
        """Features of all columns together."""
        return self.kernel(self.Z)

    @cached_property
    def gaussian(self) -> np.ndarray:
        """Features of all columns together, and the columns."""
        return np.hstack([self.curved, self.Z / np.sqrt(self.Z.shape[1])])

    @cached_property
    def fine(self) -> np.ndarray:
        """Narrow features of each column, if their number permits, and the columns."""
        count = int(np.clip(FINE_FEATURES // self.Z.shape[1], 4, FINE))
        return self._by_column(count, SPAN / count)

    @cached_property
    def finest(self) -> np.ndarray:
        """Of one column features as narrow as their number permits, and the column."""
        return self._by_column(FINE_FEATURES, SPAN / FINE_FEATURES)

    @cached_property
    def additive(self) -> np.ndarray:
        """Features of each column, and the columns."""
        return self._by_column(int(np.clip(COLUMN_FEATURES // self.Z.shape[1], 4, 12)), COLUMN_LENGTHSCALE)

    def _by_column(self, count: int, lengthscale: float) -> np.ndarray:
        parts = []
        for z in self.Z.T:
            knots = np.unique(np.quantile(z, np.linspace(0.01, 0.99, count)))
            if len(np.unique(z)) > 2:
                parts.append(GaussianFeatures(knots[:, None], lengthscale)(z[:, None]))
        return np.hstack([*parts, self.Z]) / np.sqrt(self.Z.shape[1])


# A learner predicts the outputs (t, k) of the rows that are asked from those of the rows to learn from.
Learner = Callable[[Inputs, Split, np.ndarray], np.ndarray]


def _ridge(features: str) -> Learner:
    """Ridge regression on the features of this name."""

    def learn(inputs: Inputs, split: Split, F: np.ndarray) -> np.ndarray:
        fit = inputs.ridge(features, split).fit(F, UNDERSMOOTH)
        return fit(getattr(inputs, features)[split.asked])

    return learn


linear = _ridge("Z")
gaussian = _ridge("gaussian")
additive = _ridge("additive")
fine = _ridge("fine")  # seasons, and what else is rough in a column
finest = _ridge("finest")


def index(inputs: Inputs, split: Split, F: np.ndarray) -> np.ndarray:
    """A function of the direction that a ridge regression finds."""
    slopes = inputs.ridge("Z", split).fit(F).coefficients
    return _along(inputs, split, F, list(slopes.T))


def first_metric(inputs: Inputs, split: Split, f: np.ndarray) -> np.ndarray:
    """A root of the metric from the gradients of one kernel regression, (d, d)."""
    fit = inputs.ridge("curved", split).fit(f[:, None])
    return metric_root(inputs.kernel.gradient(inputs.Z[split.train], fit.coefficients[:, 0]))


def pursuit(inputs: Inputs, split: Split, F: np.ndarray) -> np.ndarray:
    """A function of the direction that follows the residuals, from ridge regression, gradients or a scan."""
    Z = inputs.Z[split.train]
    rng = np.random.default_rng([inputs.seed, split.number + 1])
    slopes = inputs.ridge("Z", split).fit(F).coefficients
    found: list[np.ndarray | None] = []
    for f, slope in zip(F.T, slopes.T, strict=True):
        steepest = np.linalg.svd(first_metric(inputs, split, f))[0][:, 0]
        found.append(pursue(Z, f - f.mean(), [slope, steepest, scan(Z, f, rng)]))
    return _along(inputs, split, F, found)


def _along(
    inputs: Inputs, split: Split, F: np.ndarray, directions: Sequence[np.ndarray | None]
) -> np.ndarray:
    """For each output a function of one direction; its mean where there is none."""
    Z = inputs.Z[split.train]
    out = np.tile(F.mean(axis=0), (len(split.asked), 1))
    for j, direction in enumerate(directions):
        line = None if direction is None else line_along(Z, F[:, j], direction, UNDERSMOOTH)
        if line is not None:
            out[:, j] = line.at(inputs.Z[split.asked])
    return out


def metric(inputs: Inputs, split: Split, F: np.ndarray) -> np.ndarray:
    """A Gaussian kernel in a metric learned from gradients."""
    train = split.train
    chosen = train[np.isin(train, inputs.some)]
    out = np.empty((len(split.asked), F.shape[1]))
    for j, f in enumerate(F.T):
        root = first_metric(inputs, split, f)
        root = gradient_metric(inputs.Z[train], f, inputs.Z[chosen], METRIC_ROUNDS, root)
        A = inputs.Z @ root
        features = GaussianFeatures(A[chosen], median_distance(A[train]))
        fit = FeatureRidge(features(A[train])).fit(f[:, None], UNDERSMOOTH)
        out[:, j] = fit(features(A[split.asked]))[:, 0]
    return out


def trees(inputs: Inputs, split: Split, F: np.ndarray) -> np.ndarray:
    """Boosted trees, for steps of many columns."""
    return _boosted(inputs, split, F, SOME)


def _boosted(inputs: Inputs, split: Split, F: np.ndarray, count: int) -> np.ndarray:
    from sklearn.ensemble import HistGradientBoostingRegressor

    out = np.empty((len(split.asked), F.shape[1]))
    for j in range(F.shape[1]):
        model = HistGradientBoostingRegressor(random_state=inputs.seed, max_iter=count, **TREES)
        model.fit(inputs.Z[split.train], F[:, j])
        out[:, j] = model.predict(inputs.Z[split.asked])
    return out


def many_trees(inputs: Inputs, split: Split, F: np.ndarray) -> np.ndarray:
    """Boosted trees that go on for longer than predicts best: they follow every step."""
    return _boosted(inputs, split, F, MANY)


def tree(inputs: Inputs, split: Split, F: np.ndarray) -> np.ndarray:
    """One tree, pruned by an information criterion: clear steps, without the smoothing of many trees."""
    from sklearn.tree import DecisionTreeRegressor

    Z, n = inputs.Z[split.train], len(split.train)
    out = np.empty((len(split.asked), F.shape[1]))
    for j, f in enumerate(F.T):
        model = DecisionTreeRegressor(min_samples_leaf=LEAF, random_state=inputs.seed)
        path = model.cost_complexity_pruning_path(Z, f)
        alphas, rest = path.ccp_alphas, np.maximum(path.impurities, 1e-12 * max(float(f.var()), 1e-300))
        gone = np.diff(rest) / np.maximum(alphas[1:], 1e-300)  # leaves, at each step of the pruning
        leaves = 1 + np.append(np.cumsum(np.round(gone)[::-1])[::-1], 0.0)
        alpha = alphas[np.argmin(n * np.log(rest) + 2 * np.log(n) * leaves)]
        model.set_params(ccp_alpha=float(alpha) * (1 + 1e-9)).fit(Z, f)
        out[:, j] = model.predict(inputs.Z[split.asked])
    return out


SHARED: tuple[Learner, ...] = (linear, gaussian, additive)  # whose features serve all outputs
EVERY: tuple[Learner, ...] = (*SHARED, fine, index, metric, pursuit, trees, tree)


def learners_for(inputs: Inputs, every: bool) -> tuple[Learner, ...]:
    """The learners that differ: of one column the sum, the index and the metric are nothing new."""
    if inputs.Z.shape[1] > 1:
        return EVERY if every else SHARED
    return (linear, gaussian, fine, finest, trees, tree) if every else (linear, gaussian, fine)


def of_regressor(regressor: Any) -> Learner:
    """A learner that fits a clone of a scikit-learn regressor to each output."""
    from sklearn.base import clone

    def learn(inputs: Inputs, split: Split, F: np.ndarray) -> np.ndarray:
        models: list[Any] = [clone(regressor) for _ in F.T]
        for model, f in zip(models, F.T, strict=True):
            model.fit(inputs.Z[split.train], f)
        asked = inputs.Z[split.asked]
        return np.stack([np.asarray(m.predict(asked)).reshape(-1) for m in models], axis=1)

    return learn


@dataclass(frozen=True)
class Stacked:
    """What the stack says of the outputs.

    Attributes:
        fitted: by learners that saw the row, (n, k).
        held_out: by learners that did not, (n, k).
        doubt: how far these learners are apart, by the mean square, in variances of what is left, (n, k).
    """

    fitted: np.ndarray
    held_out: np.ndarray
    doubt: np.ndarray


def stack(inputs: Inputs, F: np.ndarray, learners: tuple[Learner, ...]) -> Stacked:
    """Regressions of ``F`` (n, k): learners weighted by non-negative least squares on held-out rows.

    Rows that are held out are near the edge of what the learners know, and both sides of a test err there
    together: so residuals are those of learners that saw the row, weighted by what they predict without it.
    Only their bias can mislead a test, since the noise that they follow is each side's own. So they follow
    too much rather than too little: where there are steps, which smooth learners blur, trees alone are taken,
    and many.
    """
    from scipy.optimize import nnls

    n, k = F.shape
    told = np.empty((len(learners), n, k))
    for split in inputs.splits:
        for i, learner in enumerate(learners):
            told[i, split.asked] = learner(inputs, split, F[split.train])
    mean = F.mean(axis=0)
    weights = np.stack([nnls((told[:, :, j] - mean[j]).T, F[:, j] - mean[j])[0] for j in range(k)], axis=1)
    held_out = mean + np.einsum("ik,ijk->jk", weights, told - mean)
    left = ((F - held_out) ** 2).mean(axis=0)
    total = np.maximum(weights.sum(axis=0), 1e-12)
    of_trees = weights[[learner in (trees, tree) for learner in learners]].sum(axis=0) / total
    sharp = (of_trees >= SHARP) & (left < (1 - EXPLAINED) * F.var(axis=0))
    fitted = np.tile(mean, (n, 1))
    if sharp.any():
        fitted[:, sharp] = many_trees(inputs, inputs.whole, F[:, sharp])
    for learner, weight in zip(learners, weights, strict=True):
        wanted = np.flatnonzero((weight > 0) & ~sharp)
        if len(wanted):
            said = learner(inputs, inputs.whole, F[:, wanted])
            fitted[:, wanted] += weight[wanted] * (said - mean[wanted])
    apart = np.einsum("ik,ijk->jk", weights / total, (told - held_out) ** 2)
    return Stacked(fitted, held_out, apart / np.where(left > 0, left, 1.0))


__all__ = ["EVERY", "Inputs", "Learner", "Stacked", "learners_for", "of_regressor", "stack"]
