"""The kernel Bayes filter in features, from passes over the training sequences.

A state is what it says of functions F of z, ``Σᵢ wᵢ F(zᵢ)``: mass, moments and, last, the features φ of z. No
weights are held. A prediction is ``m ↦ mᵀ(Φ₋ᵀΦ₋ + (T−1)λ'I)⁻¹ Φ₋ᵀF₊`` with rows of ₊ one step after those of
₋; Bayes' rules are as in :mod:`muhat.operators.bayes.streamed`, with a state as prior. A state that an
observation has yet to come to has weights that are linear in few numbers: ``wᵢ = φ(zᵢ₋₁)ᵀu`` after a
prediction, ``wᵢ = (t + φ(zᵢ)ᵀs)/n`` at the start. So rules that do not truncate contract third-order moments,
made once; those that do make a pass for every observation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._linalg import Cholesky, cholesky
from muhat.engine import Rows, reduce_rows
from muhat.engine.passes import add
from muhat.gram import Gram
from muhat.operators.bayes import deconditional, importance, kbr_a
from muhat.operators.bayes.kbr_b import squared_solve
from muhat.operators.bayes.pairs import NO_MASS, NoOverlap
from muhat.operators.filtering import LEAST_MASS, Conditioned

# Bytes that the third-order moments may take: several copies are summed at a time.
MEMORY = 2.5e8
# Entries of one block of products of features.
BLOCK_ELEMENTS = 1 << 23


@dataclass(frozen=True)
class StreamedState:
    """A distribution over z.

    Attributes:
        values: ``Σ wᵢ F(zᵢ)``, (f,).
        lag: u (q,) of a prediction; None elsewhere.
        even: t and s (q,) of a start; None elsewhere.
    """

    values: Array
    lag: Array | None = None
    even: tuple[float, Array] | None = None


@dataclass(frozen=True)
class FilterMoments:
    """What one pass over the training sequences keeps of them.

    Attributes:
        count, steps: rows, and steps from one to the next.
        mean: E F, (f,).
        known: E φFᵀ, (q, f).
        joint: E φψᵀ, (q, p).
        before: Σ φ₋φ₋ᵀ over steps, (q, q).
        after: Σ φ₋F₊ᵀ, (q, f).
        evidence: E ψ⊗ψ⊗φ, (p², q); here and below None where no rule needs it, or where it would be large.
        cross: E ψ⊗F⊗φ, (p f, q).
        even: E φ⊗F⊗φ, (q f, q).
        lagged: Σ φ₊⊗F₊⊗φ₋, (q f, q).
    """

    count: int
    steps: int
    mean: Array
    known: Array
    joint: Array
    before: Array
    after: Array
    evidence: Array | None = None
    cross: Array | None = None
    even: Array | None = None
    lagged: Array | None = None


@dataclass(frozen=True)
class FilterRows:
    """Training sequences that are read in blocks.

    Attributes:
        sequences: X and Z of each; None where they are no longer at hand.
        kernels_x: with features; one, or one for what is reported and one for what is carried forward.
        functions: F, of rows of z (m, k) to (m, f), the features of z last.
        rule: a Bayes' rule.
        reg_prior: η.
        target: t, what the density ratio shrinks to.
        normalize: whether density ratios average to one.
        kept: some states of training, (m, k).
    """

    sequences: Sequence[tuple[Rows, Rows]] | None
    kernels_x: tuple[Any, ...]
    functions: Any
    rule: ModuleType
    reg_prior: float
    target: float
    normalize: bool
    kept: Array

    @property
    def size(self) -> int:
        """q."""
        return self.functions.kernel.size

    @property
    def width(self) -> int:
        """Numbers that are made of a row."""
        d = len(self.functions.centre)
        return sum(k.size for k in self.kernels_x) + 1 + d + d * d + self.size

    def measure(self) -> FilterMoments:
        """All moments: one pass over X and Z."""
        q, p = self.size, self.kernels_x[0].size
        f = self.width - sum(k.size for k in self.kernels_x)
        on_prior, whole = self.rule.ON_PRIOR, _whole(self.rule, p, q, f)
        kernel_x, functions = self.kernels_x[0], self.functions

        def features(A: Array, B: Array) -> tuple[Array, ...]:
            return kernel_x.features(A), functions(B)

        def rows(Psi: Array, F: Array) -> tuple[Array, ...]:
            Phi = F[:, -q:]
            sums = np.array(len(F)), F.sum(axis=0), Phi.T @ F, Phi.T @ Psi
            if not whole:
                return sums
            second = third(Phi, F, Phi) if on_prior else third(Psi, F, Phi)
            return *sums, third(Psi, Psi, Phi), second

        def steps(F: Array, G: Array) -> tuple[Array, ...]:
            Phi = F[:, -q:]
            sums = np.array(len(F)), Phi.T @ Phi, Phi.T @ G
            return (*sums, third(G[:, -q:], G, Phi)) if whole and on_prior else sums

        n, mean, known, joint, *rest = self._pass(features, rows, steps)
        tensors: dict[str, Array] = {}
        if whole:
            evidence, second, *rest = rest
            tensors = {"evidence": evidence / n, "even" if on_prior else "cross": second / n}
        count, before, after, *lagged = rest
        if lagged:
            tensors["lagged"] = lagged[0]
        return FilterMoments(int(n), int(count), mean / n, known / n, joint / n, before, after, **tensors)

    def weighted(self, m: Array, s: Array, n: int) -> list[tuple[Array, Array]]:
        """``Σᵢ dᵢψψᵀ`` (p, p) and ``Σᵢ dᵢψFᵀ`` (p, f) for each kernel on x: one pass over X and Z.

        d is ``γ/n`` with ``γᵢ = t + φ(zᵢ)ᵀs``, and for ``importance`` its positive part, which sums to one if
        ratios are to average to it.
        """
        q, t, positive = self.size, self.target, self.rule is importance
        kernels, functions, least = self.kernels_x, self.functions, NO_MASS * self._scale

        def features(A: Array, B: Array) -> tuple[Array, ...]:
            return *(k.features(A) for k in kernels), functions(B)

        def rows(*parts: Array) -> tuple[Array, ...]:
            *of_x, F = parts
            Phi = F[:, -q:]
            D = t + Phi @ s
            checks = np.array([(Phi @ m > least).sum(), (D > 0).sum()])
            D = np.maximum(D, 0.0) if positive else D
            sums = [checks, np.array(D.sum())]
            for Psi in of_x:
                weighted = D[:, None] * Psi
                sums += [Psi.T @ weighted, weighted.T @ F]
            return tuple(sums)

        checks, total, *sums = self._pass(features, rows)
        if not checks.all():
            raise NoOverlap("The prior has no mass near any z of the training pairs.")
        scale = total if positive and self.normalize else n
        return [(C / scale, cross / scale) for C, cross in zip(sums[::2], sums[1::2], strict=True)]

    def spread(self, state: StreamedState, positive: bool, n: int) -> tuple[Array, float]:
        """``Σᵢ wᵢφFᵀ`` (q, f) and ``Σᵢ wᵢ`` of a state, or of its positive part: one pass over Z."""
        q, functions = self.size, self.functions

        def features(B: Array) -> tuple[Array, ...]:
            return (functions(B),)

        def sums(w: Array, F: Array) -> tuple[Array, ...]:
            w = np.maximum(w, 0.0) if positive else w
            return (w[:, None] * F[:, -q:]).T @ F, np.array(w.sum())

        if state.lag is not None:
            u = state.lag
            found = self._pass(features, None, lambda F, G: sums(F[:, -q:] @ u, G), of_z=True)
        else:
            assert state.even is not None
            t, s = state.even
            found = self._pass(features, lambda F: sums((t + F[:, -q:] @ s) / n, F), of_z=True)
        return found[0], float(found[1])

    @cached_property
    def _features(self) -> Array:
        """Features of the states that are kept, (m, q)."""
        return self.functions.kernel.features(self.kept)

    @cached_property
    def _scale(self) -> float:
        return float((self._features**2).sum(axis=1).max())

    def check_mass(self, m: Array, s: Array | None = None) -> None:
        """Refuse a prior with features m that vanishes at the states that are kept."""
        values = self._features @ m
        seen = float(values.max())
        if not seen > NO_MASS * self._scale:
            raise NoOverlap(
                f"The prior has no mass near any z of the training pairs: its embedding is at most "
                f"{seen:.2g} there, so nothing can be learned about it. Fit on pairs that cover the prior, "
                "or give a wider kernel_z."
            )
        if s is not None and not (self.target + self._features @ s > 0).any():
            raise NoOverlap("The prior's density ratio is positive nowhere.")

    def _pass(
        self, features: Callable[..., tuple[Array, ...]], rows: Any, steps: Any = None, of_z: bool = False
    ) -> tuple[Array, ...]:
        """Sums over rows and over steps of what is made of their features.

        Each part keeps the features of its first and last row, so that the step from one part to the next is
        not lost wherever the rows are cut.
        """
        if self.sequences is None:
            raise ValueError(
                "The training sequences were read in blocks and are not in this copy of the estimator, but "
                f'rule="{self.rule.NAME}" reads them for every observation: fit it again.'
            )

        def work(start: int, *blocks: Array) -> tuple[Array, ...]:
            *of_x, F = features(*blocks)
            own = () if rows is None else rows(*of_x, F)
            return F[:1], F[-1:], *own, *(() if steps is None else steps(F[:-1], F[1:]))

        def combine(a: Any, b: Any) -> tuple[Array, ...]:
            sums = list(add(a[2:], b[2:]))
            edge = () if steps is None else steps(a[1], b[0])
            for i, part in enumerate(edge, len(sums) - len(edge)):
                sums[i] = sums[i] + part
            return a[0], b[1], *sums

        total: Any = None
        for X, Z in self.sequences:
            sources, names = ((Z,), ("Z",)) if of_z else ((X, Z), ("X", "Z"))
            part = reduce_rows(work, combine, *sources, names=names, width=self.width)[2:]
            total = part if total is None else add(total, part)
        return total


def third(A: Array, B: Array, C: Array) -> Array:
    """``Σᵢ aᵢ⊗bᵢ⊗cᵢ``, (a b, c), some rows at a time."""
    out = np.zeros((A.shape[1] * B.shape[1], C.shape[1]))
    rows = max(1, BLOCK_ELEMENTS // len(out))
    for i in range(0, len(A), rows):
        a, b, c = A[i : i + rows], B[i : i + rows], C[i : i + rows]
        out += (a[:, :, None] * b[:, None, :]).reshape(len(a), -1).T @ c
    return out


def _whole(rule: ModuleType, p: int, q: int, f: int) -> bool:
    """Whether third-order moments stand for passes: of rules that do not truncate, if they are small."""
    entries = p * p * q + (2 * q * f * q if rule.ON_PRIOR else p * f * q)
    return rule not in (importance, deconditional) and 8.0 * entries <= MEMORY


class Evidence:
    """What priors make of the training sequences, for both of the filter's regressions at once."""

    def __init__(self, rows: FilterRows, moments: FilterMoments) -> None:
        self.rows, self.moments = rows, moments
        self._last: tuple[Array, Any] | None = None

    @cached_property
    def ridge(self) -> Cholesky:
        """``Ĉ_ZZ + ηI``, factored."""
        C = self.moments.known[:, -self.rows.size :].copy()
        C[np.diag_indices(len(C))] += self.rows.reg_prior
        return cholesky(C, "Ĉ_ZZ + ηI", "Raise reg_prior.", overwrite=True)

    @cached_property
    def regression(self) -> Array:
        """Of ψ(x) on φ(z), (q, p)."""
        return self.ridge.solve(self.moments.joint)

    def ratio(self, m: Array) -> Array:
        """s with ``γᵢ = t + φ(zᵢ)ᵀs`` for a prior with features m (q,)."""
        return self.ridge.solve(m - self.rows.target * self.moments.mean[-self.rows.size :])

    def start(self, m: Array | None) -> StreamedState:
        """The state on the training points that is nearest to features m (q,); None for all of them alike."""
        if m is None:
            return StreamedState(self.moments.mean, even=(1.0, np.zeros(self.rows.size)))
        self.rows.check_mass(m)
        t, s = self.rows.target, self.ratio(m)
        return StreamedState(t * self.moments.mean + s @ self.moments.known, even=(t, s))

    def weighted(self, state: StreamedState, which: int) -> tuple[Array, Array]:
        """``Ĉ_XX`` (p, p) and ``Ĉ_XF`` (p, f) with the state as prior; both regressions share a pass."""
        m = state.values[-self.rows.size :]
        s, moments = self.ratio(m), self.moments
        if moments.evidence is not None:
            self.rows.check_mass(m, s)
            p = self.rows.kernels_x[which].size
            cross = np.empty((p, 0)) if moments.cross is None else (moments.cross @ s).reshape(p, -1)
            return (moments.evidence @ s).reshape(p, p), cross
        if self._last is None or self._last[0] is not state.values:
            self._last = state.values, self.rows.weighted(m, s, moments.count)
        return self._last[1][which]

    def spread(self, state: StreamedState, positive: bool) -> tuple[Array, float]:
        """``Σᵢ wᵢφFᵀ`` (q, f) and ``Σᵢ wᵢ`` of a state that no observation has come to yet."""
        moments = self.moments
        if moments.lagged is None or moments.even is None:
            return self.rows.spread(state, positive, moments.count)
        q = self.rows.size
        if state.lag is not None:
            return (moments.lagged @ state.lag).reshape(q, -1), float(state.values[0])
        assert state.even is not None
        t, s = state.even
        return t * moments.known + (moments.even @ s).reshape(q, -1), float(state.values[0])


@dataclass(frozen=True)
class StreamedMachine:
    """A filter ready to run, as :class:`muhat.operators.filtering.Machine`.

    Attributes:
        evidence: of the training sequences.
        which: of the kernels on x.
        gram_x: of some observations of training.
        reg: of the rule.
        reg_transition: λ' of the prediction.
    """

    evidence: Evidence
    which: int
    gram_x: Gram
    reg: float
    reg_transition: float

    @cached_property
    def _ridge(self) -> Cholesky:
        """``Φ₋ᵀΦ₋ + (T − 1)λ'I``."""
        moments = self.evidence.moments
        C = moments.before.copy()
        C[np.diag_indices(len(C))] += moments.steps * self.reg_transition
        return cholesky(C, "Φ₋ᵀΦ₋ + (T − 1)λ'I", "Raise reg_transition.", overwrite=True)

    def predict(self, state: StreamedState) -> StreamedState:
        """One step ahead [X22, Alg. 2, step 4]."""
        u = self._ridge.solve(state.values[-self.evidence.rows.size :])
        return StreamedState(u @ self.evidence.moments.after, lag=u)

    def condition(self, state: StreamedState, cross: Any) -> Conditioned:
        """Bayes' rule with the prediction as prior and an observation with ``k(X, x)``, factored."""
        try:
            values = self._posterior(state, cross.right[:, 0])
        except NoOverlap:
            return Conditioned(state, 0.0, False)  # type: ignore[arg-type]
        mass = float(values[0])
        if self.evidence.rows.normalize:
            if not mass > LEAST_MASS:
                return Conditioned(state, mass, False)  # type: ignore[arg-type]
            values = values / mass
        return Conditioned(StreamedState(values), mass, True)  # type: ignore[arg-type]

    def _posterior(self, state: StreamedState, psi: Array) -> Array:
        evidence, rule = self.evidence, self.evidence.rows.rule
        if rule is deconditional:
            total = float(state.values[0])
            if not total > 0:
                raise NoOverlap("The prior's weights sum to nothing.")
            known, mass = evidence.spread(state, positive=True)
            known, A = known * (total / mass), evidence.regression
            C = A.T @ known[:, -len(A) :] @ A
            C[np.diag_indices(len(C))] += self.reg
            b = cholesky(C, "Ĉ_{X|Z} Ĉ_ZZ Ĉ_{X|Z}* + εI", "Raise reg.", overwrite=True).solve(psi)
            return (A @ b) @ known
        C, cross = evidence.weighted(state, self.which)
        if rule is importance:
            C = C.copy()  # both may ask for it
            C[np.diag_indices(len(C))] += self.reg
            return cholesky(C, "Ĉ_XX + λI", "Raise reg.", overwrite=True).solve(psi) @ cross
        b = squared_solve(C, psi[:, None], self.reg)[:, 0]
        if rule is not kbr_a:
            return b @ cross
        return (evidence.regression @ b) @ evidence.spread(state, positive=False)[0]

    def at(self, values: Array) -> StreamedState:
        """The state with these values (f,); an observation can come to it after a prediction."""
        return StreamedState(values)

    def weights(self, state: StreamedState) -> Array:
        """What stands for the weights of a state: its values (f,)."""
        return state.values
