"""What can't move takes its share of the memory while something else moves, and all of it while nothing does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from aioprod.errors import BufferFullError
from aioprod.producer.batching.buffer_memory import Reservation
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.records.headers import NO_HEADERS
from tests.support.accumulators import Harness

VALUE = b"x" * 900
"""A record of 912 bytes at most."""


def harness(*, leaders: dict[int, int], buffer_memory: int = 20_000, stuck_memory: int = 10_000) -> Harness:
    """Batches of 1,000 bytes, so that each record has one, and a topic `t` with these leaders."""
    built = Harness(buffer_memory=buffer_memory, stuck_memory=stuck_memory, in_flight_max=100)
    built.append(b"first", now=0.0)
    built.lead(leaders)
    built.move_on(built.accumulator.topics["t"])
    return built


def deliver(built: Harness, now: float) -> None:
    """Have broker 1 acknowledge what is there for it."""
    for batch in built.drain(1, now=now, size_max=10**6):
        batch.partition.moved_at = now
        built.acknowledge(batch, now)


def fill(built: Harness, partition: int, now: float) -> int:
    """Append records until one is refused; how many were taken."""
    return refusal(built, [{"partition": partition}] * 1000, now)[0]


def refusal(built: Harness, records: Iterable[dict[str, Any]], now: float) -> tuple[int, str]:
    """Append records until one is refused; how many were taken, and the error."""
    for taken, record in enumerate(records):
        try:
            built.append(**{"value": VALUE, "now": now, **record})
        except BufferFullError as error:
            return taken, str(error)
    raise AssertionError("none was refused")


def test_a_partition_without_leader_takes_its_share_while_another_moves() -> None:
    built = harness(leaders={0: 1, 1: -1})
    deliver(built, 1.0)
    assert fill(built, 1, 1.0) == 13, "10,000 bytes, and the record that finds them passed"
    for _ in range(5):
        assert built.batch(VALUE, now=1.0).records == 1
    assert fill(built, 0, 1.0) > 0, "the rest is for partition 0"
    assert built.held()[1] > 19_000


def test_while_nothing_moves_all_of_it_may_be_used() -> None:
    built = harness(leaders={0: 1, 1: -1})
    assert fill(built, 1, 1.0) == 21, "nothing was acknowledged yet"
    built = harness(leaders={0: 1, 1: -1})
    deliver(built, 1.0)
    built.accumulator.queue(1).lost_at = 2.0
    assert fill(built, 1, 3.0) == 21, "the connection was lost after it"
    built = harness(leaders={0: 1, 1: -1})
    deliver(built, 1.0)
    assert fill(built, 1, 40.0) == 21, "it is too long ago"


def test_while_nothing_moves_as_many_records_are_taken_as_without_a_share() -> None:
    small = [{"value": b"x" * 10, "partition": 1}] * 2000
    counts = []
    for stuck_memory in (20_000, 10_000, 2_000):
        built = harness(leaders={0: 1, 1: -1}, stuck_memory=stuck_memory)
        counts.append(refusal(built, small, 1.0)[0])
    assert counts[0] > 500
    assert counts == [counts[0]] * 3


def test_the_errors_name_what_holds_the_memory_and_since_when() -> None:
    built = harness(leaders={0: 1, 1: -1})
    deliver(built, 1.0)
    fill(built, 1, 1.0)
    with pytest.raises(BufferFullError) as refused:
        built.append(VALUE, partition=1, now=3.5)
    text = str(refused.value)
    assert text.startswith("Records that can't be delivered now hold 11841 bytes of buffer.memory=20000, and the rest ")
    assert "is for those that can: t-1 holds 10.9 kB of it and has not moved for 2.5 s. The next one, for " in text
    assert "topic 't', needs up to 933 bytes. Hint: producer.explain() says what a partition waits for; buff" in text
    fill(built, 0, 3.5)
    with pytest.raises(BufferFullError, match=r"is used up: .*; t-1 holds .* of it and has not moved for 2\.6 s\."):
        built.append(VALUE, partition=0, now=3.6)


def test_what_backs_off_repeats_or_has_a_silent_broker_is_stuck() -> None:
    built = harness(leaders={0: 1, 1: 2})
    partition = built.accumulator.topics["t"].partitions[1]
    queue = built.accumulator.queue(2)
    assert not partition.is_stuck(5.0)
    partition.retry_at = 5.1
    assert partition.is_stuck(5.0)
    assert not partition.is_stuck(5.1)
    partition.retrying = 1
    assert partition.is_stuck(5.1)
    partition.retrying = 0
    partition.suspended = True
    assert partition.is_stuck(5.1)
    partition.suspended = False
    partition.retry_at = 0.0
    queue.in_flight, queue.in_flight_since = 1, 5.0
    assert not partition.is_stuck(5.05)
    assert partition.is_stuck(5.2)
    queue.in_flight = 0
    queue.stalled_since = 5.0
    assert not partition.is_stuck(5.05)
    assert partition.is_stuck(5.2)
    queue.round_trip_s = 0.25
    assert not partition.is_stuck(5.7), "answers take that long"
    assert partition.is_stuck(5.8)


def test_a_partition_that_gets_a_leader_gets_room() -> None:
    built = harness(leaders={0: 1, 1: -1})
    deliver(built, 1.0)
    fill(built, 1, 1.0)
    assert built.accumulator.stuck.poll(1.15) == pytest.approx(1.25)
    built.lead({0: 1, 1: 1}, epoch=2, now=1.2)
    assert built.accumulator.stuck.poll(1.3) == pytest.approx(1.4), "the memory is still used beyond the share"
    assert built.batch(VALUE, partition=1, now=1.3).records == 1
    assert built.accumulator.topics["t"].stuck_count == 0
    for _ in range(20):
        deliver(built, 1.3)
    assert built.accumulator.stuck.poll(1.4) == float("inf")


def test_what_becomes_stuck_after_a_look_has_the_share_at_once() -> None:
    built = harness(leaders={0: 1, 1: 2})
    deliver(built, 1.0)
    for _ in range(12):
        built.append(VALUE, partition=1, now=1.0)
    assert built.accumulator.stuck.poll(1.0) == pytest.approx(1.1), "nothing is stuck so far"
    built.lead({0: 1, 1: -1}, epoch=2, now=1.05)
    assert fill(built, 1, 1.05) <= 2


def test_records_without_key_go_to_a_partition_that_moves() -> None:
    built = harness(leaders={0: 1, 1: 2})
    deliver(built, 1.0)
    built.accumulator.queue(2).stalled_since = 1.0
    fill(built, 1, 2.0)
    for _ in range(5):
        built.append(VALUE, now=2.0)
        assert built.accumulator.topics["t"].sticky.partition == 0


def test_records_of_a_topic_that_is_not_known_are_stuck() -> None:
    built = harness(leaders={0: 1})
    deliver(built, 1.0)
    taken, error = refusal(built, [{"name": "unknown"}] * 1000, 1.0)
    assert "topic 'unknown' holds" in error
    assert taken == 12
    assert built.batch(VALUE, now=1.0).records == 1


def test_many_partitions_with_a_record_each_are_counted_without_a_look_at_each() -> None:
    leaders = dict.fromkeys(range(1, 200), -1) | {0: 1}
    built = harness(leaders=leaders, buffer_memory=200_000, stuck_memory=100_000)
    deliver(built, 1.0)
    taken, _ = refusal(built, [{"partition": index} for index in range(1, 200)], 1.0)
    assert 110 <= taken <= 113


def test_what_becomes_stuck_broker_by_broker_is_made_good_once() -> None:
    built = harness(leaders={0: 1, 1: 2, 2: 3})
    partitions, stuck = built.accumulator.topics["t"].partitions, built.accumulator.stuck
    fill(built, 1, 1.0)
    partitions[0].moved_at = 1.0
    built.accumulator.queue(2).stalled_since = 1.0
    stuck.poll(2.0)
    fill(built, 0, 2.0)
    assert built.held()[1] > 28_000, "the rest of the memory, on top"
    partitions[2].moved_at = 2.0
    built.accumulator.queue(1).stalled_since = 2.0
    stuck.poll(3.0)
    fill(built, 2, 3.0)
    assert built.held()[1] <= 30_000


class Line:
    """Callers that wait, and who was granted room."""

    def __init__(self, built: Harness) -> None:
        self.budget = built.accumulator.budget
        self.granted: list[object] = []

    def wait(
        self, name: str, place: Partition | Topic | None = None, earlier: Reservation | None = None
    ) -> Reservation:
        return self.budget.wait(912, name, place=place, earlier=earlier)

    def serve(self) -> list[object]:
        self.budget.stuck_changed()
        return [reservation.waiter for reservation in self.budget.grant()]


def test_callers_for_what_is_stuck_wait_by_themselves() -> None:
    built = harness(leaders={0: 1, 1: -1, 2: -1})
    deliver(built, 1.0)
    fill(built, 1, 1.0)
    partitions = built.accumulator.topics["t"].partitions
    fill(built, 2, 1.0)
    line = Line(built)
    line.wait("first of 1", partitions[1])
    line.wait("first of 2", partitions[2])
    line.wait("second of 1", partitions[1])
    line.wait("moving")
    assert line.serve() == ["moving"]
    built.lead({0: 1, 1: -1, 2: 1}, epoch=2, now=2.0)
    built.accumulator.stuck.poll(2.0)
    assert line.serve() == ["first of 2"], "it waits for nothing any more"
    built.lead({0: 1, 1: 1, 2: 1}, epoch=3, now=3.0)
    built.accumulator.stuck.poll(3.0)
    assert line.serve() == ["first of 1", "second of 1"]


def test_callers_for_what_holds_nothing_are_held_back_too() -> None:
    built = harness(leaders={0: 1, 1: -1, 2: -1})
    deliver(built, 1.0)
    fill(built, 1, 1.0)
    fill(built, 2, 1.0)
    line = Line(built)
    for name in ("first", "second"):
        line.wait(name, built.accumulator.topics["t"].partitions[2])
    built.accumulator.stuck.poll(1.2)
    assert line.serve() == [], "partition 1 has all of the share"
    built.lead({0: 1, 1: -1, 2: 1}, epoch=2, now=1.2)
    built.accumulator.stuck.poll(1.4)
    assert line.serve() == ["first", "second"]


def test_what_callers_take_that_were_held_back_counts_at_once() -> None:
    built = harness(leaders={0: 1, 1: -1})
    deliver(built, 1.0)
    fill(built, 1, 1.0)
    share = built.accumulator.budget.stuck
    used = share.used
    built.accumulator.append("t", None, VALUE, NO_HEADERS, 1, 1000, None, 1.0, -1)
    assert share.used > used + 900


def test_a_caller_that_waited_for_memory_comes_first_when_its_partition_is_stuck() -> None:
    built = harness(leaders={0: 1, 1: 1})
    deliver(built, 1.0)
    fill(built, 0, 1.0)
    place = built.accumulator.topics["t"].partitions[1]
    line = Line(built)
    first, second = line.wait("first", place), line.wait("second", place)
    for _ in range(5):
        deliver(built, 1.0)
    assert built.accumulator.budget.grant() == [first, second]
    line.budget.stuck.used, line.budget.stuck.ceiling = 10_000, 10_000
    place.stuck_since = 1.0
    third = line.wait("third", place)
    assert not line.budget.stuck.fits(912, first.arrived)
    line.budget.end(first)
    again = line.wait("first", place, first)
    assert not line.budget.stuck.fits(1, second.arrived), "also where a smaller record would find room"
    assert list(line.budget.stuck.waiting) == [again, third]
    place.stuck_since = None


def test_callers_that_wait_for_memory_are_held_back_once_their_partition_is_stuck() -> None:
    built = harness(leaders={0: 1, 1: 1}, buffer_memory=20_000)
    deliver(built, 1.0)
    for _ in range(12):
        built.append(VALUE, partition=1, now=1.0)
    fill(built, 0, 1.0)
    place = built.accumulator.topics["t"].partitions[1]
    line = Line(built)
    line.wait("first", place)
    line.wait("moving")
    built.lead({0: 1, 1: -1}, epoch=2, now=1.0)
    built.accumulator.stuck.poll(1.2)
    line.wait("second", place)
    for _ in range(5):
        deliver(built, 1.2)
    assert [one.waiter for one in line.budget.grant()] == ["moving"]
    built.lead({0: 1, 1: 1}, epoch=3, now=1.3)
    built.accumulator.stuck.poll(1.4)
    assert [one.waiter for one in line.budget.grant()] == ["first", "second"]


def test_nothing_of_the_share_is_left_when_callers_give_up() -> None:
    built = harness(leaders={0: 1, 1: -1})
    deliver(built, 1.0)
    fill(built, 1, 1.0)
    budget = built.accumulator.budget
    place = built.accumulator.topics["t"].partitions[1]
    waiting = budget.wait(912, "waits", place=place)
    budget.end(waiting)
    assert not budget.stuck.waiting
    budget.stuck.used = 0
    admitted = budget.wait(912, "is admitted", place=place)
    budget.stuck_changed()
    assert budget.stuck.reserved == 912
    assert budget.grant() == [admitted]
    assert not budget.stuck.fits(1), "no other overtakes it"
    budget.end(admitted)
    assert (budget.stuck.reserved, budget.reserved) == (0, 0)
    assert budget.stuck.fits(912)
