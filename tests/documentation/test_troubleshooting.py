"""Each text that the page quotes is one of aioprod's: its parts stand in one literal of the code, in this order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.snippets import DOCS, ROOT

QUOTED = re.findall(r"^### `(.+)`$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
HOLE = "\0"


def pieces(text: ast.expr) -> str:
    """A literal with a hole for each value in it; a sum of literals as one."""
    match text:
        case ast.Constant(value=str(value)):
            return re.sub(r"%[-.\d]*[sdrf]|\{\w*(?:![rs])?\}", HOLE, value)
        case ast.JoinedStr(values=values):
            return "".join(pieces(value) for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return pieces(left) + pieces(right)
        case _:
            return HOLE


def literals() -> Iterator[str]:
    for path in (ROOT / "aioprod").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
                yield pieces(node)


LITERALS = sorted({text for text in literals() if " " in text})


def quoted_from(text: str) -> str | None:
    """The literal that has all parts of a quotation in order, or None."""
    pattern = re.compile(".*".join(re.escape(part.strip(" '")) for part in text.split("…")), re.DOTALL)
    return next((literal for literal in LITERALS if pattern.search(literal)), None)


def test_there_are_enough_of_them() -> None:
    assert len(QUOTED) == len(set(QUOTED)) > 50


@pytest.mark.parametrize("text", QUOTED)
def test_a_quoted_text_is_one_of_the_code(text: str) -> None:
    assert quoted_from(text) is not None, f"docs/troubleshooting.md: no text of aioprod/ is {text!r}."


def test_a_text_that_nobody_writes_is_noticed() -> None:
    assert quoted_from("Topic … went for a walk.") is None
    assert quoted_from("Topic … does not exist, and the cluster does not create it.") is not None
