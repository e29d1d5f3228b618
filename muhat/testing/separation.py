"""How well two samples can be told apart, row by row: a cross-fitted witness, its AUC, and an interval."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from muhat._tables import Encoder

if TYPE_CHECKING:
    from muhat.testing.row_shares import RowShares

LEVEL = 0.95  # of intervals
Z_SCORE = 1.959964  # the normal quantile that belongs to LEVEL
FOLDS = 5
LANDMARKS = 300  # of the Nyström features of all columns together; a quarter of the rows if these are few
FEW_LANDMARKS = 60  # at least so many: one call on few rows should cost milliseconds
# Under the null the variance of a cross-fitted AUC is up to twice that of an AUC of independent scores: a
# pair of rows that are alike by chance counts once with the one held out and once with the other. Away from
# the null the interval is therefore wider than it must be.
INFLATION = 2.0
FEW_ROWS = 200  # up to this many rows in all, columns are not weighted, and folds are drawn REPEATS times
REPEATS = 3  # so that another seed changes little
SCALES = (0.3, 1.0, 3.0)  # lengthscales in units of the median distance, for detail and for the whole
LEARNING_ROWS = 4000  # rows that weights of columns are learned from
LEARNING_STEPS = 2  # fits whose gradients weight the columns; more changed the AUC by less than 0.005
HATS = 10  # hat functions of a column, at most
ALL_HATS = 100  # of all columns together, about
LEVELS = 32  # categories of a column with a coordinate of their own, the most frequent
# Degrees of freedom count this much more in the choice of the regulariser: plain generalised cross-validation
# overfits small samples; the factor is usual for splines.
PRICE = 1.4
REGULARISERS = np.geomspace(1e-6, 100.0, 17)  # relative to the mean squared length of the features


class Separation(NamedTuple):
    """An AUC with its interval.

    Attributes:
        auc: how often a row of x has a higher score than one of y, ties half.
        interval: of ``auc``, with probability LEVEL.
    """

    auc: float
    interval: tuple[float, float]


def placements(scores: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """AUC of distinct ``scores`` that a rows of x and b rows of y have, and two sums of squares.

    The sums are ``Σᵢ (V(xᵢ) − AUC)²`` and ``Σⱼ (V(yⱼ) − AUC)²`` over placements V: the share of the other
    sample that a row is ranked rightly against [DDC88].
    """
    order = np.argsort(scores, kind="stable")
    a, b = a[order].astype(np.float64), b[order].astype(np.float64)
    n, m = a.sum(), b.sum()
    below = (np.cumsum(b) - 0.5 * b) / m
    above = 1 - (np.cumsum(a) - 0.5 * a) / n
    auc = float(a @ below / n)
    return auc, float(a @ (below - auc) ** 2), float(b @ (above - auc) ** 2)


def combine(parts: list[tuple[float, float, float]], sizes: list[tuple[int, int]]) -> Separation:
    """Mean AUC of folds [LPV15], with an interval.

    The interval is the wider, at each end, of two: that of DeLong, and the score interval of Newcombe, which
    stays honest where few rows leave no spread (AUC 0 or 1). An interval that lies below ½ is that of chance:
    without the rows a witness is wrong more often than not by chance alone, or where they have partners in
    the other sample, which speak against them.
    """
    weights = np.array([n * m for n, m in sizes], dtype=np.float64)
    auc = float(np.array([p[0] for p in parts]) @ weights / weights.sum())
    n, m = (sum(s[i] for s in sizes) for i in (0, 1))
    spread = [sum(p[1 + i] for p in parts) / max(rows - len(parts), 1) / rows for i, rows in ((0, n), (1, m))]
    half = Z_SCORE * float(np.sqrt(INFLATION * sum(spread)))
    low, high = newcombe(auc, n, m)
    low, high = max(min(low, auc - half), 0.0), min(max(high, auc + half), 1.0)
    return Separation(auc, (low, high)) if high >= 0.5 else chance(n, m)


def chance(n: int, m: int) -> Separation:
    """What n and m rows that nothing tells apart show."""
    return Separation(0.5, newcombe(0.5, n, m))


def newcombe(auc: float, n: float, m: float) -> tuple[float, float]:
    """All θ with ``|AUC − θ| ≤ z sd(θ)``, sd that of Hanley and McNeil [NEW06, method 5]."""
    theta = np.linspace(0.0, 1.0, 4001)
    star = (n + m) / 2 - 1
    variance = theta * (1 - theta) / (n * m) * (1 + star * ((1 - theta) / (2 - theta) + theta / (1 + theta)))
    inside = theta[np.abs(auc - theta) <= Z_SCORE * np.sqrt(INFLATION * variance)]
    return (float(inside[0]), float(inside[-1])) if len(inside) else (auc, auc)


@dataclass(frozen=True)
class Coordinates:
    """Rows as points: ranks of numbers, a coordinate for each frequent category.

    Attributes:
        points: (N, q).
        ranks: which of them are ranks of numbers; the others are categories.
    """

    points: np.ndarray
    ranks: np.ndarray


def coordinates(Z: np.ndarray, encoder: Encoder, without: Collection[int] = ()) -> Coordinates:
    """The rows of both samples as points: no label enters, and units of columns do not matter."""
    from scipy.stats import rankdata

    columns, ranks = [], []
    for j in range(Z.shape[1]):
        z = Z[:, j]
        if j in without or (z == z[0]).all():
            continue
        if j in encoder.categories:
            codes, counts = np.unique(z, return_counts=True)
            for code in codes[np.argsort(-counts, kind="stable")][:LEVELS]:
                columns.append((z == code) / np.sqrt(2))  # two categories are at distance 1
                ranks.append(False)
        else:
            columns.append(np.sqrt(12) * ((rankdata(z) - 0.5) / len(z) - 0.5))
            ranks.append(True)
    if not columns:
        return Coordinates(np.zeros((len(Z), 1)), np.zeros(1, dtype=bool))
    return Coordinates(np.stack(columns, axis=1), np.array(ranks))


def canonical_order(P: np.ndarray) -> np.ndarray:
    """An order of the rows that depends on neither the order they came in nor that of the columns."""
    powers = [np.round((P**k).sum(axis=1), 8) for k in (3, 2, 1)]
    return np.lexsort([*np.round(P.T, 8), *powers])


def hat_functions(C: Coordinates) -> np.ndarray:
    """Piecewise linear functions of each rank, linear ones, and the categories, (N, p)."""
    count = int(np.clip(ALL_HATS // max(int(C.ranks.sum()), 1), 2, HATS))
    edge = np.sqrt(3)
    knots = np.linspace(-edge, edge, count)
    width = knots[1] - knots[0]
    out = []
    for column, rank in zip(C.points.T, C.ranks, strict=True):
        if rank:
            out.append(np.maximum(0.0, 1 - np.abs(column[:, None] - knots) / width))
        else:
            out.append(column[:, None])
    return np.hstack([*out, C.points])  # and linear functions


class Ridge:
    """``w = (ΦᵀDΦ + λI)⁻¹ ΦᵀDy`` with y = ±1 and rows weighted so that both samples count the same.

    λ has the least generalised cross-validation error.
    """

    def __init__(
        self, Phi: np.ndarray, first: np.ndarray, rising: int = 0, shares: np.ndarray | None = None
    ) -> None:
        """The last ``rising`` features get no negative weight: those that would are left out.

        ``shares`` (n,) are weights of rows within their sample.
        """
        self.mean, self.weights = np.zeros(Phi.shape[1]), np.zeros(Phi.shape[1])
        kept = np.arange(Phi.shape[1])
        while True:
            used = Phi if len(kept) == Phi.shape[1] else Phi[:, kept]
            self.mean[kept], self.weights[kept] = self._solve(used, first, shares)
            falling = (self.weights < 0) & (np.arange(len(self.weights)) >= len(self.weights) - rising)
            if not falling.any():
                return
            self.weights[falling] = 0.0
            kept = kept[~falling[kept]]

    @staticmethod
    def _solve(
        Phi: np.ndarray, first: np.ndarray, shares: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means of the features, and their weights."""
        n, m = int(first.sum()), int((~first).sum())
        D = np.where(first, 0.5 / n, 0.5 / m)
        if shares is not None:
            D = 0.5 * shares / np.where(first, shares[first].sum(), shares[~first].sum())
        y = np.where(first, 1.0, -1.0)
        mean = D @ Phi
        Phi = Phi - mean
        s, U = np.linalg.eigh((Phi * D[:, None]).T @ Phi)
        s = np.maximum(s, 0.0)
        b = U.T @ (Phi.T @ (D * y))
        total = float(s.sum()) or 1.0
        best = np.inf
        weights = np.zeros(Phi.shape[1])
        for reg in REGULARISERS * total:
            w = b / (s + reg)
            loss = 1 - 2 * b @ w + (s * w) @ w
            degrees = float((s / (s + reg)).sum())
            used = PRICE * (degrees + 1) / (n + m)
            if used >= 1:
                continue
            score = loss / (1 - used) ** 2
            if score < best * (1 - 1e-9):
                best, weights = score, U @ w
        return mean, weights

    def __call__(self, Phi: np.ndarray) -> np.ndarray:
        return (Phi - self.mean) @ self.weights


class Landmarks:
    """Nyström features of a mean of Gaussian kernels over weighted coordinates.

    Args:
        points: the landmarks, (p, q).
        weights: of the coordinates, (q,).
    """

    def __init__(self, points: np.ndarray, weights: np.ndarray) -> None:
        from scipy.spatial.distance import pdist

        self.weights, self.points = weights, points * weights
        distances = pdist(self.points)
        distances = distances[distances > 0]
        median = float(np.median(distances)) if len(distances) else 1.0
        self.lengths = [c * median for c in SCALES]
        values, vectors = np.linalg.eigh(sum(self._kernels(self.points)))
        kept = values > 1e-8 * values[-1]
        self.root = vectors[:, kept] / np.sqrt(values[kept])

    def _kernels(self, P: np.ndarray) -> list[np.ndarray]:
        squares = (P**2).sum(axis=1)[:, None] + (self.points**2).sum(axis=1) - 2 * P @ self.points.T
        squares = np.maximum(squares, 0.0)
        return [np.exp(squares * (-0.5 / length**2)) for length in self.lengths]

    def __call__(self, P: np.ndarray) -> np.ndarray:
        return sum(self._kernels(P * self.weights)) @ self.root

    def relevance(self, P: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Root mean square of the derivatives of a function in each coordinate, (q,)."""
        P, alpha = P * self.weights, self.root @ coefficients
        gradient = np.zeros_like(P)
        for K, length in zip(self._kernels(P), self.lengths, strict=True):
            A = K * alpha
            gradient += (A @ self.points - A.sum(axis=1, keepdims=True) * P) / length**2
        return np.sqrt(((gradient * self.weights) ** 2).mean(axis=0))


def separation(
    x: np.ndarray,
    y: np.ndarray,
    encoder: Encoder,
    rng: np.random.Generator,
    without: Collection[int] = (),
    rows_like: RowShares | None = None,
) -> Separation:
    """The AUC of a regularised witness on rows that had no part in it, with its interval.

    The witness is a ridge regression of the label on Nyström features of all columns together, on hat
    functions of each, and on how frequent each category is in either sample where there are many. With many
    rows the columns are first weighted by the gradients of a fit [RBPB24]. It is made on four fifths
    of the rows and ranks the others, five times.

    Args:
        x, y: rows of the samples as numbers.
        encoder: how they became numbers.
        rng: that folds and landmarks are drawn with.
        without: columns that take no part.
        rows_like: weights and groups of rows; None if rows are independent and count the same.
    """
    n, m = len(x), len(y)
    C = coordinates(np.concatenate([x, y]), encoder, without)
    if rows_like is None and _equal(C.points, n):
        # Held out, a row would be told by its copy, which speaks against it: AUCs below ½ that mean nothing.
        return chance(n, m)
    few = n + m <= FEW_ROWS
    order = canonical_order(C.points)
    places = np.empty(n + m, dtype=np.int64)
    places[order] = np.arange(n + m)
    count = min(n + m, int(np.clip((n + m) // 4, FEW_LANDMARKS, LANDMARKS)))
    landmarks = C.points[order[np.sort(rng.choice(n + m, count, replace=False))]]
    landmarks = np.unique(landmarks, axis=0)
    hats = hat_functions(C)
    hats = hats / np.sqrt((hats**2).sum() / len(hats) or 1.0)
    first = np.arange(n + m) < n
    many = _many_levels(np.concatenate([x, y]), encoder, without)
    folds = min(FOLDS, n, m)
    sides = first, ~first
    if rows_like is not None:
        sides = first & (rows_like.weights > 0), ~first & (rows_like.weights > 0)
        folds = min(FOLDS, *(len(np.unique(rows_like.units[side])) for side in sides))
    plain = None
    results = []
    for _ in range(REPEATS if few else 1):
        keys = rng.permutation(n + m)[places]  # a random order, the same for the same rows
        fold = _folds(keys, first, folds) if rows_like is None else rows_like.folds(keys, first, folds)
        parts, sizes = [], []
        for k in range(folds):
            held = fold == k
            if not all((side & part).any() for side in sides for part in (held, ~held)):
                continue  # whole groups may leave a sample out
            if few:
                plain = (
                    _features(landmarks, np.ones(C.points.shape[1]), C.points, hats)
                    if plain is None
                    else plain
                )
                Phi = plain
            else:
                weights = _column_weights(landmarks, C.points[~held], first[~held], keys[~held])
                Phi = _features(landmarks, weights, C.points, hats)
            if many:
                Phi = np.column_stack([Phi, *(level_rates(codes, first, ~held, keys) for codes in many)])
            # What is more frequent in x can speak for x alone: a falling weight would make an effect of the
            # partners in the other sample, which stay when a row is held out.
            shares = None if rows_like is None else rows_like.weights[~held]
            scores = Ridge(Phi[~held], first[~held], len(many), shares)(Phi[held])
            # Scores that differ by rounding alone are tied.
            scores = np.round(scores / (np.abs(scores).max() or 1.0), 9)
            if rows_like is not None:
                parts.append(rows_like.part(scores, held, first))
                continue
            distinct, at = np.unique(scores, return_inverse=True)
            a = np.bincount(at[first[held]], minlength=len(distinct))
            b = np.bincount(at[~first[held]], minlength=len(distinct))
            parts.append(placements(distinct, a, b))
            sizes.append((int(a.sum()), int(b.sum())))
        results.append(combine(parts, sizes) if rows_like is None else rows_like.combine(parts))
    auc, low, high = np.mean([(r.auc, *r.interval) for r in results], axis=0)
    return Separation(float(auc), (float(low), float(high)))


def _many_levels(Z: np.ndarray, encoder: Encoder, without: Collection[int]) -> list[np.ndarray]:
    """Codes of the categories that have more levels than coordinates, (N,) each."""
    columns = sorted(set(encoder.categories) - set(without))
    codes = [np.unique(Z[:, j], return_inverse=True)[1].reshape(-1) for j in columns]
    return [c for c in codes if c.max() >= LEVELS]


def level_rates(codes: np.ndarray, first: np.ndarray, train: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """For each row how much more frequent its category is in x than in y, from −1 to 1, (N,).

    Of a training row it is told by the other half of the training rows: its own label has no part in it.

    Args:
        codes: of the category, (N,), from 0 on.
        first: rows of x, (N,).
        train: rows whose labels are known, (N,).
        keys: that the halves are drawn by, (N,).
    """
    half = np.argsort(np.argsort(keys)) % 2 == 0
    out = np.zeros(len(codes))
    for rows, told in ((~train, train), (train & half, train & ~half), (train & ~half, train & half)):
        sizes = [max(int((told & side).sum()), 1) for side in (first, ~first)]
        a, b = (
            np.bincount(codes[told & side], minlength=codes.max() + 1) / size
            for side, size in zip((first, ~first), sizes, strict=True)
        )
        # One row more on each side draws what few rows tell to 0.
        rate = (a - b) / (a + b + 1 / sizes[0] + 1 / sizes[1])
        out[rows] = rate[codes[rows]]
    return out


def _equal(P: np.ndarray, n: int) -> bool:
    """Whether the first n rows are the others, in whatever order."""
    if 2 * n != len(P):
        return False
    a, b = (np.round(part, 8) for part in (P[:n], P[n:]))
    return bool((a[np.lexsort(a.T)] == b[np.lexsort(b.T)]).all())


def _folds(keys: np.ndarray, first: np.ndarray, folds: int) -> np.ndarray:
    """The fold of every row, as many rows of each sample in each."""
    out = np.empty(len(keys), dtype=np.int64)
    for side in (first, ~first):
        rows = np.flatnonzero(side)
        out[rows[np.argsort(keys[rows])]] = np.arange(len(rows)) % folds
    return out


def _features(landmarks: np.ndarray, weights: np.ndarray, P: np.ndarray, hats: np.ndarray) -> np.ndarray:
    joint = Landmarks(landmarks, weights)(P)
    return np.hstack([joint / np.sqrt(len(SCALES)), hats])


def _column_weights(landmarks: np.ndarray, P: np.ndarray, first: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Weights of coordinates by the gradients of fits, recursively [RBPB24]."""
    some = np.argsort(keys)[:LEARNING_ROWS]
    P, first = P[some], first[some]
    weights = np.ones(P.shape[1])
    if P.shape[1] == 1 or first.all() or not first.any():
        return weights
    for _ in range(LEARNING_STEPS):
        features = Landmarks(landmarks, weights)
        fit = Ridge(features(P), first)
        relevance = features.relevance(P, fit.weights)
        if not relevance.max() > 0:
            return weights
        # A coordinate never vanishes: a relation of columns may show once others weigh less.
        weights = np.maximum(np.sqrt(relevance / relevance.max() * weights / weights.max()), 0.05)
    return weights


__all__ = ["LEVEL", "Separation", "chance", "combine", "placements", "separation"]
