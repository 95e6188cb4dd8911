"""`Producer.resolve`: what is read of the log, which is compacted, has other times, or is of another topic by now."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from aioprod.errors import ErrorCode, UnknownOutcomeError
from aioprod.messages import FetchRequest, ListOffsetsRequest, MetadataRequest, MetadataResponse, ProduceRequest
from aioprod.producer import stored_batches
from aioprod.records import Compression, RecordBatchBuilder
from aioprod.records.layout import BASE_OFFSET, LAST_OFFSET_DELTA
from aioprod.testing.fake.state.log import StoredBatch
from tests.producer.test_resolve import Scene, lost
from tests.support.changed_batches import at_broker_time, compacted, with_bytes
from tests.support.producers import pass_time, running, until


async def test_a_first_batch_that_compaction_has_removed() -> None:
    """Its time is that of a later batch now, and the search by time begins there."""
    async with Scene() as scene:
        await scene.begin(before=0)
        scene.arrive()
        await until(lambda: b"lost" in scene.stored())
        await scene.others(2)
        del scene.log.log[0]
        await scene.producer.send("t", b"later")
        assert (await scene.still_unknown()).reason == "deleted"


async def test_a_first_batch_of_which_compaction_has_removed_the_latest_record() -> None:
    async with Scene() as scene:
        scene.producer = await scene.stack.enter_async_context(running(scene.brokers, clock=scene.clock))
        fault = scene.brokers.fault(ProduceRequest, drop="lurking", hold=True, times=None)
        now_ms = int(time.time() * 1000)
        futures = [scene.producer.submit("t", b"%d" % one, timestamp=now_ms - 9000 + one) for one in range(3)]
        await fault.reached.wait()
        pass_time(scene.producer, scene.clock, 121.0)
        errors = await asyncio.gather(*futures, return_exceptions=True)
        fault.end()
        fault.release()
        await until(lambda: len(scene.stored()) == 3)
        await scene.others(2)
        scene.log.log[0] = compacted(scene.log.log[0], {0, 1})
        await scene.producer.send("t", b"later")
        for offset, error in enumerate(errors):
            assert isinstance(error, UnknownOutcomeError)
            found = await scene.producer.resolve(error, 20)
            assert found is not None
            assert (found.offset, found.serialized_value_size) == (offset, -1 if offset == 2 else 1)


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_first_batch_where_the_log_has_the_time_of_the_broker(arrives: bool) -> None:
    """The search by time begins at the start, or where the clock of the broker is behind, beyond the batch."""
    async with Scene() as scene:
        await scene.begin(before=0)
        if arrives:
            scene.arrive()
            await until(lambda: b"lost" in scene.stored())
        await scene.others(2)
        for place, stored in enumerate(scene.log.log):
            scene.log.log[place] = at_broker_time(stored, 1000 + place)
        await scene.producer.send("t", b"later")
        found = await scene.resolve()
        assert (found and found.offset) == (0 if arrives else None)


async def test_what_is_found_by_time_is_not_searched_for_again() -> None:
    async with Scene() as scene:
        async with running(scene.brokers) as other:
            for _ in range(3):
                await other.send("t", b"older", timestamp=int(time.time() * 1000) - 3_600_000)
        scene.producer = await scene.stack.enter_async_context(running(scene.brokers, clock=scene.clock))
        scene.error, scene.fault = await lost(scene)
        scene.arrive()
        await until(lambda: b"lost" in scene.stored())
        for place, stored in enumerate(scene.log.log):
            scene.log.log[place] = at_broker_time(stored, stored.batch.max_timestamp)
        await scene.producer.send("t", b"later")
        found = await scene.resolve()
        assert (found and found.offset) == 3
        fetched = scene.brokers.seen_of(FetchRequest)
        assert [request.topics[0].partitions[0].fetch_offset for request in fetched] == [3]


async def test_what_was_found_is_known_although_the_rest_of_the_log_is_too_long() -> None:
    """Of two batches without one before, the first is in no log: that takes all of it."""
    async with Scene() as scene:
        async with running(scene.brokers) as other:
            for _ in range(3):
                await other.send("t", b"x" * 400_000, timestamp=int(time.time() * 1000) - 3_600_000)
        scene.producer = await scene.stack.enter_async_context(
            running(scene.brokers, clock=scene.clock, resolve_max_bytes=100_000)
        )
        scene.error, _ = await lost(scene)
        second, fault = await lost(scene, b"lost too")
        fault.release()
        await until(lambda: b"lost too" in scene.stored())
        await scene.producer.send("t", b"later")
        assert (await scene.still_unknown()).reason == "too many bytes"
        found = await scene.producer.resolve(second, 20)
        assert (found and found.offset) == 3


async def test_a_batch_with_another_number_of_records_is_not_ours() -> None:
    async with Scene() as scene:
        await scene.begin()
        scene.arrive()
        await until(lambda: b"lost" in scene.stored())
        stored = scene.log.log[1]
        data = bytearray(stored.data)
        data[LAST_OFFSET_DELTA : LAST_OFFSET_DELTA + 4] = (1).to_bytes(4, "big")
        scene.log.log[1] = with_bytes(stored, data)
        scene.log.next_offset += 1
        await scene.producer.send("t", b"later")
        assert await scene.resolve() is None


async def test_many_records_are_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    read = stored_batches._sizes

    def noted(batch: Any) -> Any:
        threads.append(threading.get_ident())
        return read(batch)

    monkeypatch.setattr(stored_batches, "_sizes", noted)
    monkeypatch.setattr(stored_batches, "_INLINE_MAX", 0)
    async with Scene() as scene:
        await scene.begin()
        scene.arrive()
        await until(lambda: b"lost" in scene.stored())
        await scene.producer.send("t", b"later")
        found = await scene.resolve()
        assert (found and found.serialized_value_size) == 4
        (thread,) = threads
        assert thread != threading.get_ident()


async def test_records_that_take_more_bytes_than_were_sent() -> None:
    async with Scene() as scene:
        await scene.begin(compression_type="zstd")
        scene.arrive()
        await until(lambda: b"lost" in scene.stored())
        stored = scene.log.log[1]
        builder = RecordBatchBuilder(bytearray(3 << 20))
        builder.append(stored.batch.max_timestamp, None, bytes(2 << 20))
        builder.seal(Compression.ZSTD, None, *_numbers(stored))
        data = bytearray(builder.wire(0, False)[8:])
        data[BASE_OFFSET : BASE_OFFSET + 8] = (1).to_bytes(8, "big")
        scene.log.log[1] = with_bytes(stored, data)
        await scene.producer.send("t", b"later")
        still = await scene.still_unknown()
        assert still.reason == "unanswered"
        assert "take more than the 93 bytes that are allowed" in str(still)


def _numbers(stored: StoredBatch) -> tuple[int, int, int]:
    return stored.batch.producer_id, stored.batch.producer_epoch, stored.batch.base_sequence


async def test_a_topic_that_was_created_again_after_it_was_decided() -> None:
    """Its log is not read, which is shorter now, or another one."""
    async with Scene() as scene:
        await scene.begin()
        await scene.producer.send("t", b"later")
        scene.brokers.recreate_topic("t")
        assert (await scene.still_unknown()).reason == "recreated"
        assert not scene.error.resolvable
        assert scene.brokers.seen_of(ListOffsetsRequest) == []


async def test_a_topic_that_brokers_do_not_know_yet_or_any_more() -> None:
    """A broker may lag behind."""

    def without(response: MetadataResponse) -> MetadataResponse:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return replace(response, topics=tuple(replace(one, error_code=code, partitions=()) for one in response.topics))

    async with Scene() as scene:
        await scene.begin()
        await scene.producer.send("t", b"later")
        lagging = scene.brokers.fault(MetadataRequest, edit=without, times=None)
        still = await scene.still_unknown()
        assert still.reason == "unanswered"
        assert "could not be read: Topic 't' does not exist. Hint: Call resolve() again." in str(still)
        lagging.end()
        assert scene.error.resolvable
        assert await scene.resolve() is None


async def test_a_reading_has_its_own_time() -> None:
    async with Scene() as scene:
        await scene.begin(resolve_timeout_ms=1)
        await scene.producer.send("t", b"later")
        assert await scene.resolve() is None
