"""What a figure leaves behind: a picture, a table in a file, a table on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from muhat._files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 130
Row = Mapping[str, Any]


def save_figure(figure: Figure, path: Path) -> None:
    """A PNG without the date, so that the same figure is the same file."""
    with whole_file(path) as draft:
        figure.savefig(draft, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})


def save_table(rows: Sequence[Row] | Mapping[str, Any], path: Path) -> None:
    """Rows, or columns by name, as CSV; numbers with 6 digits."""
    frame = pl.DataFrame(rows)
    digits = [pl.col(name).round_sig_figs(6) for name, kind in frame.schema.items() if kind == pl.Float64]
    with whole_file(path) as draft:
        frame.with_columns(digits).write_csv(draft)


def read_table(path: Path) -> list[Row]:
    """The rows of a CSV that was saved; none if there is none."""
    return pl.read_csv(path).to_dicts() if path.is_file() else []


def show(title: str, rows: Sequence[Row]) -> None:
    """A table on the screen."""
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console().print(table)


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, (float, np.floating)) else str(value)


def letter(ax: Axes, name: str, title: str = "") -> None:
    """The panel's letter and title, at its upper left."""
    ax.set_title(f"({name}) {title}".rstrip(), loc="left", fontsize=9.5)


def legend(ax: Axes, **kwargs: Any) -> None:
    """A legend in the house style."""
    ax.legend(**{"frameon": False, "fontsize": 8, **kwargs})
