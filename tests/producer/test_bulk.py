"""The bookkeeping of one bulk call, and the shapes of what it is given per record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod import TopicPartition
from aioprod.errors import InvalidRecordError, RejectedError, SerializationError
from aioprod.producer.batching.batch import Run
from aioprod.producer.bulk.call import Bulk, chunks, per_record, same_headers
from aioprod.producer.failure import Failure

FAILURE = Failure(
    family=RejectedError, event="1 record of t-0 was not delivered", why="refused.", topic="t", partition=0
)


def new_bulk() -> Bulk:
    return Bulk("t", asyncio.get_running_loop().create_future())


def take(bulk: Bulk, partition: int) -> Run:
    """One record of the call goes to a partition, as the accumulator and the call note it."""
    run = bulk.begin_run(TopicPartition("t", partition))
    run.count = 1
    bulk.accepted(1)
    bulk.partitions.append(partition)
    return run


def refuse(bulk: Bulk) -> None:
    """The next record of the call is not accepted."""
    bulk.invalid(len(bulk.partitions), SerializationError("no bytes"))
    bulk.partitions.append(-1)


async def test_it_is_done_when_the_call_has_ended_and_all_have_their_outcome() -> None:
    bulk = new_bulk()
    first, second = take(bulk, 0), take(bulk, 0)
    bulk.complete(TopicPartition("t", 0), first, 5, -1, None, 0)
    bulk.close()
    assert not bulk.future.done()
    bulk.complete(TopicPartition("t", 0), second, 6, -1, None, 1)
    assert bulk.future.done()
    assert bulk.result().offsets == {TopicPartition("t", 0): (range(5, 7),)}


async def test_the_places_of_records_are_theirs_where_some_are_not_known() -> None:
    bulk = new_bulk()
    runs = [take(bulk, partition) for partition in (0, 1, 0, 0)]
    for run, offset in ((runs[3], 9), (runs[1], 5), (runs[0], -1), (runs[2], 7)):
        bulk.complete(TopicPartition("t", int(run is runs[1])), run, offset, -1, None, 0)
    bulk.close()
    assert bulk.result().places([0, 1, 2, 3]) == [(0, -1, -1), (1, 5, -1), (0, 7, -1), (0, 9, -1)]


async def test_an_empty_call_is_done_when_it_is_closed() -> None:
    bulk = new_bulk()
    bulk.close()
    assert bulk.future.done()
    assert (bulk.result().count, bulk.result().offsets, bulk.result().failures) == (0, {}, ())


async def test_a_cancelled_call_is_not_watched() -> None:
    bulk = new_bulk()
    run = take(bulk, 0)
    watched = [bulk.watched]
    bulk.future.cancel()
    watched.append(bulk.watched)
    assert watched == [True, False]
    bulk.close()
    bulk.complete(TopicPartition("t", 0), run, 5, -1, None, 0)
    assert bulk.future.cancelled()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
async def test_ranges_that_touch_are_joined_in_whatever_order_they_come(order: tuple[int, ...]) -> None:
    bulk = new_bulk()
    runs = [take(bulk, 0) for _ in range(3)]
    for index in order:
        bulk.complete(TopicPartition("t", 0), runs[index], 10 + index, -1, None, 0)
    bulk.close()
    assert bulk.result().offsets == {TopicPartition("t", 0): (range(10, 13),)}


async def test_a_place_that_is_not_known_moves_no_other() -> None:
    bulk = new_bulk()
    place = TopicPartition("t", 0)
    runs = [take(bulk, 0) for _ in range(3)]
    for run, offset in zip(runs, (10, -1, 12), strict=True):
        bulk.complete(place, run, offset, -1, None, 0)
    bulk.close()
    assert bulk.result().places([0, 1, 2]) == [(0, 10, -1), (0, -1, -1), (0, 12, -1)]


async def test_failures_are_in_the_order_of_the_call() -> None:
    bulk = new_bulk()
    runs = {}
    for index, partition in enumerate([1, 0, -1, 1, 0, 1]):
        if partition < 0:
            refuse(bulk)
        else:
            runs[index] = take(bulk, partition)
    bulk.complete(TopicPartition("t", 1), runs[5], -1, -1, FAILURE, 0)
    bulk.complete(TopicPartition("t", 0), runs[4], -1, -1, FAILURE, 3)
    bulk.complete(TopicPartition("t", 0), runs[1], 7, -1, None, 0)
    bulk.complete(TopicPartition("t", 1), runs[0], -1, -1, FAILURE, 0)
    bulk.complete(TopicPartition("t", 1), runs[3], -1, -1, None, 0)
    bulk.close()
    result = bulk.result()
    assert result.count == 6
    assert [(index, type(error)) for index, error in result.failures] == [
        (0, RejectedError),
        (2, SerializationError),
        (4, RejectedError),
        (5, RejectedError),
    ]
    assert result.offsets == {TopicPartition("t", 0): (range(7, 8),)}


@settings(max_examples=60, deadline=None)
@given(
    partitions=st.lists(st.integers(-1, 3), max_size=40),
    failed=st.sets(st.integers(0, 39)),
    batch_records=st.integers(1, 5),
    order=st.randoms(use_true_random=False),
)
def test_every_record_of_a_call_is_accounted_for(
    partitions: list[int], failed: set[int], batch_records: int, order: Any
) -> None:
    """Records go to batches as the accumulator gives them, batches end in any order, some of them fail."""

    async def call() -> None:
        bulk = new_bulk()
        batches: dict[int, list[Run]] = {}
        indexes: dict[tuple[int, int], list[int]] = {}
        for index, partition in enumerate(partitions):
            if partition < 0:
                refuse(bulk)
                continue
            runs = batches.setdefault(partition, [])
            if runs and runs[-1].count < batch_records:
                runs[-1].count += 1
            else:
                runs.append(bulk.begin_run(TopicPartition("t", partition)))
                runs[-1].count = 1
            bulk.accepted(1)
            bulk.partitions.append(partition)
            indexes.setdefault((partition, len(runs) - 1), []).append(index)
        bulk.close()
        todo = [(partition, number) for partition, runs in batches.items() for number in range(len(runs))]
        order.shuffle(todo)
        expected_failures = {index for index, partition in enumerate(partitions) if partition < 0}
        for partition, number in todo:
            run = batches[partition][number]
            if set(indexes[partition, number]) & failed:
                bulk.complete(TopicPartition("t", partition), run, -1, -1, FAILURE, 0)
                expected_failures.update(indexes[partition, number])
            else:
                bulk.complete(TopicPartition("t", partition), run, run.first, -1, None, 0)
        assert bulk.future.done()
        if partitions and max(partitions) < 0:
            with pytest.raises(SerializationError, match="no bytes"):
                bulk.result()
            return
        result = bulk.result()
        assert [index for index, _ in result.failures] == sorted(expected_failures)
        stored = sum(len(offsets) for ranges in result.offsets.values() for offsets in ranges)
        assert stored + len(result.failures) == result.count == len(partitions)

    asyncio.run(call())


async def test_chunks_of_an_iterable() -> None:
    assert [list(chunk) async for chunk in chunks(range(5), 2)] == [[0, 1], [2, 3], [4]]
    nothing: list[int] = []
    assert [list(chunk) async for chunk in chunks(nothing, 2)] == []


async def test_items_of_an_async_iterable_come_one_by_one() -> None:
    async def items() -> AsyncIterator[int]:
        for item in range(3):
            yield item

    assert [list(chunk) async for chunk in chunks(items(), 2)] == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("headers", "same"),
    [
        (None, True),
        ([], True),
        ((), True),
        ([("a", b"1")], True),
        ((("a", b"1"), ("b", None)), True),
        ([None], False),
        ([[("a", b"1")]], False),
        ([(("a", b"1"), ("b", b"2"))], False),
        ([()], False),
        (iter([("a", b"1")]), False),
    ],
)
def test_headers_for_all_or_for_each(headers: Any, same: bool) -> None:
    assert same_headers(headers) is same


def test_what_is_given_for_each_value() -> None:
    assert per_record("keys", None, 3) is None
    assert list(per_record("keys", [1, 2, 3], 3) or ()) == [1, 2, 3]
    assert list(per_record("keys", (n for n in range(9)), 3) or ()) == list(range(9))
    assert list(per_record("keys", [1], None) or ()) == [1]
    with pytest.raises(InvalidRecordError, match="2 keys for 3 values"):
        per_record("keys", [1, 2], 3)
    for wrong in ("abc", b"abc", bytearray(b"abc"), memoryview(b"abc"), 5):
        with pytest.raises(InvalidRecordError, match="give an iterable, or None"):
            per_record("keys", wrong, None)  # type: ignore[arg-type]  # what users may give
