"""Avro: the parts of a value are bounded by the record's bytes, or the schema is refused."""

from __future__ import annotations

import inspect
import json
import random
import threading
from io import BytesIO
from typing import Any

import pytest
from fastavro import schemaless_reader

from aioprod.errors import ConfigError, SerializationError
from aioprod.schema_registry import AvroDeserializer, AvroSerializer, Schema, SchemaRegistry
from aioprod.schema_registry.avro_parts import IN_LINE_MAX, Parts
from aioprod.schema_registry.avro_reading import InterruptibleBytes
from aioprod.schema_registry.avro_schemas import parsed
from aioprod.schema_registry.deserializing import Decode, RegistryDeserializer
from aioprod.schema_registry.framing import id_prefix
from aioprod.testing import FakeSchemaRegistry
from tests.support.registry_scenarios import result


def record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{place}", "type": kind} for place, kind in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def laughs(levels: int, leaf: Any = "null", **field: Any) -> dict[str, Any]:
    """A type whose value has 2 ** levels leaves."""
    types = record("L0", leaf)
    for level in range(1, levels + 1):
        types = record(f"L{level}", types, f"L{level - 1}")
        for each in types["fields"]:
            each.update(field)
    return types


async def deserialized(registry: SchemaRegistry, types: Any, payload: bytes, wanted: Any = None) -> Any:
    known = await registry.register(f"subject-{types!r}"[:200], Schema(json.dumps(types)))
    reader = AvroDeserializer(registry, None if wanted is None else json.dumps(wanted))
    return await result(reader.deserialize("t", [], id_prefix(known.id) + payload))


@pytest.mark.parametrize(
    ("types", "words"),
    [
        (laughs(20), r"its value has 3\.15e\+06 parts that take no bytes, and 10000 is the limit"),
        (laughs(60), "parts that take no bytes"),
        ([record("R0", "null"), *(record(f"R{n + 1}", f"R{n}", f"R{n}") for n in range(1_100))], r"1e\+18 parts that"),
        ({"type": "array", "items": record("A", laughs(4), "int")}, "has 48 parts for each byte, and 8 is the limit"),
        ({"type": "map", "values": laughs(4)}, "has 47 parts for each byte"),
        (record("N", ["null", "N"], *["null"] * 20), "a type inside itself, has 22 parts for each byte"),
        ([record(f"R{number}") for number in range(10_001)], "it defines more than 10000 types"),
    ],
    ids=["tree", "large tree", "more than a float", "items", "values", "inside itself", "types"],
)
async def test_parts_that_no_byte_pays_for(registry: SchemaRegistry, types: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        AvroSerializer(registry, json.dumps(types))
    with pytest.raises(SerializationError, match=words):
        await deserialized(registry, types, b"")


async def test_defaults_that_a_reader_adds(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match="parts that take no bytes"):
        AvroDeserializer(registry, json.dumps(laughs(20, "int", default={})))
    lines = record("Line", *["int"] * 1_001)
    for field in lines["fields"]:
        field["default"] = 7
    with pytest.raises(SerializationError, match=r"gives an item of an array or map, .* up to 1e"):
        await deserialized(registry, record("L"), b"", {"type": "array", "items": lines})
    lines["fields"] = lines["fields"][:1000]
    value = await deserialized(
        registry, {"type": "array", "items": record("Line", "int")}, b"\2\2\0", {"type": "array", "items": lines}
    )
    assert len(value[0]) == 1_000


def defaulting(name: str, items: Any, default: Any) -> dict[str, Any]:
    """A record with an array, which is that default."""
    types = record(name, {"type": "array", "items": items})
    types["fields"][0]["default"] = default
    return types


@pytest.mark.parametrize(
    ("types", "words"),
    [
        (defaulting("A", "A", [{}]), "its defaults are nested more than 100 deep"),
        (defaulting("A", defaulting("B", "int", [1] * 200), [{}] * 200), "its defaults are more than 10000 values"),
        (
            [defaulting("A0", "int", []), *(defaulting(f"A{n + 1}", f"A{n}", [{}]) for n in range(60))],
            "its defaults are nested more than 100 deep",
        ),
    ],
    ids=["without an end", "of many", "a chain"],
)
async def test_defaults_that_are_written(registry: SchemaRegistry, types: Any, words: str) -> None:
    """fastavro's compiled writer would take all memory, or exhaust the stack, which ends the process."""
    await registry.register("t-value", Schema(json.dumps(types)))
    with pytest.raises(SerializationError, match=words):
        await result(AvroSerializer(registry, use_latest=True).serialize("t", [], {}))


async def test_ordinary_defaults_are_written(registry: SchemaRegistry) -> None:
    inner = defaulting("B", "int", [1, 2])
    types = defaulting("A", ["null", inner], [{}, None, {"f0": [3]}])
    data = await result(AvroSerializer(registry, json.dumps(types)).serialize("t", [], {}))
    assert await result(AvroDeserializer(registry).deserialize("t", [], data)) == {
        "f0": [{"f0": [1, 2]}, None, {"f0": [3]}]
    }


@pytest.mark.parametrize(("items", "count"), [("null", 10_000), (record("Nulls", *["null"] * 9), 1_000)])
async def test_items_without_bytes_up_to_a_number(registry: SchemaRegistry, items: Any, count: int) -> None:
    """What is written can be read: the same limit, in all arrays of a value together."""
    types = {"type": "array", "items": {"type": "array", "items": items}}
    serializer = AvroSerializer(registry, json.dumps(types))
    item = None if items == "null" else {f"f{place}": None for place in range(9)}
    value = [[item] * (count // 2)] * 2
    data = await result(serializer.serialize("t", [], value))
    assert await result(AvroDeserializer(registry).deserialize("t", [], data)) == value
    with pytest.raises(SerializationError, match="can't be read again: its arrays have too many items that take no"):
        serializer.serialize("t", [], [*value, [item] * 20])


def count_of(value: Any) -> int:
    """Values in a value of Avro."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count_of, inner))


class Generated:
    """Draws types of any kind, with many that take no bytes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names: list[str] = []

    def types(self, depth: int = 4) -> Any:
        draw = self._random.random()
        if depth == 0 or draw < 0.35:
            named = self._names and self._random.random() < 0.5
            return self._random.choice(self._names if named else ["null", "int", "string", "double", "boolean"])
        if draw < 0.5:
            return {"type": "array", "items": self.types(depth - 1)}
        if draw < 0.6:
            return {"type": "map", "values": self.types(depth - 1)}
        if draw < 0.7:
            return ["null", {"type": "array", "items": self.types(depth - 1)}]
        name = f"R{len(self._names)}"
        self._names.append(name)
        return record(name, *(self.types(depth - 1) for _ in range(self._random.randint(0, 4))))

    def payload(self) -> bytes:
        return bytes(self._random.choice([0, 0, 2, 2, 4, 6, 60]) for _ in range(self._random.randint(0, 40)))


def test_generated_types_keep_to_the_rule() -> None:
    """Parts of a value <= those in line, and for each byte the most of a unit and one that the byte is."""
    read = refused = 0
    for seed in range(400):
        generated = Generated(seed)
        try:
            avro = parsed(Schema(json.dumps(generated.types())), {})
        except SerializationError:
            refused += 1
            continue
        if avro.free_items_max is not None:
            continue
        in_line, units = Parts(avro.types, counts_defaults=False).counted()
        of_a_byte = max((-(-parts // taken) for parts, taken in units), default=0)
        assert in_line <= IN_LINE_MAX
        assert of_a_byte <= 9
        for _ in range(20):
            payload = generated.payload()
            source = BytesIO(payload)
            try:
                value = schemaless_reader(source, avro.types, None)
            except Exception:
                continue
            read += 1
            assert count_of(value) <= in_line + (of_a_byte + 1) * source.tell(), (seed, avro.types, payload)
    assert read > 300
    assert refused > 20


@pytest.mark.parametrize("name", ["A\x1b]0;evil\x07\nERROR", "A" * 100_000])
async def test_names_in_errors_are_printable_and_short(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, name: str
) -> None:
    """A registry may have names that no Avro library takes."""
    for types, payload in ((record(name, "int"), b""), (record(name, "missing"), b""), (record("R", "int"), b"")):
        types["fields"][0]["name"] = name
        fake_schema_registry.fail(200, content={"schema": json.dumps(types)})
        with pytest.raises(SerializationError) as raised:
            await result(AvroDeserializer(registry).deserialize("t", [], id_prefix(1) + payload))
        assert str(raised.value).isprintable()
        assert len(str(raised.value)) < 1_500


async def test_a_large_record_is_decoded_in_a_thread(registry: SchemaRegistry) -> None:
    class Threads(RegistryDeserializer):
        _type = "AVRO"

        async def _decoder(self, schema: Schema) -> tuple[Decode, int]:
            return (lambda _: threading.get_ident()), 0

    known = await registry.register("t-value", Schema('"string"'))
    reader = Threads(registry)
    small, large = (id_prefix(known.id) + bytes(size) for size in (65_536, 65_537))
    assert await result(reader.deserialize("t", [], small)) == threading.get_ident()
    assert reader.deserialize("t", [], small) == threading.get_ident(), "the schema is known"
    pending = reader.deserialize("t", [], large)
    assert inspect.isawaitable(pending)
    assert await pending != threading.get_ident()


async def test_a_large_value(registry: SchemaRegistry) -> None:
    value = list(range(50_000))
    types = '{"type": "array", "items": "int"}'
    data = await result(AvroSerializer(registry, types).serialize("t", [], value))
    assert await result(AvroDeserializer(registry).deserialize("t", [], data)) == value


def test_the_reader_in_a_thread_lets_others_run() -> None:
    """Each of its reads is a call of Python's, at which the thread may be changed."""

    class Counted(InterruptibleBytes):
        calls = 0

        def read(self, size: int | None = -1) -> bytes:
            self.calls += 1
            return super().read(size)

    source = Counted(b"\x14" + b"\2" * 10 + b"\0")
    assert schemaless_reader(source, {"type": "array", "items": "int"}, None) == [1] * 10
    assert source.calls >= 12
