"""``python -m papers.hsu_ramos2019``: the experiments of [HR19], as PNG and CSV, and their tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from time import perf_counter

from muhat.datasets import DataNotFound

EXPERIMENTS = {
    "3": "figure3",
    "4": "figure4",
    "5": "figure5",
    "calibration": "calibration",
    "tables": "tables",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers.hsu_ramos2019", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions: does everything run?")
    parser.add_argument("--figure", choices=list(EXPERIMENTS), help="one experiment alone")
    parser.add_argument("--out", type=Path, default=Path("out/hsu_ramos2019"), help="folder of the results")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, help="how many data sets, where there are several")
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    missing = False
    for name in EXPERIMENTS if chosen.figure is None else (chosen.figure,):
        start = perf_counter()
        run = import_module(f"papers.hsu_ramos2019.{EXPERIMENTS[name]}").run
        several = {"seeds": chosen.seeds} if "seeds" in signature(run).parameters else {}
        try:
            run(chosen.out, chosen.quick, chosen.seed, **several)
        except DataNotFound as error:
            print(f"figure {name} left out: {error}", file=sys.stderr)
            missing = True
            continue
        print(f"figure {name}: {perf_counter() - start:.0f} s, in {chosen.out}\n")
    return int(missing and chosen.figure is not None)


if __name__ == "__main__":
    sys.exit(main())
