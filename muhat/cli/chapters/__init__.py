"""The chapters of the tour, one file each, in the order of their file names.

A chapter is a file ``chNN_name.py`` with a ``TITLE`` and a function ``run(page, seed)`` that says, tabulates
and draws on the page. It is found by its name: adding the file adds the chapter.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Protocol, cast

from muhat.cli.page import Page


class Chapter(Protocol):
    """What a chapter's module holds."""

    __name__: str
    TITLE: str

    def run(self, page: Page, seed: int) -> None:
        """Write the chapter."""
        ...


def chapters() -> list[Chapter]:
    """The chapters in order."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith("ch"))
    return [cast(Chapter, import_module(f"{__name__}.{name}")) for name in names]


def name_of(chapter: Chapter) -> str:
    """The name in the chapter's file name, e.g. ``"embedding"`` of ``ch10_embedding.py``."""
    return chapter.__name__.rpartition(".")[2].partition("_")[2]
