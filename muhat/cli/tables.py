"""Tables from files: CSV and Parquet in, frames of numbers and categories out, or one clear error.

A frame that leaves this module holds numbers (Float64) and categories (String) without missing cells, and
names and categories that can be shown on a terminal: control characters are spelled out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from muhat.cli.errors import BadUsage

if TYPE_CHECKING:
    import polars as pl

KINDS = ".csv, .tsv (both also .gz) or .parquet"
# As pandas and R write and read them.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "NULL", "null", "None")
# As pandas, R and polars write them: the same table must read the same whoever saved it.
BOOLEANS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
# Marks that turn the direction of the text after them, and separators that break lines.
_TURNS = set("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff")
_COMPLAINTS = {
    "more fields": "a row has more cells than the first line has names.",
    "empty CSV": "it has 0 rows.",  # polars 1, of a file of blank lines
    "utf-8": "it is not in UTF-8; save it so.",
}
FEW_NAMES = 20  # in as many rows or more, text that never repeats is no category that has not come twice yet
PAIRED = 0.1  # share of rows with the same identifier in both files from which rows may go in pairs
ID_ROWS = 3  # text that never repeats in this many rows or more is taken for an identifier


@dataclass(frozen=True)
class Table:
    """A file as read.

    Attributes:
        name: of the file, to be shown.
        frame: its columns; those of a CSV file as text.
    """

    name: str
    frame: pl.DataFrame

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self.frame.columns


def printable(text: str) -> str:
    """Text in which control characters, line breaks and marks of direction are spelled out."""
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in ("Cc", "Cs") or c in _TURNS else c
        for c in text
    )


def read_table(path: Path) -> Table:
    """The table in a file; :class:`BadUsage` if there is none."""
    name = printable(path.name)
    if not path.exists():
        raise BadUsage(f"there is no file {str(path)!r}: check the name.")
    if not path.is_file():
        raise BadUsage(f"{str(path)!r} is not an ordinary file: give {KINDS}.")
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    if kind not in (".csv", ".tsv", ".parquet"):
        raise BadUsage(f"{str(path)!r} is of no known kind: give {KINDS}.")
    if path.stat().st_size == 0:
        raise BadUsage(f"{name!r} is empty: give a file with a line of column names and rows below it.")
    frame = _parquet(path) if kind == ".parquet" else _text(path, kind)
    if frame.height == 0 or frame.width == 0:
        raise BadUsage(f"{name!r} has {frame.height} rows and {frame.width} columns: give one with rows.")
    return Table(name, frame)


def _text(path: Path, kind: str) -> pl.DataFrame:
    """A CSV file, everything as text: what a column holds is decided over all its rows."""
    import zlib

    import polars as pl

    try:
        # A name with brackets or a star in it is a name, not a pattern: glob=False.
        raw = pl.read_csv(
            path, has_header=False, infer_schema=False, separator=_separator(path, kind), glob=False
        )
    except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error) as error:
        said = _first_line(error)
        for sign, meaning in _COMPLAINTS.items():
            said = meaning if sign in said else said
        raise BadUsage(f"{path.name!r} cannot be read as a table: {said}") from error
    header = [("" if name is None else str(name)).strip().lstrip("\ufeff") for name in raw.row(0)]
    filled = raw.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return _named(
        raw[1 : filled[-1] + 1 if len(filled) else 1], header, path
    )  # without blank lines at the end


def _separator(path: Path, kind: str) -> str:
    """Tabs, or of commas, semicolons and tabs the one that the first line has most of."""
    import gzip

    if kind == ".tsv":
        return "\t"
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as file:
        line = file.readline(1 << 20)
    return max(",;\t", key=lambda mark: line.count(mark.encode()))


def _parquet(path: Path) -> pl.DataFrame:
    import polars as pl

    from muhat.engine.sources import is_stored_index

    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BadUsage(f"{path.name!r} cannot be read as Parquet: {_first_line(error)}") from error
    frame = frame.drop([c for c in frame.columns if is_stored_index(c)])
    return _named(frame, frame.columns, path)


def _first_line(error: BaseException) -> str:
    return printable((str(error).strip().splitlines() or [type(error).__name__])[0])


def _named(frame: pl.DataFrame, header: Sequence[str], path: Path) -> pl.DataFrame:
    names = [printable(name) or f"column {j}" for j, name in enumerate(header, start=1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadUsage(f"{path.name!r} has several columns named {_listed(twice)}: give each its own name.")
    return frame.rename(dict(zip(frame.columns, names, strict=True)))


def pick(options: Sequence[str], known: Sequence[str], option: str) -> list[str]:
    """The column names that an option lists with commas between; a name may hold commas itself."""
    out: list[str] = []
    for text in options:
        for name in [text] if printable(text) in known else text.split(","):
            name = printable(name.strip())
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"the columns are {_listed(known)}."
                raise BadUsage(f"{option} names {name!r}, which is no column: {hint}")
            if name not in out:
                out.append(name)
    return out


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more


def common_columns(first: Table, second: Table, columns: Sequence[str], drop: Sequence[str]) -> list[str]:
    """The columns to compare: those asked for, or all if both files have the same."""
    both = [name for name in first.columns if name in second.columns]
    either = [*first.columns, *(name for name in second.columns if name not in first.columns)]
    out = pick(drop, either, "--drop")
    if columns:
        wanted = pick(columns, either, "--columns")
        for name in wanted:
            if name not in both:
                lacks = second if name in first.columns else first
                raise BadUsage(f"--columns names {name!r}, which {lacks.name!r} does not have.")
        return _left(wanted, out)
    odd = [
        f"only {table.name!r} has {_listed(own)}"
        for table in (first, second)
        if (own := [name for name in table.columns if name not in both and name not in out])
    ]
    if odd:
        raise BadUsage(
            f"the files have different columns: {'; '.join(odd)}. Say which to compare with --columns, or "
            "leave some out with --drop."
        )
    return _left(both, out)


def own_columns(table: Table, columns: Sequence[str], drop: Sequence[str]) -> list[str]:
    """The columns asked for, or all, without those to be dropped."""
    wanted = pick(columns, table.columns, "--columns") if columns else table.columns
    return _left(wanted, pick(drop, table.columns, "--drop"))


def _left(columns: Sequence[str], drop: Sequence[str]) -> list[str]:
    left = [name for name in columns if name not in drop]
    if not left:
        raise BadUsage("no column is left: name fewer in --drop or more in --columns.")
    return left


def prepare(
    tables: Sequence[Table],
    columns: Sequence[str],
    categories: Sequence[str],
    drop_missing: bool,
    droppable: bool = True,
    keep_missing: bool = False,
) -> tuple[list[pl.DataFrame], list[int]]:
    """Some columns of each table as numbers and categories, and how many rows with missing cells went.

    A column that holds numbers in one table and text in the other is refused, as is one that holds both.
    Not ``droppable``: the columns were named one by one, and no option leaves one out. With ``keep_missing``
    all rows stay, and their missing cells are nulls.
    """
    import polars as pl

    leave = "leave it out with --drop" if droppable else "leave it out"
    frames = [
        table.frame.select(
            spelled(table.frame[name], name, table.name, name in categories, leave) for name in columns
        )
        for table in tables
    ]
    # What a column holds is decided before rows go, and by all tables together.
    for name in columns:
        if any(frame[name].dtype == pl.String for frame in frames) and name not in categories:
            frames = decided(frames, name, tables, leave)
    gaps = [_missing(frame) for frame in frames]
    dropped = []
    for i, (table, frame, lost) in enumerate(zip(tables, frames, gaps, strict=True)):
        if keep_missing:
            dropped.append(0)
            continue
        if lost and not drop_missing:
            cells = ", ".join(f"{name!r} ({count})" for name, count in list(lost.items())[:6])
            columns_too = ", or such columns with --drop" if droppable else ""
            raise BadUsage(
                f"{table.name!r} has missing cells in {cells}: leave such rows out with --missing drop"
                f"{columns_too}."
            )
        frames[i] = frame.drop_nulls()
        dropped.append(frame.height - frames[i].height)
        if frames[i].height == 0:
            remedy = "use --drop on the emptiest columns" if droppable else "choose other columns"
            raise BadUsage(f"no row of {table.name!r} is without missing cells: {remedy}.")
    for name in columns:
        _refuse_infinite(frames, name, tables, leave)
        if frames[0][name].dtype == pl.String and name not in categories:
            _refuse_identifier(frames, name, tables, leave)
    return frames, dropped


def spelled(column: pl.Series, name: str, source: str, category: bool, leave: str) -> pl.Series:
    """A column as numbers where its type says so, and else as printable text; gaps as nulls."""
    import polars as pl

    kind = column.dtype
    if kind.is_numeric() and not category:
        return column.cast(pl.Float64).fill_nan(None)
    if kind.is_temporal() or kind.is_nested() or kind in (pl.Binary, pl.Object):
        raise BadUsage(
            f"column {name!r} of {source!r} holds {kind}, neither numbers nor categories: {leave}."
        )
    text = column.cast(pl.String).str.strip_chars()
    text = text.set(text.is_in(list(MISSING)), None).replace(BOOLEANS)
    awkward = {value: printable(value) for value in text.unique().drop_nulls() if printable(value) != value}
    return text.replace(awkward) if awkward else text


def decided(frames: list[pl.DataFrame], name: str, tables: Sequence[Table], leave: str) -> list[pl.DataFrame]:
    """A column of text as numbers if all of it is, as categories if none of it is."""
    import polars as pl

    numbers = [frame[name].cast(pl.Float64, strict=False) for frame in frames]
    texts = [frame[name].cast(pl.String) for frame in frames]
    odd = [
        (number.is_null() & text.is_not_null()).arg_true()
        for text, number in zip(texts, numbers, strict=True)
    ]
    if not any(map(len, odd)):
        return [frame.with_columns(n.alias(name)) for frame, n in zip(frames, numbers, strict=True)]
    numeric = [table.name for table, number in zip(tables, numbers, strict=True) if number.count()]
    if numeric:
        i = next(i for i, where in enumerate(odd) if len(where))
        row, source = odd[i][0], tables[i].name
        found = {value for where, text in zip(odd, texts, strict=True) for value in text.gather(where)}
        values = {value for number in numbers for value in number.drop_nulls().unique()}
        if found <= set(BOOLEANS.values()) and values <= {0.0, 1.0}:
            raise BadUsage(
                f"column {name!r} holds 0 and 1 in {numeric[0]!r}, but true and false in {source!r}: if they "
                f"mean the same, write them alike in both; else {leave}."
            )
        numbered = source if source in numeric else numeric[0]
        raise BadUsage(
            f"column {name!r} mixes numbers and text: {numbered!r} has numbers, but row {row + 1} of "
            f"{source!r} has {texts[i][row]!r}: mend it, {leave}, or take it as a category with --categories."
        )
    return [frame.with_columns(text.alias(name)) for frame, text in zip(frames, texts, strict=True)]


def doubts(frames: Sequence[pl.DataFrame], names: Sequence[str]) -> list[str]:
    """Warnings of categories that two files may spell differently, a line for each column."""
    import polars as pl

    from muhat.testing.spelling import spelling_doubts

    out = []
    for column in frames[0].columns:
        if frames[0][column].dtype != pl.String:
            continue
        first, second = (frame[column].drop_nulls().unique().sort().to_list() for frame in frames)
        gaps = frames[0][column].has_nulls(), frames[1][column].has_nulls()
        said = spelling_doubts(first, second, [repr(name) for name in names], gaps)
        if said:
            out.append(
                f"column {column!r}: {said}. Spell alike what is alike, or leave the column out with --drop."
            )
    return out


def _missing(frame: pl.DataFrame) -> dict[str, int]:
    counts = {name: frame[name].null_count() for name in frame.columns}
    return {name: count for name, count in counts.items() if count}


def _refuse_infinite(frames: Sequence[pl.DataFrame], name: str, tables: Sequence[Table], leave: str) -> None:
    import polars as pl

    for frame, table in zip(frames, tables, strict=True):
        if frame[name].dtype == pl.Float64 and frame[name].is_infinite().any():
            raise BadUsage(f"column {name!r} of {table.name!r} has infinite values: mend it, or {leave}.")


def _refuse_identifier(
    frames: Sequence[pl.DataFrame], name: str, tables: Sequence[Table], leave: str
) -> None:
    """Text that never repeats is a name for a row, which says nothing about a distribution.

    As categories such names only do harm: where both tables have the same, rows are matched by them.
    """
    cells = [frame[name].drop_nulls() for frame in frames]
    if all(len(column) >= ID_ROWS and column.n_unique() == len(column) for column in cells):
        same = [int(a.is_in(b.implode()).sum()) for a, b in pairwise(cells)]
        shared = any(count >= PAIRED * len(cells[0]) for count in same)
        few = max(map(len, cells)) < FEW_NAMES and not shared
        says = (
            " It names some of the same rows in both files: where rows go in pairs, a test of the "
            "differences of pairs says more."
        )
        raise BadUsage(
            f"column {name!r} of {tables[0].name!r} has another text in every row, as an identifier or a "
            f"date has: {leave}"
            + (", or, if it holds categories that have not come twice yet, use --categories." if few else ".")
            + says * shared
        )
