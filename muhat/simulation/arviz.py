"""Posteriors for ArviZ."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from muhat._validation import as_generator, as_rows, check_count
from muhat.embedding import Embedding
from muhat.simulation.draws import weighted


def to_arviz(
    posterior: Any,
    n: int = 1000,
    names: Sequence[str] | None = None,
    prior: Any = None,
    observed: Any = None,
    random_state: Any = 0,
) -> Any:
    """A posterior as ``InferenceData`` of ArviZ (from version 1 on, a ``DataTree``), with one chain.

    Args:
        posterior: an embedding, whose points are drawn by their weights (negative ones projected away), or
            samples (m, p), which are taken as they are.
        n: draws of an embedding.
        names: of the parameters; those of the table that the embedding came from by default.
        prior: samples of the prior, (k, p), for the group ``prior``.
        observed: the observation, (d,), for the group ``observed_data``.
        random_state: seed of the draws.
    """
    arviz = _import()
    if isinstance(posterior, Embedding):
        encoder = posterior.encoder
        names = names or (encoder.names if encoder is not None else None)
        draws = weighted(posterior).resample(check_count(n, "n"), as_generator(random_state))
    else:
        names = names or ([str(c) for c in posterior.columns] if hasattr(posterior, "columns") else None)
        draws = np.asarray(as_rows(posterior, "posterior"), dtype=np.float64)
    p = draws.shape[1]
    names = list(names or (["theta"] if p == 1 else [f"theta{j + 1}" for j in range(p)]))
    if len(names) != p or len(set(names)) != p:
        raise ValueError(f"names must be {p} different names, one a parameter, got {names}.")
    groups: dict[str, Any] = {"posterior": _variables(draws, names)}
    if prior is not None:
        rows = np.asarray(as_rows(prior, "prior"), dtype=np.float64)
        if rows.shape[1] != p:
            raise ValueError(
                f"prior has {rows.shape[1]} columns but the posterior {p}: give the same parameters."
            )
        groups["prior"] = _variables(rows, names)
    if observed is not None:
        groups["observed_data"] = {"x": np.ravel(np.asarray(observed, dtype=np.float64))}
    if arviz.__version__.startswith("0."):
        return arviz.from_dict(**groups)  # one keyword a group
    return arviz.from_dict(groups)


def _variables(draws: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
    return {name: column[None] for name, column in zip(names, draws.T, strict=True)}


def _import() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # version 0.23 announces version 1
            import arviz
    except ImportError as error:
        raise ImportError(
            'to_arviz needs the package arviz: install it, e.g. pip install "muhat[arviz]".'
        ) from error
    return arviz
