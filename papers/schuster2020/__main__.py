"""``python -m papers.schuster2020``: the experiments of [S20], as PNG and CSV, and their tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from papers.command import run_experiments

EXPERIMENTS = {name: name for name in ("donut", "terrain", "traffic", "tables")}

SLOW = {"action": "store_true", "help": "with the peers that take minutes (statsmodels)"}


def main(arguments: Sequence[str] | None = None) -> int:
    return run_experiments("schuster2020", __doc__, EXPERIMENTS, arguments, "experiment", {"slow": SLOW})


if __name__ == "__main__":
    sys.exit(main())
