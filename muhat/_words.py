"""Numbers in sentences."""

from __future__ import annotations


def percent(share: float, fine: bool = False) -> str:
    """A share as a percentage, which is 0% or 100% only where the share is.

    Args:
        share: from 0 to 1.
        fine: whether two digits that matter are shown, also below 10%, rather than whole percents.
    """
    p = 100 * float(share)
    if p in (0, 100):
        return f"{p:.0f}%"
    if 0 < p < 0.01:
        return "<0.01%"
    if 99.99 < p < 100:
        return ">99.99%"
    if fine and p < 99.5:
        return f"{p:.2g}%"
    # As many decimals as it takes to be apart from both ends.
    texts = [f"{p:.{decimals}f}" for decimals in range(3)]
    return next((text for text in texts if 0 < float(text) < 100), texts[-1]) + "%"


__all__ = ["percent"]
