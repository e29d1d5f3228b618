"""The documentation builds without a warning, and says what it means to say."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs_pages import ROOT

pytestmark = pytest.mark.slow

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
    # Without --quiet, which drops warnings before --strict can count them.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr, done.stdout + done.stderr
    return folder


def test_every_page_is_built(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    pages.discard(Path("plan.html"))  # of what is being rebuilt; mkdocs.yml leaves it out
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert pages <= built


def test_formulas_are_mathml_and_nothing_is_fetched(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'class="arithmatex">\s*\\[(\[]', text), (
            f"{page.name} has an unconverted formula"
        )
        prose = re.sub(r"<(annotation|code|pre|script)\b.*?</\1>", "", text, flags=re.S)
        assert "$" not in re.sub(r"<[^>]*>", "", prose), f"{page.name} has a formula that was not seen as one"
        fetched = re.findall(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="(https?:[^"]+)"', text)
        assert not fetched, f"{page.name} fetches {fetched}"


def test_no_role_is_left(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r":(?:attr|class|func|meth|mod):<code>", text), page.name


def test_the_reference_describes_functions_and_not_the_modules_of_their_name(site):
    text = (site / "reference" / "learning.html").read_text(encoding="utf-8")
    assert 'id="muhat.learning.learn_kernel.learn_kernel"' in text
    assert 'id="muhat.learn_kernel.maximise"' not in text


def test_search_needs_no_server_and_no_network(site):
    assert (site / "search" / "search_index.js").read_text(encoding="utf-8").startswith("var __index = ")
    for page in site.rglob("*.html"):
        scripts = re.findall(r'<script[^>]+src="([^"]+)"', page.read_text(encoding="utf-8"))
        assert any(script.endswith("js/iframe-worker.js") for script in scripts), page.name


def test_no_program_is_copied(site):
    assert not list(site.rglob("*.py"))


def test_pictures_are_small():
    for picture in (ROOT / "docs" / "images").glob("*.png"):
        assert picture.stat().st_size < 150_000, picture.name
