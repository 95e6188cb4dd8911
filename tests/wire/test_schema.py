from __future__ import annotations

import copy
import dataclasses
import pickle
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


class Leader(Struct):
    id: int = wire(INT32, default=-1)


class Other(Struct):
    id: int = wire(INT32, default=-1)


class Farther(Leader):
    rack: str = wire(STRING)


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


EXAMPLE = Example(name="a", numbers=(1, 2), leader=Leader(id=3))


def test_fields_are_given_by_name() -> None:
    assert (EXAMPLE.name, EXAMPLE.numbers, EXAMPLE.leader.id, EXAMPLE.count) == ("a", (1, 2), 3, 0)
    with pytest.raises(TypeError):
        Leader(3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Leader has no field 'ID', 'count'\."):
        Leader(ID=3, count=4)  # type: ignore[call-arg]


def test_instances_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'id'"):
        EXAMPLE.leader.id = 4  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'id'"):
        del EXAMPLE.leader.id
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'other'"):
        EXAMPLE.other = 4  # type: ignore[attr-defined]
    assert not hasattr(EXAMPLE, "__dict__")


def test_instances_are_equal_when_class_and_fields_are() -> None:
    twin = Example(name="a", numbers=(1, 2), leader=Leader(id=3))
    assert twin == EXAMPLE
    assert hash(EXAMPLE) == hash(twin)
    assert Example(name="b") != Example(name="a")
    assert Leader(id=3) != Other(id=3)
    assert Leader(id=3) != 3


def test_how_an_instance_is_shown() -> None:
    assert repr(Leader(id=3)) == "Leader(id=3)"
    assert repr(EXAMPLE).startswith("Example(name='a', count=0, numbers=(1, 2), maybe=None, leader=Leader(id=3), data=")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_instances_can_be_pickled(protocol: int) -> None:
    assert pickle.loads(pickle.dumps(EXAMPLE, protocol)) == EXAMPLE


def test_instances_can_be_copied() -> None:
    assert copy.copy(EXAMPLE) == copy.deepcopy(EXAMPLE) == EXAMPLE


def test_the_functions_for_dataclasses_know_structs() -> None:
    assert dataclasses.is_dataclass(EXAMPLE)
    assert dataclasses.replace(EXAMPLE, count=7) == Example(name="a", count=7, numbers=(1, 2), leader=Leader(id=3))
    assert dataclasses.asdict(EXAMPLE.leader) == {"id": 3}
    assert [field.name for field in dataclasses.fields(Example)] == [field.name for field in fields_of(Example)]


def test_a_struct_that_derives_from_another_has_its_fields_first() -> None:
    assert [field.name for field in fields_of(Farther)] == ["id", "rack"]
    assert Farther(rack="a") == Farther(id=-1, rack="a")
