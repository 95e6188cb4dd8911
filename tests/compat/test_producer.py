"""What only aioprod's side of the pair has: room, outcomes that are not known, log-ins, rights, replacing."""

from __future__ import annotations

import asyncio
import enum
import logging
import ssl
import sys
import types
from typing import Any

import aiokafka
import aiokafka.producer
import pytest
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerClosed,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka.partitioner import DefaultPartitioner as TheirDefault
from aiokafka.structs import TopicPartition as TheirPlace

from aioprod.compat.aiokafka import AIOKafkaProducer, TopicPartition, install, options
from aioprod.compat.aiokafka.deliveries import BatchDelivery
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BufferFullError,
    ErrorCode,
    InvalidRecordError,
    NotSentError,
    RejectedError,
    UnknownOutcomeError,
    UsageError,
)
from aioprod.messages import EndTxnRequest, ProduceRequest
from aioprod.producer.batching.batch import Run
from aioprod.producer.failure import Failure
from aioprod.records.layout import HEADER
from aioprod.testing import Acl, FakeCluster, Security
from aioprod.testing.security import unsecured_token
from aioprod.types import TopicPartition as OurPlace

pytestmark = pytest.mark.usefixtures("patient")

RECORD = b"x" * 1_000_000
ROOM = 33
"""Records of that size that fit into the 32 MiB; half a megabyte is left."""

LARGE = b"x" * 700_000


async def filled(producer: AIOKafkaProducer) -> list[asyncio.Future[Any]]:
    """Send until no more fits."""
    return [await producer.send("orders", RECORD) for _ in range(ROOM)]


async def test_send_waits_for_room_and_keeps_the_order() -> None:
    async with FakeCluster() as brokers, AIOKafkaProducer(bootstrap_servers=brokers.bootstrap) as producer:
        brokers.create_topic("orders")
        await producer.partitions_for("orders")
        brokers.freeze(1)
        await filled(producer)
        waiting: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(producer.send_and_wait("orders", b"%d" % number + LARGE)) for number in range(5)
        ]
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"batch")
        waiting.append(asyncio.ensure_future(producer.send_batch(batch, "orders", partition=0)))
        await asyncio.sleep(0)
        assert producer._producer.buffered.records == ROOM
        brokers.thaw(1)
        for each in waiting:
            await each
        await producer.flush()
        values = [record.value or b"" for record in brokers.records("orders")]
    assert [value[:5] for value in values[ROOM:]] == [b"0xxxx", b"1xxxx", b"2xxxx", b"3xxxx", b"4xxxx", b"batch"]


async def test_a_topic_that_backs_off_has_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_BUFFER_MEMORY", 100_000)
    small: Any = {"max_batch_size": 1000, "max_request_size": 20_000}
    async with FakeCluster() as brokers, AIOKafkaProducer(bootstrap_servers=brokers.bootstrap, **small) as producer:
        for name in ("moving", "stuck"):
            brokers.create_topic(name)
        fault = brokers.fault(
            ProduceRequest, times=None, partition=OurPlace("stuck", 0), error=ErrorCode.NOT_ENOUGH_REPLICAS
        )
        await producer.send_and_wait("moving", b"x" * 1000)
        waiting = [asyncio.ensure_future(producer.send_and_wait("stuck", b"%d" % n + b"x" * 1000)) for n in range(99)]
        while "stuck" not in producer._turns._lines:
            await producer.send_and_wait("moving", b"x" * 1000)
        for _ in range(20):
            await producer.send_and_wait("moving", b"x" * 1000)
        assert not any(each.done() for each in waiting)
        fault.end()
        await asyncio.gather(*waiting)
        values = [record.value or b"" for record in brokers.records("stuck")]
    assert [int(value.rstrip(b"x")) for value in values] == list(range(99))


async def test_no_room_in_time_is_a_kafka_timeout() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("orders")
        producer = AIOKafkaProducer(bootstrap_servers=brokers.bootstrap, request_timeout_ms=600, linger_ms=600_000)
        async with producer:
            await producer.partitions_for("orders")
            brokers.freeze(1)
            futures = await filled(producer)
            with pytest.raises(KafkaTimeoutError) as caught:
                await producer.send("orders", RECORD)
            assert isinstance(caught.value, BufferFullError)
            brokers.thaw(1)
            await asyncio.gather(*futures, return_exceptions=True)


async def test_a_send_that_is_cancelled_while_it_waits_for_room_sends_nothing() -> None:
    async with FakeCluster() as brokers, AIOKafkaProducer(bootstrap_servers=brokers.bootstrap) as producer:
        brokers.create_topic("orders")
        await producer.partitions_for("orders")
        brokers.freeze(1)
        await filled(producer)
        waiting = [asyncio.ensure_future(producer.send("orders", value + LARGE)) for value in (b"no", b"yes")]
        await asyncio.sleep(0)
        waiting[0].cancel()
        brokers.thaw(1)
        await waiting[1]
        await producer.flush()
        assert [record.value for record in brokers.records("orders")][ROOM:] == [b"yes" + LARGE]


async def test_a_batch_with_a_record_that_is_too_large_is_not_sent_in_part() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("orders")
        async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap, max_batch_size=3_000_000) as producer:
            batch = producer.create_batch()
            for value in (b"small", b"x" * 2_000_000):
                assert batch.append(timestamp=None, key=None, value=value) is not None
            with pytest.raises(MessageSizeTooLargeError, match=r"max.request.size=1048576"):
                await producer.send_batch(batch, "orders", partition=0)
        assert brokers.records("orders") == []


async def test_a_batch_takes_the_bytes_that_it_has_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_BUFFER_MEMORY", 40_000)
    small: Any = {"max_batch_size": 20_000, "max_request_size": 20_000}
    async with FakeCluster() as brokers, AIOKafkaProducer(bootstrap_servers=brokers.bootstrap, **small) as producer:
        brokers.create_topic("orders")
        batch = producer.create_batch()
        while batch.append(timestamp=1, key=None, value=b"") is not None:
            pass
        await producer.partitions_for("orders")
        brokers.freeze(1)
        futures = [await producer.send_batch(batch, "orders", partition=0) for _ in range(2)]
        assert producer._producer.buffered == (2 * batch.record_count(), 2 * (batch.size() - HEADER))
        third = asyncio.ensure_future(producer.send_batch(batch, "orders", partition=0))
        await asyncio.sleep(0)
        assert producer._producer.buffered.records == 2 * batch.record_count()
        brokers.thaw(1)
        stored = await asyncio.gather(*futures, await third)
    assert [one and one.offset for one in stored] == [number * batch.record_count() for number in range(3)]


async def test_a_topic_that_is_deleted_while_a_batch_waits_for_room_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with FakeCluster() as brokers, AIOKafkaProducer(bootstrap_servers=brokers.bootstrap) as producer:
        brokers.create_topic("orders")
        batch = producer.create_batch()
        batch.append(timestamp=1, key=None, value=b"one")
        await producer.partitions_for("orders")
        known = producer._producer.known

        async def forgotten(self: object, topic: str) -> None:
            await known(topic)
            producer._producer._engine.parts.accumulator.topics[topic].partitions.clear()

        monkeypatch.setattr(type(producer._producer), "known", forgotten)
        with pytest.raises(UnknownTopicOrPartitionError, match="'orders' was deleted while a batch for it waited"):
            await producer.send_batch(batch, "orders", partition=0)


async def test_what_is_no_batch_is_named_in_one_sentence() -> None:
    producer = AIOKafkaProducer(bootstrap_servers="localhost")
    records: Any = [b"x"]
    with pytest.raises(
        TypeError, match=r"The batch is of type list: give one that create_batch\(\) has made"
    ) as caught:
        await producer.send_batch(records, "orders", partition=0)
    assert isinstance(caught.value, InvalidRecordError)


@pytest.mark.parametrize("timestamp", [float("nan"), float("inf"), -float("inf")])
async def test_a_timestamp_that_is_no_time_is_named_in_one_sentence(timestamp: float) -> None:
    batch = AIOKafkaProducer(bootstrap_servers="localhost").create_batch()
    with pytest.raises(InvalidRecordError, match=rf"The timestamp {timestamp} is not a time"):
        batch.append(timestamp=timestamp, key=None, value=b"x")


async def test_a_lost_answer_may_be_stored() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("orders")
        options: Any = {"request_timeout_ms": 500, "retry_backoff_ms": 10}
        async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap, **options) as producer:
            brokers.fault(ProduceRequest, silent=True, times=None)
            with pytest.raises(UnknownOutcomeError) as caught:
                await producer.send_and_wait("orders", b"value")
            assert isinstance(caught.value, (RequestTimedOutError, KafkaConnectionError, KafkaTimeoutError))
            assert caught.value.may_be_stored


async def test_a_record_that_never_left_was_not_stored() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("orders")
        producer = AIOKafkaProducer(bootstrap_servers=brokers.bootstrap, request_timeout_ms=500)
        async with producer:
            await producer.partitions_for("orders")
            await brokers.kill(1)
            with pytest.raises(NotSentError) as caught:
                await producer.send_and_wait("orders", b"value")
            assert not caught.value.may_be_stored


async def test_a_failure_that_nobody_waits_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster() as brokers, AIOKafkaProducer(bootstrap_servers=brokers.bootstrap) as producer:
        brokers.create_topic("orders", max_message_bytes=1000)
        future = await producer.send("orders", b"x" * 5000)
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"x" * 5000)
        for each in (future, await producer.send_batch(batch, "orders", partition=0)):
            each.cancel()
        await producer.flush()
    logged = [
        line for line in caplog.records if line.levelno == logging.WARNING and "MESSAGE_TOO_LARGE" in line.message
    ]
    assert [line.name for line in logged] == ["aioprod.producer"] * len(logged)
    assert logged


async def test_a_batch_is_one_batch_on_the_wire() -> None:
    async with FakeCluster() as brokers:
        topic = brokers.create_topic("orders")
        async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap, linger_ms=50) as producer:
            futures = [await producer.send("orders", b"before")]
            batch = producer.create_batch()
            while batch.append(timestamp=None, key=b"k", value=b"x" * 100) is not None:
                pass
            futures += [
                await producer.send_batch(batch, "orders", partition=0),
                await producer.send("orders", b"after"),
            ]
            for future in futures:
                await future
        sizes = [len(list(one.records())) for one in topic.partitions[0].batches()]
    assert sizes == [1, batch.record_count(), 1]


FAILURE = Failure(family=RejectedError, event="A record of orders-0", why="refused.", topic="orders", partition=0)


async def test_a_batch_of_which_a_part_failed_may_be_stored() -> None:
    delivery = BatchDelivery(asyncio.get_running_loop().create_future(), 3, True)
    delivery.complete(OurPlace("orders", 0), Run(delivery, 0, 2), 3, -1, None, 0)
    delivery.complete(OurPlace("orders", 0), Run(delivery, 2, 1), -1, -1, FAILURE, 0)
    with pytest.raises(RejectedError) as caught:
        await delivery.future
    assert caught.value.may_be_stored


async def test_a_batch_that_the_broker_finds_too_large_is_sent_in_halves() -> None:
    async with FakeCluster() as brokers, AIOKafkaProducer(bootstrap_servers=brokers.bootstrap) as producer:
        topic = brokers.create_topic("orders")
        brokers.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
        batch = producer.create_batch()
        for number in range(10):
            batch.append(timestamp=number, key=b"%d" % number, value=b"x" * 20, headers=[("n", b"%d" % number)])
        stored = await (await producer.send_batch(batch, "orders", partition=0))
        assert stored == ("orders", 0, TopicPartition("orders", 0), 0, -1, 0, None)
        assert len(topic.partitions[0].log) > 1
        read = [(record.timestamp, record.key, record.headers) for record in brokers.records("orders")]
    assert read == [(number, b"%d" % number, (("n", b"%d" % number),)) for number in range(10)]


async def test_the_failure_of_a_batch_whose_future_was_cancelled_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster() as brokers, AIOKafkaProducer(bootstrap_servers=brokers.bootstrap) as producer:
        brokers.create_topic("orders")
        brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION)
        batch = producer.create_batch()
        for value in (b"one", b"two"):
            batch.append(timestamp=None, key=None, value=value)
        future = await producer.send_batch(batch, "orders", partition=0)
        future.cancel()
        await producer.flush()
    assert [record.message[:40] for record in caplog.records if record.levelname == "WARNING"] == [
        "2 records of orders-0 were not delivered"
    ]


# --- log-ins and rights


class Tokens:
    calls = 0

    async def token(self) -> str:
        self.calls += 1
        return unsecured_token("alice").value


class NoTokens:
    async def token(self) -> Any:
        return b"bytes"


async def test_a_token_that_is_no_str_ends_the_start() -> None:
    async with FakeCluster(security=Security(protocol="SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"])) as brokers:
        producer = AIOKafkaProducer(
            bootstrap_servers=brokers.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=NoTokens(),
        )
        with pytest.raises(AuthenticationFailedError, match="returned an object of type bytes, no str"):
            await producer.start()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_each_log_in(protocol: Any, mechanism: str) -> None:
    security = Security(protocol=protocol)
    tls = {"ssl_context": ssl.create_default_context(cadata=security.authority.certificate)} if security.has_tls else {}
    users = {"sasl_plain_username": "alice", "sasl_plain_password": "alice-secret"}
    given: Any = {"sasl_oauth_token_provider": Tokens()} if mechanism == "OAUTHBEARER" else users
    async with FakeCluster(security=security) as brokers:
        brokers.create_topic("orders")
        options = {"security_protocol": protocol, "sasl_mechanism": mechanism, **tls, **given}
        async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap, **options) as producer:
            await producer.send_and_wait("orders", b"value")
        assert [record.value for record in brokers.records("orders")] == [b"value"]


async def test_a_wrong_password_ends_the_start() -> None:
    async with FakeCluster(security=Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])) as brokers:
        producer = AIOKafkaProducer(
            bootstrap_servers=brokers.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_plain_username="alice",
            sasl_plain_password="wrong",
        )
        with pytest.raises(AuthenticationFailedError) as caught:
            await producer.start()
        assert "wrong" not in str(caught.value)


async def test_a_missing_right_is_one_of_the_topic() -> None:
    acls = [Acl("User:alice", "DESCRIBE", "topic", "orders")]
    security = Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"], acls=acls)
    async with FakeCluster(security=security) as brokers:
        brokers.create_topic("orders")
        brokers.create_topic("hidden")
        async with AIOKafkaProducer(
            bootstrap_servers=brokers.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_plain_username="alice",
            sasl_plain_password="alice-secret",
        ) as producer:
            with pytest.raises(TopicAuthorizationFailedError) as caught:
                await producer.send_and_wait("orders", b"value")
            assert isinstance(caught.value, (AuthorizationError, AioprodError))
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send("hidden", b"value")


# --- small things


@pytest.mark.parametrize("group", [None, "group"])
async def test_aiokafkas_consumer_reads_it_back_from_fake_brokers(group: str | None) -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("orders", 2)
        async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap) as producer:
            await producer.send_and_wait("orders", b"value", key=b"key")
        options = {"bootstrap_servers": brokers.bootstrap, "auto_offset_reset": "earliest"}
        async with aiokafka.AIOKafkaConsumer("orders", group_id=group, **options) as consumer:
            record = await consumer.getone()
    assert (record.key, record.value) == (b"key", b"value")


async def test_topics_out_of_an_enumeration() -> None:
    class Topics(enum.StrEnum):
        ORDERS = "orders"

    async with FakeCluster() as brokers:
        brokers.create_topic("orders")
        async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap) as producer:
            stored = await producer.send_and_wait(Topics.ORDERS, b"tea")
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=b"cake")
            await (await producer.send_batch(batch, Topics.ORDERS, partition=0))
            assert await producer.partitions_for(Topics.ORDERS)
    assert stored is not None
    assert type(stored.topic) is str


async def test_partitions_out_of_an_enumeration() -> None:
    class Partitions(enum.IntEnum):
        EAST = 1

    async with FakeCluster() as brokers:
        brokers.create_topic("orders", 2)
        async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap) as producer:
            stored = await producer.send_and_wait("orders", b"tea", partition=Partitions.EAST)
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=b"cake")
            await (await producer.send_batch(batch, "orders", partition=Partitions.EAST))
    assert stored is not None
    assert (stored.partition, type(stored.partition)) == (1, int)


async def test_a_stop_in_another_event_loop_stops_nothing() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("orders")
        producer = AIOKafkaProducer(bootstrap_servers=brokers.bootstrap)
        await producer.start()
        with pytest.raises(IllegalStateError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, producer.stop())
        assert await producer.send_and_wait("orders", b"tea") is not None
        await asyncio.gather(producer.stop(), producer.stop())
        assert "closed" in repr(producer)
        with pytest.raises(ProducerClosed):
            await producer.send("orders", b"tea")


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("waits", [True, False])
async def test_a_transaction_begins_after_an_end_that_was_cancelled(end: str, waits: bool) -> None:
    """As with aiokafka, the end continues: a caller that has left a block by a cancellation does not call it again."""
    async with FakeCluster() as brokers:
        brokers.create_topic("orders")
        async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap, transactional_id="till") as producer:
            await producer.begin_transaction()
            await producer.send_and_wait("orders", b"tea")
            fault = brokers.fault(EndTxnRequest, hold=True)
            ending = asyncio.create_task(getattr(producer, f"{end}_transaction")())
            while not fault.hits:
                await asyncio.sleep(0.001)
            ending.cancel()
            await asyncio.wait([ending])
            if waits:
                fault.release()
                await asyncio.sleep(0.1)
            else:
                asyncio.get_running_loop().call_later(0.1, fault.release)
            async with producer.transaction():
                await producer.send("orders", b"cake")
        stored = [record.value for record in brokers.records("orders")]
    assert stored == ([b"tea", b"cake"] if end == "commit" else [b"cake"])


async def test_a_flush_after_the_end_does_nothing() -> None:
    async with FakeCluster() as brokers:
        producer = AIOKafkaProducer(bootstrap_servers=brokers.bootstrap)
        await producer.start()
        await producer.stop()
        await producer.flush()


async def test_places_of_aiokafka_and_of_aioprod_are_taken_alike() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("orders")
        async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap, transactional_id="till") as producer:
            for place in (TopicPartition("orders", 0), TheirPlace("orders", 0), OurPlace("orders", 0)):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({place: 5}, "group")


async def test_the_client_says_what_it_has() -> None:
    producer = AIOKafkaProducer(bootstrap_servers="localhost")
    assert producer.client.cluster.topics() == set()
    assert producer.client.cluster.leader_for_partition(TopicPartition("orders", 0)) is None
    with pytest.raises(AttributeError, match=r"has no 'coordinator_lookup': it has cluster and fetch_all_metadata"):
        _ = producer.client.coordinator_lookup
    with pytest.raises(UsageError, match="not started"):
        await producer.client.fetch_all_metadata()
    await producer.stop()


async def test_leaders_of_the_cluster() -> None:
    async with FakeCluster(brokers=2) as brokers:
        brokers.create_topic("orders", 2)
        async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap) as producer:
            await producer.partitions_for("orders")
            cluster = producer.client.cluster
            assert {cluster.leader_for_partition(TopicPartition("orders", index)) for index in (0, 1)} == {1, 2}
            assert cluster.broker_metadata(7) is None
            assert cluster.available_partitions_for_topic("nothing") is None


async def test_a_repr_has_no_secret() -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers="kafka",
        security_protocol="SASL_PLAINTEXT",
        sasl_plain_username="u",
        sasl_plain_password="hush",
    )
    assert "kafka:9092" in repr(producer)
    assert "hush" not in repr(producer)


KSTREAMS = ["kstreams.backends.kafka.clients", "kstreams.clients"]
"""Where releases of kstreams have their producer."""


def test_install_puts_it_where_frameworks_look(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (aiokafka, aiokafka.producer):
        monkeypatch.setattr(module, "AIOKafkaProducer", module.AIOKafkaProducer)
    for name in KSTREAMS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    install()
    assert aiokafka.AIOKafkaProducer is aiokafka.producer.AIOKafkaProducer is AIOKafkaProducer
    install()


@pytest.mark.parametrize("name", KSTREAMS)
def test_install_comes_before_kstreams(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    kstreams: Any = types.ModuleType("clients")
    kstreams.Producer = type("Producer", (aiokafka.AIOKafkaProducer,), {})
    monkeypatch.setitem(sys.modules, name, kstreams)
    with pytest.raises(UsageError, match="before the first import of kstreams"):
        install()
    assert aiokafka.AIOKafkaProducer is not AIOKafkaProducer


@pytest.mark.parametrize("given", [None, TheirDefault()])
def test_the_default_partitioner_can_be_called_as_kstreams_does(given: Any) -> None:
    partitioner: Any = AIOKafkaProducer(partitioner=given)._partitioner
    everywhere = [0, 1, 2, 3, 4]
    for number in range(50):
        key = b"key %d" % number
        assert partitioner(key, everywhere, []) == TheirDefault()(key, everywhere, [])
    assert partitioner(None, everywhere, [3]) == 3
    assert partitioner(None, everywhere, []) in everywhere
