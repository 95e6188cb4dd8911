"""Look-ups for records: what fails is not tried for each record, and schemas of any size don't hold the event loop."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from aioprod.errors import SerializationError
from aioprod.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    Reference,
    RegistryUnreachableError,
    Schema,
    SchemaRegistry,
    UnknownSchemaError,
    avro,
    json_schema,
)
from aioprod.schema_registry.caches import LruCache
from aioprod.schema_registry.deserializing import Decode, RegistryDeserializer
from aioprod.schema_registry.failures import Failures
from aioprod.schema_registry.framing import id_prefix
from aioprod.schema_registry.references import referenced
from aioprod.testing import FakeSchemaRegistry
from tests.support.registry_calls import Clock
from tests.support.registry_scenarios import result
from tests.support.registry_schemas import ORDER


async def test_an_unknown_schema_is_looked_up_once_in_ten_seconds(fake_schema_registry: FakeSchemaRegistry) -> None:
    clock = Clock()
    async with SchemaRegistry(fake_schema_registry.url, clock=clock) as registry:
        reader = AvroDeserializer(registry)
        for count in (1, 2):
            for _ in range(5):
                with pytest.raises(UnknownSchemaError, match="has no such schema for schema id 7") as raised:
                    await result(reader.deserialize("t", [], id_prefix(7)))
                assert raised.value.code == 40403
            assert fake_schema_registry.requests == {"GET /schemas/ids/7": count}
            clock.now += 10


async def test_a_schema_that_is_refused_is_parsed_once_in_ten_seconds(registry: SchemaRegistry) -> None:
    class Refusing(RegistryDeserializer):
        _type = "AVRO"
        parsed = 0

        async def _decoder(self, schema: Schema) -> tuple[Decode, int]:
            self.parsed += 1
            raise SerializationError("It is refused.") from ValueError("the cause")

    known = await registry.register("t-value", Schema(ORDER))
    reader = Refusing(registry)
    for _ in range(3):
        with pytest.raises(SerializationError, match=r"It is refused\."):
            await result(reader.deserialize("t", [], id_prefix(known.id)))
    assert reader.parsed == 1


async def test_a_registry_that_is_down_is_asked_again(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    data = await result(AvroSerializer(registry, ORDER).serialize("t", [], {"id": 1}))
    reader = AvroDeserializer(registry)
    fake_schema_registry.down()
    with pytest.raises(RegistryUnreachableError):
        await result(reader.deserialize("t", [], data))
    fake_schema_registry.up()
    assert await result(reader.deserialize("t", [], data)) == {"id": 1}


async def test_at_most_a_hundred_look_ups_fail_in_ten_seconds() -> None:
    clock = Clock()

    async def pause(seconds: float) -> None:
        clock.now += seconds

    failures = Failures(clock, pause)
    for number in range(1_000):
        await failures.turn()
        failures.put(number, SerializationError("It is unknown."))
    assert clock.now == 190
    failures.check(899)
    with pytest.raises(SerializationError, match="It is unknown"):
        failures.check(900)


@pytest.mark.parametrize("kind", ["avro", "json"])
async def test_schemas_are_parsed_in_a_thread(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A serializer that is made checks its schema where it is made, and not again there."""
    module, name = (avro, "parsed") if kind == "avro" else (json_schema, "_checker")
    parse: Any = getattr(module, name)
    threads: list[int] = []

    def watched(*given: Any) -> Any:
        threads.append(threading.get_ident())
        return parse(*given)

    monkeypatch.setattr(module, name, watched)
    serializer: Any = AvroSerializer(registry, ORDER) if kind == "avro" else JsonSchemaSerializer(registry, "{}")
    threads.clear()
    data = await result(serializer.serialize("t", [], {"id": 1}))
    reader: Any = AvroDeserializer(registry) if kind == "avro" else JsonSchemaDeserializer(registry)
    assert await result(reader.deserialize("t", [], data)) == {"id": 1}
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_schemas_have_a_largest_size(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    fake_schema_registry.register("half", json.dumps({"description": "x" * 524_000}), "JSON")
    half, other = Reference("half", "half", 1), Reference("other", "half", 1)
    assert list(await referenced(registry, Schema("{}", "JSON", (half,)))) == ["half"]
    for schema in (Schema(" " * 1_048_577), Schema("{}" * 500, "JSON", (half, other))):
        with pytest.raises(SerializationError, match="with those that it refers to, has more than 1048576 characters"):
            await referenced(registry, schema)


def test_a_cache_of_values_of_many_sizes() -> None:
    cache: LruCache[int, str] = LruCache(3, 100)
    for key, size in ((1, 40), (2, 40), (1, 50), (3, 10)):
        cache.put(key, "x", size)
    assert [cache.get(key) for key in (1, 2, 3)] == ["x", "x", "x"]
    cache.put(4, "x", 20)
    assert [cache.get(key) for key in (1, 2, 3, 4)] == [None, "x", "x", "x"]
    cache.put(5, "large", 1_000)
    assert [cache.get(key) for key in (2, 3, 4, 5)] == [None, None, None, "large"]
    cache.put(6, "x", 1)
    assert [cache.get(key) for key in (5, 6)] == [None, "x"]
