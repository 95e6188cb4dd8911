"""Whatever happens in whatever order: every record from where a partition was added on, once, in order, until it is
dropped, and none while it is paused."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from aioprod.group.fetcher import Fetcher
from aioprod.messages import FetchRequest
from aioprod.reader.offsets import EARLIEST
from aioprod.records import Compression
from aioprod.testing import FakeCluster
from aioprod.testing.fake import FakePartition
from aioprod.types import ConsumedRecord, TopicPartition
from tests.support.arrow_records import records_of
from tests.support.fetchers import given, running_fetcher
from tests.support.stored_batches import store, stored_batch

TOPICS = {"a": 3, "b": 1, "c": 2}


class Model:
    """What was written, and what is to come of each partition that is read."""

    def __init__(self, brokers: FakeCluster, fetcher: Fetcher, random: Random) -> None:
        self.brokers = brokers
        self.fetcher = fetcher
        self.random = random
        self.all = [TopicPartition(name, index) for name, count in TOPICS.items() for index in range(count)]
        self.written: dict[TopicPartition, list[int]] = {tp: [] for tp in self.all}
        # Where retention has cut each partition: a fetch may lie between two cuts, and its records are given later.
        self.cuts: dict[TopicPartition, list[int]] = {tp: [] for tp in self.all}
        self.expected: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.pending: asyncio.Task[ConsumedRecord | None] | None = None

    def log(self, tp: TopicPartition) -> FakePartition:
        return self.brokers.topics[tp.topic].partitions[tp.partition]

    def to_come(self, tp: TopicPartition) -> list[int]:
        """The offsets that are still to be given, those that retention has removed included."""
        return [offset for offset in self.written[tp] if offset >= self.expected[tp]]

    def check(self, record: ConsumedRecord) -> None:
        tp = TopicPartition(record.topic, record.partition)
        assert tp in self.expected, f"{tp} was dropped"
        assert tp not in self.paused, f"{tp} is paused"
        to_come = self.to_come(tp)
        kept = [next((offset for offset in to_come if offset >= cut), None) for cut in self.cuts[tp]]
        assert record.offset in (to_come[0], *kept), (tp, record.offset, to_come, kept)
        assert record.value == b"%d" % record.offset
        self.expected[tp] = record.offset + 1

    # --- what may happen

    async def produce(self) -> None:
        tp = self.random.choice(self.all)
        log = self.log(tp)
        for _ in range(self.random.randint(1, 4)):
            base = log.next_offset + self.random.choice([0, 0, 0, 3])
            offsets = range(base, base + self.random.randint(1, 5))
            codec = self.random.choice([Compression.NONE, Compression.LZ4])
            store(log, stored_batch([b"%d" % offset for offset in offsets], base_offset=base, codec=codec))
            self.written[tp] += offsets
        self.brokers.state.wake_fetches()

    async def add(self) -> None:
        for tp in self.random.sample(self.all, self.random.randint(1, 3)):
            log = self.log(tp)
            at = self.random.choice([EARLIEST, log.first_offset, self.random.randint(0, log.next_offset)])
            self.fetcher.add({tp: at})
            self.expected[tp] = max(at, 0)

    async def drop(self) -> None:
        some = self.random.sample(self.all, self.random.randint(1, 4))
        self.fetcher.drop(some)
        for tp in some:
            self.expected.pop(tp, None)
            self.paused.discard(tp)

    async def drop_and_add(self) -> None:
        if self.expected:
            tp = self.random.choice(list(self.expected))
            self.fetcher.drop([tp])
            self.paused.discard(tp)
            self.fetcher.add({tp: self.expected[tp]})

    async def pause(self) -> None:
        some = self.random.sample(self.all, self.random.randint(1, 3))
        self.paused |= self.expected.keys() & some
        self.fetcher.pause(self.paused)
        assert self.fetcher.paused == self.paused

    async def resume(self) -> None:
        some = self.random.sample(self.all, self.random.randint(1, 5))
        self.paused.difference_update(some)
        self.fetcher.resume(some)

    async def retain(self) -> None:
        tp = self.random.choice(self.all)
        log = self.log(tp)
        log.delete_before(self.random.randint(log.first_offset, log.next_offset))
        self.cuts[tp].append(log.first_offset)

    async def move(self) -> None:
        tp = self.random.choice(self.all)
        self.brokers.move_leader(*tp)

    async def cut(self) -> None:
        self.brokers.fault(FetchRequest, drop=self.random.choice(["before", "after"]))

    async def take(self) -> None:
        """Some records, if any are left; the wait for the last one may continue."""
        for _ in range(self.random.randint(1, 8)):
            if not self.is_something_to_come():
                break
            self.check(await self.next())
        self.poll()

    async def take_list(self) -> None:
        """Up to so many at once; the wait may be cancelled, which must not lose a record either."""
        if self.pending is None and self.is_something_to_come():
            is_left = self.random.random() < 0.5
            wait_s = 60.0 if is_left else self.random.choice([0.0, 0.002])
            pending = asyncio.ensure_future(self.fetcher.next_list(self.random.randint(1, 12), wait_s))
            if is_left:
                for _ in range(self.random.randint(1, 300)):
                    await asyncio.sleep(0)
                pending.cancel()
                await asyncio.wait([pending])
                if pending.cancelled():
                    self.check_positions()
                    return
            async with asyncio.timeout(20):
                given_now = await pending
            assert given_now
            for record in given_now:
                self.check(record)

    async def take_arrow(self) -> None:
        """As `take_list`, but rows of Arrow."""
        if self.pending is None and self.is_something_to_come() and self.fetcher.is_plain:
            is_left = self.random.random() < 0.5
            wait_s = 60.0 if is_left else self.random.choice([0.0, 0.002])
            rows_max = self.random.randint(1, 12)
            pending = asyncio.ensure_future(self.fetcher.next_arrow(rows_max, wait_s))
            if is_left:
                for _ in range(self.random.randint(1, 300)):
                    await asyncio.sleep(0)
                pending.cancel()
                await asyncio.wait([pending])
                if pending.cancelled():
                    self.check_positions()
                    return
            async with asyncio.timeout(20):
                batch = await pending
            assert batch is not None
            assert 0 < batch.num_rows <= rows_max
            for record in records_of(batch):
                self.check(record)

    def check_positions(self) -> None:
        """No position is past a record that was not given."""
        for tp, position in self.fetcher.positions.items():
            first = self.log(tp).first_offset
            assert all(position <= offset for offset in self.to_come(tp) if offset >= first), tp

    async def leave(self) -> None:
        """Stop waiting, which must not lose a record."""
        if self.pending is not None:
            pending, self.pending = self.pending, None
            pending.cancel()
            await asyncio.wait([pending])
            if not pending.cancelled():
                self.check(await given(pending))

    async def turn(self) -> None:
        for _ in range(self.random.randint(1, 30)):
            await asyncio.sleep(0)

    # --- taking

    def is_something_to_come(self) -> bool:
        readable = self.expected.keys() - self.paused
        return any(offset >= self.log(tp).first_offset for tp in readable for offset in self.to_come(tp)[-1:])

    def poll(self) -> asyncio.Task[ConsumedRecord | None]:
        if self.pending is None:
            self.pending = asyncio.ensure_future(self.fetcher.next())
        return self.pending

    async def next(self) -> ConsumedRecord:
        pending = self.poll()
        self.pending = None
        return await given(pending)

    async def done(self) -> None:
        """Check the record of a poll that was started before a change."""
        if self.pending is not None and self.pending.done():
            pending, self.pending = self.pending, None
            self.check(await given(pending))


async def same(data: bytes) -> bytes:
    await asyncio.sleep(0)
    return data


@pytest.mark.parametrize("seed", range(40))
async def test_any_order(seed: int) -> None:
    random = Random(seed)
    # In a rack it reads from followers, where these are in the same one.
    racks = ("a", "b", "b") if seed % 2 else ()
    async with FakeCluster(3, seed=seed, racks=racks) as brokers:
        for name, count in TOPICS.items():
            brokers.create_topic(name, count)
        size = random.choice([1, 200, 1_000_000])
        deserializer = random.choice([None, same])
        options: dict[str, Any] = {
            "max_partition_fetch_bytes": size,
            "fetch_max_wait_ms": 5,
            "value_deserializer": deserializer,
            "client_rack": "b" if racks else "",
        }
        async with running_fetcher(brokers, **options) as fetcher:
            model = Model(brokers, fetcher, random)
            often = [model.produce, model.add, model.drop, model.drop_and_add, model.take, model.leave, model.turn]
            often += [model.take_list, model.take_list, model.take_arrow, model.take_arrow, model.pause, model.resume]
            steps = [*often, *often, model.take, model.retain, model.move, model.cut]
            for _ in range(100):
                await model.done()
                await random.choice(steps)()
            await model.leave()
            model.paused.clear()
            fetcher.resume(fetcher.paused)
            while model.is_something_to_come():
                model.check(await model.next())
            for tp, position in fetcher.positions.items():
                assert model.expected[tp] <= position <= max(model.log(tp).next_offset, model.expected[tp])
        brokers.end_faults()
