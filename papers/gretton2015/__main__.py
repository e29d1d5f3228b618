"""``python -m papers.gretton2015``: the experiments of [G15], as PNG and CSV, and their tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from papers.command import SEEDS, run_experiments

EXPERIMENTS = {
    "bags": "bags",
    "rate": "rate",
    "batch": "messages:batch",
    "toy": "messages:toy",
    "uci": "messages:uci",
    "gamma": "messages:gamma",
    "causation": "causation",
    "camera": "camera.experiment",
}


def main(arguments: Sequence[str] | None = None) -> int:
    return run_experiments("gretton2015", __doc__, EXPERIMENTS, arguments, "experiment", {"seeds": SEEDS})


if __name__ == "__main__":
    sys.exit(main())
