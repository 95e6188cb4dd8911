"""Exactly once as an option of the data source: `option("delivery", "exactly-once")`, for streams and batches.

Spark creates writers wherever it needs one, but pickles the writer once for each attempt at a (micro-)batch, on the
driver and before any task runs: pickling begins the transaction. The tasks' messages carry it to `commit`. Spark also
reruns single tasks, whose first records would then be in the transaction twice: such a task raises, and the whole batch
has to run again, by a restart of the query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from aioprod.errors import AioprodError, ConfigError, TransactionUnknownError, UsageError
from aioprod.producer import TransactionHandle
from aioprod.spark import worker
from aioprod.spark.options import SinkOptions
from aioprod.spark.sink.columns import SinkColumns, sink_columns
from aioprod.spark.sink.writer import check_mode, check_topic
from aioprod.spark.transactions.first_batches import guarded
from aioprod.spark.transactions.marker import Action, Policy, check_owner, decide
from aioprod.spark.transactions.reports import Report, disjoint
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.steps import Steps, fenced, is_taken_over
from aioprod.spark.transactions.task import TaskIdentity, check_first_attempt, participating, report_of
from aioprod.types import OffsetAndMetadata

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OnceSink", "OnceWriter", "TaskMessage", "batch_writer", "stream_writer"]

_logger = logging.getLogger(__name__)

_NEEDED: Final = (
    "All rows of a partition have to be in one task: write aioprod.spark.partitioning.co_partitioned(df, ...)."
)


@dataclass
class TaskMessage(datasource.WriterCommitMessage):
    """What a task returns to the driver; `report` is None if the task had nothing to write."""

    handle: TransactionHandle
    action: Action
    owner: str
    step: int
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class OnceSink:
    """What the driver knows before it begins. `run` owns the steps of a batch job; it is None in a stream."""

    settings: OnceSettings
    columns: SinkColumns
    run: str | None

    def steps(self, owner: str) -> Steps:
        settings = self.settings
        return Steps(settings.session(), marker=settings.marker, owner=owner, policy=settings.policy)

    def begin(self) -> tuple[TransactionHandle, OffsetAndMetadata | None]:
        """Begin a transaction, which fences all others, and read the marker."""
        return worker.run(self._begin())

    async def _begin(self) -> tuple[TransactionHandle, OffsetAndMetadata | None]:
        async with self.steps(self.run or "") as steps:
            return await steps.begin_unseen()

    # --- in a task

    def write(
        self, begun: tuple[TransactionHandle, OffsetAndMetadata | None], batches: Iterator[pa.RecordBatch]
    ) -> TaskMessage:
        """Write a task's rows, unless the marker says that they were committed before."""
        identity, step, owner = task_here(self.run)
        handle, found = begun
        action = decide(found, step, owner, self.settings.policy, self.settings.transactional_id)
        message = TaskMessage(handle, action, owner, step)
        if action is Action.WRITE:
            check_first_attempt(identity)
            message.report = self._write(handle, identity, batches)
        return message

    def _write(self, handle: TransactionHandle, identity: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Report:
        with participating(handle, self.settings.kafka) as producer:
            picked = map(self._picked, batches)
            return report_of(identity, guarded(producer, picked, topic=self.settings.topic, attempt=identity.attempt))

    def _picked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        picked = self.columns.pick(batch)
        if picked.column("partition").null_count:
            raise ConfigError("The column partition of a row is null.", hint=_NEEDED)
        return picked

    # --- on the driver again

    def commit(self, messages: Sequence[Any]) -> bool:
        """Commit what all tasks have written, together with the marker; False if it was committed before."""
        first = _first(messages)
        if first.action is Action.SKIP:
            _logger.info("Step %d of %s was committed before: skipped.", first.step, first.handle.transactional_id)
            return False
        reports = [message.report for message in messages if message.report is not None]
        disjoint(reports, are_tasks=False)
        worker.run(self._commit(first))
        return True

    async def _commit(self, first: TaskMessage) -> None:
        async with self.steps(first.owner) as steps:
            await steps.resume(first.handle)
            try:
                await steps.commit(first.step)
            except TransactionUnknownError as error:
                if is_taken_over(error):
                    raise fenced(steps.id) from error
                if not await steps.is_committed(first.step):
                    raise

    def abort(self, messages: Sequence[Any], begun: TransactionHandle | None = None) -> None:
        """Abort the transaction of the first task that returned a message, else `begun`.

        After a commit whose answer was lost the abort changes nothing: the marker decides when the batch runs again.
        """
        first: TaskMessage | None = next((message for message in messages if message is not None), None)
        if first is not None and first.action is Action.SKIP:
            return
        handle = begun if first is None else first.handle
        if handle is None:
            return
        try:
            worker.run(self._abort(handle))
        except AioprodError as error:
            _logger.warning("A transaction of %s was not aborted here: %s", handle.transactional_id, error)

    async def _abort(self, handle: TransactionHandle) -> None:
        async with self.steps(self.run or "") as steps:
            await steps.resume(handle)
            await steps.abort()


def _first(messages: Sequence[Any]) -> TaskMessage:
    """The first message of a batch; raises UsageError unless all tasks wrote in the same transaction."""
    found: list[TaskMessage] = [message for message in messages if message is not None]
    if not found or len(found) != len(messages):
        raise UsageError(f"Of {len(messages)} tasks only {len(found)} reported what they wrote.")
    if len({(message.handle, message.action, message.owner, message.step) for message in found}) != 1:
        raise UsageError("The tasks of this batch took part in more than one transaction.", hint="Start it again.")
    return found[0]


def task_here(run: str | None) -> tuple[TaskIdentity, int, str]:
    """The identity of the Spark task that calls this, its step, and the step's owner."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise UsageError("There is no task of Spark here.")
    identity = TaskIdentity(context.partitionId(), 0, context.taskAttemptId(), context.attemptNumber())
    if run is not None:
        return identity, 0, run
    query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
    if not query or batch is None:
        raise UsageError("Spark does not say which query and micro-batch this task belongs to.")
    return identity, int(batch), query


class OnceWriter:
    """What the batch and the stream writer have in common. Pickling begins the transaction, in `_begun`."""

    def __init__(self, sink: OnceSink) -> None:
        self._sink = sink
        self._begun: tuple[TransactionHandle, OffsetAndMetadata | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._begun is None:
            self._begun = self._sink.begin()
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        if self._begun is None:
            raise UsageError("This writer has not begun a transaction: only Spark's tasks can write with it.")
        return self._sink.write(self._begun, iterator)


class _BatchWriter(OnceWriter, datasource.DataSourceArrowWriter):
    """Spark commits with the object that it pickled, which so knows its transaction even if no task returned."""

    def commit(self, messages: Sequence[Any]) -> None:
        self._sink.commit(messages)

    def abort(self, messages: Sequence[Any]) -> None:
        self._sink.abort(messages, None if self._begun is None else self._begun[0])


def batch_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> datasource.DataSourceArrowWriter:
    """The writer of `df.write`: one transaction under the option `run.id`, which is committed once only.

    Raises ConfigError for options and columns that can't work, UnknownTopicError and what `check_topic` raises besides.
    """
    own = dict(options.own)
    run = own.get("run.id")
    if not run:
        raise ConfigError(
            "The option run.id is missing: it is what distinguishes this run from others.",
            hint="Give each run that is to be written a name of its own, and the same one to repeat it.",
        )
    return _BatchWriter(_sink(options, schema, overwrite, check_owner(run)))


def stream_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> Any:
    """The writer of `df.writeStream`.

    Raises what `batch_writer` raises, and UsageError where PySpark gives streaming writers no Arrow data (4.0).
    """
    if "run.id" in dict(options.own):
        raise ConfigError("The option run.id belongs to batches: a stream is known by its checkpoint.")
    if not hasattr(datasource, "DataSourceStreamArrowWriter"):
        raise UsageError(
            "This PySpark (4.0) gives no Arrow data to streaming sinks.",
            hint="aioprod.spark.exactly_once(df, ...) does the same, and better.",
        )
    from aioprod.spark.transactions.stream_sink import StreamWriter

    return StreamWriter(_sink(options, schema, overwrite, None))


def _sink(options: SinkOptions, schema: StructType, overwrite: bool, run: str | None) -> OnceSink:
    check_mode(overwrite)
    own = dict(options.own)
    settings = OnceSettings.of(
        options.kafka,
        transactional_id=own.get("transactional.id", ""),
        topic=options.topic,
        marker_topic=own.get("marker.topic"),
        when_marker_is_missing=own.get("whenmarkerismissing", Policy.RAISE.value),
    )
    columns = sink_columns(schema, topic=options.topic, include_headers=options.include_headers)
    if "partition" not in columns:
        raise ConfigError("Exactly-once delivery needs a column partition.", hint=_NEEDED)
    if options.topic is not None and settings.marker.topic != options.topic:
        # The marker's own topic is checked when a transaction begins, which is before any task as well.
        check_topic(options)
    return OnceSink(settings, columns, run)
