"""Where sums over rows run: in memory, in blocks from disk, on Dask.

In feature space every rule is sums over rows and small solves. :func:`reduce_rows` and :func:`sum_rows` make
one pass over the rows of one or several sources, :func:`map_rows` applies a function to them, and
:func:`sample_rows` draws the rows that kernels and landmarks are chosen from. What a source is made of, a
memory map, a file, a generator or a Dask collection, changes where the work is done and nothing else.
"""

from muhat.engine.checkpoint import Checkpoint, CheckpointMismatch, digest
from muhat.engine.passes import map_rows, reduce_rows, sum_rows
from muhat.engine.sample import SAMPLE, sample_indices, sample_numbered, sample_rows
from muhat.engine.sources import Rows, as_source, open_rows, paired_sources, rows_in_memory

__all__ = [
    "SAMPLE",
    "Checkpoint",
    "CheckpointMismatch",
    "Rows",
    "as_source",
    "digest",
    "map_rows",
    "open_rows",
    "paired_sources",
    "reduce_rows",
    "rows_in_memory",
    "sample_indices",
    "sample_numbered",
    "sample_rows",
    "sum_rows",
]
