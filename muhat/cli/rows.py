"""Options that say which rows belong together, and what they weigh."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muhat.cli.errors import BadUsage
from muhat.cli.options import MANY, NAMES
from muhat.cli.tables import Table, decided, pick, spelled

if TYPE_CHECKING:
    import polars as pl

Groups = Annotated[
    list[str] | None,
    typer.Option(
        metavar=MANY, help=f"Columns that say which rows belong together: these move whole ({NAMES})."
    ),
]
Blocks = Annotated[
    list[str] | None,
    typer.Option(metavar=MANY, help=f"Columns within whose values rows are permuted ({NAMES})."),
]
Strata = Annotated[
    list[str] | None, typer.Option(metavar=MANY, help="Another word for --blocks; given both, both hold.")
]
Weights = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of weights of the rows, such as survey weights.")
]


def named(
    tables: Sequence[Table],
    groups: list[str] | None,
    blocks: list[str] | None,
    strata: list[str] | None,
    weights: str | None,
) -> dict[str, list[str]]:
    """For each option that was given, the columns that it names, which every table has."""
    given = {"groups": groups, "blocks": blocks, "strata": strata, "weights": [weights] if weights else None}
    out: dict[str, list[str]] = {}
    for option, texts in given.items():
        if texts:
            for table in tables:
                out[option] = pick(texts, table.columns, f"--{option}")
    every = [name for names in out.values() for name in names]
    twice = sorted({name for name in every if every.count(name) > 1})
    if twice:
        raise BadUsage(
            f"{', '.join(map(repr, twice))} is in two of --groups, --blocks, --strata and --weights: put it "
            "in one."
        )
    return out


def with_labels(
    frames: Sequence[pl.DataFrame], tables: Sequence[Table], names: dict[str, list[str]]
) -> list[pl.DataFrame]:
    """The frames with the columns that are named, as numbers where all of it is numbers, else as text."""
    out = list(frames)
    for option, columns in names.items():
        for name in columns:
            leave = f"leave it out of --{option}"
            parts = [
                spelled(table.frame[name], name, table.name, False, leave).to_frame() for table in tables
            ]
            if any(part[name].dtype.is_numeric() is False for part in parts):
                parts = decided(parts, name, tables, leave)
            out = [frame.hstack(part) for frame, part in zip(out, parts, strict=True)]
    return out


def arguments(names: dict[str, list[str]]) -> dict[str, Any]:
    """What the library takes."""
    return {what: columns[0] if len(columns) == 1 else columns for what, columns in names.items()}


@contextmanager
def limits_told_later() -> Iterator[None]:
    """Without the warning of too few arrangements, which the answer has anyway."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There are only .* arrangements", UserWarning)
        yield
