"""``python -m papers.schuster2020``: the experiments of [S20], as PNG and CSV, and their tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter

from muhat.datasets import DataNotFound

EXPERIMENTS = ("donut", "terrain", "traffic", "tables")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers.schuster2020", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rows and repetitions: does everything run?")
    parser.add_argument("--experiment", choices=EXPERIMENTS, help="one experiment alone")
    parser.add_argument("--out", type=Path, default=Path("out/schuster2020"), help="folder of the results")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow", action="store_true", help="with the peers that take minutes (statsmodels)")
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    missing = False
    for name in EXPERIMENTS if chosen.experiment is None else (chosen.experiment,):
        start = perf_counter()
        more = {"slow": True} if chosen.slow and name == "donut" else {}
        try:
            run = import_module(f"papers.schuster2020.{name}").run
            run(chosen.out, chosen.quick, chosen.seed, **more)
        except DataNotFound as error:
            print(f"{name} left out: {error}", file=sys.stderr)
            missing = True
            continue
        print(f"{name}: {perf_counter() - start:.0f} s, in {chosen.out}\n")
    return int(missing and chosen.experiment is not None)


if __name__ == "__main__":
    sys.exit(main())
