"""Do two samples come from the same distribution? The maximum mean discrepancy test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from muhat._tables import Encoder
from muhat._validation import as_generator, check_choice, check_count, check_positive
from muhat._words import percent
from muhat.embedding import Embedding, embed
from muhat.engine import paired_sources, sample_indices, sample_rows
from muhat.gram import Exact, FeatureKernel, Fourier, Nystrom, as_representation, streamed_representation
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel, NoClosedForm
from muhat.testing.aggregate import fuse, normal_scores
from muhat.testing.bank import choose_kernels, is_moment
from muhat.testing.columns import (
    BlockCounts,
    all_cells,
    columns_alone,
    columns_under,
    count_columns,
    lumped,
)
from muhat.testing.forms import SINGLE_ROWS, Bins, Forms, binned_mmd, feature_forms, quadratic_forms
from muhat.testing.matched import matched_columns, matched_words
from muhat.testing.missing import CHOICES, MissingCells, two_tables
from muhat.testing.nulls import (
    Moments,
    centred_multipliers,
    gamma_null,
    label_permutations,
    memory_length,
    permutation_mean_variance,
    permutation_pvalue,
)
from muhat.testing.restricted_null import LabelNull
from muhat.testing.result import ColumnEffect, TestResult
from muhat.testing.row_labels import tables_and_design
from muhat.testing.samples import (
    check_streamed,
    column_names,
    pooled,
    refuse_constant,
    streamed_encoder,
)
from muhat.testing.separation import separation
from muhat.testing.spelling import doubtful_columns
from muhat.testing.streamed import bin_size, sample_embedding, sample_sums

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("permutation", "gamma", "wild")
# Beyond this many rows in all, features stand in for the kernels unless exact ones are asked for.
EXACT_ROWS = 10_000
FEATURES = 512
# By how much a kernel of moments must lead to be called the one that shows the effect most: a local
# kernel also says where.
LEAD = 1.0


def two_sample_test(
    x: Any,
    y: Any,
    kernel: Any = None,
    method: str = "permutation",
    *,
    permutations: int = 999,
    biased: bool = False,
    representation: Representation | None = None,
    length: float | None = None,
    missing: str = "compare",
    groups: Any = None,
    blocks: Any = None,
    strata: Any = None,
    weights: Any = None,
    random_state: Any = None,
) -> TwoSampleResult:
    """Test whether two samples come from the same distribution, by their MMD [G12].

    Samples that outgrow memory (see :func:`muhat.open_rows`) are each read twice: for the rows that kernels
    and features are chosen from, and for sums of features over bins of rows, which permutations move whole.
    Beyond 20 000 rows in all the same is done in memory, with the same answer.

    Args:
        x: rows of the first sample, (n, d): an array or frame; a vector is n points in one dimension; or rows
            that are read in blocks (a path, a memory map, a Dask collection, :func:`muhat.open_rows`).
        y: rows of the second, (m, d), with the same columns.
        kernel: ``"aggregate"`` (the default, None): Gaussian and Laplace kernels at the scale of detail, a
            Laplace kernel on ranks, a wide kernel, one of each column by itself, and kernels of second
            moments, all at once; ``"median"``; ``"learn"``, by :func:`muhat.learn_kernel` on the pooled rows;
            a kernel; or a list of kernels to aggregate.
        method: where the p-value comes from: ``"permutation"`` of the rows between the samples (its level
            is exact); ``"gamma"``, a gamma distribution with the mean and variance over all permutations
            (one kernel only; fast); ``"wild"`` bootstrap, for time series [CSG14].
        permutations: how many, or draws of the wild bootstrap.
        biased: whether the statistic keeps the pairs of a row with itself, (1/n²) Σ k(xᵢ, xⱼ) + …; the
            unbiased one leaves them out. The wild bootstrap and gamma use the biased one.
        representation: how kernels are held: exact in blocks, or :class:`muhat.Fourier` or
            :class:`muhat.Nystrom` features, whose cost grows linearly with the rows. None takes exact
            kernels up to 10 000 rows in all, and 512 features beyond and for rows that are read in blocks.
        length: memory of the wild bootstrap in rows; None finds it from autocorrelations.
        missing: what to do with missing cells (NaN, None): ``"compare"`` them as values of their own, so that
            a difference in what is missing is a difference; ``"drop"`` rows that have one, which may hide or
            make a difference (``result.missing`` says how many, and whether the samples differ in that);
            ``"refuse"``. Rows that are read in blocks may have none.
        groups: what rows belong together (persons, clinics), as a pair ``(of_x, of_y)`` of arrays with one
            label a row, or the name of a column of both frames, which is then no data. The sample of a whole
            group is permuted; a label in both samples is one group, within which rows are permuted. With
            ``method="wild"`` each group has a random multiplier.
        blocks: rows are permuted within blocks only; a pair or a name, like ``groups``. With ``strata``,
            within the combinations of both.
        strata: another word for ``blocks``. The samples are then compared within strata: that these are not
            as frequent in both is no difference.
        weights: of rows, not negative, such as survey weights; a pair, in which None is 1 for all, or a name.
            The samples stand for weighted populations. Rows are permuted with their weights, which is right
            where both samples were weighted in the same way; with ``method="wild"``, and where one sample has
            no weights, the null comes from random multipliers of rows: a bootstrap, whose level is exact for
            many. Rows of weight 0 are left out.
        random_state: seed.

    With any of these four the statistic is the biased one, ``method="gamma"`` is refused, rows must be in
    memory, and ``result.restriction`` says what could move. :mod:`muhat.testing.restricted` has the rules.

    Returns:
        Result with ``statistic``, ``pvalue``, ``null``, ``kernel``, ``effect_size`` (how often a regularised
        witness, made without the rows in question, ranks a row of x above one of y: about 0.5 if they are
        alike, 1 if they can be told apart), ``effect_interval``, ``witness(points)``, ``columns()``,
        ``missing``, ``matched``, ``doubts``, ``plot()`` and ``summary``.
    """
    check_choice(method, "method", METHODS)
    permutations = check_count(permutations, "permutations", 19)
    if length is not None:
        check_positive(length, "length", "give the memory of the series in rows, e.g. 20", scalar=True)
    rng = as_generator(random_state)
    streams = paired_sources(x, y, ("x", "y"))
    given = {"groups": groups, "blocks": blocks, "strata": strata, "weights": weights}
    (x, y), design, unweighted = tables_and_design(
        (x, y), ("x", "y"), given, method, missing, paired=False, streamed=streams is not None
    )
    A: Any
    B: Any
    if streams is None:
        encoder, A, B, gaps = two_tables(x, y, missing)
        n, m = len(A), len(B)
        few_x, few_y = A[sample_indices(n)], B[sample_indices(m)]
    else:
        check_choice(missing, "missing", CHOICES)
        (A, B), encoder, gaps = streams, streamed_encoder(*streams), MissingCells(missing)
        refuse_unstreamed(method, representation)
        (n, (few_x,)), (m, (few_y,)) = sample_rows(A, names=("x",)), sample_rows(B, names=("y",))
        few_x, few_y = check_streamed(n, 2, "x", few_x), check_streamed(m, 2, "y", few_y)
    some = pooled(few_x, few_y, n, m, rng)
    refuse_constant(some, "both samples", sum(gaps.dropped))
    if kernel is None and method == "gamma":
        kernel = "median"
    kernels, weights = choose_kernels(kernel, some, encoder, rng, "two-sample")
    if method == "gamma" and len(kernels) > 1:
        raise ValueError(
            'method="gamma" takes one kernel: pass kernel="median", "learn" or a kernel, or use '
            'method="permutation", which aggregates many.'
        )
    given = representation is not None and isinstance(kernel, (Kernel, list, tuple))
    if representation is None and (streams is not None or n + m > EXACT_ROWS):
        representation = Fourier(FEATURES)
    kernels = represent(kernels, representation, some, rng, given)
    featured = [k for k in kernels if isinstance(k, FeatureKernel)]
    forms, sums, cells, centre = None, (), [], some.mean(axis=0)
    null_of: LabelNull | None = None
    if design is not None:
        null_of = LabelNull.draw(design, np.arange(n + m) < n, permutations, rng, signs=method == "wild")
        few_x, few_y = A, B
        method = "multipliers" if null_of.restriction.signs else method
        values = null_of.values(kernels, np.concatenate([A, B]))
    elif method == "permutation" and len(featured) == len(kernels):
        bins = Bins.draw(n, m, bin_size(n, m), rng)
        cells = all_cells(some, encoder)
        members = label_permutations(*bins.counts, permutations, rng)
        sums = tuple(
            sample_sums(featured, S, bins, side, centre, name, cells)
            for side, (S, name) in enumerate(((A, "x"), (B, "y")))
        )
        both = zip(sums[0].bins, sums[1].bins, strict=True)
        values = np.stack([binned_mmd(a, b, members, n, m, biased) for a, b in both])
    else:
        assert streams is None
        Z = np.concatenate([A, B])
        if method == "wild":
            length = max(memory_length(A), memory_length(B)) if length is None else float(length)
            V = _wild_vectors(n, m, permutations, length, rng)
        elif method == "gamma":
            V = ((np.arange(n + m) < n) - n / (n + m))[None]
        else:
            V = _centred_labels(n, m, permutations, rng)
        forms = _forms(kernels, Z, V)
        plain = method == "permutation" and not biased
        values = _unbiased(forms, V, n, m) if plain else _biased(forms, V, n, m)
    best, restriction = 0, None
    if method == "gamma":
        assert forms is not None
        statistic = float(values[0, 0])
        pvalue, null = _gamma(forms, n, m, statistic)
    else:
        series = values[0]
        if len(kernels) > 1:
            scores = normal_scores(values)
            best = int((scores[:, 0] - LEAD * np.array([is_moment(k) for k in kernels])).argmax())
            series = fuse(scores, weights)
        statistic, null, pvalue = float(series[0]), series[1:], permutation_pvalue(series)
        if null_of is not None:
            restriction = null_of.restriction.after(series, unweighted)
    matched = matched_columns(few_x, few_y, encoder)
    rows_like = None if null_of is None else null_of.row_shares
    effect, interval = separation(few_x, few_y, encoder, rng, matched, rows_like)
    names = column_names(encoder, few_x.shape[1], "x")
    embeddings, counts = None, None
    if sums and n + m > len(few_x) + len(few_y):  # the rows are not all kept
        embeddings = tuple(
            sample_embedding(featured[best], part.bins[best], part.moments, few, rows, centre, encoder)
            for part, few, rows in zip(sums, (few_x, few_y), (n, m), strict=True)
        )
        counts = [BlockCounts(*part) for part in zip(cells, sums[0].cells, sums[1].cells, strict=True)]
    return TwoSampleResult(
        statistic=statistic,
        pvalue=pvalue,
        null=null,
        effect_size=effect,
        method=method,
        kernels=tuple(kernels),
        best=best,
        mmd2=float(values[best, 0]),
        x=few_x if sums else A,
        y=few_y if sums else B,
        encoder=encoder,
        seed=int(rng.integers(2**32)),
        rows=(n, m),
        streamed_embeddings=embeddings,
        effect_interval=interval,
        effect_rows=(len(few_x), len(few_y)),
        missing=gaps,
        counts=counts,
        matched=tuple(names[j] for j in matched),
        doubts=doubtful_columns(few_x, few_y, encoder, names),
        restriction=restriction,
        null_of=null_of,
    )


def refuse_unstreamed(method: str, representation: Any) -> None:
    """Raise for what rows that are read in blocks do not have: nulls but permutations, exact kernels."""
    if method != "permutation":
        raise ValueError(
            f'method={method!r} needs all rows in memory: use method="permutation" for rows that are read in '
            "blocks, or load them into an array."
        )
    streamed_representation(representation)


def represent(
    kernels: list[Kernel], representation: Any, Z: np.ndarray, rng: np.random.Generator, given: bool
) -> list[Kernel]:
    """The kernels as the representation holds them, made for rows ``Z``.

    A kernel of ours that has no Fourier features gets landmarks instead; one that was ``given`` is refused.
    """
    representation = as_representation(representation)
    if isinstance(representation, Exact):
        return kernels
    out = []
    for kernel in kernels:
        try:
            out.append(representation.fit(kernel, Z, rng))
        except NoClosedForm:
            if given or not isinstance(representation, Fourier):
                raise
            out.append(Nystrom(representation.p, "uniform").fit(kernel, Z, rng))
    return out


def _forms(kernels: list[Kernel], Z: np.ndarray, V: np.ndarray) -> Forms:
    """Forms of kernels with features and of those without, in the order of the kernels."""
    exact = [i for i, k in enumerate(kernels) if not isinstance(k, FeatureKernel)]
    whole = quadratic_forms([kernels[i] for i in exact], Z, V) if exact else None
    single = V.astype(np.float32) if len(Z) >= SINGLE_ROWS and len(exact) < len(kernels) else V
    parts = []
    for i, kernel in enumerate(kernels):
        if isinstance(kernel, FeatureKernel):
            parts.append(feature_forms(kernel, Z, single))
        else:
            assert whole is not None
            parts.append(whole.of(exact.index(i)))
    return Forms.stack(parts)


def _centred_labels(n: int, m: int, permutations: int, rng: np.random.Generator) -> np.ndarray:
    """Labels less their mean, (1 + permutations, N), in the precision of the products that they enter."""
    dtype = np.float32 if n + m >= SINGLE_ROWS else np.float64
    return label_permutations(n, m, permutations, rng) - dtype(n / (n + m))


def _biased(forms: Forms, V: np.ndarray, n: int, m: int) -> np.ndarray:
    """``Σᵢⱼ aᵢ aⱼ k(zᵢ, zⱼ)`` with weights 1/n and −1/m that V (B, N) has centred, (kernels, B)."""
    return (1 / n + 1 / m) ** 2 * (forms.values + forms.diagonals @ (V**2).T)


def _unbiased(forms: Forms, V: np.ndarray, n: int, m: int) -> np.ndarray:
    """MMD² without the pairs of a row with itself [G12, eq. (3)], (kernels, B)."""
    f = n / (n + m)
    total = forms.rows.sum(axis=1, keepdims=True)
    # Rows of V sum to 0, so the mean of ``rows`` can go: what is left loses nothing to single precision.
    rows = (forms.rows - total / (n + m)).astype(V.dtype)
    first = (V @ rows.T).T.astype(np.float64) + f * total  # Σ_{i∈x} Σ_{j≠i} k
    xx = forms.values + 2 * f * first - f**2 * total
    xy = first - xx
    yy = total - 2 * first + xx
    return xx / (n * (n - 1)) + yy / (m * (m - 1)) - 2 * xy / (n * m)


def _wild_vectors(n: int, m: int, draws: int, length: float, rng: np.random.Generator) -> np.ndarray:
    """As observed, then the centred multipliers of each sample on the scale of V, (1 + draws, N)."""
    V = np.empty((1 + draws, n + m))
    V[0] = (np.arange(n + m) < n) - n / (n + m)
    for rows, size, weight in ((slice(0, n), n, m / (n + m)), (slice(n, n + m), m, n / (n + m))):
        V[1:, rows] = weight * centred_multipliers(size, draws, length, rng)
    return V


def _gamma(forms: Forms, n: int, m: int, statistic: float) -> tuple[float, np.ndarray]:
    from scipy.stats import gamma

    kernel = Moments.of_sums(forms.diagonals[0], forms.rows[0], float(forms.squares[0]))
    mean, variance = permutation_mean_variance(kernel, Moments.of_labels(n, m))
    factor = (1 / n + 1 / m) ** 2
    shape, scale, null = gamma_null(factor * mean, factor**2 * variance)
    return float(gamma.sf(statistic, shape, scale=scale)), null


@dataclass(frozen=True, eq=False)
class TwoSampleResult(TestResult):
    """Outcome of :func:`two_sample_test`.

    Attributes:
        mmd2: the squared MMD with ``kernel``, biased or not as asked.
        x, y: the samples as numbers; with features, at most 20 000 rows of each, which stand for all in
            ``effect_size`` and ``plot()``.
        encoder: how tables became numbers.
        rows: of each sample, whether kept or not.
        effect_interval: of ``effect_size``, with probability 0.95 if rows are independent [DDC88]; wider than
            it must be where the samples differ much.
        effect_rows: rows of each sample that ``effect_size`` comes from, at most 20 000.
        missing: shares of missing cells by column and sample, and what was done with them.
        counts: of all rows by column, where not all rows are kept.
        matched: columns of categories that the samples share more evenly than independent samples do (less
            than once in 10 000), as where rows are matched or the table is a panel. ``effect_size`` leaves
            them out: the partner of a row would tell which sample it is from.
        doubts: sentences on columns whose categories the samples may spell differently.
        null_of: how labels moved or signs were drawn, with groups, blocks, strata or weights.
    """

    mmd2: float = 0.0
    x: np.ndarray = field(default_factory=lambda: np.empty((0, 1)), repr=False)
    y: np.ndarray = field(default_factory=lambda: np.empty((0, 1)), repr=False)
    encoder: Encoder = field(default_factory=Encoder, repr=False)
    seed: int = field(default=0, repr=False)
    rows: tuple[int, int] = (0, 0)
    streamed_embeddings: tuple[Any, ...] | None = field(default=None, repr=False)
    effect_interval: tuple[float, float] = (0.0, 1.0)
    effect_rows: tuple[int, int] = (0, 0)
    missing: MissingCells = field(default_factory=MissingCells, repr=False)
    counts: list[BlockCounts] | None = field(default=None, repr=False)
    matched: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    null_of: LabelNull | None = field(default=None, repr=False)

    @property
    def embeddings(self) -> tuple[Embedding, Embedding]:
        """The embeddings of the two samples with ``kernel``, of all their rows."""
        if self.streamed_embeddings is not None:
            return self.streamed_embeddings[0], self.streamed_embeddings[1]
        parts: Any = (None, None)
        if self.null_of is not None:
            parts = np.split(self.null_of.weights, [len(self.x)])
        return embed(self.x, self.kernel, parts[0]), embed(self.y, self.kernel, parts[1])

    def witness(self, points: Any) -> np.ndarray:
        """``μ_x − μ_y`` at points (k, d): positive where x has more mass than y."""
        from muhat.testing.samples import as_table

        P = np.asarray(self.encoder.transform(as_table(points), "points"), dtype=np.float64)
        mu, nu = self.embeddings
        return np.asarray(mu(P)) - np.asarray(nu(P))

    def columns(self, permutations: int | None = None) -> list[ColumnEffect]:
        """What each column shows by itself, the strongest first.

        Every column is tested alone, on all rows: at three scales of its ranks, on its categories, and on
        what is missing. p-values are adjusted for the number of columns by the largest score in each
        permutation. A difference that lies in how columns go together need not show in any; and a column
        whose test does not reject may differ all the same. Of a single column it is the test itself.
        """
        names = column_names(self.encoder, self.x.shape[1], "x")
        alone = [j for j in range(len(names)) if j not in self.encoder.indicators.values()]
        if len(alone) == 1 and self.counts is None:
            name, shares = names[alone[0]], dict(self.missing.shares)
            return [
                ColumnEffect(
                    name,
                    self.effect_size,
                    self.pvalue,
                    self.effect_interval,
                    shares.get(name, ()) if self.missing.how == "compare" else (),
                    self.rows,
                )
            ]
        rng = np.random.default_rng(self.seed)
        permutations = min(len(self.null), 999) if permutations is None else permutations
        if self.null_of is not None:
            return columns_under(self.null_of, self.x, self.y, self.encoder, permutations, rng, self.matched)
        counts = self.counts or count_columns(self.x, self.y, self.encoder, rng)
        known = {
            j: separation(self.x[:, [j]], self.y[:, [j]], Encoder(None, {0: self.encoder.categories[j]}), rng)
            for j in lumped(self.encoder)
        }
        labels = [names[c.cells.column] for c in counts]
        return columns_alone(counts, labels, permutations, rng, self.matched, known)

    @property
    def effect_sentence(self) -> str:
        """The effect size in words that agree with the test at the level 0.05."""
        return effect_words(self, self.pvalue <= 0.05)

    @property
    def matched_sentence(self) -> str:
        """What it means that columns are matched, in plain words; empty if none is."""
        return matched_words(self.matched)

    @property
    def summary(self) -> str:
        n, m = self.rows
        found = "The samples differ" if self.pvalue <= 0.05 else "No difference was found"
        start = f"{found} ({n} and {m} rows; {self._how()})."
        parts = [start, self.effect_sentence, *self.doubts, self.matched_sentence, self.missing.sentence]
        parts.append(self.restriction.sentence if self.restriction else "")
        return " ".join(part for part in parts if part)

    def plot(self) -> Figure:
        from muhat.report.tests import two_sample

        return two_sample(self)


def effect_words(result: TwoSampleResult, found: bool) -> str:
    """How well the samples can be told apart, in a sentence that says no more than the test found."""
    low, high = result.effect_interval
    some = (
        "" if result.effect_rows == result.rows else f", from {max(result.effect_rows)} rows of each at most"
    )
    if found and low > 0.5:
        return (
            "Of two rows, one of each sample, the witness tells which is which "
            f"{percent(result.effect_size)} of the time (95% interval {percent(low)} to "
            f"{percent(high)}{some}; 50% is chance)."
        )
    text = (
        f"The witness tells two rows, one of each sample, apart between {percent(low)} and "
        f"{percent(high)} of the time (95% interval{some}; 50% is chance)"
    )
    if found:
        return f"{text}: the test finds a difference that hardly shows in single rows."
    if low > 0.5:
        return (
            f"{text}: the test and the effect disagree. The kernels of the test may be weak for such a "
            "difference, rows may not be independent (matched, repeated, in clusters), or it is chance, as "
            "for one in forty pairs of samples that are alike."
        )
    return f"{text}. This does not show that the samples are alike."
