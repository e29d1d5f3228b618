"""Points of ``--at``: where columns of a file are held fixed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from muhat.cli.errors import BadUsage
from muhat.cli.tables import BOOLEANS, printable

if TYPE_CHECKING:
    import polars as pl

POINTS = 20  # without --at, at most
NAMED = 3  # columns that the name of a point spells out

Point = dict[str, float | str]


def points_of(X: pl.DataFrame, at: Sequence[str]) -> list[Point]:
    """The points that ``--at`` names, or medians with quartiles of one column after the other."""
    typical: Point = {name: _typical(X[name]) for name in X.columns}
    if at:
        return [{**typical, **parse_at(text, X)} for text in at]
    out = [typical]
    for name in X.columns:
        out += [{**typical, name: value} for value in _others(X[name]) if value != typical[name]]
    if len(X.columns) == 1 and not isinstance(typical[X.columns[0]], str):
        out.sort(key=lambda point: point[X.columns[0]])
    return out[:POINTS]


def _typical(column: pl.Series) -> float | str:
    """The median of numbers, the most frequent category."""
    import polars as pl

    if column.dtype == pl.String:
        return _frequent(column)[0]
    return float(column.quantile(0.5, "nearest"))  # type: ignore[arg-type]


def _others(column: pl.Series) -> list[Any]:
    """The quartiles of numbers, the most frequent categories."""
    import polars as pl

    if column.dtype == pl.String:
        return _frequent(column)[:3]
    return [float(column.quantile(q, "nearest")) for q in (0.25, 0.75)]  # type: ignore[arg-type]


def _frequent(column: pl.Series) -> list[str]:
    """Categories, the most frequent first, and else in the order of the alphabet."""
    counts = column.alias("category").value_counts()
    return counts.sort(["count", "category"], descending=[True, False])["category"].to_list()


def parse_at(text: str, X: pl.DataFrame, option: str = "--at") -> Point:
    """The values in ``"x1=0.5,x2=3"`` of an option; names and categories may hold commas and equal signs."""
    import polars as pl

    shown = printable(text)
    names = sorted(X.columns, key=len, reverse=True)
    starts = list(re.finditer(rf"(?:^|,)\s*({'|'.join(map(re.escape, names))})\s*=", shown))
    if not starts or shown[: starts[0].start()].strip():
        raise BadUsage(f"{option} {shown!r} {_misread(shown.split(',')[0], X.columns)}")
    out: Point = {}
    for mark, following in zip(starts, [*starts[1:], None], strict=True):
        name, value = mark[1], shown[mark.end() : following and following.start()].strip()
        if name in out:
            raise BadUsage(f"{option} {shown!r} gives {name!r} twice: give it once.")
        if X[name].dtype == pl.String:
            known, value = X[name].unique().sort().to_list(), BOOLEANS.get(value, value)
            if value not in known:
                near = get_close_matches(value, known, 1)
                hint = (
                    f"did you mean {near[0]!r}?"
                    if near
                    else f"it holds e.g. {', '.join(map(repr, known[:6]))}."
                )
                raise BadUsage(f"{option} {shown!r}: no row has {value!r} in {name!r}: {hint}")
            out[name] = value
            continue
        try:
            out[name] = number = float(value)
        except ValueError:
            first, *rest = value.split(",")
            if rest and _is_number(first):
                raise BadUsage(f"{option} {shown!r} {_misread(rest[0], X.columns)}") from None
            raise BadUsage(f"{option} {shown!r}: {name!r} must be a number, got {value!r}.") from None
        if not math.isfinite(number):
            raise BadUsage(f"{option} {shown!r}: {name!r} must be a finite number, got {value!r}.")
    return out


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _misread(part: str, known: Sequence[str]) -> str:
    name, equals, _ = part.partition("=")
    name = name.strip()
    if not equals or not name:
        return (
            f'cannot be read at {part.strip()!r}: write it as "{known[0]}=0.5", with commas between columns.'
        )
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"they are {', '.join(map(repr, known[:12]))}."
    return f"names {name!r}, which is not in --x: {hint}"


def point_names(points: list[Point], inputs: list[str]) -> list[str]:
    """A name for each point: its values, or a number where they are many."""
    from muhat.report.cells import cell

    if not inputs:
        return ["all rows"]
    if len(inputs) > NAMED:
        return [f"point {i}" for i in range(1, len(points) + 1)]
    return [
        ", ".join(
            f"{name} = {_short(value) if isinstance(value, str) else _digits(value, cell)}"
            for name, value in point.items()
        )
        for point in points
    ]


def _digits(value: float, cell: Any) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else cell(value)


def _short(text: str) -> str:
    return shorten(text, 24, placeholder="…") or repr(text)
