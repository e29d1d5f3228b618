"""The Markdown extensions of the pages. A package, so that `docs` is this folder and not another's."""
