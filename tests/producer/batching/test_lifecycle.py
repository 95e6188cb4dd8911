"""Withdrawn, expired, split, settled: what becomes of batches, and that every byte comes back."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.errors import InvalidRecordError
from aioprod.producer.batching.batch import Batch, ParkedRecord, Run
from aioprod.producer.batching.lifecycle import (
    complete,
    expired,
    flush,
    land,
    next_expiry,
    release,
    requeue,
    withdraw,
)
from aioprod.producer.batching.parking import evict, evict_overdue, withdraw_parked
from aioprod.producer.batching.splitting import split
from aioprod.producer.batching.states import COMPLETED
from tests.support.accumulators import UNLIMITED, Harness, values


def test_a_done_and_released_batch_gives_everything_back() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch()
    harness.drain()
    harness.acknowledge(batch)
    assert harness.held() == (0, 0)
    assert not harness.accumulator.incomplete
    assert batch.partition.in_flight == 0


def test_a_full_size_buffer_is_used_again_only_after_the_wire_is_done() -> None:
    harness = Harness(batch_size=500)
    harness.lead({0: 1})
    batch = harness.batch(b"x" * 400)
    buffer = batch.builder.buffer
    harness.drain()
    complete(harness.accumulator, batch, 130.0)
    release(harness.accumulator, batch)
    assert harness.held() == (0, 0)
    assert harness.accumulator.pool.free == [], "a connection may still read it"
    assert not land(harness.accumulator, batch, 131.0)
    assert harness.accumulator.pool.free == [buffer]


def test_a_batch_that_lands_between_its_outcome_and_its_completion() -> None:
    harness = Harness(batch_size=500)
    harness.lead({0: 1})
    batch = harness.batch(b"x" * 400)
    harness.drain()
    complete(harness.accumulator, batch, 130.0)
    assert not land(harness.accumulator, batch, 130.0)
    assert harness.accumulator.pool.free == []
    release(harness.accumulator, batch)
    assert len(harness.accumulator.pool.free) == 1


def test_withdrawing_gives_the_bytes_back_at_once() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch(b"aaaa", waiter="A")
    before = harness.held()
    harness.batch(b"bb", waiter="B")
    assert withdraw(harness.accumulator, batch, "B", 0.0)
    assert harness.held() == before
    assert not withdraw(harness.accumulator, batch, "B", 0.0), "only once"
    assert not withdraw(harness.accumulator, batch, "nobody", 0.0)


@pytest.mark.parametrize("full", [False, True])
def test_a_batch_whose_last_record_is_withdrawn_is_gone(full: bool) -> None:
    harness = Harness(batch_size=100 if full else 1000)
    harness.lead({0: 1})
    batch = harness.batch(b"x" * 100, waiter="A")
    assert withdraw(harness.accumulator, batch, "A", 0.0)
    assert harness.held() == (0, 0)
    assert batch.state == COMPLETED
    assert harness.drain() == []
    assert harness.accumulator.topics["t"].queue_lengths == {}
    assert next_expiry(harness.accumulator) is None


def test_one_of_two_queued_batches_is_withdrawn() -> None:
    harness = Harness(batch_size=100)
    harness.lead({0: 1})
    first = harness.batch(b"x" * 100, waiter="A")
    second = harness.batch(b"y" * 100, waiter="B")
    assert withdraw(harness.accumulator, first, "A", 0.0)
    assert harness.drain() == [second]


def test_withdrawing_is_too_late_once_sent() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch(waiter="A")
    harness.drain()
    assert not withdraw(harness.accumulator, batch, "A", 0.0)
    assert land(harness.accumulator, batch, 0.0)
    requeue(harness.accumulator, batch, 0.0, 0.0)
    assert not withdraw(harness.accumulator, batch, "A", 0.0), "it may be stored already"


def test_withdrawing_beside_a_bulk() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch(b"a", waiter="A")
    run = Run("bulk", 0, 2)
    harness.batch(b"b", waiter=run)
    harness.batch(b"c", waiter="placeholder")
    batch.waiters.pop()
    harness.batch(b"d", waiter="D")
    assert withdraw(harness.accumulator, batch, "D", 0.0)
    harness.drain()
    assert values(batch) == [b"a", b"b", b"c"]
    assert batch.waiters == ["A", run]


def test_expiry_is_by_age_in_every_state() -> None:
    harness = Harness(batch_size=100)
    harness.lead({0: 1, 1: 1, 2: 1})
    in_flight = harness.batch(b"x" * 100, partition=0, now=1.0)
    harness.drain(now=1.0)
    queued = harness.batch(b"x" * 100, partition=1, now=2.0)
    opened = harness.batch(b"x", partition=2, now=3.0)
    assert next_expiry(harness.accumulator) == 121.0
    assert expired(harness.accumulator, 120.9, UNLIMITED) == []
    assert expired(harness.accumulator, 122.0, UNLIMITED) == [in_flight, queued]
    assert expired(harness.accumulator, 200.0, UNLIMITED) == [in_flight, queued, opened]
    assert expired(harness.accumulator, 200.0, 2) == [in_flight, queued]
    for batch in (in_flight, queued, opened):
        complete(harness.accumulator, batch, 200.0)
        release(harness.accumulator, batch)
    assert harness.held() == (0, 0)
    assert harness.accumulator.topics["t"].queue_lengths == {}


def test_a_retry_that_expires_lets_the_next_batch_go() -> None:
    harness = Harness(batch_size=100, in_flight_max=UNLIMITED)
    harness.lead({0: 1})
    first = harness.batch(b"x" * 100, now=1.0)
    harness.drain(now=1.0)
    second = harness.batch(b"y" * 100, now=2.0)
    assert land(harness.accumulator, first, 2.0)
    requeue(harness.accumulator, first, 2.0, 500.0)
    assert harness.drain(now=2.0) == []
    complete(harness.accumulator, first, 121.0)
    assert harness.drain(now=121.0) == [second]


def test_a_flush_lets_everything_leave_and_waits_for_what_was_there() -> None:
    harness = Harness()
    harness.lead({0: 1})
    parked = harness.append(b"p", name="new", waiter="P")
    early = harness.batch(b"early")
    told: list[str] = []
    flush(harness.accumulator, [], 0.0, lambda: told.append("done"))
    late = harness.batch(b"late")
    assert late is not early
    assert harness.drain(unfinished=False) == [early]
    harness.acknowledge(early)
    assert not told
    harness.lead({0: 2}, name="new")
    topic = harness.accumulator.topics["new"]
    assert harness.move_on(topic) == []
    assert not told, "the parked record is in a batch now, and that has no outcome yet"
    (moved,) = harness.drain(2, unfinished=False)
    assert getattr(parked, "moved_to", None) is moved
    harness.acknowledge(moved)
    assert told == ["done"], "what came later is not waited for"


def test_an_empty_flush_is_done_at_once() -> None:
    harness = Harness()
    told: list[str] = []
    flush(harness.accumulator, [], 0.0, lambda: told.append("done"))
    assert told == ["done"]


def test_a_flush_waits_for_done_batches_that_are_being_completed() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch()
    harness.drain()
    assert land(harness.accumulator, batch, 0.0)
    complete(harness.accumulator, batch, 0.0)
    told: list[str] = []
    flush(harness.accumulator, [batch], 0.0, lambda: told.append("done"))
    assert not told
    release(harness.accumulator, batch)
    assert told == ["done"]


def test_parked_records_move_on_in_order_some_at_a_time() -> None:
    harness = Harness()
    for number in range(5):
        harness.append(str(number).encode(), name="new", waiter=number, partition=0)
    harness.lead({0: 1}, name="new")
    topic = harness.accumulator.topics["new"]
    harness.move_on(topic, 3)
    assert [record.waiter for record in topic.parked or ()] == [3, 4]
    harness.append(b"5", name="new", waiter=5, partition=0)
    harness.move_on(topic)
    assert not harness.accumulator.parked_topics
    (batch,) = harness.drain()
    assert values(batch) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert batch.waiters == [0, 1, 2, 3, 4, 5]


def test_a_parked_record_that_can_not_move_on_is_handed_back() -> None:
    harness = Harness()
    bad = harness.append(name="new", partition=7)
    harness.append(name="new", partition=0)
    harness.lead({0: 1}, name="new")
    ((record, error),) = harness.move_on(harness.accumulator.topics["new"])
    assert record is bad
    assert isinstance(error, InvalidRecordError)
    assert harness.held()[0] == 1


def test_a_parked_record_stays_parked_when_its_batch_can_not_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    record = harness.append(name="new", partition=0, waiter="W")
    held = harness.held()
    harness.lead({0: 1}, name="new")
    topic = harness.accumulator.topics["new"]
    with monkeypatch.context() as patch:
        patch.setattr(harness.metadata, "touch", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            harness.move_on(topic)
    assert [parked.waiter for parked in topic.parked or ()] == ["W"]
    assert harness.held() == held
    assert harness.drain() == [], "a batch without records"
    assert not harness.accumulator.incomplete
    topic.touched_at = -1000.0
    assert harness.move_on(topic) == []
    (batch,) = harness.drain()
    assert (batch.waiters, batch.records, harness.held()[0]) == (["W"], 1, 1)
    assert getattr(record, "moved_to", None) is batch
    assert not topic.queue_lengths


def test_a_partitioner_that_cancels_the_parked_record_it_is_asked_about() -> None:
    class Cancels:
        def partition(self, *_: object) -> int:
            assert isinstance(record, ParkedRecord)
            assert withdraw_parked(harness.accumulator, record)
            return 0

    harness = Harness(partitioner=Cancels())
    record = harness.append(name="new", waiter="W")
    behind = harness.append(name="new", partition=0, waiter="B")
    harness.lead({0: 1}, name="new")
    assert harness.move_on(harness.accumulator.topics["new"]) == []
    (batch,) = harness.drain()
    assert (batch.waiters, harness.held()[0]) == ([None, "B"], 2)
    assert getattr(behind, "moved_to", None) is batch
    harness.acknowledge(batch)
    assert harness.held() == (0, 0)


def test_parked_records_are_evicted_once() -> None:
    harness = Harness()
    told: list[str] = []
    record = harness.append(name="new")
    assert not isinstance(record, Batch)
    flush(harness.accumulator, [], 0.0, lambda: told.append("done"))
    assert evict(harness.accumulator, record)
    assert not evict(harness.accumulator, record)
    assert harness.held() == (0, 0)
    assert told == ["done"]
    harness.lead({0: 1}, name="new")
    assert not evict(harness.accumulator, record)


def test_parked_records_have_their_time() -> None:
    harness = Harness()
    first = harness.append(name="new", now=0.0)
    second = harness.append(name="new", now=10.0)
    topic = harness.accumulator.topics["new"]
    assert evict_overdue(harness.accumulator, topic, 59.9, 10) == []
    assert evict_overdue(harness.accumulator, topic, 60.0, 10) == [first]
    assert evict_overdue(harness.accumulator, topic, 100.0, 10) == [second]


@given(st.data())
def test_every_byte_comes_back_whatever_happens(data: st.DataObject) -> None:
    harness = Harness(batch_size=300, in_flight_max=data.draw(st.sampled_from([1, UNLIMITED])))
    harness.lead({0: 1, 1: 1})
    accumulator = harness.accumulator
    accumulator.topic("t", 0.0)
    on_wire: list[Batch] = []
    placed: list[tuple[Batch, int]] = []
    sent: dict[int, list[bytes | None]] = {0: [], 1: []}
    now = 0.0
    for number in range(data.draw(st.integers(0, 40))):
        now += 0.01
        step = data.draw(st.sampled_from(["append", "append", "append", "drain", "ok", "retry", "withdraw", "expire"]))
        end_of_wire = bool(on_wire)
        if step == "append":
            waiter = number
            placed.append((harness.batch(b"%d" % number * 10, partition=number % 2, waiter=waiter, now=now), waiter))
        elif step == "drain":
            on_wire += harness.drain(now=now)
        elif step == "ok" and end_of_wire:
            batch = on_wire.pop(0)
            if land(accumulator, batch, now):
                sent[batch.partition.index] += values(batch)
                complete(accumulator, batch, now)
                release(accumulator, batch)
        elif step == "retry" and end_of_wire:
            batch = on_wire.pop(data.draw(st.integers(0, len(on_wire) - 1)))
            if land(accumulator, batch, now):
                if batch.builder.count > 1 and data.draw(st.booleans()):
                    split(accumulator, batch, now)
                else:
                    requeue(accumulator, batch, now, 0.0)
        elif step == "withdraw" and placed:
            batch, waiter = placed.pop(data.draw(st.integers(0, len(placed) - 1)))
            withdraw(accumulator, batch, waiter, now)
        elif step == "expire":
            for batch in expired(accumulator, data.draw(st.sampled_from([now, now + 119.9])), UNLIMITED):
                complete(accumulator, batch, now)
                release(accumulator, batch)
        assert harness.held()[0] == sum(batch.records for batch in accumulator.incomplete)
        assert harness.held()[1] == sum(batch.record_bytes for batch in accumulator.incomplete)
    for batch in on_wire:
        if land(accumulator, batch, now):
            complete(accumulator, batch, now)
            release(accumulator, batch)
    while drained := harness.drain(now=now):
        for batch in drained:
            harness.acknowledge(batch, now)
    assert harness.held() == (0, 0)
    assert all(partition.in_flight == 0 for partition in accumulator.topics["t"].partitions)
