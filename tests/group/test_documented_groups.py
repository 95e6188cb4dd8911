"""The worked examples of the documents, with their results, or Java's where these are others."""

from __future__ import annotations

import pytest

from aioprod.group.assignors import ASSIGNORS, compare
from tests.support.assignments import parsed, short
from tests.support.documented_groups import EXAMPLES, Example


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.name))
def test_a_worked_example(example: Example) -> None:
    for name in example.assignors:
        assert short(ASSIGNORS[name].assign(example.topics, example.members)) == example.result, name


@pytest.mark.parametrize(
    "example", [example for example in EXAMPLES if example.document], ids=lambda each: str(each.name)
)
def test_where_java_differs_it_is_as_good(example: Example) -> None:
    assert example.document is not None
    before = {member: said.owned for member, said in example.members.items()}
    java, document = (
        compare(before, {member: parsed(text) for member, text in result.items()})
        for result in (example.result, example.document)
    )
    assert (java.after.loads, java.kept, java.moved) == (document.after.loads, document.kept, document.moved)
