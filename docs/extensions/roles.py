"""Removes the names of roles that docstrings carry, as in :meth:`fit`: pages show the name alone."""

import re
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

ROLE = re.compile(r":(?:attr|class|func|meth|mod):\Z")


class Roles(Treeprocessor):
    """Takes `:meth:` off the text before a code element."""

    def run(self, root: Element) -> None:
        for parent in root.iter():
            before = None  # the sibling that the text before a child belongs to; None for the parent
            for child in parent:
                if child.tag == "code":
                    if before is None:
                        parent.text = ROLE.sub("", parent.text or "")
                    else:
                        before.tail = ROLE.sub("", before.tail or "")
                before = child


class RolesExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # After the code spans of a line are elements (inline, 20).
        md.treeprocessors.register(Roles(md), "roles", 15)


def makeExtension(**options: object) -> RolesExtension:
    """Python-Markdown looks for this name."""
    return RolesExtension(**options)
