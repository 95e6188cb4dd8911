"""What tasks of a transaction do, called in this process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from aioprod import TransactionHandle
from aioprod.errors import (
    UndeliveredRowsError,
    UsageError,
)
from aioprod.spark import worker
from aioprod.spark.sink.columns import sink_columns
from aioprod.spark.sink.written import Written
from aioprod.spark.transactions import task
from aioprod.spark.transactions.failures import FinalTaskError
from aioprod.spark.transactions.first_batches import send_first_batches_apart
from aioprod.spark.transactions.reports import RECEIPTS, REPORTS, Report, disjoint, reports_of
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.steps import Steps
from aioprod.spark.transactions.task import TaskIdentity, WriteTask, participating
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster

SCHEMA = StructType().add("key", BinaryType()).add("value", StringType()).add("partition", IntegerType())
FIRST = TaskIdentity(0, 1, 7, 0)


@pytest.fixture
def cluster() -> Iterator[FakeClusterThread]:
    with running_fake_cluster(1) as running:
        running.create_topic("t", 3)
        yield running


@pytest.fixture
def settings(cluster: FakeClusterThread) -> OnceSettings:
    kafka = {"bootstrap.servers": cluster.bootstrap, "retry.backoff.ms": "1"}
    return OnceSettings.of(kafka, transactional_id="load", topic="t", default_api_timeout_ms=5000)


@pytest.fixture
def steps(settings: OnceSettings) -> Iterator[Steps]:
    made = Steps(settings.session(), marker=settings.marker, owner="me")
    worker.run(made.start())
    yield made
    worker.run(made.close())


@pytest.fixture
def write(settings: OnceSettings, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> WriteTask:
    monkeypatch.setattr(task, "barrier_task", lambda: FIRST)
    handle = worker.run(steps.begin(0)).handle
    return WriteTask(handle, settings.kafka, sink_columns(SCHEMA, topic="t"), "t")


def rows(first: int, *partitions: int | None) -> pa.RecordBatch:
    numbers = range(first, first + len(partitions))
    return pa.record_batch(
        {
            "key": pa.array([b"k%d" % number if number % 2 else None for number in numbers], pa.binary()),
            "value": pa.array([str(number) for number in numbers]),
            "partition": pa.array(partitions, pa.int32()),
        }
    )


def values(cluster: FakeClusterThread, partition: int) -> list[bytes]:
    return [record.value for record in cluster.records("t", partition, "read_uncommitted")]


# -- host A ----------------------------------------------------------------------------------------------------------


def test_a_task_reports_what_it_wrote(cluster: FakeClusterThread, write: WriteTask) -> None:
    copy = pickle.loads(pickle.dumps(write))
    (told,) = copy(iter([rows(0, 0, 2, 0), rows(3, 2), rows(4)]))
    assert told.schema.names == [column.split()[0] for column in REPORTS.split(", ")]
    (report,) = reports_of(zip(*(column.to_pylist() for column in told.columns), strict=True))
    assert report == Report(0, 1, 7, 4, (Written("t", 0, 2, 0, 1), Written("t", 2, 2, 0, 1)))
    assert (values(cluster, 0), values(cluster, 2)) == ([b"0", b"2"], [b"1", b"3"])
    assert cluster.records("t") == []


def test_a_task_without_rows_reports_too(write: WriteTask) -> None:
    (told,) = write(iter(()))
    assert reports_of(zip(*(column.to_pylist() for column in told.columns), strict=True)) == [Report(0, 1, 7, 0, ())]


def test_receipts_are_in_the_order_of_offsets(cluster: FakeClusterThread, write: WriteTask) -> None:
    hashed = [
        batch.append_column("hash", pa.array(range(100, 100 + batch.num_rows), pa.int64()))
        for batch in (rows(0, 0, 2, 0), rows(3), rows(3, 2, 0))
    ]
    told = pa.Table.from_batches(replace(write, hash_at=3)(iter(hashed)))
    assert told.schema.names == [column.split()[0] for column in RECEIPTS.split(", ")]
    assert told.column("partition").to_pylist() == [0, 2, 0, 2, 0]
    assert told.column("offset").to_pylist() == [0, 0, 1, 1, 2]
    assert told.column("key").to_pylist() == [None, b"k1", None, b"k3", None]
    assert told.column("hash").to_pylist() == [100, 101, 102, 100, 101]
    assert told.column("bytes").to_pylist() == [1, 3, 1, 3, 1]
    assert told.column("attempt").to_pylist() == [7] * 5
    assert values(cluster, 0) == [b"0", b"2", b"4"]


def test_receipts_of_rows_without_keys(write: WriteTask) -> None:
    batch = rows(0, 1).drop_columns(["key"]).append_column("hash", pa.array([5], pa.int64()))
    schema = StructType().add("value", StringType()).add("partition", IntegerType())
    keyless = replace(write, columns=sink_columns(schema, topic="t"), hash_at=2)
    (told,) = keyless(iter([batch]))
    assert told.to_pylist() == [{"partition": 1, "offset": 0, "key": None, "hash": 5, "bytes": 1, "attempt": 7}]


def test_a_row_that_is_too_large_is_an_error_for_good(write: WriteTask) -> None:
    large = pa.record_batch({"key": [b"k"], "value": ["x" * 2_000_000], "partition": pa.array([0], pa.int32())})
    with pytest.raises(FinalTaskError, match=r"UndeliveredRowsError: A row with the key b'k' and a value of 2000000"):
        list(write(iter([large])))


def test_an_attempt_after_the_first_is_refused(write: WriteTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "barrier_task", lambda: FIRST._replace(tries=1))
    for refused in (write, replace(write, hash_at=3)):
        with pytest.raises(UsageError, match="Task 0 can't be tried again within a transaction"):
            list(refused(iter([rows(0, 0)])))


def test_who_a_task_is(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(
        partitionId=lambda: 1, getTaskInfos=lambda: [1, 2, 3], taskAttemptId=lambda: 9, attemptNumber=lambda: 2
    )
    monkeypatch.setattr(pyspark.BarrierTaskContext, "get", lambda: context)
    assert task.barrier_task() == TaskIdentity(1, 3, 9, 2)


# -- reports ---------------------------------------------------------------------------------------------------------


def report(number: int, *parts: Written, rows: int | None = None, tasks: int = 2) -> Report:
    return Report(number, tasks, number, sum(one.count for one in parts) if rows is None else rows, parts)


def test_what_tasks_wrote_is_put_together() -> None:
    first, second = Written("t", 0, 2, 0, 1), Written("t", 1, 1, 5, 5)
    assert disjoint([report(1, second), report(0, first)]) == (first, second)
    assert disjoint([]) == ()


@pytest.mark.parametrize(
    ("reports", "complaint"),
    [
        ([report(0, Written("t", 0, 2, 0, 1)), report(1, Written("t", 0, 2, 0, 1))], "Two tasks wrote to t-0"),
        ([report(0, Written("t", 0, 2, 0, 1))], "Of 2 tasks only 1 reported"),
        ([report(0, Written("t", 0, 2, 0, 1), rows=3), report(1)], "read 3 rows, of which 2 were stored"),
    ],
)
def test_what_does_not_fit_together(reports: list[Report], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        disjoint(reports)


# -- first batches ---------------------------------------------------------------------------------------------------


def test_first_batches_have_sizes_of_their_own(
    cluster: FakeClusterThread, settings: OnceSettings, write: WriteTask
) -> None:
    batches = [rows(0, *[0] * 50, *[1] * 50), rows(100, *[0] * 20), rows(120, *[2] * 10, *[0] * 5)]
    with participating(write.handle, settings.kafka) as producer:
        results = [
            result.count
            for _, result in send_first_batches_apart(producer, map(write.columns.pick, batches), topic="t", attempt=7)
        ]
    assert results[0] == 16, "eight rows of each of the two new partitions"
    assert sum(results) == 135
    assert values(cluster, 0) == [b"%d" % number for number in (*range(50), *range(100, 120), *range(130, 135))]
    assert values(cluster, 2) == [b"%d" % number for number in range(120, 130)]


def test_a_rival_attempt_is_refused_by_the_broker(settings: OnceSettings, write: WriteTask) -> None:
    """It would be told that all is well if its first batch were as long as the other one's."""

    def attempt(number: int) -> None:
        with participating(write.handle, settings.kafka) as producer:
            for _ in send_first_batches_apart(
                producer, [write.columns.pick(rows(0, *[0] * 50))], topic="t", attempt=number
            ):
                pass

    attempt(7)
    with pytest.raises(UndeliveredRowsError, match="OUT_OF_ORDER"):
        attempt(9)


def test_first_batches_of_rows_that_name_their_topics(
    cluster: FakeClusterThread, settings: OnceSettings, write: WriteTask
) -> None:
    cluster.create_topic("other", 1)
    batch = pa.record_batch(
        {"value": ["a", "b", "c"], "partition": pa.array([0, 0, 0], pa.int32()), "topic": ["t", "other", "t"]}
    )
    with participating(write.handle, settings.kafka) as producer:
        results = [result for _, result in send_first_batches_apart(producer, [batch], topic=None, attempt=0)]
    assert [result.count for result in results] == [2, 1]


def test_a_handle_is_all_that_is_pickled_of_a_transaction(write: WriteTask) -> None:
    assert isinstance(pickle.loads(pickle.dumps(write.handle)), TransactionHandle)
