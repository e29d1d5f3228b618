"""``python -m papers.gretton2015.camera``: kernel Bayes filters and Kalman filters of a turning camera."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from papers.gretton2015.camera.experiment import run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers.gretton2015.camera", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few frames: does everything run?")
    parser.add_argument("--seeds", type=int, help="runs, each with a path and noise of its own (5; quick 1)")
    parser.add_argument("--out", type=Path, default=Path("out/gretton2015"), help="folder of the results")
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    chosen = parser.parse_args(arguments)
    seeds = (1 if chosen.quick else 5) if chosen.seeds is None else chosen.seeds
    if seeds < 1:
        parser.error(f"--seeds must be at least 1, got {seeds}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    start = perf_counter()
    run(chosen.out, chosen.quick, seeds, chosen.seed)
    print(f"{perf_counter() - start:.0f} s, in {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
