"""A real schema registry, Apicurio's: the scenarios of the fake one, and confluent-kafka's serializers beside ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from aioprod import Member, Producer, read
from aioprod.schema_registry import AvroDeserializer, AvroSerializer, SchemaRegistry
from aioprod.testing import KafkaCluster
from integration.support.apicurio import running_apicurio
from integration.support.clusters import MakeTopic
from tests.support import confluent_registry as theirs
from tests.support.registry_scenarios import SCENARIOS, Scenario, fresh_prefix, result
from tests.support.registry_schemas import AVRO_CASES, ORDER

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real registry."""
    with running_apicurio(tmp_path_factory.mktemp("apicurio")) as url:
        # Confluent's default; Apicurio's own is to accept all.
        answer = httpx.put(f"{url}/config", json={"compatibility": "BACKWARD"}, trust_env=False)
        assert answer.status_code == 200
        yield url


@pytest.fixture
async def registry(apicurio: str) -> AsyncIterator[SchemaRegistry]:
    async with SchemaRegistry(apicurio) as registry:
        yield registry


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_scenario(registry: SchemaRegistry, scenario: Scenario) -> None:
    await scenario(registry, fresh_prefix())


async def test_the_bytes_are_those_of_confluent_kafka(
    registry: SchemaRegistry, apicurio: str, cases: Counter[str]
) -> None:
    with theirs.SchemaRegistryClient({"url": apicurio}) as client:
        for schema, values in AVRO_CASES.values():
            topic = fresh_prefix()
            serializer = theirs.AvroSerializer(client, schema, conf=theirs.options())
            mine = AvroSerializer(registry, schema)
            for value in values:
                expected, headers = theirs.serialized(serializer, topic, value)
                assert await result(mine.serialize(topic, [], value)) == expected
                assert headers == []
                cases["Avro values serialized as confluent-kafka does, with a real schema registry"] += 1


async def test_producer_reader_and_member(
    registry: SchemaRegistry, kafka_cluster: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = await make_topic(kafka_cluster)
    servers = kafka_cluster.bootstrap_servers
    async with Producer(servers, value_serializer=AvroSerializer(registry, ORDER)) as producer:
        for number in range(10):
            await producer.send(topic, {"id": number})
    values = [
        record.value["id"]
        async for record in read(topic, bootstrap_servers=servers, value_deserializer=AvroDeserializer(registry))
    ]
    assert values == list(range(10))
    seen: list[int] = []
    async with Member(
        servers,
        group_id=topic,
        topics=[topic],
        auto_offset_reset="earliest",
        value_deserializer=AvroDeserializer(registry),
    ) as member:
        async for record in member:
            seen.append(record.value["id"])
            if len(seen) == 10:
                break
    assert seen == values
