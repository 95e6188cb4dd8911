"""What a schema registry does, as a client sees it: run against the fake one and against a real one.

Each scenario takes the registry and a prefix for its subjects and names, as no subject is deleted.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioprod.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Reference,
    Schema,
    SchemaRegistry,
    SchemaRejectedError,
    UnknownSchemaError,
    UnknownSubjectError,
)
from tests.support.registry_schemas import avro_record, json_schema, protobuf_messages

__all__ = ["SCENARIOS", "Scenario", "fresh_prefix", "result"]

Scenario = Callable[[SchemaRegistry, str], Awaitable[None]]


async def result(made: Any) -> Any:
    """What a serializer or deserializer returned, awaited if need be."""
    return await made if inspect.isawaitable(made) else made


async def a_schema_has_one_id(registry: SchemaRegistry, prefix: str) -> None:
    schema = Schema(avro_record("Order", prefix, id="int"))
    first = await registry.register(f"{prefix}-a", schema)
    found = await registry.find(f"{prefix}-a", schema)
    assert (found.id, found.version) == (first.id, 1)
    assert (await registry.register(f"{prefix}-b", schema)).id == first.id
    fetched = await registry.schema(first.id)
    assert fetched.type == "AVRO"
    assert '"Order"' in fetched.text
    assert {f"{prefix}-a", f"{prefix}-b"} <= set(await registry.subjects())


async def versions_of_a_subject(registry: SchemaRegistry, prefix: str) -> None:
    first = await registry.register(prefix, Schema(avro_record("Order", prefix, id="int")))
    wider = Schema(avro_record("Order", prefix, id="int", note=("string", "")))
    second = await registry.register(prefix, wider)
    assert first.id != second.id
    latest = await registry.latest(prefix)
    assert (latest.version, latest.id) == (2, second.id)
    assert (await registry.version(prefix, 1)).id == first.id
    assert (await registry.find(prefix, wider)).version == 2


async def what_is_unknown(registry: SchemaRegistry, prefix: str) -> None:
    schema = Schema(avro_record("Order", prefix, id="int"))
    with pytest.raises(UnknownSubjectError, match=prefix) as missing:
        await registry.find(prefix, schema)
    assert (missing.value.subject, missing.value.status, missing.value.code) == (prefix, 404, 40401)
    assert missing.value.reason
    with pytest.raises(UnknownSubjectError, match=prefix):
        await registry.latest(prefix)
    await registry.register(prefix, schema)
    with pytest.raises(UnknownSchemaError, match=prefix):
        await registry.find(prefix, Schema(avro_record("Other", prefix, id="int")))
    with pytest.raises(UnknownSchemaError, match="version 9"):
        await registry.version(prefix, 9)
    with pytest.raises(UnknownSchemaError, match="schema id 1234567"):
        await registry.schema(1_234_567)


async def an_incompatible_schema(registry: SchemaRegistry, prefix: str) -> None:
    await registry.register(prefix, Schema(avro_record("Order", prefix, id="int")))
    other = Schema(avro_record("Order", prefix, id="int", name="string"))
    assert not await registry.is_compatible(prefix, other)
    assert await registry.is_compatible(prefix, Schema(avro_record("Order", prefix, id="long")))
    with pytest.raises(SchemaRejectedError, match=prefix) as rejected:
        await registry.register(prefix, other)
    assert rejected.value.is_incompatible
    assert rejected.value.reason
    assert rejected.value.status == 409


async def an_invalid_schema(registry: SchemaRegistry, prefix: str) -> None:
    with pytest.raises(SchemaRejectedError, match=prefix) as rejected:
        await registry.register(prefix, Schema(avro_record("Order", prefix, id="nothing")))
    assert not rejected.value.is_incompatible
    assert rejected.value.reason


async def avro_with_references(registry: SchemaRegistry, prefix: str) -> None:
    await registry.register(f"{prefix}-address", Schema(avro_record("Address", prefix, street="string")))
    text = avro_record("Parcel", prefix, to=f"{prefix}.Address")
    schema = Schema(text, "AVRO", (Reference(f"{prefix}.Address", f"{prefix}-address", 1),))
    value = {"to": {"street": "a"}}
    data = await result(AvroSerializer(registry, schema).serialize(prefix, [], value))
    assert await result(AvroDeserializer(registry).deserialize(prefix, [], data)) == value


async def json_with_references(registry: SchemaRegistry, prefix: str) -> None:
    address = Schema(json_schema("Address", street={"type": "string"}), "JSON")
    await registry.register(f"{prefix}-address", address)
    text = json_schema("Parcel", to={"$ref": f"{prefix}.json"})
    schema = Schema(text, "JSON", (Reference(f"{prefix}.json", f"{prefix}-address", 1),))
    value = {"to": {"street": "a"}}
    data = await result(JsonSchemaSerializer(registry, schema).serialize(prefix, [], value))
    assert await result(JsonSchemaDeserializer(registry).deserialize(prefix, [], data)) == value


async def protobuf_with_imports(registry: SchemaRegistry, prefix: str) -> None:
    messages = protobuf_messages(prefix)
    order: Any = messages["Order"]()
    order.id = 7
    order.price.cents = 5
    order.at.seconds = 1
    data = await result(ProtobufSerializer(registry, messages["Order"]).serialize(prefix, [], order))
    assert await result(ProtobufDeserializer(registry, messages["Order"]).deserialize(prefix, [], data)) == order
    part: Any = messages["Order.Line.Part"](name="p")
    data = await result(ProtobufSerializer(registry, type(part)).serialize(prefix, [], part))
    assert data[5:9] == b"\x06\x00\x00\x02"
    assert await result(ProtobufDeserializer(registry, type(part)).deserialize(prefix, [], data)) == part
    assert f"{prefix}/money.proto" in await registry.subjects()


async def the_latest_version_serializes(registry: SchemaRegistry, prefix: str) -> None:
    subject = f"{prefix}-value"
    await registry.register(subject, Schema(avro_record("Order", prefix, id="int")))
    await registry.register(subject, Schema(avro_record("Order", prefix, id="int", note=("string", "none"))))
    data = await result(AvroSerializer(registry, use_latest=True).serialize(prefix, [], {"id": 1}))
    assert await result(AvroDeserializer(registry).deserialize(prefix, [], data)) == {"id": 1, "note": "none"}
    old = avro_record("Order", prefix, id="int")
    assert await result(AvroDeserializer(registry, old).deserialize(prefix, [], data)) == {"id": 1}


SCENARIOS: tuple[Scenario, ...] = (
    a_schema_has_one_id,
    versions_of_a_subject,
    what_is_unknown,
    an_incompatible_schema,
    an_invalid_schema,
    avro_with_references,
    json_with_references,
    protobuf_with_imports,
    the_latest_version_serializes,
)


def fresh_prefix() -> str:
    """A name that no scenario had before."""
    return f"s{uuid.uuid4().hex[:12]}"
