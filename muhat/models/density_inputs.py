"""The rows that a conditional density is learned from, and what it may take of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._tables import Encoder
from muhat._validation import check_same_rows, check_shape
from muhat.embedding.reference import GRID, SOBOL, as_reference
from muhat.engine import SAMPLE, Rows, open_rows, paired_sources, sample_numbered
from muhat.gram import Exact, Neural, as_representation
from muhat.learning.density import FINEST
from muhat.models.base import encode_outputs


@dataclass(frozen=True)
class Many:
    """Rows that are read in blocks, which of them are the sample, and how many there are."""

    X: Rows
    Y: Rows
    index: np.ndarray
    count: int


def take_rows(model: Any, X: Any, Y: Any, checkpoint: Any) -> tuple[Array, Array, Many | None, Any]:
    """The rows that choices are made from, and, where these are not all, where all are read from."""
    sources, saved = paired_sources(X, Y), None
    if sources is None:
        A = model._fit_rows(X, 5)
        model.encoder_y_, B, model.flat_y_ = encode_outputs(Y)
        check_same_rows(A, B, "X", "Y")
        given = model.representation
        exact = given is not None and isinstance(as_representation(given), (Exact, Neural))
        if checkpoint is not None:
            raise ValueError("checkpoint is for rows that are read in blocks: leave it out for arrays.")
        if len(A) <= SAMPLE or exact or model.encoder_y_.categories:
            return A, B, None, None
        sources = open_rows(A), open_rows(B)
    else:
        model._fit_source(sources[0])
        model.encoder_y_, model.flat_y_ = Encoder(sources[1].names), sources[1].flat
        saved = model._checkpoint(checkpoint, *sources)
    n, index, (A, B) = sample_numbered(*sources, checkpoint=saved)
    check_shape(A.shape, "X", 5)
    if n <= SAMPLE:  # these are all
        return A, B, None, saved
    return A, B, Many(*sources, index, n), saved


def check_memory(model: Any, g: int, k: int, exact: bool) -> None:
    """Refuse what a dense Gram of x, that of the reference and values at its points would need."""
    if isinstance(model.reference, str) or model.reference is None:
        grid = model.reference == "grid" or (model.reference is None and k in FINEST)
        M = float(model.size or GRID.get(k, 2)) ** k if grid else float(model.size or SOBOL)
    else:
        given = as_reference(model.reference, model.mass, k)
        grid, M = given.axes is not None, float(len(given.points))
    inputs = float(g) ** 2 if exact else 0.0
    gram = 0.0 if grid and k > 1 else M**2
    needed = 8 * (inputs + gram + min(g * M, 1 << 25)) / 1e9
    if needed > model.memory:
        raise MemoryError(
            f"This fit needs about {needed:.2g} GB for {g:,} distinct inputs and {M:,.0f} reference "
            f"points, more than memory={model.memory:g}: pass representation=mh.Nystrom(500), a smaller "
            "size, or more memory."
        )
