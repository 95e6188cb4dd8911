"""buffer.memory: who waits, who is refused, in which order they get room, and that all of it comes back."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from aioprod import Producer, RecordMetadata
from aioprod.errors import (
    BufferFullError,
    ErrorCode,
    MetadataTimeoutError,
    ProducerClosedError,
    RecordTooLargeError,
)
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.metrics import Counter
from aioprod.producer.backpressure import MemoryWaiters
from aioprod.producer.batching.buffer_memory import MemoryBudget
from aioprod.testing.fake import FakeCluster, Fault
from tests.support.producers import Outcomes, ShiftedClock, Spy, pass_time, produced, running, turns, until

SMALL: dict[str, Any] = {"buffer_memory": 4096, "batch_size": 1024, "max_request_size": 4096}
KILOBYTE = b"x" * 1000


async def fill(brokers: FakeCluster, producer: Producer, value: bytes = KILOBYTE) -> Fault:
    """Take all the room there is, with the broker holding its first answer."""
    await producer.partitions_for("t")
    hold = brokers.fault(ProduceRequest, hold=True)
    while True:
        try:
            producer.send_nowait("t", value)
        except BufferFullError:
            break
    await hold.reached.wait()
    return hold


async def test_submit_and_send_nowait_raise_when_the_buffer_is_full(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    outcomes = Outcomes()
    async with running(brokers, **SMALL) as producer:
        hold = await fill(brokers, producer)
        with pytest.raises(BufferFullError, match=r"buffer\.memory=4096 is used up: 4 records") as raised:
            producer.submit("t", KILOBYTE)
        assert "drain()" in (raised.value.hint or "")
        with pytest.raises(BufferFullError):
            producer.send_nowait("t", KILOBYTE, on_delivery=outcomes)
        assert producer.buffered.records == 4
        hold.release()
        await producer.drain()
        assert (await producer.submit("t", KILOBYTE)).offset >= 2
    assert outcomes.calls == [], "a record that was refused has no outcome"
    assert len(topic.records()) == 5


async def test_send_waits_for_memory_in_order(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **SMALL) as producer:
        hold = await fill(brokers, producer)
        sending = [asyncio.create_task(producer.send("t", b"%d" % n + KILOBYTE)) for n in range(6)]
        await until(lambda: producer.metrics()["waiting_senders"] == 6)
        with pytest.raises(BufferFullError):
            producer.submit("t", b"small")
        hold.release()
        offsets = [(await task).offset for task in sending]
    assert offsets == sorted(offsets)
    assert [(record.value or b"")[:1] for record in topic.records()][4:] == [b"%d" % n for n in range(6)]


async def test_a_large_record_is_not_starved_by_small_ones(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    finished: list[str] = []
    async with running(brokers, **SMALL) as producer:
        hold = await fill(brokers, producer)

        async def send(name: str, size: int) -> None:
            await producer.send("t", b"x" * size)
            finished.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(send("large", 3900))
            await turns(2)
            for _ in range(20):
                group.create_task(send("small", 10))
            await turns(2)
            hold.release()
    assert finished[0] == "large"


async def test_send_raises_after_max_block_ms(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    spy = Spy()
    async with running(brokers, **SMALL, interceptors=[spy]) as producer:
        hold = await fill(brokers, producer)
        producer._engine.max_block_s = 0.02
        refused = len(spy.acknowledged)
        with pytest.raises(BufferFullError, match=r"stayed full for 0\.02 s: 4 records"):
            await producer.send("t", KILOBYTE)
        hold.release()
        assert producer.metrics()["waiting_senders"] == 0
        assert [type(error) for _, error in spy.acknowledged[refused:]] == [BufferFullError]
        await producer.flush()


async def test_max_block_ms_of_0_does_not_wait(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **SMALL) as producer:
        hold = await fill(brokers, producer)
        producer._engine.max_block_s = 0.0
        with pytest.raises(BufferFullError):
            await producer.send("t", KILOBYTE)
        hold.release()


async def test_a_cancelled_waiter_lets_the_next_one_in(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **SMALL) as producer:
        hold = await fill(brokers, producer)
        tasks = [asyncio.create_task(producer.send("t", b"%d" % n + b"x" * 2000)) for n in range(3)]
        await until(lambda: producer.metrics()["waiting_senders"] == 3)
        tasks[0].cancel()
        tasks[1].cancel()
        await turns()
        assert producer.metrics()["waiting_senders"] == 1
        hold.release()
        await tasks[2]
        for task in tasks[:2]:
            with pytest.raises(asyncio.CancelledError):
                await task
    assert [(record.value or b"")[:1] for record in topic.records()][4:] == [b"2"]


async def test_waiting_for_room_cuts_the_linger(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, linger_ms=1_000_000, adaptive_linger=False, buffer_memory=4096) as producer:
        await producer.partitions_for("t")
        for _ in range(2):
            producer.send_nowait("t", b"x" * 1400)
        await turns()
        assert brokers.seen_of(ProduceRequest) == []
        sending = asyncio.create_task(producer.send("t", b"x" * 1400))
        await until(lambda: brokers.seen_of(ProduceRequest))
        await until(lambda: producer.metrics()["waiting_senders"] == 0)
        await producer.flush()
        await sending
    assert [len(request[0][2]) for request in produced(brokers)] == [2, 1]


async def test_drain_cuts_the_linger_too(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, linger_ms=1_000_000, adaptive_linger=False, buffer_memory=4096) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        producer.send_nowait("t", KILOBYTE)
        flushing = asyncio.create_task(producer.flush())
        await hold.reached.wait()
        for _ in range(2):
            producer.send_nowait("t", b"x" * 1400)
        with pytest.raises(BufferFullError):
            producer.send_nowait("t", b"x" * 1400)
        draining = asyncio.create_task(producer.drain())
        await turns()
        assert not draining.done()
        hold.release()
        async with asyncio.timeout(10):
            await draining
        await flushing
        assert producer.buffered.bytes <= 2048


async def test_drain_with_room_only_lets_the_loop_run(brokers: FakeCluster) -> None:
    ran: list[int] = []
    async with running(brokers) as producer:
        asyncio.get_running_loop().call_soon(ran.append, 1)
        await producer.drain()
    assert ran == [1]


async def test_a_cancelled_drain_disturbs_no_other_waiter(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **SMALL) as producer:
        hold = await fill(brokers, producer)
        drains = [asyncio.create_task(producer.drain()) for _ in range(2)]
        await turns(2)
        drains[0].cancel()
        hold.release()
        await drains[1]
        assert drains[0].cancelled()


async def test_a_tight_loop_with_drain_sends_everything_in_order(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **SMALL) as producer:
        for n in range(500):
            while True:
                try:
                    producer.send_nowait("t", b"%d" % n)
                    break
                except BufferFullError:
                    await producer.drain()
    assert [record.value for record in topic.records()] == [b"%d" % n for n in range(500)]


async def test_send_many_is_not_starved_by_senders_in_line(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    sent = 0
    async with running(brokers, **SMALL) as producer:
        done = asyncio.Event()

        async def keep_sending() -> None:
            nonlocal sent
            while not done.is_set() and sent < 3000:
                await producer.send("t", b"x" * 900)
                sent += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(keep_sending())
            await until(lambda: producer.metrics()["waiting_senders"] >= 3)
            result = await producer.send_many("t", [b"y" * 900] * 10)
            before_it_ended = sent
            done.set()
    assert result.failures == ()
    assert before_it_ended < 1000


async def test_drain_lets_the_loop_run_and_waits_until_the_rejected_record_fits(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    options: dict[str, Any] = {"buffer_memory": 10_000, "batch_size": 10_000, "max_request_size": 10_000}
    async with running(brokers, **options) as producer:
        await producer.partitions_for("t")
        producer.send_nowait("t", b"x" * 4000)
        for _ in range(3):
            for _ in range(1000):
                try:
                    producer.send_nowait("t", b"x" * 8000)
                    break
                except BufferFullError:
                    await producer.drain()
            else:
                pytest.fail("drain() returned a thousand times without room")
    assert len(topic.records()) == 4


async def test_drain_returns_while_others_keep_the_line_full(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    sent = 0
    async with running(brokers, **SMALL) as producer:
        done = asyncio.Event()

        async def keep_sending() -> None:
            nonlocal sent
            while not done.is_set() and sent < 3000:
                await producer.send("t", b"x" * 900)
                sent += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(keep_sending())
            await until(lambda: producer.metrics()["waiting_senders"] >= 3)
            await producer.drain()
            before_it_returned = sent
            done.set()
    assert before_it_returned < 1000


async def test_no_send_overtakes_a_record_whose_memory_was_just_granted(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **SMALL) as producer:
        hold = await fill(brokers, producer)
        first = asyncio.create_task(producer.send("t", b"first" + b"x" * 1500))
        await until(lambda: producer.metrics()["waiting_senders"] == 1)
        late: list[asyncio.Future[RecordMetadata]] = []

        def overtake() -> None:
            """Try it in every turn, the one between the grant and the sender's own among them."""
            with contextlib.suppress(BufferFullError):
                late.append(producer.submit("t", b"late"))
            if not late:
                asyncio.get_running_loop().call_soon(overtake)

        overtake()
        hold.release()
        await first
        await until(lambda: late)
        await late[0]
    stored = [(record.value or b"")[:5].rstrip(b"x") for record in topic.records()]
    assert stored.index(b"first") < stored.index(b"late")


async def test_max_block_ms_bounds_both_waits_of_send_together(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, max_block_ms=60_000, **SMALL) as producer:
        hold = await fill(brokers, producer)
        brokers.fault(MetadataRequest, error=ErrorCode.LEADER_NOT_AVAILABLE, times=None)
        sending = asyncio.create_task(producer.send("unknown", KILOBYTE))
        await until(lambda: producer.metrics()["waiting_senders"] == 1)
        clock.offset_s += 50.0
        hold.release()
        await until(lambda: producer.metrics()["waiting_senders"] == 0)
        pass_time(producer, clock, 11.0)
        with pytest.raises(MetadataTimeoutError):
            async with asyncio.timeout(10):
                await sending


async def test_a_record_larger_than_the_buffer_or_a_request_raises(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    spy = Spy()
    async with running(brokers, buffer_memory=10_000, max_request_size=5000, interceptors=[spy]) as producer:
        for value, setting in ((b"x" * 6000, r"max\.request\.size=5000"), (b"x" * 20_000, r"max\.request\.size")):
            with pytest.raises(RecordTooLargeError, match=setting):
                await producer.send("t", value)
            with pytest.raises(RecordTooLargeError, match=setting):
                producer.submit("t", value)
        assert producer.buffered == (0, 0)
    assert len(spy.acknowledged) == 4
    async with running(brokers, buffer_memory=1000) as producer:
        with pytest.raises(RecordTooLargeError, match=r"buffer\.memory=1000") as caught:
            producer.send_nowait("t", b"x" * 2000)
    assert "raise buffer.memory" in str(caught.value.hint)


async def test_close_fails_the_waiters_for_memory(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **SMALL) as producer:
        hold = await fill(brokers, producer)
        sending = [asyncio.create_task(producer.send("t", KILOBYTE)) for _ in range(2)]
        draining = asyncio.create_task(producer.drain())
        await turns()
        closing = asyncio.create_task(producer.close())
        results = await asyncio.gather(*sending, draining, return_exceptions=True)
        assert [type(result) for result in results] == [ProducerClosedError] * 3
        assert len({id(result) for result in results[:2]}) == 2
        hold.release()
        assert (await closing).delivered == 4


async def test_records_of_unknown_topics_count_too(brokers: FakeCluster) -> None:
    async with running(brokers, **SMALL) as producer:
        for _ in range(4):
            producer.send_nowait("t", b"x" * 900)
        with pytest.raises(BufferFullError):
            producer.send_nowait("t", b"x" * 900)
        await producer.flush()
        assert producer.buffered == (0, 0)


async def test_room_that_is_granted_and_not_wanted_any_more_goes_to_the_next() -> None:
    loop = asyncio.get_running_loop()
    budget = MemoryBudget(100)
    room = MemoryWaiters(budget, loop, loop.time, lambda: None, Counter("waits", "How long."))
    budget.take(100)
    first = asyncio.create_task(room.reserve(60, 5))
    second = asyncio.create_task(room.reserve(70, 5))
    await turns(2)
    budget.release(100, 1)
    room.freed()
    assert (budget.reserved, len(budget.waiting)) == (60, 1)
    first.cancel()
    request = await second
    assert (request.size, budget.reserved) == (70, 70)
    room.give_back(request)
    assert budget.fits(100)


async def test_a_waiter_that_was_cancelled_before_it_is_served_is_passed_over() -> None:
    loop = asyncio.get_running_loop()
    budget = MemoryBudget(100)
    room = MemoryWaiters(budget, loop, loop.time, lambda: None, Counter("waits", "How long."))
    budget.take(100)
    first = asyncio.create_task(room.reserve(60, 5))
    second = asyncio.create_task(room.reserve(70, 5))
    draining = asyncio.create_task(room.drain())
    await turns(2)
    first.cancel()
    draining.cancel()
    budget.release(100, 1)
    room.freed()
    room.give_back(await second)
    room.close(ProducerClosedError("closed"))
    assert first.cancelled()
