"""``muhat discover``: which columns of a file cause which?"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muhat._words import percent
from muhat.cli import options as o
from muhat.cli.errors import BadUsage, plain_errors
from muhat.cli.outcome import Answer, bad_input, give, working
from muhat.cli.tables import own_columns, pick, prepare, printable, read_table

if TYPE_CHECKING:
    from muhat.cli.page import Page
    from muhat.testing.graph import CausalGraph

CAVEAT = (
    "Arrows hold if no two columns have a common cause that is not a column itself, and if the tests did not "
    "err; a line without direction is one that the data leave open."
)


MARKS = {"causes": "→", "open": "—", "contradictory": "— (contradictory)"}


class Test(StrEnum):
    """The test of conditional independence."""

    __test__ = False

    kci = "kci"
    stacked = "stacked"
    residual = "residual"
    fisher_z = "fisher-z"


def discover(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table.")],
    columns: o.Columns = None,
    drop: o.Drop = None,
    categories: o.Categories = None,
    alpha: Annotated[
        float, typer.Option(help="Level of each test, between 0 and 1: more keeps more edges.")
    ] = 0.05,
    test: Annotated[
        Test,
        typer.Option(
            help="kci: any relation; stacked: stricter, slower; residual: faster; fisher-z: linear relations "
            "alone."
        ),
    ] = Test.kci,
    prewhiten: Annotated[
        list[str] | None,
        typer.Option(
            metavar=o.MANY,
            help=f"Columns, e.g. of time, whose influence on all others is taken out first ({o.NAMES}).",
        ),
    ] = None,
    tiers: Annotated[
        str | None,
        typer.Option(
            metavar="GROUPS", help='Order of time, e.g. "a,b;c": nothing causes a column of an earlier group.'
        ),
    ] = None,
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARROWS", help='Arrows that cannot be, e.g. "a>b" (comma-separated; may be repeated).'
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARROWS", help='Arrows that must be, e.g. "a>b" (comma-separated; may be repeated).'
        ),
    ] = None,
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Repeat on this many halves of the rows, to see which edges stay.")
    ] = 0,
    missing: o.MissingCells = o.Missing.error,
    seed: o.Seed = 0,
    as_json: o.Json = False,
    report: o.ReportPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Which columns of a file cause which? A graph, by the PC algorithm."""
    with plain_errors():
        o.check_alpha(alpha)
        o.check_outputs([data], report=report, plot=plot)
        table = read_table(data)
        used = own_columns(table, columns or [], drop or [])
        whitened = pick(prewhiten or [], used, "--prewhiten")
        taken = pick(categories or [], used, "--categories")
        kept = [name for name in used if name not in whitened]
        knowledge = {
            "forbidden": arrows(forbid or [], kept, "--forbid"),
            "required": arrows(require or [], kept, "--require"),
            "tiers": [pick([tier], kept, "--tiers") for tier in tiers.split(";") if tier.strip()]
            if tiers
            else [],
        }
        (frame,), (dropped,) = prepare([table], used, taken, missing == o.Missing.drop)
        with bad_input(), working("testing") as move:
            from muhat.testing.discover import discover as search

            graph = search(
                frame,
                alpha,
                test.value,
                whitened or None,
                **knowledge,
                bootstrap=bootstrap,
                progress=lambda size, done, total: move(f"pairs, given {size} others", done, total),
                resampling=lambda done, total: move("repeating on halves of the rows", done, total),
                random_state=seed,
            )
        give(
            _answer(graph, table.name, frame.height, dropped, test.value, bootstrap, seed),
            as_json,
            report,
            plot,
        )


def arrows(options: Sequence[str], known: Sequence[str], option: str) -> list[tuple[str, str]]:
    """Pairs (cause, effect) from texts such as ``a>b,c>d``; names may hold commas and ``>`` themselves."""
    out = []
    for text in options:
        for part in [text] if _split(text, known) else text.split(","):
            pair = _split(part, known)
            if pair is None:
                cause, mark, effect = part.partition(">")
                if not mark:
                    raise BadUsage(f'{option} must be arrows such as "a>b", got {printable(part)!r}.')
                for name in (cause, effect):
                    pick([name], known, option)
                pair = printable(cause.strip()), printable(effect.strip())
            out.append(pair)
    return out


def _split(text: str, known: Sequence[str]) -> tuple[str, str] | None:
    for i, letter in enumerate(text):
        if letter == ">":
            cause, effect = printable(text[:i].strip()), printable(text[i + 1 :].strip())
            if cause in known and effect in known:
                return cause, effect
    return None


def _answer(
    graph: CausalGraph, source: str, rows: int, dropped: int, test: str, bootstrap: int, seed: int
) -> Answer:

    directed, undirected = graph.directed, graph.undirected
    count = len(directed) + len(undirected)
    tests = f"{graph.tests} tests at the level {graph.alpha:g}" if graph.tests else f"level {graph.alpha:g}"
    edges = "1 edge" if count == 1 else f"{count} edges"
    sentence = (
        f"{len(graph.names)} columns of {source} ({rows} rows) are joined by {edges}, "
        f"{len(directed)} of them with a direction ({test}, {tests})."
        if count
        else f"No two of the {len(graph.names)} columns of {source} ({rows} rows) show a dependence "
        f"({test}, {tests}); this does not show that they are independent."
    )
    if dropped:
        sentence += f" {dropped} rows with missing cells were left out."
    doubted = {frozenset(pair) for pair in graph.doubts}
    if doubted:
        said = "1 edge rests" if len(doubted) == 1 else f"{len(doubted)} edges rest"
        sentence += f" {said} on a test that is not to be trusted, as its regressions err in the same places."
    torn = {frozenset(pair) for pair in graph.conflicts}
    edges = []
    for (a, b), kind in [*((p, "causes") for p in directed), *((p, "open") for p in undirected)]:
        if kind == "open" and frozenset((a, b)) in torn:
            kind = "contradictory"
        often = graph.frequencies[a, b] if graph.frequencies is not None else None
        edges.append(
            {
                "from": a,
                "to": b,
                "kind": kind,
                "doubtful": frozenset((a, b)) in doubted,
                "pvalue": graph.pvalues.get((a, b)) if (a, b) in graph.pvalues else None,
                "adjacent_frequency": often.adjacent if often else None,
                "directed_frequency": often.directed if often and kind == "causes" else None,
            }
        )

    def write(page: Page) -> None:
        if edges:
            header = ["", "", "", "largest p"] + (["in resamples", "this way"] if bootstrap else [])
            page.table([_row(edge, bootstrap) for edge in edges], header, "The edges.")
        joined = {name for pair in (*directed, *undirected) for name in pair}
        alone = [str(name) for name in graph.names if name not in joined]
        if alone:
            page.say(f"Without an edge: {', '.join(alone)}.")
        if edges:
            page.say(CAVEAT)

    record = {
        "command": "discover",
        "summary": sentence,
        "file": source,
        "rows": rows,
        "dropped_rows": dropped,
        "columns": list(graph.names),
        "test": test,
        "alpha": graph.alpha,
        "tests": graph.tests,
        "bootstrap": bootstrap,
        "seed": seed,
        "edges": edges,
        "separating_sets": [
            {"pair": list(pair), "given": list(graph.separating_sets[pair])} for pair in graph.separating_sets
        ],
    }
    return Answer(
        f"A causal graph of {source}",
        sentence,
        write,
        lambda: [
            (graph.plot(), "Arrows from cause to effect; dashed where the tests contradict each other.")
        ],
        record,
    )


def _row(edge: dict[str, Any], bootstrap: int) -> list[Any]:
    from muhat.testing.result import format_pvalue

    p = None if edge["pvalue"] is None else format_pvalue(edge["pvalue"])
    row = [edge["from"], MARKS[edge["kind"]], edge["to"], p]
    if bootstrap:
        shares = (edge["adjacent_frequency"], edge["directed_frequency"])
        row += [None if share is None else percent(share) for share in shares]
    return row


discover.__doc__ = f"{discover.__doc__}\n\n{o.FILES} {o.GAPS}\n\n" + (
    "Exit status: 0; 2 if the input cannot be used, 1 if the computation failed, 130 if interrupted."
)
