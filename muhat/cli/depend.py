"""``muhat depend``: do columns of a file depend on each other, perhaps once others are known?"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    test_record,
    working,
)
from muhat.cli.tables import pick, prepare, read_table

if TYPE_CHECKING:
    from muhat.cli.page import Page


class Method(StrEnum):
    """Where the p-value comes from; with --given, which test."""

    permutation = "permutation"
    gamma = "gamma"
    wild = "wild"
    kci = "kci"
    residual = "residual"
    stacked = "stacked"


PLAIN = (Method.permutation, Method.gamma, Method.wild)
GIVEN = (Method.stacked, Method.kci, Method.gamma, Method.residual)


def depend(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table.")],
    x: Annotated[list[str], typer.Option("--x", metavar=o.MANY, help=f"Columns on one side ({o.NAMES}).")],
    y: Annotated[list[str], typer.Option("--y", metavar=o.MANY, help=f"On the other side ({o.NAMES}).")],
    given: Annotated[
        list[str] | None, typer.Option(metavar=o.MANY, help=f"Test given that these are known ({o.NAMES}).")
    ] = None,
    categories: o.Categories = None,
    kernel: o.Kernels = None,
    method: Annotated[
        Method | None,
        typer.Option(
            help="permutation (default): exact level; gamma: fast, one kernel; wild: bootstrap for time "
            "series. With --given: stacked (default), of what several regressions leave; kci, faster; gamma: "
            "kci, faster still; residual: of what is left of x and y themselves.",
        ),
    ] = None,
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
    """Do columns of a file depend on each other, perhaps once others are known?"""
    with plain_errors():
        allowed = GIVEN if given else PLAIN
        method = method or allowed[0]
        if method not in allowed:
            names = ", ".join(m.value for m in allowed)
            raise BadUsage(
                f"--method {method.value} does not go {'with' if given else 'without'} --given: use {names}."
            )
        if given and kernel in (o.KernelChoice.aggregate, o.KernelChoice.learn):
            raise BadUsage("with --given the kernels are at the median distance: leave --kernel out.")
        if method == Method.gamma and kernel == o.KernelChoice.aggregate:
            raise BadUsage(
                "--method gamma takes one kernel: use --kernel median or learn, or another method."
            )
        o.check_alpha(alpha, None if method == Method.gamma else permutations)
        o.check_outputs([data], report=report, plot=plot)
        table = read_table(data)
        sides = {
            option: pick(texts or [], table.columns, option)
            for option, texts in (("--x", x), ("--y", y), ("--given", given))
        }
        used = [name for side in sides.values() for name in side]
        twice = sorted({name for name in used if used.count(name) > 1})
        if twice:
            raise BadUsage(f"{', '.join(map(repr, twice))} is in two of --x, --y and --given: put it in one.")
        named = r.named([table], groups, blocks, strata, weights)
        both = [name for names in named.values() for name in names if name in used]
        if both:
            raise BadUsage(
                f"{', '.join(map(repr, both))} says how rows belong together: leave it out of the data."
            )
        taken = pick(categories or [], used, "--categories")
        keep = missing.word != "refuse"
        (frame,), _ = prepare([table], used, taken, False, droppable=False, keep_missing=keep)
        X, Y, Z = (frame.select(side) for side in sides.values())
        (X,) = r.with_labels([X], [table], named)
        with bad_input(), working("testing"), r.limits_told_later():
            choice: Any = kernel and kernel.value
            if given:
                from muhat.testing.conditional import conditional_independence_test

                result: Any = conditional_independence_test(
                    X,
                    Y,
                    Z,
                    method="kci" if method == Method.gamma else method.value,
                    null="gamma" if method == Method.gamma else "bootstrap",
                    permutations=permutations,
                    missing=missing.word,
                    **r.arguments(named),
                    random_state=seed,
                )
                effects = []
            else:
                from muhat.testing.independence import independence_test

                result = independence_test(
                    X,
                    Y,
                    choice,
                    choice,
                    method.value,
                    permutations=permutations,
                    missing=missing.word,
                    **r.arguments(named),
                    random_state=seed,
                )
                effects = result.columns() if len(used) > 2 else []
        give(
            _answer(result, effects, sides, table.name, frame.height, alpha, seed),
            as_json,
            report,
            plot,
        )


def _answer(
    result: Any,
    effects: list[Any],
    sides: dict[str, list[str]],
    source: str,
    rows: int,
    alpha: float | None,
    seed: int,
) -> Answer:
    from muhat.testing.independence import strength_words
    from muhat.testing.result import format_pvalue

    found = decision(result.pvalue, alpha)
    gaps = result.missing
    dropped = gaps.dropped[0] if gaps.dropped else 0
    rows -= dropped
    x, y, z = (", ".join(side) for side in sides.values())
    known = f" given {z}" if z else ""
    pair = f"{x} and {y}"
    sentence = (
        f"{pair} {'depend on each other' if found else 'show no dependence'}{known}{level(alpha)} "
        f"(p = {format_pvalue(result.pvalue)}, {result.source}). {strength_words(result.effect_size, found)}"
    )
    check = getattr(result, "self_check", None)  # of tests given z
    if check and result.warning:
        sentence += f" {result.warning}"
    if gaps.sentence:
        sentence += f" {gaps.sentence}"
    if result.restriction:
        sentence += f" {result.restriction.sentence}"

    def write(page: Page) -> None:
        facts: list[tuple[str, Any]] = [
            ("statistic", result.statistic),
            ("p-value", format_pvalue(result.pvalue)),
            ("strength, 0 is chance, at most 1", f"{result.effect_size:.2f}"),
            ("rows", rows),
        ]
        if check:
            facts.append(("test", result.how))
        if result.kernels:
            facts[3:3] = [
                ("kernels at once", len(result.kernels)),
                ("kernels that show most", kernel_words(result.kernel)),
            ]
        if check:
            facts.append(("self-check of the regressions", check.words))
        if dropped:
            facts.append(("rows with missing cells, left out", dropped))
        facts_table(page, facts)
        missing_table(page, gaps.shares, ["missing"])
        if effects:
            drivers_table(
                page,
                effects,
                "strength",
                "Each column by itself against all columns of the other side. Each test used "
                f"{effects[0].rows[0]} rows.",
            )

    def figures() -> Any:
        from muhat.report.tests import conditional, independence

        null = "and the statistic beside its distribution if there were no dependence."
        if known:
            yield conditional(result), f"What is left of {pair} once {z} is known, {null}"
        else:
            yield (
                independence(result, effects or None),
                "The pair of columns that shows most, the witness function (blue where pairs occur more "
                f"often than under independence, red where less often), {null}",
            )

    record = {
        "command": "depend",
        "summary": sentence,
        "file": source,
        "rows": rows,
        "dropped_rows": dropped,
        **{option[2:]: side for option, side in sides.items()},
        **test_record(result, alpha, seed),
        **({"trusted": result.trusted, "self_check": check.record} if check else {}),
        "missing": gaps.record,
        "drivers": drivers_record(effects),
    }
    return Answer(
        f"Dependence of {pair}{known}", sentence, write, figures, record, alpha is not None and found
    )


depend.__doc__ = f"{depend.__doc__}\n\n{o.FILES} {o.GAPS}\n\n{o.DECISION}"
