"""Which of two variables is the cause? A classifier of samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np
from scipy.special import expit

from muhat._validation import as_generator, check_choice, check_count, check_positive, check_share
from muhat.learning.causal_pairs import Generator, synthetic_pair
from muhat.learning.causation import Trees, coefficient, features_of, together, train, weigh
from muhat.learning.code_length import code_evidence
from muhat.models.base import Estimator

SHIPPED = "causation.npz"
PARTS = ("feature", "threshold", "left", "right", "value", "roots")
LEAST = 20  # points, below which an embedding says next to nothing
CALIBRATIONS = ("measured", "artificial")
FOLDS = 5  # of the pairs to learn from: the weights of the evidence are learned where the trees are not


class CauseEffect(Estimator):
    """The direction of a pair: does x cause y, or y cause x? In the manner of [LMST15; G15].

    A pair is a sample of two numbers. Two kinds of evidence are weighed:

    - A classifier that has seen artificial pairs of known direction reads the embeddings of x, of y, of
      (x, y), and of x with what is left of y when its mean and its scale given x are taken away; the same in
      the other direction. (The randomized causation coefficient reads random projections of the first three;
      the last is what makes it right about increasing mechanisms.)
    - Code length [MV17]: in which order the pair has the shorter description, by one simple function and by
      functions at repeated values. It knows how measured values repeat, which artificial pairs do not show;
      **it favours the column with coarser values as the cause**, as is most often right, and wrong if you
      rounded the effect.

    It can be used at once, with trees and weights that come with muhat; :meth:`retrain` makes others from
    artificial pairs, and :meth:`fit` from pairs of your own.

    One of the two is taken to be the cause: a common cause of both, or no relation at all, is not an answer.
    Of the weight of the first 82 Tübingen pairs 83% is decided rightly by weights learned from other sources
    (published: 82%), of all 102 pairs 81%, of 60 pairs that had no part in any choice 77%. Trust no direction
    on this alone.
    Some pairs have no direction that data could show: Gaussian variables on a line seldom pass 0.8.

    ``decision_function(x, y) == −decision_function(y, x)``; scale, sign and place of x and y, and the order
    of the points, do not matter.

    Args:
        level: probability from which on :meth:`predict` names a direction, at least ½; below, it abstains.
        calibration: ``"measured"``: what comes with muhat weighs the evidence as measured pairs, the Tübingen
            ones, say; ``"artificial"``: as artificial pairs do, which is by the trees nearly alone. For
            samples of a simulator, or where you rounded one column, take the latter. It has no say after
            :meth:`fit` or :meth:`retrain`, which learn weights of their own.
        rounds: trees that are boosted one after another.
        leaves: most leaves of a tree.
        rate: of learning.
        members: such models, of which the mean is taken.
        random_state: seed of artificial pairs and learning.

    Attributes:
        trees_: the classifier.
        weights_: of the two kinds of :meth:`evidence`, (2,): their sum is the logarithm of the odds.
        calibration_: the pairs that these weights are from: ``"measured"``, ``"artificial"``, or ``"given"``.
        shipped_: whether all of it comes with muhat; then ``rounds`` to ``random_state`` had no say.
    """

    def __init__(
        self,
        level: float = 0.6,
        calibration: str = "measured",
        rounds: int = 250,
        leaves: int = 31,
        rate: float = 0.06,
        members: int = 1,
        random_state: Any = 0,
    ) -> None:
        self.level = level
        self.calibration = calibration
        self.rounds = rounds
        self.leaves = leaves
        self.rate = rate
        self.members = members
        self.random_state = random_state

    def fit(self, pairs: Sequence[Any], labels: Any) -> CauseEffect:
        """Learn from pairs of known direction.

        Args:
            pairs: arrays (n, 2), n may differ.
            labels: 1 where the first column is the cause, −1 where the second is.
        """
        rng = as_generator(self.random_state)
        self._check()
        arrays = as_pairs(pairs)
        signs = np.asarray(labels)
        if signs.shape != (len(arrays),) or not np.isin(signs, (-1, 1)).all():
            raise ValueError(
                f"labels must be one number for each of the {len(arrays)} pairs, 1 where the first column is "
                f"the cause and -1 where the second is, got {labels!r}."
            )
        if len(arrays) < 2 * FOLDS:
            raise ValueError(
                f"pairs has {len(arrays)} pairs, but at least {2 * FOLDS} are needed to learn from: pass "
                "more, or use the trees that come with muhat, mh.CauseEffect()."
            )
        return self._learn(arrays, signs, rng, "given")

    def retrain(self, count: int = 12_000, generator: Generator | None = None) -> CauseEffect:
        """Learn from ``count`` artificial pairs: some minutes for every 10 000.

        Args:
            count: number of pairs.
            generator: what they are drawn from; None for that of the shipped trees.
        """
        rng = as_generator(self.random_state)
        self._check()
        check_count(count, "count", 2 * FOLDS)
        settings = Generator() if generator is None else generator
        pairs = [synthetic_pair(settings, rng) for _ in range(count)]
        return self._learn(pairs, np.ones(count), rng, "artificial")

    def _check(self) -> None:
        check_choice(self.calibration, "calibration", CALIBRATIONS)
        for name, least in (("rounds", 1), ("leaves", 2), ("members", 1)):
            check_count(getattr(self, name), name, least)
        check_positive(self.rate, "rate", "0.06 is usual", scalar=True)

    def _learn(
        self, pairs: list[np.ndarray], labels: np.ndarray, rng: np.random.Generator, kind: str
    ) -> CauseEffect:
        """The trees from all but a fold of the pairs, and the weights of the evidence from that fold."""
        F = features_of(pairs)
        order = rng.permutation(len(F))
        held, rest = order[: len(F) // FOLDS], order[len(F) // FOLDS :]
        seeds = rng.integers(2**31, size=self.members)
        self.trees_ = together(
            [train(F[rest], labels[rest], self.rounds, self.leaves, self.rate, int(s)) for s in seeds]
        )
        known = np.stack([coefficient(F[held], self.trees_), codes([pairs[i] for i in held])], axis=1)
        self.weights_ = weigh(known * labels[held, None])
        self.calibration_, self.shipped_ = kind, False
        return self

    def _ready(self) -> None:
        if not hasattr(self, "trees_") or (self.shipped_ and self.calibration_ != self.calibration):
            check_choice(self.calibration, "calibration", CALIBRATIONS)
            self.trees_, weights = shipped()
            self.weights_ = weights[self.calibration].copy()
            self.calibration_, self.shipped_ = self.calibration, True

    def __sklearn_is_fitted__(self) -> bool:
        self._ready()
        return True

    def evidence(self, x: Any, y: Any = None) -> np.ndarray:
        """What speaks for x → y (positive) or y → x: of the trees, and of the code length.

        Args:
            x: (n,), or with ``y`` left out a list of pairs (n, 2).
            y: (n,).

        Returns:
            (2,); for a list, (count, 2).
        """
        self._ready()
        arrays = as_pairs(x) if y is None else [as_pair(x, y)]
        values = np.stack([coefficient(features_of(arrays), self.trees_), codes(arrays)], axis=1)
        return values if y is None else values[0]

    def decision_function(self, x: Any, y: Any = None) -> Any:
        """Logarithm of the odds: positive when x causes y, negative when y causes x.

        Args:
            x: the first column, or a list of pairs, as in :meth:`evidence`.
            y: the second column; None for a list.

        Returns:
            A number; for a list, (count,).
        """
        values = self.evidence(x, y) @ self.weights_
        return values if y is None else float(values)

    def predict_proba(self, x: Any, y: Any = None) -> Any:
        """The probability that x causes y, not the reverse; arguments as in :meth:`evidence`."""
        values = expit(np.asarray(self.decision_function(x, y)))
        return values if y is None else float(values)

    def predict(self, x: Any, y: Any = None) -> Any:
        """:meth:`decide` at the level of the constructor."""
        return self.decide(x, y, self.level)

    def decide(self, x: Any, y: Any = None, level: float = 0.9) -> Any:
        """1 if x causes y and −1 if y causes x, with at least this probability; else 0: no decision.

        Args:
            x: the first column, or a list of pairs, as in :meth:`evidence`.
            y: the second column; None for a list.
            level: from ½ on; at ½ only odds of 1 leave the direction open.
        """
        if check_share(level, "level", "pass e.g. 0.9") < 0.5:
            raise ValueError(f"level must be at least 0.5, got {level!r}: a coin reaches that; try 0.9.")
        p = np.asarray(self.predict_proba(x, y))
        out = np.where(p == 0.5, 0, np.where(p >= level, 1, np.where(1 - p >= level, -1, 0)))
        return out if y is None else int(out)


@lru_cache(maxsize=1)
def shipped() -> tuple[Trees, dict[str, np.ndarray]]:
    """The trees that come with muhat, and the weights of the evidence in either calibration."""
    with as_file(files("muhat.models") / SHIPPED) as path, np.load(path, allow_pickle=False) as stored:
        arrays: Any = {name: stored[name] for name in PARTS}
        weights = {name: stored[name] for name in CALIBRATIONS}
        return Trees(**arrays, depth=int(stored["depth"])), weights


def codes(pairs: Iterable[np.ndarray]) -> np.ndarray:
    """Evidence by code length, (count,)."""
    return np.array([code_evidence(pair[:, 0], pair[:, 1]) for pair in pairs])


def as_pair(x: Any, y: Any, names: tuple[str, str] = ("x", "y")) -> np.ndarray:
    """A pair as an array (n, 2); an error if it is none."""
    columns = [_column(v, name) for v, name in zip((x, y), names, strict=True)]
    if len(columns[0]) != len(columns[1]):
        raise ValueError(
            f"{names[0]} has {len(columns[0])} values but {names[1]} has {len(columns[1])}: "
            "they are measured together, so pass as many of one as of the other."
        )
    return np.stack(columns, axis=1)


def as_pairs(pairs: Any) -> list[np.ndarray]:
    """A list of pairs (n, 2); an error that names the one that is none."""
    if isinstance(pairs, np.ndarray) and pairs.ndim != 3:
        raise ValueError(
            f"pairs must be a list of arrays (n, 2), got one array of shape {pairs.shape}: for one pair pass "
            "x and y, or [pair] for a list of one."
        )
    out = []
    for i, pair in enumerate(pairs):
        array = np.asarray(pair)
        if array.ndim != 2 or array.shape[1] != 2:
            raise ValueError(
                f"pairs[{i}] must have two columns, x and y, but has shape {array.shape}: "
                "pass an array (n, 2)."
            )
        out.append(as_pair(array[:, 0], array[:, 1], (f"pairs[{i}][:, 0]", f"pairs[{i}][:, 1]")))
    if not out:
        raise ValueError("pairs is empty: pass at least one array (n, 2).")
    return out


def _column(v: Any, name: str) -> np.ndarray:
    values = np.asarray(v)
    if values.dtype.kind not in "biuf":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{name} must be numbers, but has dtype {np.asarray(v).dtype}: a category has no order, and "
                "the direction is read off shapes."
            ) from None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} must be one variable, (n,), but has shape {values.shape}: pass one column.")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        i = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"{name} has {values[i]} at row {i}: drop the rows that are missing or infinite.")
    if len(values) < LEAST:
        raise ValueError(
            f"{name} has {len(values)} values, but at least {LEAST} are needed, and some hundreds are "
            "better: pass more."
        )
    if np.ptp(values) == 0:
        raise ValueError(f"{name} is constant ({values[0]:g}): pass a variable that varies.")
    return values
