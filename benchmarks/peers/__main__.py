"""``python -m benchmarks.peers``: speed, memory and answers beside the peers; exits 1 where a limit fails."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Figure
from benchmarks.peers import report
from benchmarks.peers.limits import level_kci, limits, power_near_linear
from benchmarks.peers.packages import NotInstalled
from benchmarks.peers.timing import Timing, contest
from benchmarks.peers.workloads import WORKLOADS

# Beside the times: the power of a near-linear test and the level of KCI, against the peer's.
STATISTICS: dict[str, Callable[[], Figure]] = {
    "near-linear": lambda: power_near_linear(50),
    "kci": lambda: level_kci(200),
}


def _show(console: Console, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(*headers, title=title)
    for row in rows:
        table.add_row(*row, style="red" if "MISSED" in row else None)
    console.print(table)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smallest sizes, one round, no power runs")
    parser.add_argument("--only", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--sizes", nargs="+", type=int, help="only these sample sizes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for peers.csv, .md and .png")
    parser.add_argument(
        "--merge", action="store_true", help="keep what the folder's table has and this run has not"
    )
    parser.add_argument("--readme", type=Path, help="write the short table into this file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    console, extra = Console(), []
    old: list[Timing] = []
    if options.merge and (options.out / "peers.csv").is_file():
        old = report.read(options.out / "peers.csv")
    new: list[Timing] = []
    order = list(WORKLOADS)

    def merged() -> list[Timing]:
        again = {(t.workload, t.n) for t in new}
        kept = [t for t in old if (t.workload, t.n) not in again]
        return sorted([*kept, *new], key=lambda t: (order.index(t.workload), t.n))

    for workload in options.only:
        for n in WORKLOADS[workload].sizes[: 1 if options.quick else None]:
            if options.sizes and n not in options.sizes:
                continue
            with console.status(f"{workload}, n = {n}"):
                found = contest(workload, n, 1 if options.quick else options.rounds)
            shown = [report.row(t)[2:] for t in found]
            _show(console, f"{WORKLOADS[workload].job}, n = {n}", report.HEADERS[2:], shown)
            new += found
            report.write(options.out, merged(), limits(merged()))
    for workload in [] if options.quick else [w for w in STATISTICS if w in {t.workload for t in new}]:
        try:
            extra.append(STATISTICS[workload]())
        except NotInstalled as reason:
            console.print(f"{workload}: statistics left out: {reason}")
    figures = [*limits(merged()), *extra]
    report.write(options.out, merged(), figures)
    report.picture(options.out, merged())
    if options.readme:
        report.readme(options.readme, options.out)
    _show(console, "limits", report.LIMIT_HEADERS, list(map(report.limit_row, figures)))
    broken = [t for t in new if t.name == "ours" and t.reason]
    return 0 if all(f.holds for f in figures) and not broken else 1


if __name__ == "__main__":
    sys.exit(main())
