"""Values as short text, the same on the terminal and in the report."""

from __future__ import annotations

import numbers
import re
from typing import Any

import numpy as np


def is_number(value: Any) -> bool:
    """Whether a cell holds a number."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def lines_up(value: Any) -> bool:
    """Whether a cell is aligned to the right: numbers, and text that starts like one ("0.3×", "12%")."""
    return value is None or is_number(value) or bool(re.match(r"[-+±<≈]?\s?\d", str(value)))


def cell(value: Any) -> str:
    """Text as it is, whole numbers in full, other numbers to three digits, None as a dash."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if value is None:
        return "–"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return f"{int(value):,}" if abs(int(value)) >= 10_000 else str(int(value))
    if is_number(value):
        return _real(float(value))
    return str(value)


def _real(value: float) -> str:
    if not np.isfinite(value):
        return "–" if np.isnan(value) else ("∞" if value > 0 else "-∞")
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e5:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")
    digits = max(0, 2 - int(np.floor(np.log10(abs(value)))))
    return f"{value:.{digits}f}"


def ends(low: float, high: float) -> str:
    """An interval as its ends, or the one value that it is."""
    return cell(low) if low == high else f"{cell(low)} to {cell(high)}"


def where(low: float, high: float, level: float, chance: float | None = None) -> str:
    """Where a number lies, as a part of a sentence.

    Args:
        low, high: an interval with this probability.
        level: the probability.
        chance: that of ``low`` alone, said where the interval is this one value; None if it is not known.
    """
    if low < high:
        return f"lies within {ends(low, high)} with probability {level:g}"
    if chance is None:
        return f"is {cell(low)} with probability {level:g} or more"
    return (
        f"is {cell(low)} with probability {chance:.2g}" if chance < 0.995 else f"is almost surely {cell(low)}"
    )
