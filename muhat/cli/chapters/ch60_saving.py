"""Saving and loading without pickle."""

from __future__ import annotations

import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import muhat as mh
from muhat.cli.page import Page
from muhat.datasets import fork
from muhat.report.cells import cell

TITLE = "Saving and loading"


def round_trip(model: mh.ConditionalMean, path: Path) -> mh.ConditionalMean:
    mh.save(model, path)
    return mh.load(path)


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    page.say(
        "A model, an embedding, a density or a kernel is saved as plain arrays and JSON. Loading a file runs "
        "nothing that is in it, so files from others are safe to open."
    )
    X, y = fork(400, seed)
    model = mh.ConditionalMean(representation=mh.Nystrom(50)).fit(X, y)
    x = np.linspace(0, 4, 101)[:, None]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fork.muhat"
        again = page.run(round_trip, model, path)
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            arrays = sum(name.endswith(".npy") for name in archive.namelist())
        refusal = _damaged(path)
    gap = np.abs(again.predict(x) - model.predict(x)).max()
    page.table(
        [
            ("size of the file, kB", size / 1000),
            ("arrays in it", arrays),
            ("largest change of a prediction", float(gap)),
        ],
        ["", "value"],
        f"A conditional mean with 50 landmarks, learned from {len(X)} rows, saved and loaded.",
    )
    page.say(f"A damaged file is refused: “{refusal}”")


def _damaged(path: Path) -> str:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    try:
        mh.load(path)
    except ValueError as error:
        return str(error).replace(str(path), path.name)
    return cell(None)
