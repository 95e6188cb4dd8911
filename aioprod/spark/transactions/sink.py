"""Exactly once as an option of the data source: `option("delivery", "exactly-once")`, for streams and batches.

Spark makes the writer anew wherever it wants one, but it pickles it just once for each attempt at a (micro-)batch, on
the driver's side and before any task: that is when its transaction is begun. What the tasks return carries it to
`commit`. Spark runs single tasks again, which no transaction can bear: then they refuse, and all of the batch has to be
run again, by a restart of the query.
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
from aioprod.spark.sink.writer import check_topic, refuse_overwrite
from aioprod.spark.transactions.first_batches import guarded
from aioprod.spark.transactions.marker import Action, Policy, check_owner, decide
from aioprod.spark.transactions.reports import Report, disjoint
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.steps import Steps, fenced, is_taken_over
from aioprod.spark.transactions.task import TaskIdentity, participating, refuse_repetition, report_of
from aioprod.types import OffsetAndMetadata

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OnceSink", "OnceWriter", "Told", "batch_writer", "stream_writer"]

log = logging.getLogger(__name__)

_NEEDED: Final = (
    "All rows of a partition have to be in one task: write aioprod.spark.partitioning.co_partitioned(df, ...)."
)


@dataclass
class Told(datasource.WriterCommitMessage):
    """What a task tells the driver; `report` is None where there was nothing to do."""

    handle: TransactionHandle
    action: Action
    owner: str
    step: int
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class OnceSink:
    """What the driver knows before it begins; `run` is the owner of a batch job, None in a stream, whose query is."""

    settings: OnceSettings
    columns: SinkColumns
    run: str | None

    def steps(self, owner: str) -> Steps:
        settings = self.settings
        return Steps(settings.session(), marker=settings.marker, owner=owner, policy=settings.policy)

    def begin(self) -> tuple[TransactionHandle, OffsetAndMetadata | None]:
        """A transaction, and the marker as it is now that nobody else can commit."""
        return worker.run(self._begin())

    async def _begin(self) -> tuple[TransactionHandle, OffsetAndMetadata | None]:
        async with self.steps(self.run or "") as steps:
            return await steps.begin_unseen()

    # --- in a task

    def write(
        self, begun: tuple[TransactionHandle, OffsetAndMetadata | None], batches: Iterator[pa.RecordBatch]
    ) -> Told:
        """Write a task's rows, unless the marker says that they are there."""
        identity, step, owner = task_here(self.run)
        handle, found = begun
        action = decide(found, step, owner, self.settings.policy, self.settings.transactional_id)
        told = Told(handle, action, owner, step)
        if action is Action.WRITE:
            refuse_repetition(identity)
            told.report = self._write(handle, identity, batches)
        return told

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
        """Commit what all tasks have written, with the marker; False where it was committed before."""
        first = _first(messages)
        if first.action is Action.SKIP:
            log.info("Step %d of %s was committed before: skipped.", first.step, first.handle.transactional_id)
            return False
        reports = [message.report for message in messages if message.report is not None]
        disjoint(reports, are_tasks=False)
        worker.run(self._commit(first))
        return True

    async def _commit(self, first: Told) -> None:
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
        """Abort, where it is known what: by what a task told, else `begun`. After a commit without a clear answer the
        marker decides, and nobody here."""
        told: Told | None = next((message for message in messages if message is not None), None)
        if told is not None and told.action is Action.SKIP:
            return
        handle = begun if told is None else told.handle
        if handle is None:
            return
        try:
            worker.run(self._abort(handle))
        except AioprodError as error:
            log.warning("A transaction of %s was not aborted here: %s", handle.transactional_id, error)

    async def _abort(self, handle: TransactionHandle) -> None:
        async with self.steps(self.run or "") as steps:
            await steps.resume(handle)
            await steps.abort()


def _first(messages: Sequence[Any]) -> Told:
    """One message of a batch whose tasks all took part in the same transaction; raises UsageError."""
    found: list[Told] = [message for message in messages if message is not None]
    if not found or len(found) != len(messages):
        raise UsageError(f"Of {len(messages)} tasks only {len(found)} said what they wrote.")
    if len({(told.handle, told.action, told.owner, told.step) for told in found}) != 1:
        raise UsageError("The tasks of this batch took part in more than one transaction.", hint="Start it again.")
    return found[0]


def task_here(run: str | None) -> tuple[TaskIdentity, int, str]:
    """Which task of Spark this is, its step and whose it is."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise UsageError("There is no task of Spark here.")
    identity = TaskIdentity(context.partitionId(), 0, context.taskAttemptId(), context.attemptNumber())
    if run is not None:
        return identity, 0, run
    query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
    if not query or batch is None:
        raise UsageError("Spark does not tell which query and micro-batch this task belongs to.")
    return identity, int(batch), query


class OnceWriter:
    """What both writers do. `_begun` is made when Spark pickles them."""

    def __init__(self, sink: OnceSink) -> None:
        self._sink = sink
        self._begun: tuple[TransactionHandle, OffsetAndMetadata | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._begun is None:
            self._begun = self._sink.begin()
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Told:
        if self._begun is None:
            raise UsageError("This writer has not begun a transaction: only Spark's tasks can write with it.")
        return self._sink.write(self._begun, iterator)


class _BatchWriter(OnceWriter, datasource.DataSourceArrowWriter):
    """The object that Spark pickles is the one that commits: it knows what was begun, whatever became of the tasks."""

    def commit(self, messages: Sequence[Any]) -> None:
        self._sink.commit(messages)

    def abort(self, messages: Sequence[Any]) -> None:
        self._sink.abort(messages, None if self._begun is None else self._begun[0])


def batch_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> datasource.DataSourceArrowWriter:
    """What `df.write` writes with: one transaction under the option `run.id`, which is written once for ever.

    Raises ConfigError for options and columns that can't work, UnknownTopicError and what `check_topic` raises besides.
    """
    own = dict(options.own)
    run = own.get("run.id")
    if not run:
        raise ConfigError(
            "The option run.id is missing: it is what tells this run from another one.",
            hint="Give each run that is to be written a name of its own, and the same one to repeat it.",
        )
    return _BatchWriter(_sink(options, schema, overwrite, check_owner(run)))


def stream_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> Any:
    """What `df.writeStream` writes with. Raises what `batch_writer` raises, and UsageError where PySpark hands no Arrow
    data to streams (4.0)."""
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
    refuse_overwrite(overwrite)
    own = dict(options.own)
    settings = OnceSettings.of(
        options.kafka,
        transactional_id=own.get("transactional.id", ""),
        topic=options.topic,
        marker_topic=own.get("marker.topic"),
        when_marker_is_missing=own.get("whenmarkerismissing", Policy.REFUSE.value),
    )
    columns = sink_columns(schema, topic=options.topic, include_headers=options.include_headers)
    if "partition" not in columns:
        raise ConfigError("Exactly-once delivery needs a column partition.", hint=_NEEDED)
    if options.topic is not None and settings.marker.topic != options.topic:
        # That of the marker is looked up where a transaction begins, also before any task.
        check_topic(options)
    return OnceSink(settings, columns, run)
