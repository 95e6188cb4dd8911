"""Slices of bulk calls: runs, room, and what is wrong with single records."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod.errors import AioprodError, InvalidRecordError, RecordTooLargeError, SerializationError
from aioprod.producer.batching import bulk_values
from aioprod.producer.batching.batch import Batch, Run
from aioprod.producer.batching.bulk_values import BulkValues
from aioprod.producer.batching.lines import Lines, lines_of
from aioprod.records.headers import NO_HEADERS, encode_headers
from aioprod.types import TopicPartition
from tests.support.accumulators import Harness, values


class Call:
    """A bulk call as the accumulator sees it."""

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

    def invalid(self, index: int, error: AioprodError) -> None:
        self.failures.append((index, error))


def piece(
    call: Call, given: list[Any] | Lines, keys: list[Any] | None = None, *, partition: int = -1, first: int = 0
) -> BulkValues:
    return BulkValues(call, given, keys, NO_HEADERS, 1000, partition, first)


def append(harness: Harness, given: BulkValues) -> bool:
    topic = harness.accumulator.topic("t", 0.0)
    return given.append(harness.accumulator, topic, 0.0)


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


def test_a_partition_that_does_not_exist_fails_each_record() -> None:
    harness = Harness()
    harness.lead({0: 1})
    call = Call()
    assert append(harness, piece(call, [b"a", b"b"], partition=3))
    assert [type(error) for _, error in call.failures] == [InvalidRecordError] * 2
    assert harness.held() == (0, 0)


def test_it_stops_without_memory_and_takes_all_that_is_free_in_its_turn() -> None:
    harness = Harness(buffer_memory=300)
    harness.lead({0: 1})
    given = piece(Call(), [b"x" * 100] * 6)
    assert not append(harness, given)
    assert given.at == 2
    assert 100 < given.needed < 130
    assert not append(harness, given)
    assert given.at == 2
    budget = harness.accumulator.budget
    reservation = budget.wait(2 * given.needed, "this call")
    budget.wait(200, "another one")
    (batch,) = harness.drain()
    harness.acknowledge(batch)
    assert reservation in budget.grant()
    assert not append(harness, given), "it is not its turn yet"
    budget.begin_turn(reservation)
    assert not append(harness, given)
    assert (given.at, given.left) == (4, 2)
    assert budget.grant() == []
    assert not budget.fits(1), "the other call is next"


def test_the_loop_gets_a_turn_after_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_values, "BYTES_PER_TURN", 250)
    harness = Harness()
    harness.lead({0: 1})
    given = piece(Call(), [b"x" * 100] * 7)
    turns = 1
    while not append(harness, given):
        assert given.needed == 0
        turns += 1
    assert turns == 3


# --- runs: records without key for the sticky partition, as many as fit into its open batch


def one_by_one(given: list[Any]) -> Harness:
    """What the same records come to that are appended each on its own."""
    harness = Harness()
    harness.lead({0: 1, 1: 1})
    for value in given:
        harness.append(value)
    return harness


def batches(harness: Harness) -> list[tuple[int, list[bytes | None], int]]:
    """What is held: the partition, the values and the bytes of each batch, in the order in which they began."""
    held = sorted(harness.accumulator.incomplete, key=lambda batch: batch.serial)
    return [(batch.partition.index, values(batch), batch.record_bytes) for batch in held]


MIXED: list[list[Any]] = [
    [b"v"] * 500,
    [b"", b"a" * 62, b"b" * 63, b"c" * 64, b"d" * 300, b""] * 30,
    [b"a", None, None, b"b", b"c" * 2000, b"d", b"e" * 900, b"f"] * 3,
    [b"n" * (number * 7 % 300) for number in range(200)],
]


@pytest.mark.parametrize("given", MIXED)
def test_runs_make_the_same_batches_as_records_one_by_one(given: list[Any]) -> None:
    harness = Harness()
    harness.lead({0: 1, 1: 1})
    call = Call()
    whole = piece(call, given)
    assert append(harness, whole)
    assert batches(harness) == batches(one_by_one(given))
    assert harness.held()[0] == whole.accepted == len(given)
    assert sum(run.count for _, run in call.runs) == len(given)
    assert harness.accumulator.serial == len(given)
    stored: dict[int, list[bytes | None]] = {0: [], 1: []}
    for partition, held, _ in batches(harness):
        stored[partition] += held
    for partition, held in stored.items():
        assert [value for value, place in zip(given, whole.places, strict=True) if place == partition] == held


def test_a_run_takes_what_is_not_of_type_bytes_the_long_way() -> None:
    class Bytes(bytes):
        """Not `bytes` itself."""

    harness = Harness()
    harness.lead({0: 1})
    call = Call()
    given = piece(call, [b"a", b"b", memoryview(b"c"), None, b"d", 5, b"e", memoryview(Bytes(b"f"))], first=10)
    assert append(harness, given)
    assert values(opened(harness)) == [b"a", b"b", b"c", None, b"d", b"e", b"f"]
    assert [(index, type(error)) for index, error in call.failures] == [(15, SerializationError)]
    assert list(given.places) == [0, 0, 0, 0, 0, -1, 0, 0]


def test_a_run_has_the_headers_and_the_time_of_the_call() -> None:
    headers = encode_headers([("name", b"value"), ("null", None)])
    harness = Harness()
    harness.lead({0: 1})
    harness.append(b"before", timestamp=700)
    given = BulkValues(Call(), [b"a", b"b"], None, headers, 90_000, -1, 0)
    assert append(harness, given)
    builder = opened(harness).builder
    assert [tuple(record) for record in builder.records()] == [
        (700, None, b"before", NO_HEADERS),
        (90_000, None, b"a", headers),
        (90_000, None, b"b", headers),
    ]
    assert (builder.base_timestamp, builder.max_timestamp) == (700, 90_000)


@pytest.mark.parametrize("keys", [None, [b"k", None, b"k"]])
@pytest.mark.parametrize("size_max", [None, 5000])
def test_each_record_may_have_a_time_of_its_own(keys: list[Any] | None, size_max: int | None) -> None:
    harness = Harness() if size_max is None else Harness(max_request_size=size_max)
    harness.lead({0: 1})
    given = BulkValues(Call(), [b"a", b"b", memoryview(b"c")], keys, NO_HEADERS, 0, -1, 0, [7_000, 9_000, 8_000])
    assert append(harness, given)
    assert [(record[0], record[2]) for record in opened(harness).builder.records()] == [
        (7_000, b"a"),
        (9_000, b"b"),
        (8_000, b"c"),
    ]
    assert list(given.places) == [0, 0, 0]


@pytest.mark.parametrize("max_request_size", [200, 1100, 5000])
def test_no_run_takes_a_record_that_is_too_large(max_request_size: int) -> None:
    given = [b"a", b"b" * 300, b"c" * 1500, b"d", b"e" * 120, b"f" * 139, b"g" * 140] * 2
    harness = Harness(max_request_size=max_request_size)
    harness.lead({0: 1, 1: 1})
    call = Call()
    whole = piece(call, given)
    assert append(harness, whole)
    alone = Harness(max_request_size=max_request_size)
    alone.lead({0: 1, 1: 1})
    refused = []
    for index, value in enumerate(given):
        try:
            alone.append(value)
        except RecordTooLargeError as error:
            refused.append((index, str(error)))
    assert [(index, str(error)) for index, error in call.failures] == refused
    assert batches(harness) == batches(alone)


def test_a_run_ends_where_the_memory_does() -> None:
    harness = Harness(buffer_memory=1000)
    harness.lead({0: 1})
    given = piece(Call(), [b"x" * 20] * 100)
    assert not append(harness, given)
    assert given.needed > 0
    assert harness.held()[1] <= 1000 < harness.held()[1] + given.needed
    before = given.at
    request = harness.accumulator.budget.wait(10, None)
    harness.accumulator.budget.release(500, 10)
    assert not append(harness, given)
    assert given.at == before, "somebody else is in line"
    harness.accumulator.budget.end(request)
    assert not append(harness, given)
    assert given.at > before


def test_runs_of_two_calls_and_single_records_share_a_batch() -> None:
    harness = Harness()
    harness.lead({0: 1})
    first, second = Call(), Call()
    assert append(harness, piece(first, [b"a", b"b"]))
    assert append(harness, piece(first, [b"c"]))
    assert append(harness, piece(second, [b"d", b"e", b"f"]))
    harness.append(b"g", waiter="single")
    assert append(harness, piece(first, [b"h"]))
    assert [entry.count if isinstance(entry, Run) else entry for entry in opened(harness).waiters] == [
        3,
        3,
        "single",
        1,
    ]
    assert values(opened(harness)) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]


@pytest.mark.parametrize("size", range(20))
def test_keys_of_any_size_are_stored_whole(size: int) -> None:
    harness = Harness()
    harness.lead({0: 1})
    keys = [b"abcdefghijklmnopqrst"[:size], None, b"z" * size]
    assert append(harness, piece(Call(), [b"before"]))
    assert append(harness, piece(Call(), [b"1", None, b""], keys))
    stored = [(record.key, record.value) for record in opened(harness).builder.records()]
    assert stored == [(None, b"before"), *zip(keys, [b"1", None, b""], strict=True)]


# --- lines


@pytest.mark.parametrize(
    "given",
    [
        [b"v"] * 500,
        [b"", b"a" * 62, b"b" * 63, b"c" * 64, b"d" * 300, b""] * 30,
        [b"a", b"b", b"c" * 2000, b"d", b"e" * 900, b"f"] * 3,
        [b"n" * (number * 7 % 300) for number in range(200)],
    ],
)
def test_lines_make_the_same_batches_as_a_list_of_them(given: list[bytes]) -> None:
    made = []
    for values_ in (given, lines_of(b"\n".join(given)), lines_of(b"\n".join([b"x", b"", *given, b"y"]))[2:-1]):
        harness = Harness()
        harness.lead({0: 1, 1: 1})
        harness.append(b"before", timestamp=700)
        part = BulkValues(Call(), values_, None, NO_HEADERS, 90_000, -1, 0)
        assert append(harness, part)
        records = [list(batch.builder.records()) for batch in harness.accumulator.incomplete]
        made.append((records, batches(harness), list(part.places), part.accepted))
    assert made[0] == made[1] == made[2]


def test_lines_for_one_partition_and_lines_that_are_too_large() -> None:
    harness = Harness(max_request_size=200)
    harness.lead({0: 1, 1: 1})
    call = Call()
    given = piece(call, lines_of(b"a\n" + b"x" * 300 + b"\n\nb"), partition=1, first=100)
    assert append(harness, given)
    assert [(index, type(error)) for index, error in call.failures] == [(101, RecordTooLargeError)]
    assert values(opened(harness, 1)) == [b"a", b"", b"b"]
    call = Call()
    given = piece(call, lines_of(b"a\n" + b"x" * 300 + b"\nb"))
    assert append(harness, given)
    assert [index for index, _ in call.failures] == [1]


def test_lines_wait_for_room_and_give_the_loop_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(buffer_memory=300)
    harness.lead({0: 1})
    given = piece(Call(), lines_of(b"\n".join([b"x" * 100] * 4)))
    assert not append(harness, given)
    assert (given.at, given.accepted) == (2, 2)
    assert given.needed > 100
    monkeypatch.setattr(bulk_values, "BYTES_PER_TURN", 250)
    harness = Harness()
    harness.lead({0: 1})
    given = piece(Call(), lines_of(b"\n".join([b"x" * 100] * 7)))
    turns = 1
    while not append(harness, given):
        turns += 1
    assert turns == 3


@pytest.mark.parametrize("size", [900, 910, 917])
def test_a_run_behind_a_record_that_nearly_fills_a_batch_stays_within_its_size(size: int) -> None:
    harness = Harness(in_flight_max=100)
    harness.lead({0: 1})
    assert append(harness, piece(Call(), [b"x" * size, *[b""] * 20]))
    batches = list(harness.accumulator.incomplete)
    assert len(batches) == 2
    assert [batch.builder.size for batch in batches if batch.builder.size > 1000] == []
