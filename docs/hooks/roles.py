"""Removes the names of roles that docstrings carry, as in :meth:`fit`: pages show the name alone."""

import re

ROLE = re.compile(r":(?:attr|class|func|meth|mod):(?=<code>)")


def on_page_content(content: str, page, **_) -> str:
    """MkDocs calls this once a page."""
    return ROLE.sub("", content)
