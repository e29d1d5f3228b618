"""Every Python block of the documentation runs, and prints what the page says."""

import pytest
from docs_pages import PAGES, ROOT, blocks, difference, run

from muhat.kernels.base import Kernel


@pytest.fixture
def kernels_as_they_were():
    """A page may define kernels of its own: they leave the register with it."""
    before = list(Kernel._classes)
    yield
    Kernel._classes[:] = before


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_in_order_and_print_what_the_page_says(page, tmp_path, monkeypatch, kernels_as_they_were):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for block in blocks(page):
        printed = run(block, namespace)
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.text is None:
            assert not printed, f"{where} prints, but no text block follows:\n{printed}"
        else:
            wrong = difference(block.text, printed)
            assert not wrong, f"{where}: {wrong}\n--- the page\n{block.text}\n--- printed\n{printed}"


def test_pages_are_found():
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "docs/tutorial.md", "docs/howto/conditional.md"} <= names
    for name in ("README.md", "CONTRIBUTING.md", "docs/tutorial.md"):
        found = blocks(ROOT / name)
        assert found
        assert any(block.text for block in found)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("mean 0.50", "mean 0.503"),  # 1%
        ("[ 0.02 -1.  ]", "[0.03 -1.]"),  # one unit of the last digit
        ("n = 600, λ = 1e-03", "n = 600, λ = 1e-03"),
        ("x2 = 1.0", "x2  =  1.00"),
        ("a\nb", "a b"),
    ],
)
def test_close_outputs_pass(expected, printed):
    assert difference(expected, printed) is None


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("mean 0.50", "mean 0.52"),
        ("n = 600", "n = 601"),
        ("x2 = 1.0", "x3 = 1.0"),
        ("[1.0 2.0]", "[1.0]"),
        ("1e-03", "2.1e-03"),
        ("mean 0.50", "median 0.50"),
        ("0.50", "-0.50"),
    ],
)
def test_other_outputs_fail(expected, printed):
    assert difference(expected, printed) is not None


def test_an_error_names_the_page_and_the_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\na = 1\nb = 1 / 0\n```\n\n```text\nnothing\n```\n")
    (block,) = blocks(page)
    assert (block.line, block.text) == (4, "nothing\n")
    with pytest.raises(ZeroDivisionError) as error:
        run(block, {})
    assert error.traceback[-1].lineno + 1 == 5
