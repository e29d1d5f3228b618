"""``muhat direction``: which of two columns of a file is the cause?"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muhat.cli import options as o
from muhat.cli.errors import BadUsage, plain_errors
from muhat.cli.outcome import Answer, bad_input, give, working
from muhat.cli.tables import own_columns, pick, prepare, read_table

if TYPE_CHECKING:
    from muhat.cli.page import Page

CAVEAT = (
    "It is taken for granted that one of the two causes the other. Of measured pairs of known direction some "
    "four in five come out right, so trust no direction on this alone. The column with coarser values is "
    "favoured as the cause: if one was rounded, or has codes such as -999, mend this first, or use "
    "--calibration artificial, which is for simulated data, too."
)


class Calibration(StrEnum):
    measured = "measured"
    artificial = "artificial"


def direction(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table.")],
    x: Annotated[
        str | None, typer.Option("--x", metavar="NAME", help="One column; the first if left out.")
    ] = None,
    y: Annotated[
        str | None, typer.Option("--y", metavar="NAME", help="The other; the second if left out.")
    ] = None,
    level: Annotated[
        float, typer.Option(help="Probability from which on a direction is named, between 0.5 and 1.")
    ] = 0.9,
    calibration: Annotated[
        Calibration, typer.Option(help="The kind of pairs whose probabilities are meant.")
    ] = Calibration.measured,
    missing: o.MissingCells = o.Missing.error,
    as_json: o.Json = False,
    report: o.ReportPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Which of two columns of a file is the cause, and which the effect?"""
    with plain_errors():
        if not 0.5 < level < 1:
            raise BadUsage(f"--level must lie between 0.5 and 1, got {level:g}: use e.g. 0.9.")
        o.check_outputs([data], report=report, plot=plot)
        table = read_table(data)
        used = _two(table.columns, x, y)
        wanted, leave = own_columns(table, used, []), missing == o.Missing.drop
        (frame,), (dropped,) = prepare([table], wanted, [], leave, droppable=False)
        text = [name for name in used if not frame[name].dtype.is_numeric()]
        if text:
            raise BadUsage(f"column {text[0]!r} of {table.name!r} holds categories: give columns of numbers.")
        a, b = (frame[name].to_numpy() for name in used)
        with bad_input(), working("reading the direction"):
            from muhat.models.cause_effect import CauseEffect, as_pair

            as_pair(a, b, (f"column {used[0]!r}", f"column {used[1]!r}"))
            odds = CauseEffect(calibration=calibration.value).decision_function(a, b)
        give(_answer(odds, used, (a, b), table.name, dropped, level), as_json, report, plot)


def _two(columns: list[str], x: str | None, y: str | None) -> list[str]:
    """The two columns asked for; of a table of two, those."""
    if x is None and y is None:
        if len(columns) != 2:
            raise BadUsage(f"the table has {len(columns)} columns: say which two with --x and --y.")
        return columns
    if x is None or y is None:
        raise BadUsage("give both --x and --y, or neither for a table of two columns.")
    used = [*pick([x], columns, "--x"), *pick([y], columns, "--y")]
    if len(used) != 2 or used[0] == used[1]:
        raise BadUsage(f"--x and --y must name two columns, one each, got {', '.join(map(repr, used))}.")
    return used


def _answer(
    odds: float,
    used: list[str],
    pair: tuple[Any, Any],
    source: str,
    dropped: int,
    level: float,
) -> Answer:
    from scipy.special import expit

    p = float(expit(odds))
    decided = max(p, 1 - p) >= level
    cause, effect = used if odds >= 0 else used[::-1]
    sure = f"{max(p, 1 - p):.2f}" if 0.005 < p < 0.995 else "above 0.99"
    rows = len(pair[0])
    sentence = (
        f"{cause} causes {effect} rather than the reverse (probability {sure}, {rows} rows)."
        if decided
        else f"The data leave the direction between {used[0]} and {used[1]} open at the level {level:g}: "
        f"{cause} → {effect} has probability {sure} ({rows} rows)."
    )
    if dropped:
        sentence += f" {dropped} rows with missing cells were left out."

    def write(page: Page) -> None:
        facts = [
            ("cause, if a direction must be named", cause),
            ("logarithm of the odds", f"{odds:.3f}"),
            (f"probability that {used[0]} is the cause", f"{p:.3f}"),
            ("level", f"{level:g}"),
        ]
        page.table(facts, ["", "value"], "The direction.")
        page.say(CAVEAT)

    def figures() -> Any:
        from muhat.report.plots import BLUE, new_figure

        figure, axes = new_figure(1, 2)
        for ax, (i, j) in zip(axes[0], ((0, 1), (1, 0)), strict=True):
            ax.plot(pair[i], pair[j], ".", color=BLUE, markersize=3, alpha=0.5, rasterized=True)
            ax.set(xlabel=used[i], ylabel=used[j])
        yield figure, "The pair, seen from either side."

    record = {
        "command": "direction",
        "summary": sentence,
        "file": source,
        "rows": rows,
        "dropped_rows": dropped,
        "x": used[0],
        "y": used[1],
        "log_odds": odds,
        "probability": p,
        "level": level,
        "cause": cause if decided else None,
        "effect": effect if decided else None,
    }
    return Answer(f"Direction between {used[0]} and {used[1]}", sentence, write, figures, record)


direction.__doc__ = f"{direction.__doc__}\n\n{o.FILES} {o.GAPS}\n\n" + (
    "Exit status: 0; 2 if the input cannot be used, 1 if the computation failed, 130 if interrupted."
)
