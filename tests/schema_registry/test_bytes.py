"""The bytes and headers are those of confluent-kafka's own serializers on the same registry."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
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
)
from aioprod.testing import FakeSchemaRegistry
from tests.support import confluent_registry as theirs
from tests.support.registry_schemas import ADDRESS, AVRO_CASES, JSON_CASES, MESSAGES, avro_record, json_schema

FRAMINGS = ("prefix", "header")


async def result(made: Any) -> Any:
    """What a serializer or deserializer returned, awaited if need be."""
    return await made if inspect.isawaitable(made) else made


async def ours(serializer: Any, topic: str, value: Any) -> tuple[bytes, list[Any]]:
    headers: list[Any] = []
    return await result(serializer.serialize(topic, headers, value)), headers


@pytest.fixture
def client(fake_schema_registry: FakeSchemaRegistry) -> Iterator[Any]:
    with theirs.SchemaRegistryClient({"url": fake_schema_registry.url}) as client:
        yield client


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("case", AVRO_CASES)
async def test_avro(registry: SchemaRegistry, client: Any, case: str, framing: Any) -> None:
    schema, values = AVRO_CASES[case]
    mine = AvroSerializer(registry, schema, framing=framing)
    reader = AvroDeserializer(registry)
    for value in values:
        expected = theirs.serialized(theirs.AvroSerializer(client, schema, conf=theirs.options(framing)), "t", value)
        data, headers = await ours(mine, "t", value)
        assert (data, headers) == expected
        read = await result(reader.deserialize("t", headers, data))
        branch = value.get("what") if isinstance(value, dict) else None
        if isinstance(branch, tuple):
            assert read["what"] == branch[1]
        else:
            assert read == value or read == {"other": None, **value}


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("case", JSON_CASES)
async def test_json_schema(registry: SchemaRegistry, client: Any, case: str, framing: Any) -> None:
    schema, values = JSON_CASES[case]
    mine = JsonSchemaSerializer(registry, schema, framing=framing)
    reader = JsonSchemaDeserializer(registry)
    for value in values:
        expected = theirs.serialized(theirs.JSONSerializer(schema, client, conf=theirs.options(framing)), "t", value)
        data, headers = await ours(mine, "t", value)
        assert (data, headers) == expected
        assert await result(reader.deserialize("t", headers, data)) == value


def filled(name: str) -> Any:
    """A message with something in it."""
    message = MESSAGES[name]()
    if name == "Order":
        message.id = 7
        message.price.cents = -5
        message.at.seconds = 1_700_000_000
        message.line.part.name = "p"
    elif name == "Order.Line":
        message.part.name = "é"
    elif name == "Money":
        message.cents = 2**40
    return message


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("name", MESSAGES)
async def test_protobuf(
    registry: SchemaRegistry, client: Any, fake_schema_registry: FakeSchemaRegistry, name: str, framing: Any
) -> None:
    message = filled(name)
    data, headers = await ours(ProtobufSerializer(registry, MESSAGES[name], framing=framing), "t", message)
    registered = sum(fake_schema_registry.requests.values())
    serializer = theirs.ProtobufSerializer(MESSAGES[name], client, theirs.options(framing))
    assert (data, headers) == theirs.serialized(serializer, "t", message)
    assert sum(fake_schema_registry.requests.values()) > registered
    assert await result(ProtobufDeserializer(registry, MESSAGES[name]).deserialize("t", headers, data)) == message


async def test_avro_references(registry: SchemaRegistry, client: Any) -> None:
    """Two schemas refer to a third, and the serialized one to all of them."""
    address = await registry.register("address", Schema(ADDRESS))
    address = await registry.find("address", address.schema)
    assert address.version == 1
    names = []
    for name in ("Sender", "Receiver"):
        text = avro_record(name, address="shop.Address")
        known = await registry.register(name.lower(), Schema(text, "AVRO", (Reference("shop.Address", "address", 1),)))
        names.append(known.subject)
    text = avro_record("Parcel", sender="shop.Sender", receiver="Receiver", stop=["null", "shop.Address"])
    places = [("shop.Sender", "sender", 1), ("shop.Receiver", "receiver", 1), ("shop.Address", "address", 1)]
    value = {
        "sender": {"address": {"street": "a", "number": None}},
        "receiver": {"address": {"street": "b", "number": 2}},
        "stop": {"street": "c", "number": 3},
    }
    mine = AvroSerializer(registry, Schema(text, "AVRO", tuple(Reference(*place) for place in places)))
    schema = theirs.Schema(text, "AVRO", [theirs.SchemaReference(*place) for place in places])
    expected = theirs.serialized(theirs.AvroSerializer(client, schema, conf=theirs.options()), "t", value)
    data, headers = await ours(mine, "t", value)
    assert (data, headers) == expected
    assert await result(AvroDeserializer(registry).deserialize("t", headers, data)) == value


async def test_json_references(registry: SchemaRegistry, client: Any) -> None:
    await registry.register("address", Schema(json_schema("Address", street={"type": "string"}), "JSON"))
    text = json_schema("Parcel", to={"$ref": "address.json"})
    mine = JsonSchemaSerializer(registry, Schema(text, "JSON", (Reference("address.json", "address", 1),)))
    schema = theirs.Schema(text, "JSON", [theirs.SchemaReference("address.json", "address", 1)])
    value = {"to": {"street": "a"}}
    expected = theirs.serialized(theirs.JSONSerializer(schema, client, conf=theirs.options()), "t", value)
    data, headers = await ours(mine, "t", value)
    assert (data, headers) == expected
    assert await result(JsonSchemaDeserializer(registry).deserialize("t", headers, data)) == value
