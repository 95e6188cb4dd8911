"""Regular expressions that each release of Python 3.11 understands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import aioprod

ROOT = Path(aioprod.__file__).parent
POSSESSIVE = re.compile(r"(?<!\\)[*+?}]\+|\(\?>")


def patterns() -> Iterator[tuple[Path, str]]:
    """The texts that aioprod compiles, each with its module."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
                for argument in node.args[:1]:
                    for part in ast.walk(argument):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str):
                            yield path, part.value


def test_no_pattern_is_possessive() -> None:
    """Python 3.11.2, which Debian 12 has, finds nothing with a possessive group."""
    found = list(patterns())
    assert len(found) > 20
    assert [(path.name, pattern) for path, pattern in found if POSSESSIVE.search(pattern)] == []


def test_possessive_patterns_are_recognized() -> None:
    texts = [r"a*+", r"(b)++", r"c?+", r"d{2}+", r"(?>e)", r"f*", r"\*+", r"(?:g+)"]
    assert [text for text in texts if POSSESSIVE.search(text)] == texts[:5]
