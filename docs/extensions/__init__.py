"""Extensions of Python-Markdown that the pages and the docstrings are written with."""
