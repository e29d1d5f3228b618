"""How an answer is given: in words and tables, as JSON, in a report, and by the exit status."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from muhat._version import __version__
from muhat._words import percent
from muhat.cli.errors import BadUsage, writing
from muhat.cli.tables import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from muhat.cli.page import Page
    from muhat.testing.result import ColumnEffect, TestResult

FOUND = 3  # exit status of a decision; 1 and 2 are errors
DRIVERS = 20  # columns in the table on the terminal and in the report, at most


@dataclass(frozen=True)
class Answer:
    """What a verb found.

    Attributes:
        title: of the report.
        sentence: the answer in plain words.
        write: puts tables on a page.
        figures: makes figures with their captions, for the report; the first stands for all in ``--plot``.
        record: for JSON.
        found: whether the exit status tells of a finding.
    """

    title: str
    sentence: str
    write: Callable[[Page], None]
    figures: Callable[[], Iterable[tuple[Figure, str]]]
    record: dict[str, Any]
    found: bool = False


@contextmanager
def bad_input() -> Iterator[None]:
    """What the library refuses about the data or the options is bad usage."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise BadUsage(str(error)) from error


@contextmanager
def working(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error while something runs, if that is a terminal; yields how to move it."""
    import sys

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    terminal = Console(file=sys.stderr)
    terminal.quiet = not terminal.is_terminal  # before rich 15 a disabled bar ends with an empty line
    with Progress(
        BarColumn(bar_width=24),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=terminal,
        transient=True,
        disable=not terminal.is_terminal,
    ) as progress:
        task = progress.add_task(what, total=None)
        yield lambda text, done, total: progress.update(task, description=text, completed=done, total=total)


def give(answer: Answer, as_json: bool, report: Path | None, plot: Path | None = None) -> None:
    """Write the files, then print: nothing is said before all of it is done. Ends with status 3 if found."""
    from muhat.cli.page import Page, console
    from muhat.report import Report

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # names in scripts that the font lacks
        if plot is not None:
            from muhat._files import whole_file

            figure, _ = next(iter(answer.figures()))
            with writing(plot), whole_file(plot) as draft:
                figure.savefig(draft, format=plot.suffix[1:].lower(), dpi=130, facecolor="white")
        if report is not None:
            document = Report(answer.title)
            page = Page(document)
            page.say(answer.sentence)
            answer.write(page)
            for figure, caption in answer.figures():
                page.figure(figure, caption)
            with writing(report):
                document.write(report)
    if as_json:
        typer.echo(json.dumps({"muhat": __version__, **answer.record}, indent=2, allow_nan=False))
    else:
        page = Page(Report(answer.title), console())
        page.say(answer.sentence)
        answer.write(page)
        if report is not None:
            assert page.console is not None
            page.console.print(f"The report, with figures: {report}", markup=False, soft_wrap=True)
    if answer.found:
        raise typer.Exit(FOUND)


def decision(pvalue: float, alpha: float | None) -> bool:
    """Whether p is small: by the level asked for, or by the habitual one for the sentence alone."""
    return pvalue <= (0.05 if alpha is None else alpha)


def level(alpha: float | None) -> str:
    """The level in words, if one was asked for."""
    return "" if alpha is None else f" at the level {alpha:g}"


def some(names: Sequence[str], most: int = 6) -> str:
    """The first few of many names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def kernel_words(kernel: Any) -> str:
    """A kernel, or those of x and y, in a line."""
    parts = kernel if isinstance(kernel, tuple) else (kernel,)
    line = ", ".join(printable(" ".join(repr(part).split())) for part in parts)
    return line.replace("[ ", "[").replace(" ]", "]").replace(" ,", ",")


def facts_table(page: Page, facts: Iterable[tuple[str, Any]]) -> None:
    """Names and values below each other."""
    rows = [(name, value if isinstance(value, (int, float)) else str(value)) for name, value in facts]
    page.table(rows, ["", "value"], "The test.")


def drivers_table(page: Page, effects: Sequence[ColumnEffect], effect: str, caption: str) -> None:
    """Columns by what each shows alone."""
    from muhat.testing.result import format_pvalue

    rows = [
        (
            column.name,
            f"{column.effect_size:.2f}"
            + (" ({:.2f} to {:.2f})".format(*column.interval) if column.interval else ""),
            format_pvalue(column.pvalue),
        )
        for column in effects[:DRIVERS]
    ]
    more = f" The first {DRIVERS} of {len(effects)}." if len(effects) > DRIVERS else ""
    page.table(rows, ["column", effect, "adjusted p"], caption + more)


def missing_table(page: Page, shares: dict[str, tuple[float, ...]], sides: Sequence[str]) -> None:
    """Shares of missing cells, if there are any."""
    most = sorted(shares, key=lambda name: -max(shares[name]))
    rows = [(name, *(percent(share, fine=True) for share in shares[name])) for name in most[:DRIVERS]]
    if rows:
        more = f" The first {DRIVERS} of {len(most)}." if len(most) > DRIVERS else ""
        page.table(rows, ["column", *sides], f"Share of missing cells.{more}")


def drivers_record(effects: Sequence[ColumnEffect]) -> list[dict[str, Any]]:
    """The same for JSON."""
    return [
        {
            "column": column.name,
            "effect_size": column.effect_size,
            "effect_interval": None if column.interval is None else list(column.interval),
            "pvalue": column.pvalue,
            "missing": list(column.missing),
            "rows": list(column.rows),
        }
        for column in effects
    ]


def test_record(result: TestResult, alpha: float | None, seed: int) -> dict[str, Any]:
    """What every test has to say in JSON."""
    return {
        "statistic": result.statistic,
        "pvalue": result.pvalue,
        "effect_size": result.effect_size,
        "method": result.method,
        "kernels": len(result.kernels),
        "kernel": kernel_words(result.kernel) if result.kernels else None,
        "alpha": alpha,
        "found": None if alpha is None else bool(result.pvalue <= alpha),
        "seed": seed,
        **({"restriction": result.restriction.record} if result.restriction else {}),
    }
