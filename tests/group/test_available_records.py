"""Records that were decoded with others before them, and are returned without a coroutine for each step."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from aioprod.errors import CorruptRecordError, UsageError
from aioprod.group import Member
from aioprod.group.background import BackgroundTask
from aioprod.group.fetcher import Fetcher
from aioprod.group.poll_gate import PollGate
from aioprod.messages import FetchRequest, FetchResponse
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.group.test_member import PATIENCE_S, new_member, take
from tests.support.fetchers import running_fetcher
from tests.support.fetchers import take as take_of
from tests.support.stored_batches import fill, stored_batch

P0 = TopicPartition("t", 0)
LATE = math.inf
"""A time that never comes."""


async def opened(brokers: FakeCluster, fetcher: Fetcher, records: int = 9) -> None:
    """Read the first record of a batch, and have the others available."""
    fill(brokers.create_topic("t").partitions[0], records, batch_records=records)
    fetcher.add({P0: 0})
    assert (await take_of(fetcher, 1))[0].offset == 0
    offer(fetcher)


def offer(fetcher: Fetcher) -> None:
    """Have the next records available, in a slice that does not end."""
    fetcher._slice_end = LATE
    fetcher.offer(LATE)


async def test_nothing_is_available_before_a_batch_is_open() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        offer(fetcher)
        assert fetcher.available.take() is None
        await opened(brokers, fetcher)
        assert fetcher.available.take() is not None


async def test_available_records_come_in_order_and_move_the_position() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        await opened(brokers, fetcher)
        for offset in (1, 2, 3):
            record = fetcher.available.take()
            assert record is not None
            assert (record.offset, record.value) == (offset, b"%d" % offset)
            assert fetcher.positions == {P0: offset + 1}
        assert (await take_of(fetcher, 1))[0].offset == 4
        assert fetcher.records_returned == 5


async def test_nothing_is_available_at_the_end_of_a_batch() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        await opened(brokers, fetcher, records=2)
        assert fetcher.available.take() is not None
        assert fetcher.available.take() is None
        assert fetcher.positions == {P0: 2}


@pytest.mark.parametrize(
    "act",
    [
        lambda fetcher: fetcher.interrupt(),
        lambda fetcher: fetcher.pause([P0]),
        lambda fetcher: fetcher.drop([P0]),
        lambda fetcher: fetcher.add({P0: 5}),
    ],
    ids=["interrupted", "paused", "dropped", "moved"],
)
async def test_nothing_is_available_once_something_else_is_due(act: Callable[[Fetcher], None]) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        await opened(brokers, fetcher)
        act(fetcher)
        assert fetcher.available.take() is None


@pytest.mark.parametrize("of_slice", [False, True], ids=["until", "slice"])
async def test_nothing_is_available_when_others_are_to_run(of_slice: bool) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        await opened(brokers, fetcher)
        fetcher._slice_end = -math.inf if of_slice else LATE
        fetcher.offer(LATE if of_slice else -math.inf)
        assert fetcher.available.take() is None
        assert fetcher.positions == {P0: 1}


async def test_an_interruption_is_not_forgotten() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        await opened(brokers, fetcher)
        fetcher.interrupt()
        offer(fetcher)
        assert fetcher.available.take() is None
        assert await fetcher.next() is None
        offer(fetcher)
        assert fetcher.available.take() is not None


async def test_records_that_were_gathered_for_a_list_come_first() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        await opened(brokers, fetcher)
        async with asyncio.timeout(PATIENCE_S):
            found = await fetcher.next_list(2, 0.0)
        assert found is not None
        assert [record.offset for record in found] == [1, 2]
        gathered = fetcher._buffer.ready
        offer(fetcher)
        assert (fetcher.available.take() is None) is (gathered > 0)
        assert (await take_of(fetcher, 1))[0].offset == (3 if gathered else 4)


async def test_records_that_need_a_deserializer_are_not_available() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, value_deserializer="string") as fetcher:
        await opened(brokers, fetcher)
        assert fetcher.available.take() is None


@pytest.mark.parametrize("event", ["blocked", "rebalance", "released", "polled"])
async def test_whatever_the_gate_has_to_do_comes_first(event: str) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        await opened(brokers, fetcher)
        gate = PollGate(fetcher.interrupt, fetcher.available, fetcher.unfinished)
        if event == "blocked":
            gate.block(True)
        elif event == "released":
            gate.release()
        elif event == "polled":
            gate.begin_poll()
        else:
            async with gate.between_polls():
                assert fetcher.available.take() is None
        assert fetcher.available.take() is None
        assert gate.is_quiet is (event == "rebalance")


async def test_an_error_to_raise_comes_first() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        await opened(brokers, fetcher)
        BackgroundTask(fetcher).raise_later(ValueError("a callback's"))
        assert fetcher.available.take() is None


# --- of a member


def with_a_corrupt_end(answer: FetchResponse) -> FetchResponse:
    """Damage the second record of a batch of two."""
    corrupt = bytearray(stored_batch([b"0", b"1"]))
    corrupt[-9] ^= 0x40
    (topic,) = answer.responses
    return replace(
        answer, responses=(replace(topic, partitions=(replace(topic.partitions[0], records=bytes(corrupt)),)),)
    )


async def test_an_available_error_does_not_hold_a_rebalance() -> None:
    """As after any call that raises, the application processes no record."""
    async with FakeCluster() as brokers:
        fill(brokers.create_topic("t").partitions[0], 2, batch_records=2)
        brokers.fault(FetchRequest, edit=with_a_corrupt_end)
        async with new_member(brokers, check_crcs=False) as member:
            found, error = [], None
            while error is None:
                try:
                    found += await take(member, 1)
                except CorruptRecordError as raised:
                    error = raised
            assert not member._gate.is_processing
            found += await take(member, 2 - len(found))
            assert [record.offset for record in found] == [0, 1]


async def read_until_refused(member: Member, found: list[int]) -> None:
    while True:
        found.append((await anext(member)).offset)


async def test_another_event_loop_is_refused_while_records_are_available() -> None:
    """Within the slice of milliseconds in which the fetcher looks at nothing else; no record is lost by it."""
    async with FakeCluster() as brokers:
        fill(brokers.create_topic("t").partitions[0], 50_000, batch_records=50_000)
        async with new_member(brokers) as member:
            assert (await take(member, 1))[0].offset == 0
            found: list[int] = [0]

            def read_elsewhere() -> None:
                with pytest.raises(UsageError, match="another event loop"):
                    asyncio.run(read_until_refused(member, found))

            await asyncio.to_thread(read_elsewhere)
            found.append((await take(member, 1))[0].offset)
            assert found == list(range(len(found)))


async def test_a_second_task_is_refused_while_records_are_available() -> None:
    async with FakeCluster() as brokers:
        log = brokers.create_topic("t").partitions[0]
        async with new_member(brokers) as member:
            waiting = asyncio.create_task(anext(member))
            async with asyncio.timeout(PATIENCE_S):
                while not member._gate.is_polling:
                    await asyncio.sleep(0.001)
            with pytest.raises(UsageError, match="one at a time"):
                await anext(member)
            fill(log, 1)
            async with asyncio.timeout(PATIENCE_S):
                assert (await waiting).offset == 0


async def test_a_closed_member_has_nothing_available() -> None:
    async with FakeCluster() as brokers:
        fill(brokers.create_topic("t").partitions[0], 9, batch_records=9)
        member = new_member(brokers)
        async with member:
            await take(member, 1)
        with pytest.raises(StopAsyncIteration):
            await anext(member)


async def test_an_error_of_a_callback_comes_before_records_available() -> None:
    async with FakeCluster() as brokers:
        fill(brokers.create_topic("t").partitions[0], 9, batch_records=9)
        async with new_member(brokers) as member:
            await take(member, 1)
            member._background.raise_later(ValueError("a callback's"))
            with pytest.raises(ValueError, match="a callback's"):
                await anext(member)
            assert (await take(member, 1))[0].offset == 1
