"""``muhat regress``: a number or a class of every group of rows, from how its rows are distributed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muhat._words import percent
from muhat.cli import options as o
from muhat.cli.errors import BadUsage, plain_errors, writing
from muhat.cli.outcome import DRIVERS, Answer, bad_input, give, working
from muhat.cli.tables import own_columns, pick, prepare, read_table

if TYPE_CHECKING:
    import polars as pl

    from muhat.cli.page import Page

FOLDS = 5
FEWEST = 10  # groups
# What is said of a group, beside its name.
SAID = ("rows", "predicted", "probability", "sd", "low", "high", "truth")
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Predicted:
    """What is said of every group.

    Attributes:
        groups: their names.
        rows: how many rows each has.
        value: predicted number, or most probable class.
        std: of the number; None for classes.
        probability: of the class; None for numbers.
        truth: what the file says, or None for new groups.
    """

    groups: list[str]
    rows: Any
    value: Any
    std: Any
    probability: Any
    truth: Any = None


def regress(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table with one row a point.")],
    group: Annotated[str, typer.Option(metavar="NAME", help="The column that says which group a row is in.")],
    target: Annotated[
        str, typer.Option(metavar="NAME", help="The column to predict, the same in all rows of a group.")
    ],
    at: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table of new groups to predict.", show_default=False),
    ] = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A column that says how much a row counts in its group."),
    ] = None,
    level: o.Level = 0.9,
    missing: o.MissingCells = o.Missing.error,
    seed: o.Seed = 0,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="Also write the predictions, as CSV.")
    ] = None,
    as_json: o.Json = False,
    report: o.ReportPath = None,
    plot: o.PlotPath = None,
) -> None:
    """What number or class belongs to a group of rows, by how its rows are distributed?"""
    with plain_errors():
        o.check_level(level)
        inputs = [data, *([at] if at else [])]
        o.check_outputs(inputs, predictions=predictions, report=report, plot=plot)
        table = read_table(data)
        (by,), (what,) = pick([group], table.columns, "--group"), pick([target], table.columns, "--target")
        if by in SAID:
            raise BadUsage(f"--group {by!r} is a column of what is written of each group: rename it.")
        named = pick([weights], table.columns, "--weights") if weights else []
        taken = [by, what, *named]
        if len(set(taken)) < len(taken):
            raise BadUsage("--group, --target and --weights must be different columns.")
        x = [name for name in own_columns(table, columns or [], drop or []) if name not in taken]
        if not x:
            raise BadUsage(f"no column is left besides {', '.join(map(repr, taken))}: groups need columns.")
        leave = missing == o.Missing.drop
        (frame,), (dropped,) = prepare([table], [by, what, *named, *x], [by], leave)
        _check_numbers(frame, [*named, *x], table.name)
        new = None
        if at is not None:
            other = read_table(at)
            absent = [name for name in [by, *named, *x] if name not in other.columns]
            if absent:
                raise BadUsage(
                    f"--at {other.name!r} has no column {absent[0]!r}: it needs those of {data.name!r}."
                )
            (new,), _ = prepare([other], [by, *named, *x], [by], leave)
            _check_numbers(new, [*named, *x], other.name)
        with bad_input(), working("learning") as moved:
            model, held, fresh = _find(frame, new, by, what, x, named, seed, moved)
        _write(predictions, held if fresh is None else fresh, by, level)
        give(
            _answer(model, held, fresh, frame.height, dropped, table.name, by, what, x, level, seed),
            as_json,
            report,
            plot,
        )


def _check_numbers(frame: pl.DataFrame, columns: list[str], name: str) -> None:
    import polars as pl

    for column in columns:
        if frame[column].dtype == pl.String:
            raise BadUsage(
                f"column {column!r} of {name!r} holds categories: only numbers will do. Leave it "
                "out with --drop."
            )


# -- what ----------------------------------------------------------------------------------------


def _find(
    frame: pl.DataFrame,
    new: pl.DataFrame | None,
    by: str,
    what: str,
    x: list[str],
    named: list[str],
    seed: int,
    moved: Progress,
) -> tuple[Any, Predicted, Predicted | None]:
    import numpy as np
    import polars as pl

    from muhat._bags import Bags
    from muhat.models.distribution_classifier import DistributionClassifier
    from muhat.models.distribution_regressor import DistributionRegressor

    weights = named[0] if named else None
    bags, y = Bags.from_table(frame, by, x, weights), Bags.targets(frame, by, what)
    if len(bags) < FEWEST:
        raise BadUsage(f"there are {len(bags)} groups in {by!r}: at least {FEWEST} are needed to learn.")
    kind = DistributionClassifier if frame[what].dtype == pl.String else DistributionRegressor
    parts: list[Predicted] = []
    folds = [fold for fold in _folds(y, kind is DistributionClassifier, seed) if len(fold)]
    for i, fold in enumerate(folds):
        moved("predicting groups left out", i, len(folds) + 1)
        rest = np.setdiff1d(np.arange(len(y)), fold)
        part = kind(random_state=seed).fit(bags.select(rest), y[rest])
        parts.append(_predicted(part, bags.select(fold), y[fold]))
    moved("learning from all groups", len(folds), len(folds) + 1)
    model = kind(random_state=seed).fit(bags, y)
    fresh = None if new is None else _predicted(model, Bags.from_table(new, by, x, weights), None)
    return model, _joined(parts, np.argsort(np.concatenate(folds))), fresh


def _folds(y: Any, classes: bool, seed: int) -> list[Any]:
    import numpy as np

    order = np.random.default_rng(seed).permutation(len(y))
    if classes:  # classes in turn, so that each is in every fold
        order = order[np.argsort(y[order], kind="stable")]
    return [order[i::FOLDS] for i in range(FOLDS)]


def _predicted(model: Any, bags: Any, truth: Any) -> Predicted:
    names = [str(label) for label in bags.labels]
    if hasattr(model, "predict_proba"):
        P = model.predict_proba(bags)
        return Predicted(names, bags.sizes, model.classes_[P.argmax(axis=1)], None, P.max(axis=1), truth)
    mean, std = model.predict(bags, return_std=True)
    return Predicted(names, bags.sizes, mean, std, None, truth)


def _joined(parts: list[Predicted], order: Any) -> Predicted:
    import numpy as np

    def put(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)[order]

    names = [group for part in parts for group in part.groups]
    return Predicted(
        [names[i] for i in order], put("rows"), put("value"), put("std"), put("probability"), put("truth")
    )


# -- how it is said ------------------------------------------------------------------------------


def _rows(found: Predicted, by: str, level: float) -> list[dict[str, Any]]:
    """One record a group."""
    from scipy.special import ndtri

    out = []
    for i, name in enumerate(found.groups):
        row: dict[str, Any] = {by: name, "rows": int(found.rows[i])}
        if found.std is None:
            row |= {"predicted": str(found.value[i]), "probability": float(found.probability[i])}
        else:
            reach = float(ndtri((1 + level) / 2) * found.std[i])
            value = float(found.value[i])
            row |= {
                "predicted": value,
                "sd": float(found.std[i]),
                "low": value - reach,
                "high": value + reach,
            }
        if found.truth is not None:
            row["truth"] = str(found.truth[i]) if found.std is None else float(found.truth[i])
        out.append(row)
    return out


def _write(path: Path | None, found: Predicted, by: str, level: float) -> None:
    if path is None:
        return
    import polars as pl

    from muhat._files import whole_file

    with writing(path), whole_file(path) as draft:
        pl.DataFrame(_rows(found, by, level)).write_csv(draft)


def _quality(held: Predicted, level: float) -> dict[str, float]:
    """How good predictions of groups left out are."""
    import numpy as np
    from scipy.special import ndtri

    if held.std is None:
        _, counts = np.unique(held.truth, return_counts=True)
        return {
            "accuracy": float(np.mean(held.value == held.truth)),
            "most frequent class": float(counts.max() / counts.sum()),
        }
    error = held.value - held.truth
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "r2": float(1 - np.mean(error**2) / np.var(held.truth)),
        "coverage": float(np.mean(np.abs(error) < ndtri((1 + level) / 2) * held.std)),
    }


def _looks_at(model: Any) -> dict[str, float]:
    """Shares of place and of the scales of shape in what tells groups apart."""
    relevance = getattr(model.selection_, "relevance", None)
    if relevance is None or not relevance.sum() > 0:
        return {}
    shares = relevance / relevance.sum()
    names = ["place", *(f"shape, lengthscale ×{4 / 2**j:g}" for j in range(len(shares) - 1))]
    return {name: float(share) for name, share in zip(names, shares, strict=True)}


def _answer(
    model: Any,
    held: Predicted,
    fresh: Predicted | None,
    rows: int,
    dropped: int,
    source: str,
    by: str,
    what: str,
    x: list[str],
    level: float,
    seed: int,
) -> Answer:
    quality, looks = _quality(held, level), _looks_at(model)
    groups = len(held.groups)
    if held.std is None:
        told = (
            f"{percent(quality['accuracy'])} of groups left out get the right {what} from the distribution "
            f"of {', '.join(x)}; the most frequent one would be right for "
            f"{percent(quality['most frequent class'])}."
        )
    else:
        told = (
            f"The distribution of {', '.join(x)} in a group explains {percent(max(quality['r2'], 0))} of the "
            f"variance of {what} in groups left out, with a typical error of {quality['rmse']:.3g}; "
            f"{level:.0%} intervals hold {percent(quality['coverage'])} of them."
        )
    sentence = (
        f"{told} Learned from {groups} groups of {int(held.rows.min())} to {int(held.rows.max())} rows."
    )
    shown = held if fresh is None else fresh

    def write(page: Page) -> None:
        records = _rows(shown, by, level)
        caption = f"{'Groups left out in learning' if fresh is None else 'New groups'}"
        if held.std is not None:
            caption += f", with {level:.0%} intervals"
        if len(records) > DRIVERS:
            caption += f"; the first {DRIVERS} of {len(records)}, --predictions writes all"
        page.table([tuple(r.values()) for r in records[:DRIVERS]], list(records[0]), f"{caption}.")
        if looks:
            page.table(
                [(name, percent(share)) for name, share in looks.items() if share >= 0.005],
                ["what tells groups apart", "share"],
                "Place is the mean of a group; lengthscales are multiples of the median distance in groups.",
            )
        if dropped:
            page.say(f"{dropped} rows with missing cells were left out.")

    def figures() -> Any:
        from muhat.report.bags import predictions as draw

        yield draw(held, what, level), "Groups left out in learning: what was predicted, and what is so."

    record = {
        "command": "regress",
        "summary": sentence,
        "file": source,
        "rows": rows,
        "dropped_rows": dropped,
        "group": by,
        "target": what,
        "columns": x,
        "groups": groups,
        "level": level,
        "seed": seed,
        "held_out": quality,
        "looks_at": looks,
        "predictions": _rows(shown, by, level),
    }
    return Answer(f"{what} of groups of rows", sentence, write, figures, record)


_STATUS = "Exit status: 0; 2 if the input cannot be used, 1 if the computation failed, 130 if interrupted."
regress.__doc__ = f"{regress.__doc__}\n\n{o.FILES} {o.GAPS}\n\n{_STATUS}"
