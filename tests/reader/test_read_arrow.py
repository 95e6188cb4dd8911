"""Reading into Arrow: the rows are the records of `read`, and can be sent again as they are."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod import Producer
from aioprod.errors import ConfigError, CorruptRecordError, UsageError
from aioprod.messages import FetchRequest, FetchResponse
from aioprod.messages.fetch import AbortedTransaction
from aioprod.reader import Reader, arrow_rows
from aioprod.records import PREFIX, Compression, ControlType, RecordBatchBuilder, encode_headers
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord
from tests.records.test_parser import make_batch, plain_record, varints
from tests.support.arrow_records import records_of
from tests.support.sessions import new_reader
from tests.support.stored_batches import fill, marker, store, stored_batch

TOPIC = "orders"
PAIRS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.none() | st.binary()))
ROWS = st.lists(
    st.tuples(
        st.integers(0, 1 << 60),
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=300),
        st.just([]) | PAIRS,
    ),
    min_size=1,
    max_size=12,
)
LOGS = st.lists(st.lists(st.tuples(ROWS, st.sampled_from(list(Compression))), max_size=4), min_size=1, max_size=3)


async def collect(batches: AsyncIterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    async with asyncio.timeout(30):
        return [batch async for batch in batches]


def sorted_(records: list[ConsumedRecord]) -> list[ConsumedRecord]:
    return sorted(records, key=lambda one: one.partition)


def built(rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], codec: int) -> bytes:
    builder = RecordBatchBuilder(bytearray(PREFIX + 400_000))
    for time, key, value, headers in rows:
        assert builder.append(time, key, value, encode_headers(headers))
    builder.seal(codec=Compression(codec), level=None)
    return bytes(builder.wire(0, flexible=False)[8:])


@settings(max_examples=25, deadline=None)
@given(logs=LOGS, batch_rows=st.integers(1, 9) | st.just(1000), first=st.integers(0, 8))
def test_the_same_records_as_read(
    logs: list[list[tuple[list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], int]]],
    batch_rows: int,
    first: int,
) -> None:
    async def run() -> None:
        async with FakeCluster() as brokers, new_reader(brokers) as reader:
            for partition, batches in zip(brokers.create_topic(TOPIC, len(logs)).partitions, logs, strict=True):
                for rows, codec in batches:
                    data = bytearray(built(rows, codec))
                    data[:8] = partition.next_offset.to_bytes(8)
                    partition.store(bytes(data))
            start = {0: min(first, brokers.topics[TOPIC].partitions[0].next_offset)}
            wanted = [record async for record in reader.read(TOPIC, start=start)]
            found = await collect(reader.read_arrow(TOPIC, start=start, batch_rows=batch_rows))
            assert records_of(*found) == wanted
            assert all(batch.num_rows == batch_rows for batch in found[:-1])
            assert all(0 < batch.num_rows <= batch_rows for batch in found)

    asyncio.run(run())


async def test_from_here_to_there() -> None:
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        for partition in brokers.create_topic(TOPIC, 2).partitions:
            fill(partition, 20, batch_records=10)
        found = records_of(*await collect(reader.read_arrow(TOPIC, start={0: 17}, end={1: 12})))
        assert [(one.partition, one.offset) for one in sorted_(found)] == [
            *((0, offset) for offset in (17, 18, 19)),
            *((1, offset) for offset in range(12)),
        ]
        assert [one.value for one in sorted_(found)[:3]] == [b"17", b"18", b"19"]
        assert not await collect(reader.read_arrow(TOPIC, start={0: 20, 1: 20}))


async def test_aborted_records_and_markers_are_left_out() -> None:
    def aborts_the_first(answer: FetchResponse) -> FetchResponse:
        (topic,) = answer.responses
        aborted = (AbortedTransaction(producer_id=7, first_offset=0),)
        rows = tuple(replace(row, aborted_transactions=aborted) for row in topic.partitions)
        return replace(answer, responses=(replace(topic, partitions=rows),))

    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        (log,) = brokers.create_topic(TOPIC, 1).partitions
        store(
            log,
            stored_batch([b"a"], producer_id=7, transactional=True),
            marker(ControlType.ABORT, 7, base_offset=1),
            stored_batch([b"b"], base_offset=2, producer_id=7, transactional=True),
            marker(ControlType.COMMIT, 7, base_offset=3),
        )
        brokers.fault(FetchRequest, times=None, edit=aborts_the_first)
        found = records_of(*await collect(reader.read_arrow(TOPIC)))
        assert [(one.offset, one.value) for one in found] == [(2, b"b")]


async def test_large_batches_are_decompressed_in_a_thread() -> None:
    values = [b"%d" % number * 40_000 for number in range(10)]
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        (log,) = brokers.create_topic(TOPIC, 1).partitions
        store(log, *(stored_batch(values, base_offset=base, codec=Compression.LZ4) for base in (0, 10)))
        found = records_of(*await collect(reader.read_arrow(TOPIC)))
        assert [one.value for one in found] == values * 2


async def test_a_batch_ends_after_some_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_rows, "SIZE_MAX", 1000)
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        (log,) = brokers.create_topic(TOPIC, 1).partitions
        store(log, stored_batch([b"v" * 400] * 7))
        assert [batch.num_rows for batch in await collect(reader.read_arrow(TOPIC))] == [3, 3, 1]


async def test_records_before_a_corrupt_one_are_returned() -> None:
    good = plain_record(0) + plain_record(1)
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        (log,) = brokers.create_topic(TOPIC, 1).partitions
        store(log, stored_batch([b"first"]))
        data = bytearray(make_batch(good + varints(90) + bytes(40), 3))
        data[:8] = (1).to_bytes(8)
        log.store(bytes(data))
        batches = reader.read_arrow(TOPIC)
        found = records_of(await anext(batches))
        with pytest.raises(CorruptRecordError, match="Partition 0 of topic 'orders' can't be read"):
            await anext(batches)
        assert [one.offset for one in found] == [0, 1, 2]


async def test_what_was_read_can_be_sent() -> None:
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        brokers.create_topic(TOPIC, 2)
        async with Producer(brokers.bootstrap) as producer:
            for number in range(6):
                await producer.send(
                    TOPIC,
                    None if number == 3 else b"%d" % number,
                    key=None if number % 2 else b"k",
                    partition=number % 2,
                    headers=[("h", None), ("", b"x")] if number > 3 else (),
                    timestamp=1000 + number,
                )
            (batch,) = await collect(reader.read_arrow(TOPIC))
            (await producer.send_arrow(batch)).raise_for_failures()
        first = sorted_(records_of(batch))
        again = sorted_([record async for record in reader.read(TOPIC, start={0: 3, 1: 3})])
        assert [(one.partition, one.offset - 3, *parts(one)) for one in again] == [
            (one.partition, one.offset, *parts(one)) for one in first
        ]


def parts(record: ConsumedRecord) -> tuple[object, ...]:
    return record.key, record.value, tuple(record.headers), record.timestamp


@pytest.mark.parametrize("rows", [0, True, 1.5, 1 << 25])
async def test_a_number_of_rows_that_makes_no_sense(rows: int) -> None:
    with pytest.raises(ConfigError, match="batch_rows is "):
        Reader("h:1").read_arrow(TOPIC, batch_rows=rows)


async def test_deserializers_do_not_go_with_arrow() -> None:
    with pytest.raises(UsageError, match="deserializers were given"):
        Reader("h:1", value_deserializer="json").read_arrow(TOPIC)


async def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("aioprod.reader.arrow_columns", raising=False)
    monkeypatch.setitem(sys.modules, "aioprod.reader.arrow_columns", None)
    with pytest.raises(UsageError, match=r"pyarrow is not installed. Hint: Install it: pip install 'aioprod\[arrow\]'"):
        Reader("h:1").read_arrow(TOPIC)
