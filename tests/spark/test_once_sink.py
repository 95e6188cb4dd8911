"""Exactly once as an option of the data source: its writers, called in this process as Spark calls them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from aioprod.errors import (
    ConfigError,
    ErrorCode,
    ProducerFencedError,
    TransactionUnknownError,
    UnknownTopicError,
    UsageError,
)
from aioprod.messages import EndTxnRequest, InitProducerIdRequest, ProduceRequest
from aioprod.spark.datasource import AioprodSource
from aioprod.spark.transactions import sink
from aioprod.spark.transactions.marker import Action
from aioprod.spark.transactions.sink import TaskMessage
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster
from aioprod.types import TopicPartition

SCHEMA = StructType().add("key", BinaryType()).add("value", StringType()).add("partition", IntegerType())


@pytest.fixture
def cluster() -> Iterator[FakeClusterThread]:
    with running_fake_cluster(1) as running:
        running.create_topic("t", 3)
        yield running


def rows(first: int, *partitions: int | None) -> pa.RecordBatch:
    numbers = range(first, first + len(partitions))
    return pa.record_batch(
        {
            "key": pa.array([b"k%d" % number for number in numbers], pa.binary()),
            "value": pa.array([str(number) for number in numbers]),
            "partition": pa.array(partitions, pa.int32()),
        }
    )


@pytest.fixture
def given(cluster: FakeClusterThread) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "topic": "t",
        "delivery": "exactly-once",
        "transactional.id": "load",
    }


@pytest.fixture
def spark_task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Who a task is from now on."""

    def become(
        batch: int | None = 0, query: str | None = "query", task: int = 0, attempt: int = 7, tries: int = 0
    ) -> None:
        local = {"sql.streaming.queryId": query, "streaming.sql.batchId": None if batch is None else str(batch)}
        context = SimpleNamespace(
            partitionId=lambda: task,
            taskAttemptId=lambda: attempt,
            attemptNumber=lambda: tries,
            getLocalProperty=local.get,
        )
        monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)

    become()
    return become


def stream_writer(given: Mapping[str, str]) -> Any:
    return AioprodSource(dict(given)).streamWriter(schema=SCHEMA, overwrite=False)


def planned(given: Mapping[str, str]) -> Any:
    """A writer as a task has it: Spark pickles it once, which begins."""
    return pickle.loads(pickle.dumps(stream_writer(given)))


def test_a_micro_batch(cluster: FakeClusterThread, given: dict[str, str], spark_task: Callable[..., None]) -> None:
    for batch in range(2):
        writer = planned(given)
        messages = []
        for number in range(2):
            spark_task(batch=batch, task=number)
            messages.append(pickle.loads(pickle.dumps(writer.write(iter([rows(0, number, number)])))))
        stream_writer(given).commit(messages, batch)
    assert len(cluster.records("t")) == 8
    assert len(cluster.seen_of(InitProducerIdRequest)) == 2
    # The checkpoint of the second one got lost: it comes again.
    writer = planned(given)
    message = writer.write(iter([rows(0, 0)]))
    assert (message.action, message.report) == (Action.SKIP, None)
    stream_writer(given).commit([message], 1)
    stream_writer(given).abort([message], 1)
    assert len(cluster.records("t")) == 8


def test_a_micro_batch_that_is_aborted(
    cluster: FakeClusterThread, given: dict[str, str], spark_task: Callable[..., None]
) -> None:
    message = planned(given).write(iter([rows(0, 0)]))
    stream_writer(given).abort([None, message], 0)
    stream_writer(given).abort([None, None], 0)
    stream_writer(given).abort([message], 0)
    assert cluster.records("t") == []
    assert cluster.committed_offset("aioprod-eos.load", TopicPartition("t", 0)) is None


@pytest.mark.parametrize("applies", [True, False])
def test_a_commit_without_a_clear_answer(
    cluster: FakeClusterThread, given: dict[str, str], spark_task: Callable[..., None], applies: bool
) -> None:
    message = planned(given).write(iter([rows(0, 0)]))
    cluster.fault(EndTxnRequest, error=ErrorCode.UNKNOWN_SERVER_ERROR, apply=applies)
    if applies:
        stream_writer(given).commit([message], 0)
    else:
        with pytest.raises(TransactionUnknownError):
            stream_writer(given).commit([message], 0)
    assert len(cluster.records("t")) == applies


def test_who_was_taken_over_says_so(given: dict[str, str], spark_task: Callable[..., None]) -> None:
    message = planned(given).write(iter([rows(0, 0)]))
    planned(given)
    with pytest.raises(ProducerFencedError):
        stream_writer(given).commit([message], 0)
    stream_writer(given).abort([message], 0)


def test_tasks_that_refuse(given: dict[str, str], spark_task: Callable[..., None]) -> None:
    writer = planned(given)
    spark_task(tries=1)
    with pytest.raises(UsageError, match="can't be tried again"):
        writer.write(iter([rows(0, 0)]))
    spark_task(query=None)
    with pytest.raises(UsageError, match="does not say which query"):
        writer.write(iter([rows(0, 0)]))
    spark_task()
    with pytest.raises(ConfigError, match="column partition of a row is null"):
        writer.write(iter([rows(0, None)]))
    stream_writer(given).commit([writer.write(iter([rows(0, 0)]))], 0)
    another = planned(given)
    spark_task(query="another")
    with pytest.raises(UsageError, match="belongs to another query or run"):
        another.write(iter([rows(0, 0)]))


def test_messages_that_do_not_fit(given: dict[str, str], spark_task: Callable[..., None]) -> None:
    first, second = (planned(given).write(iter([rows(0, number)])) for number in range(2))
    with pytest.raises(UsageError, match="more than one transaction"):
        stream_writer(given).commit([first, second], 0)
    with pytest.raises(UsageError, match="Of 2 tasks only 1 reported"):
        stream_writer(given).commit([first, None], 0)
    rival = TaskMessage(second.handle, second.action, second.owner, 0, second.report)
    with pytest.raises(UsageError, match="Two tasks wrote to t-1"):
        stream_writer(given).commit([second, rival], 0)


def test_a_batch_is_written_once_for_ever(cluster: FakeClusterThread, given: dict[str, str]) -> None:
    for run, action in (("june", Action.WRITE), ("june", Action.SKIP)):
        writer = AioprodSource({**given, "run.id": run}).writer(SCHEMA, overwrite=False)
        copy = pickle.loads(pickle.dumps(writer))
        pyspark_task = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 7, attemptNumber=lambda: 0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pyspark.TaskContext, "get", lambda now=pyspark_task: now)
            message = copy.write(iter([rows(0, 0, 1)]))
        assert message.action is action
        copy.commit([message])
        copy.abort([message])
    assert len(cluster.records("t")) == 2
    assert len(cluster.seen_of(ProduceRequest)) >= 1


@pytest.mark.parametrize("transaction_version", [1, 2])
@pytest.mark.parametrize("wrote", [True, False])
def test_a_batch_of_which_no_task_succeeded_is_aborted(
    given: dict[str, str], spark_task: Callable[..., None], transaction_version: int, wrote: bool
) -> None:
    """Readers with read_committed would stand still at its first record until its time-out."""
    with running_fake_cluster(1, transaction_version=transaction_version) as cluster:
        cluster.create_topic("t", 3)
        log = cluster.state.topics["t"].partitions[0]
        options = {**given, "kafka.bootstrap.servers": cluster.bootstrap, "run.id": "june"}
        AioprodSource(options).writer(SCHEMA, overwrite=False).abort([None])
        assert not cluster.seen_of(EndTxnRequest), "nothing was begun: Spark never pickled it"
        writer = pickle.loads(pickle.dumps(AioprodSource(options).writer(SCHEMA, overwrite=False)))
        if wrote:
            with pytest.raises(ConfigError, match="partition of a row is null"):
                writer.write(iter([rows(0, 0, 0), rows(2, None)]))
            assert [record.value for record in cluster.records("t", 0, "read_uncommitted")] == [b"0", b"1"]
            assert log.last_stable_offset == 0
        pickle.loads(pickle.dumps(writer)).abort([None])
        assert log.last_stable_offset == log.next_offset == (3 if wrote else 0), "two records and a marker"
        assert len(cluster.seen_of(InitProducerIdRequest)) == 1
        again = pickle.loads(pickle.dumps(AioprodSource(options).writer(SCHEMA, overwrite=False)))
        again.commit([again.write(iter([rows(5, 0)]))])
        assert [record.value for record in cluster.records("t")] == [b"5"]


def test_the_data_source_refuses_what_can_not_work(given: dict[str, str]) -> None:
    def refused(complaint: str, schema: StructType = SCHEMA, batch: bool = True, **options: str) -> None:
        source = AioprodSource({**given, **{name.replace("_", "."): value for name, value in options.items()}})
        with pytest.raises(ConfigError, match=complaint):
            (source.writer if batch else source.streamWriter)(schema, overwrite=False)

    refused("run.id is missing")
    refused("run.id belongs to batches", batch=False, run_id="june")
    refused("transactional.id is empty", run_id="june", transactional_id="")
    refused("needs a column partition", StructType().add("value", StringType()), run_id="june")
    refused("'hope': it must be one of", run_id="june", whenMarkerIsMissing="hope")
    with pytest.raises(ConfigError, match="can't be overwritten"):
        AioprodSource({**given, "run.id": "june"}).writer(SCHEMA, overwrite=True)
    with pytest.raises(UsageError, match="has not begun"):
        stream_writer(given).write(iter(()))
    with pytest.raises(UsageError, match="no task of Spark here"):
        sink.task_here("june")


def test_both_topics_are_looked_up_before_any_task(cluster: FakeClusterThread, given: dict[str, str]) -> None:
    """The marker's may be another one than the rows'."""
    cluster.state.auto_create = False
    cluster.create_topic("m", 1)
    for options in ({"marker.topic": "m", "topic": "absent"}, {"marker.topic": "absent"}, {"topic": "absent"}):
        source = AioprodSource({**given, "run.id": "june", **options})
        with pytest.raises(UnknownTopicError, match="'absent'"):
            pickle.dumps(source.writer(SCHEMA, overwrite=False))
    assert not cluster.seen_of(InitProducerIdRequest), "nobody was fenced"
    pickle.dumps(AioprodSource({**given, "run.id": "june", "marker.topic": "m"}).writer(SCHEMA, overwrite=False))
    assert len(cluster.seen_of(InitProducerIdRequest)) == 1


def test_pyspark_4_0_is_told_what_to_use(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pyspark.sql.datasource.DataSourceStreamArrowWriter")
    with pytest.raises(UsageError, match=r"PySpark \(4.0\).*exactly_once"):
        stream_writer(given)
