"""What the data sets return, and where files that muhat does not ship are looked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import polars as pl

FOLDER = "MUHAT_DATA"


class DataNotFound(FileNotFoundError):
    """A file that muhat does not ship is not where it is looked for."""


def find_file(file: str, what: str, advice: str) -> Path:
    """``file`` in the folder that the environment variable MUHAT_DATA names.

    Args:
        file: its name.
        what: what it is, to begin the message with: "The ozone table".
        advice: what the file holds and where it comes from, to end the message with.
    """
    folder = os.environ.get(FOLDER)
    path = Path(folder or "") / file
    if folder and path.is_file():
        return path
    where = f"it is not in {FOLDER}={folder}" if folder else f"the environment variable {FOLDER} is not set"
    raise DataNotFound(
        f"{what} is not shipped with muhat, and {where}: put {file} into a folder and set {FOLDER} to it. "
        f"{advice}"
    )


class Pairs(NamedTuple):
    """Inputs ``X`` (n, d) and outputs ``y`` (n,)."""

    X: np.ndarray
    y: np.ndarray


class Table(NamedTuple):
    """A polars frame ``X`` of n rows and the column ``y`` (n,) to be explained: numbers or labels."""

    X: pl.DataFrame
    y: Any
