"""The client: one look-up for concurrent calls, caches, closing, one event loop."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from aioprod.errors import UsageError
from aioprod.schema_registry import (
    AvroSerializer,
    Schema,
    SchemaRegistry,
    SchemaRejectedError,
    UnknownSchemaError,
)
from aioprod.testing import FakeSchemaRegistry
from tests.support.registry_calls import REGISTER, SCHEMA, Clock
from tests.support.registry_schemas import ORDER, avro_record, json_schema


async def test_a_thousand_concurrent_calls_share_one_request(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    with fake_schema_registry.paused():
        calls = [asyncio.create_task(registry.register("orders-value", SCHEMA)) for _ in range(1000)]
        await asyncio.sleep(0)
    known = await asyncio.gather(*calls)
    assert {each.id for each in known} == {1}
    assert fake_schema_registry.requests == {REGISTER: 1}
    assert (await registry.register("orders-value", SCHEMA)).id == 1
    assert fake_schema_registry.requests == {REGISTER: 1}, "cached for ever"


async def test_what_fails_is_looked_up_again(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    fake_schema_registry.fail(422, content={"error_code": 42201, "message": "Not today"})
    with fake_schema_registry.paused():
        calls = [asyncio.create_task(registry.register("orders-value", SCHEMA)) for _ in range(3)]
        await asyncio.sleep(0)
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in errors] == [SchemaRejectedError] * 3
    assert len({id(error) for error in errors}) == 3, "each caller has an error of its own"
    assert (await registry.register("orders-value", SCHEMA)).id == 1


async def test_a_cancelled_call_leaves_the_request_to_the_others(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    with fake_schema_registry.paused():
        first = asyncio.create_task(registry.register("orders-value", SCHEMA))
        second = asyncio.create_task(registry.register("orders-value", SCHEMA))
        await asyncio.sleep(0)
        first.cancel()
    assert (await second).id == 1
    assert first.cancelled()
    assert fake_schema_registry.requests == {REGISTER: 1}


async def test_closing_cancels_what_is_looked_up(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    with fake_schema_registry.paused():
        call = asyncio.create_task(registry.register("orders-value", SCHEMA))
        await asyncio.sleep(0)
        await registry.close()
        with pytest.raises(UsageError, match="was closed during a request"):
            await call
    with pytest.raises(UsageError, match="is closed"):
        await registry.subjects()


async def test_a_call_while_it_closes(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    with fake_schema_registry.paused():
        call = asyncio.create_task(registry.register("orders-value", SCHEMA))
        await asyncio.sleep(0)
        closing = asyncio.create_task(registry.close())
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="is closed"):
            await asyncio.wait_for(registry.latest("orders-value"), 5)
        await closing
        with pytest.raises(UsageError, match="was closed"):
            await call


async def test_closing_cancels_calls_that_no_other_shares(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    with fake_schema_registry.paused():
        calls = [asyncio.create_task(registry.subjects()), asyncio.create_task(registry.is_compatible("a", SCHEMA))]
        # They are about to connect, which closing the client does not end.
        await asyncio.sleep(0)
        await registry.close()
        for call in calls:
            with pytest.raises(UsageError, match="was closed"):
                await asyncio.wait_for(call, 5)


async def test_schemas_by_id_are_cached_up_to_a_number(fake_schema_registry: FakeSchemaRegistry) -> None:
    ids = [fake_schema_registry.register(f"s{number}", avro_record(f"R{number}", id="int")) for number in range(3)]
    async with SchemaRegistry(fake_schema_registry.url, schemas_cached_max=2) as registry:
        for each in (ids[0], ids[1], ids[0], ids[2], ids[0], ids[1]):
            assert f'"R{each - 1}"' in (await registry.schema(each)).text
    assert fake_schema_registry.requests == {
        f"GET /schemas/ids/{ids[0]}": 1,
        "GET /schemas/ids/2": 2,
        "GET /schemas/ids/3": 1,
    }


async def test_a_schema_by_its_guid(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    known = await registry.register("orders-value", SCHEMA)
    assert isinstance(known.guid, uuid.UUID)
    assert await registry.schema(known.guid) == await registry.schema(known.guid) == SCHEMA
    assert fake_schema_registry.requests[f"GET /schemas/guids/{known.guid}"] == 1


async def test_the_latest_version_is_cached_for_a_time(fake_schema_registry: FakeSchemaRegistry) -> None:
    clock = Clock()
    fake_schema_registry.register("orders-value", ORDER)
    async with SchemaRegistry(fake_schema_registry.url, clock=clock, latest_ttl_ms=5000) as registry:
        assert (await registry.latest("orders-value")).version == 1
        fake_schema_registry.register("orders-value", avro_record("Order", id="int", more=("int", 0)))
        clock.now += 4.9
        assert (await registry.latest("orders-value")).version == 1
        clock.now += 0.2
        assert (await registry.latest("orders-value")).version == 2
    assert fake_schema_registry.requests["GET /subjects/orders-value/versions/latest"] == 2


async def test_normalized_schemas(registry: SchemaRegistry) -> None:
    schema = Schema(json_schema("Order", id={"type": "integer", "title": "Id"}), "JSON")
    turned = Schema(schema.text.replace('"type": "integer", "title": "Id"', '"title": "Id", "type": "integer"'), "JSON")
    assert schema != turned
    await registry.register("orders-value", schema)
    assert (await registry.find("orders-value", turned, normalize=True)).version == 1
    with pytest.raises(UnknownSchemaError):
        await registry.find("orders-value", turned)


async def test_subjects_with_any_letters(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    for subject in ("a/b.proto", "with space", "%41?x=1#", "ü"):
        assert (await registry.register(subject, SCHEMA)).id == 1
        assert fake_schema_registry.requests[f"POST /subjects/{subject}/versions"] == 1
    assert set(await registry.subjects()) == {"a/b.proto", "with space", "%41?x=1#", "ü"}


async def test_versions_and_ids_are_numbers(registry: SchemaRegistry) -> None:
    given: Any = registry
    with pytest.raises(UsageError, match="The version of a subject is of type str: it is an int"):
        await given.version("orders-value", "latest")
    with pytest.raises(UsageError, match="A schema is looked up by str: give its id, an int, or GUID, a UUID"):
        await given.schema("1")


async def test_one_event_loop(registry: SchemaRegistry) -> None:
    await registry.subjects()
    with pytest.raises(UsageError, match="another event loop"):
        await asyncio.to_thread(asyncio.run, registry.subjects())


async def test_closing_in_another_event_loop(fake_schema_registry: FakeSchemaRegistry) -> None:
    registry = SchemaRegistry(fake_schema_registry.url)
    await registry.subjects()
    with pytest.raises(UsageError, match="another event loop"):
        await asyncio.to_thread(asyncio.run, registry.close())
    assert await registry.subjects() == [], "it is not closed"
    await registry.close()


async def test_closing_in_another_event_loop_while_a_schema_is_looked_up(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    with fake_schema_registry.paused():
        call = asyncio.create_task(registry.register("orders-value", SCHEMA))
        await asyncio.sleep(0)
        for other in (registry.close(), registry.register("orders-value", SCHEMA)):
            with pytest.raises(UsageError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, other)
    assert (await call).id == 1


async def test_preparing_in_another_event_loop(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    serializer = AvroSerializer(registry, ORDER)
    with fake_schema_registry.paused():
        call = asyncio.create_task(serializer.prepare("orders"))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, serializer.prepare("orders"))
    await call


def test_one_that_was_not_used_is_closed_in_any_event_loop() -> None:
    registry = SchemaRegistry("http://localhost:8081")
    asyncio.run(registry.close())
    asyncio.run(registry.close())
