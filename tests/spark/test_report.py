"""The page that audit and plan write."""

from __future__ import annotations

import base64
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.axes import Axes

from aioprod.errors import UsageError
from aioprod.spark.report import Page

HOSTILE = '<script>alert("x")</script>&\'\u2028'


class Reader(HTMLParser):
    """What a page holds: its tags with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def bars(axes: Axes) -> None:
    axes.bar(["a", "b"], [1, 2])
    axes.set_title(HOSTILE)


def test_every_value_is_escaped() -> None:
    page = Page(HOSTILE)
    page.section(HOSTILE)
    page.text(HOSTILE)
    page.note(HOSTILE, "bad")
    page.table([HOSTILE], [[HOSTILE]])
    page.figure(HOSTILE, bars, alt=HOSTILE)
    read = Reader(page.html())
    assert not read.all("script")
    assert read.said.count(HOSTILE) == 7
    assert read.all("img")[0]["alt"] == HOSTILE


def test_nothing_is_loaded_from_anywhere() -> None:
    page = Page("Load")
    page.figure("Rows per partition", bars)
    html = page.html()
    assert "http" not in html.replace("http-equiv", "")
    (image,) = Reader(html).all("img")
    source = image["src"] or ""
    assert image["alt"] == "Rows per partition"
    assert base64.b64decode(source.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")


def test_numbers_stand_to_the_right_and_missing_ones_are_dashes() -> None:
    page = Page("Load")
    page.table(["key", "rows", "share"], [["a", 1234567, 0.5], ["b", None, 2.0]])
    html = page.html()
    assert "<td>a</td><td class=number>1,234,567</td><td class=number>0.50</td>" in html
    assert "<td>b</td><td class=number>\N{EN DASH}</td>" in html


def test_an_empty_table_has_its_headers() -> None:
    page = Page("Load")
    page.table(["key", "rows"], [])
    assert len(Reader(page.html()).all("th")) == 2


def test_paragraphs_are_parted_by_an_empty_line() -> None:
    page = Page("Load")
    page.text("one\nand\n\n\n\ntwo")
    assert re.findall("<p>(.*?)</p>", page.html(), re.DOTALL) == ["one\nand", "two"]


def test_without_matplotlib_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.console.pictures.find_spec", lambda name: None)
    page = Page("Load")
    page.figure("Rows per partition", bars)
    assert "Rows per partition (No picture: matplotlib is not installed.)" in page.html()


def test_no_display_is_asked_for() -> None:
    Page("Load").figure("Rows", bars)
    assert "matplotlib.pyplot" not in sys.modules


def test_save(tmp_path: Path) -> None:
    page = Page("Größe")
    page.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page.html()
    with pytest.raises(UsageError, match=r"can't be written to .*: No such file or directory\."):
        page.save(tmp_path / "missing" / "report.html")
