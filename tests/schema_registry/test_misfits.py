"""Values, bytes, headers and schemas that do not fit: errors in plain words."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from aioprod.errors import ConfigError, SerializationError, UsageError
from aioprod.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Reference,
    RegisteredSchema,
    Schema,
    SchemaRegistry,
    UnknownSchemaError,
)
from aioprod.schema_registry.references import referenced
from aioprod.testing import FakeSchemaRegistry
from tests.support.registry_scenarios import result
from tests.support.registry_schemas import MESSAGES, ORDER, avro_record, json_schema

ORDER_JSON = json_schema("shop.Order", id={"type": "integer"})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"id": "x"}, "the value does not fit the Avro schema shop.Order: "),
        ({}, "no value and no default for id"),
        (5, "the value does not fit"),
    ],
)
async def test_values_that_do_not_fit_avro(registry: SchemaRegistry, value: Any, words: str) -> None:
    with pytest.raises(SerializationError, match=words):
        await result(AvroSerializer(registry, ORDER).serialize("orders", [], value))


async def test_strict_avro(registry: SchemaRegistry) -> None:
    loose, strict = AvroSerializer(registry, ORDER), AvroSerializer(registry, ORDER, strict=True)
    assert await result(strict.serialize("orders", [], {"id": 1})) == b"\0\0\0\0\x01\x02"
    for value in ({"id": 2**40}, {"id": 1, "more": 2}):
        await result(loose.serialize("orders", [], value))
        with pytest.raises(SerializationError, match="does not fit the Avro schema"):
            strict.serialize("orders", [], value)


async def test_bytes_alone_take_bytes_only(registry: SchemaRegistry) -> None:
    serializer = AvroSerializer(registry, '"bytes"')
    assert await result(serializer.serialize("orders", [], bytearray(b"ab"))) == b"\0\0\0\0\x01ab"
    with pytest.raises(SerializationError, match="it is of type str"):
        serializer.serialize("orders", [], "ab")


@pytest.mark.parametrize(
    ("value", "words"),
    [({"id": "x"}, r"at \$\.id: 'x' is not of type 'integer'"), ({}, "'id' is a required property"), (5, "at ")],
)
async def test_values_that_do_not_fit_a_json_schema(registry: SchemaRegistry, value: Any, words: str) -> None:
    with pytest.raises(SerializationError, match=words):
        await result(JsonSchemaSerializer(registry, ORDER_JSON).serialize("orders", [], value))
    data = await result(JsonSchemaSerializer(registry, ORDER_JSON, validate=False).serialize("orders", [], value))
    with pytest.raises(SerializationError, match=words):
        await result(JsonSchemaDeserializer(registry).deserialize("orders", [], data))
    assert await result(JsonSchemaDeserializer(registry, validate=False).deserialize("orders", [], data)) == value


async def test_what_is_no_json(registry: SchemaRegistry) -> None:
    serializer = JsonSchemaSerializer(registry, "true")
    for value in (object(), float("nan")):
        with pytest.raises(SerializationError, match="can't be written as JSON"):
            await result(serializer.serialize("orders", [], value))
    with pytest.raises(SerializationError, match="not JSON"):
        await result(JsonSchemaDeserializer(registry).deserialize("orders", [], b"\0\0\0\0\x01{"))


async def test_references_that_are_missing(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match=r"mentions 'shop\.Address', which it does not define"):
        AvroSerializer(registry, avro_record("Parcel", to="Address"))
    await registry.register("other", Schema(ORDER))
    schema = Schema(avro_record("Parcel", to="Address"), "AVRO", (Reference("shop.Order", "other", 1),))
    with pytest.raises(SerializationError, match=r"422|does not accept|mentions"):
        await result(AvroSerializer(registry, schema).serialize("orders", [], {}))
    text = json_schema("Parcel", to={"$ref": "https://example.org/address.json"})
    with pytest.raises(SerializationError, match=r"refers to 'https://example\.org/address\.json'"):
        await result(JsonSchemaSerializer(registry, text).serialize("orders", [], {"to": 1}))
    gone = Schema(ORDER, "AVRO", (Reference("a", "gone", 1),))
    with pytest.raises(SerializationError, match="'gone'"):
        await result(AvroSerializer(registry, gone).serialize("orders", [], {"id": 1}))


async def test_references_without_end() -> None:
    class Endless(SchemaRegistry):
        """Each schema refers to another one."""

        async def version(self, subject: str, version: int) -> RegisteredSchema:
            further = Schema(ORDER, "AVRO", (Reference(f"n{version}", subject, version + 1),))
            return RegisteredSchema(subject, 1, further, version)

    schema = Schema(ORDER, "AVRO", (Reference("n", "s", 1),))
    with pytest.raises(SerializationError, match="refers to more than 1000 others"):
        await referenced(Endless("http://localhost:8081"), schema)


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("AVRO", "{", "it is not JSON"),
        ("AVRO", '{"type": "record"}', "it is not valid"),
        ("JSON", "{", "is not JSON"),
        ("JSON", '{"type": 7}', "the JSON schema is not valid"),
    ],
)
async def test_schemas_of_the_registry_that_are_wrong(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, kind: str, text: str, words: str
) -> None:
    fake_schema_registry.fail(200, content={"schema": text, "schemaType": kind})
    deserializer: Any = AvroDeserializer(registry) if kind == "AVRO" else JsonSchemaDeserializer(registry)
    with pytest.raises(SerializationError, match=words):
        await result(deserializer.deserialize("orders", [], b"\0\0\0\0\x01\x02"))


async def test_another_class_of_messages(registry: SchemaRegistry) -> None:
    serializer = ProtobufSerializer(registry, MESSAGES["Note"])
    with pytest.raises(SerializationError, match=r"expected a message shop\.Note, not Money"):
        await result(serializer.serialize("orders", [], MESSAGES["Money"]()))
    for given in (dict, Message, MESSAGES["Note"]()):
        with pytest.raises(ConfigError, match="not a class of Protobuf messages"):
            ProtobufSerializer(registry, given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "its 0 bytes do not begin with 00 and a schema id"),
        (b"\x01\0\0\0\x01\x02", "do not begin with 00"),
        (b"\0\0\0\x01", "do not begin with 00"),
        (b"\0\0\0\0\x09\x02", "schema id 9"),
        (b"\0\0\0\0\x01", "do not fit the Avro schema shop.Order: EOFError"),
        (b"\0\0\0\0\x01\xff", "do not fit the Avro schema"),
        (b"\0\0\0\0\x01\x02\x02", "1 bytes follow the value"),
        (b"\0\0\0\0\x02\x02", "the schema of id 2 is of type JSON, not AVRO"),
    ],
)
async def test_bytes_that_are_wrong(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, data: bytes, words: str
) -> None:
    fake_schema_registry.register("a", ORDER)
    fake_schema_registry.register("b", ORDER_JSON, "JSON")
    with pytest.raises(SerializationError, match=words):
        await result(AvroDeserializer(registry).deserialize("orders", [], data))


@pytest.mark.parametrize("value", [None, b"", b"\x01" + bytes(15), b"\x02" + bytes(16), b"\x01" + bytes(17)])
async def test_headers_that_are_wrong(registry: SchemaRegistry, value: bytes | None) -> None:
    with pytest.raises(SerializationError, match="__value_schema_id"):
        await result(AvroDeserializer(registry).deserialize("orders", [("__value_schema_id", value)], b""))


async def test_a_guid_that_is_unknown(registry: SchemaRegistry) -> None:
    header = ("__value_schema_id", b"\x01" + bytes(16))
    with pytest.raises(UnknownSchemaError, match=str(uuid.UUID(int=0))):
        await result(AvroDeserializer(registry).deserialize("orders", [header], b""))


async def test_messages_that_are_wrong(registry: SchemaRegistry) -> None:
    note = MESSAGES["Note"]
    data = await result(ProtobufSerializer(registry, note).serialize("orders", [], note(text="a")))
    reader = ProtobufDeserializer(registry, note)
    with pytest.raises(SerializationError, match=r"not a message shop\.Note"):
        await result(reader.deserialize("orders", [], data + b"\x0a\xff"))
    with pytest.raises(SerializationError, match="cut off"):
        reader.deserialize("orders", [], data[:6])
    header = ("__value_schema_id", b"\x01" + bytes(16) + b"\0\0")
    with pytest.raises(SerializationError, match="indexes"):
        reader.deserialize("orders", [header], data[7:])


async def test_the_latest_schema_is_of_another_type(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    fake_schema_registry.register("orders-value", ORDER)
    note = MESSAGES["Note"]
    for serializer, value in (
        (ProtobufSerializer(registry, note, use_latest=True), note()),
        (JsonSchemaSerializer(registry, use_latest=True), {"id": 1}),
    ):
        with pytest.raises(SerializationError, match="subject 'orders-value' is of type AVRO, not"):
            await result(serializer.serialize("orders", [], value))


@pytest.mark.parametrize("framing", ["prefix", "header"])
async def test_another_message_of_the_same_file(registry: SchemaRegistry, framing: Any) -> None:
    note, headers = MESSAGES["Note"], list[Any]()
    data = await result(ProtobufSerializer(registry, note, framing=framing).serialize("orders", headers, note()))
    reader = ProtobufDeserializer(registry, MESSAGES["Order"])
    with pytest.raises(SerializationError, match=r"message \[1\] of its file, and shop\.Order is \[0\]"):
        await result(reader.deserialize("orders", headers, data))


async def test_messages_in_another_order(registry: SchemaRegistry) -> None:
    """Its place is the name of a message: another place is an error, another message at the place is not noticed."""
    old, new = reordered("A", "B"), reordered("B", "A")
    data = await result(ProtobufSerializer(registry, old["A"]).serialize("orders", [], old["A"](text="x")))
    with pytest.raises(SerializationError, match=r"it is the message \[0\] of its file, and order\.A is \[1\]"):
        await result(ProtobufDeserializer(registry, new["A"]).deserialize("orders", [], data))
    misread = await result(ProtobufDeserializer(registry, new["B"]).deserialize("orders", [], data))
    assert (type(misread).__name__, misread.text) == ("B", "x")


def reordered(*names: str) -> dict[str, Any]:
    """Message classes of a file that has them in this order."""
    file = FileDescriptorProto(name="order.proto", package="order", syntax="proto3")
    for name in names:
        text = file.message_type.add(name=name).field.add(name="text", number=1)
        text.type, text.label = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.LABEL_OPTIONAL
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"order.{name}")) for name in names}


async def test_what_is_no_subject_or_schema(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    wrong: Any
    for wrong in (None, 7, "\ud800", "", ".", ".."):
        calls = registry.register(wrong, Schema(ORDER)), registry.latest(wrong), registry.version(wrong, 1)
        for call in (*calls, registry.find(wrong, Schema(ORDER)), registry.is_compatible(wrong, Schema(ORDER))):
            with pytest.raises(UsageError, match=r"The subject|A subject is of type"):
                await call
    strategy: Any = lambda *_: None  # noqa: E731
    with pytest.raises(UsageError, match="A subject is of type NoneType"):
        await AvroSerializer(registry, ORDER, subject=strategy).prepare("orders")
    for wrong in (None, ORDER, Schema(ORDER, "AVRO", Reference("a", "b", 1))):  # type: ignore[arg-type]
        for call in (registry.register("a", wrong), registry.is_compatible("a", wrong)):
            with pytest.raises(
                UsageError, match=r"A schema is of type|has references that are not a tuple of Reference"
            ):
                await call
    assert not fake_schema_registry.requests


async def test_references_in_a_list(registry: SchemaRegistry) -> None:
    references: Any = [Reference("shop.Order", "other", 1)]
    await registry.register("other", Schema(ORDER))
    parcel = Schema(avro_record("Parcel", order="shop.Order"), "AVRO", references)
    assert (await registry.register("parcels-value", parcel)).schema.references == tuple(references)
    assert await result(AvroSerializer(registry, parcel).serialize("parcels", [], {"order": {"id": 1}}))


def test_references_that_are_none() -> None:
    registry = SchemaRegistry("http://localhost:8081")
    for references in (Reference("a", "b", 1), ("a",), [("a", "b", 1)]):
        for make, schema in ((AvroSerializer, ORDER), (JsonSchemaSerializer, "{}")):
            wrong: Any = Schema(schema, "AVRO" if make is AvroSerializer else "JSON", references)  # type: ignore[arg-type]
            with pytest.raises(ConfigError, match="has references that are not a tuple of Reference"):
                make(registry, wrong)
