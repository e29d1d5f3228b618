"""The tests that the errata page names exist."""

import re

import pytest
from docs_pages import ROOT

PAGE = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")


def claims():
    """Pairs of a file and a test in it, from "`test_this` and `test_that` in `tests/file.py`"."""
    out = []
    for paragraph in re.findall(r"\*\*Checked by\*\*(.*?)(?:\n\n|\Z)", PAGE, re.S):
        for names, file in re.findall(r"((?:`test_\w+`(?:,\s|\sand\s|\s)*)+)in\s`([\w/]+\.py)`", paragraph):
            out += [(file, name) for name in re.findall(r"`(test_\w+)`", names)]
    return sorted(set(out))


@pytest.mark.parametrize(("file", "name"), claims())
def test_the_test_exists(file, name):
    assert re.search(rf"def {name}\(", (ROOT / file).read_text(encoding="utf-8"))


def test_every_item_names_its_test():
    sections = re.split(r"^## ", PAGE, flags=re.M)[1:]
    assert PAGE.count("**Checked by**") == len(sections)
    assert len(claims()) >= 14
