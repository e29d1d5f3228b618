"""The tour: it runs, says what it computed, and writes a sound report."""

import io
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from muhat.cli import app
from muhat.cli.chapters import chapters
from muhat.cli.page import Page
from muhat.report import Report

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from html_checks import check_report  # type: ignore[import-not-found]

CHAPTERS = {chapter.__name__.rsplit(".", 1)[1]: chapter for chapter in chapters()}  # type: ignore[attr-defined]
RATIO = re.compile(r"\d+\.\d+×")  # times differ from run to run, and nothing else does


def run_chapter(chapter, seed=0):
    """The document of one chapter, and what it said on the terminal."""
    report, terminal = Report("t"), io.StringIO()
    page = Page(report, Console(file=terminal, width=100))
    page.section(chapter.TITLE)
    chapter.run(page, seed)
    return report.html(), terminal.getvalue()


def test_chapters_are_in_order_and_have_titles():
    assert list(CHAPTERS) == sorted(CHAPTERS)
    assert len(CHAPTERS) >= 6
    assert len({chapter.TITLE for chapter in CHAPTERS.values()}) == len(CHAPTERS)


@pytest.mark.slow
def test_the_whole_tour(tmp_path):
    """The report, and what was said on the terminal, chapter by chapter."""
    result = CliRunner().invoke(app, ["tour", "--output", str(tmp_path / "a.html")])
    assert result.exit_code == 0, result.output
    html, terminal = (tmp_path / "a.html").read_text(encoding="utf-8"), result.stdout
    document = check_report(html)
    assert len(document.all("h2")) == len(CHAPTERS)
    assert len(document.all("img")) >= 10
    assert "nan" not in document.text.lower().split()
    for (name, chapter), part in zip(CHAPTERS.items(), html.split("<h2")[1:], strict=True):
        assert chapter.TITLE in unescape(part)
        assert chapter.TITLE in terminal
        assert "<table" in part
        assert "<img" in part or name == "ch60_saving"
        code = re.findall(r"<pre><code>(.*?)</code></pre>", part, re.S)
        assert (
            max(len(line) for block in code for line in block.splitlines()) < 100
        )  # escapes lengthen a line


def test_the_terminal_and_the_report_say_the_same():
    html, terminal = run_chapter(CHAPTERS["ch60_saving"])
    numbers = re.findall(r'<td class="number">(.*?)</td>', html)
    assert len(numbers) == 3
    assert all(number in terminal for number in numbers)


@pytest.mark.slow
def test_the_seed_decides():
    first, again, other = (run_chapter(CHAPTERS["ch10_embedding"], seed) for seed in (0, 0, 1))
    assert first == again
    assert first[1] != other[1]


def test_square_brackets_and_backticks_on_the_terminal():
    terminal = io.StringIO()
    page = Page(Report("t"), Console(file=terminal, width=100))
    page.say("weights[0] is `w[0]`, not [bold]markup[/bold]")
    page.table([("[red]a", "[x]")], ["[h]", "b"], "[c]")
    text = terminal.getvalue()
    assert "weights[0] is w[0], not [bold]markup[/bold]" in text
    assert all(part in text for part in ("[red]a", "[x]", "[h]", "[c]"))


def test_code_without_its_source_is_left_out():
    page = Page(Report("t"))
    assert page.run(eval(compile("lambda: 3", "no_such_file.py", "eval"))) == 3
    assert "<pre>" not in page.report.html()


def test_a_short_tour_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("muhat.cli.chapters.chapters", lambda: [CHAPTERS["ch60_saving"]])
    result = CliRunner().invoke(app, ["tour"])
    assert result.exit_code == 0, result.output
    assert "muhat-tour.html" in result.stdout.splitlines()[-1]
    assert "\x1b" not in result.stdout  # no colours and no bar in a pipe
    assert list(tmp_path.iterdir()) == [tmp_path / "muhat-tour.html"]
    check_report((tmp_path / "muhat-tour.html").read_text(encoding="utf-8"))
    quiet = CliRunner().invoke(app, ["tour", "--quiet", "--seed", "1", "-o", "other.html"])
    assert (quiet.exit_code, quiet.output) == (0, "")
    assert "with seed 1" in (tmp_path / "other.html").read_text(encoding="utf-8")


def test_one_chapter(tmp_path):
    output = tmp_path / "one.html"
    result = CliRunner().invoke(app, ["tour", "--chapter", "saving", "-o", str(output)])
    assert result.exit_code == 0, result.output
    document = check_report(output.read_text(encoding="utf-8"))
    assert len(document.all("h2")) == 1
    assert CHAPTERS["ch60_saving"].TITLE in document.text
    result = CliRunner().invoke(app, ["tour", "--chapter", "ch60_saving", "-o", str(tmp_path / "none.html")])
    assert result.exit_code == 2
    assert "choose one of embedding, density, conditional, conditional_density," in result.stderr
    assert not (tmp_path / "none.html").exists()


def test_a_bar_on_a_terminal(tmp_path, monkeypatch):
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=100)
    monkeypatch.setattr("muhat.cli.page.console", lambda: console)
    monkeypatch.setattr("muhat.cli.chapters.chapters", lambda: [CHAPTERS["ch60_saving"]])
    sys.modules["muhat.cli.tour"].run(tmp_path / "x.html", 0, False)
    assert "1 of 1: Saving and loading" in terminal.getvalue()


@pytest.mark.slow
def test_another_process_writes_the_same_report(tmp_path, monkeypatch):
    """Of two chapters, without a screen."""
    names = [name for name in CHAPTERS if name[:4] in ("ch10", "ch95")]
    monkeypatch.setattr("muhat.cli.chapters.chapters", lambda: [CHAPTERS[name] for name in names])
    sys.modules["muhat.cli.tour"].run(tmp_path / "a.html", 0, True)
    code = (
        "import sys; from pathlib import Path; import muhat.cli.chapters as c\n"
        "from muhat.cli.tour import run\n"
        f"kept = [k for k in c.chapters() if k.__name__.rpartition('.')[2] in {names!r}]\n"
        "c.chapters = lambda: kept\n"
        f"run(Path({str(tmp_path / 'b.html')!r}), 0, True)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=600)
    first, second = (
        RATIO.sub("", (tmp_path / name).read_text(encoding="utf-8")) for name in ("a.html", "b.html")
    )
    assert all(CHAPTERS[name].TITLE in first for name in names)
    assert first == second
