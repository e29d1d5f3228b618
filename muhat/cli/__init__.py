"""The command line: ``muhat <verb>``. One file a verb; each imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from muhat._version import __version__
from muhat.cli.compare import compare
from muhat.cli.density import density
from muhat.cli.depend import depend
from muhat.cli.direction import direction
from muhat.cli.discover import discover
from muhat.cli.posterior import posterior
from muhat.cli.regress import regress
from muhat.cli.tour import tour

app = typer.Typer(
    name="muhat",
    help="Inference with distributions known only through samples.",
    epilog="MUHAT_TRACEBACK=1 in the environment shows the full traceback of an error.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("compare")(compare)
app.command("density")(density)
app.command("depend")(depend)
app.command("direction")(direction)
app.command("discover")(discover)
app.command("posterior")(posterior)
app.command("regress")(regress)
app.command("tour")(tour)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"muhat {__version__}")
        raise typer.Exit()


@app.callback()
def _muhat(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app(prog_name="muhat")


__all__ = ["app", "main"]
