"""Batches that go on in parts: halves of one that is too large, innocents of one that is refused."""

from __future__ import annotations

from aioprod.producer.batching.batch import Batch, Run
from aioprod.producer.batching.lifecycle import complete, flush, land, release
from aioprod.producer.batching.splitting import set_apart, split
from tests.support.accumulators import Harness, values


def splittable(harness: Harness, count: int = 4) -> Batch:
    batch = harness.batch(b"0" * 50, waiter="W0", now=0.0)
    for number in range(1, count):
        harness.batch(str(number).encode() * 50, waiter=f"W{number}", now=float(number))
    harness.drain(now=float(count))
    assert land(harness.accumulator, batch, 5.0)
    return batch


def test_a_split_keeps_records_waiters_order_and_deadline() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = splittable(harness)
    later = harness.batch(b"later", now=5.0)
    records = harness.held()[0]
    split(harness.accumulator, batch, 5.0)
    assert harness.held()[0] == records
    children = []
    while drained := harness.drain(now=5.0):
        children += drained
        harness.acknowledge(drained[0], 5.0)
    assert children[-1] is later
    assert [value for child in children[:-1] for value in values(child)] == [
        str(number).encode() * 50 for number in range(4)
    ]
    assert all(child.deadline == batch.deadline for child in children[:-1])
    assert all(child.builder.size < batch.builder.size for child in children[:-1])
    assert harness.held() == (0, 0)


def test_a_flush_waits_for_the_halves() -> None:
    harness = Harness()
    harness.lead({0: 1})
    done: list[bool] = []
    batch = harness.batch(b"x" * 50, waiter=0)
    for number in range(1, 4):
        harness.batch(b"x" * 50, waiter=number)
    flush(harness.accumulator, [], 0.0, lambda: done.append(True))
    harness.drain()
    assert land(harness.accumulator, batch, 0.0)
    split(harness.accumulator, batch, 0.0)
    assert not done
    while drained := harness.drain():
        assert not done
        harness.acknowledge(drained[0])
    assert done == [True]


def test_a_split_splits_the_runs_of_a_bulk_call() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch(b"x" * 50, waiter="A")
    for _ in range(5):
        harness.batch(b"y" * 50)
    batch.waiters[1:] = [Run("bulk", 7, 5)]
    harness.drain()
    assert land(harness.accumulator, batch, 0.0)
    split(harness.accumulator, batch, 0.0)
    children = [*harness.accumulator.incomplete]
    described = [
        [(entry.bulk, entry.first, entry.count) if isinstance(entry, Run) else entry for entry in child.waiters]
        for child in children
    ]
    counts = [child.builder.count for child in children]
    assert sum(counts) == 6
    flat = [entry for child in described for entry in child]
    assert flat[0] == "A"
    ordinal = 7
    for entry in flat[1:]:
        assert isinstance(entry, tuple)
        assert entry[:2] == ("bulk", ordinal)
        ordinal += entry[2]
    assert ordinal == 12


def test_halves_take_their_place_among_the_deadlines() -> None:
    harness = Harness(batch_size=300)
    harness.lead({0: 1, 1: 1})
    batch = splittable(harness)
    other = harness.batch(partition=1, now=50.0)
    split(harness.accumulator, batch, 50.0)
    harness.accumulator.sort_incomplete()
    deadlines = [held.deadline for held in harness.accumulator.incomplete]
    assert deadlines == sorted(deadlines)
    assert [*harness.accumulator.incomplete][-1] is other


def test_innocents_go_again_without_the_culprits() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = splittable(harness)
    later = harness.batch(b"later", now=5.0)
    told: list[str] = []
    flush(harness.accumulator, [], 5.0, lambda: told.append("done"))
    culprits = set_apart(harness.accumulator, batch, {1, 3}, 5.0)
    assert values(culprits) == [b"1" * 50, b"3" * 50]
    assert culprits.waiters == ["W1", "W3"]
    complete(harness.accumulator, culprits, 5.0)
    release(harness.accumulator, culprits)
    (again,) = harness.drain(now=5.0)
    assert values(again) == [b"0" * 50, b"2" * 50]
    assert again.waiters == ["W0", "W2"]
    harness.acknowledge(again, 5.0)
    assert not told
    assert harness.drain(now=5.0) == [later]
    harness.acknowledge(later, 5.0)
    assert told == ["done"]
    assert harness.held() == (0, 0)


def test_a_run_with_a_culprit_in_its_middle_is_split() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch(b"0")
    for number in range(1, 5):
        harness.batch(str(number).encode())
    batch.waiters[:] = [Run("bulk", 10, 5)]
    harness.drain()
    assert land(harness.accumulator, batch, 0.0)
    culprits = set_apart(harness.accumulator, batch, {2}, 0.0)
    (again,) = harness.drain()
    described = [[(run.first, run.count) for run in part.waiters] for part in (again, culprits)]
    assert described == [[(10, 2), (13, 2)], [(12, 1)]]
