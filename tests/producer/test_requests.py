"""What Produce requests hold: their size, their version, acks, how many are outstanding; and throttling."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import ErrorCode
from aioprod.messages import ProduceRequest
from aioprod.records.compression import Compression
from aioprod.testing import FakeCluster
from tests.support.producers import Outcomes, ShiftedClock, pass_time, produced, running, turns, until
from tests.support.simulated import far_away


def sizes_of_requests(brokers: FakeCluster) -> list[int]:
    """The bytes of records in each Produce request."""
    return [
        sum(len(part.records or b"") for data in request.topic_data for part in data.partition_data)
        for request in brokers.seen_of(ProduceRequest)
    ]


async def test_a_request_stays_below_max_request_size(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=10)
    async with running(brokers, max_request_size=3000, batch_size=1000) as producer:
        await producer.partitions_for("t")
        futures = [producer.submit("t", b"x" * 800, partition=n) for n in range(10)]
        for future in futures:
            await future
    assert len(topic.records()) == 10
    sizes = sizes_of_requests(brokers)
    assert max(sizes) <= 3000
    assert len(sizes) == 4


@pytest.mark.parametrize(
    ("round_trip_s", "options", "largest"),
    [
        pytest.param(0.002, {}, 1_048_576, id="near"),
        pytest.param(0.1, {}, 8 * 2**20, id="far"),
        pytest.param(0.1, {"max_request_size": 2_000_000}, 2_000_000, id="far, with a size that was given"),
        pytest.param(4.0, {}, 1_048_576, id="the link is slow"),
    ],
)
def test_where_the_round_trip_is_long_a_request_takes_more_batches(
    round_trip_s: float, options: dict[str, Any], largest: int
) -> None:
    async def scene(brokers: FakeCluster, producer: Producer) -> None:
        await producer.send("t", b"first", partition=0)
        values, places = [b"x" * 100_000] * 5, range(16)
        await asyncio.gather(*(producer.send_many("t", values, partition=place) for place in places))
        assert largest / 2 - 100_000 < max(sizes_of_requests(brokers)) <= largest

    far_away(scene, round_trip_s, partitions=16, **options)


async def test_partitions_of_several_topics_share_a_request(brokers: FakeCluster) -> None:
    for name in ("a", "b", "c"):
        brokers.create_topic(name, partitions=2)
    async with running(brokers) as producer:
        for name in ("a", "b", "c"):
            await producer.partitions_for(name)
        futures = [producer.submit(name, b"v", partition=n) for n in range(2) for name in ("a", "b", "c")]
        for future in futures:
            await future
    (request,) = brokers.seen_of(ProduceRequest)
    assert [len(data.partition_data) for data in request.topic_data] == [2, 2, 2]


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_max_in_flight(brokers: FakeCluster, limit: int) -> None:
    brokers.create_topic("t", partitions=10)
    options: dict[str, Any] = {"max_in_flight_requests_per_connection": limit, "linger_ms": 0}
    async with running(brokers, **options) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = []
        for n in range(10):
            futures.append(producer.submit("t", b"v", partition=n))
            await turns(3)
        await hold.reached.wait()
        assert producer.metrics()["requests_in_flight"] == limit
        hold.release()
        for future in futures:
            await future


@pytest.mark.parametrize(("acks", "wire"), [("all", -1), (1, 1), ("-1", -1)])
async def test_acks(brokers: FakeCluster, acks: Any, wire: int) -> None:
    brokers.create_topic("t")
    async with running(brokers, acks=acks, request_timeout_ms=12_345) as producer:
        assert (await producer.send("t", b"v")).offset == 0
    (request,) = brokers.seen_of(ProduceRequest)
    assert (request.acks, request.timeout_ms) == (wire, 12_345)


async def test_acks_0_knows_no_offsets(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    outcomes = Outcomes()
    async with running(brokers, acks=0) as producer:
        first = await producer.send("t", b"0", timestamp=5)
        producer.send_nowait("t", b"1", on_delivery=outcomes)
        future = producer.submit("t", b"2")
        await producer.flush()
        assert (first.offset, first.timestamp, first.serialized_value_size) == (-1, 5, 1)
        assert (await future).offset == -1
        assert outcomes.offsets == [-1]
        assert producer.metrics()["requests_in_flight"] == 0
        report = await producer.close()
        await until(lambda: len(topic.records()) == 3)
    assert report.delivered == 3
    assert [request.acks for request in brokers.seen_of(ProduceRequest)] == [0] * len(produced(brokers))


async def test_acks_0_while_the_broker_is_down(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, acks=0) as producer:
        await producer.send("t", b"0")
        await until(lambda: len(topic.records()) == 1)
        await brokers[1].kill(stay_in_metadata=True)
        await until(lambda: producer.metrics()["connection_count"] == 0)
        future = producer.submit("t", b"1")
        await turns()
        assert not future.done(), "nothing was sent yet"
        await brokers[1].start()
        assert (await future).offset == -1
        await until(lambda: len(topic.records()) == 2)


@pytest.mark.parametrize("version", range(3, 14))
async def test_every_version_of_produce(brokers: FakeCluster, version: int) -> None:
    topic = brokers.create_topic("t", partitions=2)
    brokers[1].versions[ProduceRequest] = (0, version)
    codec = "zstd" if version >= 7 else "gzip"
    async with running(brokers, compression_type=codec) as producer:
        futures = [producer.submit("t", b"much the same %d" % n, partition=1) for n in range(100)]
        await producer.flush()
        assert [(await future).offset for future in futures] == list(range(100))
    assert {seen.header.version for seen in brokers.seen if isinstance(seen.message, ProduceRequest)} == {version}
    assert len(topic.partitions[1].records()) == 100
    assert {batch.codec for batch in topic.partitions[1].batches()} == {int(Compression.of(codec))}


async def test_without_topic_ids_the_names_are_sent(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    topic.id = topic.id.__class__(int=0)
    async with running(brokers) as producer:
        assert (await producer.send("t", b"v")).offset == 0
    (version,) = {seen.header.version for seen in brokers.seen if isinstance(seen.message, ProduceRequest)}
    assert version < 13


async def test_a_broker_that_throttles_is_left_alone_for_that_time(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, throttle_ms=5000)
        await producer.send("t", b"0")
        waiting = producer.submit("t", b"1")
        await turns()
        assert len(produced(brokers)) == 1
        pass_time(producer, clock, 4.0)
        await turns()
        assert len(produced(brokers)) == 1
        pass_time(producer, clock, 2.0)
        assert (await waiting).offset == 1
        assert producer.metrics()["produce_throttle_time_max"] == 5000


async def test_old_brokers_throttle_by_themselves(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    brokers[1].versions[ProduceRequest] = (0, 5)
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, throttle_ms=500_000)
        await producer.send("t", b"0")
        assert (await producer.send("t", b"1")).offset == 1


async def test_a_request_that_is_larger_than_the_socket_takes_at_once(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=4)
    options: dict[str, Any] = {"batch_size": 900_000, "linger_ms": 0, "send_buffer_bytes": 4096}
    async with running(brokers, **options) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n * 500_000, partition=n) for n in range(4)]
        await hold.reached.wait()
        await turns()
        hold.release()
        async with asyncio.timeout(30):
            for future in futures:
                await future
    assert [record.value for record in topic.records()] == [b"%d" % n * 500_000 for n in range(4)]


async def test_a_broker_that_is_not_in_the_metadata_any_more(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    topic = brokers.create_topic("t", partitions=3)
    async with running(brokers) as producer:
        await producer.send("t", b"0", partition=2)
        await brokers[3].kill()
        waiting = producer.submit("t", b"1", partition=2)
        await turns()
        topic.partitions[2].leader = 1
        topic.partitions[2].leader_epoch += 1
        assert (await waiting).offset == 1
    assert [record.value for record in topic.partitions[2].records()] == [b"0", b"1"]


async def test_a_sent_batch_is_encoded_once(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, compression_type="gzip") as producer:
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
        for _ in range(30):
            producer.send_nowait("t", b"much the same")
        await producer.flush()
    sent = {
        bytes(part.records or b"")
        for request in brokers.seen_of(ProduceRequest)
        for data in request.topic_data
        for part in data.partition_data
    }
    assert len(sent) == 1
