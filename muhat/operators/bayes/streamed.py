"""Bayes' rules in features from passes over the pairs: nothing of the size of the rows is held.

With features ψ of x and φ of z, γᵢ = t + φ(zᵢ)ᵀs and ``s = (Ĉ_ZZ + ηI)⁻¹(m_Π − t m_Z)``, the posterior
expectation of functions F of z is ``ψ(x)ᵀ A Σᵢ (dᵢ/n) ψ(xᵢ)F(zᵢ)ᵀ``: for ``importance`` d = max(0, γ) and
``A = (Ĉ_XX + λI)⁻¹``, for ``kbr_b`` d = γ and ``A = Ĉ_XX(Ĉ_XX² + δI)⁻¹``, where ``Ĉ_XX = Σᵢ (dᵢ/n) ψψᵀ``.
Rules whose posterior lies on the prior's points regress features of x on z once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._linalg import Cholesky, cholesky
from muhat.engine import Rows, sum_rows
from muhat.operators.bayes import deconditional, importance, kbr_a
from muhat.operators.bayes.balance import Balance, Tilt
from muhat.operators.bayes.kbr_b import squared_solve
from muhat.operators.bayes.pairs import NoOverlap
from muhat.operators.deconditional import deconditional_weights

NOT_AT_HAND = (
    "The pairs were read in blocks and are not in this copy of the estimator, which has what the last prior "
    "made of them and no more: ask for that prior, or fit it again."
)


@dataclass(frozen=True)
class StreamedPairs:
    """Pairs (x, z) that are read in blocks.

    Attributes:
        X, Z: where from; None where they are no longer at hand.
        kernel_x, kernel_z: with features.
        reg_prior: η.
        target: t, what the density ratio shrinks to.
        functions: F, of rows of z (m, k) to (m, q).
        held: sums of passes that were made, for the next posterior with the same prior.
        balance: functions of z whose means under the prior the weights of the pairs keep; None for none.
        sample: rows of z that their tilt is found on, (m, k).
    """

    X: Rows | None
    Z: Rows | None
    kernel_x: Any
    kernel_z: Any
    reg_prior: float
    target: float
    functions: Callable[[Array], Array]
    held: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    balance: Balance | None = None
    sample: Array | None = None

    def _sums(self, work: Callable[..., tuple[Array, ...]]) -> tuple[Array, ...]:
        if self.X is None or self.Z is None:
            raise ValueError(NOT_AT_HAND)
        return sum_rows(work, self.X, self.Z, names=("X", "Z"), width=self.width)

    @property
    def width(self) -> int:
        return self.kernel_x.size + self.kernel_z.size

    @property
    def moments(self) -> tuple[Any, ...]:
        """``Ĉ_ZZ`` (q, q), ``m_Z`` (q,), ``Ĉ_ZX`` (q, p), ``E φFᵀ``, ``E F``: one pass for every prior."""
        if "moments" not in self.held:
            self.held["moments"] = self._moments()
        return self.held["moments"]

    def _moments(self) -> tuple[Array, ...]:
        kernel_x, kernel_z, functions = self.kernel_x, self.kernel_z, self.functions

        def work(A: Array, B: Array) -> tuple[Array, ...]:
            Phi = kernel_z.features(B)
            Psi = kernel_x.features(A)
            F = functions(B)
            return Phi.T @ Phi, Phi.sum(axis=0), Phi.T @ Psi, Phi.T @ F, F.sum(axis=0), np.array(len(B))

        *sums, n = self._sums(work)
        return tuple(total / n for total in sums)

    @cached_property
    def ridge(self) -> Cholesky:
        """``Ĉ_ZZ + ηI``, factored."""
        C = np.array(self.moments[0])
        C[np.diag_indices(len(C))] += self.reg_prior
        return cholesky(C, "Ĉ_ZZ + ηI", "Raise reg_prior.", overwrite=True)

    def weighted(self, prior: Array | None, positive: bool) -> tuple[Array, Array, Array]:
        """``Ĉ_XX`` (p, p), ``Ĉ_XF`` (p, q) and ``E F`` (q,) with the prior's weights: at most one pass.

        Args:
            prior: m_Π (q,); None for the distribution of z in the pairs.
            positive: whether γ is truncated at zero.
        """
        asked = np.empty(0) if prior is None else prior
        if "weighted" in self.held and np.array_equal(self.held["weighted"][0], asked):
            return self.held["weighted"][1:]  # type: ignore[return-value]
        self.held["weighted"] = (asked, *self._weighted(prior, positive))
        return self.held["weighted"][1:]  # type: ignore[return-value]

    def _weighted(self, prior: Array | None, positive: bool) -> tuple[Array, Array, Array]:
        s = None if prior is None else self.ridge.solve(prior - self.target * self.moments[1])
        kernel_x, kernel_z, functions, t = self.kernel_x, self.kernel_z, self.functions, self.target
        balance, tilt = self.balance, self._tilt(s) if positive else None

        def work(A: Array, B: Array) -> tuple[Array, ...]:
            Psi, D = kernel_x.features(A), np.ones(len(B))
            if s is not None:
                D = t + kernel_z.features(B) @ s
                D = np.maximum(D, 0.0) if positive else D
            if tilt is not None and balance is not None:
                D = D * tilt(balance(B))
            weighted, F, base = D[:, None] * Psi, functions(B), np.maximum(D, 0.0)
            return Psi.T @ weighted, weighted.T @ F, base @ F, np.array(base.sum()), np.array(len(B))

        second, cross, first, mass, n = self._sums(work)
        if not mass > 0:
            raise NoOverlap(
                "The prior has no mass near any z of the training pairs: its density ratio is positive at "
                "none of them. Fit on pairs that cover the prior, or lower reg_prior."
            )
        return second / n, cross / n, first / mass

    def _tilt(self, s: Array | None) -> Tilt | None:
        if s is None or self.balance is None or self.sample is None:
            return None
        D = np.maximum(self.target + self.kernel_z.features(self.sample) @ s, 0.0)
        return Tilt.of(D, self.balance(self.sample), self.balance.means) if D.max() > 0 else None


@dataclass(frozen=True)
class LastPrior:
    """What the last prior made of pairs that were read in blocks.

    Attributes:
        points, weights: of the prior.
        choice: what is in use with it.
        kernel_x, kernel_z: with features.
        kernel: of the posterior embedding, with features.
        centre: that its moments are about.
        held: of :class:`StreamedPairs`.
    """

    points: Array
    weights: Array
    choice: Any
    kernel_x: Any
    kernel_z: Any
    kernel: Any
    centre: Array
    held: dict[str, tuple[Any, ...]]


def posterior_values(
    pairs: StreamedPairs, rule: ModuleType, prior: Array | None, psi: Array, reg: float
) -> tuple[Array, Array]:
    """Expectations of F (batch, q) given observations with features ``psi`` (p, batch), and before (q,).

    For rules with weights on the prior's points the prior is the distribution of z in the pairs.
    """
    if rule is importance:
        C, cross, base = pairs.weighted(prior, positive=True)
        C = C.copy()
        C[np.diag_indices(len(C))] += reg
        return cholesky(C, "Ĉ_XX + λI", "Raise reg.", overwrite=True).solve(psi).T @ cross, base
    if not rule.ON_PRIOR:
        C, cross, base = pairs.weighted(pairs.moments[1] if prior is None else prior, positive=False)
        return squared_solve(C, psi, reg).T @ cross, base
    second, first, joint, known, base = pairs.moments
    A = pairs.ridge.solve(joint)  # of the regression of ψ(x) on φ(z), (q, p)
    if rule is kbr_a:
        C = pairs.weighted(first, positive=False)[0]
        b = squared_solve(C, psi, reg)
    else:
        assert rule is deconditional
        evidence = A.T @ second @ A
        evidence[np.diag_indices(len(evidence))] += reg
        b = cholesky(evidence, "Ĉ_{X|Z} Ĉ_ZZ Ĉ_{X|Z}* + εI", "Raise reg.", overwrite=True).solve(psi)
    return (A @ b).T @ known, base


def prior_weights(
    pairs: StreamedPairs, rule: ModuleType, features: Array, weights: Array, psi: Array, reg: float
) -> Array:
    """Weights (batch, m) on the prior's points, whose features of z are ``features`` (m, q)."""
    A = pairs.ridge.solve(pairs.moments[2])
    expected = features @ A  # of ψ(x) at each point of the prior, (m, p)
    if rule is kbr_a:
        C = pairs.weighted(weights @ features, positive=False)[0]
        return (weights[:, None] * (expected @ squared_solve(C, psi, reg))).T
    root = np.sqrt(np.maximum(weights, 0.0) * (weights.sum() / np.maximum(weights, 0.0).sum()))
    return (root[:, None] * deconditional_weights(root[:, None] * expected, psi, reg)).T
