"""Do two variables depend on each other? The Hilbert–Schmidt independence criterion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from muhat import _threads
from muhat._tables import Encoder
from muhat._validation import as_generator, check_choice, check_count, check_positive, check_same_rows
from muhat.engine import SAMPLE, paired_sources, sample_indices, sample_rows
from muhat.gram import Exact, FeatureKernel, Nystrom, as_representation
from muhat.gram.incomplete import incomplete_cholesky
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.testing.aggregate import fuse, normal_scores
from muhat.testing.bank import choose_kernels
from muhat.testing.hadamard import cross_moments, hadamard_forms
from muhat.testing.missing import CHOICES, MissingCells, paired_tables
from muhat.testing.nulls import (
    Moments,
    centred_multipliers,
    gamma_null,
    memory_length,
    permutation_mean_variance,
    permutation_pvalue,
    row_permutations,
)
from muhat.testing.rank_statistics import beside_kernels, numbers, rank_statistics
from muhat.testing.restricted import Design
from muhat.testing.result import ColumnEffect, TestResult, column_effects
from muhat.testing.row_labels import tables_and_design
from muhat.testing.samples import (
    apart,
    as_table,
    check_streamed,
    column_names,
    refuse_constant,
)
from muhat.testing.streamed import SIGN_BINS, Components, signed_sums
from muhat.testing.two_sample import METHODS, refuse_unstreamed, represent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Up to this many rows, with one kernel a side and with several, the kernels are exact; beyond, they are cut
# to factors that leave out at most this share of the trace or reach this rank, shared by the kernels.
EXACT_ROWS, EXACT_ROWS_MANY = 2000, 300
TOLERANCE, RANK = 1e-4, 300
# Landmarks of each kernel where rows are read in blocks; rows that are too few for signs.
LANDMARKS, FEWEST = 128, 16
# Rows that single columns are looked at with, at most.
COLUMN_ROWS = 1000
# Factors that leave out no more than this share are complete.
COMPLETE = 1e-9
# Multiplications that cost as much as moving one entry of a permuted matrix.
GATHER = 60

Centre = Callable[[np.ndarray], np.ndarray]


def independence_test(
    x: Any,
    y: Any,
    kernel_x: Any = None,
    kernel_y: Any = None,
    method: str = "permutation",
    *,
    permutations: int = 999,
    representation: Representation | None = None,
    length: float | None = None,
    missing: str = "compare",
    groups: Any = None,
    blocks: Any = None,
    strata: Any = None,
    weights: Any = None,
    random_state: Any = None,
) -> IndependenceResult:
    """Test whether two variables are independent, by HSIC [G08].

    The statistic is the biased HSIC, ``tr(KHLH)/n²``. Beyond 2 000 rows (300 with several kernels a side) the
    permuted ones are computed from incomplete Cholesky factors that leave out at most 10⁻⁴ of the trace or
    reach rank 300, shared by the kernels of a side. The level is exact all the same; ``error`` says what the
    truncation takes from the statistic.

    Unless kernels are given, ranks of numeric columns take part in permutation tests: how y varies between
    neighbours in x, as in Chatterjee's ξ [C21], likewise x between neighbours in y, and whether rows far from
    the middle in x are so in y. These find what oscillates, squares and rings.

    Rows that outgrow memory (see :func:`muhat.open_rows`) are read twice: for the sample that kernels and
    features are chosen from, and for sums of products of at most 96 principal features a side over 256 bins,
    to which chance assigns the rows. The null distribution then comes from random signs of the bins' centred
    sums: a bootstrap, whose level is exact for many rows, in any order of the rows. Beyond 20 000 rows the
    same is done in memory, with the same answer, unless exact kernels are asked for; ``error`` is then
    estimated from the sample.

    Args:
        x: rows, (n, d): an array or frame; a vector is one column; or rows that are read in blocks (a path, a
            memory map, a Dask collection, :func:`muhat.open_rows`).
        y: the rows that go with them, (n, k).
        kernel_x: ``"aggregate"`` (the default, None): Gaussian kernels at three scales and a linear one,
            each with each of y, and statistics of ranks (see above); ``"median"``; ``"learn"``; a kernel; or
            a list of kernels.
        kernel_y: likewise.
        method: ``"permutation"`` of the rows of y (its level is exact; for many rows signs, see above, and
            the result's ``method`` is "multipliers"); ``"gamma"``, a gamma distribution with the mean and
            variance over all permutations (one kernel each; fast); ``"wild"`` bootstrap, for time series
            [CSG14].
        permutations: how many, or draws of the bootstrap.
        representation: None as above, with 128 landmarks a kernel where rows are read in blocks;
            :class:`muhat.Exact` for exact kernels whatever the size; or :class:`muhat.Fourier` or
            :class:`muhat.Nystrom` features.
        length: memory of the wild bootstrap in rows; None finds it from autocorrelations.
        missing: what to do with missing cells (NaN, None): ``"compare"`` them as values of their own, so that
            what is missing may depend, too; ``"drop"`` rows that have one on either side; ``"refuse"``. Rows
            that are read in blocks may have none.
        groups: what rows belong together (persons, clinics): one label a row, or the name of a column of x or
            y, which is then no data. The rows of y of one group go to the place of another group with as many
            rows; where y or x is the same within each group, to one of any size. With ``method="wild"`` each
            group has a random sign, whatever its size.
        blocks: rows of y are permuted within blocks only; labels or a name, like ``groups``. With ``strata``,
            within the combinations of both.
        strata: another word for ``blocks``. The statistic is that of features less their means in strata.
        weights: of rows, not negative; numbers or a name. The pairs stand for a weighted population. The null
            comes from random multipliers of rows, or groups, as it does beyond 20 000 rows: a bootstrap,
            whose level is exact for many. Rows of weight 0 are left out.
        random_state: seed.

    With any of these four ``method="gamma"`` is refused, rows must be in memory, and ``result.restriction``
    says what could move. :mod:`muhat.testing.restricted` has the rules.

    Returns:
        Result with ``statistic``, ``pvalue``, ``null``, ``kernel`` (of x and of y), ``effect_size`` (HSIC as
        a share of its largest possible value, less what chance gives: about 0 if they are independent, at
        most 1), ``witness(x, y)``, ``columns()``, ``missing``, ``plot()`` and ``summary``.
    """
    check_choice(method, "method", METHODS)
    permutations = check_count(permutations, "permutations", 19)
    if length is not None:
        check_positive(length, "length", "give the memory of the series in rows, e.g. 20", scalar=True)
    rng = as_generator(random_state)
    streams = paired_sources(x, y, ("x", "y"))
    given = {"groups": groups, "blocks": blocks, "strata": strata, "weights": weights}
    (x, y), design, unweighted = tables_and_design(
        (x, y), ("x", "y"), given, method, missing, paired=True, streamed=streams is not None
    )
    X: Any
    Y: Any
    if streams is None:
        (encoder_x, encoder_y), (X, Y), gaps = paired_tables((x, y), ("x", "y"), missing, 4)
        check_same_rows(X, Y, "x", "y")
        n = len(X)
        few_x, few_y = X[sample_indices(n)], Y[sample_indices(n)]
    else:
        refuse_unstreamed(method, representation)
        check_choice(missing, "missing", CHOICES)
        gaps = MissingCells(missing)
        (X, Y), (encoder_x, encoder_y) = streams, (Encoder(S.names) for S in streams)
        n, (few_x, few_y) = sample_rows(X, Y, names=("x", "y"))
        few_x, few_y = check_streamed(n, FEWEST, "x", few_x), check_streamed(n, FEWEST, "y", few_y)
    refuse_constant(few_x, "x", sum(gaps.dropped))
    refuse_constant(few_y, "y", sum(gaps.dropped))
    exact = isinstance(representation, Exact)
    many = n > SAMPLE and method == "permutation" and not exact and design is None
    binned = streams is not None or many
    null_of: Any = None
    if design is not None:
        from muhat.testing.restricted_pairs import PairNull

        signs = method == "wild" or n > SAMPLE
        null_of = PairNull.draw(design, X, Y, permutations, rng, signs)
        few_x, few_y = X, Y
    if binned and representation is None:
        representation = Nystrom(LANDMARKS)
    choices = [kernel_x, kernel_y]
    if method == "gamma":
        choices = ["median" if c is None else c for c in choices]
    sides, weights, chosen = [], [], []
    for choice, Z, encoder, name in zip(
        choices, apart(few_x, few_y, n, rng), (encoder_x, encoder_y), ("kernel_x", "kernel_y"), strict=True
    ):
        kernels, shares = choose_kernels(choice, Z, encoder, rng, "dependence", name)
        if representation is not None:
            given = isinstance(choice, (Kernel, list, tuple))
            kernels = represent(kernels, representation, Z, rng, given)
        sides.append(kernels)
        weights.append(shares)
        chosen.append(Z)
    if method == "gamma" and max(map(len, sides)) > 1:
        raise ValueError(
            'method="gamma" takes one kernel for x and one for y: pass "median", "learn" or a kernel, or use '
            'method="permutation", which aggregates many.'
        )
    pairs = [(k, l) for k in sides[0] for l in sides[1]]
    error, best, sums, restriction = 0.0, 0, None, None
    ranks, seen = np.empty((0, 1 + permutations)), ""
    if method == "gamma":
        value, a, b = cross_moments(sides[0][0], sides[1][0], X, Y)
        mean, variance = permutation_mean_variance(a, b)
        shape, scale, null = gamma_null(mean / n**2, variance / n**4)
        chance, top = _ends(a, b)
        statistic = value / n**2
        from scipy.stats import gamma

        pvalue = float(gamma.sf(statistic, shape, scale=scale))
    else:
        if null_of is not None:
            values = null_of.values(sides[0], sides[1], X, Y, representation, rng)
            method = "multipliers" if null_of.signed else method
        elif method == "wild":
            length = max(memory_length(X), memory_length(Y)) if length is None else float(length)
            W = np.ones((1 + permutations, n))
            W[1:] = centred_multipliers(n, permutations, length, rng, factors=2)
            values = np.stack([hadamard_forms(k, l, X, Y, W) for k, l in pairs])
        elif binned:
            left, right = (Components.fit(k, Z) for k, Z in zip(sides, chosen, strict=True))
            sums = signed_sums(X, Y, left, right, int(rng.integers(1 << 40, 1 << 60)))
            signs = np.ones((1 + permutations, SIGN_BINS))
            signs[1:] = rng.choice([-1.0, 1.0], (permutations, SIGN_BINS))
            values = sums.signed(signs)
            method = "multipliers"
        else:
            orders = row_permutations(n, permutations, rng)
            values = _permuted(sides[0], sides[1], X, Y, orders, representation, rng)
            tables = numbers(X, encoder_x.categories), numbers(Y, encoder_y.categories)
            default = all(c is None or (isinstance(c, str) and c == "aggregate") for c in choices)
            if default and (representation is None or exact) and all(t.shape[1] for t in tables):
                ranks = rank_statistics(*tables, orders, rng)
        values = values / n**2
        series = values[0]
        if len(pairs) > 1:
            scores, shares, seen = beside_kernels(normal_scores(values), np.outer(*weights).ravel(), ranks)
            best = int(scores[: len(pairs), 0].argmax())
            series = fuse(scores, shares)
        statistic, null, pvalue = float(series[0]), series[1:], permutation_pvalue(series)
        if null_of is not None:
            restriction = null_of.restriction.after(series, unweighted)
        if sums is not None:
            at = divmod(best, len(sides[1]))
            value, (a, b) = float(n**2 * values[best, 0]), sums.moments(*at)
            error, (chance, top) = sums.truncation(*at, few_x, few_y), _ends(a, b)
        elif null_of is not None:
            value, chance, top = null_of.scale(*pairs[best], X, Y, n**2 * values[best])
        else:
            value, a, b = cross_moments(*pairs[best], X, Y)
            chance, top = _ends(a, b)
        if sums is None and (method == "permutation" or null_of is not None):
            error = value / n**2 - float(values[best, 0])
        if len(pairs) == 1:
            statistic = value / n**2
    effect = _strength(value, chance, top)
    return IndependenceResult(
        statistic=statistic,
        pvalue=pvalue,
        null=null,
        effect_size=effect,
        method=method,
        kernels=tuple(pairs),
        best=best,
        hsic=value / n**2,
        error=error,
        x=few_x if binned else X,
        y=few_y if binned else Y,
        encoder_x=encoder_x,
        encoder_y=encoder_y,
        seed=int(rng.integers(2**32)),
        rows=n,
        missing=gaps,
        restriction=restriction,
        design=design,
        ranks=len(ranks),
        seen=seen,
    )


def _ends(a: Moments, b: Moments) -> tuple[float, float]:
    """What chance gives of HSIC, and what it can be at most."""
    return permutation_mean_variance(a, b)[0], float(np.sqrt(a.square * b.square))


def _strength(value: float, mean: float, top: float) -> float:
    """HSIC beyond what chance gives, as a share of what it can be; below 0 where it falls short of chance."""
    return float(min((value - mean) / (top - mean), 1.0)) if top > mean else 0.0


def centred_gram(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """``HKH``, (n, n)."""
    K = np.asarray(kernel(X), dtype=np.float64)
    mean = K.mean(axis=0)
    return K - mean - mean[:, None] + mean.mean()


def _permuted(
    kernels_x: list[Kernel],
    kernels_y: list[Kernel],
    X: np.ndarray,
    Y: np.ndarray,
    orders: np.ndarray,
    representation: Any,
    rng: np.random.Generator,
    centre: Centre | None = None,
) -> np.ndarray:
    """``tr(HKH PLPᵀ)`` for every pair of kernels and every permutation, (pairs, 1 + permutations).

    With ``centre`` features of x are centred by it.
    """
    n = len(X)
    both = ((kernels_x, X), (kernels_y, Y))
    if representation is not None and not isinstance(as_representation(representation), Exact):
        left, right = ([centred_factor(k, Z, rng) for k in kernels] for kernels, Z in both)
        return _factored(left, right, orders, centre)
    exact_rows = EXACT_ROWS if len(kernels_x) * len(kernels_y) == 1 else EXACT_ROWS_MANY
    if n > exact_rows and representation is None:
        left, right = (
            [centred_factor(k, Z, rng, rank=max(64, RANK // len(kernels))) for k in kernels]
            for kernels, Z in both
        )
        return _factored(left, right, orders, centre)
    # Exact: by entries, or by complete factors where these are so few that products cost less.
    most = int(np.sqrt(GATHER * n * len(kernels_y) / 2))
    left, right = (
        [centred_factor(k, Z, rng, COMPLETE, most, np.float64) for k in kernels] for kernels, Z in both
    )
    columns = [sum(f.shape[1] for f in side) for side in (left, right)]
    complete = max(f.shape[1] for f in left + right) < most
    cheaper = 2 * columns[0] * columns[1] < GATHER * n * len(right)
    if complete and cheaper:
        return _factored(left, right, orders, centre)
    return _dense(kernels_x, kernels_y, X, Y, orders, centre)


def _dense(
    kernels_x: list[Kernel],
    kernels_y: list[Kernel],
    X: np.ndarray,
    Y: np.ndarray,
    orders: np.ndarray,
    centre: Centre | None = None,
) -> np.ndarray:
    """Permuted traces entry by entry."""
    n = len(X)
    dtype = np.float64 if n <= EXACT_ROWS_MANY else np.float32
    grams = [centred_gram(k, X) for k in kernels_x]
    grams = grams if centre is None else [centre(centre(K).T) for K in grams]
    left = np.stack([K.astype(dtype).ravel() for K in grams])
    right = [centred_gram(k, Y).astype(dtype) for k in kernels_y]
    out = np.empty((len(kernels_x), len(right), len(orders)))
    height = max(1, min(n, (1 << 16) // n))

    def work(columns: slice) -> None:
        permuted = np.empty((len(right), n, n), dtype)
        for b in range(columns.start, columns.stop):
            order = orders[b]
            for L, target in zip(right, permuted, strict=True):
                for i in range(0, n, height):  # rows that stay in the cache while their columns are picked
                    rows = L[order[i : i + height]]
                    np.take(rows, order, axis=1, out=target[i : i + height], mode="clip")
            out[:, :, b] = left @ permuted.reshape(len(right), -1).T

    _threads.run_blocks(work, _threads.row_blocks(len(orders), 1, 16))
    return out.reshape(-1, len(orders))


def _factored(
    left: list[np.ndarray], right: list[np.ndarray], orders: np.ndarray, centre: Centre | None = None
) -> np.ndarray:
    """Permuted traces as ``‖Φᵀ P Ψ‖²``, by centred factors of every kernel."""
    Phi = np.concatenate(left, axis=1)
    Phi = Phi if centre is None else centre(Phi)
    Psi = np.concatenate(right, axis=1)
    split_x = np.cumsum([0, *(a.shape[1] for a in left)])[:-1]
    split_y = np.cumsum([0, *(b.shape[1] for b in right)])[:-1]
    PhiT = np.ascontiguousarray(Phi.T)
    out = np.empty((len(left), len(right), len(orders)))

    def work(columns: slice) -> None:
        for b in range(columns.start, columns.stop):
            squares = PhiT @ Psi[orders[b]]
            squares *= squares
            out[:, :, b] = np.add.reduceat(np.add.reduceat(squares, split_x, axis=0), split_y, axis=1)

    _threads.run_blocks(work, _threads.row_blocks(len(orders), 1, 16))
    return out.reshape(-1, len(orders))


def centred_factor(
    kernel: Kernel,
    X: np.ndarray,
    rng: np.random.Generator,
    tolerance: float = TOLERANCE,
    rank: int = RANK,
    dtype: Any = np.float32,
) -> np.ndarray:
    """``Φ`` (n, p) with ``ΦΦᵀ ≤ HKH``: principal components of the features.

    The features are those of the kernel, or come from incomplete Cholesky about the mean of some rows. These
    are drawn at random: truncated features that depend on where a row stands would not be exchangeable.
    """
    if isinstance(kernel, FeatureKernel):
        Phi, rest = np.asarray(kernel.features(X), dtype=np.float64), 0.0
    else:
        some = X[rng.choice(len(X), min(len(X), 64), replace=False)]
        Phi, rest = incomplete_cholesky(kernel, X, 0.5 * tolerance, rank, some)
    Phi = Phi - Phi.mean(axis=0)
    wide = Phi.shape[1] > len(Phi)
    values, vectors = np.linalg.eigh(Phi @ Phi.T if wide else Phi.T @ Phi)
    values = np.maximum(values, 0.0)
    # The smallest components that together stay within the tolerance go.
    total = float(values.sum()) + rest
    dropped = int(np.searchsorted(np.cumsum(values), 0.5 * tolerance * total))
    dropped = min(dropped, len(values) - 1)
    kept = vectors[:, dropped:][:, ::-1]
    return (kept * np.sqrt(values[dropped:][::-1]) if wide else Phi @ kept).astype(dtype)


@dataclass(frozen=True, eq=False)
class IndependenceResult(TestResult):
    """Outcome of :func:`independence_test`.

    Attributes:
        hsic: ``tr(KHLH)/n²`` with ``kernel``.
        error: by how much truncation made the statistic of ``kernel`` too small; 0 for exact kernels.
        x, y: the rows as numbers; of many rows at most 20 000, which stand for all in
            ``witness()``, ``columns()`` and ``plot()``.
        rows: how many there are, whether kept or not.
        missing: shares of missing cells by column, and what was done with them.
        design: groups, strata and weights of the rows, where any were given.
        ranks: how many statistics of ranks took part beside the kernels.
        seen: where the dependence shows most, if ranks show it more than the kernels do.
    """

    hsic: float = 0.0
    error: float = 0.0
    x: np.ndarray = field(default_factory=lambda: np.empty((0, 1)), repr=False)
    y: np.ndarray = field(default_factory=lambda: np.empty((0, 1)), repr=False)
    encoder_x: Encoder = field(default_factory=Encoder, repr=False)
    encoder_y: Encoder = field(default_factory=Encoder, repr=False)
    seed: int = field(default=0, repr=False)
    rows: int = 0
    missing: MissingCells = field(default_factory=MissingCells, repr=False)
    design: Design | None = field(default=None, repr=False)
    ranks: int = 0
    seen: str = ""

    def witness(self, x: Any, y: Any) -> np.ndarray:
        """Joint embedding minus the product of the marginal ones at pairs (xᵢ, yᵢ), (k,).

        Positive where pairs occur more often than under independence.
        """
        P = np.asarray(self.encoder_x.transform(as_table(x), "x"), dtype=np.float64)
        Q = np.asarray(self.encoder_y.transform(as_table(y), "y"), dtype=np.float64)
        check_same_rows(P, Q, "x", "y")
        k, l = self.kernel
        K, L = np.asarray(k(P, self.x)), np.asarray(l(Q, self.y))
        if self.design is not None:
            K, L = (self.design.centre(A.T).T for A in (K, L))
            return (K * L) @ self.design.w / len(self.x)
        return (K * L).mean(axis=1) - K.mean(axis=1) * L.mean(axis=1)

    def columns(self, permutations: int | None = None) -> list[ColumnEffect]:
        """What each column of x shows of y and each column of y of x, the strongest first.

        Each is tested alone against the whole of the other; p-values are adjusted for the number of columns
        by the largest score in each permutation. At most 1000 rows take part; ``rows`` of each column says
        how many. A missing cell is a value of its column, and its indicator a column of its own.
        """
        permutations = min(len(self.null), 999) if permutations is None else permutations
        rng = np.random.default_rng(self.seed)
        n = len(self.x)
        if self.design is not None:
            from muhat.testing.restricted_pairs import pair_columns

            return pair_columns(self, self.design, permutations, COLUMN_ROWS, rng)
        rows = np.arange(n) if n <= COLUMN_ROWS else rng.choice(n, COLUMN_ROWS, replace=False)
        x, y = self.x[rows], self.y[rows]
        orders = row_permutations(len(rows), permutations, rng)
        sides = ((x, self.encoder_x, y, self.encoder_y, "x"), (y, self.encoder_y, x, self.encoder_x, "y"))
        names, scores, effects = [], [], []
        for Z, encoder, other, other_encoder, prefix in sides:
            across, _ = choose_kernels("median", other, other_encoder, rng, "dependence")
            for j, name in enumerate(column_names(encoder, Z.shape[1], prefix)):
                names.append(name)
                column = Z[:, [j]]
                if (column == column[0]).all():
                    scores.append(np.zeros(1 + permutations))
                    effects.append(0.0)
                    continue
                alone = Encoder(None, {0: encoder.categories[j]} if j in encoder.categories else {})
                kernels, _ = choose_kernels("median", column, alone, rng, "dependence")
                values = _permuted(kernels, across, column, other, orders, None, rng)
                scores.append(normal_scores(values)[0])
                value, a, b = cross_moments(kernels[0], across[0], column, other)
                effects.append(_strength(value, *_ends(a, b)))
        return column_effects(names, effects, np.stack(scores), rows=(len(rows),))

    @property
    def summary(self) -> str:
        parts = [
            f"The variables {'depend on each other' if self.pvalue <= 0.05 else 'show no dependence'} "
            f"({self.rows} rows; {self._how()}).",
            strength_words(self.effect_size, self.pvalue <= 0.05),
            self._where(),
            self.missing.sentence,
            self.restriction.sentence if self.restriction else "",
        ]
        return " ".join(part for part in parts if part)

    def _how(self) -> str:
        ranks = f" and {self.ranks} statistics of ranks" if self.ranks else ""
        return super()._how().replace(" kernels,", f" kernels{ranks},")

    def _where(self) -> str:
        if not self.seen or self.pvalue > 0.05:
            return ""
        return f"It shows most in {self.seen}, which the strength, being of kernels, may miss."

    def plot(self) -> Figure:
        from muhat.report.tests import independence

        return independence(self)


def strength_words(strength: float, found: bool) -> str:
    """The effect size in a sentence that says no more than the test found."""
    if not found:
        return "This does not show that they are independent."
    return f"Strength {strength:.2f} on a scale from 0, independent, to 1, each determines the other."
