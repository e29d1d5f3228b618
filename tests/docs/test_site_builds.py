"""The documentation builds without a warning, and says what it means to say."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from docs_pages import ROOT

NEEDED = ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python", "math_core")


def _missing():
    out = []
    for name in NEEDED:
        try:
            found = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            out.append(name)
    return out


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    missing = _missing()
    if missing:
        pytest.skip(f"the docs extra is not installed: {', '.join(missing)} missing")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_built(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert pages <= built


def test_formulas_are_mathml_and_nothing_is_fetched(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'class="arithmatex">\s*\\[(\[]', text), (
            f"{page.name} has an unconverted formula"
        )
        fetched = re.findall(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="(https?:[^"]+)"', text)
        assert not fetched, f"{page.name} fetches {fetched}"


def test_the_reference_has_every_public_name(site):
    import muhat

    text = (site / "api.html").read_text(encoding="utf-8")
    names = [name for name in muhat.__all__ if not name.startswith("_")]
    absent = [name for name in names if f'id="muhat.{name}"' not in text]
    assert not absent
    assert not re.search(r":(?:attr|class|func|meth|mod):<code>", text)


def test_pictures_are_small():
    for picture in (ROOT / "docs" / "images").glob("*.png"):
        assert picture.stat().st_size < 150_000, picture.name
