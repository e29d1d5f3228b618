"""``python -m papers.xu2022``: the experiments of [X22], as PNG and CSV, and their tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from papers.command import run_experiments

EXPERIMENTS = {"1": "figure1", "2": "figure2", "images": "figure5_6", "kalman": "kalman"}


def main(arguments: Sequence[str] | None = None) -> int:
    return run_experiments("xu2022", __doc__, EXPERIMENTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
