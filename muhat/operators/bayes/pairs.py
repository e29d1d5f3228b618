"""What every Bayes' rule is given: the pairs, the prior, and the observation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from muhat._array import Array, is_traced, namespace
from muhat.gram import Factored, FeatureMap, Gram, LowRankGram, Ridge, as_dense
from muhat.operators.bayes.balance import Tilt
from muhat.operators.conditional import complete_weights

# A prior whose embedding is below this share of k(z, z) at every z of the pairs has no mass there.
NO_MASS = 1e-10


@dataclass(frozen=True)
class Pairs:
    """Pairs (x, z) that carry the likelihood p(x | z), ready for any prior over z.

    Attributes:
        gram_x: of the observations.
        gram_z: of the latent variables.
        reg_prior: η, the regulariser of ``(Ĉ_ZZ + ηI)⁻¹``.
        target: what the density ratio shrinks to as η grows: 0, or 1 for the pairs as they are.
    """

    gram_x: Gram
    gram_z: Gram
    reg_prior: float
    target: float = 0.0

    def __len__(self) -> int:
        return len(self.gram_z)

    @cached_property
    def ridge_z(self) -> Ridge:
        """``G_Z + nηI``, factored once for all priors."""
        return self.gram_z.ridge(len(self) * self.reg_prior)

    @cached_property
    def factor_x(self) -> FeatureMap:
        """Features of the observations."""
        return self.gram_x.factor()

    @cached_property
    def factor_z(self) -> FeatureMap:
        """Features of the latent variables."""
        return self.gram_z.factor()

    @cached_property
    def _uniform(self) -> Array | Factored:
        """``m(zᵢ)`` of the z themselves, (n, 1)."""
        n = len(self)
        if isinstance(self.gram_z, LowRankGram):
            Phi = self.gram_z.Phi
            return Factored(Phi, Phi.mean(axis=0)[:, None])
        return (self.gram_z @ np.full(n, 1 / n))[:, None]

    def ratio(self, prior: Prior) -> Array:
        """``γᵢ = t + ⟨φ(zᵢ), (Ĉ_ZZ + ηI)⁻¹ (m_Π − t m_Z)⟩``, the prior's density over that of the z, (n,).

        [X22, eq. (1)] with target t = 0. Unregularised it averages to one; entries may be negative.
        """
        values = prior.values
        self._check_mass(as_dense(values))
        if self.target:
            values = _difference(values, self._uniform, self.target)
        return self.target + len(self) * as_dense(self.ridge_z.regress(values))[:, 0]

    def truncated(self, prior: Prior) -> Array:
        """``max(0, γ)`` [X22, Alg. 1, step 2], tilted to the prior's means of its functions if it has any."""
        last = self.__dict__.get("_truncated")
        if last is not None and last[0] is prior:
            return last[1]
        ratio = truncate(self.ratio(prior))
        if prior.functions is not None and prior.means is not None:
            ratio = ratio * Tilt.of(ratio, prior.functions, prior.means)(prior.functions)
        if not is_traced(ratio):
            self.__dict__["_truncated"] = (prior, ratio)
        return ratio

    def completed(self, prior: Prior, weights: Array, on_prior: bool) -> Array:
        """Posterior weights (batch, n or m) with what lacks of one given to the prior: ``w + (1 − Σw) π``.

        A regularised regression loses mass. In a mean, that would shrink the posterior to z = 0, which means
        nothing where z is a height or a temperature; so it shrinks to the prior, in the same points.

        Args:
            prior: whose weights π are; on the z of the pairs, those of its density ratio.
            weights: w, of a rule.
            on_prior: whether they are on the prior's points.
        """
        base = prior.weights if on_prior else self.truncated(prior)
        return complete_weights(weights, 1.0, base / base.sum())

    @cached_property
    def _scale(self) -> Array:
        """The largest k(z, z)."""
        return self.gram_z.diag().max()

    def _check_mass(self, values: Array) -> None:
        """Refuse a prior whose embedding vanishes at the z: with target 1 its ratio would not show it."""
        if is_traced(values) or is_traced(self._scale):
            return
        seen = float(np.max(np.asarray(values)))
        if not seen > NO_MASS * float(self._scale):
            raise NoOverlap(
                f"The prior has no mass near any z of the training pairs: its embedding is at most "
                f"{seen:.2g} there, so nothing can be learned about it. Fit on pairs that cover the prior, "
                "or give a wider kernel_z."
            )


@dataclass(frozen=True)
class Prior:
    """A prior over z, seen from the pairs.

    Attributes:
        values: ``m_Π(zᵢ)`` at the z of the pairs, (n, 1); factored in low-rank representations.
        points: what the prior's weights are on, (m, d).
        weights: α, (m,).
        cross: ``k(zᵢ, points)``, (n, m).
        functions: of the z of the pairs, (n, q), whose means the pairs' weights are to keep; None for none.
        means: of these functions under the prior, (q,).
    """

    values: Array | Factored
    points: Array
    weights: Array
    cross: Array | Factored
    functions: Array | None = None
    means: Array | None = None

    @classmethod
    def of(
        cls,
        gram_z: Gram,
        points: Array,
        weights: Array,
        functions: Array | None = None,
        means: Array | None = None,
    ) -> Prior:
        """The prior ``Σⱼ αⱼ φ(z̃ⱼ)``."""
        cross = gram_z.cross(points)
        if isinstance(cross, Factored):
            values: Any = Factored(cross.left, (cross.right @ weights)[:, None])
        else:
            values = (cross @ weights)[:, None]
        return cls(values, points, weights, cross, functions, means)

    @property
    def mass(self) -> Array:
        """α without its negative part, of the same sum: a measure, as rules with √α need it."""
        xp = namespace(self.weights)
        total, positive = self.weights.sum(), xp.maximum(self.weights, 0.0)
        if not is_traced(total) and not total > 0:
            raise NoOverlap(
                f"The prior's weights sum to {float(total):.3g}, so that it is no distribution: a difference "
                "of embeddings has no mass; elsewhere lower the regularisers that made it."
            )
        return positive * (total / positive.sum())


def _difference(a: Array | Factored, b: Array | Factored, t: float) -> Array | Factored:
    if isinstance(a, Factored) and isinstance(b, Factored) and a.left is b.left:
        return Factored(a.left, a.right - t * b.right)
    return as_dense(a) - t * as_dense(b)


class NoOverlap(ValueError):
    """The prior has no mass where the pairs are."""


def truncate(ratio: Array) -> Array:
    """``max(0, γ)`` [X22, Alg. 1, step 2]."""
    check_overlap(ratio)
    return namespace(ratio).maximum(ratio, 0.0)


def check_overlap(ratio: Array) -> None:
    """Refuse a density ratio that is positive nowhere."""
    if is_traced(ratio):
        return
    largest = float(np.max(np.asarray(ratio)))
    if not largest > 0:
        raise NoOverlap(
            f"The prior has no mass near any z of the training pairs: its density ratio is at most "
            f"{largest:.2g} there, so nothing can be learned about it. Fit on pairs that cover the prior, or "
            "lower reg_prior."
        )
