"""Several regressions on the same inputs, weighted by how well they predict rows that were held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from muhat.learning.feature_ridge import FeatureRidge, GaussianFeatures, median_distance
from muhat.learning.metric import gradient_metric
from muhat.learning.pursuit import line_along, pursue

FOLDS = 5
LANDMARKS = 150  # of kernels of all columns
COLUMN_FEATURES = 200  # of all columns together in sums over columns
FINE_FEATURES = 150
FINE_WIDTH = 7.0  # of narrow kernels, over their number, in units of a column's spread
COLUMN_LENGTHSCALE = 0.7  # of a single column, in units of its spread
# What regularisers are divided by. Two regressions that err in the same places make residuals look dependent;
# the noise that smaller regularisers let in is each side's own.
UNDERSMOOTH = 8.0
TREES: dict[str, Any] = {
    "early_stopping": False,
    "max_iter": 100,
    "max_leaf_nodes": 4,
    "min_samples_leaf": 2,
    "learning_rate": 0.15,
}
LEAF = 3  # rows of a leaf of the pruned tree


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

    @classmethod
    def of(cls, Z: np.ndarray, rng: np.random.Generator) -> Inputs:
        n = len(Z)
        some = rng.permutation(n)[: min(n, LANDMARKS)]
        return cls(Z, rng.permutation(n) % min(FOLDS, n), some, int(rng.integers(1 << 30)))

    @cached_property
    def gaussian(self) -> np.ndarray:
        """Features of all columns together, and the columns."""
        features = GaussianFeatures(self.Z[self.some], median_distance(self.Z))
        return np.hstack([features(self.Z), self.Z / np.sqrt(self.Z.shape[1])])

    @cached_property
    def fine(self) -> np.ndarray:
        """Narrow features of each column, as narrow as their number permits, and the columns."""
        count = max(FINE_FEATURES // self.Z.shape[1], 4)
        return self._by_column(count, FINE_WIDTH / count)

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


# A learner predicts the outputs (t, k) of the rows `asked` from those of the rows `train`.
Learner = Callable[[Inputs, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _ridge(features: np.ndarray, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return FeatureRidge(features[train]).fit(F, UNDERSMOOTH)(features[asked])


def linear(inputs: Inputs, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Ridge regression on the columns."""
    return _ridge(inputs.Z, train, F, asked)


def gaussian(inputs: Inputs, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """A Gaussian kernel of all columns, plus a linear one."""
    return _ridge(inputs.gaussian, train, F, asked)


def additive(inputs: Inputs, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """A sum over columns of Gaussian kernels, plus a linear one."""
    return _ridge(inputs.additive, train, F, asked)


def fine(inputs: Inputs, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """A sum over columns of narrow Gaussian kernels: seasons, and what else is rough in time."""
    return _ridge(inputs.fine, train, F, asked)


def index(inputs: Inputs, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """A function of the direction that a ridge regression finds."""
    slopes = FeatureRidge(inputs.Z[train]).fit(F).coefficients
    return _along(inputs, train, F, asked, list(slopes.T))


def pursuit(inputs: Inputs, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """A function of the direction that follows the residuals, from ridge regression or gradients."""
    Z = inputs.Z[train]
    slopes = FeatureRidge(Z).fit(F).coefficients
    chosen = np.flatnonzero(np.isin(train, inputs.some))
    found: list[np.ndarray | None] = []
    for f, slope in zip(F.T, slopes.T, strict=True):
        root = gradient_metric(Z, f, chosen, rounds=1)
        steepest = np.linalg.svd(root)[0][:, 0]
        found.append(pursue(Z, f - f.mean(), [slope, steepest]))
    return _along(inputs, train, F, asked, found)


def _along(
    inputs: Inputs,
    train: np.ndarray,
    F: np.ndarray,
    asked: np.ndarray,
    directions: Sequence[np.ndarray | None],
) -> np.ndarray:
    """For each output a function of one direction; its mean where there is none."""
    out = np.tile(F.mean(axis=0), (len(asked), 1))
    for j, direction in enumerate(directions):
        line = None if direction is None else line_along(inputs.Z[train], F[:, j], direction, UNDERSMOOTH)
        if line is not None:
            out[:, j] = line.at(inputs.Z[asked])
    return out


def metric(inputs: Inputs, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """A Gaussian kernel in a metric learned from gradients."""
    chosen = np.flatnonzero(np.isin(train, inputs.some))
    Z, out = inputs.Z[train], np.empty((len(asked), F.shape[1]))
    for j in range(F.shape[1]):
        A = inputs.Z @ gradient_metric(Z, F[:, j], chosen)
        features = GaussianFeatures(A[train][chosen], median_distance(A[train]))(A)
        out[:, j] = _ridge(features, train, F[:, [j]], asked)[:, 0]
    return out


def trees(inputs: Inputs, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Boosted trees, for steps of many columns."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    out = np.empty((len(asked), F.shape[1]))
    for j in range(F.shape[1]):
        model = HistGradientBoostingRegressor(random_state=inputs.seed, **TREES)
        model.fit(inputs.Z[train], F[:, j])
        out[:, j] = model.predict(inputs.Z[asked])
    return out


def tree(inputs: Inputs, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """One tree, pruned by an information criterion: clear steps, without the smoothing of many trees."""
    from sklearn.tree import DecisionTreeRegressor

    out, Z, n = np.empty((len(asked), F.shape[1])), inputs.Z[train], len(train)
    for j, f in enumerate(F.T):
        model = DecisionTreeRegressor(min_samples_leaf=LEAF, random_state=inputs.seed)
        path = model.cost_complexity_pruning_path(Z, f)
        alphas, rest = path.ccp_alphas, np.maximum(path.impurities, 1e-12 * max(float(f.var()), 1e-300))
        gone = np.diff(rest) / np.maximum(alphas[1:], 1e-300)  # leaves, at each step of the pruning
        leaves = 1 + np.append(np.cumsum(np.round(gone)[::-1])[::-1], 0.0)
        alpha = alphas[np.argmin(n * np.log(rest) + 2 * np.log(n) * leaves)]
        model.set_params(ccp_alpha=float(alpha) * (1 + 1e-9)).fit(Z, f)
        out[:, j] = model.predict(inputs.Z[asked])
    return out


SHARED: tuple[Learner, ...] = (linear, gaussian, additive)  # whose features serve all outputs
EVERY: tuple[Learner, ...] = (*SHARED, fine, index, metric, pursuit, trees, tree)


def learners_for(inputs: Inputs, every: bool) -> tuple[Learner, ...]:
    """The learners that differ: of one column the sum, the index and the metric are nothing new."""
    if inputs.Z.shape[1] > 1:
        return EVERY if every else SHARED
    return (linear, gaussian, fine, trees, tree) if every else (linear, gaussian, fine)


def of_regressor(regressor: Any) -> Learner:
    """A learner that fits a clone of a scikit-learn regressor to each output."""
    from sklearn.base import clone

    def learn(inputs: Inputs, train: np.ndarray, F: np.ndarray, asked: np.ndarray) -> np.ndarray:
        models: list[Any] = [clone(regressor) for _ in F.T]
        for model, f in zip(models, F.T, strict=True):
            model.fit(inputs.Z[train], f)
        return np.stack([np.asarray(m.predict(inputs.Z[asked])).reshape(-1) for m in models], axis=1)

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
    """
    from scipy.optimize import nnls

    n, k = F.shape
    told = np.empty((len(learners), n, k))
    for fold in range(int(inputs.fold.max()) + 1):
        train, asked = np.flatnonzero(inputs.fold != fold), np.flatnonzero(inputs.fold == fold)
        for i, learner in enumerate(learners):
            told[i, asked] = learner(inputs, train, F[train], asked)
    everything = np.arange(n)
    mean = F.mean(axis=0)
    weights = np.stack([nnls((told[:, :, j] - mean[j]).T, F[:, j] - mean[j])[0] for j in range(k)], axis=1)
    held_out = mean + np.einsum("ik,ijk->jk", weights, told - mean)
    fitted = np.tile(mean, (n, 1))
    for learner, weight in zip(learners, weights, strict=True):
        wanted = np.flatnonzero(weight > 0)
        if len(wanted):
            said = learner(inputs, everything, F[:, wanted], everything)
            fitted[:, wanted] += weight[wanted] * (said - mean[wanted])
    total = np.maximum(weights.sum(axis=0), 1e-12)
    apart = np.einsum("ik,ijk->jk", weights / total, (told - held_out) ** 2)
    left = ((F - held_out) ** 2).mean(axis=0)
    return Stacked(fitted, held_out, apart / np.where(left > 0, left, 1.0))


__all__ = ["EVERY", "Inputs", "Learner", "Stacked", "learners_for", "of_regressor", "stack"]
