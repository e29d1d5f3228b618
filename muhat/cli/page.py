"""A page that is written twice: on the terminal as it comes, and in the report."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from muhat.report import Report
from muhat.report.cells import cell, lines_up

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.text import Text

T = TypeVar("T")
WIDTH = 96  # characters of a line of prose


class Page:
    """Sentences, tables, figures and code for a reader of the terminal and of the report.

    Args:
        report: that is filled.
        console: for sentences and tables; None for silence.
    """

    def __init__(self, report: Report, console: Console | None = None) -> None:
        self.report, self.console = report, console

    def section(self, title: str) -> None:
        """Start a section."""
        self.report.section(title)
        if self.console is not None:
            from rich.text import Text

            self.console.print()
            self.console.print(Text(title, style="bold blue underline"))

    def say(self, text: str) -> None:
        """A paragraph of plain text; `backticks` mark code."""
        self.report.text(text)
        if self.console is not None:
            self.console.print()
            self.console.print(_styled(" ".join(text.split())), width=min(WIDTH, self.console.width))

    def table(self, rows: Iterable[Sequence[Any]], header: Sequence[str], caption: str) -> None:
        """A table; the first cell of each row names it."""
        rows = [list(row) for row in rows]
        self.report.table(rows, header, caption)
        if self.console is None:
            return
        from rich import box
        from rich.table import Table

        table = Table(
            title=_styled(caption), title_justify="left", title_style="italic", box=box.SIMPLE, pad_edge=False
        )
        for j, name in enumerate(header):
            right = j > 0 and all(lines_up(row[j]) for row in rows)
            table.add_column(_styled(name), justify="right" if right else "left")
        for row in rows:
            table.add_row(*(_styled(cell(value)) for value in row))
        self.console.print(table)

    def figure(self, figure: Figure, caption: str, alt: str | None = None) -> None:
        """A figure, in the report alone."""
        self.report.figure(figure, caption, alt)

    def show(self, function: Callable[..., Any]) -> None:
        """The source of ``function``, in the report alone."""
        with suppress(OSError):  # installed without sources
            self.report.code(inspect.getsource(function))

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Show ``function`` and run it: what is read is what was run."""
        self.show(function)
        return function(*args)


def _styled(text: str) -> Text:
    """Text for the terminal, `code` in bold; brackets are brackets."""
    from rich.text import Text

    out = Text()
    for i, part in enumerate(re.split(r"`([^`]+)`", text)):
        out.append(part, style="bold" if i % 2 else "")
    return out


def console() -> Console:
    """The terminal, or plain text in a pipe."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)
