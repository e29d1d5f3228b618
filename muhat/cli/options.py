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


class MissingInTests(StrEnum):
    """What a test does with missing cells; ``error`` is the old word for ``refuse``."""

    compare = "compare"
    drop = "drop"
    refuse = "refuse"
    error = "error"

    @property
    def word(self) -> str:
        """As the library has it."""
        return "refuse" if self is MissingInTests.error else self.value


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
MissingToCompare = Annotated[
    MissingInTests,
    typer.Option(
        "--missing",
        help="Missing cells: compare them as values, drop rows that have one, or refuse (formerly error).",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Level = Annotated[float, typer.Option(help="Probability of the intervals, between 0 and 1.")]
PLOTS = (".png", ".pdf", ".svg")
PlotPath = Annotated[
    Path | None, typer.Option("--plot", help="Also write the figure alone, a .png, .pdf or .svg file.")
]
ReportPath = Annotated[
    Path | None, typer.Option("--report", help="Also write a report with figures, one HTML file.")
]

FILES = "Files are .csv or .tsv (also .gz; the first line names the columns) or .parquet."
GAPS = "Empty cells, NA, N/A, NaN and NULL are missing; True, TRUE and true are one category."
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


def check_level(level: float) -> None:
    """Refuse a probability of intervals that is none."""
    if not 0 < level < 1:
        raise BadUsage(f"--level must lie between 0 and 1, got {level:g}: use e.g. 0.9.")


def check_outputs(inputs: list[Path], **outputs: Path | None) -> None:
    """Refuse, before any work, files that cannot be written or that would take the place of others."""
    taken = [file.resolve() for file in inputs]
    named: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        check_output(path)
        if path.resolve() in taken:
            raise BadUsage(f"--{option} {str(path)!r} is a file of data: write elsewhere.")
        if other := named.get(path.resolve()):
            raise BadUsage(f"--{other} and --{option} are both {str(path)!r}: give them two names.")
        if option == "plot" and path.suffix.lower() not in PLOTS:
            raise BadUsage(f"--plot {str(path)!r} must end in {', '.join(PLOTS[:-1])} or {PLOTS[-1]}.")
        named[path.resolve()] = option
