"""aioprod's data source with faults in its writers, in Spark's planners and tasks. See `faulty`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from aioprod.errors import TransactionUnknownError
from aioprod.producer import TransactionHandle, TransactionSession
from aioprod.spark.datasource import AioprodSource
from aioprod.spark.options import KafkaSettings
from aioprod.spark.sink.rows import send_rows
from aioprod.spark.sink.stream import StreamWriter
from aioprod.spark.transactions.sink import ExactlyOnce, task_here
from aioprod.spark.transactions.task import participating
from integration.spark.faulty import TASK_FAULTS, Faults, fail_in_task, thaw_zombie

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FaultySource"]


@dataclass(frozen=True)
class _Task:
    handle: TransactionHandle
    kafka: KafkaSettings
    topic: str
    faults: Faults
    step: int


class FaultyWriter(StreamWriter):
    """Fails where that is ordered."""

    def __init__(self, inner: Any, faults: Faults) -> None:
        super().__init__(inner._sink)
        self._once: ExactlyOnce = inner._sink
        self._faults = faults

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(self._failing(iterator))

    def _failing(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return
        identity, step, _ = task_here(None)
        assert self._once.begun is not None
        settings = self._once.settings
        if identity.task == 1:
            task = _Task(self._once.begun[0], settings.kafka, str(settings.topic), self._faults, step)
            thaw_zombie(self._faults, step)
            fault = next((name for name in TASK_FAULTS if self._faults.take(step, name)), None)
            if fault is not None:
                picked = self._once.columns.pick(first)
                with participating(task.handle, settings.kafka) as producer:
                    for _ in send_rows(producer, [picked], topic=settings.topic):
                        pass
                    fail_in_task(fault, task, picked, producer)
        yield first
        yield from batches

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803
        if self._faults.take(batchId, "before"):
            raise RuntimeError("injected: before the commit")
        lost = self._faults.take(batchId, "lost")
        commit = TransactionSession.commit

        async def faulty(session: TransactionSession) -> None:
            await commit(session)
            raise TransactionUnknownError("injected: the answer is lost")

        if lost:
            TransactionSession.commit = faulty  # type: ignore[method-assign,assignment]
        try:
            super().commit(messages, batchId)
        finally:
            TransactionSession.commit = commit  # type: ignore[method-assign]
        if self._faults.take(batchId, "after"):
            raise RuntimeError("injected: after the commit")


class FaultySource(AioprodSource):
    """`format("faulty-aioprod")`; the option `faults` is the folder."""

    @classmethod
    def name(cls) -> str:
        return "faulty-aioprod"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options: Mapping[str, str] = {name: value for name, value in self.options.items() if name != "faults"}
        inner = AioprodSource(dict(options)).streamWriter(schema=schema, overwrite=overwrite)
        return FaultyWriter(inner, Faults(Path(self.options["faults"])))
