"""The first batch of each partition has a size that distinguishes one attempt at a task from another.

Spark may run a task a second time in a way that the task can't see (after an executor was lost, the attempts of a new
stage count from 0 again). A broker takes a second writer's first batch for a repetition, and answers that all is well,
if it has as many rows as the first writer's; with another number it rejects it (OUT_OF_ORDER_SEQUENCE_NUMBER), and the
batch fails, as it has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from aioprod.spark.sink.rows import Sent, sent

if TYPE_CHECKING:
    import pyarrow as pa

    from aioprod.producer import Producer

__all__ = ["guarded"]

_SIZES: Final = 97


def guarded(
    producer: Producer, batches: Iterable[pa.RecordBatch], *, topic: str | None, attempt: int
) -> Iterator[Sent]:
    """As `sent`; the first rows of each partition, 1 to 97 of them as `attempt` says, go alone and are waited for."""
    return _Guarded(batches, attempt, topic is None).sent(producer, topic)


class _Guarded:
    def __init__(self, batches: Iterable[pa.RecordBatch], attempt: int, by_topic: bool) -> None:
        self._batches = iter(batches)
        self._attempt = attempt
        self._by_topic = by_topic
        self._known: set[tuple[str | None, int]] = set()
        self._first: pa.RecordBatch | None = None
        self._rest: pa.RecordBatch | None = None

    def sent(self, producer: Producer, topic: str | None) -> Iterator[Sent]:
        while True:
            yield from sent(producer, self._of_known(), topic=topic)
            if self._first is None:
                return
            first, self._first = self._first, None
            yield from sent(producer, [first], topic=topic)

    def _of_known(self) -> Iterator[pa.RecordBatch]:
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
