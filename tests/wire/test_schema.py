from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from aioprod.wire.schema import (
    BYTES,
    INT32,
    RECORDS,
    STRING,
    UUID,
    ZERO_UUID,
    Message,
    Struct,
    WireField,
    array,
    fields_of,
    span,
    wire,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader(Struct):
    id: int = wire(INT32, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(Message):
    NAME = "Example"
    VERSIONS = (0, 5)
    FLEXIBLE = 2

    name: str | None = wire(STRING, "1-4", nullable="3+", default=None, ignorable=True)
    count: int = wire(INT32)
    numbers: tuple[int, ...] = wire(array(INT32))
    maybe: tuple[int, ...] | None = wire(array(INT32), nullable="0+", default=None)
    leader: Leader = wire(Leader, "2+", tag=0)
    data: bytes = wire(BYTES)
    records: bytes | None = wire(RECORDS, nullable="0+")
    topic_id: Any = wire(UUID)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3+", (3, 4, 0x7FFF), (2, 0x8000)), ("0-12", (0, 12), (-1, 13)), ("6", (6,), (5, 7)), ("2-2", (2,), (1, 3))],
)
def test_spans(text: str, inside: tuple[int, ...], outside: tuple[int, ...]) -> None:
    assert all(version in span(text) for version in inside)
    assert not any(version in span(text) for version in outside)


def test_fields_are_listed_in_wire_order_with_what_was_declared() -> None:
    fields = fields_of(Example)
    assert [field.name for field in fields] == [
        "name", "count", "numbers", "maybe", "leader", "data", "records", "topic_id",
    ]  # fmt: skip
    assert fields[0] == WireField(
        name="name", type=STRING, versions=span("1-4"), nullable=span("3+"), tag=None, default=None, ignorable=True
    )
    assert fields[4].tag == 0
    assert fields_of(Example) is fields


def test_a_field_without_default_has_the_zero_value_of_its_type() -> None:
    example = Example()
    assert (example.count, example.numbers, example.data, example.records) == (0, (), b"", None)
    assert example.topic_id == ZERO_UUID
    assert example.leader == Leader(id=-1)


@pytest.mark.parametrize(
    ("name", "value", "is_default"),
    [
        ("name", None, True),
        ("name", "", False),
        ("count", 0, True),
        ("count", 1, False),
        ("numbers", (), True),
        ("numbers", [], True),
        ("numbers", [0], False),
        ("numbers", None, False),
        ("maybe", None, True),
        ("maybe", (), False),
        ("leader", Leader(id=-1), True),
        ("leader", Leader(id=0), False),
        ("records", b"", False),
    ],
)
def test_which_values_say_nothing(name: str, value: object, is_default: bool) -> None:
    field = next(field for field in fields_of(Example) if field.name == name)
    assert field.is_default(value) is is_default


def test_flexible_versions() -> None:
    assert [Example.is_flexible(version) for version in (0, 1, 2, 5)] == [False, False, True, True]
