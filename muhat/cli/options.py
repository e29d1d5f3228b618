"""Options that several verbs share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muhat.cli.errors import BadUsage, check_output


class Missing(StrEnum):
    """What to do with missing cells."""

    error = "error"
    drop = "drop"


class KernelChoice(StrEnum):
    """Which kernels a test uses."""

    aggregate = "aggregate"
    median = "median"
    learn = "learn"


MANY = "NAMES"
NAMES = "comma-separated; may be repeated"
Columns = Annotated[list[str] | None, typer.Option(metavar=MANY, help=f"Columns to use ({NAMES}).")]
Drop = Annotated[list[str] | None, typer.Option(metavar=MANY, help=f"Columns to leave out ({NAMES}).")]
Categories = Annotated[
    list[str] | None,
    typer.Option(metavar=MANY, help=f"Columns to take as categories even if they hold numbers ({NAMES})."),
]
Kernels = Annotated[
    KernelChoice | None,
    typer.Option(
        help="aggregate: many kernels at once; median: one, at the median distance; learn: one, learned."
    ),
]
Permutations = Annotated[int, typer.Option(min=19, help="How many permutations or bootstrap draws.")]
Alpha = Annotated[
    float | None,
    typer.Option(
        help="Level, between 0 and 1: the exit status is 3 if p is at most this, and 0 if not.",
        show_default=False,
    ),
]
MissingCells = Annotated[
    Missing, typer.Option("--missing", help="Rows with missing cells: an error, or drop them.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
ReportPath = Annotated[
    Path | None, typer.Option("--report", help="Also write a report with figures, one HTML file.")
]

FILES = "Files are .csv or .tsv (also .gz; the first line names the columns) or .parquet."
GAPS = "Empty cells, NA, N/A, NaN and NULL are missing."
DECISION = (
    "Exit status: 0, or with --alpha 3 if something was found; 2 if the input cannot be used, 1 if the "
    "computation failed, 130 if interrupted."
)


def check_alpha(alpha: float | None, permutations: int | None = None) -> None:
    """Refuse a level that is none, or that so few permutations cannot reach."""
    if alpha is None:
        return
    if not 0 < alpha < 1:
        raise BadUsage(f"--alpha must lie between 0 and 1, got {alpha:g}: use e.g. 0.05.")
    if permutations is not None and 1 / (permutations + 1) > alpha:
        raise BadUsage(
            f"with {permutations} permutations p is at least {1 / (permutations + 1):.2g}, above --alpha "
            f"{alpha:g}: ask for more --permutations."
        )


def check_report_path(path: Path | None, inputs: list[Path]) -> None:
    """Refuse, before any work, a report that cannot be written or that would take the place of the data."""
    if path is None:
        return
    check_output(path)
    if path.resolve() in [file.resolve() for file in inputs]:
        raise BadUsage(f"--report {str(path)!r} is a file of data: write elsewhere.")
