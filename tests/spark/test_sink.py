"""The sink's writers, called as Spark calls them."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping

import pyarrow as pa
import pytest
from pyspark.sql import datasource
from pyspark.sql.types import StringType, StructType

import aioprod.spark
import pyspark_aioprod
from aioprod.errors import ConfigError, UndeliveredRowsError, UnknownTopicError, UsageError
from aioprod.spark import worker
from aioprod.spark.datasource import AioprodSource
from aioprod.spark.sink.at_least_once import Delivered
from aioprod.spark.sink.written import Written
from aioprod.testing.fixtures import FakeClusterThread

SCHEMA = StructType().add("key", StringType()).add("value", StringType())


@pytest.fixture
def options(fake_cluster: FakeClusterThread) -> Mapping[str, str]:
    fake_cluster.create_topic("t", 1)
    return {"kafka.bootstrap.servers": fake_cluster.bootstrap, "topic": "t"}


def rows(*values: str | None) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(["k"] * len(values)), "value": pa.array(values, pa.string())})


def test_a_batch(fake_cluster: FakeClusterThread, options: Mapping[str, str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aioprod.spark")
    writer = AioprodSource(dict(options)).writer(SCHEMA, overwrite=False)
    copy = pickle.loads(pickle.dumps(writer))
    messages = [copy.write(iter([rows("1", "2")])), copy.write(iter([rows("3")])), copy.write(iter(()))]
    assert messages == [Delivered((Written("t", 0, 2, 0, 1),)), Delivered((Written("t", 0, 1, 2, 2),)), Delivered(())]
    writer.commit(messages)
    assert "The job wrote 3 rows to 1 partitions in 3 tasks." in caplog.text
    assert [record.value for record in fake_cluster.state.topics["t"].records()] == [b"1", b"2", b"3"]
    writer.abort([messages[0], None])
    assert "The job failed after 1 of 2 tasks" in caplog.text


def test_a_micro_batch(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioprod.spark")
    source = AioprodSource(dict(options))
    message = pickle.loads(pickle.dumps(source.streamWriter(SCHEMA, overwrite=False))).write(iter([rows("1", None)]))
    source.streamWriter(schema=SCHEMA, overwrite=False).commit([message], 7)
    assert "Micro-batch 7 wrote 2 rows to 1 partitions in 1 tasks." in caplog.text
    source.streamWriter(schema=SCHEMA, overwrite=False).abort([None], 8)
    assert "Micro-batch 8 failed after 0 of 1 tasks" in caplog.text


def test_a_producer_that_failed_is_not_used_again(options: Mapping[str, str]) -> None:
    writer = AioprodSource(dict(options)).writer(SCHEMA, overwrite=False)
    writer.write(iter([rows("1")]))
    before = worker.producer(writer._sink.options.kafka.producer())  # type: ignore[attr-defined]
    with pytest.raises(UndeliveredRowsError):
        writer.write(iter([rows("x" * 2_000_000)]))
    writer.write(iter([rows("2")]))
    assert worker.producer(writer._sink.options.kafka.producer()) is not before  # type: ignore[attr-defined]


def test_what_is_refused_before_any_task_runs(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    fake_cluster.state.auto_create = False
    source = AioprodSource(dict(options))
    with pytest.raises(ConfigError, match="can't be overwritten"):
        source.writer(SCHEMA, overwrite=True)
    with pytest.raises(ConfigError, match="no column value"):
        source.writer(StructType().add("key", StringType()), overwrite=False)
    with pytest.raises(UnknownTopicError, match="Topic 'absent' does not exist"):
        AioprodSource({**options, "topic": "absent"}).writer(SCHEMA, overwrite=False)


def test_a_topic_that_the_brokers_create(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    AioprodSource({**options, "topic": "new"}).writer(SCHEMA, overwrite=False)
    assert "new" in fake_cluster.state.topics


def test_a_stream_needs_arrow_writers(options: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(datasource, "DataSourceStreamArrowWriter")
    with pytest.raises(UsageError, match=r"foreachBatch\(aioprod\.spark\.each_batch\(options\)\)"):
        AioprodSource(dict(options)).streamWriter(SCHEMA, overwrite=False)


def test_spark_finds_it_and_it_shows_no_secrets(options: Mapping[str, str]) -> None:
    assert pyspark_aioprod.DefaultSource is AioprodSource
    assert aioprod.spark.AioprodSource.name() == "aioprod"
    shown = repr(AioprodSource({**options, "kafka.sasl.password": "hunter2"}))
    assert shown == "AioprodSource(kafka.bootstrap.servers, topic, kafka.sasl.password)"
