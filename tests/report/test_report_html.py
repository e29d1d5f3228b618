"""The HTML report: self-contained, escaped, whole or not at all."""

import base64
import os

import numpy as np
import pytest
from html_checks import check_report
from matplotlib.figure import Figure

from muhat._version import __version__
from muhat.report import Report
from muhat.report.cells import cell

EVIL = '<script>alert("1")</script><img src=x onerror=alert(2)>\'"&`<b>`'


def picture():
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot([0, 1], [1, 0])
    return figure


def full_report(text="plain"):
    return (
        Report(text, text)
        .section(text, text)
        .text(f"{text}\n\n{text}")
        .table([(text, 1.5, text), ("b", 2, None)], [text, "number", text], text)
        .figure(picture(), text, text)
        .code(text)
        .section("second")
    )


def test_every_part_is_there():
    document = check_report(full_report().html())
    assert len(document.all("section")) == 0
    assert len(document.all("h2")) == 2
    assert [attrs["href"] for attrs in document.all("a")] == ["#content", "#section-1", "#section-2"]
    assert len(document.all("img")) == len(document.all("table")) == len(document.all("pre")) == 1
    for part in ("Table 1.", "Figure 1.", "second", "1.50", "–", f"muhat {__version__}"):
        assert part in document.text


def test_markup_in_any_text_is_only_text():
    harmless, evil = check_report(full_report("x").html()), full_report(EVIL).html()
    document = check_report(evil)
    kept = [tag for tag, _ in document.tags if tag != "code"]  # backticks alone mean something
    assert kept == [tag for tag, _ in harmless.tags if tag != "code"]
    assert document.text.count('<script>alert("1")</script>') == document.text.count("onerror") >= 9
    assert document.all("img")[0]["alt"] == EVIL


def test_backticks_mark_code_and_nothing_inside_is_markup():
    html = Report("t").text("use `a < b` and `<i>`").html()
    assert "<code>a &lt; b</code> and <code>&lt;i&gt;</code>" in html


def test_the_figure_is_inside_and_the_same_each_time():
    first, second = (Report("t").figure(picture(), "c").html() for _ in range(2))
    assert first == second
    source = check_report(first).all("img")[0]["src"]
    svg = base64.b64decode(source.split(",", 1)[1]).decode()
    assert "<svg" in svg
    assert "<dc:date>" not in svg


def test_numbers_line_up_on_the_right_and_names_do_not():
    html = Report("t").table([("a", 1.0, "12%", "x"), ("b", None, "-3×", "1")], list("pqrs")).html()
    assert html.count('<td class="number">') == 4
    assert html.count('<th scope="row">') == 2
    assert check_report(Report("t").table([], ["a", "b"]).html())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.00"),
        (-0.012345, "-0.0123"),
        (123.4, "123"),
        (2.5e-9, "2.5e-9"),
        (1.5e7, "1.5e7"),
        (7, "7"),
        (12345, "12,345"),
        (np.int64(12), "12"),
        (np.float32(0.5), "0.500"),
        (np.array([0.25]), "0.250"),
        (True, "yes"),
        (np.bool_(False), "no"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
        ("text", "text"),
    ],
)
def test_cells(value, text):
    assert cell(value) == text


def test_bad_pieces_are_refused():
    report = Report("t")
    with pytest.raises(ValueError, match=r"rows\[1\] has 1 cells but header has 2"):
        report.table([(1, 2), (1,)], ["a", "b"])
    with pytest.raises(ValueError, match="header is empty"):
        report.table([], [])
    with pytest.raises(TypeError, match="must be a matplotlib Figure, got str"):
        report.figure("plot.png", "c")  # type: ignore[arg-type]


def test_written_whole(tmp_path):
    path = tmp_path / "out.html"
    path.write_text("old")
    report = full_report()
    assert report.write(path) == path
    assert path.read_text(encoding="utf-8") == report.html()
    assert os.listdir(tmp_path) == ["out.html"]


def test_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "out.html"
    path.write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        full_report().write(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.html"]


def test_where_it_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError):
        full_report().write(tmp_path / "nowhere" / "out.html")
    with pytest.raises(OSError, match="Not an ordinary file"):
        full_report().write(tmp_path)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no symbolic links here")
def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target.html", tmp_path / "link.html"
    target.write_text("old")
    link.symlink_to(target)
    full_report().write(link)
    assert link.is_symlink()
    assert "<!DOCTYPE html>" in target.read_text(encoding="utf-8")
