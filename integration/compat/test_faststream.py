"""A FastStream app with aiokafka's producer and with aioprod's: each way to publish does the same."""

from __future__ import annotations

import aiokafka
import aiokafka.producer
import pytest

from aioprod.compat.aiokafka import AIOKafkaProducer, install
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic
from tests.support.faststream_app import WAYS, App

TOPICS = ("out", "into", "many", "answers")


@pytest.fixture(params=["aiokafka", "aioprod"])
def producer_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[object]:
    """What FastStream makes its producer of; aiokafka has its own class back after the test."""
    for module in (aiokafka, aiokafka.producer):
        monkeypatch.setattr(module, "AIOKafkaProducer", module.AIOKafkaProducer)
    if request.param == "aioprod":
        install()
    made: type[object] = aiokafka.AIOKafkaProducer
    assert (made is AIOKafkaProducer) is (request.param == "aioprod")
    return made


@pytest.mark.parametrize("way", WAYS)
async def test_way_to_publish(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, producer_class: type[object], way: str
) -> None:
    topics = {name: await make_topic(kafka_cluster, 2) for name in TOPICS}
    async with App(kafka_cluster.bootstrap_servers, topics) as app:
        assert type(app.broker.config.producer._producer.producer) is producer_class  # type: ignore[attr-defined]
        await WAYS[way](app)


async def test_settings_of_the_broker_reach_the_producer(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, producer_class: type[object]
) -> None:
    topics = {name: await make_topic(kafka_cluster, 2) for name in TOPICS}
    options = {"acks": "all", "compression_type": "lz4", "linger_ms": 5, "enable_idempotence": True, "client_id": "app"}
    async with App(kafka_cluster.bootstrap_servers, topics, **options) as app:
        await app.broker.publish("text", topics["out"])
        assert (await app.next()).body == "text"
