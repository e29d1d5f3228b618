"""Every citation is in the bibliography, and everything there is cited."""

import re

import pytest
from docs_pages import PAGES, ROOT

# [S20], [S20, §3], [MU16; F16, eq. (9)], [HR19, Def. 3.3; G15]
KEY = r"[A-Z]{1,5}\d{2}"
CITATION = re.compile(rf"\[({KEY}(?:,[^\];]*)?(?:;\s*{KEY}(?:,[^\];]*)?)*)\]")
BIBLIOGRAPHY = ROOT / "docs" / "bibliography.md"


def keys_in(text):
    return {re.match(KEY, part.strip())[0] for group in CITATION.findall(text) for part in group.split(";")}


def entries():
    return re.findall(rf"^\[({KEY})\]\n:   ", BIBLIOGRAPHY.read_text(encoding="utf-8"), re.M)


SOURCES = sorted((ROOT / "muhat").rglob("*.py"))
PROSE = [page for page in PAGES if page != BIBLIOGRAPHY]


@pytest.mark.parametrize("path", [*SOURCES, *PROSE], ids=lambda path: str(path.relative_to(ROOT)))
def test_citations_are_in_the_bibliography(path):
    unknown = keys_in(path.read_text(encoding="utf-8")) - set(entries())
    assert not unknown, f"{path.relative_to(ROOT)} cites {sorted(unknown)}, which docs/bibliography.md lacks"


def test_entries_are_cited_and_unique():
    found = entries()
    assert len(found) == len(set(found)) > 10
    cited = set().union(*(keys_in(path.read_text(encoding="utf-8")) for path in [*SOURCES, *PROSE]))
    assert not set(found) - cited, "nothing cites these"


def test_keys_are_found():
    text = "[S20] [S20, §3] [MU16; F16, eq. (9)] [HR19, Def. 3.3; G15] x[0] [1, 2] [A4] [n, d]"
    assert keys_in(text) == {"S20", "MU16", "F16", "HR19", "G15"}
