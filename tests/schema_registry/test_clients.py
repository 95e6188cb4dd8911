"""Producer, reader and member with a schema registry, on fake brokers: what is sent is read, errors lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aioprod import Member, Producer, read
from aioprod.errors import ConfigError, SerializationError, UsageError
from aioprod.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    ConfluentDeserializer,
    ConfluentSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryAnswerError,
    RegistryUnreachableError,
    SchemaRegistry,
    SchemaRejectedError,
    UnknownSchemaError,
    UnknownSubjectError,
)
from aioprod.testing import FakeCluster, FakeSchemaRegistry
from tests.support import confluent_registry as theirs
from tests.support.registry_calls import REGISTER
from tests.support.registry_schemas import MESSAGES, ORDER, avro_record, json_schema

# Of less than six bytes, confluent-kafka says that they have no schema, though it is in a header.
NOTED = avro_record("Order", id="int", note=("string", ""))
ORDER_JSON = json_schema("Order", id={"type": "integer"})


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(1) as cluster:
        yield cluster


async def stored(cluster: FakeCluster, **deserializers: Any) -> list[Any]:
    """Keys and values of all records of the topic, as a reader has them."""
    records = read("orders", bootstrap_servers=cluster.bootstrap, **deserializers)
    return [(record.key, record.value) async for record in records]


def serializers(name: str, registry: SchemaRegistry, framing: Any) -> tuple[Any, Any, Any]:
    """A serializer and a deserializer of a format, and a function that makes a value of a number."""
    note = MESSAGES["Note"]
    if name == "avro":
        made = AvroSerializer(registry, NOTED, framing=framing)
        return made, AvroDeserializer(registry), lambda n: {"id": n, "note": "none"}
    if name == "json":
        other = JsonSchemaSerializer(registry, ORDER_JSON, framing=framing)
        return other, JsonSchemaDeserializer(registry), lambda n: {"id": n}
    return (
        ProtobufSerializer(registry, note, framing=framing),
        ProtobufDeserializer(registry, note),
        lambda n: note(text=str(n)),
    )


@pytest.mark.parametrize("framing", ["prefix", "header"])
@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
async def test_what_is_sent_is_read(registry: SchemaRegistry, cluster: FakeCluster, name: str, framing: str) -> None:
    key_serializer = AvroSerializer(registry, '"string"', framing="prefix")
    serializer, deserializer, value_of = serializers(name, registry, framing)
    options: Any = {"key_serializer": key_serializer, "value_serializer": serializer}
    async with Producer(cluster.bootstrap, **options) as producer:
        for number in range(5):
            await producer.send("orders", value_of(number), key=str(number))
        producer.submit("orders", value_of(5), key="5")
        several = await producer.send_many("orders", [value_of(6), value_of(7)], keys=["6", "7"])
        several.raise_for_failures()
        await producer.send("orders", None, key="none")
    expected = [(str(number), value_of(number)) for number in range(8)] + [("none", None)]
    options = {"key_deserializer": AvroDeserializer(registry), "value_deserializer": deserializer}
    assert await stored(cluster, **options) == expected
    seen: list[Any] = []
    async with Member(
        cluster.bootstrap, group_id="g", topics=["orders"], auto_offset_reset="earliest", **options
    ) as member:
        async for record in member:
            seen.append((record.key, record.value))
            if len(seen) == len(expected):
                break
    assert seen == expected


async def test_a_thousand_concurrent_first_sends(
    registry: SchemaRegistry, cluster: FakeCluster, fake_schema_registry: FakeSchemaRegistry
) -> None:
    async with Producer(cluster.bootstrap, value_serializer=AvroSerializer(registry, ORDER)) as producer:
        await asyncio.gather(*(producer.send("orders", {"id": number}) for number in range(1000)))
    assert fake_schema_registry.requests == {"POST /subjects/orders-value/versions": 1}
    values = await stored(cluster, value_deserializer=AvroDeserializer(registry))
    assert sorted(value["id"] for _, value in values) == list(range(1000))


async def test_calls_that_cannot_wait(registry: SchemaRegistry, cluster: FakeCluster) -> None:
    serializer = AvroSerializer(registry, ORDER)
    async with Producer(cluster.bootstrap, value_serializer=serializer) as producer:
        with pytest.raises(UsageError, match=r"has to be awaited.*prepare"):
            producer.submit("orders", {"id": 1})
        await serializer.prepare("orders")
        producer.submit("orders", {"id": 2})
    assert await stored(cluster, value_deserializer=AvroDeserializer(registry)) == [(None, {"id": 2})]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (RegistryUnreachableError, "can't be reached for subject 'orders-value'"),
        (SchemaRejectedError, "does not accept the schema for subject 'orders-value'"),
        (UnknownSubjectError, "has no subject 'orders-value'"),
    ],
)
async def test_a_record_that_can_not_be_serialized_is_not_sent(
    registry: SchemaRegistry, cluster: FakeCluster, fake_schema_registry: FakeSchemaRegistry, kind: Any, words: str
) -> None:
    """One sentence that names topic and subject, and later records are sent."""
    serializer = AvroSerializer(registry, ORDER, auto_register=kind is not UnknownSubjectError)
    if kind is RegistryUnreachableError:
        fake_schema_registry.down()
    elif kind is SchemaRejectedError:
        fake_schema_registry.register("orders-value", avro_record("Order", id="string"))
    async with Producer(cluster.bootstrap, value_serializer=serializer) as producer:
        with pytest.raises(kind, match="for topic 'orders' could not be serialized by AvroSerializer") as raised:
            await producer.send("orders", {"id": 1})
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)
        assert raised.value.subject == "orders-value"
        assert not raised.value.may_be_stored
        fake_schema_registry.up()
        fake_schema_registry.set_compatibility("NONE")
        fake_schema_registry.register("orders-value", ORDER)
        report = await producer.send("orders", {"id": 2})
        assert report.offset == 0


async def test_a_registry_that_goes_later(
    registry: SchemaRegistry, cluster: FakeCluster, fake_schema_registry: FakeSchemaRegistry
) -> None:
    async with Producer(cluster.bootstrap, value_serializer=AvroSerializer(registry, ORDER)) as producer:
        await producer.send("orders", {"id": 1})
        fake_schema_registry.down()
        await asyncio.gather(*(producer.send("orders", {"id": 2}) for _ in range(100)))
    assert len(await stored(cluster)) == 101


async def test_many_records_wait_for_a_registry_that_is_down_once(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    async with FakeCluster() as brokers:
        async with Producer(brokers.bootstrap, value_serializer=AvroSerializer(registry, ORDER)) as producer:
            fake_schema_registry.fail(503, times=4)
            with pytest.raises(RegistryAnswerError, match=r"status 503") as raised:
                await producer.send_many("orders", [{"id": number} for number in range(50)])
            assert raised.value.__notes__ == ["No record of this call was accepted: all 50 failed for this reason."]
            assert fake_schema_registry.requests[REGISTER] == 4, "one try, and three retries"
            sent = await producer.send_many("orders", [{"id": number} for number in range(50)])
            assert sent.failures == ()
        assert len(brokers.records("orders")) == 50


async def test_an_unknown_id(registry: SchemaRegistry, cluster: FakeCluster) -> None:
    """The reader says which record it is, and where to continue is for the caller to decide."""
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"\0\0\0\0\x09\x02")
    with pytest.raises(UnknownSchemaError, match=r"Offset 0 of partition 0: .*schema id 9") as raised:
        await stored(cluster, value_deserializer=AvroDeserializer(registry))
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("orders", 0, 0)
    assert raised.value.code == 40403


async def test_a_member_reads_on_when_the_registry_is_back(
    registry: SchemaRegistry, cluster: FakeCluster, fake_schema_registry: FakeSchemaRegistry
) -> None:
    async with Producer(cluster.bootstrap, value_serializer=AvroSerializer(registry, ORDER)) as producer:
        await producer.send("orders", {"id": 1})
    fake_schema_registry.down()
    async with Member(
        cluster.bootstrap,
        group_id="g",
        topics=["orders"],
        auto_offset_reset="earliest",
        value_deserializer=AvroDeserializer(registry),
    ) as member:
        with pytest.raises(RegistryUnreachableError, match="Offset 0 of partition 0"):
            await anext(member)
        fake_schema_registry.up()
        assert (await anext(member)).value == {"id": 1}


# --- confluent-kafka's own


async def test_a_record_of_another_format_says_where_to_continue(
    registry: SchemaRegistry, cluster: FakeCluster
) -> None:
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"no schema")
    with pytest.raises(SerializationError, match=r"^Offset 0 of partition 0: .* begin with 00") as raised:
        await stored(cluster, value_deserializer=AvroDeserializer(registry))
    assert str(raised.value.hint).startswith("The record was not written by a serializer that uses a schema registry.")
    assert str(raised.value.hint).endswith("continue at offset 1: a member does so by `member.skip(error)`.")


@pytest.mark.parametrize("framing", ["prefix", "header"])
@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
async def test_serializers_of_confluent_kafka(
    registry: SchemaRegistry, cluster: FakeCluster, fake_schema_registry: FakeSchemaRegistry, name: str, framing: str
) -> None:
    """As they are, in one topic with ours, each reading what the other wrote."""
    mine, my_reader, value_of = serializers(name, registry, framing)
    note = MESSAGES["Note"]
    topic_names = {"subject.name.strategy.type": "TOPIC"}
    async with theirs.AsyncSchemaRegistryClient({"url": fake_schema_registry.url}) as client:
        options = theirs.options(framing)
        if name == "avro":
            serializer = await theirs.AsyncAvroSerializer(client, NOTED, conf=options)
            reader = await theirs.AsyncAvroDeserializer(client, conf=topic_names)
        elif name == "json":
            serializer = await theirs.AsyncJSONSerializer(ORDER_JSON, client, conf=options)
            reader = await theirs.AsyncJSONDeserializer(None, schema_registry_client=client, conf=topic_names)
        else:
            serializer = await theirs.AsyncProtobufSerializer(note, client, options)
            reader = await theirs.AsyncProtobufDeserializer(note, topic_names, client)
        for given in (ConfluentSerializer(serializer), mine):
            async with Producer(cluster.bootstrap, value_serializer=given) as producer:
                await producer.send("orders", value_of(1))
        records = [record async for record in read("orders", bootstrap_servers=cluster.bootstrap)]
        assert (records[0].value, records[0].headers) == (records[1].value, records[1].headers)
        for given in (ConfluentDeserializer(reader), my_reader):
            assert await stored(cluster, value_deserializer=given) == [(None, value_of(1))] * 2


async def test_what_is_no_serializer_of_theirs() -> None:
    async def later() -> None:
        await asyncio.sleep(0)

    with pytest.raises(ConfigError, match="was not awaited"):
        ConfluentSerializer(later())
    with pytest.raises(ConfigError, match="can't be called"):
        ConfluentDeserializer(7)
