"""A causal graph from a table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache, reduce
from numbers import Real
from typing import Any

import numpy as np

from muhat._tables import Encoder
from muhat._threads import one_blas_thread
from muhat._validation import as_generator, check_choice, check_count, check_same_rows
from muhat.kernels.base import Kernel
from muhat.kernels.default import default_kernel
from muhat.kernels.delta import Delta
from muhat.learning.leave_one_out import stretch
from muhat.learning.stacked import Inputs
from muhat.testing.bank import choose_kernels
from muhat.testing.conditional import LEADING
from muhat.testing.graph import CausalGraph
from muhat.testing.hadamard import cross_moments
from muhat.testing.independence import independence_test
from muhat.testing.kci import SCALES, Smoother, interactions, kci, numeric, variable_features
from muhat.testing.nulls import gamma_null, permutation_mean_variance, permutation_pvalue
from muhat.testing.pc import Knowledge, bootstrap_frequencies, pc
from muhat.testing.samples import as_sample, column_names, what_it_says
from muhat.testing.self_check import check_errors
from muhat.testing.stacked_residuals import Side, four_forms, residuals_of, tame_columns

TESTS = ("kci", "stacked", "residual", "fisher-z")
DRAWS = 499  # of each test that draws its null
KERNELS = ("median", "learn", "aggregate")


def discover(
    table: Any,
    alpha: float = 0.05,
    test: Any = "kci",
    prewhiten: Any = None,
    *,
    kernel: Any = None,
    forbidden: Sequence[tuple[str, str]] = (),
    required: Sequence[tuple[str, str]] = (),
    tiers: Sequence[Sequence[str]] = (),
    max_conditioning: int | None = None,
    bootstrap: int = 0,
    progress: Callable[[int, int, int], None] | None = None,
    resampling: Callable[[int, int], None] | None = None,
    random_state: Any = 0,
) -> CausalGraph:
    """Find which columns of a table cause which, as far as tests can tell, by the PC algorithm [SGS00].

    The result is right when the tests do not err, every common cause of two columns is itself a column,
    and causes form no cycle. Directions that the data leave open stay open.

    Args:
        table: rows of observations: a frame, or an array whose columns get the names "x[0]", "x[1]", …
        alpha: level of each test; edges with a p-value above it go.
        test: ``"kci"`` [Z11]; ``"stacked"``, the default of :func:`conditional_independence_test`, stricter
            and slower; ``"residual"``, HSIC of residuals [F16, §5]; ``"fisher-z"``, partial correlation, for
            linear relations; or a function of arrays ``(x, y, z)`` to a p-value, z being None where nothing
            is given.
        prewhiten: columns (names), or an array with a row for every row of the table, e.g. of time: what
            they explain is taken out of every other column first, and they are left out of the graph.
        kernel: of the ``"residual"`` test: None or ``"median"``, ``"learn"``, ``"aggregate"``, or a kernel.
        forbidden: arrows (a, b) that cannot be.
        required: arrows (a, b) that must be.
        tiers: groups of columns in order of time; nothing causes a column of an earlier group.
        max_conditioning: size of conditioning sets, at most.
        bootstrap: how many times to repeat on half of the rows, for the frequency of each edge; 0 for none.
        progress: called with the size of conditioning sets, the pairs done and the pairs in all.
        resampling: called after each repetition with how many are done, and how many there are.
        random_state: seed.

    Returns:
        Graph with ``directed`` and ``undirected`` edges, ``pvalues``, ``separating_sets``, ``doubts`` (edges
        that rest on a test not to be trusted), ``frequencies``, ``summary()``, ``plot()`` and
        ``to_networkx()``.
    """
    if not callable(test):
        check_choice(test, "test", TESTS)
    if not (isinstance(alpha, Real) and 0 < alpha < 1):
        raise ValueError(f"alpha must be a number between 0 and 1, got {alpha!r}: use e.g. 0.05.")
    bootstrap = check_count(bootstrap, "bootstrap", 0)
    encoder, Z = as_sample(table, "table", 20)
    names = column_names(encoder, Z.shape[1], "x")
    encoder = Encoder(names, encoder.categories)
    if prewhiten is not None:
        encoder, Z = prewhitened(encoder, Z, prewhiten)
        names = encoder.names or []
    if len(names) < 2:
        raise ValueError(f"table must have at least 2 columns to connect, got {names}.")
    constant = [name for j, name in enumerate(names) if (Z[:, j] == Z[0, j]).all()]
    if constant:
        raise ValueError(f"columns {constant} are constant: they can neither cause nor be caused; drop them.")
    keys = [names[j] for j in encoder.categories if len(np.unique(Z[:, j])) == len(Z)]
    if keys:
        raise ValueError(f"columns {keys} have another category in every row, which says nothing; drop them.")
    _refuse_copies(names, Z, encoder)
    if test == "fisher-z" and encoder.categories:
        held = [names[j] for j in encoder.categories]
        raise ValueError(f'test="fisher-z" takes numbers, but {held} hold categories: use test="kci".')
    if test != "residual" and kernel is not None:
        raise ValueError(f'kernel is for test="residual", got test={test!r}: leave kernel out.')
    if not (kernel is None or isinstance(kernel, Kernel)):
        check_choice(kernel, "kernel", KERNELS)
    knowledge = Knowledge(forbidden, required, tiers)
    rng = as_generator(random_state)
    seed = int(rng.integers(2**32))

    def once(rows: np.ndarray | None = None, report: Any = None) -> CausalGraph:
        A, doubts = (Z if rows is None else Z[rows]), set()
        pvalue = make_test(test, A, encoder, kernel, np.random.default_rng(seed), alpha, doubts)
        return pc(names, pvalue, alpha, knowledge, max_conditioning, report).with_doubts(doubts)

    with one_blas_thread():  # as in a single test
        graph = once(report=progress)
        if bootstrap:
            graph = graph.with_frequencies(
                bootstrap_frequencies(once, len(Z), bootstrap, rng, progress=resampling)
            )
    return graph


def _refuse_copies(names: Sequence[str], Z: np.ndarray, encoder: Encoder) -> None:
    """Raise where a column says the same as another: given either, the other is independent of everything."""
    seen: dict[bytes, str] = {}
    for j, name in enumerate(names):
        for key in what_it_says(Z[:, j], j in encoder.categories):
            other = seen.setdefault(key, name)
            if other != name:
                raise ValueError(
                    f"columns {other!r} and {name!r} say the same (each is a function of the other): given "
                    "one, the other is independent of all columns, and edges of both are lost. Leave one out."
                )


def prewhitened(encoder: Encoder, Z: np.ndarray, by: Any) -> tuple[Encoder, np.ndarray]:
    """Every column less its regression on ``by``, columns of the table or rows of their own."""
    names = encoder.names or []
    if isinstance(by, str) or (isinstance(by, (list, tuple)) and all(isinstance(c, str) for c in by)):
        wanted = [by] if isinstance(by, str) else list(by)
        unknown = [c for c in wanted if c not in names]
        if unknown:
            raise ValueError(f"prewhiten names {unknown}, but the columns are {names}.")
        index = [names.index(c) for c in wanted]
        T, by_encoder = Z[:, index], part(encoder, index)
    else:
        index = []
        by_encoder, T = as_sample(by, "prewhiten", 1)
        check_same_rows(T, Z, "prewhiten", "table")
    kept = [j for j in range(Z.shape[1]) if j not in index]
    held = [names[j] for j in kept if j in encoder.categories]
    if held:
        raise ValueError(f"prewhiten takes numbers, but {held} hold categories: drop them or leave it out.")
    smoother = Smoother(default_kernel(T, by_encoder), T, by_encoder)
    return Encoder([names[j] for j in kept]), smoother.residuals(Z[:, kept])


def make_test(
    test: Any,
    Z: np.ndarray,
    encoder: Encoder,
    kernel: Any,
    rng: np.random.Generator,
    alpha: float = 0.05,
    doubts: set[tuple[int, int]] | None = None,
) -> Callable[[int, int, tuple[int, ...]], float]:
    """``p(i, j, S)`` on the columns of ``Z``; what belongs to one column or one set is made once.

    Pairs that a test at the level ``alpha`` wrongly holds for dependent, as far as it can tell itself, are
    added to ``doubts``.
    """
    if callable(test):
        function: Callable[..., Any] = test
        return lambda i, j, S: float(function(Z[:, [i]], Z[:, [j]], Z[:, list(S)] if S else None))
    if test == "fisher-z":
        return _fisher_z(Z)
    if test == "residual":
        return _residual(Z, encoder, kernel, rng)
    found = set() if doubts is None else doubts
    return (_kci if test == "kci" else _stacked)(Z, encoder, rng, alpha, found)


def part(encoder: Encoder, columns: Sequence[int]) -> Encoder:
    """The encoder of some columns."""
    return Encoder(None, {i: encoder.categories[j] for i, j in enumerate(columns) if j in encoder.categories})


def _smoothers(Z: np.ndarray, encoder: Encoder) -> Callable[[tuple[int, ...]], Smoother]:
    @cache
    def smoother(S: tuple[int, ...]) -> Smoother:
        A = Z[:, list(S)]
        return Smoother(default_kernel(A, part(encoder, S)), A, part(encoder, S))

    return smoother


def _alone(Z: np.ndarray, encoder: Encoder, i: int, j: int, rng: np.random.Generator) -> float:
    """The p-value of two columns, nothing being given."""
    k_x, k_y = (Delta() if k in encoder.categories else None for k in (i, j))
    return independence_test(Z[:, [i]], Z[:, [j]], k_x, k_y, permutations=DRAWS, random_state=rng).pvalue


def _stacked(
    Z: np.ndarray, encoder: Encoder, rng: np.random.Generator, alpha: float, doubts: set[tuple[int, int]]
) -> Callable[[int, int, tuple[int, ...]], float]:
    """Residuals belong to a variable and a set: each is made once, for all tests that need it."""
    seed = int(rng.integers(2**32))

    def generator(*key: int) -> np.random.Generator:
        return np.random.default_rng([seed, *(k + 1 for k in key)])

    @cache
    def inputs(S: tuple[int, ...]) -> Inputs:
        return Inputs.of(tame_columns(Z[:, list(S)], part(encoder, S)), generator(*S))

    @cache
    def side(i: int, S: tuple[int, ...]) -> Side:
        return residuals_of(tame_columns(Z[:, [i]], part(encoder, [i])), inputs(S), generator(i, *S))

    def pvalue(i: int, j: int, S: tuple[int, ...]) -> float:
        own = generator(i, j, *S)
        if not S:
            return _alone(Z, encoder, i, j, own)
        sides = side(i, S), side(j, S)
        series, pairs = four_forms(sides, inputs(S), DRAWS, own)
        found = permutation_pvalue(series)
        if found <= alpha and not check_errors(inputs(S).Z, pairs, own, [s.predicted for s in sides]).sound:
            doubts.add((i, j))
        return found

    return pvalue


def _kci(
    Z: np.ndarray, encoder: Encoder, rng: np.random.Generator, alpha: float, doubts: set[tuple[int, int]]
) -> Callable[[int, int, tuple[int, ...]], float]:
    smoother = _smoothers(Z, encoder)
    seed = int(rng.integers(2**32))

    @cache
    def features(i: int) -> np.ndarray:
        return variable_features(default_kernel(Z[:, [i]], part(encoder, [i])), Z[:, [i]])

    @cache
    def alone(i: int) -> np.ndarray:
        """Of a column with nothing given: there is no regression, and detail does no harm."""
        kernel = default_kernel(Z[:, [i]], part(encoder, [i]))
        kernels = [kernel] if i in encoder.categories else [stretch(kernel, np.full(1, s)) for s in SCALES]
        return variable_features(reduce(operator.add, kernels), Z[:, [i]])

    @cache
    def left(i: int, S: tuple[int, ...]) -> np.ndarray:
        return smoother(S).residuals(interactions(features(i), Z[:, list(S)], part(encoder, S)))

    @cache
    def right(i: int, S: tuple[int, ...]) -> np.ndarray:
        return smoother(S).residuals(features(i))

    def pvalue(i: int, j: int, S: tuple[int, ...]) -> float:
        own = np.random.default_rng([seed, i, j, *S])
        if not S:
            return kci(alone(i), alone(j), "gamma", 0, own)[1]
        pair = left(i, S), right(j, S)
        found = kci(*pair, "gamma", 0, own)[1]
        if found <= alpha:
            predicted = [(features(k) - right(k, S))[:, :LEADING] for k in (i, j)]
            if not check_errors(numeric(Z[:, list(S)], part(encoder, S)), [pair], own, predicted).sound:
                doubts.add((i, j))
        return found

    return pvalue


def _residual(
    Z: np.ndarray, encoder: Encoder, kernel: Any, rng: np.random.Generator
) -> Callable[[int, int, tuple[int, ...]], float]:
    smoother = _smoothers(Z, encoder)
    seed = int(rng.integers(2**32))

    @cache
    def residual(i: int, S: tuple[int, ...]) -> np.ndarray:
        F = numeric(Z[:, [i]], part(encoder, [i]))
        return smoother(S).residuals(F) if S else F

    @cache
    def single(i: int, S: tuple[int, ...]) -> Any:
        return choose_kernels(
            "median" if kernel is None else kernel,
            residual(i, S),
            Encoder(),
            np.random.default_rng(seed),
            "dependence",
        )[0][0]

    def pvalue(i: int, j: int, S: tuple[int, ...]) -> float:
        x, y = residual(i, S), residual(j, S)
        if isinstance(kernel, str) and kernel == "aggregate":
            return independence_test(x, y, permutations=499, random_state=seed).pvalue
        from scipy.stats import gamma

        value, a, b = cross_moments(single(i, S), single(j, S), x, y)
        shape, scale, _ = gamma_null(*permutation_mean_variance(a, b), 1)
        return float(gamma.sf(value, shape, scale=scale))

    return pvalue


def _fisher_z(Z: np.ndarray) -> Callable[[int, int, tuple[int, ...]], float]:
    from scipy.special import ndtr

    n = len(Z)
    correlation = np.corrcoef(Z, rowvar=False)

    def pvalue(i: int, j: int, S: tuple[int, ...]) -> float:
        at = [i, j, *S]
        if n - len(S) - 3 <= 0:
            raise ValueError(f"fisher-z needs more rows than {len(S) + 3} to condition on {len(S)} columns.")
        precision = np.linalg.pinv(correlation[np.ix_(at, at)], hermitian=True)
        r = -precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1])
        z = np.arctanh(np.clip(r, -1 + 1e-15, 1 - 1e-15)) * np.sqrt(n - len(S) - 3)
        return float(2 * ndtr(-abs(z)))

    return pvalue
