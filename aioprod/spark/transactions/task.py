"""A task's part: produce its partitions in the transaction that the driver has begun, and say what was stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from aioprod.errors import AioprodError, UsageError
from aioprod.producer import Producer, TransactionHandle
from aioprod.spark import worker
from aioprod.spark.options import KafkaSettings
from aioprod.spark.sink.columns import SinkColumns
from aioprod.spark.sink.rows import Acknowledged, send_rows
from aioprod.spark.sink.written import sums_by_partition
from aioprod.spark.transactions.failures import for_the_driver, is_final
from aioprod.spark.transactions.first_batches import send_first_batches_apart
from aioprod.spark.transactions.reports import Report, batch_of

if TYPE_CHECKING:
    import pyarrow as pa

    from aioprod.types import SendResult

__all__ = ["HASH", "TaskIdentity", "WriteTask", "barrier_task", "participating"]

HASH: Final = "aioprod_hash"
"""The column of a row's hash, where receipts are wanted."""


class TaskIdentity(NamedTuple):
    """Which task of how many this is, and which attempt at it."""

    task: int
    tasks: int
    attempt: int
    """Unique among all tasks of the session."""
    tries: int
    """How often this task was tried before, in the same stage."""


@contextmanager
def participating(handle: TransactionHandle, kafka: KafkaSettings) -> Iterator[Producer]:
    """A producer in the transaction for the length of a block, for one task attempt only.

    At the end of a block that failed what is left in it is dropped: the driver aborts.
    """
    options = kafka.producer()
    options.pop("transaction_timeout_ms", None)
    producer = handle.producer(**options)
    worker.run(producer.start())
    try:
        yield producer
    except BaseException:
        worker.run(producer.close(0))
        raise
    worker.run(producer.close())


@dataclass(frozen=True)
class WriteTask:
    """Writes a task's rows in the transaction. `mapInArrow` calls the object itself, which Spark has pickled."""

    handle: TransactionHandle
    kafka: KafkaSettings
    columns: SinkColumns
    topic: str | None
    bytes_s: float | None = None
    """This task's share of the rate."""
    hash_at: int | None = None
    """The index of the column `HASH` if there are to be receipts."""
    in_barrier: bool = True
    """Whether the tasks run in a barrier: all at once, or the job fails. Otherwise Spark may run one of them again,
    which the brokers have to notice (`first_batches`)."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        identity = barrier_task()
        try:
            if self.hash_at is None:
                yield batch_of(self.write(identity, batches))
            else:
                yield from self.receipts(identity, batches)
        except AioprodError as error:
            if not is_final(error):
                raise
            raise for_the_driver(error) from error

    def write(self, identity: TaskIdentity, batches: Iterable[pa.RecordBatch]) -> Report:
        """Write a task's rows; raises UsageError for an attempt after the first, UndeliveredRowsError."""
        _check_first_attempt(identity)
        picked = map(self.columns.pick, batches)
        with participating(self.handle, self.kafka) as producer:
            if self.in_barrier:
                calls = send_rows(producer, picked, topic=self.topic, bytes_s=self.bytes_s)
            else:
                calls = send_first_batches_apart(producer, picked, topic=self.topic, attempt=identity.attempt)
            return _report_of(identity, calls)

    def receipts(self, identity: TaskIdentity, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a task's rows as `write` does; yields a row for each record, in order of offset within a partition."""
        from aioprod.spark.transactions.receipts import Receipts

        assert self.hash_at is not None
        _check_first_attempt(identity)
        taken = Receipts(self.columns, self.hash_at, identity.attempt)
        with participating(self.handle, self.kafka) as producer:
            for _, result in send_rows(producer, taken.picked(batches), topic=self.topic, bytes_s=self.bytes_s):
                yield from taken.of(result)


def _report_of(identity: TaskIdentity, calls: Iterable[Acknowledged]) -> Report:
    """What a task reports of its rows, once all calls that write them have returned."""
    results: list[SendResult] = []
    rows = 0
    for taken, result in calls:
        rows += sum(batch.num_rows for batch in taken)
        results.append(result)
    return Report(identity.task, identity.tasks, identity.attempt, rows, sums_by_partition(results))


def _check_first_attempt(identity: TaskIdentity) -> None:
    """Raise UsageError for a later attempt: what the first one wrote is in the transaction already."""
    if identity.tries > 0:
        raise UsageError(
            f"Task {identity.task} can't be tried again within a transaction: the whole step has to be.",
            hint="Nothing of it is committed; why the try before failed is in the log of its executor.",
        )


def barrier_task() -> TaskIdentity:
    """The identity of the task that calls this."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    return TaskIdentity(
        context.partitionId(), len(context.getTaskInfos()), context.taskAttemptId(), context.attemptNumber()
    )
