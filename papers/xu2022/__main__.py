"""``python -m papers.xu2022``: the experiments of [X22], as PNG and CSV, and their tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter

from muhat.datasets import DataNotFound

EXPERIMENTS = {"1": "figure1", "2": "figure2", "images": "figure5_6", "kalman": "kalman"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers.xu2022", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions: does everything run?")
    parser.add_argument("--figure", choices=list(EXPERIMENTS), help="one experiment alone")
    parser.add_argument("--out", type=Path, default=Path("out/xu2022"), help="folder of the results")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    missing = False
    for name in EXPERIMENTS if chosen.figure is None else (chosen.figure,):
        start = perf_counter()
        try:
            import_module(f"papers.xu2022.{EXPERIMENTS[name]}").run(chosen.out, chosen.quick, chosen.seed)
        except DataNotFound as error:
            print(f"figure {name} left out: {error}", file=sys.stderr)
            missing = True
            continue
        print(f"figure {name}: {perf_counter() - start:.0f} s, in {chosen.out}\n")
    return int(missing and chosen.figure is not None)


if __name__ == "__main__":
    sys.exit(main())
