"""muhat's tests as the independence tests of other packages that search for causal graphs."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from muhat._validation import check_choice
from muhat.testing.conditional import conditional_independence_test
from muhat.testing.independence import independence_test
from muhat.testing.result import TestResult

UNTRUSTED = ("keep", "drop")


def _options(function: Any) -> dict[str, Any]:
    """The arguments of a test that say how it works, with their defaults."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("x", "y", "z")
    }


CONDITIONAL, UNCONDITIONAL = _options(conditional_independence_test), _options(independence_test)
SHARED = CONDITIONAL.keys() & UNCONDITIONAL.keys() - {"method"}  # their methods have different names


class Answer(NamedTuple):
    """What is kept of a result, which itself holds its null and what the regressions leave.

    Attributes:
        trusted: False where the test says that its own p-value is not to be trusted.
    """

    statistic: float
    pvalue: float
    effect_size: float
    trusted: bool

    @classmethod
    def of(cls, result: TestResult) -> Answer:
        trusted = getattr(result, "trusted", None)
        return cls(result.statistic, result.pvalue, result.effect_size, trusted is None or bool(trusted))


class ColumnTest:
    """Independence of two columns of a table given others, asked many times.

    Each question is answered once, the same whichever of the two columns comes first.

    Args:
        table: a frame.
        untrusted: ``"keep"`` p-values that the test does not trust, or ``"drop"`` them: they count as 1.
        options: of :func:`muhat.conditional_independence_test`.
    """

    def __init__(self, table: Any, untrusted: str = "keep", **options: Any) -> None:
        self.table, self.untrusted = table, untrusted
        self.options = checked(untrusted, options)
        self._answers: dict[tuple[frozenset[Hashable], frozenset[Hashable]], Answer] = {}
        self._said = False

    def answer(self, x: Hashable, y: Hashable, given: Sequence[Hashable] = ()) -> Answer:
        """What the test says of columns x and y given others; without any, that of independence."""
        names = list(self._places)
        unknown = [name for name in (x, y, *given) if name not in self._places]
        if unknown:
            raise ValueError(f"the table has no columns {unknown}: its columns are {names}.")
        if x == y or x in given or y in given:
            raise ValueError(f"{x!r}, {y!r} and what is given, {list(given)}, must be different columns.")
        key = frozenset((x, y)), frozenset(given)
        if key not in self._answers:
            x, y = sorted((x, y), key=self._places.__getitem__)
            known = sorted(key[1], key=self._places.__getitem__)
            self._answers[key] = Answer.of(self._ask(x, y, known))
        return self._answers[key]

    def pvalue(self, x: Hashable, y: Hashable, given: Sequence[Hashable] = ()) -> float:
        """The p-value of :meth:`answer`; 1 where it is not trusted and such ones are dropped."""
        answer = self.answer(x, y, given)
        if self.untrusted == "keep" or answer.trusted:
            return answer.pvalue
        if not self._said:
            self._said = True
            warnings.warn(
                f"The test does not trust its p-value {answer.pvalue:.2g} for {x!r} and {y!r} given "
                f'{list(given)}, which counts as 1, as do others (untrusted="drop"; this is said once).',
                stacklevel=3,
            )
        return 1.0

    @property
    def smallest(self) -> float:
        """No p-value is smaller."""
        if self.options["null"] == "gamma":
            return 0.0
        return 1 / (1 + self.options["permutations"])

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        """Where each column is."""
        return {name: place for place, name in enumerate(self.table.columns)}

    def _ask(self, x: Hashable, y: Hashable, given: list[Hashable]) -> TestResult:
        sides = self.table[[x]], self.table[[y]]
        if given:
            return conditional_independence_test(*sides, self.table[given], **self.options)
        shared = {name: value for name, value in self.options.items() if name in SHARED}
        method = "gamma" if self.options["null"] == "gamma" else "permutation"
        return independence_test(*sides, method=method, **shared)


def checked(untrusted: str, options: dict[str, Any]) -> dict[str, Any]:
    """All options of a conditional test; refuses those that it does not have."""
    check_choice(untrusted, "untrusted", UNTRUSTED)
    unknown = [name for name in options if name not in CONDITIONAL]
    if unknown:
        raise TypeError(
            f"conditional_independence_test has no options {unknown}: it has {sorted(CONDITIONAL)}."
        )
    # A fixed seed: whoever asks again must get the same answer.
    return CONDITIONAL | {"random_state": 0} | options


def for_causal_learn(*, untrusted: str = "keep", categories: Sequence[int] = (), **options: Any) -> str:
    """Make muhat's test known to causal-learn, and give the name by which its searches find it.

    The name is an independence test of ``pc``, ``fci``, ``cdnod`` and all others that take one, as in
    ``pc(data, 0.05, for_causal_learn())``. Pairs with nothing given are tested by
    :func:`muhat.independence_test`, all others by :func:`muhat.conditional_independence_test`.

    Args:
        untrusted: what to do with a p-value that the test itself does not trust
            (:class:`muhat.testing.ConditionalResult`, ``trusted``): ``"keep"`` it; or ``"drop"`` it, so that
            it counts as 1 and the edge goes. Keeping is the default: an edge too many is seen in the graph,
            one that went by mistake is not.
        categories: numbers of columns that hold codes of categories, as causal-learn takes only numbers.
        options: of :func:`muhat.conditional_independence_test`, e.g. ``method="kci"``. ``random_state``
            is 0 unless given. Without ``null="gamma"`` no p-value is below 1/(1 + ``permutations``), so that
            there must be more permutations than 1/alpha.

    Returns:
        The name, the same for the same arguments.

    Raises:
        ImportError: where there is no causal-learn, or one without tests of others.
    """
    checked(untrusted, options)
    try:
        from causallearn.utils.cit import CIT_Base, register_ci_test  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            f"for_causal_learn needs causal-learn 0.1.4.2 or newer ({error}): pip install -U causal-learn."
        ) from error
    chosen = {"untrusted": untrusted, "categories": tuple(categories)} | options
    told = ", ".join(f"{name}={chosen[name]!r}" for name in sorted(chosen))

    class MuhatTest(CIT_Base):
        """causal-learn asks for p-values by numbers of columns."""

        def __init__(self, data: np.ndarray, **settings: Any) -> None:
            super().__init__(data, **settings)
            self.check_cache_method_consistent("muhat", hashlib.md5(told.encode()).hexdigest())
            self.test = ColumnTest(framed(data, categories), untrusted, **options)

        def __call__(self, X: int, Y: int, condition_set: Any = None) -> float:
            xs, ys, given, key = self.get_formatted_XYZ_and_cachekey(X, Y, condition_set)
            if key not in self.pvalue_cache:
                x, y, *known = (column_name(j) for j in (*xs, *ys, *given))
                self.pvalue_cache[key] = self.test.pvalue(x, y, known)
            return self.pvalue_cache[key]

    name = f"muhat({told})"
    register_ci_test(name, MuhatTest)
    return name


def column_name(j: int) -> str:
    """The name of a column that has only a number."""
    return f"x[{j}]"


def framed(data: np.ndarray, categories: Sequence[int]) -> Any:
    """The data as a frame, in which the columns of categories are words: codes alone would be numbers."""
    import polars as pl

    wrong = [j for j in categories if not 0 <= j < data.shape[1]]
    if wrong:
        raise ValueError(f"categories has {wrong}: the columns are 0 to {data.shape[1] - 1}.")
    columns: dict[str, Any] = {column_name(j): column for j, column in enumerate(data.T)}
    for j in categories:
        columns[column_name(j)] = [None if value != value else f"{value:g}" for value in data[:, j]]
    return pl.DataFrame(columns)


class PgmpyTest:
    """What :func:`for_pgmpy` gives: a function of names of columns, as pgmpy's searches call it.

    Attributes:
        p_value_: of the last call.
        effect_size_: of the last call.
    """

    def __init__(self, data: Any, untrusted: str, options: dict[str, Any]) -> None:
        self.untrusted, self.options = untrusted, options
        self.test = None if data is None else ColumnTest(data, untrusted, **options)
        self.p_value_ = self.effect_size_ = float("nan")

    def __call__(
        self,
        X: Hashable,
        Y: Hashable,
        Z: Sequence[Hashable] = (),
        data: Any = None,
        boolean: bool = True,
        significance_level: float = 0.05,
        **others: Any,
    ) -> Any:
        """Whether X and Y are independent given Z; with ``boolean=False`` statistic and p-value."""
        del others  # pgmpy hands over what some of its own tests need
        if data is not None and (self.test is None or data is not self.test.table):
            self.test = ColumnTest(data, self.untrusted, **self.options)
        if self.test is None:
            raise ValueError("pgmpy did not say which data to test: use for_pgmpy(data).")
        if boolean and significance_level <= self.test.smallest:
            raise ValueError(
                f"significance_level={significance_level:g} is not above {self.test.smallest:.2g}, the "
                f"smallest p-value of {self.test.options['permutations']} permutations, so that all would "
                f'be independent: use permutations={int(2 / significance_level)}, or null="gamma".'
            )
        answer, pvalue = self.test.answer(X, Y, Z), self.test.pvalue(X, Y, Z)
        self.p_value_, self.effect_size_ = pvalue, answer.effect_size
        return pvalue > significance_level if boolean else (answer.statistic, pvalue)


def for_pgmpy(data: Any = None, *, untrusted: str = "keep", **options: Any) -> PgmpyTest:
    """muhat's test as the independence test of pgmpy's searches.

    The result goes in as their ``ci_test``. pgmpy hands the data over in
    ``pgmpy.estimators.PC(data).estimate(ci_test=for_pgmpy())``, and does not in
    ``pgmpy.causal_discovery.PC(ci_test=for_pgmpy(data)).fit(data)``. Columns of categories are taken as such.

    Args:
        data: the frame that is searched; None where pgmpy hands it over.
        untrusted: as in :func:`for_causal_learn`.
        options: as in :func:`for_causal_learn`.
    """
    checked(untrusted, options)
    if data is not None and not hasattr(data, "columns"):
        raise TypeError(
            f"data must be a frame, as pgmpy asks by names of columns, got {type(data).__name__}: give the "
            "same frame to for_pgmpy and to the search."
        )
    return PgmpyTest(data, untrusted, options)


__all__ = ["ColumnTest", "PgmpyTest", "for_causal_learn", "for_pgmpy"]
