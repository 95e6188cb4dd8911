"""`exactly_once`: a stream into Kafka whose micro-batches are each visible once, whatever fails on the way."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from aioprod.errors import AioprodError, ConfigError, UsageError
from aioprod.spark.sink.columns import sink_columns
from aioprod.spark.transactions.slots import check_session, check_tasks
from aioprod.spark.transactions.transaction import Transactions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["EachBatch", "exactly_once"]

_logger = logging.getLogger(__name__)

_APPENDED: Final = "append"
_LOOKS_EVERY_S: Final = 0.5
"""How often it is looked whether a query still runs, to close what it had open."""


class EachBatch:
    """What `foreachBatch` calls: writes each micro-batch in a transaction. One object for one query's life."""

    def __init__(self, kafka: Mapping[str, Any], **options: Any) -> None:
        self._kafka = kafka
        self._options = options
        self._transactions: Transactions | None = None
        self._lock = threading.RLock()
        self._is_over = False

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write one micro-batch; its transactions belong to the query that Spark runs just now."""
        with self._lock:
            if self._is_over:
                # Spark may call once more for a micro-batch that it stops: nothing would end what began here.
                raise UsageError("The query is over: this micro-batch belongs to its next life.")
            if self._transactions is None:
                self._transactions = self.transactions(query_of(df))
                self._transactions.start()
            try:
                self._transactions.write(df, batch_id)
            except BaseException:
                # Spark ends the query: nothing is written with these any more.
                self.close()
                raise

    def transactions(self, owner: str) -> Transactions:
        """The transactions of the query `owner`, whose id is known from its first micro-batch on."""
        return Transactions(self._kafka, owner=owner, **self._options)

    def close(self) -> None:
        """Close the connections, after the micro-batch that is being written if there is one."""
        with self._lock:
            transactions, self._transactions = self._transactions, None
            if transactions is not None:
                transactions.close()

    def close_after(self, query: StreamingQuery) -> None:
        """Close when the query is over, however it ends."""
        from pyspark import InheritableThread

        # Spark's kind of thread: it gives back what its calls have open in the JVM.
        InheritableThread(
            target=self._close_after, args=(query,), name="aioprod.spark.transactions", daemon=True
        ).start()

    def _close_after(self, query: StreamingQuery) -> None:
        # `awaitTermination` would raise a second time what the user gets from it, and PySpark logs what it raises.
        while _is_active(query):
            time.sleep(_LOOKS_EVERY_S)
        try:
            with self._lock:
                self._is_over = True
                self.close()
        except AioprodError as error:
            _logger.warning("The connections of a query that is over did not close: %s", error)


def _is_active(query: StreamingQuery) -> bool:
    try:
        return query.isActive
    except Exception:  # of no kind in particular: the JVM is gone, so that nothing runs in it
        return False


def query_of(df: DataFrame) -> str:
    """The id of the query whose micro-batch this is: the same for all lives of a checkpoint."""
    query = df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query:
        raise UsageError("Only a streaming query's foreachBatch can call this: there is no query here.")
    return str(query)


def exactly_once(
    stream_df: DataFrame,
    *,
    transactional_id: str,
    bootstrap_servers: str,
    topic: str | None = None,
    checkpoint_location: str,
    partitioner: str = "murmur2",
    trigger: Mapping[str, Any] | str | None = None,
    order_by: str | None = None,
    tasks: int | None = None,
    marker_topic: str | None = None,
    when_marker_is_missing: str = "refuse",
    attempts: int = 4,
    output_mode: str = _APPENDED,
    query_name: str | None = None,
    include_headers: bool = True,
    **options: Any,
) -> StreamingQuery:
    """Start a query that writes a stream's rows to Kafka, each micro-batch in one transaction, exactly once.

    `stream_df` has the sink's columns: value, and key, topic, partition, headers, timestamp if wanted. Nothing but this
    query may have `transactional_id`; `checkpoint_location` is its memory, and belongs to it alone. `trigger` is what
    `DataStreamWriter.trigger` takes, as a mapping, or a processing time ("10 seconds"). Rows go to the partition that
    their column `partition` says, else to that of `partitioner` for their key; those without a key are spread whatever
    it is, as Java's producer does. Within a partition they are sorted by `order_by`. `options` are settings of the
    producer (`compression_type="zstd"`, `transaction_timeout_ms=60_000`). `tasks` is how many write: all slots if None,
    and fewer while an executor is missing.

    Failures of tasks, executors and brokers are met by running the micro-batch again, up to `attempts` times in all;
    after the driver's death the same call continues where it was. docs/spark.md says what is guaranteed.

    Raises, before anything runs: ConfigError, UsageError (no streaming data frame, Spark Connect), UnknownTopicError,
    UnsupportedVersionError (brokers before 3.0), MetadataTimeoutError.
    """
    if not stream_df.isStreaming:
        raise UsageError(
            "The data frame is not a stream: it has no micro-batches.",
            hint='Write it with df.write.format("aioprod").option("delivery", "exactly-once").',
        )
    check_session(stream_df.sparkSession)
    if output_mode.lower() != _APPENDED:
        raise _not_appended(output_mode)
    sink_columns(stream_df.schema, topic=topic, include_headers=include_headers)
    kafka = {"bootstrap_servers": bootstrap_servers, **options}
    each = EachBatch(
        kafka,
        transactional_id=transactional_id,
        topic=topic,
        marker_topic=marker_topic,
        partitioner=partitioner,
        order_by=order_by,
        tasks=tasks,
        when_marker_is_missing=when_marker_is_missing,
        attempts=attempts,
        include_headers=include_headers,
    )
    # The owner of the transactions is known when the query runs; all the rest is checked now.
    with each.transactions("unknown"):
        check_tasks(stream_df.sparkSession, tasks)
    writer = stream_df.writeStream.foreachBatch(each).option("checkpointLocation", checkpoint_location)
    if query_name is not None:
        writer = writer.queryName(query_name)
    if trigger is not None:
        writer = writer.trigger(**({"processingTime": trigger} if isinstance(trigger, str) else trigger))
    started = _started(writer)
    each.close_after(started)
    return started


def _started(writer: DataStreamWriter) -> StreamingQuery:
    from pyspark.errors import AnalysisException

    try:
        return writer.start()
    except AnalysisException as error:
        if "output mode" not in str(error).lower() and "OUTPUT_MODE" not in str(error):
            raise
        raise _not_appended(_APPENDED) from error


def _not_appended(mode: str) -> AioprodError:
    what = (
        "The stream's rows can't be appended: an aggregation without a watermark changes those that it gave out."
        if mode == _APPENDED
        else f"The output mode is {mode!r}: what is in Kafka can't be changed, so that there is only 'append'."
    )
    return ConfigError(what, hint="Give the stream a watermark (withWatermark), or write changes as rows of their own.")
