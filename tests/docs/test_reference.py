"""The reference has every public name on one page."""

import importlib
import re
from collections import Counter

import pytest
from docs_pages import ROOT

import muhat

FOLDER = ROOT / "docs" / "reference"


def entries():
    """Pairs of a page and a dotted name that it describes."""
    out = []
    for page in sorted(FOLDER.glob("*.md")):
        names = re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)
        out += [(page.stem, name) for name in names]
    return out


def resolve(path):
    """What a dotted name stands for: modules first, as the reference reads names; then attributes."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        return getattr(resolve(module), name)


def test_every_public_name_is_on_one_page():
    found = Counter(id(resolve(name)) for _, name in entries())
    public = [name for name in muhat.__all__ if not name.startswith("_")]
    wrong = {name: found[id(getattr(muhat, name))] for name in public if found[id(getattr(muhat, name))] != 1}
    assert not wrong, f"these should be on one page of docs/reference, and are on so many: {wrong}"


def test_no_entry_is_there_twice():
    twice = [name for name, count in Counter(name for _, name in entries()).items() if count > 1]
    assert not twice


@pytest.mark.parametrize("page", sorted({page for page, _ in entries()}))
def test_the_index_links_to_the_page(page):
    assert f"]({page}.md)" in (FOLDER / "index.md").read_text(encoding="utf-8")
