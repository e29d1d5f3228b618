"""Do two variables depend on each other once a third is known?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from muhat import _threads
from muhat._array import column_sd
from muhat._tables import Encoder
from muhat._validation import as_generator, check_choice, check_count, check_same_rows
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.kernels.delta import Delta
from muhat.kernels.stationary import Gaussian
from muhat.learning.feature_ridge import GaussianFeatures, median_distance
from muhat.learning.leave_one_out import stretch
from muhat.learning.stacked import Inputs, of_regressor
from muhat.testing.aggregate import fuse, normal_scores
from muhat.testing.forms import BLOCK_ELEMENTS
from muhat.testing.given import doubts_about, refuse_known
from muhat.testing.independence import centred_factor, independence_test
from muhat.testing.missing import MissingCells, paired_tables
from muhat.testing.nulls import gamma_null, permutation_pvalue
from muhat.testing.restricted import Design, multipliers
from muhat.testing.restricted_pairs import PairNull, with_strata, within_strata
from muhat.testing.result import TestResult
from muhat.testing.row_labels import check_method, designed, is_given
from muhat.testing.samples import refuse_constant
from muhat.testing.self_check import SelfCheck, check_errors
from muhat.testing.stacked_residuals import Side, residuals_of, sure, tame_columns, weighted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("kci", "residual", "stacked")
NULLS = ("bootstrap", "gamma")
# Features of a variable: at most this many, or as many as leave out this share of the trace.
RANK, TOLERANCE = 150, 1e-3
# Features of one column of z in sums over columns; features of x that are multiplied by z.
ADDITIVE_RANK, INTERACTING = 60, 10
# Predictions of features of a variable that the self-check looks along.
LEADING = 2
# p-values above this claim nothing that errors of the regressions could have made up.
FOUND = 0.1
# Said where the self-check finds something.
MISLED = (
    "The regressions on z err in the same places, so that the residuals may only look dependent: do not "
    "trust this p-value. More rows, or fewer columns of z, would help."
)
# What the regressions on z choose from: scales of the kernel of z, and regularisers.
SCALES = (0.5, 1.0, 2.0)
REGULARISERS = tuple(np.geomspace(1e-7, 1e-1, 10))


class Smoother:
    """Ridge regressions on z: what z says of any other variable, and what is left of it.

    Kernels of z as a whole at several scales, and sums of kernels of its single columns (which find what
    few columns do among many), each with a range of regularisers: for every feature that is regressed, the
    pair with the least leave-one-out error is taken. All is done in principal components.

    Args:
        kernel: of z, with nothing left open.
        Z: the rows, (n, d).
        encoder: which columns are categories.
        design: strata, each with a mean of its own, and weights of rows; None for neither.
    """

    def __init__(
        self, kernel: Kernel, Z: np.ndarray, encoder: Encoder | None = None, design: Design | None = None
    ) -> None:
        self.kernel, self.Z, self.encoder = kernel, Z, encoder or Encoder()
        self.design = design or Design(np.zeros(len(Z), np.int64))

    @cached_property
    def components(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For every kernel, orthonormal components U (n, r) and their squared lengths (r,)."""
        d = self.Z.shape[1]
        features = [
            _components(stretch(self.kernel, np.full(d, scale)), self.Z, 2 * RANK) for scale in SCALES
        ]
        if d > 1:
            features += [self._additive(scale) for scale in SCALES]
        out = []
        root = np.sqrt(self.design.w)[:, None]
        for Theta in features:
            Theta = root * self.design.centre(Theta)
            squares, Q = np.linalg.eigh(Theta.T @ Theta)
            kept = squares > 1e-10 * squares[-1]
            out.append((Theta @ (Q[:, kept] / np.sqrt(squares[kept])), squares[kept]))
        return out

    def _additive(self, scale: float) -> np.ndarray:
        columns = []
        for j in range(self.Z.shape[1]):
            z = self.Z[:, [j]]
            if (z == z[0]).all():
                continue
            kernel = Delta() if j in self.encoder.categories else Gaussian(scale * float(z.std()))
            columns.append(_components(kernel, z, ADDITIVE_RANK))
        return np.hstack(columns) / np.sqrt(len(columns))

    def residuals(self, F: np.ndarray) -> np.ndarray:
        """``F`` (n, p) less its regressions on z: ``(I − K(K + nλI)⁻¹) F``, centred.

        With weights each row is multiplied by the root of its own: products of residuals are then weighted.
        """
        n = len(F)
        F = np.sqrt(self.design.w)[:, None] * self.design.centre(F)
        shares = self.design.shares
        best, out = np.full(F.shape[1], np.inf), F.copy()
        for U, lengths in self.components:
            projected, squares = U.T @ F, U**2
            for reg in REGULARISERS:
                shrink = lengths / (lengths + n * reg)
                left = F - U @ (shrink[:, None] * projected)
                free = 1 - squares @ shrink - shares  # 1 − the leverage of each row, with the intercept
                loss = np.mean((left / np.maximum(free, 1e-6)[:, None]) ** 2, axis=0)
                better = loss < best
                best[better] = loss[better]
                out[:, better] = left[:, better]
        return out


def _components(kernel: Kernel, Z: np.ndarray, rank: int) -> np.ndarray:
    return centred_factor(kernel, Z, np.random.default_rng(0), TOLERANCE / 10, rank, np.float64)


def variable_features(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """Centred features of a variable, (n, p)."""
    return centred_factor(kernel, X, np.random.default_rng(0), TOLERANCE, RANK, np.float64)


def interactions(Phi: np.ndarray, Z: np.ndarray, encoder: Encoder) -> np.ndarray:
    """Features of (x, z): those of x, and the leading ones times each column of z.

    They belong to the kernel ``k(x, x') (1 + aᵀa'/d)``, a being z in units of its spread: x and y may
    depend on each other one way where z is low and the opposite way where it is high. With a narrower
    kernel of z (that of [Z11] is a Gaussian) the regressions on z leave so much of it that the test loses
    its level.
    """
    A = numeric(Z, encoder) / np.sqrt(Z.shape[1])
    leading = Phi[:, :INTERACTING]
    return np.hstack([Phi, *(leading * A[:, [j]] for j in range(A.shape[1]))])


def product_forms(W: np.ndarray, *factors: np.ndarray) -> tuple[np.ndarray, float, float]:
    """``wᵀMw`` for every row w of ``W`` (B, n), with ``M = ΦΦᵀ ∘ ΨΨᵀ ∘ …``; and ``tr M`` and ``‖M‖²``."""
    n = len(factors[0])
    trace = float(np.prod([(Phi**2).sum(axis=1) for Phi in factors], axis=0).sum())

    def work(rows: slice) -> tuple[np.ndarray, float]:
        M = factors[0][rows] @ factors[0].T
        for Phi in factors[1:]:
            M *= Phi[rows] @ Phi.T
        return ((W @ M.T) * W[:, rows]).sum(axis=1), float(np.vdot(M, M))

    parts = _threads.run_blocks(work, _threads.row_blocks(n, n, BLOCK_ELEMENTS // 2))
    return np.sum([p[0] for p in parts], axis=0), trace, float(sum(p[1] for p in parts))


def kci(
    Phi: np.ndarray,
    Psi: np.ndarray,
    null: str,
    draws: int,
    rng: np.random.Generator,
    design: Design | None = None,
) -> tuple[float, float, np.ndarray]:
    """KCI from residual features of (x, z) and of y given z [Z11]: statistic, p-value and null.

    The statistic is ``‖Φᵀ Ψ‖²/n²``, the HSIC of the residuals. Under the null, ``Σᵢ φᵢ ⊗ ψᵢ`` is a sum of
    n terms of mean 0, so normal multipliers on the terms draw from its distribution; the gamma
    approximation has the mean and variance of the same weighted sum of χ² [Z11, Prop. 5]. With a design
    the multipliers are random signs of its groups.
    """
    n = len(Phi)
    W = _multipliers(n, draws if null == "bootstrap" else 0, rng, design)
    values, trace, square = product_forms(W, Phi, Psi)
    if null == "bootstrap":
        return float(values[0] / n**2), permutation_pvalue(values), values[1:] / n**2
    from scipy.stats import gamma

    shape, scale, quantiles = gamma_null(trace / n**2, 2 * square / n**4)
    statistic = float(values[0] / n**2)
    return statistic, float(gamma.sf(statistic, shape, scale=scale)), quantiles


def _multipliers(n: int, draws: int, rng: np.random.Generator, design: Design | None) -> np.ndarray:
    """1 for what was observed, then normal multipliers of rows, or signs under a design, (1 + draws, n)."""
    if design is not None:
        return multipliers(design, draws, rng)
    W = np.ones((1 + draws, n))
    W[1:] = rng.standard_normal((draws, n))
    return W


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
    if method == "stacked":
        _refuse_unstacked(null, kernel_x, kernel_y, kernel_z)
    elif regressor is not None:
        raise ValueError(f'regressor is for method="stacked", got method={method!r}: leave regressor out.')
    permutations = check_count(permutations, "permutations", 19)
    given = {"groups": groups, "blocks": blocks, "strata": strata, "weights": weights}
    design, unweighted = None, 0
    if is_given(given):
        check_method("gamma" if null == "gamma" else "permutation", given)
        (x, y, z), design, unweighted = designed((x, y, z), ("x", "y", "z"), given, missing, paired=True)
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
        kernels=((Gaussian("median"),) * 3,),
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
    W = _multipliers(len(inputs.Z), draws, rng, design)
    near = GaussianFeatures(inputs.Z[inputs.some], median_distance(inputs.Z))(inputs.Z)
    weights, values = sure(sides), []
    U, V, P, Q = (
        weighted(F if design is None else design.centre(F), weights)
        for F in (*(s.residuals for s in sides), *(s.features for s in sides))
    )
    pairs = [(U, V), (P, Q)]
    for pair in pairs:
        values += [product_forms(W, *pair)[0], product_forms(W, *pair, near)[0]]
    return fuse(normal_scores(np.stack(values)), np.full(len(values), 1 / len(values))), pairs


def _one_kernel(kernel: Any, A: np.ndarray, encoder: Encoder, name: str) -> Kernel:
    if isinstance(kernel, str):
        check_choice(kernel, name, ("median",))
        kernel = None
    return resolve_kernel(kernel, A, encoder, name)


def numeric(A: np.ndarray, encoder: Encoder) -> np.ndarray:
    """The columns as numbers of unit variance, a category as one indicator for each of its values."""
    out = []
    for j in range(A.shape[1]):
        if j in encoder.categories:
            out.append((A[:, [j]] == np.unique(A[:, j])).astype(np.float64))
        else:
            out.append(A[:, [j]])
    F = np.hstack(out)
    sd = column_sd(F)
    return (F - F.mean(axis=0))[:, sd > 0] / sd[sd > 0]


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
    def summary(self) -> str:
        found = self.pvalue <= 0.05
        how = {
            "kci": "kernel conditional independence",
            "residual": "HSIC of residuals",
            "stacked": "residuals of stacked regressions",
        }[self.test]
        said = "depend on each other given z" if found else "show no dependence given z"
        parts = [
            f"The variables {said} ({len(self.residuals[0])} rows; {how}; {self._how()}).",
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
