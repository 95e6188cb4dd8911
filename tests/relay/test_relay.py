"""A relay: each record of its source is in Kafka once and in order, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from aioprod import OffsetAndMetadata, Producer, ProducerRecord, TopicPartition
from aioprod.errors import (
    ConfigError,
    DeliveryError,
    ErrorCode,
    MarkerError,
    ProducerFencedError,
    RecordTooLargeError,
    UsageError,
)
from aioprod.messages import EndTxnRequest, InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest
from aioprod.net.protocol.backoff import Backoff
from aioprod.relay import Relay
from aioprod.relay import loop as relay_module
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.groups import Committed
from tests.support.sources import ListSource, numbers
from tests.support.tasks import running_task

MARKER = TopicPartition("t", 0)
GROUP = "aioprod-eos.relay"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_BACKOFF", Backoff(0.001, 0.01))
    monkeypatch.setattr(relay_module, "_FENCED_PAUSE_S", 0.001)


@pytest.fixture
async def brokers() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t", 3)
        yield cluster


def new_relay(brokers: FakeCluster, source: ListSource, **options: Any) -> Relay:
    given: dict[str, Any] = {
        "transactional_id": "relay",
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 5,
        "linger_ms": 0,
    }
    return Relay(source, brokers.bootstrap, **(given | options))


def running(relay: Relay) -> AbstractAsyncContextManager[asyncio.Task[None]]:
    return running_task(relay.run())


async def delivered(task: asyncio.Task[None], source: ListSource) -> None:
    """Wait until all is delivered; raises what has ended the relay."""
    waiting = asyncio.create_task(source.until_delivered())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        waiting.cancel()
        await task


def check(brokers: FakeCluster, count: int) -> None:
    """Each record is there once, and those of a partition are in order."""
    found = [numbers([record.value for record in brokers.records("t", index)]) for index in range(3)]
    assert sorted(number for partition in found for number in partition) == list(range(count))
    assert found == [sorted(partition) for partition in found]


def marker(brokers: FakeCluster) -> Committed:
    return brokers.state.groups[GROUP].offsets[MARKER]


# --- what it does


async def test_records_come_in_order_with_a_marker(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(10)
    relay = new_relay(brokers, source)
    assert (relay.position, relay.health().state) == (None, "new")
    async with running(relay) as task:
        await delivered(task, source)
        assert relay.position == b"10"
        source.put_numbers(5)
        await delivered(task, source)
        health = relay.health()
    check(brokers, 15)
    assert (health.state, health.error, health.failures) == ("running", None, 0)
    assert health.is_ready()
    assert relay.lag() == (0, 0.0)
    found = marker(brokers)
    assert (found.offset, (found.metadata or "").split("\n")[0]) == (15, "shop:15")
    assert source.delivered_positions[-1] == b"15"
    assert relay.health().state == "ended"
    assert not relay.health().is_alive


async def test_another_relay_continues(brokers: FakeCluster) -> None:
    source = ListSource()
    for count in (3, 4, 5):
        source.put_numbers(count)
        async with running(new_relay(brokers, source)) as task:
            await delivered(task, source)
    check(brokers, 12)


async def test_a_relay_runs_again_after_it_was_cancelled(brokers: FakeCluster) -> None:
    source = ListSource()
    relay = new_relay(brokers, source)
    for _ in range(2):
        source.put_numbers(3)
        async with running(relay) as task:
            await delivered(task, source)
            with pytest.raises(UsageError, match="runs already"):
                await relay.run()
    check(brokers, 6)


async def test_runs_grow_with_the_backlog(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(20_000)
    relay = new_relay(brokers, source)
    async with running(relay) as task:
        await delivered(task, source)
    check(brokers, 20_000)
    measured = relay.metrics()
    assert measured["relay_records_total"] == 20_000
    assert measured["relay_runs_total"] < 10


async def test_records_of_several_topics_with_all_their_parts(brokers: FakeCluster) -> None:
    brokers.create_topic("other", 2)
    source = ListSource()
    source.put(
        ProducerRecord("t", b"0", partition=1, headers=[("h", b"1")], timestamp=5),
        ProducerRecord("other", b"1"),
        ProducerRecord("t", b"2", partition=1),
        ProducerRecord("t", None, key=b"k"),
    )
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
    first, second = [record for record in brokers.records("t", 1) if record.value is not None]
    assert (first.value, first.headers, first.timestamp, second.value) == (b"0", (("h", b"1"),), 5, b"2")
    assert [record.value for record in brokers.records("other")] == [b"1"]
    assert [record.key for record in brokers.records("t") if record.value is None] == [b"k"]
    assert marker(brokers).offset == 4


async def test_the_marker_may_be_in_a_topic_of_its_own(brokers: FakeCluster) -> None:
    brokers.create_topic("markers")
    source = ListSource()
    source.put_numbers(3)
    for _ in range(2):
        async with running(new_relay(brokers, source, marker_topic="markers")) as task:
            await delivered(task, source)
        source.put_numbers(2)
    assert brokers.committed_offset(GROUP, TopicPartition("markers", 0)) == 5


async def test_at_least_once_says_source_and_position_in_headers(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put(ProducerRecord("t", b"0", headers=[("h", None)]), ProducerRecord("t", b"1"))
    async with running(new_relay(brokers, source, delivery="at-least-once")) as task:
        await delivered(task, source)
    found = {record.value: record.headers for record in brokers.records("t")}
    assert found[b"0"] == (("h", None), ("aioprod-source", b"shop"), ("aioprod-position", b"1"))
    assert found[b"1"] == (("aioprod-source", b"shop"), ("aioprod-position", b"2"))
    assert not brokers.seen_of(InitProducerIdRequest)[0].transactional_id


async def test_at_least_once_begins_where_the_source_has_noted(brokers: FakeCluster) -> None:
    class Noting(ListSource):
        async def noted(self) -> bytes | None:
            return b"2"

    source = Noting()
    source.put_numbers(4)
    async with running(new_relay(brokers, source, delivery="at-least-once")) as task:
        await delivered(task, source)
    assert {record.value for record in brokers.records("t")} == {b"2", b"3"}


# --- failures


@pytest.mark.parametrize("request_kind", [InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest, EndTxnRequest])
@pytest.mark.parametrize("drop", ["before", "after"])
async def test_lost_connections(brokers: FakeCluster, request_kind: Any, drop: str) -> None:
    source = ListSource()
    brokers.fault(request_kind, drop=drop, times=2)
    source.put_numbers(20)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
    check(brokers, 20)


@pytest.mark.parametrize("request_kind", [ProduceRequest, TxnOffsetCommitRequest, EndTxnRequest])
@pytest.mark.parametrize("takes_effect", [False, True])
async def test_a_relay_that_dies_within_a_transaction(
    brokers: FakeCluster, request_kind: Any, takes_effect: bool
) -> None:
    """It is cancelled while the brokers hold a request, which they handle later, or lose."""
    source = ListSource()
    source.put_numbers(5)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
        fault = brokers.fault(request_kind, hold=True, drop="lurking" if takes_effect else "before", times=None)
        source.put_numbers(5)
        await fault.reached.wait()
    fault.end()
    fault.release()
    source.put_numbers(5)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
    check(brokers, 15)
    assert marker(brokers).offset == 15


async def test_a_commit_that_was_carried_out_before_the_source_heard_of_it(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(5)

    async def die(position: bytes) -> None:
        raise RuntimeError(f"killed before {position!r} is dropped")

    source.delivered, kept = die, source.delivered  # type: ignore[method-assign]
    async with running(new_relay(brokers, source)) as task:
        with pytest.raises(RuntimeError, match="killed"):
            await task
    source.delivered = kept  # type: ignore[method-assign]
    source.put_numbers(2)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
    assert source.delivered_positions[0] == b"5"
    check(brokers, 7)


async def test_a_transaction_that_timed_out_is_no_takeover(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    source = ListSource()
    source.put_numbers(2)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
        brokers.fault(EndTxnRequest, error=ErrorCode.INVALID_PRODUCER_EPOCH)
        source.put_numbers(2)
        await delivered(task, source)
    check(brokers, 4)
    assert "starts again in" in caplog.text


async def test_a_fence_before_it_has_written_its_name_is_no_takeover(brokers: FakeCluster) -> None:
    """The name in the marker is its predecessor's then, such as that of a process that was killed."""
    source = ListSource()
    source.put_numbers(2)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
    brokers.fault(EndTxnRequest, error=ErrorCode.INVALID_PRODUCER_EPOCH)
    source.put_numbers(2)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
    check(brokers, 4)


async def test_of_two_relays_one_stops(brokers: FakeCluster) -> None:
    """It is the first one, if the second has a moment to write its name into the marker."""
    source = ListSource()
    source.put_numbers(3)
    async with running(new_relay(brokers, source)) as first:
        await delivered(first, source)
        async with running(new_relay(brokers, source)) as second:
            while not first.done() and not second.done():
                source.put_numbers(1)
                await asyncio.sleep(0.001)
            stopped, other = (first, second) if first.done() else (second, first)
            with pytest.raises(ProducerFencedError, match=r"Another relay .* has taken over, and this one stops"):
                await stopped
            await delivered(other, source)
    check(brokers, len(source.records))


async def test_a_relay_that_misses_what_its_successor_has_delivered(brokers: FakeCluster) -> None:
    """Sources drop what was delivered, so the old relay looks for records that are gone before brokers refuse it."""
    source, same = ListSource(), ListSource()
    for one in (source, same):
        one.put_numbers(3)
    async with running(new_relay(brokers, source)) as first:
        await delivered(first, source)
        same.put_numbers(3)
        async with running(new_relay(brokers, same)) as second:
            await delivered(second, same)
        source.dropped = 6
        source.put_numbers(4)
        with pytest.raises(ProducerFencedError, match="has taken over, and this one stops"):
            await first
    check(brokers, 6)


async def test_a_source_that_can_not_be_read_for_a_while(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(3)
    broken = iter([ConnectionError("no database"), TimeoutError()])
    kept = source.read

    async def read(after: bytes | None, limit: int) -> Any:
        if (error := next(broken, None)) is not None:
            raise error
        return await kept(after, limit)

    source.read = read  # type: ignore[method-assign]
    relay = new_relay(brokers, source)
    async with running(relay) as task:
        await delivered(task, source)
    check(brokers, 3)
    assert relay.metrics()["relay_failures_total"] == 2


async def test_a_record_that_is_too_large_ends_it(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(2)
    source.put(ProducerRecord("t", b"x" * 2_000_000))
    async with running(new_relay(brokers, source)) as task:
        with pytest.raises(RecordTooLargeError):
            await task
    assert brokers.records("t") == []
    assert source.dropped == 0


async def test_a_record_that_brokers_will_never_take_ends_it(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(2)
    brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, times=None)
    relay = new_relay(brokers, source)
    async with running(relay) as task:
        with pytest.raises(DeliveryError) as raised:
            await task
        assert relay.health().error is raised.value
    assert brokers.records("t") == []


async def test_cancelling_takes_no_time_while_brokers_are_silent(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(2)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
        brokers.freeze(1)
        source.put_numbers(2)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(20):  # Its requests would wait for 30 s and more.
                await task


# --- markers that don't belong to it


async def commit_marker(brokers: FakeCluster, tp: TopicPartition, offset: OffsetAndMetadata) -> None:
    async with Producer(brokers.bootstrap, transactional_id="relay") as producer, producer.transaction():
        await producer.send_offsets_to_transaction({tp: offset}, GROUP)


async def check_ended(brokers: FakeCluster, source: ListSource, said: str, **options: Any) -> None:
    """A relay ends with a MarkerError that says this, and has sent nothing."""
    before = len(brokers.records("t"))
    async with running(new_relay(brokers, source, **options)) as task:
        with pytest.raises(MarkerError, match=said):
            await task
    assert len(brokers.records("t")) == before


async def test_the_marker_of_another_source(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(3)
    await commit_marker(brokers, MARKER, OffsetAndMetadata(3, "another:3"))
    await check_ended(
        brokers, source, "belongs to another source: its marker, .* is 'another:3', and this source is 'shop'"
    )


async def test_two_markers(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(3)
    await commit_marker(brokers, MARKER, OffsetAndMetadata(3, "shop:3"))
    await commit_marker(brokers, TopicPartition("t", 1), OffsetAndMetadata(3, "shop:3"))
    await check_ended(brokers, source, "has 2 markers, for t-0 and t-1: which one counts?")


async def test_a_marker_elsewhere(brokers: FakeCluster) -> None:
    brokers.create_topic("markers")
    source = ListSource()
    source.put_numbers(3)
    await commit_marker(brokers, MARKER, OffsetAndMetadata(3, "shop:3\nearlier relay"))
    await check_ended(brokers, source, "is in t-0, and marker_topic is 'markers'", marker_topic="markers")


async def test_a_marker_that_is_gone(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(3)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
    del brokers.state.groups[GROUP].offsets[MARKER]
    source.put_numbers(3)
    await check_ended(brokers, source, "records up to 3 are gone")


async def test_a_source_that_was_restored_from_a_copy(brokers: FakeCluster) -> None:
    source = ListSource()
    source.put_numbers(5)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
    copy = ListSource()
    copy.put_numbers(3)
    await check_ended(brokers, copy, "Position b'5' is none of 'shop'")


@pytest.mark.parametrize("is_noticed", [True, False])
async def test_a_topic_that_is_created_again_while_it_runs(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture, is_noticed: bool
) -> None:
    caplog.set_level("INFO", "aioprod.producer")
    source = ListSource()
    source.put_numbers(3)
    async with running(new_relay(brokers, source, metadata_max_age_ms=5 if is_noticed else 300_000)) as task:
        await delivered(task, source)
        brokers.recreate_topic("t")
        while is_noticed and "was deleted and created again" not in caplog.text:
            await asyncio.sleep(0.001)
        source.put_numbers(3)
        with pytest.raises(MarkerError, match=r"deleted and created again|records up to 3 are gone"):
            await task
    assert brokers.records("t") == []


async def test_a_marker_is_renewed_while_there_is_nothing_to_send(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "_RENEWED_EVERY_S", 0.001)
    source = ListSource()
    source.put_numbers(3)
    async with running(new_relay(brokers, source)) as task:
        await delivered(task, source)
        commits = len(brokers.seen_of(TxnOffsetCommitRequest))
        while len(brokers.seen_of(TxnOffsetCommitRequest)) < commits + 3:
            await asyncio.sleep(0.001)
    assert marker(brokers).offset == 3
    check(brokers, 3)


# --- bad input


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transactional_id": ""}, "transactional_id must be a name"),
        ({"delivery": "twice"}, "delivery is 'twice'"),
        ({"acks": 1}, "acks"),
        ({"no_such": 1}, "no_such"),
    ],
)
async def test_options_that_can_not_be(brokers: FakeCluster, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        new_relay(brokers, ListSource(), **options)


async def test_an_owner_that_no_marker_can_hold(brokers: FakeCluster) -> None:
    source = ListSource("x" * 4001)
    source.put_numbers(1)
    async with running(new_relay(brokers, source)) as task:
        with pytest.raises(ConfigError, match="Owner and position of a marker have 4003 bytes, and may have 4000"):
            await task
    assert brokers.records("t") == []


# --- sources of which one process at a time may bring records


class LockedSource(ListSource):
    """Its lock is another process's until `lock` is released."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = asyncio.Lock()
        self.acquired = 0

    async def acquire(self) -> None:
        async with self.lock:
            self.acquired += 1


async def test_the_source_is_acquired_before_each_start_of_a_producer(brokers: FakeCluster) -> None:
    source = LockedSource()
    source.put_numbers(3)
    await source.lock.acquire()
    brokers.fault(EndTxnRequest, error=ErrorCode.INVALID_PRODUCER_EPOCH)
    start = brokers.fault(InitProducerIdRequest, hold=True)
    async with running(new_relay(brokers, source)) as task:
        await asyncio.wait([task], timeout=0.05)
        assert not start.reached.is_set()
        source.lock.release()
        await start.reached.wait()
        start.release()
        await delivered(task, source)
    check(brokers, 3)
    assert source.acquired == 2
