"""Each text that the page quotes is one of aioprod's: its parts stand in one literal of the code, in this order."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aioprod import Member, Producer, TopicPartition
from tests.support.snippets import DOCS, ROOT

QUOTED = re.findall(r"^### `(.+)`$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
HOLE = "\0"
OF_PYTHON = re.findall(r"^\| `(.+?)`.* \| .+ \|$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)


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


@pytest.mark.parametrize(
    "call",
    [
        lambda producer, member: producer.send("t", b"v", b"k"),
        lambda producer, member: producer.submit("t", b"v", b"k"),
        lambda producer, member: producer.send_nowait("t", b"v", b"k"),
        lambda producer, member: producer.send_nowait("t", b"v", callback=print),
        lambda producer, member: member.batches(timeout_ms=100),
        lambda producer, member: member.commit(TopicPartition("t", 0), 5),
        lambda producer, member: member.subscribe(["t"], on_assign=print),
    ],
)
def test_an_error_of_pythons_is_on_the_page(call: Callable[[Any, Any], object]) -> None:
    with pytest.raises(TypeError) as caught:
        call(Producer("h:1"), Member("h:1", group_id="g", topics="t"))
    text = re.sub(r"\b(submit|send_nowait)(?=\(\) takes)", "send", str(caught.value))
    assert [one for one in OF_PYTHON if re.search(".*".join(map(re.escape, one.split("…"))), text)]


def test_a_text_that_nobody_writes_is_noticed() -> None:
    assert quoted_from("Topic … went for a walk.") is None
    assert quoted_from("Topic … does not exist, and the cluster does not create it.") is not None
