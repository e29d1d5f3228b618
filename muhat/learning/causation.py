"""Cause or effect? Embeddings of a pair of variables in either direction, and trees that read them [LMST15].

If x causes y, the law of x and the law of y given x were made without regard to each other, and what is left
of y when its mean (and its scale) given x is taken away often does not depend on x; in the other direction it
does. :func:`direction_features` reads this off embeddings in Fourier features; a classifier that has seen
artificial pairs (:mod:`muhat.learning.causal_pairs`) weighs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from muhat.learning.causal_pairs import standardize

# Of the Fourier features of standardized variables; the first LOW of them are the low ones.
FREQUENCIES = np.array([0.5, 1.0, 1.5, 2.2, 3.2, 4.8, 7.0])
LOW = 3
LANDMARKS, LENGTHSCALE = 14, 0.6  # of the regressions
APART = 1e-9  # landmarks nearer than this are one: tied values differ by rounding, which changes with units
RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)  # of which generalized cross-validation chooses
MOST = 2000  # points that count: as many as in artificial pairs, since no model is right at all n
BOUND = 50.0  # of a feature: logarithms of next to nothing are cut here


def fourier(v: np.ndarray) -> np.ndarray:
    """``[cos(ωᵢv), sin(ωᵢv)]`` less their means, (n, 14)."""
    angles = v[:, None] * FREQUENCIES
    out = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    return out - out.mean(axis=0)


class Smoother:
    """Ridge regression on a: its line and Gaussian bumps at quantiles and even points (n rows, many targets).

    One eigendecomposition serves all targets and ridges; the ridge is that of the least
    ``rss/(1 − df/n)²`` (generalized cross-validation).
    """

    def __init__(self, a: np.ndarray) -> None:
        quantiles = np.quantile(a, np.linspace(0.01, 0.99, LANDMARKS))
        at = np.unique(np.concatenate([quantiles, np.linspace(a.min(), a.max(), LANDMARKS // 2)]))
        at = at[np.append(True, np.diff(at) > APART)]
        B = np.concatenate([a[:, None], np.exp(-((a[:, None] - at) ** 2) / (2 * LENGTHSCALE**2))], axis=1)
        B -= B.mean(axis=0)
        values, V = np.linalg.eigh(B.T @ B / len(a))
        kept = values > 1e-8 * values[-1]
        self.values = values[kept]
        self.Q = B @ (V[:, kept] / np.sqrt(self.values))  # QᵀQ = nI

    def __call__(self, target: np.ndarray) -> np.ndarray:
        """The mean of ``target`` (n,) given a, at the points themselves."""
        n, mean = len(target), target.mean()
        c = self.Q.T @ (target - mean) / n
        total = np.mean((target - mean) ** 2)
        shrinkages = [self.values / (self.values + ridge) for ridge in RIDGES]
        scores = [
            max(total - np.sum((2 * h - h * h) * c * c), 1e-12) / (1 - min((h.sum() + 1) / n, 0.9)) ** 2
            for h in shrinkages
        ]
        return mean + self.Q @ (shrinkages[int(np.argmin(scores))] * c)


def coherence(P: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Squared correlations of features P, R (n, 14) in four bands, of low and high frequencies.

    Each is a normalized HSIC: ``‖C_PR‖²`` with every entry divided by the variances of its two features.
    """
    C = (P.T @ R / len(P)) ** 2
    C /= np.outer((P**2).mean(axis=0) + 1e-3, (R**2).mean(axis=0) + 1e-3)
    m = len(FREQUENCIES)
    low = np.arange(2 * m) % m < LOW
    bands = (low, ~low)
    return np.array([C[np.ix_(p, r)].mean() for p in bands for r in bands])


def shape(v: np.ndarray) -> list[float]:
    """Of a standardized variable: its centre, spread, asymmetry and tails; those of −v are the same."""
    bump = np.exp(-v * v / 2)
    return [
        float(bump.mean() - np.sqrt(0.5)),
        float(np.abs(v).mean() - np.sqrt(2 / np.pi)),
        abs(float(np.mean(v * bump))),
        abs(float(np.mean(np.clip(v, -4, 4) ** 3))),
        float(np.log(np.mean(np.clip(v, -5, 5) ** 4))),
    ]


def entropy(v: np.ndarray) -> float:
    """From spacings of √n order statistics; ties count as a spacing of 1e-3."""
    v, n = np.sort(v), len(v)
    m = max(1, int(np.sqrt(n)))
    return float(np.mean(np.log(np.maximum((v[m:] - v[:-m]) * n / m, 1e-3))))


def direction_features(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the embeddings of a, b and what is left of b given a say of a → b, (k,).

    Signs of a and b, and the order of the points, do not matter.

    Args:
        a, b: (n,) each, standardized.
    """
    n = min(len(a), MOST)
    on_a = Smoother(a)
    f = on_a(b)
    rest = b - f
    deviation = max(float(rest.std()), 1e-6)
    u = rest / deviation
    size = np.log(np.abs(u) + 0.05)
    g = on_a(size)  # logarithm of the scale of the rest given a
    z = u * np.exp(g.mean() - g)
    inner = float(np.log(max(float(z.std()), 1e-6)))
    z = z / np.exp(inner)
    P = fourier(a)
    # Under independence n × HSIC has the same law whatever n is; so its logarithm, three times: of the
    # pair, of the rest under constant scale, and of the rest in units of its scale.
    dependence = [np.log(n * coherence(P, fourier(v)) + 1e-3) for v in (b, u, z)]
    H_a, H_u, H_z = entropy(a), entropy(u), entropy(z)
    logarithm = float(np.log(deviation))
    middle = np.ptp(np.quantile(b, [0.01, 0.99]))
    steps = np.diff(f[np.argsort(a, kind="stable")])
    line = min(float(np.mean(a * b)) ** 2, 0.9999)
    scalars = [
        logarithm,
        float(g.std()),
        float(g.var() / max(float(size.var()), 1e-9)),
        inner,
        logarithm + inner,
        H_u,
        H_z,
        H_a,
        H_a + H_u + logarithm,  # of the pair, if the rest is independent of a
        H_a + H_z + logarithm + inner,  # ... or is so but for its scale
        float(np.log(deviation / max(float(middle), 1e-6))),
        float(on_a(np.clip(u, -4, 4) ** 3).std()),
        float(f.std()),
        abs(float(steps.sum())) / (float(np.abs(steps).sum()) + 1e-9),  # 1: monotone
        float(np.log(1 - line)) - 2 * logarithm,  # what the function explains beyond a line
    ]
    out = np.concatenate([*dependence, scalars, shape(u), shape(a)])
    return np.clip(np.nan_to_num(out), -BOUND, BOUND)


def pair_features(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The features of (x, y) and of (y, x), (2, p).

    For the directions' features A and B: their difference, sum, A and B; log n; |correlation|.
    """
    x, y = standardize(x), standardize(y)
    A, B = direction_features(x, y), direction_features(y, x)
    common = [np.log(min(len(x), MOST)), abs(float(np.mean(x * y)))]
    rows = [np.concatenate([p - q, p + q, p, q, common]) for p, q in ((A, B), (B, A))]
    return np.stack(rows).astype(np.float32)


def features_of(pairs: Iterable[np.ndarray]) -> np.ndarray:
    """The features of pairs (n, 2), stacked: (count, 2, p)."""
    return np.stack([pair_features(pair[:, 0], pair[:, 1]) for pair in pairs])


@dataclass(frozen=True)
class Trees:
    """A sum of regression trees, as arrays.

    Node i sends a row to ``left[i]`` if its ``feature[i]`` is at most ``threshold[i]``, else to ``right[i]``;
    a leaf sends it to itself.

    Attributes:
        feature, threshold, left, right, value: (nodes,).
        roots: (trees,).
        depth: most steps from a root to a leaf.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    roots: np.ndarray
    depth: int

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The sums of the leaves that rows X (n, p) come to, (n,)."""
        rows = np.arange(len(X))[:, None]
        node = np.broadcast_to(self.roots, (len(X), len(self.roots)))
        for _ in range(self.depth):
            ahead = X[rows, self.feature[node]] <= self.threshold[node]
            node = np.where(ahead, self.left[node], self.right[node])
        return self.value[node].sum(axis=1, dtype=np.float64)


def coefficient(F: np.ndarray, trees: Trees, block: int = 1000) -> np.ndarray:
    """The causation coefficients of features (count, 2, p), (count,): positive when x causes y.

    ``½ [h(x, y) − h(y, x)]``: antisymmetric whatever h is.
    """
    out = np.empty(len(F))
    for i in range(0, len(F), block):
        part = F[i : i + block]
        h = trees(part.reshape(-1, F.shape[2])).reshape(-1, 2)
        out[i : i + block] = (h[:, 0] - h[:, 1]) / 2
    return out


def train(F: np.ndarray, labels: np.ndarray, rounds: int, leaves: int, rate: float, seed: int) -> Trees:
    """Boosted trees by logistic loss, from pairs in both orders.

    Args:
        F: features, (count, 2, p).
        labels: 1 where the first variable is the cause, −1 where it is the effect.
        rounds: number of trees.
        leaves: most leaves of a tree.
        rate: of learning.
        seed: of the features that each split may choose from, three in ten.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    y = np.stack([labels, -np.asarray(labels)], axis=1).ravel()
    never: Any = False
    model = HistGradientBoostingClassifier(
        max_iter=rounds,
        max_leaf_nodes=leaves,
        learning_rate=rate,
        min_samples_leaf=min(20, max(1, len(F) // 10)),
        max_features=0.3,
        early_stopping=never,
        random_state=seed,
    )
    return as_trees(model.fit(F.reshape(-1, F.shape[2]), y))


def as_trees(model: Any) -> Trees:
    """The trees of scikit-learn's boosting of two classes, without its intercept."""
    parts, roots, start = [], [], 0
    for (tree,) in model._predictors:  # no public name
        nodes = tree.nodes
        leaf = nodes["is_leaf"].astype(bool)
        itself = np.arange(len(nodes))
        parts.append(
            (
                np.where(leaf, 0, nodes["feature_idx"]),
                np.where(leaf, 0, nodes["num_threshold"]),
                start + np.where(leaf, itself, nodes["left"]),
                start + np.where(leaf, itself, nodes["right"]),
                np.where(leaf, nodes["value"], 0),
                nodes["depth"],
            )
        )
        roots.append(start)
        start += len(nodes)
    feature, threshold, left, right, value, depth = (np.concatenate(v) for v in zip(*parts, strict=True))
    return Trees(
        feature.astype(np.int16),
        threshold.astype(np.float32),
        left.astype(np.int32),
        right.astype(np.int32),
        value.astype(np.float32),
        np.array(roots, dtype=np.int32),
        int(depth.max()),
    )


def together(several: list[Trees]) -> Trees:
    """The mean of several sums of trees, as one."""
    starts = np.cumsum([0, *(len(t.value) for t in several)])[:-1]

    def joined(name: str, moved: bool = False) -> np.ndarray:
        parts = [getattr(t, name) + (start if moved else 0) for t, start in zip(several, starts, strict=True)]
        return np.concatenate(parts).astype(getattr(several[0], name).dtype)

    return Trees(
        joined("feature"),
        joined("threshold"),
        joined("left", True),
        joined("right", True),
        joined("value") / np.float32(len(several)),
        joined("roots", True),
        max(t.depth for t in several),
    )


def weigh(margins: np.ndarray, shares: np.ndarray | None = None) -> np.ndarray:
    """Weights w (k,) for which ``1/(1 + exp(−m w))`` gives margins m (count, k) the greatest posterior.

    Margins are evidence times labels: positive where it spoke for the true direction. There is no intercept:
    a pair and its exchange have probabilities that add up to 1. The prior of a weight is normal with variance
    2 in units of its evidence; without it, evidence that is always right would count without end.

    Args:
        margins: (count, k).
        shares: how much each pair counts, (count,); None for 1 each.
    """
    from scipy.optimize import minimize

    scale = np.sqrt(np.mean(margins**2, axis=0)) + 1e-12
    M, share = margins / scale, np.ones(len(margins)) if shares is None else shares

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        m = M @ w
        return float(share @ np.logaddexp(0, -m) + w @ w / 4), w / 2 - (share * expit(-m)) @ M

    return minimize(loss, np.zeros(M.shape[1]), jac=True, method="BFGS").x / scale
