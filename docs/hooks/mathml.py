"""Turns the formulas of a page into MathML while the site is built.

Browsers show MathML by themselves, so that pages need neither a script nor the network. A formula
that cannot be converted is a warning, which `mkdocs build --strict` makes an error.
"""

import html
import logging
import re

from math_core import LatexError, LatexToMathML

log = logging.getLogger("mkdocs.hooks.mathml")
converter = LatexToMathML(annotation=True, fancy_error=False)

# What pymdownx.arithmatex writes with `generic: true`: \(...\) in a span, \[...\] in a div.
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\[(\[](?P<latex>.*?)\\[)\]]\s*</(?P=tag)>', re.S
)


def on_page_content(content: str, page, **_) -> str:
    """Replace every formula of the page. MkDocs calls this once a page."""

    def replace(match: re.Match[str]) -> str:
        latex, tag = html.unescape(match["latex"]).strip(), match["tag"]
        try:
            mathml = converter.convert_with_local_state(latex, displaystyle=tag == "div")
        except LatexError as error:
            log.warning("%s: %s in the formula %s", page.file.src_path, error, latex)
            return match[0]
        return f'<{tag} class="arithmatex">{mathml}</{tag}>'

    return FORMULA.sub(replace, content)
