"""Repeated inputs: a load measured at every hour of many days."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._validation import as_generator, check_count
from muhat.datasets.base import Pairs


def daily_load(days: int = 60, random_state: Any = 0) -> Pairs:
    """A load at the hours 0, …, 23 of ``days`` days: 24·days rows, 24 distinct inputs.

    Normal about a profile with a morning and an evening peak (:func:`daily_load_mean`), with more
    scatter by day than by night (:func:`daily_load_sd`).

    Args:
        days: how often each hour is seen.
        random_state: seed or generator.
    """
    rng = as_generator(random_state)
    hour = np.tile(np.arange(24.0), check_count(days, "days"))
    y = daily_load_mean(hour) + daily_load_sd(hour) * rng.standard_normal(len(hour))
    return Pairs(hour[:, None], y)


def daily_load_mean(hour: Any) -> np.ndarray:
    """``E[y | hour]`` of :func:`daily_load`: ``2 + 3 e^{−(h−8)²/8} + 4 e^{−(h−19)²/12}``, (q,)."""
    h = np.asarray(hour, dtype=float).reshape(-1)
    return 2.0 + 3.0 * np.exp(-((h - 8.0) ** 2) / 8.0) + 4.0 * np.exp(-((h - 19.0) ** 2) / 12.0)


def daily_load_sd(hour: Any) -> np.ndarray:
    """The standard deviation of y given the hour of :func:`daily_load`: a quarter of its mean, (q,)."""
    return daily_load_mean(hour) / 4.0
