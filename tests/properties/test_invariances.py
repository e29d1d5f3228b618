"""Every call of the table under every invariance: order of rows and columns, units, form and precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from laws import Call, Draw, draws, examples
from property_calls import CALLS

pytestmark = [
    pytest.mark.slow,  # together a minute
    pytest.mark.filterwarnings("ignore::UserWarning"),  # advice, which so few rows earn
]


def of(invariance: str) -> Any:
    """The calls with an answer that is invariant."""
    calls = [c for c in CALLS if invariance not in c.limits or c.limits[invariance].answers]
    return pytest.mark.parametrize("call", calls, ids=lambda call: call.name)


def check(call: Call, body: Callable[[Draw], None], few: bool = False) -> None:
    examples(1 + call.examples // 4 if few else call.examples)(given(draws(call))(body))()


def test_limits_name_answers_and_reasons() -> None:
    known = {"rows", "columns", "units", "forms", "single", "jax single", "whole"}
    for call in CALLS:
        assert set(call.limits) <= known
        for limit in call.limits.values():
            assert limit.because.endswith(".")
    assert len({call.name for call in CALLS}) == len(CALLS)


@of("rows")
def test_order_of_rows(call: Call) -> None:
    """Paired rows together. Bags have no order, nor have the points inside one."""

    def body(draw: Draw) -> None:
        data, orders = draw.data(call), draw.orders(call)
        other = {name: values[orders[call.tables[name].rows]] for name, values in data.items()}
        other = {name: v[:, ::-1] if call.tables[name].bag else v for name, v in other.items()}
        expected = {k: a.reordered(orders) for k, a in call.asked(data).items()}
        call.compare(call.asked(other), expected, "rows")

    check(call, body)


@of("columns")
def test_order_of_columns(call: Call) -> None:
    check(call, lambda draw: _moved(call, draw, "columns"))


@of("units")
def test_units_of_columns(call: Call) -> None:
    check(call, lambda draw: _moved(call, draw, "units"))


def _moved(call: Call, draw: Draw, invariance: str) -> None:
    data, moves = draw.data(call), draw.moves(call, invariance == "columns", invariance == "units")
    other = {name: moves[call.tables[name].space](values) for name, values in data.items()}
    expected = {k: a.moved(moves) for k, a in call.asked(data).items()}
    call.compare(call.asked(other), expected, invariance)


def _frame(make: Any, series: Any) -> Callable[[np.ndarray], Any]:
    return lambda v: series(v) if v.ndim == 1 else make({f"c{j}": v[:, j] for j in range(v.shape[1])})


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "list": lambda v: v.tolist(),
    "pandas": _frame(pd.DataFrame, pd.Series),
    "polars": _frame(pl.DataFrame, pl.Series),
    "fortran": np.asfortranarray,
    "jax": lambda v: jax.numpy.asarray(v),
}


@of("forms")
def test_form_of_tables(call: Call) -> None:
    def body(draw: Draw) -> None:
        data = draw.data(call)
        expected = {k: a.value for k, a in call.asked(data).items()}
        for form in FORMS.values():
            with jax.enable_x64(True):
                call.compare(call.asked(data, form), expected, "forms")

    check(call, body, few=True)


@of("single")
def test_single_precision_has_the_answer_of_double(call: Call) -> None:
    def body(draw: Draw) -> None:
        data = {name: v.astype(np.float32) for name, v in draw.data(call).items()}
        expected = {k: a.value for k, a in call.asked(_as(data, np.float64)).items()}
        for invariance, form in (("single", np.asarray), ("jax single", jax.numpy.asarray)):
            if invariance not in call.limits:
                got = call.asked(data, form)
                call.compare(got, expected, invariance)
                assert all(np.asarray(a.value).dtype == np.float64 for a in got.values())

    check(call, body, few=True)


@of("whole")
def test_whole_numbers_are_numbers(call: Call) -> None:
    compared = set()

    def body(draw: Draw) -> None:
        for dtype in (np.int64, np.int8, bool):
            data = {
                name: v if call.tables[name].plain or call.tables[name].make else _whole(v, dtype)
                for name, v in draw.data(call).items()
            }
            try:
                expected = {k: a.value for k, a in call.asked(_as(data, np.float64)).items()}
            except ValueError:  # two values a column may be too few: constants, singular systems
                continue
            call.compare(call.asked(data), expected, "whole")
            compared.add(dtype)

    check(call, body, few=True)
    assert np.int64 in compared


def _whole(values: np.ndarray, dtype: Any) -> np.ndarray:
    values = (values - values.mean()) / max(float(values.std()), 1e-9)
    return values > 0 if dtype is bool else np.round(3 * values).astype(dtype)


def _as(data: Mapping[str, np.ndarray], dtype: Any) -> dict[str, np.ndarray]:
    return {name: values.astype(dtype) for name, values in data.items()}
