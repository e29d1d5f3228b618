"""The two extensions of Markdown that pages and docstrings are written with."""

import importlib

import pytest
from docs_pages import ROOT

markdown = pytest.importorskip("markdown", reason="the docs extra is missing")
pytest.importorskip("pymdownx", reason="the docs extra is missing")
pytest.importorskip("math_core", reason="the docs extra is missing")


@pytest.fixture
def convert(monkeypatch):
    """Markdown with both, found from the root of the repository as MkDocs finds them."""
    monkeypatch.syspath_prepend(str(ROOT))
    names = [importlib.import_module(f"docs.extensions.{name}").__name__ for name in ("mathml", "roles")]
    reader = markdown.Markdown(
        extensions=["pymdownx.arithmatex", *names],
        extension_configs={"pymdownx.arithmatex": {"generic": True}},
    )
    return lambda text: reader.reset().convert(text)


def test_a_formula_in_a_line_is_mathml(convert):
    out = convert(r"The mean $\hat\mu < 1$, where `$x$` is code.")
    assert out.count("<math>") == 1
    assert "\\(" not in out
    assert r"\hat\mu &lt; 1</annotation>" in out
    assert "<code>$x$</code>" in out


def test_a_formula_of_its_own_is_displayed(convert):
    out = convert("Before\n\n$$\n\\sum_i w_i\n$$\n\nafter")
    assert '<div class="arithmatex"><math display="block">' in out
    assert "\\[" not in out


def test_a_wrong_formula_is_an_error_that_names_it(convert):
    with pytest.raises(ValueError, match=r"in the formula \\hatt x"):
        convert(r"Here $\hatt x$.")


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (":meth:`fit` first", "<p><code>fit</code> first</p>"),
        ("see :class:`A` and :func:`b`", "<p>see <code>A</code> and <code>b</code></p>"),
        ("- *so*:attr:`c`", "<ul>\n<li><em>so</em><code>c</code></li>\n</ul>"),
        ("a ratio 1:`x`, :other:`x`", "<p>a ratio 1:<code>x</code>, :other:<code>x</code></p>"),
        ("`` :meth:`fit` ``", "<p><code>:meth:`fit`</code></p>"),
        (":meth: alone", "<p>:meth: alone</p>"),
    ],
)
def test_names_of_roles_are_removed_before_code_alone(convert, text, html):
    assert convert(text) == html
