"""``python -m papers.hsu_ramos2019``: the experiments of [HR19], as PNG and CSV, and their tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from papers.command import SEEDS, run_experiments

EXPERIMENTS = {
    "3": "figure3",
    "4": "figure4",
    "5": "figure5",
    "calibration": "calibration",
    "tables": "tables",
}


def main(arguments: Sequence[str] | None = None) -> int:
    return run_experiments("hsu_ramos2019", __doc__, EXPERIMENTS, arguments, more={"seeds": SEEDS})


if __name__ == "__main__":
    sys.exit(main())
