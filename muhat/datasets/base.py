"""What the data sets return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import polars as pl


class Pairs(NamedTuple):
    """Inputs ``X`` (n, d) and outputs ``y`` (n,)."""

    X: np.ndarray
    y: np.ndarray


class Table(NamedTuple):
    """A polars frame ``X`` of n rows and the column ``y`` (n,) to be explained: numbers or labels."""

    X: pl.DataFrame
    y: Any
