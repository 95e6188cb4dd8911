"""`Transactions`: data frames written to Kafka one after the other, each in one transaction, each exactly once."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aioprod.errors import ConfigError, UsageError
from aioprod.producer import TransactionHandle
from aioprod.spark import worker
from aioprod.spark.digest import row_hash
from aioprod.spark.sink.columns import sink_columns
from aioprod.spark.sink.written import Written
from aioprod.spark.transactions.attempts import Attempts, Tally
from aioprod.spark.transactions.marker import check_owner
from aioprod.spark.transactions.reports import RECEIPTS, REPORTS, Report, disjoint, reports_of
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.slots import check_session, slots_of, slots_soon
from aioprod.spark.transactions.steps import Steps
from aioprod.spark.transactions.task import HASH, WriteTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Transactions"]

_logger = logging.getLogger(__name__)


class Transactions:
    """Writes steps, data frames numbered from 0, each in one transaction that all of its tasks share.

        kafka = {"bootstrap.servers": "host:9092"}
        with Transactions(kafka, transactional_id="load-7", owner="run 7", topic="orders") as transactions:
            for number, chunk in enumerate(chunks):
                transactions.write(chunk, number)

    A step that was committed before is left out, so that a program can begin again with step 0 after a crash. Only the
    last committed step is remembered: steps come in their order, without a gap. `owner` says whose steps they are, such
    as a query's id: a marker of another owner raises UsageError.

    `kafka` are settings of a producer, by Java's names or ours. `partitioner` chooses the partition of a row whose
    column `partition` is null or missing; it spreads rows without a key, as Java's producer does. `order_by` is the
    column by which the rows of a partition are sorted. `tasks` is how many tasks write at once; None: one for each
    slot, and at most one for each partition. While executors are missing, fewer tasks write; the first step waits up to
    ten seconds for them. Raises ConfigError.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        *,
        transactional_id: str,
        owner: str,
        topic: str | None = None,
        marker_topic: str | None = None,
        partitioner: str = "murmur2",
        order_by: str | None = None,
        tasks: int | None = None,
        when_marker_is_missing: str = "refuse",
        attempts: int = 4,
        default_api_timeout_ms: int = 60_000,
        include_headers: bool = True,
    ) -> None:
        self._settings = OnceSettings.of(
            kafka,
            transactional_id=transactional_id,
            topic=topic,
            marker_topic=marker_topic,
            when_marker_is_missing=when_marker_is_missing,
            attempts=attempts,
            default_api_timeout_ms=default_api_timeout_ms,
        )
        if tasks is not None and tasks < 1:
            raise ConfigError(f"tasks is {tasks}: it must be at least 1.")
        self._topic = topic
        self._owner = check_owner(owner)
        self._partitioner = partitioner
        self._order_by = order_by
        self._tasks = tasks
        self._waited = False
        self._include_headers = include_headers
        self._steps: Steps | None = None
        self._attempts: Attempts | None = None
        self.tally = Tally()
        """What has happened so far."""
        self.took_ms: list[dict[str, float]] = []
        """The durations of init, fetch, job, offsets and end, of each of the last hundred steps."""

    # --- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Connect; raises MetadataTimeoutError, UnknownTopicError for a topic that does not exist, and others of
        `Admin.partitions`. Begins and fences nothing."""
        if self._steps is not None:
            raise UsageError("These transactions were started before.")
        settings = self._settings
        steps = Steps(settings.session(), marker=settings.marker, owner=self._owner, policy=settings.policy)
        worker.run(steps.start())
        self._steps = steps
        try:
            self._counts()
        except BaseException:
            self.close()
            raise
        self._attempts = Attempts(steps, settings.attempts, self.tally)

    def close(self) -> None:
        """Close all connections. Nothing is open by then but what a failure has left, which the next one aborts."""
        steps, self._steps = self._steps, None
        if steps is not None:
            worker.run(steps.close())

    # --- a step

    def write(
        self, df: DataFrame, step: int, *, receipts: str | None = None, bytes_s: float | None = None
    ) -> tuple[Written, ...] | None:
        """Write a data frame that has the sink's columns, exactly once; None if the step was committed before.

        A failed attempt is aborted and all of it run again, which computes the data frame again. `receipts` is a folder
        of any file system of Hadoop's: before the commit a Parquet file of each task is there, with a row for each
        record (`partition`, `offset`, `key`, `hash` which is `digest.row_hash`, `bytes` of both, `attempt`),
        in order of offset within a partition; what was in it is overwritten. `bytes_s` is the rate for all tasks
        together, in bytes per second.

        Raises what `Attempts.run` raises, ConfigError for columns that no record has, and, for rows that can't be
        delivered, UndeliveredRowsError or another that names the first of them.
        """
        if self._attempts is None or self._steps is None:
            raise UsageError("These transactions are not started, or closed: use them in a with block.")
        if step < 0:
            raise ConfigError(f"A step is a number from 0 on, not {step}.")
        if receipts is not None and self._topic is None:
            raise ConfigError("There are receipts of rows of one topic only: give topic.")
        check_session(df.sparkSession)
        sink_columns(df.schema, topic=self._topic, include_headers=self._include_headers)
        if self._tasks is not None and not self._waited:
            # Before the transaction begins, whose time runs.
            self._waited = True
            slots_soon(df.sparkSession, self._tasks)
        took: dict[str, float] = {}

        def job(handle: TransactionHandle) -> tuple[Written, ...]:
            started = time.monotonic()
            done = self._job(df, handle, receipts, bytes_s)
            took["job"] = (time.monotonic() - started) * 1e3
            return done

        done = self._attempts.run(step, job)
        self.took_ms = [*self.took_ms[-99:], {**self._steps.took_ms, **took}]
        return done

    def _job(
        self, df: DataFrame, handle: TransactionHandle, receipts: str | None, bytes_s: float | None
    ) -> tuple[Written, ...]:
        from aioprod.spark.partitioning import co_partitioned, spreading, with_partition

        spark = df.sparkSession
        counts = self._counts()
        tasks = self._tasks_for(spark, counts)
        # murmur2 is librdkafka's name, whose rows without a key all go to one partition: not an option here.
        partitioner = spreading(self._partitioner)
        rows = with_partition(df, partitioner=partitioner, counts=counts, topic=self._topic)
        if receipts is not None:
            rows = rows.withColumn(HASH, row_hash(rows))
        rows = co_partitioned(rows, tasks=tasks, order_by=self._order_by)
        columns = sink_columns(rows.schema, topic=self._topic, include_headers=self._include_headers)
        task = WriteTask(
            handle, self._settings.kafka, columns, self._topic, None if bytes_s is None else bytes_s / tasks
        )
        return _run(rows, task) if receipts is None else _run_with_receipts(rows, task, receipts)

    def _counts(self) -> dict[str, int]:
        """How many partitions the topics have, that rows may go to."""
        assert self._steps is not None
        if self._topic is None:
            return worker.run(self._steps.partition_counts())
        return {self._topic: worker.run(self._steps.partition_count(self._topic))}

    def _tasks_for(self, spark: SparkSession, counts: Mapping[str, int]) -> int:
        """How many write in this attempt. An executor that was lost must not end what another attempt can do."""
        slots = slots_of(spark)
        if self._tasks is None:
            return max(1, min(slots, sum(counts.values())))
        if self._tasks > slots:
            _logger.warning("Of %d tasks only %d write now: there are no more slots.", self._tasks, slots)
        return min(self._tasks, slots)


def _run(rows: DataFrame, task: WriteTask) -> tuple[Written, ...]:
    collected = rows.mapInArrow(task, REPORTS, barrier=True).collect()
    return disjoint(reports_of(collected))


def _run_with_receipts(rows: DataFrame, task: WriteTask, folder: str) -> tuple[Written, ...]:
    """The tasks write Parquet themselves, so that nothing of it passes through the driver."""
    from pyspark.sql import functions

    task = replace(task, hash_at=rows.columns.index(HASH))
    rows.mapInArrow(task, RECEIPTS, barrier=True).write.mode("overwrite").parquet(folder)
    offset = functions.col("offset")
    sums = (
        rows.sparkSession.read.schema(RECEIPTS)
        .parquet(folder)
        .groupBy("partition", "attempt")
        .agg(functions.count(offset), functions.min(offset), functions.max(offset))
        .collect()
    )
    topic = str(task.topic)
    reports = [Report(0, 1, row[1], row[2], (Written(topic, row[0], *row[2:5]),)) for row in sums]
    return disjoint(reports, are_tasks=False)
