"""``python -m papers.flaxman2016``: the figures of [F16], as PNG and CSV, and their tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from papers.command import run_experiments

EXPERIMENTS = {str(number): f"figure{number}" for number in (1, 2, 3, 4)}


def main(arguments: Sequence[str] | None = None) -> int:
    return run_experiments("flaxman2016", __doc__, EXPERIMENTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
