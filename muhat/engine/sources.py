"""Rows that need not fit in memory: what they are read from."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from muhat._tables import encode, is_frame
from muhat._validation import as_rows

# Rows of a file of text that are read at a time.
TEXT_ROWS = 50_000


class Rows:
    """Rows of numbers (n, d) that are read block by block; made by :func:`open_rows`.

    Attributes:
        shape: (n, d). n is −1 until a generator or a text file has been read once.
        names: of the columns, or None.
        flat: whether they are single numbers rather than rows of one.
        bounds: where the source may be cut without reading anything twice, (starts and the end), or None
            where any cut will do.
        passes: how often it has been read from end to end.
    """

    shape: tuple[int, int]
    names: list[str] | None = None
    flat: bool = False
    bounds: np.ndarray | None = None
    passes: int = 0

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows ``start`` to ``stop``, as they come."""
        raise TypeError("write read")

    def blocks(self) -> Iterator[np.ndarray] | None:
        """All rows in order, for sources that know no other way; else None."""
        return None

    def __repr__(self) -> str:
        n, d = self.shape
        return f"{type(self).__name__}({'unknown number of' if n < 0 else n} rows, {d} columns)"


class ArrayRows(Rows):
    """Rows of anything that can be sliced: an array in memory or mapped from disk, a Zarr array."""

    def __init__(self, array: Any, columns: Sequence[Any] | None = None, flat: bool = False) -> None:
        if array.ndim not in (1, 2):
            raise ValueError(f"An array of rows must be 2-dimensional, (n, d), but has shape {array.shape}.")
        self.flat = flat or array.ndim == 1
        self.array, self.picked = array, None if columns is None else _indices(columns, array.shape)
        width = 1 if array.ndim == 1 else array.shape[1] if self.picked is None else len(self.picked)
        self.shape = (int(array.shape[0]), int(width))
        chunks = getattr(array, "chunks", None)  # of Zarr: a chunk is unpacked as a whole
        if chunks:
            n = self.shape[0]
            self.bounds = np.append(np.arange(0, n, int(chunks[0])), n)

    def read(self, start: int, stop: int) -> np.ndarray:
        part = np.asarray(self.array[start:stop])
        part = part[:, None] if part.ndim == 1 else part
        part = part if self.picked is None else part[:, self.picked]
        return _unmapped(self.array, part) if isinstance(self.array, np.memmap) else part


class ParquetRows(Rows):
    """Rows of a Parquet file, by its row groups."""

    def __init__(self, path: Path, columns: Sequence[Any] | None = None, flat: bool = False) -> None:
        self.flat = flat
        file = _parquet().ParquetFile(path)
        known = sorted(file.schema_arrow.names, key=is_stored_index)  # places are those of data
        data = [c for c in known if not is_stored_index(c)]
        self.path, self.names = path, data if columns is None else _named(columns, known, path)
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        self.bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        self.shape = (int(self.bounds[-1]), len(self.names))

    def read(self, start: int, stop: int) -> np.ndarray:
        bounds: Any = self.bounds
        first, last = np.searchsorted(bounds, start, "right") - 1, np.searchsorted(bounds, stop, "left")
        # Opened for every piece: files are read in several threads and sent to other processes.
        table = _parquet().ParquetFile(self.path).read_row_groups(range(first, last), columns=self.names)
        columns = [_numbers(table.column(c), c, self.path) for c in self.names or []]
        skip = start - bounds[first]
        return np.stack(columns, axis=1)[skip : skip + stop - start]


class StreamRows(Rows):
    """Rows of a function that gives a fresh iterator of blocks (m, d) each time it is called."""

    def __init__(self, make: Callable[[], Any], names: list[str] | None = None, flat: bool = False) -> None:
        self.make, self.names = make, names
        if make() is make():
            raise ValueError(
                "The function gives the same iterator twice, which can be read only once: it must make a "
                "fresh one each time it is called."
            )
        first = next(iter(make()), None)
        if first is None:
            raise ValueError("The function gave no block of rows: it must return an iterator of arrays.")
        first = np.asarray(first)
        self.flat = flat or first.ndim == 1
        self.shape = (-1, 1 if first.ndim == 1 else first.shape[1])

    def blocks(self) -> Iterator[np.ndarray]:
        count = 0
        for block in self.make():
            part = np.asarray(block)
            part = part[:, None] if part.ndim == 1 else part
            count += len(part)
            yield part
        if 0 <= self.shape[0] != count:
            raise ValueError(
                f"The function gave {self.shape[0]} rows the first time and {count} now: it must give the "
                "same rows each time it is called, e.g. open the file anew."
            )
        self.shape = (count, self.shape[1])


def open_rows(source: Any, columns: Any = None) -> Rows:
    """Rows (n, d) that are read block by block, for data that outgrow memory.

    Estimators in a low-rank representation take the result, or what it is made of, where they take an array.

    Args:
        source: the path of a ``.parquet``, ``.npy`` or ``.csv`` file or a ``.zarr`` folder; an array mapped
            from disk; a Zarr array; a Dask array or data frame; or a function that gives a fresh iterator of
            blocks (m, d) each time it is called.
        columns: names (of files with names and of data frames) or positions; all by default, but for row
            labels without a name that pandas left in a Parquet file. One alone, not in a list, gives single
            numbers: a target, as a vector is.
    """
    if isinstance(source, Rows):
        if columns is not None:
            raise ValueError("columns are chosen when rows are opened: give them with the path or array.")
        return source
    flat = isinstance(columns, (str, int, np.integer))
    columns = [columns] if flat else columns
    if isinstance(source, (str, os.PathLike)):
        return _open_path(Path(source), columns, flat)
    if is_dask(source):
        from muhat.engine.on_dask import DaskRows

        return DaskRows(source, columns, flat)
    if hasattr(source, "shape") and hasattr(source, "__getitem__") and not hasattr(source, "columns"):
        return ArrayRows(source, columns, flat)
    if callable(source):
        if columns is not None:
            raise ValueError("columns of a generator: pick them in the function that makes the blocks.")
        return StreamRows(source)
    raise TypeError(
        f"source must be a path, an array on disk, a Dask collection or a function that gives an iterator of "
        f"blocks, got {type(source).__name__}."
    )


def as_source(X: Any) -> Rows | None:
    """``X`` as rows that are read in blocks, or None for what is in memory already."""
    lazy = isinstance(X, (Rows, str, os.PathLike, np.memmap, FunctionType, MethodType, partial))
    if lazy or is_dask(X) or _is_zarr(X):
        return open_rows(X)
    return None


def paired_sources(X: Any, Y: Any, names: tuple[str, str] = ("X", "Y")) -> tuple[Rows, Rows] | None:
    """Both as rows that are read in blocks if one of them is such, else None."""
    first, second = as_source(X), as_source(Y)
    if first is None and second is None:
        return None
    return first or rows_in_memory(X, names[0]), second or rows_in_memory(Y, names[1])


def rows_in_memory(A: Any, name: str) -> Rows:
    """A table or an array in memory as rows, beside others that are read in blocks."""
    series = hasattr(A, "to_frame") and not is_frame(A)
    if not series and not is_frame(A):
        return open_rows(np.asarray(A))
    encoder, table = encode(A.to_frame() if series else A, name)
    if encoder.categories:
        raise TypeError(
            f"{name} has categories, but goes with rows that are read in blocks, which are numbers: encode "
            f"{name} in the same way."
        )
    rows = ArrayRows(np.asarray(table), flat=series)
    rows.names = encoder.names
    return rows


def is_stored_index(name: str) -> bool:
    """Whether pandas gave this name, in a Parquet file, to row labels that have none.

    They number rows and are no data; an index with a name of its own is a column.
    """
    return re.fullmatch(r"__index_level_\d+__", name) is not None


def is_dask(X: Any) -> bool:
    """Whether ``X`` is a Dask array, data frame or series."""
    return type(X).__module__.split(".")[0] == "dask" and hasattr(X, "__dask_graph__")


def checked(block: Any, name: str, start: int) -> np.ndarray:
    """One block as finite numbers; an error names the rows of the whole."""
    try:
        return np.asarray(as_rows(block, name), dtype=np.float64)  # sums of many rows need it
    except ValueError as error:
        raise ValueError(f"{error} (rows counted from row {start} of {name})") from None


def _unmapped(array: np.memmap, part: np.ndarray) -> np.ndarray:
    """A copy of ``part``; the pages of the file leave this process, whose memory would else grow with it."""
    part = np.array(part)
    pages = getattr(array, "_mmap", None)
    # Not of a copy-on-write map: what was written there is nowhere else.
    if pages is not None and array.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)
    return part


def _is_zarr(X: Any) -> bool:
    return type(X).__module__.split(".")[0] == "zarr" and hasattr(X, "chunks")


def _open_path(path: Path, columns: Sequence[Any] | None, flat: bool) -> Rows:
    if not path.exists():
        raise FileNotFoundError(f"There is no {str(path)!r}: give the path of a file or folder that exists.")
    kind = path.suffix.lower()
    if path.is_dir() and kind != ".zarr":
        raise ValueError(
            f"{str(path)!r} is a folder: give one file, or a Dask collection, e.g. "
            "dask.dataframe.read_parquet(folder)."
        )
    if kind == ".npy":
        return ArrayRows(np.load(path, mmap_mode="r"), columns, flat)
    if kind == ".parquet":
        return ParquetRows(path, columns, flat)
    if kind == ".csv":
        return _text(path, columns, flat)
    if kind == ".zarr":
        try:
            import zarr
        except ImportError:
            raise ImportError("Reading Zarr needs the package zarr: pip install zarr.") from None
        return ArrayRows(zarr.open_array(path, mode="r"), columns, flat)
    raise ValueError(
        f"{str(path)!r} ends in {kind!r}: rows are read from .parquet, .npy, .csv and .zarr. Give an array "
        "for anything else."
    )


def _text(path: Path, columns: Sequence[Any] | None, flat: bool) -> Rows:
    import polars as pl

    try:
        known = pl.read_csv(path, n_rows=0, infer_schema=False).columns
    except pl.exceptions.NoDataError:
        raise ValueError(f"{path.name} is empty: give a file with a header and rows.") from None
    if all(map(_is_number, known)):
        raise ValueError(
            f"{path.name} has no header: its first line is {', '.join(known[:3])}, …. Write the names of the "
            "columns above it."
        )
    names = list(known) if columns is None else _named(columns, known, path)

    def make() -> Iterator[np.ndarray]:
        # As text, then as numbers: what a column holds is not guessed from its first rows.
        frames = pl.scan_csv(path, infer_schema=False).select(names).collect_batches(chunk_size=TEXT_ROWS)
        for frame in frames:
            yield np.stack([_parsed(frame[c], path) for c in names], axis=1)

    return StreamRows(make, names, flat)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parsed(column: Any, path: Path) -> np.ndarray:
    import polars as pl

    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    odd = column.filter(numbers.is_null() & column.is_not_null())
    if len(odd):
        raise TypeError(
            f"Column {column.name!r} of {path.name} holds no numbers, e.g. {odd[0]!r}: choose others with "
            "open_rows(path, columns=[…]), or encode it first."
        )
    return numbers.to_numpy()


def _numbers(column: Any, name: str, path: Path) -> np.ndarray:
    values = np.asarray(column)
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"Column {name!r} of {path.name} holds no numbers ({values.dtype}): choose others with "
            "open_rows(path, columns=[…]), or encode it first."
        )
    return values.astype(float) if values.dtype.kind in "biu" else values


def _named(columns: Any, known: Sequence[str], path: Path) -> list[str]:
    by_place: dict[Any, str] = dict(enumerate(known))
    names: Any = [by_place.get(c, c) for c in columns]
    missing = [c for c in names if c not in known]
    if missing:
        raise ValueError(f"{path.name} has no column {missing[0]!r}: it has {', '.join(map(str, known))}.")
    return names


def _indices(columns: Sequence[Any], shape: tuple[int, ...]) -> list[int]:
    width = shape[1] if len(shape) > 1 else 1
    if any(not isinstance(c, (int, np.integer)) or not 0 <= c < width for c in columns):
        raise ValueError(f"columns of an array are positions from 0 to {width - 1}, got {list(columns)!r}.")
    return [int(c) for c in columns]


def _parquet() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ImportError("Reading Parquet by row groups needs pyarrow: pip install pyarrow.") from None
    return parquet
