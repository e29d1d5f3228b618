"""Markdown pages whose Python blocks run and whose text blocks are what they print.

``python tests/docs/docs_pages.py`` runs every page and writes the outputs into it; with names of
pages, these alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

# A fence with its indentation, its language and its content; a text block may follow a Python one.
FENCE = r"(?P<{0}indent>[ ]*)```{1}[ ]*\n(?P<{0}>.*?)(?P={0}indent)```[ ]*\n"
BLOCK = re.compile(
    r"^" + FENCE.format("code", "python") + r"(?:\n*" + FENCE.format("text", "text") + r")?",
    re.M | re.S,
)

# A number that is not part of a name: -0.25, 1e-3, 1_000, inf.
NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?)(?!\w)")
RELATIVE = 1e-2


@dataclass(frozen=True)
class Block:
    """One Python block of a page.

    Attributes:
        page: the file.
        line: of the first line of the code, from 1.
        code: the Python.
        text: what it should print, or None if the page does not say.
        match: where it is in the page.
    """

    page: Path
    line: int
    code: str
    text: str | None
    match: re.Match[str]


def blocks(page: Path) -> list[Block]:
    """The Python blocks of a page, in order."""
    source = page.read_text(encoding="utf-8")
    out = []
    for match in BLOCK.finditer(source):
        line = source.count("\n", 0, match.start("code")) + 1
        code, text = (_dedent(match[name], match[f"{name}indent"]) for name in ("code", "text"))
        out.append(Block(page, line, code or "", text, match))
    return out


def _dedent(text: str | None, indent: str | None) -> str | None:
    if text is None:
        return None
    return "".join(line.removeprefix(indent or "") for line in text.splitlines(keepends=True))


def run(block: Block, namespace: dict) -> str:
    """What the block prints when it runs in ``namespace``. Tracebacks name the page and the line."""
    code = compile("\n" * (block.line - 1) + block.code, str(block.page), "exec")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def difference(expected: str, printed: str) -> str | None:
    """What is wrong with ``printed``, or None.

    The words must be equal. Whole numbers must be equal, too; others may differ by 1% or by one unit
    of the last digit shown, whichever is more. White space does not count.
    """
    words = [NUMBER.sub("#", _plain(text)) for text in (expected, printed)]
    numbers = [[m.replace("−", "-") for m in NUMBER.findall(_plain(text))] for text in (expected, printed)]
    if words[0] != words[1] or len(numbers[0]) != len(numbers[1]):
        return "the words differ"
    for a, b in zip(*numbers, strict=True):
        if not _close(a, b):
            return f"{b} is printed where the page says {a}"
    return None


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"(?<=[\[(])\s+|\s+(?=[\])])", "", text)).strip()


def _close(expected: str, printed: str) -> bool:
    if not re.search(r"[.eE]", expected):
        return int(expected) == float(printed)
    a, b = float(expected), float(printed)
    decimals = re.search(r"\.(\d*)", expected)
    unit = 10.0 ** -(len(decimals[1]) if decimals else 0)
    exponent = re.search(r"[eE]([-+]?\d+)", expected)
    unit *= 10.0 ** int(exponent[1]) if exponent else 1.0
    return abs(a - b) <= max(RELATIVE * abs(a), 1.001 * unit)


def update(page: Path) -> None:
    """Run a page and write what it prints into its text blocks."""
    source, namespace = page.read_text(encoding="utf-8"), {"__name__": "__main__"}
    edits = []
    for block in blocks(page):
        printed = run(block, namespace)
        if block.text is not None and printed.strip() != block.text.strip():
            indent = block.match["textindent"]
            lines = "".join(f"{indent}{line}".rstrip() + "\n" for line in printed.rstrip().splitlines())
            edits.append((*block.match.span("text"), lines))
    for start, end, lines in reversed(edits):
        source = source[:start] + lines + source[end:]
    page.write_text(source, encoding="utf-8")
    print(f"{page.relative_to(ROOT)}: {len(edits)} outputs written")


def main() -> None:
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for page in chosen:
            update(page)


if __name__ == "__main__":
    main()
