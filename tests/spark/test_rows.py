"""A task's rows on their way: in order, at a pace, and named when they can't be delivered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from aioprod.errors import UndeliveredRowsError
from aioprod.producer import Producer
from aioprod.spark import worker
from aioprod.spark.sink import rows
from aioprod.spark.sink.rows import _Pace, send_rows
from aioprod.spark.sink.written import Written, sums_by_partition
from aioprod.testing.fixtures import FakeClusterThread


def batches(count: int, size: int, **columns: Any) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        values = [f"{number}-{row}" for row in range(size)]
        yield pa.record_batch({"value": values} | {name: [one] * size for name, one in columns.items()})


@pytest.fixture
def producer(fake_cluster: FakeClusterThread) -> Producer:
    fake_cluster.create_topic("t", 3)
    return worker.producer({"bootstrap_servers": fake_cluster.bootstrap})


def stored(cluster: FakeClusterThread, partition: int) -> list[bytes | None]:
    return [record.value for record in cluster.state.topics["t"].partitions[partition].records()]


def test_all_rows_in_their_order(fake_cluster: FakeClusterThread, producer: Producer) -> None:
    some = list(send_rows(producer, batches(3, 4, partition=1), topic="t"))
    assert [len(taken) for taken, _ in some] == [3]
    assert stored(fake_cluster, 1) == [f"{number}-{row}".encode() for number in range(3) for row in range(4)]
    assert sums_by_partition(result for _, result in some) == (Written("t", 1, 12, 0, 11),)


def test_calls_end_after_some_bytes(
    fake_cluster: FakeClusterThread, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_CALL_BYTES", 1)
    some = list(send_rows(producer, batches(3, 4, partition=2), topic="t"))
    assert [len(taken) for taken, _ in some] == [1, 1, 1]
    assert sums_by_partition(result for _, result in some) == (Written("t", 2, 12, 0, 11),)
    assert len(stored(fake_cluster, 2)) == 12


def test_nothing_comes_of_nothing(producer: Producer) -> None:
    assert list(send_rows(producer, iter(()), topic="t")) == []
    assert list(send_rows(producer, batches(2, 0), topic="t")) == []


def test_the_first_row_that_can_not_be_delivered_is_named(producer: Producer) -> None:
    def with_giants() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"key": ["a", "b"], "value": ["1", "2"]})
        yield pa.record_batch({"key": ["c", "d", "e"], "value": ["3", "x" * 2_000_000, "y" * 2_000_001]})

    with pytest.raises(UndeliveredRowsError) as caught:
        list(send_rows(producer, with_giants(), topic="t"))
    assert str(caught.value).startswith(
        "2 rows, the first one with the key 'd' and a value of 2000000 bytes can't be delivered to topic 't': A record "
        "for topic 't' takes up to 2000"
    )
    assert "max.request.size=1048576" in str(caught.value)


def test_a_long_key_is_cut_and_a_missing_value_counts_nothing(producer: Producer) -> None:
    bad = pa.record_batch({"key": [b"k" * 200], "value": pa.array([None], pa.binary()), "partition": [9]})
    with pytest.raises(UndeliveredRowsError) as caught:
        list(send_rows(producer, iter([bad]), topic="t"))
    assert f"A row with the key {b'k' * 80!r}... and a value of 0 bytes can't be delivered" in str(caught.value)


def test_a_row_names_its_own_topic(fake_cluster: FakeClusterThread, producer: Producer) -> None:
    topics = pa.record_batch({"topic": ["t", None], "value": ["1", "2"]})
    with pytest.raises(UndeliveredRowsError, match="to topic None"):
        list(send_rows(producer, iter([topics]), topic=None))


@pytest.mark.parametrize("after", [0, 1, 3])
def test_what_fails_to_compute_the_rows_comes_out_unchanged(producer: Producer, after: int) -> None:
    class UpstreamError(Exception):
        pass

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(after, 2)
        raise UpstreamError("no more")

    with pytest.raises(UpstreamError, match="no more"):
        list(send_rows(producer, failing(), topic="t"))


def test_a_pace_is_kept_and_nothing_is_saved_up() -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    pace = _Pace(100.0, lambda: now, sleep)
    for _ in range(5):
        pace.wait(100)
    assert now == pytest.approx(4.0)
    now += 60.0
    for _ in range(5):
        pace.wait(100)
    assert now == pytest.approx(4.0 + 60.0 + 3.0)
