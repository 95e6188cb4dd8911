"""Serializers and deserializers: a cached schema costs no await, one look-up for all, errors in plain words."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

import aioprod
from aioprod.errors import ConfigError, UsageError
from aioprod.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Reference,
    RegistryAnswerError,
    RegistryUnreachableError,
    Schema,
    SchemaRegistry,
    UnknownSchemaError,
    UnknownSubjectError,
)
from aioprod.testing import FakeSchemaRegistry
from tests.support.registry_calls import REGISTER, Clock, configured
from tests.support.registry_scenarios import result
from tests.support.registry_schemas import MESSAGES, ORDER, avro_record, json_schema

ORDER_JSON = json_schema("shop.Order", id={"type": "integer"})

Make = Callable[[SchemaRegistry], Any]

FORMATS: dict[str, tuple[Any, Make, Make]] = {
    "avro": ({"id": 1}, lambda registry: AvroSerializer(registry, ORDER), AvroDeserializer),
    "json": ({"id": 1}, lambda registry: JsonSchemaSerializer(registry, ORDER_JSON), JsonSchemaDeserializer),
    "protobuf": (
        MESSAGES["Note"](text="a"),
        lambda registry: ProtobufSerializer(registry, MESSAGES["Note"]),
        lambda registry: ProtobufDeserializer(registry, MESSAGES["Note"]),
    ),
}


@pytest.mark.parametrize("name", FORMATS)
async def test_only_the_first_record_is_awaited(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, name: str
) -> None:
    value, make_serializer, make_deserializer = FORMATS[name]
    serializer, deserializer = make_serializer(registry), make_deserializer(registry)
    first = serializer.serialize("orders", [], value)
    assert inspect.isawaitable(first)
    data = await first
    assert serializer.serialize("orders", [], value) == data
    first = deserializer.deserialize("orders", [], data)
    assert inspect.isawaitable(first)
    assert await first == value
    assert deserializer.deserialize("orders", [], data) == value
    fake_schema_registry.down()
    assert serializer.serialize("orders", [], value) == data
    assert deserializer.deserialize("orders", [], data) == value


@pytest.mark.parametrize("name", FORMATS)
async def test_a_thousand_first_records_make_one_look_up(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, name: str
) -> None:
    value, make_serializer, make_deserializer = FORMATS[name]
    serializer, deserializer = make_serializer(registry), make_deserializer(registry)
    with fake_schema_registry.paused():
        tasks = [asyncio.ensure_future(serializer.serialize("orders", [], value)) for _ in range(1000)]
        await asyncio.sleep(0)
    (data,) = set(await asyncio.gather(*tasks))
    asked = sum(fake_schema_registry.requests.values())
    assert fake_schema_registry.requests[REGISTER] == 1
    # Of the imported file there are two requests more.
    assert asked == (3 if name == "protobuf" else 1)
    with fake_schema_registry.paused():
        tasks = [asyncio.ensure_future(deserializer.deserialize("orders", [], data)) for _ in range(1000)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*tasks) == [value] * 1000
    assert sum(fake_schema_registry.requests.values()) == asked + 1


async def test_prepared_topics_need_no_await(registry: SchemaRegistry) -> None:
    serializer = AvroSerializer(registry, ORDER)
    await serializer.prepare("orders", "returns")
    assert serializer.serialize("orders", [], {"id": 1}) == serializer.serialize("returns", [], {"id": 1})


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("topic", "orders-key"),
        ("record", "shop.Order"),
        ("topic_record", "orders-shop.Order"),
        (lambda topic, role, record: f"{record}/{role}/{topic}", "shop.Order/key/orders"),
    ],
)
@pytest.mark.parametrize("name", FORMATS)
async def test_subjects(registry: SchemaRegistry, name: str, subject: Any, expected: str) -> None:
    options: Any = {"subject": subject}
    order = MESSAGES["Order"]
    serializer: Any = {
        "avro": AvroSerializer(registry, ORDER, **options),
        "json": JsonSchemaSerializer(registry, ORDER_JSON, **options),
        "protobuf": ProtobufSerializer(registry, order, **options),
    }[name]
    value = order() if name == "protobuf" else {"id": 1}
    await configured(serializer, is_key=True).serialize("orders", [], value)
    assert expected in await registry.subjects()


async def test_names_that_a_strategy_needs(registry: SchemaRegistry) -> None:
    for serializer in (
        AvroSerializer(registry, '["null", "int"]', subject="record"),
        AvroSerializer(registry, use_latest=True, subject="topic_record"),
        JsonSchemaSerializer(registry, "{}", subject="record"),
    ):
        with pytest.raises(ConfigError, match="needs a record name"):
            await result(serializer.serialize("orders", [], 1))
    with pytest.raises(ConfigError, match="'topics' is not a subject strategy"):
        AvroSerializer(registry, ORDER, subject="topics")
    with pytest.raises(ConfigError, match="7 is not a subject strategy"):
        AvroSerializer(registry, ORDER, subject=7)  # type: ignore[arg-type]


async def test_schemas_that_must_be_registered(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    serializer = AvroSerializer(registry, ORDER, auto_register=False)
    with pytest.raises(UnknownSubjectError, match="no subject 'orders-value'"):
        await result(serializer.serialize("orders", [], {"id": 1}))
    fake_schema_registry.register("orders-value", avro_record("Order", id="long"))
    with pytest.raises(UnknownSchemaError, match="'orders-value'"):
        await result(serializer.serialize("orders", [], {"id": 1}))
    fake_schema_registry.set_compatibility("NONE")
    known = fake_schema_registry.register("orders-value", ORDER)
    assert await result(serializer.serialize("orders", [], {"id": 1})) == b"\0" + known.to_bytes(4, "big") + b"\x02"
    assert fake_schema_registry.requests.keys() == {"POST /subjects/orders-value"}


async def test_the_latest_version_is_refreshed_in_the_background(
    fake_schema_registry: FakeSchemaRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    fake_schema_registry.register("orders-value", ORDER)
    latest = "GET /subjects/orders-value/versions/latest"
    async with SchemaRegistry(
        fake_schema_registry.url, clock=clock, latest_ttl_ms=1000, retry_backoff_ms=1
    ) as registry:
        serializer = AvroSerializer(registry, use_latest=True)
        old = await result(serializer.serialize("orders", [], {"id": 1}))
        fake_schema_registry.register("orders-value", avro_record("Order", id="int", more=("int", 7)))
        clock.now += 2
        with fake_schema_registry.paused():
            assert [serializer.serialize("orders", [], {"id": 1}) for _ in range(3)] == [old] * 3
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            while (new := serializer.serialize("orders", [], {"id": 1})) == old:
                await asyncio.sleep(0.001)
        assert new == b"\0\0\0\0\x02\x02\x0e"
        assert fake_schema_registry.requests[latest] == 2
        fake_schema_registry.fail(404, content={"error_code": 40401, "message": "Gone"})
        clock.now += 2
        with caplog.at_level(logging.WARNING, "aioprod"):
            assert serializer.serialize("orders", [], {"id": 1}) == new
            async with asyncio.timeout(20):
                while not caplog.messages:
                    await asyncio.sleep(0.001)
        assert "The latest schema for topic 'orders' stays the one that is known" in caplog.messages[0]
        assert serializer.serialize("orders", [], {"id": 1}) == new
        assert fake_schema_registry.requests[latest] == 3


@pytest.mark.parametrize("topics", [["orders"], b"orders", None])
async def test_prepare_takes_names_of_topics(registry: SchemaRegistry, topics: Any) -> None:
    with pytest.raises(UsageError, match=r'prepare\(\) takes the names of topics: prepare\("orders", "meals"\)'):
        await AvroSerializer(registry, ORDER).prepare(topics)


async def test_normalized(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    fake_schema_registry.register("orders-value", ORDER_JSON, "JSON")
    turned = ORDER_JSON.replace('"title": "shop.Order", "type": "object"', '"type": "object", "title": "shop.Order"')
    assert turned != ORDER_JSON
    serializer = JsonSchemaSerializer(registry, turned, auto_register=False, normalize=True)
    assert (await result(serializer.serialize("orders", [], {"id": 1})))[:5] == b"\0\0\0\0\x01"


async def test_what_a_value_is_made_of(registry: SchemaRegistry) -> None:
    serializer = AvroSerializer(registry, ORDER, to_dict=lambda number: {"id": number})
    data = await result(serializer.serialize("orders", [], 7))
    reader = AvroDeserializer(registry, from_dict=lambda fields: fields["id"])
    assert await result(reader.deserialize("orders", [], data)) == 7


# --- headers


async def test_the_header_of_an_earlier_schema_is_replaced(registry: SchemaRegistry) -> None:
    """A record that was read is sent again, with its headers and another schema."""
    stale = ("__value_schema_id", b"\x01" + bytes(16))
    kept = ("trace", b"1")
    headers: list[Any] = [stale, kept]
    data = await result(AvroSerializer(registry, ORDER, framing="header").serialize("orders", headers, {"id": 1}))
    known = await registry.find("orders-value", Schema(ORDER))
    assert known.guid is not None
    assert headers == [kept, ("__value_schema_id", b"\x01" + known.guid.bytes)]
    assert await result(AvroDeserializer(registry).deserialize("orders", headers, data)) == {"id": 1}
    headers = [stale, kept]
    await result(AvroSerializer(registry, ORDER).serialize("orders", headers, {"id": 1}))
    assert headers == [kept]


async def test_a_key_has_its_own_header(registry: SchemaRegistry) -> None:
    headers: list[Any] = []
    serializer = configured(AvroSerializer(registry, '"int"', framing="header"), is_key=True)
    data = await result(serializer.serialize("orders", headers, 5))
    assert [name for name, _ in headers] == ["__key_schema_id"]
    reader = configured(AvroDeserializer(registry), is_key=True)
    assert await result(reader.deserialize("orders", headers, data)) == 5


async def test_a_registry_without_guids() -> None:
    with FakeSchemaRegistry(guids=False) as fake:
        async with SchemaRegistry(fake.url) as registry:
            serializer = AvroSerializer(registry, ORDER, framing="header")
            with pytest.raises(RegistryAnswerError, match="gives no GUID for subject 'orders-value'"):
                await result(serializer.serialize("orders", [], {"id": 1}))


# --- what is wrong from the start


def test_wrong_options(fake_schema_registry: FakeSchemaRegistry) -> None:
    registry = SchemaRegistry(fake_schema_registry.url)
    for make, words in (
        (lambda: AvroSerializer(registry), "No schema is given"),
        (lambda: AvroSerializer(registry, ORDER, use_latest=True, auto_register=True), "both True"),
        (lambda: AvroSerializer(registry, ORDER, framing="footer"), "framing is 'footer'"),  # type: ignore[arg-type]
        (lambda: AvroSerializer(registry, "{"), "not JSON"),
        (lambda: AvroSerializer(registry, '{"type": "record"}'), "can't be used"),
        (lambda: AvroSerializer(registry, Schema("{", "AVRO", (Reference("a", "b", 1),))), "not JSON"),
        (lambda: AvroSerializer(registry, Schema("{}", "JSON")), "not an Avro schema"),
        (lambda: AvroSerializer(registry, 7), "not an Avro schema"),  # type: ignore[arg-type]
        (lambda: JsonSchemaSerializer(registry, "{"), "not JSON"),
        (lambda: JsonSchemaSerializer(registry, '{"type": 7}'), "not valid"),
        (lambda: JsonSchemaSerializer(registry, Schema(ORDER)), "not a JSON schema"),
    ):
        with pytest.raises(ConfigError, match=words):
            make()
    assert not fake_schema_registry.requests


async def test_a_serializer_of_keys_is_prepared_after_it_is_given(registry: SchemaRegistry) -> None:
    await configured(AvroSerializer(registry, ORDER), is_key=True).prepare("orders")
    assert await registry.subjects() == ["orders-key"]


@pytest.mark.parametrize("given", ["http://u:s3cret@localhost:8081", None, SchemaRegistry])
@pytest.mark.parametrize("name", FORMATS)
def test_what_is_no_registry(name: str, given: Any) -> None:
    for make in FORMATS[name][1:]:
        with pytest.raises(ConfigError, match=r"The registry of \w+ is of type \w+: give a SchemaRegistry") as raised:
            make(given)
        assert "s3cret" not in str(raised.value)


async def test_one_serializer_for_keys_and_values(registry: SchemaRegistry) -> None:
    for target in (AvroSerializer(registry, ORDER), AvroDeserializer(registry)):
        configured(configured(target, is_key=True), is_key=True)
        with pytest.raises(ConfigError, match=f"One {type(target).__name__} is given for keys and for values"):
            configured(target, is_key=False)


async def test_a_serializer_that_was_prepared_for_values_takes_no_keys(registry: SchemaRegistry) -> None:
    serializer = AvroSerializer(registry, ORDER)
    await serializer.prepare("orders")
    with pytest.raises(ConfigError, match="was used for values before it is given for keys"):
        configured(serializer, is_key=True)
    configured(serializer, is_key=False)


async def test_the_latest_version_is_as_old_for_each_topic_of_its_subject(
    fake_schema_registry: FakeSchemaRegistry,
) -> None:
    clock = Clock()
    fake_schema_registry.register("shop.Order", ORDER)
    latest = "GET /subjects/shop.Order/versions/latest"
    async with SchemaRegistry(fake_schema_registry.url, clock=clock, latest_ttl_ms=1000) as registry:
        serializer = AvroSerializer(registry, ORDER, use_latest=True, subject="record")
        await serializer.prepare("orders")
        clock.now += 0.9
        await serializer.prepare("meals")
        assert fake_schema_registry.requests[latest] == 1
        clock.now += 0.2
        serializer.serialize("meals", [], {"id": 1})
        async with asyncio.timeout(20):
            while fake_schema_registry.requests[latest] < 2:
                await asyncio.sleep(0.001)


async def test_a_refresh_that_fails_unexpectedly_is_told(
    fake_schema_registry: FakeSchemaRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    clock, subjects = Clock(), ["orders-value"]
    fake_schema_registry.register("orders-value", ORDER)
    async with SchemaRegistry(fake_schema_registry.url, clock=clock, latest_ttl_ms=1000) as registry:
        serializer = AvroSerializer(registry, use_latest=True, subject=lambda *_: subjects.pop())
        known = await result(serializer.serialize("orders", [], {"id": 1}))
        clock.now += 2
        with caplog.at_level(logging.WARNING, "aioprod"):
            assert serializer.serialize("orders", [], {"id": 1}) == known
            async with asyncio.timeout(20):
                while not caplog.messages:
                    await asyncio.sleep(0.001)
        assert "stays the one that is known: pop from empty list" in caplog.messages[0]


async def test_a_registry_that_is_down(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    serializer = AvroSerializer(registry, ORDER)
    fake_schema_registry.down()
    with pytest.raises(RegistryUnreachableError):
        await result(serializer.serialize("orders", [], {"id": 1}))
    fake_schema_registry.up()
    assert await result(serializer.serialize("orders", [], {"id": 1})) == b"\0\0\0\0\x01\x02"


async def test_closing_the_registry_ends_look_ups(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    serializer, deserializer = AvroSerializer(registry, ORDER), AvroDeserializer(registry)
    with fake_schema_registry.paused():
        first = asyncio.create_task(serializer.prepare("orders"))
        second = asyncio.ensure_future(deserializer.deserialize("orders", [], b"\0\0\0\0\x01\x02"))
        await asyncio.sleep(0)
        await registry.close()
        for call in (first, second):
            with pytest.raises(UsageError, match=r"SchemaRegistry (is|was) closed"):
                await call


@pytest.mark.parametrize(
    ("package", "module", "extra"),
    [
        ("httpx", "http", "aioprod[schema-registry]"),
        ("fastavro", "avro", "aioprod[schema-registry]"),
        ("jsonschema", "json_schema", "aioprod[schema-registry]"),
        ("google.protobuf", "protobuf", "aioprod[schema-registry]"),
        ("confluent_kafka", "confluent", "confluent-kafka[schemaregistry]"),
    ],
)
def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, package: str, module: str, extra: str) -> None:
    monkeypatch.setattr(aioprod, "schema_registry", aioprod.schema_registry)  # It is imported again, and put back.
    for room in (package, "aioprod.schema_registry"):
        for name in [name for name in sys.modules if name == room or name.startswith(f"{room}.")]:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=r"which is not installed\. Hint: pip install") as raised:
        importlib.import_module(f"aioprod.schema_registry.{module}")
    assert extra in str(raised.value)
