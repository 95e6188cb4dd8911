"""Each promise in `docs/guarantees.md` names tests that try to break it, and they exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.snippets import ROOT

PAGE = ROOT / "docs" / "guarantees.md"
LINK = re.compile(r"\[(test_\w+)\]\(([^)#]+)\)")
WITHOUT = "No test:"
"""Stands with the reason in a line that nothing can try to break."""


def promises(text: str) -> list[str]:
    """The entries that begin with what is promised, or with where a promise ends."""
    return re.findall(r"^- \*\*.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)


def links(text: str) -> list[tuple[str, Path]]:
    """The tests that are named, and the files in which they should be."""
    return [(name, (PAGE.parent / path).resolve()) for name, path in LINK.findall(text)]


@cache
def names_in(path: Path) -> frozenset[str]:
    """The tests that pytest finds in a file."""
    tree = ast.parse(path.read_text())
    functions = (node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return frozenset(function.name for function in functions)


def faults(text: str) -> list[str]:
    """What is wrong with a page."""
    found = [f"{name} is not in {path.name}" for name, path in links(text) if name not in names_in(path)]
    alone = (each for each in promises(text) if not links(each) and WITHOUT not in each)
    return found + [f"nothing tries to break: {each.splitlines()[0]}" for each in alone]


def test_every_promise_names_tests_that_exist() -> None:
    text = PAGE.read_text()
    assert faults(text) == []
    assert len(promises(text)) > 40


def test_every_link_belongs_to_a_promise() -> None:
    text = PAGE.read_text()
    assert sum(len(links(each)) for each in promises(text)) == len(links(text))


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("- **All is well.** Always.\n", "nothing tries to break: - **All is well.** Always."),
        ("- **It ends.**\n  [test_none](../tests/examples/test_guarantees.py)\n", "test_none is not in"),
    ],
)
def test_what_is_missing_is_noticed(page: str, fault: str) -> None:
    good = "- **Good.**\n  [test_what_is_missing_is_noticed](../tests/examples/test_guarantees.py)\n"
    assert faults(good) == []
    [found] = faults(good + page + "\nMore.\n" + good)
    assert fault in found
