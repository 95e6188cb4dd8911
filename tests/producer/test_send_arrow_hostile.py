"""send_arrow(): rows that point out of their data fail, nothing but the data is sent, and few bytes don't cost much."""

from __future__ import annotations

import asyncio
from array import array
from typing import Any

import pyarrow as pa
import pytest

from aioprod.arrow.interface import open_source
from aioprod.errors import InvalidRecordError, InvalidTopicError, RecordTooLargeError
from aioprod.messages import ProduceRequest
from aioprod.producer.batching.bulk_columns import BulkColumns
from aioprod.producer.bulk.arrow_schema import ArrowSchema
from aioprod.producer.bulk.call import Bulk
from aioprod.testing import FakeCluster
from tests.support.accumulators import Harness
from tests.support.arrow import HandMade
from tests.support.producers import running

HONEST = (0, 2, 5, 9)
LYING = (0, 60_000, 5, 9)
"""Of the bytes `hellogood`: the first row ends far behind them, the second begins there, the third is `good`."""


def lying(kind: pa.DataType) -> pa.Array:
    wide = kind in (pa.large_binary(), pa.large_string())
    offsets = pa.py_buffer(array("q" if wide else "i", LYING).tobytes())
    return pa.Array.from_buffers(kind, 3, [None, offsets, pa.py_buffer(b"hellogood")])


def lying_dictionary() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), lying(pa.binary()), safe=False)


def lying_headers() -> pa.Array:
    pairs = pa.StructArray.from_arrays([pa.array(["a", "b", "c"]), lying(pa.binary())], ["name", "value"])
    return pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pairs)


async def check(brokers: FakeCluster, data: pa.RecordBatch) -> None:
    """Rows 0 and 1 fail, row 2 is stored."""
    stored = brokers.create_topic("good")
    async with running(brokers) as producer:
        result = await producer.send_arrow(data, topic=None if "topic" in data.schema.names else "good")
    [record] = stored.records()
    assert b"good" in (record.key, record.value, *(value for _, value in record.headers))
    assert [index for index, _ in result.failures] == [0, 1]
    for _, error in result.failures:
        assert type(error) is InvalidRecordError
        assert str(error).startswith("The offsets of an Arrow column descend, or point out of its data.")


async def test_a_stream_of_bytes_with_one_wrong_offset(brokers: FakeCluster) -> None:
    batch = pa.record_batch({"value": [b"he", b"llo", b"good"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body = sink.getvalue().to_pybytes()
    honest = array("i", HONEST).tobytes()
    assert body.count(honest) == 1
    received = pa.ipc.open_stream(body.replace(honest, array("i", LYING).tobytes())).read_next_batch()
    received.validate()  # pyarrow sees nothing wrong
    await check(brokers, received)


ROWS = {
    "large": lambda: {"value": lying(pa.large_string())},
    "dictionary": lambda: {"value": lying_dictionary()},
    "key": lambda: {"value": [b"0", b"1", b"2"], "key": lying(pa.string())},
    "topic": lambda: {"value": [b"0", b"1", b"good"], "topic": lying(pa.string())},
    "header": lambda: {"value": [b"0", b"1", b"2"], "headers": lying_headers()},
}
"""Made in the test: pytest would show an argument, and pyarrow dies of showing these."""


@pytest.mark.parametrize("name", ROWS)
async def test_offsets_of_any_column(brokers: FakeCluster, name: str) -> None:
    await check(brokers, pa.record_batch(ROWS[name]()))


# --- what few bytes can ask for

BILLIONS = 2**31 - 2


@pytest.mark.parametrize(
    "columns",
    [
        lambda: {"value": pa.nulls(BILLIONS), "topic": pa.nulls(BILLIONS)},
        lambda: {"value": pa.Array.from_buffers(pa.binary(0), BILLIONS, [None, pa.py_buffer(b"")])},
    ],
    ids=["nulls", "values of size 0"],
)
async def test_billions_of_rows_that_take_no_bytes(brokers: FakeCluster, columns: Any) -> None:
    brokers.create_topic("t")
    batch = pa.record_batch(columns())
    async with running(brokers) as producer:
        with pytest.raises(
            InvalidRecordError, match=f"has {BILLIONS} rows in columns of nulls, or of values of size 0"
        ):
            await producer.send_arrow(batch, topic=None if "topic" in batch.schema.names else "t")
    assert brokers.seen_of(ProduceRequest) == []


async def test_rows_that_take_no_bytes_are_counted_over_all_arrays(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioprod.producer.bulk.arrow_schema._ROWS_WITHOUT_BYTES_MAX", 5)
    topic = brokers.create_topic("t")
    nulls = pa.record_batch({"value": pa.nulls(3)})
    keyed = pa.record_batch({"value": pa.nulls(3), "key": pa.array(["k"] * 3)})
    async with running(brokers) as producer:
        await producer.send_arrow(pa.Table.from_batches([keyed, keyed]), topic="t")
        with pytest.raises(InvalidRecordError, match="has 6 rows"):
            await producer.send_arrow(pa.Table.from_batches([nulls, nulls]), topic="t")
    assert len(topic.records()) == 6 + 3


async def test_memory_and_turns_are_those_of_a_slice_of_rows(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioprod.producer.bulk.send_arrow._ROWS_AT_ONCE", 3)
    topics = [brokers.create_topic(name, partitions=2) for name in "ab"]
    held: list[int] = []
    place = Bulk.place

    def spy(bulk: Bulk, partitions: array[int], numbers: array[int] | None = None) -> None:
        held.append(len(partitions))
        asyncio.get_running_loop().call_soon(held.append, -1)
        place(bulk, partitions, numbers)

    monkeypatch.setattr(Bulk, "place", spy)
    batch = pa.record_batch(
        {
            "value": [b"%d" % row for row in range(8)],
            "topic": ["a", "b", "a", None, "b", "a", "b", "b"],
            "partition": [0, 0, 1, 0, 7, 0, 1, 0],
        }
    )
    async with running(brokers) as producer:
        result = await producer.send_arrow(batch)
    assert held[:5] == [3, -1, 3, -1, 2]
    assert [(index, type(error)) for index, error in result.failures] == [
        (3, InvalidTopicError),
        (4, InvalidRecordError),
    ]
    assert [[record.value for record in one.records()] for one in topics] == [[b"0", b"5", b"2"], [b"1", b"7", b"6"]]


async def test_too_little_memory_is_an_error_of_the_call(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.producer.bulk.send_arrow._ROWS_AT_ONCE", 1)
    topic = brokers.create_topic("t")
    place = Bulk.place

    def first_only(bulk: Bulk, partitions: array[int], numbers: array[int] | None = None) -> None:
        if bulk.partitions:
            raise MemoryError
        place(bulk, partitions, numbers)

    monkeypatch.setattr(Bulk, "place", first_only)
    async with running(brokers) as producer:
        with pytest.raises(InvalidRecordError, match=r"not enough memory .* after the first 1\.") as caught:
            await producer.send_arrow(pa.record_batch({"value": [b"0", b"1", b"2"]}), topic="t")
        assert caught.value.may_be_stored
    assert [record.value for record in topic.records()] == [b"0", b"1"]


async def test_a_huge_name_of_a_topic_that_rows_share(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("good")
    names = pa.array(["x" * 2000, "good", "x" * 2000]).dictionary_encode()
    async with running(brokers) as producer:
        result = await producer.send_arrow(pa.record_batch({"value": [b"0", b"1", b"2"], "topic": names}))
    assert [record.value for record in topic.records()] == [b"1"]
    assert [index for index, _ in result.failures] == [0, 2]
    for _, error in result.failures:
        assert str(error).startswith("The topic of a record has a name of 2000 bytes: 249 are allowed.")
        assert error.__traceback__ is None


def shared_headers(rows: int, count: int, name: str | None) -> pa.RecordBatch:
    """Rows that all have the same `count` headers, the first one of which has a `name`; the rows between them fail."""
    names = pa.array([name, *["h"] * (count - 1)])
    pairs = pa.StructArray.from_arrays([names, pa.array([b"v"] * count)], ["name", "value"])
    offsets = pa.py_buffer(array("i", [0, count] * rows).tobytes())
    lists = pa.Array.from_buffers(pa.list_(pairs.type), 2 * rows - 1, [None, offsets], children=[pairs])
    return pa.record_batch({"value": pa.array([b""] * len(lists)), "headers": lists})


async def test_more_headers_than_can_be_sent_are_not_even_looked_at(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, max_request_size=1000) as producer:
        result = await producer.send_arrow(shared_headers(2, 500, None), topic="t")
    assert [type(error) for _, error in result.failures] == [
        RecordTooLargeError,
        InvalidRecordError,
        RecordTooLargeError,
    ]


async def test_the_loop_turns_between_rows_whose_many_headers_are_too_large() -> None:
    harness = Harness(max_request_size=50_000)
    harness.lead({0: 1}, name="t")
    source = open_source(shared_headers(10, 20_000, "h"))
    chunk = source.next()
    assert chunk is not None
    columns = ArrowSchema(source.field, "t").columns(chunk.array)
    bulk = Bulk("t", asyncio.get_running_loop().create_future())
    rows = BulkColumns(bulk, columns, 0, columns.length, 0, {})
    turns = 1
    while not rows.append(harness.accumulator, harness.accumulator.topic("t", 0.0), 0.0):
        assert rows.needed == 0
        turns += 1
    assert turns > 1
    assert len(bulk.failures) == columns.length


# --- what a library that exports lies about


def test_a_schema_that_nests_without_end() -> None:
    kind: pa.DataType = pa.string()
    for _ in range(64):
        kind = pa.list_(kind)
    with pytest.raises(InvalidRecordError, match="nests types deeper than 64 levels"):
        open_source(pa.record_batch({"value": pa.nulls(0, kind)}))


def test_a_schema_without_a_type() -> None:
    made = HandMade(pa.record_batch({"value": [b"0"]}))
    column = made.schema.children[0].contents
    kept, column.format = column.format, None
    with pytest.raises(InvalidRecordError, match="a field without a type"):
        open_source(made.as_array())
    column.format = kept


@pytest.mark.parametrize("count", [2, 100_004, 2**40])
def test_a_column_of_views_into_more_buffers_than_there_can_be(count: int) -> None:
    made = HandMade(pa.record_batch({"value": pa.array([b"0"], pa.binary_view())}))
    array_ = made.arrays[0]
    array_.children[0].contents.n_buffers = count
    with pytest.raises(InvalidRecordError, match="contradicts itself"):
        ArrowSchema(open_source(made.as_array()).field, "t").columns(array_)
