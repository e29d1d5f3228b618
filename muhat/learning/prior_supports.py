"""The support that a prior states: frozen distributions, bounds, or a Support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muhat.learning.supports import REMEDY, Support, infer_support

_REMEDY = (
    "give mh.Support(lower, upper), a frozen distribution of scipy.stats, or a list or dict with a "
    "distribution, a pair (lower, upper) or None for each parameter"
)


def is_distribution(prior: Any) -> bool:
    """Whether ``prior`` draws by itself, as distributions of scipy.stats do."""
    return hasattr(prior, "rvs") or (hasattr(prior, "sample") and hasattr(prior, "logpdf"))


def support_of(prior: Any, theta: np.ndarray, names: Any = None, remedy: str = REMEDY) -> Support:
    """The support of θ that was drawn from ``prior``; what the prior does not state is inferred from θ.

    Args:
        prior: a Support; a frozen distribution; or a list or dict with a distribution, a pair of bounds, or
            None for each parameter. None to infer all.
        theta: (n, p).
        names: of the columns.
        remedy: what to do where θ lies outside, for the error.
    """
    inferred = infer_support(theta, names)
    if prior is None:
        return inferred
    if isinstance(prior, Support):
        out = prior if names is None else _named(prior, names)
    else:
        out = _stated(prior, inferred)
    out.check(theta, remedy)
    return out


def states_support(prior: Any) -> bool:
    """Whether ``prior`` says where its draws can be; samples and functions do not."""
    if isinstance(prior, Support) or is_distribution(prior):
        return True
    if isinstance(prior, (Mapping, list, tuple)):
        parts = list(prior.values()) if isinstance(prior, Mapping) else list(prior)
        return any(map(is_distribution, parts))
    return False


def _named(support: Support, names: Any) -> Support:
    if list(names) != support.names and sorted(names) == sorted(support.names):
        raise ValueError(
            f"The support has the columns {', '.join(support.names)}, but theta has {', '.join(names)}: give "
            "them in the same order."
        )
    return support.named(names) if len(names) == len(support) else support


def _stated(prior: Any, inferred: Support) -> Support:
    if is_distribution(prior):
        parts = [prior]
    elif isinstance(prior, (Mapping, list, tuple)):
        if isinstance(prior, Mapping) and set(prior) <= set(inferred.names):  # by name, in any order
            prior = [prior.get(name) for name in inferred.names]
        parts = list(prior.values()) if isinstance(prior, Mapping) else list(prior)
        numbers = all(part is None or isinstance(part, (int, float, np.number)) for part in parts)
        if len(parts) == 2 and numbers and len(inferred) == 1:
            parts = [tuple(parts)]  # one pair for one parameter
    else:
        raise TypeError(f"prior must say where theta can be, got {type(prior).__name__}: {_REMEDY}.")
    columns: list[tuple[float, float, float]] = []
    groups: list[tuple[int, ...]] = []
    for part in parts:
        start = len(columns)
        columns.extend(_columns(part))
        if _is_dirichlet(part):
            groups.append(tuple(range(start, len(columns))))
    if len(columns) != len(inferred):
        raise ValueError(f"prior has {len(columns)} columns but theta has {len(inferred)}: {_REMEDY}.")
    lower, upper, whole = (np.array(part, dtype=np.float64) for part in zip(*columns, strict=True))
    unknown = np.isnan(lower)
    # A pair of bounds says nothing about whole numbers: theta does.
    integer = np.where(np.isnan(whole), inferred.integer, whole == 1)
    ours = [(g, t) for g, t in zip(inferred.simplex, inferred.totals, strict=True) if unknown[list(g)].all()]
    return Support(
        np.where(unknown, inferred.lower, lower),
        np.where(unknown, inferred.upper, upper),
        integer,
        [*groups, *(group for group, _ in ours)],
        [*(1.0 for _ in groups), *(total for _, total in ours)],
        inferred.names,
        unknown,
    )


def _columns(part: Any) -> list[tuple[float, float, float]]:
    """Lower and upper bound of each column, and 1 if it is whole, else 0; NaN where nothing is known."""
    unknown = (np.nan, np.nan, np.nan)
    if part is None:
        return [unknown]
    if not is_distribution(part):
        return [_pair(part)]
    support = getattr(part, "support", None)
    if callable(support):
        low, high = (np.atleast_1d(np.asarray(end, dtype=np.float64)) for end in support())  # type: ignore[misc]
        return [
            (float(a), float(b), _is_discrete(part)) for a, b in zip(low.ravel(), high.ravel(), strict=True)
        ]
    width = int(np.size(part.rvs(size=1, random_state=0))) if hasattr(part, "rvs") else 1
    name = type(part).__name__
    if _is_dirichlet(part):
        return [(0.0, 1.0, False)] * width
    if name.startswith(("multivariate_normal", "multivariate_t")):
        return [(-np.inf, np.inf, False)] * width
    return [unknown] * width


def _pair(part: Any) -> tuple[float, float, float]:
    try:
        low, high = part
        low = -np.inf if low is None else float(low)
        high = np.inf if high is None else float(high)
    except (TypeError, ValueError):
        raise TypeError(
            f"prior has an entry {part!r} that is neither a distribution nor bounds: {_REMEDY}."
        ) from None
    return low, high, np.nan


def _is_dirichlet(part: Any) -> bool:
    return type(part).__name__ == "dirichlet_frozen"


def _is_discrete(part: Any) -> bool:
    from scipy import stats

    law = getattr(part, "dist", part)
    if isinstance(law, stats.rv_discrete):
        return True
    return any(cls.__name__ == "DiscreteDistribution" for cls in type(part).__mro__)
