"""The pictures are those of the scripts, and their figures those of the results."""

from __future__ import annotations

import json
from statistics import median
from xml.etree import ElementTree

import pytest

from tests.support.snippets import DOCS
from tools.documentation.pictures import PICTURES
from tools.documentation.pictures.plots import RESULTS, measured


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_its_words_and_stays_within_its_frame(name: str) -> None:
    root = ElementTree.fromstring(PICTURES[name]().svg())
    _, _, width, height = (float(number) for number in root.attrib["viewBox"].split())
    names = {child.tag.rpartition("}")[2] for child in root}
    assert {"title", "desc"} <= names
    for child in root:
        for axis, limit in (("x", width), ("y", height), ("x2", width), ("y2", height)):
            assert 0 <= float(child.attrib.get(axis, 0)) <= limit, child.attrib


def test_each_picture_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    assert {name for name in PICTURES if f"images/{name})" not in text} == set()


def test_a_row_without_a_result_is_one_sentence() -> None:
    with pytest.raises(KeyError, match=r"has no row 'x' of 'y': the plot can't be drawn\."):
        measured({"entries": []}, "x", "y", "cpu_us")
    assert median(measured(json.loads(RESULTS.read_text()), "tasks", "aioprod", "cpu_us")) > 0
