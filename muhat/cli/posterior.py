"""``muhat posterior``: which parameters of a simulator an observation speaks for."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muhat.cli import options as o
from muhat.cli.errors import BadUsage, plain_errors, writing
from muhat.cli.outcome import Answer, bad_input, give, working
from muhat.cli.points import Point, parse_at
from muhat.cli.tables import pick, prepare, read_table

if TYPE_CHECKING:
    import polars as pl

    from muhat.cli.page import Page

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
FEW = 20.0  # effective points below which a posterior is a guess


@dataclass(frozen=True)
class Found:
    """What is known of θ, as arrays over its columns.

    Attributes:
        model: fitted.
        embedding: the posterior.
        mean, sd, prior_mean, prior_sd: (p,).
        quantiles: at LEVELS, (k, p).
        interval: (2, p).
        size: effective number of points.
        warned: what the library had to say.
        matches: simulations that equal the observation.
    """

    model: Any
    embedding: Any
    mean: Any
    sd: Any
    prior_mean: Any
    prior_sd: Any
    quantiles: Any
    interval: Any
    size: float
    warned: list[str]
    matches: float

    def chance(self, j: int, value: float) -> float:
        """The probability of one value of a parameter."""
        from muhat.simulation.draws import weighted

        spread = weighted(self.embedding)
        return float(spread.weights[spread.points[:, j] == value].sum())

    @property
    def method(self) -> str:
        return "simulations equal to the observation" if self.alone else self.model.method_

    @property
    def alone(self) -> bool:
        """Whether the posterior is that of simulations equal to the observation."""
        from muhat.models.likelihood_free import ENOUGH_MATCHES

        return self.matches >= ENOUGH_MATCHES


def posterior(
    simulations: Annotated[
        Path, typer.Argument(metavar="SIMULATIONS", help="A table, one row a simulation.")
    ],
    theta: Annotated[
        list[str], typer.Option("--theta", metavar=o.MANY, help=f"Columns of parameters ({o.NAMES}).")
    ],
    x: Annotated[
        list[str], typer.Option("--x", metavar=o.MANY, help=f"Columns of simulated data ({o.NAMES}).")
    ],
    observed: Annotated[
        str,
        typer.Option(
            metavar="VALUES", help='What was observed, as in "mean=0.4,sd=2.1": every column of --x.'
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option(help="How; the best on held-out simulations by default.", show_default=False),
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(
            help="A table of draws from the prior, with the columns of --theta. Default: the "
            "parameters of the simulations are draws of it.",
            show_default=False,
        ),
    ] = None,
    level: o.Level = 0.9,
    draws: Annotated[
        Path | None, typer.Option(help="Also write 1000 draws of the posterior, a .csv file.")
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(
            metavar="BOUNDS",
            help='Where parameters can be, as in "rho=0..1,rate=0..": draws stay there. Default: as far as '
            "the simulations show it, which is said.",
            show_default=False,
        ),
    ] = None,
    missing: o.MissingCells = o.Missing.error,
    seed: o.Seed = 0,
    as_json: o.Json = False,
    report: o.ReportPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Which parameters of a simulator does an observation speak for?"""
    with plain_errors():
        o.check_level(level)
        inputs = [simulations, *([prior] if prior else [])]
        o.check_outputs(inputs, draws=draws, report=report, plot=plot)
        table = read_table(simulations)
        names, data = pick(theta, table.columns, "--theta"), pick(x, table.columns, "--x")
        if both := [name for name in names if name in data]:
            raise BadUsage(f"{', '.join(map(repr, both))} is in both --theta and --x: put it in one.")
        leave = missing == o.Missing.drop
        (frame,), (dropped,) = prepare([table], [*names, *data], [], leave, droppable=False)
        _check_numbers(frame, names, "--theta")
        _check_numbers(frame, data, "--x")
        point = _observation(observed, frame.select(data))
        before = None if prior is None else _prior(prior, names, missing == o.Missing.drop)
        within = None if bounds is None else _bounds(bounds, names)
        with bad_input(), working("finding the posterior"):
            found = _find(frame.select(names), frame.select(data), point, method, before, within, level, seed)
        answer = _answer(found, frame, names, point, table.name, dropped, before, level, seed)
        if draws is not None:
            _write(draws, found, names, seed)
        give(answer, as_json, report, plot)


def _check_numbers(frame: pl.DataFrame, columns: Sequence[str], option: str) -> None:
    import polars as pl

    for name in columns:
        if frame[name].dtype == pl.String:
            raise BadUsage(f"{option} {name!r} holds categories: only numbers will do.")
        if frame[name].n_unique() == 1:
            raise BadUsage(f"{option} {name!r} is the same in every row, which says nothing: leave it out.")


def _observation(text: str, X: pl.DataFrame) -> Point:
    """A value for every column of --x."""
    point = parse_at(text, X, "--observed")
    absent = [name for name in X.columns if name not in point]
    if absent:
        raise BadUsage(
            f"--observed has no value for {', '.join(map(repr, absent))}: give one, or take it out of --x."
        )
    return {name: point[name] for name in X.columns}


def _prior(path: Path, names: list[str], drop: bool) -> pl.DataFrame:
    table = read_table(path)
    absent = [name for name in names if name not in table.columns]
    if absent:
        raise BadUsage(
            f"--prior {str(path)!r} has no column {absent[0]!r}: it must hold the columns of --theta."
        )
    (frame,), _ = prepare([table], names, [], drop)
    _check_numbers(frame, names, "--prior column")
    return frame


def _bounds(text: str, names: list[str]) -> dict[str, Any]:
    """Pairs of bounds by parameter, None for those that are not named."""
    out: dict[str, Any] = dict.fromkeys(names)
    for part in text.split(","):
        name, found, ends = part.partition("=")
        name, (low, dots, high) = name.strip(), ends.partition("..")
        if not (found and dots) or name not in names:
            raise BadUsage(
                f"--bounds has {part!r}: write one of {', '.join(names)} with its bounds, as in "
                f'"{names[0]}=0..1", or "{names[0]}=0.." where there is no upper one.'
            )
        try:
            out[name] = (float(low) if low.strip() else None, float(high) if high.strip() else None)
        except ValueError:
            raise BadUsage(f"--bounds has {part!r}: bounds must be numbers, as in 0..1.") from None
    return out


def _find(
    theta: pl.DataFrame,
    x: pl.DataFrame,
    point: Point,
    method: str | None,
    prior: pl.DataFrame | None,
    bounds: dict[str, Any] | None,
    level: float,
    seed: int,
) -> Found:
    import numpy as np

    from muhat.learning.prior_supports import support_of
    from muhat.models.likelihood_free import LikelihoodFree
    from muhat.simulation.draws import weighted

    if bounds is not None:
        remedy = f"Give --bounds that hold every {theta.columns[0]} simulated, or leave --bounds out."
        if len(theta.columns) > 1:
            remedy = "Give --bounds that hold all simulated parameters, or leave --bounds out."
        support_of(bounds, theta.to_numpy().astype(float), theta.columns, remedy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        model = LikelihoodFree(method, random_state=seed, prior=bounds)
        model.fit(theta, x.to_numpy())
        where = np.array([[float(value) for value in point.values()]])
        given = model.posterior(where, prior=None if prior is None else prior.to_numpy())
    mu = given[0] if not hasattr(given, "is_batch") or given.is_batch else given
    spread = weighted(mu)
    before = (theta if prior is None else prior).to_numpy()
    mean = spread.weights @ spread.points
    return Found(
        model,
        mu,
        mean,
        np.sqrt(spread.weights @ (spread.points - mean) ** 2),
        before.mean(axis=0),
        before.std(axis=0),
        mu.quantile(list(LEVELS)),
        mu.quantile([(1 - level) / 2, (1 + level) / 2]),
        spread.size,
        list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))),
        float(mu.matches[0]),
    )


# -- in words ------------------------------------------------------------------------------------


def _answer(
    found: Found,
    frame: pl.DataFrame,
    names: list[str],
    point: Point,
    source: str,
    dropped: int,
    prior: pl.DataFrame | None,
    level: float,
    seed: int,
) -> Answer:
    sentence, notes = _sentence(found, names, level), _notes(found, frame, point)
    before = frame.select(names) if prior is None else prior

    def write(page: Page) -> None:
        for note in notes:
            page.say(note)
        page.table(
            [
                (name, found.mean[j], found.sd[j], found.prior_mean[j], found.prior_sd[j])
                for j, name in enumerate(names)
            ],
            ["", "mean", "sd", "prior mean", "prior sd"],
            "The parameters given the observation, beside their prior.",
        )
        page.table(
            [(name, *found.quantiles[:, j]) for j, name in enumerate(names)],
            ["", *(f"{100 * q:.0f}%" for q in LEVELS)],
            "Quantiles.",
        )
        page.table(list(point.items()), ["", "observed"], "The observation.")
        page.table(_facts(found, frame, dropped, prior), ["", "value"], "How it was found.")

    def figures() -> Any:
        from muhat.report.posterior import posterior as draw

        yield (
            draw(found.embedding, names, before.to_numpy(), level, random_state=seed),
            "The posterior of each parameter (blue) over the prior (grey)"
            + (", and draws of every pair." if len(names) > 1 else "."),
        )

    record = {
        "command": "posterior",
        "summary": sentence,
        "notes": notes,
        "file": source,
        "rows": frame.height,
        "dropped_rows": dropped,
        "observed": point,
        "method": found.method,
        "matches": found.matches,
        "effective_size": found.size,
        "level": level,
        "support": found.model.support_.words,
        "support_inferred": bool(found.model.support_.inferred.any()),
        "parameters": [
            {
                "parameter": name,
                "mean": float(found.mean[j]),
                "sd": float(found.sd[j]),
                "interval": [float(v) for v in found.interval[:, j]],
                "quantiles": {str(q): float(v) for q, v in zip(LEVELS, found.quantiles[:, j], strict=True)},
                "prior_mean": float(found.prior_mean[j]),
                "prior_sd": float(found.prior_sd[j]),
            }
            for j, name in enumerate(names)
        ],
        "seed": seed,
    }
    return Answer(f"Posterior of {', '.join(names)}", sentence, write, figures, record)


def _sentence(found: Found, names: list[str], level: float) -> str:
    from muhat.report.cells import cell, where

    parts = []
    for j, name in enumerate(names[:3]):
        mean, before = cell(float(found.mean[j])), cell(float(found.prior_mean[j]))
        low, high = (float(end) for end in found.interval[:, j])
        lies = where(low, high, level, found.chance(j, low))
        parts.append(f"{name} is {mean} on average (prior: {before}) and {lies}")
    more = f" The table has all {len(names)} parameters." if len(names) > 3 else ""
    return "Given the observation, " + "; ".join(parts) + f".{more}"


def _notes(found: Found, frame: pl.DataFrame, point: Point) -> list[str]:
    """What a reader must know to trust the numbers, or not to."""
    out = list(found.warned)
    outside = [name for name, v in point.items() if not frame[name].min() <= v <= frame[name].max()]  # type: ignore[operator]
    if outside:
        out.append(
            f"Outside everything simulated: {', '.join(outside)}. No simulation looks like the observation: "
            "the prior or the simulator may be wrong, and the answer is no more than a guess."
        )
    if guessed := found.model.support_.guess:
        out.append(f"{guessed} If that is wrong, give --bounds.")
    if found.matches:
        what = "and their parameters are the posterior" if found.alone else "and speak for themselves in it"
        out.append(
            f"{found.matches:.0f} of {frame.height} simulations equal the observation, {what}: such "
            "parameters are draws of the posterior, whatever the method."
            + ("" if found.alone else " With 50 of them no method would be needed: simulate more.")
        )
    if found.size < FEW:
        out.append(
            f"The posterior rests on about {found.size:.0f} points: simulate more, best with parameters "
            "drawn near it, and give the prior as --prior."
        )
    return out


def _facts(
    found: Found, frame: pl.DataFrame, dropped: int, prior: pl.DataFrame | None
) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = [("simulations", frame.height)]
    if dropped:
        facts.append(("rows with missing cells, left out", dropped))
    if prior is not None:
        facts.append(("draws of the prior", prior.height))
    facts.append(("support", found.model.support_.words))
    return [*facts, ("method", found.method), ("effective number of points", f"{found.size:.0f}")]


def _write(draws: Path, found: Found, names: list[str], seed: int) -> None:
    """Draws of the posterior, the whole file or none."""
    import numpy as np
    import polars as pl

    from muhat._files import whole_file
    from muhat.simulation.draws import weighted

    rows = weighted(found.embedding).resample(1000, np.random.default_rng(seed))
    with writing(draws), whole_file(draws) as draft:
        pl.DataFrame(dict(zip(names, rows.T, strict=True))).write_csv(draft)


_STATUS = "Exit status: 0; 2 if the input cannot be used, 1 if the computation failed, 130 if interrupted."
posterior.__doc__ = f"{posterior.__doc__}\n\n{o.FILES} {o.GAPS}\n\n{_STATUS}"
