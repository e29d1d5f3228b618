"""What every report must satisfy."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "hr", "input", "link"}


class Document(HTMLParser):
    """A strict look at a document: every tag is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self._open = [], "", []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data):
        if not self._open or self._open[-1] != "style":
            self.text += data

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def check_report(text):
    """Parse a report; it must be well formed, self-contained and accessible. Returns the document."""
    document = Document(text)
    assert text.startswith("<!DOCTYPE html>")
    for tag in ("script", "link", "iframe", "object", "embed", "form", "base", "svg"):
        assert not document.all(tag), f"<{tag}> has no place in a report"
    assert "@import" not in text
    assert "url(" not in text
    for tag, attrs in document.tags:
        assert not [name for name in attrs if name.startswith("on")], f"<{tag}> has a handler"
        assert attrs.get("src", "data:").startswith("data:image/svg+xml;base64,") or "src" not in attrs
        assert attrs.get("href", "#").startswith("#")
    ids = [attrs["id"] for _, attrs in document.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"][1:] for attrs in document.all("a")} <= set(ids)
    assert all(attrs.get("alt") for attrs in document.all("img"))
    assert all(attrs.get("scope") in ("col", "row") for attrs in document.all("th"))
    assert all(attrs["aria-labelledby"] in ids for attrs in document.all("table"))
    assert document.all("html")[0]["lang"] == "en"
    assert len(document.all("title")) == len(document.all("h1")) == len(document.all("main")) == 1
    return document
