"""The first batch of each partition has a size that distinguishes one attempt at a task from another.

Spark may run a task a second time in a way that the task can't see (after an executor was lost, the attempts of a new
stage count from 0 again). A broker takes a second writer's first batch for a repetition, and answers that all is well,
if it has as many rows as the first writer's; with another number it rejects it (OUT_OF_ORDER_SEQUENCE_NUMBER), and the
batch fails, as it has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from aioprod.errors import ConfigError
from aioprod.spark.sink.rows import Acknowledged, send_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from aioprod.producer import Producer

__all__ = ["PARTITION_NEEDED", "send_first_batches_apart"]

PARTITION_NEEDED: Final = (
    "All rows of a partition have to be in one task: write aioprod.spark.partitioning.co_partitioned(df, ...)."
)
_SIZES: Final = 97


def send_first_batches_apart(
    producer: Producer, batches: Iterable[pa.RecordBatch], *, topic: str | None, attempt: int
) -> Iterator[Acknowledged]:
    """As `send_rows`, but the first rows of each partition go alone and are waited for: 1 to 97, as `attempt` says.

    Raises ConfigError for a row without a partition.
    """
    split = _Split(batches, attempt, topic is None)
    while True:
        yield from send_rows(producer, split.of_known(), topic=topic)
        first = split.take_first()
        if first is None:
            return
        yield from send_rows(producer, [first], topic=topic)


class _Split:
    """A task's batches, parted where a partition has its first rows."""

    def __init__(self, batches: Iterable[pa.RecordBatch], attempt: int, by_topic: bool) -> None:
        self._batches = iter(batches)
        self._attempt = attempt
        self._by_topic = by_topic
        self._known: set[tuple[str | None, int]] = set()
        self._first: pa.RecordBatch | None = None
        self._rest: pa.RecordBatch | None = None

    def take_first(self) -> pa.RecordBatch | None:
        """The first rows of the partitions at which `of_known` ended; None at the end."""
        first, self._first = self._first, None
        return first

    def of_known(self) -> Iterator[pa.RecordBatch]:
        """Batches until one comes with a new partition: that one is split."""
        if self._rest is not None:
            rest, self._rest = self._rest, None
            yield rest
        for batch in self._batches:
            if self._split(batch):
                return
            yield batch

    def _split(self, batch: pa.RecordBatch) -> bool:
        import pyarrow as pa

        if batch.column("partition").null_count:
            raise ConfigError("The column partition of a row is null.", hint=PARTITION_NEEDED)
        rows: dict[tuple[str | None, int], list[int]] = {}
        topics = batch.column("topic").to_pylist() if self._by_topic else [None] * batch.num_rows
        for row, place in enumerate(zip(topics, batch.column("partition").to_pylist(), strict=True)):
            if place not in self._known:
                rows.setdefault(place, []).append(row)
        if not rows:
            return False
        self._known.update(rows)
        chosen = {row for of in rows.values() for row in of[: 1 + self._attempt % min(_SIZES, len(of))]}
        mask = pa.array([row in chosen for row in range(batch.num_rows)], pa.bool_())
        others = pa.array([row not in chosen for row in range(batch.num_rows)], pa.bool_())
        self._first, self._rest = batch.filter(mask), batch.filter(others)
        return True
