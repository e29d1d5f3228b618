"""A report in one HTML file: no scripts, nothing fetched, every text escaped."""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muhat._files import whole_file
from muhat._version import __version__
from muhat.report.cells import cell, lines_up

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Defence in depth: even markup that slipped through could neither run nor fetch anything.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2127; --soft: #57606a; --paper: #ffffff; --panel: #f4f6f8;
  --line: #d0d7de; --accent: #0b5a94; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e6ea; --soft: #a2abb5; --paper: #16191d;
  --panel: #20252b; --line: #3a424b; --accent: #7cbcf0; }
  figure img { filter: invert(1) hue-rotate(180deg); } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
header, main, nav, footer { max-width: 52rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.4rem; line-height: 1.3; margin: 3rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
p { margin: 0 0 .9rem; }
header p { color: var(--soft); font-size: 1.1rem; }
a { color: var(--accent); }
nav ol { background: var(--panel); border-radius: 6px; padding: .8rem 1rem .8rem 2.4rem; margin: 1rem 0; }
.skip { position: absolute; left: -999rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: .5rem; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .875em; }
code { background: var(--panel); padding: .1em .3em; border-radius: 4px; }
pre { background: var(--panel); border-radius: 6px; padding: .8rem 1rem; overflow-x: auto;
  line-height: 1.45; margin: 0 0 1.2rem; }
pre code { background: none; padding: 0; font-size: inherit; }
.scroll { overflow-x: auto; margin-top: .5rem; }
table { border-collapse: collapse; font-size: .95em; }
figcaption { color: var(--soft); font-size: .92rem; }
figcaption b { color: var(--ink); }
th, td { padding: .32rem 1.5rem .32rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; }
tbody th { font-weight: 400; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1.4rem 0 1.8rem; }
figure img { display: block; max-width: 100%; height: auto; margin-bottom: .4rem; }
footer { color: var(--soft); font-size: .85rem; margin-top: 3rem; padding-bottom: 2rem; }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --panel: #f4f4f4;
  --line: #bbb; --accent: #000; }
  body { font-size: 10.5pt; } header, main, nav, footer { max-width: none; padding: 0; }
  figure img { filter: none; } figure, table, tr, pre { break-inside: avoid; }
  .scroll { overflow: visible; }
  h2 { break-after: avoid; } .skip { display: none; } pre { white-space: pre-wrap; } }
"""


class Report:
    """A report made piece by piece and written to one self-contained HTML file.

    Texts are plain: they are escaped, blank lines part paragraphs, and `backticks` mark code. Every
    method but :meth:`html` and :meth:`write` returns the report, so that calls chain.

    Args:
        title: of the document.
        summary: a sentence or two below the title.
    """

    def __init__(self, title: str, summary: str = "") -> None:
        self.title, self.summary = str(title), str(summary)
        self._sections: list[str] = []
        self._body: list[str] = []
        self._figures = self._tables = 0

    def section(self, title: str, text: str = "") -> Report:
        """Start a section; it appears in the table of contents."""
        self._sections.append(str(title))
        self._body.append(f'<h2 id="section-{len(self._sections)}">{escape(str(title))}</h2>')
        return self.text(text)

    def text(self, text: str) -> Report:
        """Add paragraphs."""
        self._body.extend(f"<p>{_inline(part)}</p>" for part in _paragraphs(text))
        return self

    def table(self, rows: Iterable[Sequence[Any]], header: Sequence[str], caption: str = "") -> Report:
        """Add a table.

        Args:
            rows: of text or numbers; the first cell of each names the row.
            header: one name a column.
            caption: what the table says.
        """
        rows = [list(row) for row in rows]
        if not header:
            raise ValueError("header is empty: give one name a column.")
        for i, row in enumerate(rows):
            if len(row) != len(header):
                raise ValueError(
                    f"rows[{i}] has {len(row)} cells but header has {len(header)}: give one a column."
                )
        self._tables += 1
        numeric = [bool(rows) and all(lines_up(row[j]) for row in rows) for j in range(len(header))]
        kinds = [' class="number"' if j and right else "" for j, right in enumerate(numeric)]
        head = "".join(
            f'<th scope="col"{kind}>{_inline(str(name))}</th>'
            for kind, name in zip(kinds, header, strict=True)
        )
        body = "".join(f"<tr>{_row(row, kinds)}</tr>\n" for row in rows)
        name = f"table-{self._tables}"
        # The caption stands outside the table, which is often narrower than a line of text.
        self._body.append(
            f'<figure><figcaption id="{name}"><b>Table {self._tables}.</b> {_inline(caption)}</figcaption>\n'
            f'<div class="scroll"><table aria-labelledby="{name}">\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}</tbody></table></div></figure>"
        )
        return self

    def figure(self, figure: Figure, caption: str, alt: str | None = None) -> Report:
        """Add a matplotlib figure, held in the file as SVG.

        Args:
            figure: to be drawn.
            caption: what it shows, below it.
            alt: what it shows, for readers who cannot see it; the caption by default.
        """
        if not hasattr(figure, "savefig"):
            raise TypeError(f"figure must be a matplotlib Figure, got {type(figure).__name__}.")
        self._figures += 1
        data = base64.b64encode(_svg(figure)).decode("ascii")
        width, height = (round(96 * inches) for inches in figure.get_size_inches())
        self._body.append(
            f'<figure><img src="data:image/svg+xml;base64,{data}" width="{width}" height="{height}" '
            f'alt="{escape(alt or caption)}">\n'
            f"<figcaption><b>Figure {self._figures}.</b> {_inline(caption)}</figcaption></figure>"
        )
        return self

    def code(self, source: str) -> Report:
        """Add a block of code."""
        self._body.append(f"<pre><code>{escape(str(source).strip())}</code></pre>")
        return self

    def html(self) -> str:
        """The document."""
        links = "\n".join(
            f'<li><a href="#section-{i}">{escape(title)}</a></li>'
            for i, title in enumerate(self._sections, start=1)
        )
        contents = f'<nav aria-label="Contents">\n<ol>\n{links}\n</ol>\n</nav>\n' if links else ""
        summary = "".join(f"<p>{_inline(part)}</p>" for part in _paragraphs(self.summary))
        body = "\n".join(self._body)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
            '<a class="skip" href="#content">Skip to the content</a>\n'
            f"<header><h1>{escape(self.title)}</h1>{summary}</header>\n{contents}"
            f'<main id="content">\n{body}\n</main>\n'
            f"<footer><p>Written by muhat {escape(__version__)}.</p></footer>\n</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the document to ``path``, whole or not at all, and return the path."""
        with whole_file(path) as draft:
            draft.write_text(self.html(), encoding="utf-8")
        return Path(path)


def _row(row: Sequence[Any], kinds: Sequence[str]) -> str:
    first = f'<th scope="row">{_inline(cell(row[0]))}</th>'
    rest = (f"<td{kind}>{_inline(cell(value))}</td>" for kind, value in zip(kinds[1:], row[1:], strict=True))
    return first + "".join(rest)


def _paragraphs(text: str) -> list[str]:
    parts = (" ".join(part.split()) for part in re.split(r"\n\s*\n", str(text)))
    return [part for part in parts if part]


def _inline(text: str) -> str:
    """Escaped text, with `code` marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _svg(figure: Figure) -> bytes:
    from matplotlib import rc_context

    buffer = io.BytesIO()
    # Outlined text needs no fonts; a fixed salt and no date make the same figure the same bytes.
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "muhat"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return buffer.getvalue()
