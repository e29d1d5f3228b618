"""``python -m benchmarks``: every figure beside its target; exits 1 if one does not hold."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from benchmarks import (
    accuracy,
    bags,
    density,
    engine,
    filtering,
    ground,
    scaling,
    streamed_tests,
    task_transformed,
)


def main() -> int:
    figures = [*ground.run(), *filtering.run(), *density.run(), *task_transformed.run(), *bags.run()]
    figures += [*streamed_tests.run(), *engine.run(), *accuracy.run()]
    figures += scaling.figures(scaling.run())
    table = Table(title="muhat benchmarks")
    for header in ("figure", "measured", "target", "", "in this run"):
        table.add_column(header)
    for f in figures:
        verdict = "[green]holds[/]" if f.holds else "[red]missed[/]"
        table.add_row(f.name, f"{f.value:.2f} {f.unit}", f"≤ {f.target:g} {f.unit}", verdict, f.note)
    Console().print(table)
    return 0 if all(f.holds for f in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
