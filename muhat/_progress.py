"""A bar while something long runs: on a terminal only, so that pipes and notebooks stay quiet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(what: str, total: int, show: bool = True) -> Iterator[Callable[[int, str], None]]:
    """A bar on standard error; yields how to move it: ``move(done, text)``.

    Args:
        what: is going on.
        total: number of steps.
        show: False for never.
    """
    if not (show and sys.stderr is not None and sys.stderr.isatty()):
        yield lambda done, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, text: bar.update(task, completed=done, description=f"{what} {text}")
