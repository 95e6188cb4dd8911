"""Batches that grow while their partition is held up: when, how far, and what they count for."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from aioprod.cluster import Cluster
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.drain import end_backoffs
from aioprod.producer.batching.lifecycle import complete, expired, land, release, requeue, withdraw
from aioprod.producer.batching.partition import Partition
from aioprod.producer.batching.splitting import split
from aioprod.records.layout import HEADER
from tests.support.accumulators import Harness, values

UNIT = 1000
"""`batch.size`."""
VALUE = b"x" * 400
"""A unit has room for two."""


def grown_harness(**options: object) -> Harness:
    given: dict[str, object] = {"batch_size": UNIT, "batch_size_max": 8 * UNIT, **options}
    harness = Harness(**given)  # type: ignore[arg-type]
    harness.lead({0: 1, 1: 1})
    return harness


def fill(harness: Harness, records: int, **options: object) -> list[Batch]:
    """Append so many records to partition 0, or another one; the batches that they went to, each once."""
    batches = [harness.batch(VALUE, **options) for _ in range(records)]  # type: ignore[arg-type]
    return list(dict.fromkeys(batches))


def load(harness: Harness, partition: int = 0) -> int:
    return harness.accumulator.topics["t"].queue_lengths.get(partition, 0)


def send_one(harness: Harness) -> Batch:
    """Send one batch of partition 0, whose only place in flight it takes."""
    harness.batch(VALUE)
    (sent,) = harness.drain()
    return sent


def test_a_batch_grows_while_the_places_in_flight_are_taken_and_leaves_as_one() -> None:
    harness = grown_harness()
    sent = send_one(harness)
    (batch,) = fill(harness, 15)
    assert batch.partition.open is batch
    assert len(batch.builder.buffer) <= 16 + 8 * UNIT + 1
    assert harness.drain() == []
    harness.acknowledge(sent)
    assert harness.drain(unfinished=False) == [batch], "it does not linger"
    assert values(batch) == [VALUE] * 15


def test_a_full_batch_leaves_in_the_next_drain_with_all_that_came_before_it() -> None:
    harness = grown_harness(in_flight_max=5)
    (batch,) = fill(harness, 2)
    assert batch.units == 1
    assert harness.woken == [harness.accumulator.queue(1)]
    assert harness.drain(unfinished=False) == [], "it may have room for another record, and lingers"
    fill(harness, 4)
    assert harness.drain(unfinished=False) == [batch]
    assert values(batch) == [VALUE] * 6
    (later,) = fill(harness, 1)
    assert later is not batch


def test_a_full_batch_waits_for_its_turn_in_a_request_and_grows_meanwhile() -> None:
    harness = grown_harness(in_flight_max=5)
    (first,) = fill(harness, 3)
    (second,) = fill(harness, 3, partition=1)
    assert harness.drain(unfinished=False, size_max=2000) == [first]
    assert fill(harness, 3, partition=1) == [second]
    assert harness.drain(unfinished=False, size_max=2000) == [second]
    assert len(values(second)) == 6


def test_full_batches_grow_for_a_fifth_of_the_round_trip_after_a_request() -> None:
    harness = grown_harness(in_flight_max=5)
    queue = harness.accumulator.queue(1)
    queue.answered(0.5, 5)
    assert queue.pace_s == 0.1
    queue.in_flight = 1
    queue.paced_until = 1.1
    (batch,) = fill(harness, 3, now=1.0)
    assert harness.drain(now=1.05) == []
    assert queue.next_due() == 1.1
    assert fill(harness, 3, now=1.05) == [batch]
    assert harness.drain(now=1.1, unfinished=False) == [batch]
    (batch,) = fill(harness, 3, now=1.05)
    queue.in_flight = 0
    assert harness.drain(now=1.05) == [batch], "nothing is in flight to its broker"


def test_the_largest_batch_does_not_wait_after_a_request() -> None:
    harness = grown_harness(in_flight_max=5)
    queue = harness.accumulator.queue(1)
    queue.in_flight = 1
    queue.paced_until = 1.1
    first, second = fill(harness, 20, now=1.0)
    assert harness.drain(now=1.0, unfinished=False) == [first]
    assert harness.drain(now=1.0, unfinished=False) == []
    fill(harness, 3, now=1.0)
    assert harness.drain(now=1.1, unfinished=False) == [second]


def test_requests_to_a_near_broker_are_not_paced() -> None:
    queue = grown_harness().accumulator.queue(1)
    queue.answered(0.0002, 5)
    assert queue.pace_s == 0.0
    for _ in range(100):
        queue.answered(0.05, 5)
    assert queue.pace_s == pytest.approx(0.01, rel=0.01)


def test_a_batch_grows_without_a_leader_to_its_limit_and_leaves_when_there_is_one() -> None:
    harness = grown_harness()
    harness.lead({0: -1, 1: 1}, epoch=2)
    first, second = fill(harness, 20)
    assert first.builder.size <= 8 * UNIT < first.builder.size + 410
    assert (first.state, second.partition.open) == (1, second)
    harness.lead({0: 2, 1: 1}, epoch=3)
    assert harness.drain(2, unfinished=False) == [first]


def test_a_batch_grows_while_its_partition_backs_off() -> None:
    harness = grown_harness()
    sent = send_one(harness)
    assert land(harness.accumulator, sent, 1.0)
    requeue(harness.accumulator, sent, 1.0, 5.0)
    (batch,) = fill(harness, 9, now=1.0)
    assert harness.drain(now=1.0) == []
    end_backoffs(harness.accumulator, 6.0)
    assert harness.drain(now=6.0) == [sent]
    assert len(values(sent)) == 1, "what was sent keeps its bytes"
    harness.acknowledge(sent, 6.0)
    assert harness.drain(now=6.0, unfinished=False) == [batch]


def test_no_batch_grows_where_the_sizes_are_the_same() -> None:
    harness = grown_harness(batch_size_max=UNIT)
    send_one(harness)
    assert [len(values(batch)) for batch in fill(harness, 5)] == [2, 2, 1]


def test_a_record_larger_than_a_unit_joins_a_batch_that_is_held_up() -> None:
    harness = grown_harness()
    send_one(harness)
    first = harness.batch(VALUE)
    assert harness.batch(b"y" * 3 * UNIT) is first
    assert (first.units, load(harness)) == (4, 4)
    assert harness.batch(VALUE) is first


def test_a_batch_of_one_large_record_counts_its_units_once_another_joins() -> None:
    harness = grown_harness()
    send_one(harness)
    first = harness.batch(b"y" * 3 * UNIT)
    assert harness.batch(VALUE) is first
    assert load(harness) == first.units == 4


def test_a_grown_batch_counts_for_the_loads_as_the_batches_that_it_replaces() -> None:
    harness = grown_harness()
    sent = send_one(harness)
    (batch,) = fill(harness, 8)
    assert load(harness) == batch.units == 4
    harness.acknowledge(sent)
    assert harness.drain() == [batch]
    assert load(harness) == 0
    assert land(harness.accumulator, batch, 0.0)
    requeue(harness.accumulator, batch, 0.0, 0.0)
    assert load(harness) == 4
    complete(harness.accumulator, batch, 0.0)
    release(harness.accumulator, batch)
    assert load(harness) == 0


def test_the_parts_of_a_grown_batch_count_for_the_loads_by_their_size() -> None:
    harness = grown_harness()
    sent = send_one(harness)
    (batch,) = fill(harness, 14)
    harness.acknowledge(sent)
    assert harness.drain() == [batch]
    assert land(harness.accumulator, batch, 0.0)
    split(harness.accumulator, batch, 0.0)
    parts = list(batch.partition.queued)
    assert sum(len(values(part)) for part in parts) == 14
    assert load(harness) == sum(part.units for part in parts)
    assert all(part.units == -(-part.builder.size // UNIT) for part in parts)


def test_keyless_records_move_on_with_each_unit() -> None:
    harness = grown_harness(buffer_memory=10_000_000)
    harness.lead(dict.fromkeys(range(4), -1), epoch=2)
    placed = [harness.append(VALUE) for _ in range(400)]
    counts = Counter(batch.partition.index for batch in placed if isinstance(batch, Batch))
    assert set(counts) == {0, 1, 2, 3}
    runs = 1 + sum(
        before.partition is not after.partition
        for before, after in pairwise(placed)
        if isinstance(before, Batch) and isinstance(after, Batch)
    )
    assert runs > 100, "a turn ends after a unit, not when a batch is closed"


def test_a_partition_that_is_held_up_draws_as_little_as_with_closed_batches() -> None:
    def share(size_max: int) -> float:
        harness = grown_harness(batch_size_max=size_max, buffer_memory=10_000_000, in_flight_max=5)
        harness.lead({0: -1, 1: 1, 2: 1}, epoch=2)
        harness.lead({0: 1, 1: 1, 2: 1}, epoch=3)
        held = harness.accumulator.topic("t", 0.0).partitions[0]
        held.suspended = True
        counts: Counter[int] = Counter()
        for _ in range(3000):
            placed = harness.append(VALUE)
            assert isinstance(placed, Batch)
            counts[placed.partition.index] += 1
            for batch in harness.drain(unfinished=False):
                harness.acknowledge(batch)
        return counts[0] / counts.total()

    assert share(8 * UNIT) == pytest.approx(share(UNIT), abs=0.02)


class Scripted:
    """Moves on to the other of two partitions with each new batch."""

    def __init__(self) -> None:
        self.current = 0
        self.new_batches = 0

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        return self.current

    def on_new_batch(self, topic: str, cluster: Cluster, partition: int) -> None:
        self.new_batches += 1
        self.current = 1 - self.current


def test_a_partitioner_hears_of_each_unit() -> None:
    def heard(size_max: int) -> tuple[int, int]:
        partitioner = Scripted()
        harness = grown_harness(partitioner=partitioner, batch_size_max=size_max)
        harness.lead({0: -1, 1: -1}, epoch=2)
        batches = {harness.append(VALUE) for _ in range(12)}
        return partitioner.new_batches, len(batches)

    assert (heard(UNIT), heard(8 * UNIT)) == ((6, 6), (6, 2))


@pytest.mark.parametrize(("linger_s", "last"), [(0.005, 12.0), (30.0, 30.0)])
def test_a_batch_takes_no_record_much_younger_than_its_oldest(linger_s: float, last: float) -> None:
    harness = grown_harness(linger_s=linger_s)
    send_one(harness)
    first = harness.batch(b"a", now=0.0)
    assert harness.batch(b"b", now=last) is first
    later = harness.batch(b"c", now=last + 0.1)
    assert later is not first
    assert later.deadline == last + 0.1 + 120.0
    assert list(first.partition.queued) == [first]


def test_withdrawn_records_make_room_before_a_batch_grows() -> None:
    harness = grown_harness()
    send_one(harness)
    batch = harness.batch(VALUE)
    for _ in range(99):
        waiter = object()
        assert harness.batch(VALUE, waiter=waiter) is batch
        assert withdraw(harness.accumulator, batch, waiter, 0.0)
    assert (batch.units, batch.records) == (1, 1)
    assert batch.builder.count < 6
    assert harness.held() == (2, sum(other.record_bytes for other in harness.accumulator.incomplete))


def test_a_batch_is_closed_ahead_of_its_turn_where_batches_are_compressed() -> None:
    closed: list[Batch] = []
    harness = grown_harness(compress=closed.append)
    sent = send_one(harness)
    first, second = fill(harness, 9)
    assert closed == [sent, first]
    assert (len(values(first)), len(values(second))) == (2, 7)
    harness.acknowledge(sent)
    assert harness.drain() == [first]
    assert harness.batch(VALUE) is not second, "it is full, and nothing is ahead of it"
    assert closed == [sent, first, second]


def test_a_record_larger_than_the_largest_batch_is_one_of_its_own() -> None:
    harness = grown_harness()
    sent = send_one(harness)
    (grown,) = fill(harness, 9)
    harness.acknowledge(sent)
    assert harness.drain() == [grown]
    large = harness.batch(b"y" * 9 * UNIT)
    assert (large.builder.count, large.partition.open) == (1, None)
    assert harness.batch(VALUE) is not large


def test_a_grown_buffer_is_not_kept_and_the_first_one_is() -> None:
    harness = grown_harness()
    sent = send_one(harness)
    pool = harness.accumulator.pool
    free = len(pool.free)
    (batch,) = fill(harness, 9)
    assert len(pool.free) == free + 1
    harness.acknowledge(sent)
    (batch,) = harness.drain()
    kept = len(pool.free)
    harness.acknowledge(batch)
    assert len(pool.free) == kept


def reject(harness: Harness, batch: Batch, now: float = 0.0) -> None:
    """The broker finds a batch in flight too large."""
    batch.builder.seal(0, None)
    harness.accumulator.growth.rejected(batch, now)
    assert land(harness.accumulator, batch, now)
    split(harness.accumulator, batch, now)


def deliver_all(harness: Harness, now: float = 0.0) -> list[int]:
    """Drain and acknowledge until nothing is left; the sizes of the batches."""
    sizes = []
    while drained := harness.drain(now=now):
        for batch in drained:
            sizes.append(batch.builder.size)
            harness.acknowledge(batch, now)
    return sizes


def test_a_topics_limit_is_met_once() -> None:
    harness = grown_harness(buffer_memory=1_000_000)
    sent = send_one(harness)
    first, _, third = fill(harness, 50)
    harness.acknowledge(sent)
    assert harness.drain() == [first]
    reject(harness, first)
    sizes = deliver_all(harness)
    assert len(sizes) == 9
    assert max(sizes) <= first.builder.size // 2 + HEADER, "closed ones are split before they are sent"
    assert third.builder.size > max(sizes)
    send_one(harness)
    batches = fill(harness, 30)
    assert all(batch.builder.size <= first.builder.size // 2 for batch in batches)
    assert max(batch.units for batch in batches) > 1


def test_a_topics_limit_may_be_less_than_a_unit() -> None:
    harness = grown_harness(buffer_memory=1_000_000)
    small = b"x" * 40
    batch = harness.batch(small)
    for _ in range(10):
        harness.batch(small)
    assert harness.drain() == [batch]
    reject(harness, batch)
    deliver_all(harness)
    size_max = batch.builder.size // 2
    for _ in range(100):
        harness.batch(small)
    large = harness.batch(b"y" * 500)
    assert large.builder.count == 1
    assert all(size <= size_max + HEADER or size == large.builder.size for size in deliver_all(harness))


def test_a_topics_limit_is_forgotten_after_a_while() -> None:
    harness = grown_harness(buffer_memory=1_000_000)
    sent = send_one(harness)
    (batch,) = fill(harness, 18)
    harness.acknowledge(sent)
    assert harness.drain() == [batch]
    reject(harness, batch)
    deliver_all(harness)
    harness.batch(VALUE, now=301.0)
    harness.drain(now=301.0)
    (later,) = fill(harness, 18, now=301.0)
    assert later.builder.size > batch.builder.size // 2


def test_a_topics_limit_is_of_compressed_bytes() -> None:
    harness = grown_harness(buffer_memory=1_000_000)
    sent = send_one(harness)
    (batch,) = fill(harness, 18)
    harness.acknowledge(sent)
    assert harness.drain() == [batch]
    batch.builder.compress(1, None)
    assert batch.builder.compressed_size < UNIT // 2
    reject(harness, batch)
    assert batch.partition.topic.size_limit is not None
    assert batch.partition.topic.size_limit.size_max == pytest.approx(batch.builder.size / 2, rel=0.01)


def test_loads_memory_and_order_hold_whatever_happens() -> None:
    random = Random(7)
    for _ in range(30):
        in_flight_max = random.choice([1, 5])
        harness = grown_harness(in_flight_max=in_flight_max, buffer_memory=10_000_000)
        chaos = _Chaos(harness, random)
        chaos.run(400)
        assert not harness.accumulator.incomplete
        assert harness.held() == (0, 0)
        for numbers in chaos.acknowledged.values():
            assert numbers == sorted(set(numbers))


class _Chaos:
    """Random events on two partitions, with what must hold after each of them."""

    def __init__(self, harness: Harness, random: Random) -> None:
        self.harness = harness
        self.random = random
        self.now = 0.0
        self.epoch = 1
        self.serial = 0
        self.on_wire: list[Batch] = []
        self.acknowledged: dict[int, list[int]] = {0: [], 1: []}
        self.waiters: dict[int, tuple[object, Batch]] = {}

    def run(self, events: int) -> None:
        for _ in range(events):
            self.now += 0.01
            self.random.choice([self.append] * 8 + [self.drain, self.answer, self.retry, self.move, self.take_back])()
            self.check()
        self.lead(1)
        for _ in range(500):
            self.now += 1.0
            end_backoffs(self.harness.accumulator, self.now)
            self.drain()
            self.answer()

    def append(self) -> None:
        for _ in range(self.random.randrange(1, 8)):
            waiter = object()
            value = b"%d " % self.serial + b"x" * self.random.choice([0, 100, 700, 2500])
            batch = self.harness.batch(value, partition=self.random.randrange(2), waiter=waiter, now=self.now)
            self.waiters[self.serial] = (waiter, batch)
            self.serial += 1

    def drain(self) -> None:
        for node in (1, 2):
            self.on_wire += self.harness.drain(node, now=self.now, unfinished=self.random.random() < 0.5)

    def first_of(self, partition: Partition) -> Batch:
        return next(batch for batch in self.on_wire if batch.partition is partition)

    def answer(self) -> None:
        if self.on_wire:
            batch = self.first_of(self.random.choice(self.on_wire).partition)
            self.on_wire.remove(batch)
            assert batch.builder.size <= 8 * UNIT or batch.builder.count == 1
            numbers = [int((value or b"").split()[0]) for value in values(batch)]
            self.acknowledged[batch.partition.index] += numbers
            self.harness.acknowledge(batch, self.now)

    def retry(self) -> None:
        if self.on_wire:
            # All that is behind a lost batch is lost, too.
            partition = self.random.choice(self.on_wire).partition
            lost = [batch for batch in self.on_wire if batch.partition is partition]
            for batch in reversed(lost):
                self.on_wire.remove(batch)
                size = batch.builder.size
                assert land(self.harness.accumulator, batch, self.now)
                requeue(self.harness.accumulator, batch, self.now, self.random.choice([0.0, 0.1]))
                assert batch.builder.size == size

    def move(self) -> None:
        self.lead(self.random.choice([-1, 1, 2]))

    def lead(self, node: int) -> None:
        self.epoch += 1
        self.harness.lead({0: node, 1: 1}, epoch=self.epoch, now=self.now)

    def take_back(self) -> None:
        if self.waiters:
            number = self.random.choice(list(self.waiters))
            waiter, batch = self.waiters.pop(number)
            withdraw(self.harness.accumulator, batch, waiter, self.now)

    def check(self) -> None:
        accumulator = self.harness.accumulator
        for partition in accumulator.topic("t", self.now).partitions:
            waiting = [*partition.queued, *([partition.open] if partition.open else [])]
            loads = accumulator.topics["t"].queue_lengths.get(partition.index, 0)
            assert loads == sum(batch.units for batch in waiting)
            assert [batch.serial for batch in waiting] == sorted(batch.serial for batch in waiting)
        assert accumulator.budget.used == sum(batch.record_bytes for batch in accumulator.incomplete)
        assert not expired(accumulator, self.now, 1)


def test_a_batch_begins_in_a_buffer_for_what_the_last_ones_have_become() -> None:
    harness = grown_harness()
    partition = send_one(harness).partition
    (first,) = fill(harness, 10)
    harness.accumulator.close_batch(first, 1.0)
    sizes = []
    for _ in range(20):
        (batch,) = fill(harness, 1)
        sizes.append(len(batch.builder.buffer) // UNIT)
        harness.accumulator.close_batch(batch, 1.0)
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (8, 1)
    assert {*sizes} <= {8, 4, 2, 1}, "as few sizes as there can be"
    assert partition.room == UNIT


def test_a_batch_that_has_used_little_of_its_buffer_returns_the_rest() -> None:
    harness = grown_harness()
    send_one(harness)
    (first,) = fill(harness, 10)
    harness.accumulator.close_batch(first, 1.0)
    (little,) = fill(harness, 1)
    assert len(little.builder.buffer) > 8 * UNIT
    harness.accumulator.close_batch(little, 1.0)
    assert len(little.builder.buffer) < UNIT
    (third,) = fill(harness, 3)
    harness.accumulator.close_batch(third, 1.0)
    assert len(third.builder.buffer) > 4 * UNIT > 3 * third.builder.size


def test_open_batches_begin_large_only_within_half_of_the_memory() -> None:
    harness = grown_harness(buffer_memory=20 * UNIT)
    for place in (0, 1):
        (batch,) = fill(harness, 1, partition=place)
        batch.partition.room = 8 * UNIT
    harness.drain()
    sizes = [len(fill(harness, 1, partition=place)[0].builder.buffer) // UNIT for place in (0, 1)]
    assert sizes == [8, 1]
