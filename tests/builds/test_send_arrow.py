"""Arrow data of any layout: what is stored, and what is said of it, is the same on both builds."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.arrow import BYTES_TYPES, TEXT_TYPES, column
from tests.support.builds import Build, check_same

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "value": st.none() | st.binary(max_size=30) | st.integers(0, 800).map(lambda size: b"v" * size),
            "key": st.binary(max_size=20),
            "topic": st.sampled_from(["three", "three", "three", "no/name"]),
            "partition": st.none() | st.integers(0, 2) | st.sampled_from([-1, 9]),
            "timestamp": st.none() | st.integers(-1, 1 << 40),
            "headers": st.none() | st.lists(st.tuples(st.text("ab", max_size=3), st.none() | st.binary(max_size=5))),
        }
    ),
    max_size=12,
)
BYTES = st.sampled_from(sorted(BYTES_TYPES))
TEXT = st.sampled_from(sorted(TEXT_TYPES))
INTEGERS = st.sampled_from([pa.int16(), pa.int32(), pa.int64()])
TIMES = st.sampled_from([pa.int64(), pa.timestamp("ms"), pa.timestamp("us", "UTC")])
LEFT_OUT = st.sets(st.sampled_from(["partition", "headers"]))


def table(rows: list[dict[str, Any]], kinds: tuple[Any, ...], left_out: set[str], cut: int) -> pa.Table:
    """The rows after a few that are cut off, in two chunks."""
    value, key, topic, integer, time = kinds
    types = {
        "value": BYTES_TYPES[value],
        "key": BYTES_TYPES[key],
        "topic": TEXT_TYPES[topic],
        "partition": integer,
        "timestamp": time,
        "headers": pa.map_(pa.string(), pa.binary()),
    }
    names = [name for name in types if name not in left_out]
    # Where the time is that of sending it can't be compared.
    given = [row | {"timestamp": row["timestamp"] or 5} for row in rows]
    batch = pa.record_batch({name: column([row[name] for row in given], types[name]) for name in names})
    first = batch.slice(0, min(cut, len(rows)))
    return pa.Table.from_batches([first, batch.slice(len(first))])


async def conversation(build: Build, options: dict[str, Any], data: pa.Table, name: str | None = None) -> object:
    async with build["aioprod.testing.fake"].FakeCluster(1) as brokers:
        topics = [brokers.create_topic("three", partitions=3), brokers.create_topic("one")]
        async with build["tests.support.producers"].new_producer(brokers.bootstrap, **options) as producer:
            result = await producer.send_arrow(data, topic=name)
        partitions = [partition for topic in topics for partition in topic.partitions]
        stored = [[list(record) for record in partition.records()] for partition in partitions]
        offsets = [(tuple(tp), [*chain(*ranges)]) for tp, ranges in sorted(result.offsets.items())]
        return stored, offsets, [(index, type(error).__name__, str(error)) for index, error in result.failures]


OPTIONS = st.fixed_dictionaries(
    {"batch_size": st.sampled_from([300, 16_384]), "max_request_size": st.sampled_from([700, 10_000])}
)


@given(OPTIONS, ROWS, st.tuples(BYTES, BYTES, TEXT, INTEGERS, TIMES), LEFT_OUT, st.integers(0, 12))
@settings(max_examples=25)
def test_any_rows(
    options: dict[str, Any], rows: list[dict[str, Any]], kinds: tuple[Any, ...], left_out: set[str], cut: int
) -> None:
    data = table(rows, kinds, left_out, cut)
    check_same(lambda build: asyncio.run(conversation(build, options, data)))


PLAIN_ROWS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=30) | st.integers(0, 800).map(lambda size: b"v" * size),
        st.integers(0, 200) | st.sampled_from([-1, 1 << 40]),
    ),
    max_size=60,
)


@given(OPTIONS, PLAIN_ROWS, BYTES, TIMES, st.integers(0, 60))
@settings(max_examples=40)
def test_runs_of_rows_without_key(
    options: dict[str, Any], rows: list[tuple[bytes | None, int]], value: str, time: pa.DataType, cut: int
) -> None:
    """A topic with one partition: where the sticky choice would decide, it goes by the time."""
    columns = {"value": column([row[0] for row in rows], BYTES_TYPES[value])}
    columns["timestamp"] = column([row[1] for row in rows], time)
    data = cut_in_two(columns, cut)
    check_same(lambda build: asyncio.run(conversation(build, options, data, "one")))


def cut_in_two(columns: dict[str, pa.Array], cut: int) -> pa.Table:
    batch = pa.record_batch(columns)
    first = batch.slice(0, min(cut, len(batch)))
    return pa.Table.from_batches([first, batch.slice(len(first))])


@given(OPTIONS, PLAIN_ROWS, st.lists(st.binary(max_size=4), min_size=60, max_size=60), BYTES, BYTES, TIMES)
@settings(max_examples=40)
def test_runs_of_rows_with_keys(
    options: dict[str, Any],
    rows: list[tuple[bytes | None, int]],
    keys: list[bytes],
    key: str,
    value: str,
    time: pa.DataType,
) -> None:
    columns = {"value": column([row[0] for row in rows], BYTES_TYPES[value])}
    columns["key"] = column(keys[: len(rows)], BYTES_TYPES[key])
    # A row that is rejected in the middle ends a run.
    columns["timestamp"] = column([row[1] for row in rows], time)
    data = cut_in_two(columns, 20)
    check_same(lambda build: asyncio.run(conversation(build, options, data, "three")))
