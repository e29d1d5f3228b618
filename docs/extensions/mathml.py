"""Turns formulas into MathML. Extends Markdown after `pymdownx.arithmatex` with `generic: true`.

Browsers show MathML by themselves, so that pages need neither a script nor the network. A formula
that cannot be converted is an error: a page must not show its source instead.
"""

import html
import re

from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor
from math_core import LatexError, LatexToMathML

converter = LatexToMathML(annotation=True, fancy_error=False)

# What pymdownx.arithmatex writes: \(...\) in a span, \[...\] in a div.
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\[(\[](?P<latex>.*?)\\[)\]]\s*</(?P=tag)>', re.S
)


class Formulas(Postprocessor):
    """Replaces every formula in the finished HTML."""

    def run(self, text: str) -> str:
        return FORMULA.sub(to_mathml, text)


def to_mathml(match: re.Match[str]) -> str:
    """The element with its LaTeX converted."""
    latex, tag = html.unescape(match["latex"]).strip(), match["tag"]
    try:
        mathml = converter.convert_with_local_state(latex, displaystyle=tag == "div")
    except LatexError as error:
        raise ValueError(f"{error} in the formula {latex}") from None
    return f'<{tag} class="arithmatex">{mathml}</{tag}>'


class MathML(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # Last, when all HTML is in its place.
        md.postprocessors.register(Formulas(md), "mathml", -10)


def makeExtension(**options: object) -> MathML:
    """Python-Markdown looks for this name."""
    return MathML(**options)
