"""Arrow data: any columns, slices and nulls are encoded to the same bytes, and refused with the same words."""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.arrow import BYTES_TYPES, TEXT_TYPES, column
from tests.support.builds import Build, check_same

PAIR = pa.struct({"name": pa.string(), "value": pa.binary()})
PAIRS = st.fixed_dictionaries({"name": st.none() | st.text(max_size=3), "value": st.none() | st.binary(max_size=9)})
BYTES = st.none() | st.binary(max_size=40) | st.integers(0, 1500).map(lambda size: b"v" * size)
COLUMNS: dict[str, tuple[st.SearchStrategy[Any], list[pa.DataType]]] = {
    "value": (BYTES, list(BYTES_TYPES.values())),
    "key": (st.none() | st.binary(max_size=20), list(BYTES_TYPES.values())),
    "topic": (st.sampled_from([None, "t", "t", "u", "no name!", "unknown", "refused"]), list(TEXT_TYPES.values())),
    "partition": (st.none() | st.integers(-1, 3), [pa.int8(), pa.int16(), pa.int32(), pa.int64()]),
    "timestamp": (st.none() | st.integers(-1, 2**62), [pa.int64(), *map(pa.timestamp, ("s", "ms", "us", "ns"))]),
    "headers": (st.none() | st.lists(st.none() | PAIRS, max_size=3), [pa.list_(PAIR), pa.large_list(PAIR)]),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """A slice of a batch with some of the columns."""
    names = ["value", *sorted(draw(st.sets(st.sampled_from(sorted(COLUMNS.keys() - {"value"})))))]
    length = draw(st.integers(0, 25))
    columns = {}
    for name in names:
        values, types = COLUMNS[name]
        rows = draw(st.lists(values, min_size=length, max_size=length))
        kind = draw(st.sampled_from(types))
        if name == "timestamp":
            columns[name] = pa.array(rows, pa.int64()).cast(kind)
        else:
            columns[name] = column(rows, kind)
    return pa.record_batch(columns)[draw(st.integers(0, 5)) :]


class Call:
    """A bulk call of one build, as the accumulator sees it."""

    def __init__(self, build: Build) -> None:
        self._run = build["aioprod.producer.batching.batch"].Run
        self.topics: list[str] = []
        self.said: list[object] = []

    def begin_run(self, place: tuple[str, int]) -> Any:
        self.said.append(tuple(place))
        return self._run(self, 0, 0)

    def number_of(self, topic: str) -> int:
        self.topics.append(topic)
        return len(self.topics)

    def invalid(self, index: int, error: Exception) -> None:
        self.said.append((index, error))


class First:
    """A partitioner of one's own."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: object) -> int:
        return (len(key or b"") + len(value or b"")) % 4


@settings(max_examples=200)
@given(
    batch=batches(),
    custom=st.booleans(),
    batch_size=st.sampled_from([100, 1000]),
    room=st.integers(1, 20_000),
    skipped=st.integers(0, 3),
)
def test_rows(batch: pa.RecordBatch, custom: bool, batch_size: int, room: int, skipped: int) -> None:
    topic = None if "topic" in batch.schema.names else "t"

    def call(build: Build) -> object:
        harness = build["tests.support.accumulators"].Harness(
            batch_size=batch_size,
            buffer_memory=room,
            max_request_size=1300,
            partitioner=First() if custom else None,
        )
        for name in ("t", "u"):
            harness.lead(dict.fromkeys(range(3), 1), name=name)
        accumulator = harness.accumulator
        errors = build["aioprod.errors"]
        source = build["aioprod.arrow.interface"].open_source(batch)
        schema = build["aioprod.producer.bulk.arrow_schema"].ArrowSchema(source.field, topic)
        chunk = source.next()
        bulk = Call(build)
        refusals = {"refused": errors.UnknownTopicError("refused")}
        columns = schema.columns(chunk.array)
        start = min(skipped, columns.length)
        rows = build["aioprod.producer.batching.bulk_columns"].BulkColumns(
            bulk, columns, start, columns.length, 7, refusals
        )
        rows.timestamp = 1000
        log: list[object] = []
        for _ in range(200):
            whole = rows.append(accumulator, None if topic is None else accumulator.topic(topic, 0.0), 0.0)
            log.append((whole, rows.at, rows.accepted, rows.needed, rows.unknown))
            if whole:
                break
            if rows.unknown is not None:
                refusals[rows.unknown] = errors.MetadataTimeoutError("unknown")
            accumulator.budget.open_to += rows.needed
        held = [
            [(p.topic.name, p.index, list(b.builder.records())) for b in (*p.queued, p.open) if b is not None]
            for name in ("t", "u")
            for p in accumulator.topics[name].partitions
        ]
        return log, bulk.said, bulk.topics, list(rows.places), list(rows.numbers), held, harness.held()

    check_same(call)


NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8)


@given(numbers=NUMBERS, width=st.sampled_from([1, 2, 4, 8]), unsigned=st.booleans())
def test_numbers(numbers: list[int], width: int, unsigned: bool) -> None:
    memory = array("q", numbers)
    count = 8 // width * len(numbers)

    def call(build: Build) -> object:
        module = build["aioprod.arrow.columns"]
        view = module.NumberColumn(module.Span(0, count, 0), memory.buffer_info()[0], width, unsigned)
        return [(view.find(row), view.value) for row in range(count)]

    check_same(call)
