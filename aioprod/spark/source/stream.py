"""The source of a stream: offsets from trigger to trigger, `spark.readStream.format("aioprod")`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from aioprod.reader.offsets import LATEST
from aioprod.spark import worker
from aioprod.spark.offsets import Cluster, Offsets, lost
from aioprod.spark.source.options import Limit, SourceOptions
from aioprod.spark.source.ranges import Stretch, shares, split_stretches
from aioprod.spark.source.rows import rows
from aioprod.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamReader"]

try:
    from pyspark.sql.streaming import datasource as _limits
except ImportError:  # PySpark 4.0 and 4.1, which have no admission control.
    _limits = None  # type: ignore[assignment,unused-ignore]

_LATEST: Final = Limit("startingOffsets", LATEST)
_Base: Any = (
    (DataSourceStreamReader,) if _limits is None else (DataSourceStreamReader, _limits.SupportsTriggerAvailableNow)
)


class StreamReader(*_Base):  # type: ignore[misc]
    """All but `read` is called in one process of the driver that lives as long as the query; `read` in the tasks.

    Offsets are those of `Offsets.to_json`: the next ones to be read. A partition that is not in the start of a
    micro-batch is new: it is read from its earliest offset.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._initial: Offsets | None = None
        self._known: Offsets | None = None
        self._latest: Offsets | None = None
        self._target: Offsets | None = None

    # --- offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins. Raises ConfigError for offsets or times that don't suit the topics.

        Spark calls this more than once and gets the same answer, although the topics may have grown meanwhile.
        """
        if self._initial is None:
            cluster = Cluster(self._options)
            found = cluster.partitions()
            begins = cluster.resolve(found.of, self._options.start or _LATEST)
            self._known = self._initial = Offsets(begins, found.ids)
            if self._target is not None:  # Looked up before this: a query must not end before it begins.
                ends = {tp: max(begin, self._target.of.get(tp, begin)) for tp, begin in begins.items()}
                self._target = Offsets({**self._target.of, **ends}, found.ids)
        return self._initial.to_json()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """How far the next micro-batch goes. PySpark before 4.2 gives neither argument.

        Raises BrokerError for offsets that are gone, as `partitions` does, but before Spark has noted the batch.
        """
        known = self._known if start is None else Offsets.from_json(start)
        cluster = Cluster(self._options)
        self._latest = latest = self._ends(cluster)
        end = latest.of
        if known is not None:
            if self._options.fail_on_data_loss:
                _check_kept(self._options, known, latest)
            rows_max = self._rows_max(start, limit)
            if rows_max is not None:
                end = _limited(cluster, known, latest, rows_max)
        self._known = Offsets(end, latest.ids)
        return self._known.to_json()

    def _ends(self, cluster: Cluster) -> Offsets:
        """Where the partitions end now, or where they ended when a query began that is to read no further."""
        found = cluster.partitions()
        latest = cluster.latest(found.of)
        if self._target is not None:
            target = self._target.of
            latest = {tp: min(offset, target[tp]) for tp, offset in latest.items() if tp in target}
        return Offsets(latest, found.ids)

    def _rows_max(self, start: dict[str, Any] | None, limit: Any) -> int | None:
        if start is None or _limits is None:
            return self._options.offsets_per_trigger
        return limit.max_rows if isinstance(limit, _limits.ReadMaxRows) else None

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """What maxOffsetsPerTrigger says, in Spark's words."""
        rows_max = self._options.offsets_per_trigger
        return _limits.ReadAllAvailable() if rows_max is None else _limits.ReadMaxRows(rows_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query is to read what there is now, and end."""
        self._target = self._ends(Cluster(self._options))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Where the partitions ended when they were last looked at."""
        return None if self._latest is None else self._latest.to_json()

    # --- a micro-batch

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Stretch]:
        """What each task of a micro-batch is to read.

        Raises BrokerError for offsets that are gone, unless failOnDataLoss is false.
        """
        self._known = Offsets.from_json(end)
        if start == end:
            return []
        begin = Offsets.from_json(start)
        if self._initial is not None and start == self._initial.to_json():
            begin = _not_after(begin, self._known, self._options.start or _LATEST)
        return split_stretches(
            self._stretches(begin, self._known),
            min_partitions=self._options.min_partitions,
            records_per_partition=self._options.records_per_partition,
        )

    def _stretches(self, start: Offsets, end: Offsets) -> Iterator[Stretch]:
        options = self._options
        cluster = Cluster(options)
        there = cluster.partitions()
        _check_kept(options, start, end)
        _check_kept(options, end, there, with_offsets=False)
        left = [tp for tp in end.of if tp in there.of and not end.id_changed(tp.topic, there)]
        for tp, first in cluster.earliest(left).items():
            name = f"{tp.topic}-{tp.partition}"
            until = end.of[tp]
            begin = None if start.id_changed(tp.topic, end) else start.of.get(tp)
            if tp not in start.of and first > 0:
                lost(options, f"{name} is new, and begins at offset {first}: what was before is gone")
            elif begin is not None and begin < first and begin < until:
                lost(
                    options, f"Offsets {begin} to {min(first, until) - 1} of {name} are gone: its log begins at {first}"
                )
            if begin is not None and begin > until:
                # The log is shorter. Of the same topic no record is read again; where ids are not known, what ends
                # before it began is another log of that name.
                begin = until if tp.topic in start.ids and tp.topic in end.ids else None
            begin = first if begin is None else max(begin, first)
            if begin < until:
                yield Stretch(*tp, begin, until, end.ids.get(tp.topic))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one of `partitions`."""
        return rows(self._options, self._schema, partition) if isinstance(partition, Stretch) else iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept in Kafka: the checkpoint has it."""

    def stop(self) -> None:
        """The query has ended, and so does the process."""
        worker.stop()


def _check_kept(options: SourceOptions, known: Offsets, now: Offsets, *, with_offsets: bool = True) -> None:
    """Report topics that were created again, partitions that are gone and, `with_offsets`, logs that are shorter
    now. Raises BrokerError unless failOnDataLoss is false."""
    for topic in known.ids:
        if known.id_changed(topic, now):
            lost(options, f"Topic {topic!r} was deleted and created again: what was not read of it is gone")
    for tp, offset in known.of.items():
        name = f"{tp.topic}-{tp.partition}"
        if tp not in now.of:
            lost(options, f"{name} is gone, and what was after offset {offset} with it")
        elif with_offsets and now.of[tp] < offset and not known.id_changed(tp.topic, now):
            lost(options, f"{name} was read up to offset {offset}, and ends at {now.of[tp]} now")


def _not_after(begin: Offsets, end: Offsets, limit: Limit) -> Offsets:
    """The beginning of a query whose first end was noted before it: what came between is of the next micro-batch.

    PySpark before 4.2 calls for the end first. After a restart a first micro-batch that was not committed is planned
    again, to the end that it had, from a beginning that is looked up again. An offset that was given stays.
    """
    given = {} if limit.is_time or limit.partitions is None else limit.partitions
    found = {
        tp: offset if given.get(tp, LATEST) >= 0 else min(offset, end.of.get(tp, -1)) for tp, offset in begin.of.items()
    }
    return Offsets({tp: offset for tp, offset in found.items() if offset >= 0}, begin.ids)


def _limited(cluster: Cluster, known: Offsets, latest: Offsets, rows_max: int) -> dict[TopicPartition, int]:
    """How far each partition is read by a micro-batch of so many rows."""
    new = [tp for tp in latest.of if tp not in known.of or known.id_changed(tp.topic, latest)]
    begins = {**known.of, **cluster.earliest(new)}
    sizes = {tp: max(0, offset - begins[tp]) for tp, offset in latest.of.items()}
    share = shares(sizes, rows_max)
    return {tp: offset if not sizes[tp] else begins[tp] + share[tp] for tp, offset in latest.of.items()}
