"""One table in every form that rows can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from muhat import open_rows

FORMS = ("memmap", "npy", "parquet", "csv", "zarr", "generator", "dask array", "dask frame", "rows")


def as_form(form: str, table: np.ndarray, folder: Path, columns: list[str], block: int = 300) -> Any:
    """The columns of ``table`` (n, d) read in blocks; a single column as a vector."""
    import pandas as pd

    names = [f"c{j}" for j in range(table.shape[1])]
    pick: Any = columns[0] if len(columns) == 1 else columns
    part = table[:, [names.index(c) for c in columns]]
    part = part[:, 0] if len(columns) == 1 else part
    path = folder / f"{'_'.join(columns)}"
    if form == "rows":
        return open_rows(part)
    if form == "memmap":
        stored = np.memmap(path.with_suffix(".dat"), float, "w+", shape=part.shape)
        stored[:] = part
        return stored
    if form == "npy":
        np.save(path.with_suffix(".npy"), part)
        return path.with_suffix(".npy")
    if form == "generator":
        return open_rows(lambda: (part[i : i + block] for i in range(0, len(part), block)))
    if form == "zarr":
        import zarr

        out = zarr.create_array(
            path.with_suffix(".zarr"), shape=part.shape, chunks=(block, *part.shape[1:]), dtype=float
        )
        out[:] = part
        return out
    frame = pd.DataFrame(table, columns=names)
    if form in ("parquet", "csv"):
        file = folder / f"table.{form}"
        if not file.exists() and form == "csv":
            frame.to_csv(file, index=False, float_format="%.17g")
        elif not file.exists():
            frame.to_parquet(file, row_group_size=block)
        return open_rows(file, pick)
    if form == "dask array":
        import dask.array as da

        return da.from_array(part, chunks=(block, *part.shape[1:]))
    import dask.dataframe as dd

    return dd.from_pandas(frame, npartitions=-(-len(frame) // block))[pick]
