"""``muhat tour``: what the library does, on data, in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muhat.cli.errors import BadUsage, check_output, plain_errors, writing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

DEFAULT = Path("muhat-tour.html")
SUMMARY = (
    "Distributions known only through samples, as kernel mean embeddings: what can be read off them, and "
    "how they combine. Every number here was computed in the run that wrote this page, with seed {seed}; "
    "the code shown is the code that ran, after `import muhat as mh` and `import numpy as np`."
)


def tour(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the report, one HTML file.")
    ] = DEFAULT,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write the report, print nothing.")] = False,
    chapter: Annotated[str | None, typer.Option(help="One chapter only, such as embedding.")] = None,
) -> None:
    """See what the library does, on data, and write a report."""
    with plain_errors():
        check_output(output)
        run(output, seed, quiet, chapter)


def run(output: Path, seed: int, quiet: bool, chapter: str | None = None) -> None:
    """Run every chapter, or the one of that name, and write the report."""
    from muhat._threads import one_blas_thread
    from muhat.cli.chapters import chapters, name_of
    from muhat.cli.page import Page, console
    from muhat.report import Report

    todo = chapters()
    if chapter is not None:
        names = [name_of(each) for each in todo]
        if chapter not in names:
            raise BadUsage(f"there is no chapter {chapter!r}: choose one of {', '.join(names)}.")
        todo = [todo[names.index(chapter)]]
    terminal = console()
    report = Report("A tour of muhat", SUMMARY.format(seed=seed))
    page = Page(report, None if quiet else terminal)
    # The matrices are small, where threads of BLAS cost more than they give, above all on a busy machine.
    with one_blas_thread(), _progress(terminal, quiet) as progress:
        task = progress.add_task("", total=len(todo))
        for number, each in enumerate(todo, start=1):
            progress.update(task, description=f"{number} of {len(todo)}: {each.TITLE}")
            page.section(each.TITLE)
            each.run(page, seed)
            progress.advance(task)
    with writing(output):
        report.write(output)
    if not quiet:
        terminal.print(f"\nThe report, with figures and code: {output}", markup=False, soft_wrap=True)


def _progress(terminal: Console, quiet: bool) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    wanted = terminal.is_terminal and not quiet
    return Progress(
        BarColumn(bar_width=24),
        TextColumn("{task.description}", markup=False),
        console=terminal if wanted else Console(quiet=True),  # before rich 15 no bar is still an empty line
        transient=True,
        disable=not wanted,
    )
