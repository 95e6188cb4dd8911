"""Slices of bulk calls: runs, room, and what is wrong with single records."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod.core import many
from aioprod.core.batch import Batch, Run
from aioprod.core.many import Slice
from aioprod.errors import AioprodError, InvalidRecordError, RecordTooLargeError, SerializationError
from aioprod.records.headers import NO_HEADERS
from aioprod.types import TopicPartition
from tests.support.accumulators import Harness, values


class Call:
    """A bulk call as the core sees it."""

    def __init__(self) -> None:
        self.runs: list[tuple[TopicPartition, Run]] = []
        self.failures: list[tuple[int, AioprodError]] = []

    def begin_run(self, place: TopicPartition) -> Run:
        run = Run(self, 0, 0)
        self.runs.append((place, run))
        return run

    def as_bytes(self, what: str, given: object) -> bytes:
        if isinstance(given, memoryview):
            return bytes(given)
        raise SerializationError(f"no {what}")

    def refused(self, index: int, error: AioprodError) -> None:
        self.failures.append((index, error))


def piece(call: Call, given: list[Any], keys: list[Any] | None = None, *, partition: int = -1, first: int = 0) -> Slice:
    return Slice(call, given, keys, NO_HEADERS, 1000, partition, first)


def append(harness: Harness, given: Slice, granted: bool = False) -> bool:
    topic = harness.accumulator.topic("t", 0.0)
    return given.append(harness.accumulator, topic, 0.0, granted)


def opened(harness: Harness, partition: int = 0) -> Batch:
    batch = harness.accumulator.topics["t"].partitions[partition].open
    assert batch is not None
    return batch


def test_records_in_a_row_share_one_waiter() -> None:
    harness = Harness(in_flight_max=5)
    harness.lead({0: 1, 1: 1})
    call = Call()
    assert append(harness, piece(call, [b"a", b"b"], partition=0))
    assert append(harness, piece(call, [b"c"], partition=1))
    harness.append(partition=0, waiter="single")
    assert append(harness, piece(call, [b"d"], partition=0))
    assert append(harness, piece(Call(), [b"e"], partition=0))
    counts = [entry.count if isinstance(entry, Run) else entry for entry in opened(harness).waiters]
    assert counts == [2, "single", 1, 1]
    assert [(place.partition, run.count) for place, run in call.runs] == [(0, 2), (1, 1), (0, 1)]
    assert harness.held()[0] == 6


def test_keys_choose_partitions_and_each_record_has_its_place() -> None:
    harness = Harness()
    harness.lead(dict.fromkeys(range(4), 1))
    keyed = piece(Call(), [b"%d" % number for number in range(20)], [b"k%d" % number for number in range(20)])
    assert append(harness, keyed)
    for partition in range(4):
        expected = [b"%d" % number for number, place in enumerate(keyed.places) if place == partition]
        assert values(opened(harness, partition)) == expected
    alone = Harness()
    alone.lead(dict.fromkeys(range(4), 1))
    for number in range(20):
        batch = alone.append(b"v", key=b"k%d" % number)
        assert isinstance(batch, Batch)
        assert batch.partition.index == keyed.places[number]


def test_what_is_wrong_with_a_record_is_its_own_matter() -> None:
    harness = Harness(max_request_size=200)
    harness.lead({0: 1})
    call = Call()
    given = piece(call, [b"a", 5, b"x" * 300, None, memoryview(b"b")], [None, None, None, b"k", "no"], first=100)
    assert append(harness, given)
    assert [(index, type(error)) for index, error in call.failures] == [
        (101, SerializationError),
        (102, RecordTooLargeError),
        (104, SerializationError),
    ]
    assert list(given.places) == [0, -1, -1, 0, -1]
    assert (given.at, given.accepted) == (5, 2)
    assert values(opened(harness)) == [b"a", None]


def test_a_partition_that_does_not_exist_refuses_each_record() -> None:
    harness = Harness()
    harness.lead({0: 1})
    call = Call()
    assert append(harness, piece(call, [b"a", b"b"], partition=3))
    assert [type(error) for _, error in call.failures] == [InvalidRecordError] * 2
    assert harness.held() == (0, 0)


def test_it_stops_where_there_is_no_room_and_goes_on_with_granted_room() -> None:
    harness = Harness(buffer_memory=300)
    harness.lead({0: 1})
    given = piece(Call(), [b"x" * 100] * 4)
    assert not append(harness, given)
    assert given.at == 2
    assert 100 < given.needed < 130
    assert not append(harness, given)
    assert given.at == 2
    assert not append(harness, given, granted=True)
    assert given.at == 3, "granted room is for one record"


def test_the_loop_gets_a_turn_after_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "BYTES_PER_TURN", 250)
    harness = Harness()
    harness.lead({0: 1})
    given = piece(Call(), [b"x" * 100] * 7)
    turns = 1
    while not append(harness, given):
        assert given.needed == 0
        turns += 1
    assert turns == 4
