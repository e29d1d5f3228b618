"""``muhat compare``: do the rows of two files come from the same distribution?"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muhat._words import percent
from muhat.cli import options as o
from muhat.cli import rows as r
from muhat.cli.errors import BadUsage, plain_errors
from muhat.cli.outcome import (
    Answer,
    bad_input,
    decision,
    drivers_record,
    drivers_table,
    facts_table,
    give,
    kernel_words,
    level,
    missing_table,
    some,
    test_record,
    working,
)
from muhat.cli.tables import common_columns, doubts, pick, prepare, printable, read_table

if TYPE_CHECKING:
    from muhat.cli.page import Page
    from muhat.testing.result import ColumnEffect
    from muhat.testing.two_sample import TwoSampleResult


class Method(StrEnum):
    """Where the p-value comes from."""

    permutation = "permutation"
    gamma = "gamma"
    wild = "wild"


def compare(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A table.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Another with the same columns.")],
    columns: o.Columns = None,
    drop: o.Drop = None,
    categories: o.Categories = None,
    kernel: o.Kernels = None,
    method: Annotated[
        Method,
        typer.Option(
            help="permutation: exact level; gamma: fast, one kernel; wild: bootstrap for time series."
        ),
    ] = Method.permutation,
    permutations: o.Permutations = 999,
    alpha: o.Alpha = None,
    missing: o.MissingToCompare = o.MissingInTests.compare,
    groups: r.Groups = None,
    blocks: r.Blocks = None,
    strata: r.Strata = None,
    weights: r.Weights = None,
    seed: o.Seed = 0,
    as_json: o.Json = False,
    report: o.ReportPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Do the rows of two files come from the same distribution, and which columns differ?"""
    with plain_errors():
        o.check_alpha(alpha, None if method == Method.gamma else permutations)
        o.check_outputs([first, second], report=report, plot=plot)
        if method == Method.gamma and kernel == o.KernelChoice.aggregate:
            raise BadUsage(
                "--method gamma takes one kernel: use --kernel median or learn, or another method."
            )
        tables = [read_table(first), read_table(second)]
        named = r.named(tables, groups, blocks, strata, weights)
        labels = [name for names in named.values() for name in names]
        used = common_columns(tables[0], tables[1], columns or [], [*(drop or []), *labels])
        taken = pick(categories or [], used, "--categories")
        frames, _ = prepare(tables, used, taken, False, keep_missing=missing.word != "refuse")
        names = [table.name for table in tables]
        if names[0] == names[1]:
            names = [printable(str(first)), printable(str(second))]
        warned = doubts(frames, names)
        for warning in warned:
            typer.echo(f"Warning: {warning}", err=True)
        with bad_input(), working("testing"), r.limits_told_later():
            from muhat.testing.two_sample import two_sample_test

            result = two_sample_test(
                *r.with_labels(frames, tables, named),
                kernel=kernel and kernel.value,
                method=method.value,
                permutations=permutations,
                missing=missing.word,
                **r.arguments(named),
                random_state=seed,
            )
            effects = result.columns() if len(used) > 1 else []
        give(_answer(result, effects, names, used, warned, alpha, seed), as_json, report, plot)


def _answer(
    result: TwoSampleResult,
    effects: list[ColumnEffect],
    names: list[str],
    columns: list[str],
    warned: list[str],
    alpha: float | None,
    seed: int,
) -> Answer:
    from muhat.testing.result import format_pvalue
    from muhat.testing.two_sample import effect_words

    rows = list(result.rows)
    gaps = result.missing
    dropped = list(gaps.dropped) or [0, 0]
    found = decision(result.pvalue, alpha)
    verdict = f"{names[0]} and {names[1]} " + ("differ" if found else "show no difference") + level(alpha)
    sentence = (
        f"{verdict} (p = {format_pvalue(result.pvalue)}, {result.source}). {effect_words(result, found)}"
    )
    standing = [_with_gaps(effect) for effect in effects if decision(effect.pvalue, alpha)]
    if found and effects:
        used = f"each test used {rows[0]} and {rows[1]} rows"
        sentence += (
            f" By themselves these columns differ: {some(standing)} ({used})."
            if standing
            else f" No single column's test rejects ({used}); this does not show that the columns are alike."
        )
    if result.matched:
        sentence += f" {result.matched_sentence}"
    if gaps.sentence:
        sentence += f" {gaps.sentence}"
    if result.restriction:
        sentence += f" {result.restriction.sentence}"

    def write(page: Page) -> None:
        for warning in warned:
            page.report.text(f"Warning: {warning}")  # the terminal has shown it before the test
        facts: list[tuple[str, Any]] = [
            ("statistic", result.statistic),
            ("p-value", format_pvalue(result.pvalue)),
            ("effect size, 0.5 is chance", _between(result.effect_size, result.effect_interval)),
            ("MMD² of the kernel", result.mmd2),
            ("kernels at once", len(result.kernels)),
            ("kernel that shows most", kernel_words(result.kernel)),
            ("rows", f"{rows[0]} and {rows[1]}"),
        ]
        if any(dropped):
            facts.append(("rows with missing cells, left out", f"{dropped[0]} and {dropped[1]}"))
        facts_table(page, facts)
        missing_table(page, gaps.shares, names)
        if effects:
            drivers_table(
                page,
                effects,
                "effect size",
                "Each column by itself: how often it tells a row of the first file from one of the second, "
                f"with a 95% interval; 0.5 is chance. Each test used {rows[0]} and {rows[1]} rows.",
            )

    def figures() -> Any:
        from muhat.report.tests import two_sample

        yield (
            two_sample(result, (names[0], names[1]), effects or None),
            f"The samples, the witness function (blue where {names[0]} has more rows, red where {names[1]} "
            "has), and the statistic beside its distribution if the files were alike.",
        )

    record = {
        "command": "compare",
        "summary": sentence,
        "files": names,
        "rows": rows,
        "dropped_rows": dropped,
        "columns": columns,
        "notes": [*warned, *([result.matched_sentence] if result.matched else [])],
        "matched": list(result.matched),
        **test_record(result, alpha, seed),
        "effect_interval": list(result.effect_interval),
        "effect_rows": list(result.effect_rows),
        "missing": gaps.record,
        "mmd2": result.mmd2,
        "drivers": drivers_record(effects),
    }
    title = f"{names[0]} and {names[1]} compared"
    return Answer(title, sentence, write, figures, record, alpha is not None and found)


def _between(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


def _with_gaps(effect: ColumnEffect) -> str:
    """The name of a column, and the shares of its cells that are missing."""
    if not effect.missing:
        return effect.name
    return f"{effect.name} (missing {' → '.join(percent(share, fine=True) for share in effect.missing)})"


compare.__doc__ = f"{compare.__doc__}\n\n{o.FILES} {o.GAPS}\n\n{o.DECISION}"
