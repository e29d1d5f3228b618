"""Draws of parameters from whatever a user calls a prior."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from muhat._tables import is_frame
from muhat._validation import as_rows
from muhat.learning.prior_supports import is_distribution

_REMEDY = (
    "give samples (m, p), a function prior(rng) of one θ or prior(n, rng) of n, a frozen distribution of "
    "scipy.stats, or a list or dict of these distributions, one a parameter"
)


def takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function is to be called with two positional arguments; False where it cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) >= 2


def draw_prior(prior: Any, n: int | None, rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """Parameters to simulate at, (n, p), and their names.

    Args:
        prior: samples, taken from the first row on; a function; or distributions (see :func:`simulate`).
        n: how many; None for all rows of samples.
        rng: of the draws.
    """
    columns = prior.columns if is_frame(prior) else list(prior) if isinstance(prior, Mapping) else None
    if is_frame(prior) or isinstance(prior, np.ndarray) or hasattr(prior, "__jax_array__"):
        theta = _first_rows(prior, n)
    elif n is None:
        raise ValueError("n is needed: how many simulations to run; only samples say so themselves.")
    elif isinstance(prior, (Mapping, list, tuple)):
        parts = list(prior.values()) if isinstance(prior, Mapping) else list(prior)
        if not parts or not all(map(is_distribution, parts)):
            return draw_prior(np.asarray(_numbers(prior)), n, rng)
        theta = np.column_stack([_rows(_draw(part, n, rng), n) for part in parts])
    elif is_distribution(prior):
        theta = _rows(_draw(prior, n, rng), n)
    elif callable(prior):
        many = takes_two(prior)
        one_by_one: Any = None if many else [prior(rng) for _ in range(n)]
        theta = _rows(prior(n, rng) if many else one_by_one, n)
    else:
        raise TypeError(f"prior must be something to draw from, got {type(prior).__name__}: {_REMEDY}.")
    names = [str(c) for c in columns] if columns is not None else []
    if len(names) != theta.shape[1]:
        names = ["theta"] if theta.shape[1] == 1 else [f"theta{j + 1}" for j in range(theta.shape[1])]
    return np.asarray(as_rows(theta, "the draws of prior"), dtype=np.float64), names


def _first_rows(samples: Any, n: int | None) -> np.ndarray:
    if not is_frame(samples) and np.ndim(samples) == 1:
        samples = np.reshape(samples, (-1, 1))
    rows = np.asarray(as_rows(samples, "prior"))
    if n is not None and n > len(rows):
        raise ValueError(
            f"prior has {len(rows)} rows, fewer than n = {n}: give more samples, or a function that draws."
        )
    return rows[:n]


def _numbers(prior: Any) -> Any:
    try:
        return np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"prior is a {type(prior).__name__} of neither numbers nor distributions: {_REMEDY}."
        ) from None


def _draw(distribution: Any, n: int, rng: np.random.Generator) -> Any:
    if hasattr(distribution, "rvs"):
        return distribution.rvs(size=n, random_state=rng)
    return distribution.sample(n, rng=rng)  # the random variables of SciPy 1.15 on


def _rows(draws: Any, n: int) -> np.ndarray:
    try:
        theta = np.asarray(draws, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"prior gave draws that are no table of numbers ({error}): {_REMEDY}.") from None
    if theta.size == 0 or len(theta) != n:
        raise ValueError(f"prior gave draws of shape {theta.shape} where n = {n} were asked for: {_REMEDY}.")
    return theta.reshape(n, -1)
