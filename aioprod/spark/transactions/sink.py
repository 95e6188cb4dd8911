"""Exactly once as an option of the data source: `option("delivery", "exactly-once")`, for streams and batches.

Tasks write as those of `Transactions` do, and the driver ends the transaction by the same `Steps`. But Spark does the
driving: no barrier keeps the tasks together, so that Spark may rerun one alone. Its first records would then be in the
transaction twice: such a task raises, and the whole batch has to run again, by a restart of the query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from aioprod.errors import AioprodError, ConfigError, TransactionUnknownError, UsageError
from aioprod.producer import TransactionHandle
from aioprod.spark import worker
from aioprod.spark.options import SinkOptions
from aioprod.spark.sink.at_least_once import check_topic
from aioprod.spark.sink.columns import SinkColumns, sink_columns
from aioprod.spark.transactions.first_batches import PARTITION_NEEDED
from aioprod.spark.transactions.marker import Action, Policy, check_owner, decide
from aioprod.spark.transactions.reports import Report, disjoint
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.steps import Steps
from aioprod.spark.transactions.task import TaskIdentity, WriteTask
from aioprod.types import OffsetAndMetadata

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ExactlyOnce", "TaskMessage"]

_logger = logging.getLogger(__name__)


@dataclass
class TaskMessage(datasource.WriterCommitMessage):
    """What a task returns to the driver."""

    handle: TransactionHandle
    action: Action
    owner: str
    step: int
    report: Report | None = None
    """None if the task had nothing to write."""


class ExactlyOnce:
    """The sink of rows that are visible once. Each attempt at a (micro-)batch is one transaction of all its tasks."""

    def __init__(self, settings: OnceSettings, columns: SinkColumns, run: str | None) -> None:
        self.settings: Final = settings
        self.columns: Final = columns
        self.run: Final = run
        """The owner of the steps of a batch job; None in a stream, whose query owns them."""
        self.begun: tuple[TransactionHandle, OffsetAndMetadata | None] | None = None
        """The transaction, and the marker as it was found; None until Spark pickles the sink."""

    @classmethod
    def of(cls, options: SinkOptions, schema: StructType, *, is_stream: bool) -> Self:
        """Check all that can be on the driver; a batch is written once under its option `run.id`.

        Raises ConfigError for options and columns that can't work, UnknownTopicError and what `check_topic` raises
        besides.
        """
        own = dict(options.own)
        run = own.get("run.id")
        if is_stream and run is not None:
            raise ConfigError("The option run.id belongs to batches: a stream is known by its checkpoint.")
        if not is_stream and not run:
            raise ConfigError(
                "The option run.id is missing: it is what distinguishes this run from others.",
                hint="Give each run that is to be written a name of its own, and the same one to repeat it.",
            )
        settings = OnceSettings.of(
            options.kafka,
            transactional_id=own.get("transactional.id", ""),
            topic=options.topic,
            marker_topic=own.get("marker.topic"),
            when_marker_is_missing=own.get("whenmarkerismissing", Policy.REFUSE.value),
        )
        columns = sink_columns(schema, topic=options.topic, include_headers=options.include_headers)
        if "partition" not in columns:
            raise ConfigError("Exactly-once delivery needs a column partition.", hint=PARTITION_NEEDED)
        if options.topic is not None and settings.marker.topic != options.topic:
            # The marker's own topic is checked when a transaction begins, which is before any task as well.
            check_topic(options)
        return cls(settings, columns, None if run is None else check_owner(run))

    def __getstate__(self) -> dict[str, Any]:
        """Begin the transaction, which fences all earlier ones, unless it was begun.

        Spark creates sinks wherever it needs one, but pickles one once for each attempt at a (micro-)batch: on the
        driver, and before any task runs. The tasks' messages carry the transaction to `commit`.
        """
        if self.begun is None:
            self.begun = worker.run(self._begin())
        return self.__dict__

    async def _begin(self) -> tuple[TransactionHandle, OffsetAndMetadata | None]:
        async with self._steps(self.run or "") as steps:
            return await steps.begin_unseen()

    def _steps(self, owner: str) -> Steps:
        settings = self.settings
        return Steps(settings.session(), marker=settings.marker, owner=owner, policy=settings.policy)

    # --- in a task

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write a task's rows, unless the marker says that they were committed before."""
        if self.begun is None:
            raise UsageError("This writer has not begun a transaction: only Spark's tasks can write with it.")
        identity, step, owner = task_here(self.run)
        handle, found = self.begun
        settings = self.settings
        action = decide(found, step, owner, settings.policy, settings.transactional_id)
        message = TaskMessage(handle, action, owner, step)
        if action is Action.WRITE:
            task = WriteTask(handle, settings.kafka, self.columns, settings.topic, in_barrier=False)
            message.report = task.write(identity, batches)
        return message

    # --- on the driver again

    def commit(self, messages: Sequence[Any], what: str) -> None:
        """Commit what all tasks have written, together with the marker, unless it was committed before."""
        first = _first(messages)
        if first.action is Action.SKIP:
            transactional_id = first.handle.transactional_id
            _logger.info("%s, step %d of %s, was committed before: skipped.", what, first.step, transactional_id)
            return
        reports = [message.report for message in messages if message.report is not None]
        disjoint(reports, are_tasks=False)
        worker.run(self._commit(first))

    async def _commit(self, first: TaskMessage) -> None:
        async with self._steps(first.owner) as steps:
            await steps.resume(first.handle)
            try:
                await steps.commit(first.step)
            except TransactionUnknownError:
                if not await steps.is_committed(first.step):
                    raise

    def abort(self, messages: Sequence[Any], what: str) -> None:
        """Abort the transaction of the first task that returned a message, else the one that was begun here.

        After a commit whose answer was lost the abort changes nothing: the marker decides when the batch runs again.
        """
        first: TaskMessage | None = next((message for message in messages if message is not None), None)
        if first is not None and first.action is Action.SKIP:
            return
        if first is not None:
            handle = first.handle
        elif self.begun is not None:  # A batch's sink is the one that was pickled.
            handle, _ = self.begun
        else:
            return
        try:
            worker.run(self._abort(handle))
        except AioprodError as error:
            _logger.warning("%s: a transaction of %s was not aborted here: %s", what, handle.transactional_id, error)

    async def _abort(self, handle: TransactionHandle) -> None:
        async with self._steps(self.run or "") as steps:
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
