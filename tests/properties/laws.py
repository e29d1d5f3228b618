"""What moves with the data: drawn tables, changes of rows and columns, and answers that know their law."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

# Values of the columns: "scales" are units of several orders of magnitude, far from the origin.
KINDS = ("plain", "ties", "integers", "scales", "constant")
VARYING = KINDS[:-1]
QUERIES = 3


@dataclass(frozen=True)
class Table:
    """One argument of a call.

    Attributes:
        space: whose columns and units it has.
        rows: tables with the same name here are paired row by row, and permuted together. A name that
            starts with "query" is of points that are asked about.
        d: columns; 0 to have them drawn.
        flat: whether it is handed over as a vector.
        bag: points in each bag; a row is then a bag.
        n: rows; 0 to have them drawn.
        shift: whether the origin of its units may move.
        plain: whether its values are never tied, constant or far from the origin.
        make: the values from standard normal ones, where these do not do.
    """

    space: str
    rows: str
    d: int = 0
    flat: bool = False
    bag: int = 0
    n: int = 0
    shift: bool = True
    plain: bool = False
    make: Callable[[np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True)
class Move:
    """New columns: ``a x + b``, in another order."""

    order: np.ndarray
    a: np.ndarray
    b: np.ndarray

    def __call__(self, values: Any) -> np.ndarray:
        return (np.asarray(values) * self.a + self.b)[..., self.order]


LAWS: dict[str, Callable[[np.ndarray, Move], np.ndarray]] = {
    "points": lambda v, m: m(v),
    "spread": lambda v, m: (v * m.a)[..., m.order],
    "cov": lambda v, m: (v * m.a[:, None] * m.a)[..., m.order, :][..., m.order],
    "density": lambda v, m: v / m.a.prod(),
    "log density": lambda v, m: v - np.log(m.a).sum(),
    "graph": lambda v, m: v[m.order][:, m.order],  # one number for each pair of columns
    # Of a single column, without an axis for it.
    "point": lambda v, m: v * m.a[0] + m.b[0],
    "length": lambda v, m: v * m.a[0],
}


@dataclass(frozen=True)
class Answer:
    """A value, how it moves with the columns of a space (``law``), and ``rows`` whose order its axes have.

    ``within`` is an error that is permitted beside the tolerance of the call.
    """

    value: Any
    law: str = ""
    space: str = ""
    rows: str | tuple[str, ...] = ()
    within: float = 0.0

    def moved(self, moves: Mapping[str, Move]) -> np.ndarray:
        value = np.asarray(self.value)
        return LAWS[self.law](value, moves[self.space]) if self.law else value

    def reordered(self, orders: Mapping[str, np.ndarray]) -> np.ndarray:
        value = np.asarray(self.value)
        for axis, rows in enumerate((self.rows,) if isinstance(self.rows, str) else self.rows):
            value = value.take(orders[rows], axis=axis) if rows else value
        return value


@dataclass(frozen=True)
class Limit:
    """Where an invariance ends: for which answers it still holds, and why not for the others."""

    because: str
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """One row of the table.

    Attributes:
        name: of the test.
        tables: the arguments.
        ask: from the arguments to named answers.
        sizes: numbers of rows that may be drawn; few, since JAX compiles for each.
        examples: data sets that each invariance is tried on.
        kinds: of values that the call permits.
        tolerance: what rounding may become, relative to the largest entry of an answer. A search ends
            within its own tolerance, and so has a wider one.
        limits: invariance → where it ends.
    """

    name: str
    tables: Mapping[str, Table]
    ask: Callable[..., dict[str, Answer]]
    sizes: tuple[int, ...] = (9, 24)
    examples: int = 5
    kinds: tuple[str, ...] = KINDS
    tolerance: float = 1e-7
    limits: Mapping[str, Limit] = field(default_factory=dict)

    def asked(
        self, data: Mapping[str, np.ndarray], form: Callable[..., Any] = np.asarray
    ) -> dict[str, Answer]:
        """The answers to tables handed over in some form."""
        given = {}
        for name, values in data.items():
            table = self.tables[name]
            if table.bag:
                given[name] = [form(bag) for bag in values]
            else:
                given[name] = form(values[:, 0] if table.flat else values)
        return self.ask(**given)

    def compare(self, got: Mapping[str, Answer], expected: Mapping[str, Any], invariance: str) -> None:
        """That the answers are as expected, those that the invariance holds for."""
        names = self.limits[invariance].answers if invariance in self.limits else tuple(expected)
        assert names
        for name in names:
            want = np.asarray(expected[name], dtype=np.float64)
            near = self.tolerance * float(np.abs(want).max(initial=0.0)) + got[name].within
            assert_allclose(
                np.asarray(got[name].value), want, rtol=0, atol=near, err_msg=f"{self.name}: {name}"
            )


@dataclass(frozen=True)
class Draw:
    """A data set: its seed, rows, columns, and the kind of its values."""

    seed: int
    n: int
    d: int
    kind: str

    def data(self, call: Call) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        common: dict[str, np.ndarray] = {}  # what paired rows share
        scale: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        out = {}
        for name, table in call.tables.items():
            n = table.n or (QUERIES if table.rows.startswith("query") else self.n)
            d = table.d or self.d
            shape = (n, table.bag, d) if table.bag else (n, d)
            values = rng.standard_normal(shape)
            if table.rows in common and not table.bag:
                values = np.sin(common[table.rows]) + 0.3 * values
            elif table.bag:
                level = common.setdefault(table.rows, rng.standard_normal((n, 1)))
                values = values * np.exp(level / 2)[..., None]
            else:
                common[table.rows] = values.mean(axis=1, keepdims=True)
            if table.make is not None:
                values = table.make(values)
            elif not table.plain:
                if table.space not in scale:
                    scale[table.space] = (10.0 ** rng.integers(-3, 4, d), rng.integers(-9, 10, d))
                values = self._as_kind(values, *scale[table.space])
            out[name] = values
        return out

    def _as_kind(self, values: np.ndarray, units: np.ndarray, origin: np.ndarray) -> np.ndarray:
        if self.kind == "ties":
            return np.round(2 * values) / 2
        if self.kind == "integers":
            return np.round(3 * values)
        if self.kind == "scales":
            return units * (values + origin)
        if self.kind == "constant" and values.shape[-1] > 1:
            values[..., 0] = 2.5
        return values

    def orders(self, call: Call) -> dict[str, np.ndarray]:
        """An order of the rows of each group."""
        rng, out = np.random.default_rng([self.seed, 1]), {}
        for name, values in self.data(call).items():
            out.setdefault(call.tables[name].rows, rng.permutation(len(values)))
        return out

    def moves(self, call: Call, permute: bool, units: bool) -> dict[str, Move]:
        """New columns of each space: in another order, or in other units."""
        rng, out = np.random.default_rng([self.seed, 2]), {}
        for name, values in self.data(call).items():
            d, space = values.shape[-1], call.tables[name].space
            order = rng.permutation(d) if permute else np.arange(d)
            a = 10.0 ** rng.uniform(-4, 4, d) if units else np.ones(d)
            b = a * rng.integers(-9, 10, d) if units and call.tables[name].shift else np.zeros(d)
            out.setdefault(space, Move(order, a, b))
        return out


def draws(call: Call) -> st.SearchStrategy[Draw]:
    return st.builds(
        Draw,
        st.integers(0, 9999),
        st.sampled_from(call.sizes),
        st.integers(1, 3),
        st.sampled_from(call.kinds),
    )


def examples(count: int) -> settings:
    """So many examples, and thirty times as many in the long profile."""
    return settings(max_examples=count * (30 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1))
