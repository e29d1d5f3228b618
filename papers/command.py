"""The command of a paper: its experiments one after the other, or one of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from time import perf_counter
from typing import Any

from muhat.datasets import DataNotFound


def at_least_one(text: str) -> int:
    """A count from the command line."""
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {count}")
    return count


# An option for :func:`run_experiments`.
SEEDS = {"type": at_least_one, "help": "how many data sets, where there are several"}


def run_script(
    name: str, about: str | None, run: Callable[[Path], Any], arguments: Sequence[str] | None = None
) -> None:
    """Parse the command line of a script beside the experiments, ``paper.script``, and run it."""
    parser = argparse.ArgumentParser(prog=f"python -m papers.{name}", description=about)
    default = Path("out") / name.partition(".")[0]
    parser.add_argument("--out", type=Path, default=default, help="folder of the results")
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    run(chosen.out)


def run_experiments(
    paper: str,
    about: str | None,
    experiments: Mapping[str, str],
    arguments: Sequence[str] | None,
    option: str = "figure",
    more: Mapping[str, dict[str, Any]] | None = None,
) -> int:
    """Parse the command line and run: 1 if the one experiment that was asked for has no data, else 0.

    Args:
        paper: the name of its folder.
        about: what the command does.
        experiments: by what they are called on the command line, modules of that folder with a function
            ``run``, or ``"module:function"``.
        arguments: the command line; None for that of the process.
        option: what an experiment is called there.
        more: further options, handed to those experiments whose ``run`` knows them.
    """
    parser = argparse.ArgumentParser(prog=f"python -m papers.{paper}", description=about)
    parser.add_argument("--quick", action="store_true", help="few repetitions: does everything run?")
    parser.add_argument(f"--{option}", dest="only", choices=list(experiments), help=f"one {option} alone")
    parser.add_argument("--out", type=Path, default=Path("out") / paper, help="folder of the results")
    parser.add_argument("--seed", type=int, default=0)
    for name, settings in (more or {}).items():
        parser.add_argument(f"--{name}", **settings)
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    missing = False
    for name in experiments if chosen.only is None else (chosen.only,):
        start = perf_counter()
        module, _, function = experiments[name].partition(":")
        run = getattr(import_module(f"papers.{paper}.{module}"), function or "run")
        known = {key: getattr(chosen, key) for key in more or {} if key in signature(run).parameters}
        try:
            run(chosen.out, chosen.quick, chosen.seed, **known)
        except DataNotFound as error:
            print(f"{option} {name} left out: {error}", file=sys.stderr)
            missing = True
            continue
        print(f"{option} {name}: {perf_counter() - start:.0f} s, in {chosen.out}\n")
    return int(missing and chosen.only is not None)
