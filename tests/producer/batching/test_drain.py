"""What leaves for a broker, in which order, and what has to wait."""

from __future__ import annotations

import math

from aioprod.producer.batching.drain import BATCHES_MAX, close_due, end_backoffs
from aioprod.producer.batching.lifecycle import compressed, land, requeue
from aioprod.producer.batching.size_limit import SizeLimit
from aioprod.producer.batching.states import IN_FLIGHT
from aioprod.records.compression import Compression
from tests.support.accumulators import UNLIMITED, Harness, values


def test_one_batch_of_each_partition() -> None:
    harness = Harness(batch_size=100, in_flight_max=UNLIMITED)
    harness.lead({0: 1, 1: 1, 2: 2})
    first = [harness.batch(b"x" * 100, partition=partition) for partition in (0, 1, 2)]
    second = [harness.batch(b"y" * 100, partition=partition) for partition in (0, 1)]
    assert harness.drain(1) == first[:2]
    assert harness.drain(1) == second
    assert harness.drain(2) == first[2:]
    assert harness.drain(1) == []


def test_what_is_drained_is_in_flight() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch()
    assert harness.accumulator.topics["t"].queue_lengths == {0: 1}
    assert harness.drain() == [batch]
    assert (batch.state, batch.attempts, batch.on_wire) == (IN_FLIGHT, 1, True)
    assert batch.partition.in_flight == 1
    assert harness.accumulator.topics["t"].queue_lengths == {}


def test_unfinished_batches_stay_unless_they_may_go() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch()
    assert harness.drain(unfinished=False) == []
    assert harness.batch() is batch
    assert harness.drain(unfinished=True) == [batch]
    assert batch.partition.open is None


def test_the_request_size_bounds_a_drain_but_one_batch_always_goes() -> None:
    harness = Harness(batch_size=100)
    harness.lead({0: 1, 1: 1, 2: 1})
    batches = [harness.batch(b"x" * 200, partition=partition) for partition in (0, 1, 2)]
    assert harness.drain(size_max=10) == batches[:1]
    assert harness.drain(size_max=2 * batches[0].builder.size) == batches[1:]


def test_the_request_size_bounds_unfinished_batches_too() -> None:
    harness = Harness()
    harness.lead({0: 1, 1: 1, 2: 1})
    batches = [harness.batch(b"x" * 200, partition=partition) for partition in (0, 1, 2)]
    assert harness.drain(size_max=2 * batches[0].builder.size) == batches[:2]
    assert harness.drain() == batches[2:]


def test_what_is_yet_to_be_compressed_has_a_bound_of_its_own() -> None:
    harness = Harness(batch_size=100, in_flight_max=UNLIMITED)
    harness.lead({0: 1, 1: 1, 2: 1, 3: 1, 4: 1})
    batches = [harness.batch(b"x" * 200, partition=partition) for partition in (0, 1, 2)]
    batches += [harness.batch(b"x" * 10, partition=partition) for partition in (3, 4)]
    batches[0].builder.compress(Compression.GZIP, None)
    batches[2].builder.compress(Compression.GZIP, None)
    raw = batches[1].builder.size
    assert harness.drain(raw_max=raw) == batches[:3]
    assert harness.drain(raw_max=1) == batches[3:4]
    assert harness.drain(raw_max=1) == batches[4:]


def test_there_is_a_limit_of_batches() -> None:
    count = BATCHES_MAX + 1
    harness = Harness(buffer_memory=10_000_000)
    harness.lead(dict.fromkeys(range(2 * count), 1))
    batches = [harness.batch(partition=partition) for partition in range(2 * count)]
    for batch in batches[:count]:
        harness.accumulator.end_linger(batch.partition, 0.0)
    assert harness.drain(size_max=10_000_000, raw_max=10_000_000) == batches[:BATCHES_MAX]
    assert harness.drain(size_max=10_000_000, raw_max=10_000_000) == batches[BATCHES_MAX : 2 * BATCHES_MAX]


def test_what_a_thread_compresses_is_passed_over_and_holds_back_its_partition() -> None:
    harness = Harness(batch_size=100, in_flight_max=UNLIMITED)
    harness.lead({0: 1, 1: 1})
    held = harness.batch(b"x" * 100, partition=0)
    behind = harness.batch(b"y" * 100, partition=0)
    other = harness.batch(b"z" * 100, partition=1)
    held.compressing = True
    assert harness.drain() == [other]
    harness.batch(b"z", partition=0)
    assert harness.drain() == []
    assert compressed(harness.accumulator, held, 0.0)
    assert harness.drain() == [held]
    assert harness.drain() == [behind]


def test_partitions_take_turns() -> None:
    harness = Harness(batch_size=100, in_flight_max=UNLIMITED)
    harness.lead({0: 1, 1: 1})
    batches = [harness.batch(b"x" * 100, partition=partition) for partition in (0, 0, 1, 1)]
    drained = [harness.drain(size_max=10) for _ in range(4)]
    assert drained == [[batches[0]], [batches[2]], [batches[1]], [batches[3]]]


def test_a_partition_in_flight_is_muted_where_order_is_kept() -> None:
    harness = Harness(batch_size=100)
    harness.lead({0: 1, 1: 1})
    first = harness.batch(b"x" * 100)
    second = harness.batch(b"y" * 100)
    assert harness.drain() == [first]
    assert harness.drain() == []
    other = harness.batch(partition=1)
    assert harness.drain() == [other], "another partition goes on"
    harness.acknowledge(first)
    assert harness.drain() == [second]


def test_a_partition_never_appears_twice_in_a_request() -> None:
    harness = Harness(batch_size=100, in_flight_max=UNLIMITED)
    harness.lead({0: 1})
    full = harness.batch(b"x" * 100)
    unfinished = harness.batch(b"y")
    assert harness.drain() == [full]
    assert harness.drain() == [unfinished]


def test_nor_when_a_batch_of_another_one_is_split_on_its_way_out() -> None:
    harness = Harness(batch_size=1000, in_flight_max=UNLIMITED)
    harness.lead({0: 1, 1: 1})
    rejected = harness.batch(b"w" * 400, partition=0)
    assert harness.drain() == [rejected]
    rejected.builder.seal(Compression.NONE, None)
    full = [harness.batch(b"x" * 1000, partition=0) for _ in range(2)]
    too_large = [harness.batch(b"y" * 200, partition=1) for _ in range(4)][-1]
    harness.accumulator.end_linger(too_large.partition, 0.0)
    limit = rejected.partition.topic.size_limit = SizeLimit()
    limit.rejected(rejected, math.inf)
    assert limit.forbids(too_large)
    assert harness.drain() == full[:1]
    assert [batch.partition.index for batch in harness.drain()] == [0, 1]


def test_a_pending_retry_goes_first_and_alone() -> None:
    harness = Harness(batch_size=100, in_flight_max=UNLIMITED)
    harness.lead({0: 1})
    first, second, third = (harness.batch(letter * 100) for letter in (b"a", b"b", b"c"))
    assert harness.drain() == [first]
    assert harness.drain() == [second]
    assert land(harness.accumulator, first, 1.0)
    requeue(harness.accumulator, first, 1.0, 0.1)
    assert harness.drain(now=1.05) == [], "it backs off"
    assert end_backoffs(harness.accumulator, 1.1) is None
    assert harness.drain(now=1.1) == [], "the second one is still on the wire"
    harness.acknowledge(second, 1.2)
    assert harness.drain(now=1.2) == [first]
    assert harness.drain(now=1.2) == [], "nothing overtakes a batch that is sent again"
    harness.acknowledge(first, 1.3)
    assert harness.drain(now=1.3) == [third]


def test_two_retries_come_back_in_order() -> None:
    harness = Harness(batch_size=100, in_flight_max=UNLIMITED)
    harness.lead({0: 1})
    first, second = harness.batch(b"a" * 100), harness.batch(b"b" * 100)
    harness.drain()
    harness.drain()
    for batch in (second, first):
        assert land(harness.accumulator, batch, 1.0)
        requeue(harness.accumulator, batch, 1.0, 0.0)
    assert harness.drain(now=1.0) == [first]
    harness.acknowledge(first)
    assert harness.drain(now=1.0) == [second]


def test_backoffs_end_one_by_one() -> None:
    harness = Harness()
    harness.lead({0: 1, 1: 1})
    batches = [harness.batch(partition=0), harness.batch(partition=1)]
    harness.drain()
    for batch, delay_s in zip(batches, (0.2, 0.1), strict=True):
        assert land(harness.accumulator, batch, 1.0)
        requeue(harness.accumulator, batch, 1.0, delay_s)
    assert end_backoffs(harness.accumulator, 1.0) == 1.1
    assert end_backoffs(harness.accumulator, 1.1) == 1.2
    assert harness.drain(now=1.1) == [batches[1]]
    assert end_backoffs(harness.accumulator, 1.2) is None
    assert harness.drain(now=1.2) == [batches[0]]


def test_lingering_ends_in_order_of_opening() -> None:
    harness = Harness(linger_s=0.005)
    harness.lead({0: 1, 1: 1})
    first = harness.batch(partition=0, now=1.0)
    second = harness.batch(partition=1, now=1.003)
    queue = harness.accumulator.queue(1)
    assert queue.next_due() == 1.005
    assert harness.drain(now=1.004, unfinished=False) == []
    assert harness.drain(now=1.005, unfinished=False) == [first]
    assert queue.next_due() == 1.003 + 0.005
    assert harness.drain(now=1.008, unfinished=False) == [second]
    assert queue.next_due() == math.inf


def test_a_muted_batch_that_has_lingered_leaves_as_soon_as_it_may() -> None:
    harness = Harness(linger_s=0.005)
    harness.lead({0: 1})
    first = harness.batch(now=1.0)
    harness.drain(now=1.0)
    late = harness.batch(now=1.001)
    close_due(harness.accumulator, harness.accumulator.queue(1), 2.0)
    assert harness.drain(now=2.0) == []
    harness.acknowledge(first, 2.0)
    assert harness.drain(now=2.0, unfinished=False) == [late]


def test_a_batch_that_has_left_lingers_no_more() -> None:
    harness = Harness(linger_s=0.005)
    harness.lead({0: 1})
    harness.batch(now=1.0)
    harness.drain(now=1.0)
    assert harness.accumulator.queue(1).next_due() == math.inf


def test_withdrawn_records_are_left_out() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch(b"a", waiter="A")
    harness.batch(b"b", waiter="B")
    harness.batch(b"c", waiter="C")
    assert batch.withdraw("B") > 0
    assert harness.drain() == [batch]
    assert values(batch) == [b"a", b"c"]
    assert batch.waiters == ["A", "C"]
    assert batch.records == 2
