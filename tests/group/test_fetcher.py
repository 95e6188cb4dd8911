from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from aioprod.calls.session import Session
from aioprod.errors import ConfigError, SerializationError, UsageError
from aioprod.group.config import MemberConfig
from aioprod.group.fetcher import Fetcher
from aioprod.messages import FetchRequest, ListOffsetsRequest
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.records import Compression, ControlType
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord, TopicPartition
from tests.support.fetchers import given, places, running_fetcher, take, until
from tests.support.sessions import tasks_beside
from tests.support.stored_batches import append, fill, store, stored_batch

ORDERS = TopicPartition("orders", 0)
CLICKS = TopicPartition("clicks", 0)


def filled(brokers: FakeCluster, count: int, *topics: str, batch_records: int = 1) -> None:
    """Create topics of one partition each, with so many records."""
    for name in topics:
        fill(brokers.create_topic(name).partitions[0], count, batch_records=batch_records)


# --- where it begins


async def test_partitions_of_several_topics_are_read_from_their_offsets() -> None:
    async with FakeCluster(2) as brokers, running_fetcher(brokers) as fetcher:
        for name in ("orders", "clicks"):
            for partition in brokers.create_topic(name, 2).partitions:
                fill(partition, 20)
        late = TopicPartition("clicks", 1)
        fetcher.add({ORDERS: 5, CLICKS: EARLIEST, late: LATEST})
        assert fetcher.positions == {ORDERS: 5}
        found = await take(fetcher, 35)
        assert places(found) == {ORDERS: list(range(5, 20)), CLICKS: list(range(20))}
        assert found[0].value == b"%d" % found[0].offset
        await until(lambda: late in fetcher.positions)
        assert fetcher.positions == {ORDERS: 20, CLICKS: 20, late: 20}
        fill(brokers.topics["clicks"].partitions[1], 2)
        assert places(await take(fetcher, 2)) == {late: [20, 21]}


async def test_the_position_is_after_the_last_returned_record() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        log = brokers.create_topic("orders").partitions[0]
        store(log, stored_batch([b"a", b"b"], base_offset=3, last_offset_delta=4))
        fetcher.add({ORDERS: 0})
        for offset, value in [(4, b"a"), (5, b"b")]:
            assert (await take(fetcher, 1))[0].value == value
            assert fetcher.positions == {ORDERS: offset}
        waiting = asyncio.ensure_future(fetcher.next())
        # Offsets that compaction has removed are skipped by the next call.
        await until(lambda: fetcher.positions == {ORDERS: 8})
        store(log, stored_batch([b"c"], base_offset=8))
        assert (await given(waiting)).value == b"c"


@pytest.mark.parametrize(
    ("isolation", "values"), [("read_uncommitted", [b"a", b"b", b"c"]), ("read_committed", [b"c"])]
)
async def test_the_isolation(isolation: str, values: list[bytes]) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, isolation_level=isolation) as fetcher:
        log = brokers.create_topic("orders").partitions[0]
        for value in (b"a", b"b"):
            append(log, stored_batch([value], producer_id=7, transactional=True))
        log.end_transaction(ControlType.ABORT, 7, 0, 1000)
        append(log, stored_batch([b"c"]))
        fetcher.add({ORDERS: 0})
        assert [record.value for record in await take(fetcher, len(values))] == values
        append(log, stored_batch([b"open"], producer_id=8, transactional=True))
        fetcher.add({ORDERS: LATEST})
        await until(lambda: fetcher.positions)
        assert fetcher.positions == {ORDERS: 4 if isolation == "read_committed" else 5}


# --- what comes and goes


async def test_no_record_is_returned_after_a_drop() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 20, "orders", "clicks")
        fetcher.add({ORDERS: 0, CLICKS: 0})
        (first,) = await take(fetcher, 1)
        dropped, kept = (ORDERS, CLICKS) if first.topic == "orders" else (CLICKS, ORDERS)
        fetcher.drop([dropped])
        assert fetcher.positions == {kept: 0}
        assert places(await take(fetcher, 20)) == {kept: list(range(20))}
        fetcher.add({dropped: 1})
        assert places(await take(fetcher, 19)) == {dropped: list(range(1, 20))}
        assert fetcher.positions == {ORDERS: 20, CLICKS: 20}


async def test_a_response_for_a_dropped_partition_is_ignored() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 20, "orders")
        held = brokers.fault(FetchRequest, hold=True)
        fetcher.add({ORDERS: 0})
        waiting = asyncio.ensure_future(fetcher.next())
        await held.reached.wait()
        fetcher.drop([ORDERS])
        fetcher.add({ORDERS: 7})
        held.release()
        assert (await given(waiting)).offset == 7
        assert [request.topics[0].partitions[0].fetch_offset for request in brokers.seen_of(FetchRequest)] == [0, 7]


async def test_a_lookup_for_a_dropped_partition_is_ignored() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 20, "orders")
        held = brokers.fault(ListOffsetsRequest, hold=True)
        fetcher.add({ORDERS: LATEST})
        await held.reached.wait()
        fetcher.add({ORDERS: EARLIEST})
        held.release()
        assert (await take(fetcher, 1))[0].offset == 0
        held = brokers.fault(ListOffsetsRequest, hold=True)
        fetcher.add({ORDERS: LATEST})
        await held.reached.wait()
        fetcher.drop([ORDERS])
        held.release()
        fetcher.add({CLICKS: LATEST})
        filled(brokers, 3, "clicks")
        await until(lambda: fetcher.positions)
        assert fetcher.positions == {CLICKS: 3}


async def test_what_is_added_while_it_waits_is_read() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 2, "orders", "clicks")
        waiting = asyncio.ensure_future(fetcher.next())
        await asyncio.sleep(0)
        fetcher.add({ORDERS: 1})
        assert (await given(waiting)).offset == 1
        waiting = asyncio.ensure_future(fetcher.next())
        await until(lambda: len(brokers.seen_of(FetchRequest)) >= 2)
        fetcher.add({CLICKS: 0})
        assert (await given(waiting)).topic == "clicks"


async def test_adding_a_partition_again_moves_its_position() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 20, "orders", batch_records=20)
        fetcher.add({ORDERS: 0})
        await take(fetcher, 5)
        fetcher.add({ORDERS: 15})
        assert fetcher.positions == {ORDERS: 15}
        assert places(await take(fetcher, 5)) == {ORDERS: [15, 16, 17, 18, 19]}


# --- waiting


async def test_a_call_that_is_cancelled_loses_nothing() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, max_partition_fetch_bytes=1) as fetcher:
        filled(brokers, 200, "orders", batch_records=2)
        fetcher.add({ORDERS: 0})
        found: list[ConsumedRecord] = []
        for turns in range(10_000):
            pending = asyncio.ensure_future(fetcher.next())
            for _ in range(turns % 50):
                await asyncio.sleep(0)
            pending.cancel()
            await asyncio.wait([pending])
            found += [] if pending.cancelled() else [await given(pending)]
            assert fetcher.positions == {ORDERS: len(found)} or not len(found) % 2
            if len(found) == 200:
                break
        assert places(found) == {ORDERS: list(range(200))}


async def test_the_loop_gets_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.group.fetcher.SLICE_S", 0.0)
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 50, "orders", batch_records=50)
        fetcher.add({ORDERS: 0})
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        await take(fetcher, 1)
        turns = 0
        await take(fetcher, 49)
        assert turns >= 49


async def test_an_idle_partition_is_fetched_with_a_long_poll() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, fetch_max_wait_ms=60_000) as fetcher:
        filled(brokers, 0, "orders")
        fetcher.add({ORDERS: 0})
        waiting = asyncio.ensure_future(fetcher.next())
        await until(lambda: brokers.seen_of(FetchRequest))
        fill(brokers.topics["orders"].partitions[0], 1)
        brokers.state.wake_fetches()
        assert (await given(waiting)).offset == 0
        assert len(brokers.seen_of(FetchRequest)) == 1


async def test_a_response_without_records_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, fetch_max_wait_ms=1) as fetcher:
        filled(brokers, 0, "orders")
        fetcher._session.timeout_s = 0.0
        monkeypatch.setattr(fetcher._session, "backoff_s", lambda failures: 3600.0)
        fetcher.add({ORDERS: 0})
        waiting = asyncio.ensure_future(fetcher.next())
        await until(lambda: len(brokers.seen_of(FetchRequest)) > 5)
        fill(brokers.topics["orders"].partitions[0], 1)
        assert (await given(waiting)).offset == 0


@pytest.mark.parametrize("waits_for", ["nothing", "records", "offsets", "unpacking"])
async def test_an_interruption(waits_for: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, fetch_max_wait_ms=60_000) as fetcher:
        filled(brokers, 0, "orders")
        held = brokers.fault(ListOffsetsRequest, hold=True)
        if waits_for == "unpacking":
            monkeypatch.setattr("aioprod.reader.fetching._COMPRESSED_INLINE_MAX", 1)
            monkeypatch.setattr("aioprod.group.open_batch.decompressed", lambda fetched: asyncio.sleep(3600))
            store(brokers.topics["orders"].partitions[0], stored_batch([bytes(1000)], codec=Compression.GZIP))
        if waits_for != "nothing":
            fetcher.add({ORDERS: LATEST if waits_for == "offsets" else 0})
        for _ in range(3):
            waiting = asyncio.ensure_future(fetcher.next())
            await asyncio.sleep(0.01)
            assert not waiting.done()
            fetcher.interrupt()
            assert await waiting is None
        fetcher.interrupt()
        assert await fetcher.next() is None
        held.release()
        held.end()


# --- fairness and bounds


async def test_small_answers_let_no_partition_starve() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, max_partition_fetch_bytes=1) as fetcher:
        filled(brokers, 20, "a", "b", "c")
        fetcher.add({TopicPartition(name, 0): 0 for name in "abc"})
        found = await take(fetcher, 30)
        assert Counter(record.topic for record in found) == {"a": 10, "b": 10, "c": 10}


async def test_no_more_than_one_response_of_each_broker_is_held() -> None:
    async with FakeCluster(2) as brokers, running_fetcher(brokers, max_partition_fetch_bytes=1) as fetcher:
        for partition in brokers.create_topic("orders", 2).partitions:
            fill(partition, 50)
        fetcher.add({TopicPartition("orders", index): 0 for index in range(2)})
        for count in range(1, 20):
            await take(fetcher, 1)
            await asyncio.sleep(0.001)
            assert len(brokers.seen_of(FetchRequest)) <= count + 1


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
async def test_large_batches(codec: Compression) -> None:
    values = [bytes(range(256)) * 100_000, b"b"]
    large = stored_batch(values, codec=codec)
    assert codec == Compression.NONE or len(large) > 50_000
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        log = brokers.create_topic("orders").partitions[0]
        store(log, large)
        fetcher.add({ORDERS: 0})
        assert [record.value for record in await take(fetcher, 2)] == values


async def test_a_large_batch_is_unpacked_once_however_often_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.reader.fetching._COMPRESSED_INLINE_MAX", 1)
    unpacking: list[asyncio.Future[None]] = []
    values = [b"a" * 1000, b"b" * 1000]

    async def slowly(fetched: Any) -> Any:
        unpacking.append(asyncio.get_running_loop().create_future())
        await unpacking[-1]
        return fetched

    monkeypatch.setattr("aioprod.group.open_batch.decompressed", slowly)
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        store(brokers.create_topic("orders").partitions[0], stored_batch(values, codec=Compression.GZIP))
        fetcher.add({ORDERS: 0})
        for _ in range(3):
            waiting = asyncio.ensure_future(fetcher.next())
            await until(lambda: unpacking)
            waiting.cancel()
            await asyncio.wait([waiting])
        unpacking[0].set_result(None)
        assert [record.value for record in await take(fetcher, 2)] == values
        assert len(unpacking) == 1
        # One that is dropped meanwhile is not waited for.
        fetcher.add({ORDERS: 0})
        waiting = asyncio.ensure_future(fetcher.next())
        await until(lambda: len(unpacking) == 2)
        fetcher.add({ORDERS: 1})
        await until(lambda: len(unpacking) == 3)
        unpacking[2].set_result(None)
        assert (await given(waiting)).value == values[1]
        assert unpacking[1].cancelled()


async def test_a_large_batch_of_a_paused_partition_is_kept_as_it_was_fetched() -> None:
    values = [bytes(2_000_000), b"b"]
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        store(brokers.create_topic("orders").partitions[0], stored_batch(values, codec=Compression.LZ4))
        fetcher.add({ORDERS: 0})
        assert [record.value for record in await take(fetcher, 1)] == values[:1]
        open_batch = fetcher._buffer.current
        assert open_batch is not None
        fetcher.pause([ORDERS])
        assert (open_batch.records, open_batch.decompressing) == (None, None)
        fetcher.resume([ORDERS])
        assert [record.value for record in await take(fetcher, 1)] == values[1:]


# --- deserializers


async def awaited(data: bytes) -> str:
    await asyncio.sleep(0)
    return data.decode()


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ({}, b"7", b"[7]"),
        ({"key_deserializer": "str", "value_deserializer": json.loads}, "7", [7]),
        ({"key_deserializer": awaited, "value_deserializer": "json"}, "7", [7]),
    ],
)
async def test_deserializers(options: Any, key: object, value: object) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, **options) as fetcher:
        store(brokers.create_topic("orders").partitions[0], stored_batch([b"[7]", None], key=b"7"))
        fetcher.add({ORDERS: 0})
        assert [(record.key, record.value) for record in await take(fetcher, 2)] == [(key, value), (key, None)]


async def test_a_record_that_can_not_be_deserialized_is_not_passed() -> None:
    works = False

    def picky(data: bytes) -> object:
        if data == b"x" and not works:
            raise ValueError("no x")
        return data

    async with FakeCluster() as brokers, running_fetcher(brokers, value_deserializer=picky) as fetcher:
        store(brokers.create_topic("orders").partitions[0], stored_batch([b"a", b"x", b"b"]))
        fetcher.add({ORDERS: 0})
        await take(fetcher, 1)
        for _ in range(2):
            with pytest.raises(SerializationError, match="Offset 1 of partition 0") as failure:
                await fetcher.next()
            assert (failure.value.topic, failure.value.partition, failure.value.offset) == ("orders", 0, 1)
            hint = "To leave it out, continue at offset 2: a member does so by `member.skip(error)`."
            assert failure.value.hint == hint
            assert fetcher.positions == {ORDERS: 1}
        works = True
        assert [record.value for record in await take(fetcher, 2)] == [b"x", b"b"]


async def test_a_record_that_is_dropped_while_it_is_deserialized() -> None:
    gate = asyncio.Event()
    begun = asyncio.Event()

    async def slow(data: bytes) -> bytes:
        begun.set()
        await gate.wait()
        return data

    async with FakeCluster() as brokers, running_fetcher(brokers, value_deserializer=slow) as fetcher:
        filled(brokers, 2, "orders", "clicks")
        fetcher.add({ORDERS: 0})
        waiting = asyncio.ensure_future(fetcher.next())
        await begun.wait()
        fetcher.drop([ORDERS])
        fetcher.add({CLICKS: 1})
        gate.set()
        record = await given(waiting)
        assert (record.topic, record.offset) == ("clicks", 1)


async def test_an_interruption_during_deserialization_keeps_the_record() -> None:
    gate = asyncio.Event()
    begun = asyncio.Event()

    async def slow(data: bytes) -> bytes:
        begun.set()
        await gate.wait()
        return data

    async with FakeCluster() as brokers, running_fetcher(brokers, value_deserializer=slow) as fetcher:
        filled(brokers, 2, "orders")
        fetcher.add({ORDERS: 0})
        waiting = asyncio.ensure_future(fetcher.next())
        await begun.wait()
        fetcher.interrupt()
        gate.set()
        assert await waiting is None
        assert places(await take(fetcher, 2)) == {ORDERS: [0, 1]}


# --- use


def fetcher_of(**options: Any) -> Fetcher:
    config = MemberConfig.from_options(bootstrap_servers="h:1", **options)
    return Fetcher(Session(config, "member"), config)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"isolation_level": "committed"}, "must be one of read_uncommitted, read_committed, not 'committed'"),
        (
            {"auto_offset_reset": "first"},
            "must be one of latest, earliest, none, by_duration:PnDTnHnMn.nS, not 'first'",
        ),
        ({"auto_offset_reset": None}, "must be one of latest, earliest, none, by_duration:PnDTnHnMn.nS, not None"),
        ({"key_deserializer": 7}, "not a deserializer"),
    ],
)
def test_invalid_settings_raise_at_once(options: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        fetcher_of(**options)


@pytest.mark.parametrize("waits_for", ["nothing", "records", "offsets", "unpacking"])
async def test_close_leaves_no_tasks(waits_for: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster() as brokers:
        filled(brokers, 0, "orders")
        before = asyncio.all_tasks()
        async with running_fetcher(brokers, fetch_max_wait_ms=60_000) as fetcher:
            if waits_for == "unpacking":
                monkeypatch.setattr("aioprod.reader.fetching._COMPRESSED_INLINE_MAX", 1)
                monkeypatch.setattr("aioprod.group.open_batch.decompressed", lambda fetched: asyncio.sleep(3600))
                store(brokers.topics["orders"].partitions[0], stored_batch([bytes(1000)], codec=Compression.GZIP))
            held = brokers.fault(ListOffsetsRequest, hold=True)
            if waits_for != "nothing":
                fetcher.add({ORDERS: LATEST if waits_for == "offsets" else 0})
            waiting = asyncio.ensure_future(fetcher.next())
            await asyncio.sleep(0.02)
        with pytest.raises(UsageError, match="This member is closed"):
            await waiting
        held.release()
        held.end()
        await until(lambda: not tasks_beside(before))
