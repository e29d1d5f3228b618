"""What z leaves of x and y, by stacked regressions; and whether the two regressions err in the same places.

With e = (x − m(z))/s(z) for each side apart, x → e is one-to-one given z: x and y are independent given z
exactly if the e are [PH21]. The regressions m and s are never right; a test of the residuals is wrong only by
the *product* of both sides' errors [SP20]. That product can be looked at: where x is predicted too low and y
too low at neighbouring z, residuals of *different* rows go together, which noise alone never does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from muhat._tables import Encoder
from muhat.learning.feature_ridge import GaussianFeatures, median_distance
from muhat.learning.stacked import Inputs, Learner, learners_for, stack
from muhat.testing.aggregate import fuse, normal_scores
from muhat.testing.kci import forms_of, term_multipliers
from muhat.testing.restricted import Design

TAIL = 3.0  # robust standard deviations within which numbers stay as they are
RANK = 30  # features of residuals
LANDMARKS = 100
CLIP = 0.005  # share of predicted spreads, at either end, that are taken for those within
PREDICTED = 0.95  # share of held-out rows' variance, from which on z may determine a variable
HELPS = 2.0  # standard errors by which a second regression must be better to be used
MANY_ROWS, FEW, FEW_NEAR = (
    3000,
    10,
    30,
)  # beyond so many rows, so few leading features of e and of z go together
DOUBT = 4.0  # what disagreement counts for, in weights of rows


def tame_columns(A: np.ndarray, encoder: Encoder) -> np.ndarray:
    """Numbers with their tails drawn in, indicators of categories, of mean 0 and variance 1, (n, k).

    Within TAIL robust standard deviations of the median a number stays as it is, beyond it goes on by its
    logarithm. Ranks would not do: they bend a line at random, x and y alike where z moves both.
    """
    out = []
    for j, a in enumerate(A.T):
        if j in encoder.categories:
            out.append((a[:, None] == np.unique(a)).astype(np.float64))
            continue
        quartiles = np.quantile(a, [0.25, 0.75])
        unit = float(quartiles[1] - quartiles[0]) / 1.349 or float(a.std()) or 1.0
        u = (a - np.median(a)) / unit
        far = np.maximum(np.abs(u) - TAIL, 0.0)
        out.append((np.sign(u) * (np.minimum(np.abs(u), TAIL) + np.log1p(far)))[:, None])
    return standardised(np.hstack(out))


def standardised(F: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1, without those that are constant."""
    F = F - F.mean(axis=0)
    sd = F.std(axis=0)
    return F[:, sd > 1e-9] / sd[sd > 1e-9]


@dataclass(frozen=True)
class Side:
    """One variable less what z says of it.

    Attributes:
        residuals: e, (n, k).
        features: Gaussian features of e, less what z still says of them, (n, p).
        held_out: e and its features by regressions that did not see the row.
        predicted: m(z) by these regressions, (n, k).
        explained: share of the variance of each column that z explains, on held-out rows, (k,).
        left: share of the variance that is left of rows that the regressions saw; 1 where z is far from
            determining the columns.
        doubt: how far the regressions are apart at each row, in variances of what is left, (n,).
    """

    residuals: np.ndarray
    features: np.ndarray
    held_out: tuple[np.ndarray, np.ndarray]
    predicted: np.ndarray
    explained: np.ndarray
    left: float
    doubt: np.ndarray


def sure(sides: tuple[Side, Side]) -> np.ndarray:
    """Weights of rows, (n,): less where the regressions of either side disagree.

    There they are most likely wrong, beyond the data and beside steps. A function of z may weigh the rows,
    since under the null the residuals have mean 0 at every z.
    """
    return 1 / (1 + DOUBT * (sides[0].doubt + sides[1].doubt))


def weighted(F: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rows of ``F`` (n, p), centred and multiplied by their weights (n,)."""
    return weights[:, None] * (F - weights @ F / weights.sum())


def residuals_of(
    T: np.ndarray, inputs: Inputs, rng: np.random.Generator, learner: Learner | None = None
) -> Side:
    """Residuals of the columns ``T`` (n, k) given z, in units of their spread, and features of them."""
    every = learners_for(inputs, every=True) if learner is None else (learner,)
    few = learners_for(inputs, every=False)
    m = stack(inputs, T, every)
    # By a regressor of the user's own, that may follow each row that it saw, only held-out residuals count.
    seen = T - (m.fitted if learner is None else m.held_out)
    apart = T - m.held_out
    explained = 1 - (apart**2).mean(axis=0) / (T**2).mean(axis=0)
    # What regressions follow of rows that they saw counts only where they predict others, too.
    left = float((seen**2).mean() / (T**2).mean()) if explained.mean() > PREDICTED else 1.0
    scale = _spread(apart, inputs, few)
    e, held = (standardised_as(part / scale, apart / scale) for part in (seen, apart))
    e, held = _again(e, held, inputs, few)
    features = _features(held, rng)
    F, G = features(e), features(held)
    F, G = _again(F, G, inputs, few)
    return Side(e - e.mean(axis=0), F, (held, G), m.held_out, explained, left, m.doubt.mean(axis=1))


def standardised_as(e: np.ndarray, like: np.ndarray) -> np.ndarray:
    """``e`` about its mean, in units of the spread of ``like``."""
    sd = like.std(axis=0)
    return (e - e.mean(axis=0)) / np.where(sd > 1e-12, sd, 1.0)


def _spread(e: np.ndarray, inputs: Inputs, learners: tuple[Learner, ...]) -> np.ndarray:
    """s(z) of each column, (n, k): a regression of log|e|, or 1 where that does not help."""
    size = np.abs(e)
    logs = np.log(size + 0.05 * np.median(size, axis=0) + 1e-9)
    said = stack(inputs, logs, learners)
    told, fitted = (part - said.held_out.mean(axis=0) for part in (said.held_out, said.fitted))
    ends = np.quantile(told, [CLIP, 1 - CLIP], axis=0)
    told, fitted = (np.exp(np.clip(part, *ends)) for part in (told, fitted))
    unit, scaled = np.sqrt((e**2).mean(axis=0)), np.sqrt(((e / told) ** 2).mean(axis=0))
    unit, scaled = np.maximum(unit, 1e-12), np.maximum(scaled, 1e-12)
    plain = np.log(unit) + e**2 / (2 * unit**2)
    better = np.log(scaled * told) + (e / (scaled * told)) ** 2 / 2
    return np.where(_helps(plain, better), fitted, 1.0)


def _again(
    F: np.ndarray, held: np.ndarray, inputs: Inputs, learners: tuple[Learner, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals and held-out residuals less what z still says of them, where that helps."""
    said = stack(inputs, held, learners)
    helps = _helps(held**2, (held - said.held_out) ** 2)
    F, held = np.where(helps, F - said.fitted, F), np.where(helps, held - said.held_out, held)
    return F - F.mean(axis=0), held - held.mean(axis=0)


def _helps(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Which columns of losses are lower after, beyond chance, (k,)."""
    gain = before - after
    return gain.mean(axis=0) > HELPS * gain.std(axis=0) / np.sqrt(len(gain))


def _features(e: np.ndarray, rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """A function from residuals (m, k) to principal Gaussian features of those of ``e``, (m, p)."""
    some = e[rng.permutation(len(e))[:LANDMARKS]]
    kernel = GaussianFeatures(some, median_distance(e))
    P = kernel(e)
    mean = P.mean(axis=0)
    values, vectors = np.linalg.eigh((P - mean).T @ (P - mean) / len(P))
    order = np.argsort(-values)[:RANK]
    order = order[values[order] > 1e-4 * values.max()]
    return lambda points: (kernel(points) - mean) @ vectors[:, order]


def four_forms(
    sides: tuple[Side, Side],
    inputs: Inputs,
    draws: int,
    rng: np.random.Generator,
    design: Design | None = None,
) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """The statistic and its null, (1 + draws,), and the pairs of residuals that it looks at.

    Residuals and their Gaussian features, each over all rows and near to each other in z.
    """
    n = len(inputs.Z)
    W = term_multipliers(n, draws, rng, design)
    near = GaussianFeatures(inputs.Z[inputs.some], median_distance(inputs.Z))(inputs.Z)
    if n > MANY_ROWS:
        near = near[:, -FEW_NEAR:]
    weights, values = sure(sides), []
    U, V, P, Q = (
        weighted(F if design is None else design.centre(F), weights)
        for F in (*(s.residuals for s in sides), *(s.features for s in sides))
    )
    pairs = [(U, V), (P, Q)]
    for pair in pairs:
        leading = pair if n <= MANY_ROWS else (pair[0][:, :FEW], pair[1][:, :FEW])
        values += [forms_of(W, *pair), forms_of(W, *leading, near)]
    return fuse(normal_scores(np.stack(values)), np.full(len(values), 1 / len(values))), pairs


__all__ = [
    "Side",
    "four_forms",
    "residuals_of",
    "sure",
    "tame_columns",
    "weighted",
]
