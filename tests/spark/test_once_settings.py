"""What exactly-once delivery is told, and refuses before anything is begun."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod.errors import ConfigError, UnknownTopicError, UnsupportedVersionError
from aioprod.messages import DescribeTransactionsRequest, InitProducerIdRequest, OffsetFetchRequest
from aioprod.spark import worker
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.steps import Steps
from aioprod.testing.fixtures import FakeClusterThread
from aioprod.types import TopicPartition
from aioprod.wire.schema import AnyRequest


def steps_for(cluster: FakeClusterThread, topic: str) -> Steps:
    settings = OnceSettings.of(
        {"bootstrap_servers": cluster.bootstrap, "kafka.client.id": "x"}, transactional_id="load", topic=topic
    )
    return Steps(settings.session(), marker=settings.marker, owner="me")


def test_a_topic_that_does_not_exist(fake_cluster: FakeClusterThread) -> None:
    with pytest.raises(UnknownTopicError, match="'absent' does not exist"):
        worker.run(steps_for(fake_cluster, "absent").start())
    assert not fake_cluster.seen_of(InitProducerIdRequest)


@pytest.mark.parametrize("lacking", [OffsetFetchRequest, DescribeTransactionsRequest])
def test_brokers_that_are_too_old(fake_cluster: FakeClusterThread, lacking: type[AnyRequest]) -> None:
    fake_cluster.create_topic("t", 1)
    for broker in fake_cluster.brokers.values():
        if lacking is OffsetFetchRequest:
            broker.versions[lacking] = (0, 6)
        else:
            del broker.versions[lacking]
    with pytest.raises(UnsupportedVersionError, match=r"too old for transactions.*Kafka 3\.0 or later"):
        worker.run(steps_for(fake_cluster, "t").start())
    assert not fake_cluster.seen_of(InitProducerIdRequest)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"transactional_id": ""}, "transactional.id is empty"),
        ({"topic": None}, "no topic for the marker"),
        ({"attempts": 0}, "attempts is 0"),
        ({"when_marker_is_missing": "hope"}, "'hope': it must be one of"),
        ({"kafka": {"bootstrap.servers": "h:1", "lingerms": 5}}, "linger"),
        ({"kafka": {"bootstrap.servers": "h:1", "acks": "1"}}, "acks"),
        ({"kafka": {}}, "bootstrap.servers is missing"),
    ],
)
def test_options_that_can_not_work(options: dict[str, Any], complaint: str) -> None:
    given: dict[str, Any] = {"transactional_id": "load", "topic": "t", "kafka": {"bootstrap.servers": "h:1"}} | options
    with pytest.raises(ConfigError, match=complaint):
        OnceSettings.of(given.pop("kafka"), **given)


def test_settings_are_those_of_a_producer() -> None:
    settings = OnceSettings.of(
        {"bootstrap_servers": "h:1", "kafka.linger.ms": 7, "compression_type": "zstd", "client_id": "hidden"},
        transactional_id="load",
        marker_topic="m",
    )
    assert settings.marker == TopicPartition("m", 0)
    assert settings.kafka.producer()["linger_ms"] == 7
    assert settings.session().transaction_timeout_ms == 900_000
    assert "hidden" not in repr(settings)
