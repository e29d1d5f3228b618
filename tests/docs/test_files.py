"""What no file of the project may hold, and what its links must lead to."""

import re
import subprocess

import pytest
from docs_pages import PAGES, ROOT

TEXT = {".cff", ".cfg", ".css", ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yml", ".yaml", ""}
SKIPPED = {".git", ".venv", "site", "build", "dist", "__pycache__", "node_modules"}


def files():
    """The files under version control, or, without git, those that could be."""
    try:
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
        paths = [ROOT / line for line in listed.stdout.splitlines()]
    except (OSError, subprocess.SubprocessError):
        paths = [p for p in ROOT.rglob("*") if not SKIPPED & set(p.relative_to(ROOT).parts)]
    return sorted(p for p in paths if p.is_file() and p.suffix in TEXT)


# Written in pieces, so that this file does not hold what it looks for.
HOMES = "home|Users|root|work|workspace|mnt|srv|opt"
ABSOLUTE = re.compile(rf"(?<![\w.:/)}}\]-])/(?:{HOMES})/[\w.]+|\b[A-Z]:\\+Users\\")
REGISTRY = re.compile(
    r"(?:index|extra-index|find-links)[-_]?url?\s*[=:]\s*\S*:/"
    + r"/|pypi\.(?:org|python)|files\.pythonhosted|"
    r"registry\.npmjs|conda\.anaconda|artifactory|:/" + r"/[^\s/]*(?:nexus|devpi|registry)[^\s/]*",
    re.I,
)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_machine_and_no_registry_is_named(path):
    if path.name == "test_files.py":
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    for pattern, what in (
        (ABSOLUTE, "a path of one machine"),
        (REGISTRY, "the address of a package registry"),
    ):
        found = pattern.search(text)
        assert not found, f"{path.relative_to(ROOT)} holds {what}: {found[0] if found else ''}"


def test_the_patterns_find_what_they_should():
    slash = "/"
    assert ABSOLUTE.search(f"see {slash}home{slash}ada{slash}data")
    assert ABSOLUTE.search(f'path = "{slash}work{slash}main"')
    assert not ABSOLUTE.search("docs/home/x and https://example.org/home/x and ../work/x")
    assert REGISTRY.search("https:" + "//py" + "pi.org/simple")
    assert REGISTRY.search("--index-url" + "=https:" + "//example.org/simple")
    assert not REGISTRY.search("https://keepachangelog.com/en/1.1.0/")


LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target, anchor in LINK.findall(text):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.relative_to(ROOT)} links to {target}, which is not there"
        if anchor:
            assert anchor[1:] in headings(path), f"{page.relative_to(ROOT)} links to {target}{anchor}"


def headings(page):
    """The anchors of a page, by the rule of MkDocs."""
    slugify = pytest.importorskip("markdown.extensions.toc", reason="the docs extra is missing").slugify
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {slugify(line.replace("`", ""), "-") for line in lines}
