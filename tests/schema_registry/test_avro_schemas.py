"""Avro schemas: types of other schemas put in place, and those that untrusted bytes could turn against the reader."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections import UserList, deque
from decimal import Decimal
from typing import Any

import pytest
from fastavro.read import LOGICAL_READERS

from aioprod.errors import ConfigError, SerializationError
from aioprod.schema_registry import AvroDeserializer, AvroSerializer, Reference, Schema, SchemaRegistry
from aioprod.schema_registry.avro_schemas import parsed
from tests.support.registry_scenarios import result

LIST = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "name", "type": "string"}, {"name": "inside", "type": {"type": "array", "items": "Tree"}}],
}


def record(name: str, *types: Any, **more: Any) -> dict[str, Any]:
    """A record of these types, in fields f0, f1, ..."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{place}", "type": kind} for place, kind in enumerate(types)],
        **more,
    }


def schema(types: Any, *references: Reference) -> Schema:
    return Schema(json.dumps(types), references=references)


def linked(length: int) -> dict[str, Any]:
    """A value of LIST that is this long."""
    value: dict[str, Any] = {"next": None}
    for _ in range(length):
        value = {"next": value}
    return value


def length_of(value: dict[str, Any]) -> int:
    """How long a value of LIST is; comparing it with another would take stack for each of its levels."""
    length = 0
    while value["next"] is not None:
        value, length = value["next"], length + 1
    return length


async def there_and_back(registry: SchemaRegistry, types: Any, value: Any) -> Any:
    given = types if isinstance(types, Schema) else schema(types)
    data = await result(AvroSerializer(registry, given).serialize("t", [], value))
    return await result(AvroDeserializer(registry).deserialize("t", [], data))


async def framed(registry: SchemaRegistry, types: Any, payload: bytes) -> bytes:
    """A record of a registered schema with this payload."""
    known = await registry.register("t-value", schema(types))
    return b"\0" + known.id.to_bytes(4, "big") + payload


@pytest.mark.parametrize("length", [1, 100, 199])
async def test_values_inside_themselves(registry: SchemaRegistry, length: int) -> None:
    assert await there_and_back(registry, LIST, linked(length)) == linked(length)


async def test_a_wide_tree_of_many_bytes(registry: SchemaRegistry) -> None:
    tree = {"name": "root", "inside": [{"name": f"leaf {place}", "inside": []} for place in range(5_000)]}
    assert await there_and_back(registry, TREE, tree) == tree


@pytest.mark.parametrize("payload", [b"\x02" * 8_000 + b"\0", b"\x02" * 1_000_000])
async def test_bytes_that_nest_too_deeply(registry: SchemaRegistry, payload: bytes) -> None:
    data = await framed(registry, LIST, payload)
    with pytest.raises(SerializationError, match="its value of the Avro schema N is nested too deeply"):
        await result(AvroDeserializer(registry).deserialize("t", [], data))


async def test_every_length_of_nested_bytes_ends_in_a_value_or_an_error(registry: SchemaRegistry) -> None:
    data = await framed(registry, LIST, b"")
    deserializer = AvroDeserializer(registry)
    for length in [*range(249), *range(249, 4_000, 37)]:
        encoded = data + b"\x02" * length + b"\0"
        if length < 249:
            assert length_of(await result(deserializer.deserialize("t", [], encoded))) == length
        else:
            with contextlib.suppress(SerializationError):
                assert length_of(await result(deserializer.deserialize("t", [], encoded))) == length


@pytest.mark.parametrize("length", [201, 50_000])
async def test_values_that_are_nested_too_deeply(registry: SchemaRegistry, length: int) -> None:
    value = linked(length)
    with pytest.raises(SerializationError, match="nested more than 200 deep"):
        await there_and_back(registry, LIST, value)


@pytest.mark.parametrize("kind", [list, deque, UserList])
async def test_sequences_that_are_nested_too_deeply(registry: SchemaRegistry, kind: Any) -> None:
    value = {"name": "leaf", "inside": kind()}
    for _ in range(20_000):
        value = {"name": "more", "inside": kind([value])}
    with pytest.raises(SerializationError, match="nested more than 200 deep"):
        await there_and_back(registry, TREE, value)


def test_the_default_of_a_field_is_not_nested_too_deeply() -> None:
    default = '{"next":' * 201 + "null" + "}" * 201
    text = '{"type":"record","name":"A","fields":[{"name":"f","type":%s,"default":%s}]}'
    with pytest.raises(SerializationError, match=r"nested more than 200 deep"):
        parsed(Schema(text % (json.dumps(LIST), default)), {})


async def test_a_small_stack_is_enough(registry: SchemaRegistry) -> None:
    """Of the compiled code of fastavro, which would end the process: so it runs in one of its own."""
    program = "\n".join(
        [
            "import asyncio, threading",
            "from tests.schema_registry import test_avro_schemas as tests",
            "from aioprod.schema_registry import SchemaRegistry",
            "from aioprod.testing import FakeSchemaRegistry",
            "async def all_lengths():",
            "    with FakeSchemaRegistry() as fake:",
            "        async with SchemaRegistry(fake.url) as registry:",
            "            await tests.test_values_inside_themselves(registry, 199)",
            "            await tests.test_every_length_of_nested_bytes_ends_in_a_value_or_an_error(registry)",
            "threading.stack_size(1 << 20)",
            "thread = threading.Thread(target=lambda: asyncio.run(all_lengths()))",
            "thread.start()",
            "thread.join()",
            "print('done')",
        ]
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


async def test_a_value_that_contains_itself(registry: SchemaRegistry) -> None:
    circle: dict[str, Any] = {}
    circle["next"] = circle
    with pytest.raises(SerializationError, match="nested more than 200 deep"):
        await there_and_back(registry, LIST, circle)


@pytest.mark.parametrize(
    "types",
    [
        record("N", "N"),
        record("A", record("B", "A")),
        record("A", ["null", record("B", "A")], "B"),
        {"type": "array", "items": record("N", "null", "N")},
    ],
)
async def test_a_type_without_an_end(registry: SchemaRegistry, types: Any) -> None:
    with pytest.raises(ConfigError, match=r"can't be used: its type '\w' contains itself without an end\."):
        AvroSerializer(registry, schema(types))
    data = await framed(registry, types, b"")
    with pytest.raises(SerializationError, match="contains itself without an end"):
        await result(AvroDeserializer(registry).deserialize("t", [], data))


@pytest.mark.parametrize(
    "items",
    ["null", record("Nothing"), record("Nulls", "null", record("Void")), {"type": "fixed", "name": "F", "size": 0}],
)
async def test_items_that_take_no_bytes(registry: SchemaRegistry, items: Any) -> None:
    data = await framed(registry, {"type": "array", "items": items}, b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\0")
    with pytest.raises(SerializationError, match="too many items that take no bytes"):
        await result(AvroDeserializer(registry).deserialize("t", [], data))


@pytest.mark.parametrize(
    "types", [{"type": "bytes"}, {"type": "fixed", "name": "F", "size": 300_000}], ids=lambda types: str(types["type"])
)
async def test_decimals_of_very_many_digits(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch, types: dict[str, Any]
) -> None:
    number = {**types, "logicalType": "decimal", "precision": 20, "scale": 2}
    length = b"\xc0\xcf\x24" if types["type"] == "bytes" else b""
    data = await framed(registry, record("A", ["null", number]), b"\2" + length + b"\x7f" * 300_000)
    made: list[object] = []
    monkeypatch.setitem(LOGICAL_READERS, f"{types['type']}-decimal", lambda data, *_: made.append(data))
    with pytest.raises(SerializationError, match="a decimal has 300000 bytes, and 1024 is the limit"):
        await result(AvroDeserializer(registry).deserialize("t", [], data))
    assert not made, "that would take several seconds"


async def test_decimals(registry: SchemaRegistry) -> None:
    types = record("A", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2})
    value = {"f0": Decimal("-123456789012345678.25")}
    assert await there_and_back(registry, types, value) == value
    data = await framed(registry, types, b"\2\5")
    assert await result(AvroDeserializer(registry, schema(types)).deserialize("t", [], data)) == {"f0": Decimal("0.05")}


@pytest.mark.parametrize(
    ("types", "depth", "per_byte"),
    [
        ("string", 1, 1),
        ({"type": "array", "items": "int"}, 2, 1),
        (record("A", "null", record("B", ["null", "int"])), 4, 3),
        (record("A", record("B", "int"), "B"), 3, 3),
        ([record("A", "int"), record("B", "A", "A")], 4, 3),
        (LIST, None, 2),
        (TREE, None, 2),
        (record("A", {"type": "map", "values": record("B", ["null", "A"])}), None, 2),
    ],
)
def test_depths(types: Any, depth: int | None, per_byte: int) -> None:
    avro = parsed(schema(types), {})
    assert (avro.depth, avro.depth_per_byte) == (depth, per_byte)


def test_a_long_chain_of_types_has_its_depth() -> None:
    chain = [record("R0", "int"), *(record(f"R{place}", f"R{place - 1}") for place in range(1, 3_000))]
    assert parsed(schema(chain), {}).depth == 3_002


@pytest.mark.parametrize("types", ["$root", {"type": "array", "items": "$root"}, "Missing", ["null", "Missing"]])
def test_a_name_that_nothing_defines(types: Any) -> None:
    with pytest.raises(SerializationError, match=r"it mentions '(\$root|Missing)', which it does not define"):
        parsed(schema(types), {})


@pytest.mark.parametrize(
    "types",
    [
        None,
        5,
        {},
        {"type": 5},
        {"type": ["null"]},
        {"type": {"type": "array"}},
        {"type": "array"},
        {"type": "record", "name": 5, "fields": []},
        {"type": "record", "name": "A", "fields": 5},
        {"type": "record", "name": "A", "fields": ["a"]},
        {"type": "fixed", "name": "F", "size": "big"},
        {"type": "enum", "name": "E"},
        {"type": "record", "name": "A", "fields": [], "__fastavro_parsed": True, "__named_schemas": 5, "aliases": 5}
        | {"fields": [5]},
        [record("A"), record("A")],
    ],
)
def test_what_is_no_schema(types: Any) -> None:
    with pytest.raises(SerializationError, match=r"it (is not valid|mentions|defines 'A' twice)"):
        parsed(schema(types), {})


@pytest.mark.parametrize("depth", [600, 100_000])
def test_types_that_are_nested_too_deeply(depth: int) -> None:
    text = '{"type":"array","items":' * depth + '"int"' + "}" * depth
    with pytest.raises(SerializationError, match=r"its types are nested too deeply\."):
        parsed(Schema(text), {})


def placed(types: Any, **others: Any) -> Any:
    avro = parsed(schema(types), {name: schema(other) for name, other in others.items()})
    return {key: value for key, value in avro.types.items() if not key.startswith("__")}


def test_each_type_of_another_schema_is_placed_once() -> None:
    types = placed(record("A", "b.B", "b.B"), one=record("B", "int", namespace="b"))
    assert [field["type"] for field in types["fields"]] == [
        {"type": "record", "name": "b.B", "fields": [{"name": "f0", "type": "int"}]},
        "b.B",
    ]


def test_a_type_keeps_its_namespace_where_it_is_placed() -> None:
    types = placed(record("A", "other.C", namespace="here"), one=record("other.C", record("D", "int")))
    inner = types["fields"][0]["type"]
    assert (types["name"], inner["name"], inner["fields"][0]["type"]["name"]) == ("here.A", "other.C", "other.D")


def test_types_inside_those_of_another_schema_are_known() -> None:
    types = placed(record("A", "D", "C"), one=record("C", record("D", "int")))
    first, second = (field["type"] for field in types["fields"])
    assert first["name"] == "D"
    assert second["fields"][0]["type"] == "D"


def test_schemas_that_refer_to_each_other_in_a_circle() -> None:
    avro = parsed(
        schema(["null", "B"]),
        {"B": schema(record("B", ["null", "C"])), "C": schema(record("C", ["null", "B"]))},
    )
    assert avro.depth is None


def test_attributes_of_other_types_are_left_alone() -> None:
    symbols = {"type": "enum", "name": "E", "symbols": ["A"], "values": "one of them", "items": ["x"], "fields": 1}
    assert placed(record("A", symbols))["fields"][0]["type"]["symbols"] == ["A"]


async def test_references_of_values_that_are_no_records(registry: SchemaRegistry) -> None:
    await registry.register("b", schema(record("b.B", "int")))
    types = schema({"type": "map", "values": ["null", "b.B"]}, Reference("b.B", "b", 1))
    value = {"one": {"f0": 1}, "none": None}
    assert await there_and_back(registry, types, value) == value
