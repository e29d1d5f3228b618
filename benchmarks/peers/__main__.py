"""``python -m benchmarks.peers``: speed, memory and power beside the peers; exits 1 if a limit is missed."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Figure
from benchmarks.peers.limits import level_kci, limits, power_near_linear
from benchmarks.peers.packages import NotInstalled
from benchmarks.peers.timing import Timing, contest
from benchmarks.peers.workloads import SIZES, WORKLOADS

_HEADERS = ("workload", "n", "by", "warm, s", "cold, s", "memory, GB", "answer")


def _row(t: Timing) -> list[str]:
    mark = "e" if t.extrapolated else ""
    times = ["–" if value is None else f"{value:.3g}{mark}" for value in (t.warm, t.cold)]
    memory = "–" if t.memory is None else f"{t.memory / 1e9:.2f}"
    answer = t.reason or ("–" if t.answer is None else f"{t.answer:.3g}")
    return [t.workload, str(t.n), t.name, *times, memory, answer]


def _limit_row(f: Figure) -> list[str]:
    measured, target = f"{f.value:.2f} {f.unit}".strip(), f"≤ {f.target:g} {f.unit}".strip()
    return [f.name, measured, target, "holds" if f.holds else "MISSED", f.note]


def _markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _show(console: Console, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(*headers, title=title)
    for row in rows:
        table.add_row(*row, style="red" if "MISSED" in row else None)
    console.print(table)


def _write(folder: Path, timings: Sequence[Timing], figures: Sequence[Figure]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "peers.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, [f.name for f in fields(Timing)])
        table.writeheader()
        table.writerows(asdict(t) for t in timings)
    parts = [
        _markdown(_HEADERS, [_row(t) for t in timings]),
        "e: extrapolated from fewer permutations. Answer: the p-value; for CTT 0 if it rejects, else 1; "
        "for PC the missing edges, and a hundredth for each extra one.",
        _markdown(("limit", "measured", "target", "", "in this run"), [_limit_row(f) for f in figures]),
    ]
    (folder / "peers.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smallest sizes, one round, no power runs")
    parser.add_argument("--only", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--sizes", nargs="+", type=int, help="only these sample sizes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for peers.csv and peers.md")
    options = parser.parse_args(arguments)
    console, timings = Console(), []
    extra: list[Figure] = []
    for workload in options.only:
        sizes = SIZES[workload][:1] if options.quick else SIZES[workload]
        for n in sizes:
            if options.sizes and n not in options.sizes:
                continue
            with console.status(f"{workload}, n = {n}"):
                found = contest(workload, n, 1 if options.quick else options.rounds)
            _show(console, f"{workload}, n = {n}", _HEADERS[2:], [_row(t)[2:] for t in found])
            timings += found
            _write(options.out, timings, limits(timings))
    statistics: dict[str, Callable[[], Figure]] = {
        "near-linear": lambda: power_near_linear(50),
        "kci": lambda: level_kci(200),
    }
    if not options.quick:
        for workload in set(options.only) & statistics.keys():
            try:
                extra.append(statistics[workload]())
            except NotInstalled as reason:
                console.print(f"{workload}: statistics left out: {reason}")
    figures = [*limits(timings), *extra]
    _write(options.out, timings, figures)
    _show(
        console, "limits", ("limit", "measured", "target", "", "in this run"), list(map(_limit_row, figures))
    )
    broken = [t for t in timings if t.name == "ours" and t.reason]
    return 0 if all(f.holds for f in figures) and not broken else 1


if __name__ == "__main__":
    sys.exit(main())
