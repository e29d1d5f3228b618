"""``muhat density``: how columns of a file are distributed, given the values of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muhat._words import percent
from muhat.cli import options as o
from muhat.cli.errors import BadUsage, plain_errors
from muhat.cli.outcome import Answer, bad_input, give, kernel_words, working
from muhat.cli.points import NAMED, Point, point_names, points_of
from muhat.cli.tables import pick, prepare, read_table

if TYPE_CHECKING:
    import polars as pl

    from muhat.cli.page import Page

CALIBRATED = 200  # rows from which on intervals are calibrated
SHARE = 0.25  # of the rows that calibration takes
EXACT = 4000  # rows up to which the Gram matrix is exact
LANDMARKS = 1000  # of more rows
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
FEW = 12  # different values of y, or fewer, that look like classes or counts


@dataclass(frozen=True)
class Found:
    """What is known of y at every point, as arrays over points and columns of y.

    Attributes:
        density: the batch, or the only one.
        mean, sd: (q, k).
        quantiles: at LEVELS, (q, m, k).
        intervals: (q, k, 2).
        modes: of each density on the line, else None.
        familiarity: of each point, or None without --x.
        model: the fitted model, or None without --x.
    """

    density: Any
    mean: Any
    sd: Any
    quantiles: Any
    intervals: Any
    modes: list[list[float]] | None
    familiarity: list[float] | None
    model: Any

    @property
    def atoms(self) -> Any:
        """The values of an output that takes few, or None."""
        return getattr(self.density, "values", None)

    def probabilities(self, i: int) -> Any:
        """Of the atoms, at one point."""
        return (self.density[i] if self.density.is_batch else self.density).probabilities

    def chance(self, i: int, j: int) -> float | None:
        """Of the least value of an interval at one point, where values are few."""
        if self.atoms is None:
            return None
        return float(self.probabilities(i)[self.atoms == self.intervals[i, j, 0]].sum())


def density(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table.")],
    y: Annotated[list[str], typer.Option("--y", metavar=o.MANY, help=f"Columns of numbers ({o.NAMES}).")],
    x: Annotated[
        list[str] | None, typer.Option("--x", metavar=o.MANY, help=f"Columns that are given ({o.NAMES}).")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUES",
            help='Values of x, as in "age=40,sex=f"; may be repeated. Columns left out are at their median, '
            "or most frequent category. Default: medians and quartiles.",
            show_default=False,
        ),
    ] = None,
    level: o.Level = 0.9,
    categories: o.Categories = None,
    missing: o.MissingCells = o.Missing.error,
    seed: o.Seed = 0,
    as_json: o.Json = False,
    report: o.ReportPath = None,
    plot: o.PlotPath = None,
) -> None:
    """How are columns of a file distributed, given the values of others?"""
    with plain_errors():
        o.check_level(level)
        if at and not x:
            raise BadUsage("--at gives values of the columns in --x: name these.")
        o.check_outputs([data], report=report, plot=plot)
        table = read_table(data)
        outputs = pick(y, table.columns, "--y")
        inputs = pick(x or [], table.columns, "--x")
        if both := [name for name in outputs if name in inputs]:
            raise BadUsage(f"{', '.join(map(repr, both))} is in both --x and --y: put it in one.")
        taken = pick(categories or [], [*outputs, *inputs], "--categories")
        leave = missing == o.Missing.drop
        (frame,), (dropped,) = prepare([table], [*outputs, *inputs], taken, leave, droppable=False)
        _check_outputs(frame, outputs)
        X = frame.select(inputs)
        points = points_of(X, at or []) if inputs else [{}]
        with bad_input(), working("finding densities"):
            found = _find(frame.select(outputs), X, points, level, seed)
        give(
            _answer(found, frame, outputs, inputs, points, table.name, dropped, at, level, seed),
            as_json,
            report,
            plot,
        )


def _check_outputs(frame: pl.DataFrame, outputs: Sequence[str]) -> None:
    """Refuse what has no density, by the name of its column."""
    import polars as pl

    for name in outputs:
        if frame[name].dtype == pl.String:
            raise BadUsage(
                f"--y {name!r} holds categories, which have no density: leave it out, or name it in --x."
            )
        if frame[name].n_unique() == 1:
            raise BadUsage(f"--y {name!r} is the same in every row, so it has no density: leave it out.")


# -- what ----------------------------------------------------------------------------------------


def _find(Y: pl.DataFrame, X: pl.DataFrame, points: list[Point], level: float, seed: int) -> Found:
    import numpy as np
    import polars as pl

    from muhat.report.density import densities, modes

    rows, k = Y.shape
    if not X.columns:
        from muhat.embedding import embed

        if rows < 5:
            raise BadUsage(f"{rows} rows are too few for a density: give at least 5.")
        from muhat.embedding import Atoms
        from muhat.learning.scatter import find_atoms

        values = Y[:, 0].to_numpy().astype(float)
        atoms = find_atoms(values) if k == 1 else None
        if atoms is None:
            model, given = None, embed(Y).density()
        else:
            model, given = None, Atoms(atoms, (values == atoms[:, None]).mean(axis=1))
        intervals, familiarity = given.interval(level)[None], None
    else:
        from muhat.gram import Nystrom
        from muhat.models.conditional_density import ConditionalDensity

        model = ConditionalDensity(
            calibration=SHARE if _calibrates(rows, level) else None,
            representation=Nystrom(LANDMARKS) if rows > EXACT else None,
            random_state=seed,
        ).fit(X, Y)
        where = pl.DataFrame(points, schema=X.schema)
        given = model.density(where)
        intervals, familiarity = model.interval(where, level), np.asarray(given.familiarity).tolist()
    one_by_one = densities(given)
    return Found(
        given,
        np.stack([part.mean() for part in one_by_one]),
        np.sqrt(np.stack([part.var() for part in one_by_one])),
        np.stack([part.quantile(list(LEVELS)) for part in one_by_one]),
        intervals,
        [modes(part).tolist() for part in one_by_one] if k == 1 else None,
        familiarity,
        model,
    )


def _calibrates(rows: int, level: float) -> bool:
    """Whether there are rows to spare, and enough of them for the level."""
    import math

    held = math.ceil(SHARE * rows)
    return rows >= CALIBRATED and math.ceil((held + 1) * level) <= held


# -- in words ------------------------------------------------------------------------------------


def _answer(
    found: Found,
    frame: pl.DataFrame,
    outputs: list[str],
    inputs: list[str],
    points: list[Point],
    source: str,
    dropped: int,
    at: list[str] | None,
    level: float,
    seed: int,
) -> Answer:
    import numpy as np

    rows, names = frame.height, point_names(points, inputs)
    title = f"Density of {', '.join(outputs)}" + (f" given {', '.join(inputs)}" if inputs else "")
    far = _far(found.familiarity)
    notes = _notes(found, frame, outputs, points, inputs, at, level, names, far)
    sentence = _sentence(found, outputs, names, level, bool(inputs), far)

    def write(page: Page) -> None:
        for note in notes:
            page.say(note)
        if len(inputs) > NAMED:
            page.table(
                [(n, *p.values()) for n, p in zip(names, points, strict=True)], ["", *inputs], "The points."
            )
        several = len(outputs) > 1
        head = ["", *(["column"] if several else [])]
        places = [(i, j) for i in range(len(points)) for j in range(len(outputs))]
        labels = {(i, j): (names[i], *([outputs[j]] if several else [])) for i, j in places}
        page.table(
            [
                (
                    *labels[i, j],
                    found.mean[i, j],
                    found.sd[i, j],
                    _ends(found.intervals[i, j]),
                    *([len(found.modes[i])] if found.modes else []),
                    *([_familiar(found.familiarity[i], i in far)] if found.familiarity else []),
                )
                for i, j in places
            ],
            [
                *head,
                "mean",
                "sd",
                f"{level:.4g} interval",
                *(["modes"] if found.modes else []),
                *(["familiarity"] if found.familiarity else []),
            ],
            "What to expect."
            + (" Familiarity: 1 among the rows of the data, 0 far from all of them." if inputs else ""),
        )
        page.table(
            [(*labels[i, j], *found.quantiles[i, :, j]) for i, j in places],
            [*head, *(f"{100 * q:.0f}%" for q in LEVELS)],
            "Quantiles.",
        )
        if found.atoms is not None:
            page.table(
                [(name, *map(_percent, found.probabilities(i))) for i, name in enumerate(names)],
                ["", *(f"{v:.6g}" for v in found.atoms)],
                f"Probability of each value of {outputs[0]}.",
            )
        page.table(_facts(found, rows, dropped), ["", "value"], "How it was found.")

    def figures() -> Any:
        from muhat.report.density import DRAWN
        from muhat.report.density import density as draw

        atoms = found.atoms is not None
        more = f" The first {DRAWN} of {len(points)} points." if len(points) > DRAWN else ""
        shown = {
            1: ("The probability of each value" if atoms else "The density")
            + (" at each point, with its interval and mean." if inputs else "."),
            2: "The density as contours.",
        }
        caption = shown.get(len(outputs), "The density of each column by itself.") + more
        yield draw(found.density, names, outputs, level, found.intervals), caption
        if len(inputs) == len(outputs) == 1 and not isinstance(points[0][inputs[0]], str):
            yield _fan(found.model, frame, inputs[0], outputs[0], level)

    def numbers(values: Any) -> Any:
        """For JSON, where infinity is null."""
        return [None if not np.isfinite(v) else float(v) for v in np.ravel(values)]

    record = {
        "command": "density",
        "summary": sentence,
        "notes": notes,
        "file": source,
        "rows": rows,
        "dropped_rows": dropped,
        "x": inputs,
        "y": outputs,
        "level": level,
        "calibrated": found.model is not None and found.model.calibration_ is not None,
        "points": [
            {
                "at": point,
                "familiarity": found.familiarity[i] if found.familiarity else None,
                "far": i in far,
                "modes": found.modes[i] if found.modes else None,
                "probabilities": _probabilities(found, i),
                "columns": [
                    {
                        "column": name,
                        "mean": float(found.mean[i, j]),
                        "sd": float(found.sd[i, j]),
                        "interval": numbers(found.intervals[i, j]),
                        "quantiles": dict(
                            zip(map(str, LEVELS), numbers(found.quantiles[i, :, j]), strict=True)
                        ),
                    }
                    for j, name in enumerate(outputs)
                ],
            }
            for i, point in enumerate(points)
        ],
        "seed": seed,
    }
    return Answer(title, sentence, write, figures, record)


def _probabilities(found: Found, i: int) -> dict[str, float] | None:
    """Of the values of an output that takes few, at one point."""
    if found.atoms is None:
        return None
    return {f"{v:.12g}": float(p) for v, p in zip(found.atoms, found.probabilities(i), strict=True)}


def _percent(p: float) -> str:
    return percent(p) if p >= 0.01 else "<1%"


def _far(familiarity: list[float] | None) -> list[int]:
    from muhat.embedding.familiar import UNLIKE

    return [i for i, f in enumerate(familiarity or []) if f < UNLIKE]


def _familiar(value: float, far: bool) -> str:
    return f"{value:.2f}" + (", far" if far else "")


def _ends(interval: Any) -> str:
    from muhat.report.cells import ends

    return ends(*map(float, interval))


def _sentence(
    found: Found, outputs: list[str], names: list[str], level: float, given: bool, far: list[int]
) -> str:
    """The answer at the first three points."""
    from muhat.report.cells import cell, where

    parts = []
    for i, name in enumerate(names[:3]):
        several = ""
        if found.modes and len(found.modes[i]) > 1:
            modes = sorted(found.modes[i])
            several = f"; it is most likely near {', '.join(map(cell, modes[:-1]))} or {cell(modes[-1])}"
        what = ", and ".join(
            f"{column} is {cell(float(found.mean[i, j]))} on average and "
            f"{where(low, high, level, found.chance(i, j))}{several}"
            for j, (column, (low, high)) in enumerate(
                zip(outputs[:3], found.intervals[i].tolist(), strict=False)
            )
        )
        start = f"At {name}" if given else "Over all rows"
        parts.append(f"{start}, {what}" + (" (a guess: far from every row)" if i in far else ""))
    more = f" The tables have all {len(names)} points." if len(names) > 3 else ""
    return ". ".join(parts) + f".{more}"


def _notes(
    found: Found,
    frame: pl.DataFrame,
    outputs: list[str],
    points: list[Point],
    inputs: list[str],
    at: list[str] | None,
    level: float,
    names: list[str],
    far: list[int],
) -> list[str]:
    """What a reader must know to trust the numbers, or not to."""
    out = []
    if inputs and not at:
        quartiles = (
            "quartiles and median"
            if len(inputs) == 1
            else "median, and at the quartiles of each column with the others at theirs"
        )
        out.append(f"No --at was given: x is at its {quartiles} (categories: the most frequent).")
    if far:
        listed = "; ".join(names[i] for i in far[:3]) + ("; …" if len(far) > 3 else "")
        out.append(
            f"Far from every row of the data: {listed}. Of what {', '.join(outputs)} may be there they say "
            "nothing, and the answer is no more than a guess."
        )
    if inputs and found.model.calibration_ is not None:
        held = len(found.model.calibration_)
        out.append(
            f"The intervals are calibrated on {held} rows that were left out of the fit: on average over new "
            f"rows like these, a column lies in its interval with probability {level:g} or more, whatever "
            "the distribution. The quantiles are those of the density, as it is."
        )
    elif inputs and frame.height >= CALIBRATED:
        out.append(
            f"The intervals are those of the density, not calibrated: {frame.height} rows are too few for "
            f"level {level:g}."
        )
    elif inputs:
        out.append(
            f"The intervals are those of the density, not calibrated; with {CALIBRATED} rows or more they "
            "would be, on rows left out."
        )
    atoms = found.atoms
    if atoms is not None:
        out.append(
            f"{outputs[0]} takes only {len(atoms)} different values: each of them has a probability, and "
            "there is no density between them."
        )
    for name in outputs:
        values = frame[name].n_unique()
        if atoms is None and values <= FEW and frame.height > 3 * values:
            out.append(f"{name} takes only {values} different values: a density between them is not meant.")
    return out


def _facts(found: Found, rows: int, dropped: int) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = [("rows", rows)]
    if dropped:
        facts.append(("rows with missing cells, left out", dropped))
    model = found.model
    if model is None and found.atoms is not None:
        return [*facts, ("values of y", len(found.atoms))]
    if model is None:
        return [*facts, ("kernel", kernel_words(found.density.kernel)), ("regulariser", found.density.reg)]
    if model.calibration_ is not None:
        facts.append(("of these for calibration", len(model.calibration_)))
    landmarks = getattr(model.representation_, "p", None)
    if landmarks is not None:
        facts.append(("landmarks that stand for the rows", landmarks))
    if model.atoms_ is not None:
        return [
            *facts,
            ("values of y", len(model.atoms_)),
            ("kernel on x", kernel_words(model.kernel_x_)),
            ("regulariser on x", model.reg_x_),
        ]
    facts += [
        ("kernel on x", kernel_words(model.kernel_x_)),
        ("kernel on y", kernel_words(model.kernel_y_)),
        ("regulariser on x", model.reg_x_),
        ("regulariser on y", model.reg_y_),
        ("density of", _taken(model.standard_)),
    ]
    if model.selection_ is not None and model.standard_ is None:
        facts.append(("log density of a row, leave-one-out", model.selection_.score))
    return facts


def _taken(standard: Any) -> str:
    """What the operator was applied to."""
    if standard is None:
        return "y itself"
    return "residuals of y" + ("" if standard.scale is None else ", in units of their spread")


def _fan(model: Any, frame: pl.DataFrame, x: str, y: str, level: float) -> tuple[Any, str]:
    """Intervals of y along x, over the data."""
    import numpy as np
    import polars as pl

    from muhat.report.plots import quantile_fan

    values = frame[x].to_numpy()
    low, high = np.quantile(values, [0.005, 0.995])
    grid = np.linspace(low, high, 100)
    where = pl.DataFrame({x: grid})
    outer = model.interval(where, level)[:, 0]
    inner = model.density(where).quantile([0.25, 0.75])[..., 0]
    bands = np.column_stack([outer[:, 0], inner, outer[:, 1]])
    tails = (1 - level) / 2
    figure = quantile_fan(
        grid,
        bands,
        [tails, 0.25, 0.75, 1 - tails],
        (values, frame[y].to_numpy()),
        mean=model.predict(where)[:, 0],
        xlabel=x,
        ylabel=y,
    )
    return (
        figure,
        f"{y} along {x}: the interval of level {level:g}, the middle half, and the mean, over the data.",
    )


_STATUS = "Exit status: 0; 2 if the input cannot be used, 1 if the computation failed, 130 if interrupted."
density.__doc__ = f"{density.__doc__}\n\n{o.FILES} {o.GAPS}\n\n{_STATUS}"
