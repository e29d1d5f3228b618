"""Errors as one line on the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


class BadUsage(Exception):
    """What the user asked for cannot be done; the message says what to change."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Show errors as one line and end: status 2 for bad usage, 1 for a refusal of the library.

    With MUHAT_TRACEBACK set, errors pass through with their traceback.
    """
    if os.environ.get("MUHAT_TRACEBACK"):
        yield
        return
    try:
        yield
    except BadUsage as error:
        _stop(error, 2)
    except BrokenPipeError:  # the reader has seen enough
        raise
    except (ValueError, TypeError, OSError, MemoryError) as error:
        _stop(error, 1)
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(130) from None


def _stop(error: BaseException, status: int) -> None:
    message = " ".join(str(error).split()) or type(error).__name__
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(status) from None


def check_output(path: Path) -> Path:
    """``path`` if a file can be written there; else :class:`BadUsage`, before any work is done."""
    folder = path.parent
    if path.is_dir():
        raise BadUsage(f"{str(path)!r} is a folder: give the name of a file in it.")
    if path.exists() and not path.is_file():
        raise BadUsage(f"{str(path)!r} is not an ordinary file: write elsewhere.")
    if not folder.is_dir():
        raise BadUsage(f"there is no folder {str(folder)!r}: make it first, or write elsewhere.")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise BadUsage(f"{str(path)!r} cannot be written: permission denied; write elsewhere.")
    return path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Failures to write are bad usage, too: the disk is full, or the folder has gone."""
    try:
        yield
    except OSError as error:
        raise BadUsage(f"{str(path)!r} could not be written ({error.strerror}): write elsewhere.") from error
