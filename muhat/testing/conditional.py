"""Do two variables depend on each other once a third is known?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from muhat import _threads
from muhat._tables import Encoder
from muhat._validation import as_generator, check_choice, check_count, check_same_rows
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.learning.stacked import Inputs, of_regressor
from muhat.testing.given import doubts_about, refuse_known
from muhat.testing.independence import independence_test
from muhat.testing.kci import Smoother, interactions, kci, numeric, variable_features
from muhat.testing.missing import MissingCells, paired_tables
from muhat.testing.nulls import permutation_pvalue
from muhat.testing.restricted import Design
from muhat.testing.restricted_pairs import PairNull, with_strata, within_strata
from muhat.testing.result import TestResult
from muhat.testing.row_labels import tables_and_design
from muhat.testing.samples import refuse_constant
from muhat.testing.self_check import SelfCheck, check_errors
from muhat.testing.stacked_residuals import four_forms, residuals_of, tame_columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("kci", "residual", "stacked")
NULLS = ("bootstrap", "gamma")
# Predictions of features of a variable that the self-check looks along.
LEADING = 2
# p-values above this claim nothing that errors of the regressions could have made up.
FOUND = 0.1
# Said where the self-check finds something.
MISLED = (
    "The regressions on z err in the same places, so that the residuals may only look dependent: do not "
    "trust this p-value. More rows, or fewer columns of z, would help."
)


def conditional_independence_test(
    x: Any,
    y: Any,
    z: Any,
    kernel_x: Any = None,
    kernel_y: Any = None,
    kernel_z: Any = None,
    method: str | None = None,
    *,
    null: str = "bootstrap",
    permutations: int = 999,
    regressor: Any = None,
    missing: str = "compare",
    groups: Any = None,
    blocks: Any = None,
    strata: Any = None,
    weights: Any = None,
    random_state: Any = None,
) -> ConditionalResult:
    """Test whether x and y are independent given z.

    Args:
        x: rows, (n, d): an array or frame; a vector is one column.
        y: the rows that go with them.
        z: the rows of what is known.
        kernel_x: kernel of x, for ``"kci"`` and ``"residual"``; of its residuals in the residual test, where
            all choices of :func:`independence_test` are open. None for a Gaussian at the median distance with
            a factor for each category; many scales in the residual test.
        kernel_y: kernel of y, in the same way.
        kernel_z: kernel of z, None as above. It is tried at several scales, and column by column.
        method: ``"stacked"``: residuals of several regressions, weighted by what they predict of held-out
            rows, in units of their spread at z, compared by four forms at once. It keeps its level where
            several columns of z act together, and takes about a second for a few hundred rows; ``"kci"``:
            HSIC between the residuals of kernel features, which sees every way x and y may depend given z
            [Z11], and is faster; ``"residual"``: HSIC between the residuals of x and of y themselves after
            regression on z [F16, §5]. Where z changes their spread it is wrong: residuals whose spread goes
            together count as dependent. None for ``"stacked"``, or for ``"kci"`` where kernels, weights or
            ``null="gamma"`` are given.
        null: ``"bootstrap"``: random multipliers in KCI, permutations of the residuals in the residual test;
            or ``"gamma"``, an approximation, faster.
        permutations: how many, or draws of the bootstrap.
        regressor: a scikit-learn regressor that takes the place of those of ``"stacked"``.
        missing: what to do with missing cells (NaN, None): ``"compare"`` them as values of their own;
            ``"drop"`` rows that have one in x, y or z; ``"refuse"``.
        groups: what rows belong together (persons, clinics): one label a row, or the name of a column of x, y
            or z, which is then no data. Each group has one random multiplier.
        blocks: known like z, labels or a name: rows are compared within blocks only. With ``strata``, within
            the combinations of both.
        strata: another word for ``blocks``.
        weights: of rows, not negative; numbers or a name. Regressions and statistic are weighted. Not for
            ``"stacked"``. Rows of weight 0 are left out.
        random_state: seed.

    With any of these four ``null="gamma"`` is refused, the null comes from random multipliers, whose level is
    exact for many rows or groups, and ``result.restriction`` says what could move.

    Returns:
        Result with ``statistic``, ``pvalue``, ``null``, ``kernel``, ``effect_size`` (normalised HSIC of the
        residuals, less what chance gives: about 0 if they are independent, at most 1), ``self_check``,
        ``trusted`` and ``warning`` (whether both regressions on z err in the same places), ``missing``,
        ``plot()`` and ``summary``.
    """
    if method is None:
        plain = weights is None and null != "gamma" and kernel_x is kernel_y is kernel_z is None
        method = "stacked" if plain or regressor is not None else "kci"
    check_choice(method, "method", METHODS)
    check_choice(null, "null", NULLS)
    if z is None:
        raise ValueError("z is None: use independence_test(x, y) where nothing is given.")
    if method == "stacked":
        _refuse_unstacked(null, kernel_x, kernel_y, kernel_z)
    elif regressor is not None:
        raise ValueError(f'regressor is for method="stacked", got method={method!r}: leave regressor out.')
    permutations = check_count(permutations, "permutations", 19)
    given = {"groups": groups, "blocks": blocks, "strata": strata, "weights": weights}
    (x, y, z), design, unweighted = tables_and_design(
        (x, y, z), ("x", "y", "z"), given, "gamma" if null == "gamma" else "bootstrap", missing, paired=True
    )
    if method == "stacked" and design is not None and design.weights is not None:
        raise ValueError(
            'method="stacked" has no weighted regressions: use method="kci" with weights, or "residual".'
        )
    encoders, (X, Y, Z), gaps = paired_tables((x, y, z), ("x", "y", "z"), missing, 10)
    encoder_x, encoder_y, encoder_z = encoders
    check_same_rows(X, Y, "x", "y")
    check_same_rows(X, Z, "x", "z")
    for A, name in ((X, "x"), (Y, "y"), (Z, "z")):
        refuse_constant(A, name, sum(gaps.dropped))
    refuse_known((X, encoder_x), (Y, encoder_y), (Z, encoder_z))
    rng = as_generator(random_state)
    null_of = None
    if design is not None:
        null_of = PairNull.draw(design, X, Y, permutations, rng, signs=True)
        Z, encoder_z, kernel_z = with_strata(design, Z, encoder_z, kernel_z)
        X, Y = within_strata(design, X, encoder_x), within_strata(design, Y, encoder_y)
    tables = (X, encoder_x), (Y, encoder_y), (Z, encoder_z)
    if method == "stacked":
        with _threads.one_blas_thread():
            found = _stacked(tables, permutations, rng, regressor, gaps, design)
        return found if null_of is None else replace(found, restriction=null_of.after(found, unweighted))
    k_z = _one_kernel(kernel_z, Z, encoder_z, "kernel_z")
    # The matrices are thin: threads of BLAS cost more than they give, above all on a busy machine.
    with _threads.one_blas_thread():
        smoother = Smoother(k_z, Z, encoder_z, design)
        if method == "residual":
            whole = numeric(X, encoder_x), numeric(Y, encoder_y)
            left, right = pair = smoother.residuals(whole[0]), smoother.residuals(whole[1])
            how: str = "gamma" if null == "gamma" else "permutation"
            same: dict[str, Any] = {}
            if design is not None:
                left, right = (F / np.sqrt(design.w)[:, None] for F in pair)
                how, same = "wild", {"groups": design.units, "strata": design.strata, "weights": design.w}
            inner = independence_test(
                left, right, kernel_x, kernel_y, how, permutations=permutations, random_state=rng, **same
            )
            statistic, pvalue, sample, effect = inner.statistic, inner.pvalue, inner.null, inner.effect_size
            kernels: tuple[Any, ...] = inner.kernels
            best = inner.best
        else:
            k_x = _one_kernel(kernel_x, X, encoder_x, "kernel_x")
            k_y = _one_kernel(kernel_y, Y, encoder_y, "kernel_y")
            whole = interactions(variable_features(k_x, X), Z, encoder_z), variable_features(k_y, Y)
            Phi, Psi = pair = smoother.residuals(whole[0]), smoother.residuals(whole[1])
            statistic, pvalue, sample = kci(Phi, Psi, null, permutations, rng, design)
            left, right = Phi[:, :1], Psi[:, :1]
            effect = _strength(Phi, Psi)
            kernels, best = ((k_x, k_y, k_z),), 0
        predicted = [(F - F.mean(axis=0) - e)[:, :LEADING] for F, e in zip(whole, pair, strict=True)]
        left_over = [
            float((e**2).sum() / (len(F) * F.var(axis=0).sum())) for F, e in zip(whole, pair, strict=True)
        ]
        checked = check_errors(
            numeric(Z, encoder_z), [pair], rng, predicted, None if design is None else design.units
        )
    signs = method == "kci" or design is not None
    found = ConditionalResult(
        statistic=statistic,
        pvalue=pvalue,
        null=sample,
        effect_size=effect,
        method={"bootstrap": "multipliers" if signs else "permutation", "gamma": "gamma"}[null],
        kernels=kernels,
        best=best,
        test=method,
        residuals=(left, right),
        missing=gaps,
        self_check=checked,
        explained=tuple(1 - share for share in left_over),
        doubts=doubts_about(tables[:2], tables[2], left_over),
    )
    return found if null_of is None else replace(found, restriction=null_of.after(found, unweighted))


def _refuse_unstacked(null: str, *kernels: Any) -> None:
    if null == "gamma":
        raise ValueError('method="stacked" draws multipliers: use null="bootstrap", or method="kci".')
    if any(kernel is not None for kernel in kernels):
        raise ValueError(
            'method="stacked" has kernels of its own: leave kernel_x, kernel_y and kernel_z out.'
        )


def _stacked(
    tables: Any,
    draws: int,
    rng: np.random.Generator,
    regressor: Any,
    gaps: MissingCells,
    design: Design | None = None,
) -> ConditionalResult:
    """Four forms of the residuals: linear and Gaussian, each over all of z and near to each other in z."""
    left, right, Z = (tame_columns(*table) for table in tables)
    inputs = Inputs.of(Z if Z.shape[1] else np.zeros((len(Z), 1)), rng)
    learner = None if regressor is None else of_regressor(regressor)
    # Strictly apart: what both sides shared would put the same noise into both residuals.
    sides = residuals_of(left, inputs, rng, learner), residuals_of(right, inputs, rng, learner)
    series, pairs = four_forms(sides, inputs, draws, rng, design)
    return ConditionalResult(
        statistic=float(series[0]),
        pvalue=permutation_pvalue(series),
        null=series[1:],
        effect_size=_strength(*(s.features for s in sides)),
        method="multipliers",
        kernels=(),
        best=0,
        test="stacked",
        residuals=(sides[0].residuals, sides[1].residuals),
        missing=gaps,
        self_check=check_errors(
            inputs.Z, pairs, rng, [s.predicted for s in sides], None if design is None else design.units
        ),
        explained=tuple(float(s.explained.mean()) for s in sides),
        doubts=doubts_about(tables[:2], tables[2], [s.left for s in sides]),
    )


def _one_kernel(kernel: Any, A: np.ndarray, encoder: Encoder, name: str) -> Kernel:
    if isinstance(kernel, str):
        check_choice(kernel, name, ("median",))
        kernel = None
    return resolve_kernel(kernel, A, encoder, name)


def _strength(Phi: np.ndarray, Psi: np.ndarray) -> float:
    """``‖ΦᵀΨ‖² / (‖ΦᵀΦ‖ ‖ΨᵀΨ‖)``, less its mean over permutations."""
    n = len(Phi)
    value = float(((Phi.T @ Psi) ** 2).sum())
    chance = float((Phi**2).sum() * (Psi**2).sum()) / (n - 1)
    top = float(np.linalg.norm(Phi.T @ Phi) * np.linalg.norm(Psi.T @ Psi))
    return float(min((value - chance) / (top - chance), 1.0)) if top > chance else 0.0


@dataclass(frozen=True, eq=False)
class ConditionalResult(TestResult):
    """Outcome of :func:`conditional_independence_test`.

    Attributes:
        test: "stacked", "kci" or "residual".
        residuals: what is left of x and of y given z; of KCI the first feature of each.
        missing: shares of missing cells by column, and what was done with them.
        self_check: whether both regressions on z err in the same places: a p-value, and by how much that
            moves the test.
        explained: the share of x and of y that z explains; of ``"stacked"`` on held-out rows, of KCI of the
            features.
        doubts: sentences on why nothing can be said given this z, if so.
    """

    test: str = "stacked"
    residuals: tuple[np.ndarray, np.ndarray] = field(
        default_factory=lambda: (np.empty((0, 1)), np.empty((0, 1))), repr=False
    )
    missing: MissingCells = field(default_factory=MissingCells, repr=False)
    self_check: SelfCheck = field(default_factory=SelfCheck)
    explained: tuple[float, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """Why not to trust the result, in words; empty if nothing was found."""
        return " ".join([*self.doubts, *([] if self._harmless else [MISLED])])

    @property
    def _harmless(self) -> bool:
        return self.self_check.sound or self.pvalue > FOUND

    @property
    def trusted(self) -> bool:
        """Whether what was found cannot come from errors that the regressions share, as far as one can see.

        Such errors make variables look dependent, so where no dependence was found (a p-value above 0.1)
        they did no harm. False, too, where nothing can be said given this z (``doubts``).
        """
        return not self.doubts and self._harmless

    @property
    def how(self) -> str:
        """The test, in words."""
        return {
            "kci": "kernel conditional independence",
            "residual": "HSIC of residuals",
            "stacked": "residuals of stacked regressions",
        }[self.test]

    @property
    def summary(self) -> str:
        found = self.pvalue <= 0.05
        said = "depend on each other given z" if found else "show no dependence given z"
        parts = [
            f"The variables {said} ({len(self.residuals[0])} rows; {self.how}; {self._how()}).",
            f"Strength {self.effect_size:.2f} on a scale from 0 to 1."
            if found
            else "This does not show that they are independent given z.",
            self.warning,
            self.missing.sentence,
            self.restriction.sentence if self.restriction else "",
        ]
        return " ".join(part for part in parts if part)

    def plot(self) -> Figure:
        from muhat.report.tests import conditional

        return conditional(self)
