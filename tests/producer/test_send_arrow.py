"""send_arrow(): the rows of Arrow data of any shape end up as `send()` would have sent them."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod import Producer, ProducerRecord, TopicPartition
from aioprod.errors import (
    BufferFullError,
    ErrorCode,
    InvalidRecordError,
    InvalidTopicError,
    ProducerClosedError,
    RecordTooLargeError,
    RejectedError,
    SerializationError,
    UnknownTopicError,
)
from aioprod.messages import ProduceRequest
from aioprod.routing.hashes import murmur2_partition
from aioprod.testing import FakeCluster
from aioprod.testing.fake import FakeTopic
from tests.support.arrow import BYTES_TYPES, TEXT_TYPES, HandMade, OnlyArray, OnlyStream, column
from tests.support.producers import ErrorLog, Spy, running, turns, until
from tests.support.simulated import in_simulated_time

SMALL: dict[str, Any] = {"buffer_memory": 4096, "batch_size": 1024, "max_request_size": 4096}
HEADERS = pa.map_(pa.string(), pa.binary())


def rows(**columns: Any) -> pa.RecordBatch:
    """A record batch; what is not an Arrow array becomes one."""
    return pa.record_batch({
        name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()
    })  # fmt: skip


def values(topic: FakeTopic) -> list[bytes | None]:
    return [record.value for record in topic.records()]


def faults(failures: tuple[tuple[int, Exception], ...]) -> list[tuple[int, type[Exception]]]:
    return [(index, type(error)) for index, error in failures]


# --- what goes in


@pytest.mark.parametrize(
    "wrap",
    [
        lambda batch: batch,
        OnlyArray,
        OnlyStream,
        lambda batch: pa.table(batch),
        lambda batch: pa.Table.from_batches([batch.slice(0, 1), batch.slice(1, 0), batch.slice(1)]),
        lambda batch: pa.RecordBatchReader.from_batches(batch.schema, [batch]),
        lambda batch: batch.to_struct_array(),
        lambda batch: HandMade(batch).as_array(),
        lambda batch: HandMade(batch.slice(0, 2), batch.slice(2)).as_stream(),
    ],
    ids=["batch", "array", "stream", "table", "chunks", "reader", "struct", "capsule", "capsules"],
)
async def test_any_object_with_arrow_data_will_do(brokers: FakeCluster, wrap: Any) -> None:
    topic = brokers.create_topic("t", partitions=2)
    async with running(brokers) as producer:
        data = wrap(rows(value=[b"a", None, b"c"], key=["x", None, "y"], partition=[1, 1, 1]))
        result = await producer.send_arrow(data, topic="t")
    assert (result.count, result.offsets, result.failures) == (3, {TopicPartition("t", 1): (range(3),)}, ())
    assert [(record.key, record.value) for record in topic.records()] == [(b"x", b"a"), (None, None), (b"y", b"c")]


@pytest.mark.parametrize(
    "data", [rows(value=pa.array([], pa.binary())), pa.table({"value": pa.array([], pa.string())})]
)
async def test_nothing_to_send(brokers: FakeCluster, data: Any) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        result = await producer.send_arrow(data, topic="t")
    assert (result.count, result.offsets, result.failures) == (0, {}, ())


async def test_a_column_of_nulls_is_as_good_as_none_and_as_values_it_makes_tombstones(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    none = pa.nulls(2)
    async with running(brokers) as producer:
        await producer.send_arrow(rows(value=none, key=none, partition=none, headers=none, timestamp=none), topic="t")
    assert [(record.key, record.value, record.headers) for record in topic.records()] == [(None, None, ())] * 2
    assert all(record.timestamp > 1_600_000_000_000 for record in topic.records())


class KeyLengths:
    """A partitioner of one's own, which sees what every partitioner sees."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: object) -> int:
        assert key is None or type(key) is bytes
        assert value is None or type(value) is bytes
        if key == b"?":
            raise ValueError("no idea")
        return len(key or b"") % 3


async def test_a_partitioner_of_ones_own(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=3)
    keys = [None, b"a", b"bb", b"?", b"ccc", b"dddd"]
    async with running(brokers, partitioner=KeyLengths()) as producer:
        result = await producer.send_arrow(rows(value=[b"v"] * 6, key=keys), topic="t")
    assert [[record.key for record in partition.records()] for partition in topic.partitions] == [
        [None, b"ccc"],
        [b"a", b"dddd"],
        [b"bb"],
    ]
    assert faults(result.failures) == [(3, InvalidRecordError)]


async def test_serializers_are_not_called(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")

    def never(_: object) -> bytes:
        raise AssertionError("what lies in Arrow columns is serialized")

    async with running(brokers, key_serializer=never, value_serializer=never) as producer:
        await producer.send_arrow(rows(value=["a"], key=["k"]), topic="t")
    assert values(topic) == [b"a"]


# --- compared with send()


def expected_of(row: dict[str, Any]) -> tuple[Any, ...]:
    headers = row.get("headers")
    return row.get("key"), row["value"], tuple(headers or ()), row.get("timestamp")


@st.composite
def records(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records as `send()` takes them, all with the same fields."""
    fields = {
        "value": st.none() | st.binary(max_size=30),
        "key": st.none() | st.binary(max_size=30),
        "partition": st.none() | st.integers(0, 2),
        "timestamp": st.integers(0, 2**53),
        "headers": st.none() | st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=20)), max_size=3),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(fields)))) | {"value", "timestamp"}
    if "partition" in chosen:
        # Without a key, send() and send_arrow() choose by chance.
        fields["partition"] = st.integers(0, 2)
    else:
        fields["key"] = st.binary(max_size=30)
        chosen.add("key")
    return draw(st.lists(st.fixed_dictionaries({name: fields[name] for name in sorted(chosen)}), max_size=40))


PAIR = pa.struct({"name": pa.string(), "value": pa.binary()})


@settings(max_examples=60, deadline=None)
@given(
    sent=records(),
    kind=st.sampled_from(sorted(BYTES_TYPES)),
    partition=st.sampled_from([pa.int8(), pa.int32(), pa.uint16(), pa.int64()]),
    headers=st.sampled_from([HEADERS, pa.list_(PAIR), pa.large_list(PAIR)]),
    cuts=st.lists(st.integers(0, 40), max_size=3),
    bounds=st.tuples(st.integers(0, 10), st.integers(0, 40)),
    batch_size=st.sampled_from([100, 1000, 16384]),
)
def test_the_same_rows_as_send_would_send(
    sent: list[dict[str, Any]],
    kind: str,
    partition: pa.DataType,
    headers: pa.DataType,
    cuts: list[int],
    bounds: tuple[int, int],
    batch_size: int,
) -> None:
    types = {
        "value": BYTES_TYPES[kind],
        "key": BYTES_TYPES[kind],
        "partition": partition,
        "timestamp": pa.timestamp("ms"),
        "headers": headers,
    }
    names = list(sent[0]) if sent else ["value"]
    columns = {}
    for name in names:
        given_column: list[Any] = [row[name] for row in sent]
        if name == "headers" and headers is not HEADERS:
            given_column = [
                row and [dict(zip(("name", "value"), pair, strict=True)) for pair in row] for row in given_column
            ]
        columns[name] = column(given_column, types[name])
    batch = pa.record_batch(columns)
    edges = [0, *sorted(cuts), max(40, len(sent))]
    pieces = [batch.slice(start, stop - start) for start, stop in pairwise(edges)]
    table = pa.Table.from_batches(pieces, batch.schema)[slice(*bounds)]
    sent = sent[slice(*bounds)]

    async def both() -> None:
        async with FakeCluster(1) as brokers:
            ours, theirs = brokers.create_topic("arrow", partitions=3), brokers.create_topic("send", partitions=3)
            async with running(brokers, batch_size=batch_size) as producer:
                result = await producer.send_arrow(table, topic="arrow")
                futures = [producer.submit(ProducerRecord("send", **row)) for row in sent]
                await producer.flush()
                assert all(future.exception() is None for future in futures)
            assert result.count == len(sent)
            assert result.failures == ()
            stored = [partition.records() for partition in ours.partitions]
            assert stored == [partition.records() for partition in theirs.partitions]
            spans = {place.partition: ranges for place, ranges in result.offsets.items()}
            assert spans == {index: (range(len(found)),) for index, found in enumerate(stored) if found}

    asyncio.run(both())


@pytest.mark.parametrize("kind", TEXT_TYPES)
async def test_text_goes_as_utf_8_and_keys_go_where_java_sends_them(brokers: FakeCluster, kind: str) -> None:
    topic = brokers.create_topic("t", partitions=5)
    words = ["", "ä", "kafka", "ein längeres Wort", "giberish123456789"] * 20
    async with running(brokers) as producer:
        await producer.send_arrow(
            rows(value=column(words, TEXT_TYPES[kind]), key=column(words, TEXT_TYPES[kind])), topic="t"
        )
    for index, partition in enumerate(topic.partitions):
        expected = [word.encode() for word in words if murmur2_partition(word.encode(), 5) == index]
        assert [record.value for record in partition.records()] == expected


async def test_rows_without_key_stay_together_in_batches(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=4)
    async with running(brokers, batch_size=1000) as producer:
        result = await producer.send_arrow(rows(value=[b"x" * 20] * 500, key=pa.nulls(500, pa.string())), topic="t")
    assert sum(len(span) for spans in result.offsets.values() for span in spans) == 500
    requests = brokers.seen_of(ProduceRequest)
    assert sum(len(topic.partition_data) for request in requests for topic in request.topic_data) < 40


async def test_times_are_utc_and_cut_to_milliseconds(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    moment = datetime.datetime(2024, 7, 1, 12, 0, 0, 999_999)
    async with running(brokers) as producer:
        for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "America/Lima")):
            aware = moment if kind.tz is None else moment.replace(tzinfo=datetime.UTC)
            await producer.send_arrow(rows(value=["x"], timestamp=pa.array([aware], kind)), topic="t")
    expected = 1_719_835_200_999
    assert [record.timestamp for record in topic.records()] == [expected] * 3


# --- topics of their own


@pytest.mark.parametrize("kind", TEXT_TYPES)
async def test_a_topic_for_each_row(brokers: FakeCluster, kind: str) -> None:
    names = ["a", "b", "long-name-of-a-topic", "a", "b"] * 30
    topics = {name: brokers.create_topic(name) for name in set(names)}
    batch = rows(value=[b"%d" % n for n in range(150)], topic=column(names, TEXT_TYPES[kind]))
    async with running(brokers) as producer:
        result = await producer.send_arrow(pa.Table.from_batches([batch.slice(0, 70), batch.slice(70)]))
    assert result.count == 150
    for name, topic in topics.items():
        expected = [b"%d" % n for n in range(150) if names[n] == name]
        assert values(topic) == expected
        assert result.offsets[TopicPartition(name, 0)] == (range(len(expected)),)


async def test_more_topics_than_there_are_places_for(brokers: FakeCluster) -> None:
    topics = [brokers.create_topic(f"topic-{n}") for n in range(300)]
    names = [f"topic-{n % 300}" for n in range(900)]
    async with running(brokers) as producer:
        result = await producer.send_arrow(rows(value=[b"%d" % n for n in range(900)], topic=names))
    assert (len(result.offsets), result.failures) == (300, ())
    assert [values(topic) for topic in topics] == [[b"%d" % (n + 300 * m) for m in range(3)] for n in range(300)]


async def test_a_topic_that_no_record_can_go_to_fails_its_own_rows_only(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioprod.cluster.topic_errors.UNKNOWN_S", 0.0)
    brokers.state.auto_create = False
    topic = brokers.create_topic("good")
    names = ["good", "missing", None, "no such name!", "good", "missing"]
    async with running(brokers) as producer:
        result = await producer.send_arrow(rows(value=["0", "1", "2", "3", "4", "5"], topic=names))
    assert values(topic) == [b"0", b"4"]
    assert faults(result.failures) == [
        (1, UnknownTopicError),
        (2, InvalidTopicError),
        (3, InvalidTopicError),
        (5, UnknownTopicError),
    ]
    assert result.failures[0][1] is not result.failures[3][1]


async def test_failed_rows_of_several_topics_are_named(brokers: FakeCluster) -> None:
    brokers.create_topic("a", partitions=2)
    brokers.create_topic("b", partitions=2)

    brokers.fault(
        ProduceRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=TopicPartition("b", 1), times=None
    )
    names = ["a", "b", None, "b", "a", "b"] * 4
    places = [0, 0, 0, 1, 1, 1] * 4
    async with running(brokers, batch_size=100) as producer:
        result = await producer.send_arrow(rows(value=["v"] * 24, topic=names, partition=places))
    wrong = {(None, 0): InvalidTopicError, ("b", 1): RejectedError}
    expected = [(n, wrong[place]) for n, place in enumerate(zip(names, places, strict=True)) if place in wrong]
    assert faults(result.failures) == expected
    assert all(error.topic == "b" for _, error in result.failures if isinstance(error, RejectedError))
    assert {place: len(spans[0]) for place, spans in result.offsets.items()} == {("a", 0): 4, ("a", 1): 4, ("b", 0): 4}


# --- what is wrong with the call


@pytest.mark.parametrize(
    ("data", "topic", "said"),
    [
        (rows(key=["a"]), "t", r"no column value"),
        (rows(value=["a"], valeu=["b"]), "t", r"column 'valeu', .* value, key, topic, partition, headers, timestamp\."),
        (rows(value=[1]), "t", r"'value' of the Arrow data is of type int64: it can be binary or string"),
        (rows(value=["a"], key=[1.5]), "t", r"'key' .* type double|'key' .* type float64"),
        (rows(value=["a"], partition=["1"]), "t", r"'partition' .* type string: it can be an integer type"),
        (rows(value=["a"], timestamp=["1"]), "t", r"'timestamp' .* Cast it to timestamp"),
        (rows(value=["a"], timestamp=pa.array([1], pa.int32())), "t", r"'timestamp' .* type int32"),
        (rows(value=["a"], headers=["1"]), "t", r"'headers' .* list<struct<name: string, value: binary>> or map"),
        (rows(value=["a"], topic=[b"t"]), None, r"'topic' .* type binary"),
        (rows(value=["a"], topic=["t"]), "t", r"column topic, and topic 't' was given for all rows: give one"),
        (rows(value=["a"]), None, r"no column topic, and no topic was given"),
        (pa.record_batch([pa.array(["a"])] * 2, names=["value", "value"]), "t", r"two columns 'value'"),
        (pa.array(["a"]), "t", r"Arrow data of type string: give a record batch"),
        (pa.array(["a"]).dictionary_encode(), "t", r"Arrow data of type dictionary of string"),
        ([b"a"], "t", r"list is not Arrow data"),
        (b"a", "t", r"bytes is not Arrow data"),
        (rows(value=["a"]), "no such name!", r"no such name!"),
        (rows(value=["a"]), 5, r"5"),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_the_call_raises_before_anything_is_sent(
    brokers: FakeCluster, data: Any, topic: Any, said: str
) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        with pytest.raises(InvalidRecordError, match=said):
            await producer.send_arrow(data, topic=topic)
    assert brokers.seen_of(ProduceRequest) == []


async def test_a_producer_that_is_not_running(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        pass
    with pytest.raises(ProducerClosedError):
        await producer.send_arrow(rows(value=["a"]), topic="t")


async def test_rows_that_are_null_as_a_whole(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    data = pa.array([{"value": "a"}, None], pa.struct({"value": pa.string()}))
    async with running(brokers) as producer:
        with pytest.raises(InvalidRecordError, match="null as a whole"):
            await producer.send_arrow(data, topic="t")


async def test_a_stream_that_fails_raises_and_earlier_rows_are_delivered(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(value=["a"])
        yield rows(value=["b"])
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(rows(value=["a"]).schema, batches())
    async with running(brokers) as producer:
        with pytest.raises(InvalidRecordError, match="the disk is gone"):
            await producer.send_arrow(reader, topic="t")
    assert values(topic) == [b"a", b"b"]


# --- what is wrong with single rows


async def test_faults_of_single_rows_don_t_stop_the_others(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    big = b"x" * 5000
    data = rows(
        value=[b"0", big, b"2", b"3", b"4", b"5", b"6", b"7"],
        partition=pa.array([0, 0, 2, -1, 2**40, 1, None, 0], pa.int64()),
        timestamp=pa.array([1, 1, 1, 1, 1, -5, 1, 1], pa.int64()),
        headers=pa.array([None] * 6 + [[(f"{n}", big[:900]) for n in range(5)], []], HEADERS),
        key=["k"] * 8,
    )
    async with running(brokers, **SMALL) as producer:
        result = await producer.send_arrow(data, topic="t")
    assert faults(result.failures) == [
        (1, RecordTooLargeError),
        (2, InvalidRecordError),
        (3, InvalidRecordError),
        (4, InvalidRecordError),
        (5, InvalidRecordError),
        (6, RecordTooLargeError),
    ]
    said = [str(error) for _, error in result.failures]
    assert "Topic 't' has no partition 2: it has 2 (0 to 1)." in said[1]
    assert "no partition -1" in said[2]
    assert f"no partition {2**40}" in said[3]
    assert "holds -5" in said[4]
    assert result.count == 8
    assert values(topic) == [b"0", b"7"]


@pytest.mark.parametrize("max_request_size", [250, 1200, 4096])
async def test_rows_without_key_have_the_outcomes_of_single_records(
    brokers: FakeCluster, max_request_size: int
) -> None:
    topic = brokers.create_topic("t")
    sent = [b"a", None, b"b" * 300, b"", *[b"c" * 60] * 40, b"d" * 2000, b"e", b"f" * 5000, None, *[b"g"] * 300]
    times = [None if n == 1 else -1 if n in (3, 30) else n for n in range(len(sent))]
    columns = {"value": sent, "timestamp": pa.array(times, pa.int64())}
    async with running(brokers, **SMALL | {"max_request_size": max_request_size}) as producer:
        result = await producer.send_arrow(rows(**columns), topic="t")
    too_large = [n for n, value in enumerate(sent) if value is not None and len(value) + 61 + 25 > max_request_size]
    assert len(too_large) == {250: 3, 1200: 2, 4096: 1}[max_request_size]
    expected: list[tuple[int, type[Exception]]] = [(n, RecordTooLargeError) for n in too_large]
    expected += [(n, InvalidRecordError) for n in (3, 30)]
    assert faults(result.failures) == sorted(expected, key=lambda fault: fault[0])
    refused = {n for n, _ in expected}
    assert values(topic) == [value for n, value in enumerate(sent) if n not in refused]
    stored = [record.timestamp for record in topic.records()]
    kept = [time for n, time in enumerate(times) if n not in refused]
    assert [time for time, given in zip(stored, kept, strict=True) if given is not None] == [
        time for time in kept if time is not None
    ]
    assert result.count == len(sent)


async def test_rows_without_key_wait_for_room(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    sent = [b"%d" % n * 40 for n in range(500)]
    async with running(brokers, **SMALL) as producer:
        results = await asyncio.gather(*[producer.send_arrow(rows(value=sent), topic="t") for _ in range(2)])
    assert [result.failures for result in results] == [(), ()]
    assert sorted(value or b"" for value in values(topic)) == sorted(sent * 2)


async def test_headers_without_a_name(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    headers = pa.array([[{"name": "a", "value": None}, {"name": None, "value": b"1"}], [None], []], pa.list_(PAIR))
    async with running(brokers) as producer:
        result = await producer.send_arrow(rows(value=["0", "1", "2"], headers=headers), topic="t")
    assert faults(result.failures) == [(0, SerializationError), (1, SerializationError)]
    assert "header 1 of a record for topic 't' is null" in str(result.failures[0][1])
    assert values(topic) == [b"2"]


async def test_many_headers_and_large_ones(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    given_headers = [[(f"name {n}", b"v" * 50 * n) for n in range(count)] for count in (0, 1, 30, 3)]
    async with running(brokers) as producer:
        await producer.send_arrow(rows(value=["x"] * 4, headers=pa.array(given_headers, HEADERS)), topic="t")
    assert [list(record.headers) for record in topic.records()] == given_headers


# --- waiting


async def test_rows_wait_for_room(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=3)
    sent = [b"%d" % n * 40 for n in range(500)]
    async with running(brokers, **SMALL) as producer:
        result = await producer.send_arrow(rows(value=sent, key=[b"%d" % (n % 7) for n in range(500)]), topic="t")
    assert result.failures == ()
    assert sorted(value or b"" for value in values(topic)) == sorted(sent)


async def test_rows_of_several_topics_wait_for_room(brokers: FakeCluster) -> None:
    topics = [brokers.create_topic(name) for name in "ab"]
    sent = [b"%d" % n * 40 for n in range(300)]
    async with running(brokers, **SMALL) as producer:
        result = await producer.send_arrow(rows(value=sent, topic=["a", "b", "b"] * 100))
    assert result.failures == ()
    assert values(topics[0]) == sent[::3]


@in_simulated_time
async def test_a_full_buffer_raises_and_accepted_rows_are_delivered() -> None:
    async with FakeCluster(1) as brokers:
        topic = brokers.create_topic("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        async with running(brokers, max_block_ms=500, **SMALL) as producer:
            with pytest.raises(BufferFullError):
                await producer.send_arrow(rows(value=[b"x" * 100] * 100), topic="t")
            hold.release()
        assert 20 < len(values(topic)) < 40


async def test_a_cancelled_call_stops_and_accepted_rows_are_delivered(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    hold = brokers.fault(ProduceRequest, hold=True)
    errors = ErrorLog()
    async with running(brokers, on_error=errors, **SMALL) as producer:
        call = asyncio.create_task(producer.send_arrow(rows(value=[b"x" * 100] * 100), topic="t"))
        await until(lambda: producer._engine.parts.accumulator.budget.waiting)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        hold.release()
    assert 20 < len(values(topic)) < 40
    assert errors.calls == []


async def test_a_call_that_is_cancelled_while_its_stream_is_read(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    made = HandMade(*[rows(value=[b"%d" % n]) for n in range(3)])
    async with running(brokers) as producer:
        call = asyncio.create_task(producer.send_arrow(made.as_stream(), topic="t"))
        await turns(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await asyncio.get_running_loop().shutdown_default_executor()
    assert values(topic) == []
    assert made.released == made.given


async def test_a_call_releases_every_array_of_its_stream(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    made = HandMade(*[rows(value=[b"%d" % n]) for n in range(10)])
    async with running(brokers) as producer:
        result = await producer.send_arrow(made.as_stream(), topic="t")
    assert (result.count, made.given, made.released) == (10, 10, 10)


async def test_the_loop_turns_between_bad_rows(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    async with running(brokers) as producer:
        beating = asyncio.create_task(beat())
        with pytest.raises(InvalidRecordError, match="no partition 7"):
            await producer.send_arrow(rows(value=[b""] * 5000, partition=[7] * 5000), topic="t")
        beating.cancel()
    assert beats > 9


async def test_the_order_of_calls_is_the_order_of_records(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        first = asyncio.create_task(producer.send_arrow(rows(value=["a", "b"]), topic="t"))
        await turns(2)
        producer.send_nowait("t", b"c")
        await first
    assert values(topic) == [b"a", b"b", b"c"]


# --- interceptors


class Renaming(Spy):
    """Changes what it sees, as far as the value asks for it."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        super().on_send(record)
        if record.value == b"elsewhere":
            record.topic = "u"
        if record.value == b"bad":
            record.partition = -3
        return record


async def send_intercepted(producer: Producer, with_topics: bool) -> Any:
    data = rows(
        value=["plain", "elsewhere", "bad", None],
        key=pa.array([b"k", None, None, None]),
        headers=pa.array([[("h", b"1")], None, [], None], HEADERS),
        timestamp=pa.array([5, None, 6, 7], pa.int64()),
        partition=[0, None, 0, 0],
        **({"topic": ["t"] * 4} if with_topics else {}),
    )
    return await producer.send_arrow(pa.table(data), topic=None if with_topics else "t")


@pytest.mark.parametrize("with_topics", [False, True])
async def test_interceptors_see_and_change_each_row(brokers: FakeCluster, with_topics: bool) -> None:
    t, u = brokers.create_topic("t"), brokers.create_topic("u")
    spy = Renaming()
    async with running(brokers, interceptors=[spy]) as producer:
        result = await send_intercepted(producer, with_topics)
    assert [record.value for record in spy.sent] == [b"plain", b"elsewhere", b"bad", None]
    assert spy.sent[0] == ProducerRecord("t", b"plain", key=b"k", partition=0, headers=[("h", b"1")], timestamp=5)
    assert [(record.key, record.value, record.timestamp) for record in t.records()] == [
        (b"k", b"plain", 5),
        (None, None, 7),
    ]
    assert values(u) == [b"elsewhere"]
    assert result.offsets == {TopicPartition("t", 0): (range(2),), TopicPartition("u", 0): (range(1),)}
    assert faults(result.failures) == [(2, InvalidRecordError)]
    assert len(spy.acknowledged) == 4
    assert [type(error) for _, error in spy.acknowledged if error is not None] == [InvalidRecordError]


async def test_interceptors_are_notified_of_invalid_rows(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.cluster.topic_errors.UNKNOWN_S", 0.0)
    brokers.state.auto_create = False
    brokers.create_topic("t")
    spy = Spy()
    data = rows(value=["0", "1", "2", "3"], topic=["t", None, "missing", "missing"])
    async with running(brokers, interceptors=[spy]) as producer:
        result = await producer.send_arrow(data)
    assert faults(result.failures) == [(1, InvalidTopicError), (2, UnknownTopicError), (3, UnknownTopicError)]
    assert [type(error) for _, error in spy.acknowledged if error is not None] == [
        InvalidTopicError,
        UnknownTopicError,
        UnknownTopicError,
    ]
