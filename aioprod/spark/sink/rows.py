"""A task's rows on their way into a producer, and which row it was that could not be sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from aioprod.errors import AioprodError, InvalidRecordError, UndeliveredRowsError
from aioprod.spark import worker
from aioprod.types import SendResult

if TYPE_CHECKING:
    import pyarrow as pa

    from aioprod.producer import Producer

__all__ = ["Acknowledged", "send_rows"]

_CALL_BYTES: Final = 32 * 1024 * 1024
"""After so many bytes the outcome of all before is waited for: what a task holds of its rows stays bounded, and a task
that has to fail does so soon."""

Acknowledged = tuple["list[pa.RecordBatch]", SendResult]
"""Some of a task's batches, of which every row was acknowledged, and their offsets."""


def send_rows(
    producer: Producer, batches: Iterable[pa.RecordBatch], *, topic: str | None, bytes_s: float | None = None
) -> Iterator[Acknowledged]:
    """Send a task's batches in their order, at most `bytes_s` bytes in a second; yields them as they are acknowledged.

    Each batch has the columns of a record and no other. Raises UndeliveredRowsError, which names the first of the
    rows that can't be delivered, and whatever the computation of the batches raises.
    """
    feed = _Feed(batches, bytes_s)
    while feed.more():
        try:
            result = feed.through(producer, topic)
        except InvalidRecordError as error:
            if not feed.taken:
                raise
            # All rows of the call are invalid for this reason.
            count = sum(batch.num_rows for batch in feed.taken)
            raise _undelivered(feed.taken, topic, 0, error, count) from error
        if failures := result.failures:
            index, first = min(failures, key=lambda failure: failure[0])
            raise _undelivered(feed.taken, topic, index, first, len(failures)) from first
        yield feed.taken, result


class _Feed:
    """The batches as streams of Arrow data, each with as many bytes as one call is given."""

    def __init__(self, batches: Iterable[pa.RecordBatch], bytes_s: float | None) -> None:
        self._batches = iter(batches)
        self._pace = None if bytes_s is None else _Pace(bytes_s)
        self._next: pa.RecordBatch | None = None
        self._failure: BaseException | None = None
        self.taken: list[pa.RecordBatch] = []

    def more(self) -> bool:
        """Whether there is another row; reads on as far as that takes."""
        while self._next is None or not self._next.num_rows:
            self._next = next(self._batches, None)
            if self._next is None:
                return False
        return True

    def through(self, producer: Producer, topic: str | None) -> SendResult:
        import pyarrow as pa

        assert self._next is not None
        self.taken = []
        stream = pa.RecordBatchReader.from_batches(self._next.schema, self._some())
        try:
            return worker.run(producer.send_arrow(stream, topic=topic))
        except Exception:
            if self._failure is not None:
                raise self._failure from None
            raise

    def _some(self) -> Iterator[pa.RecordBatch]:
        """Called from a worker thread of the loop, while the task's own thread waits."""
        size = 0
        try:
            while size < _CALL_BYTES and self.more():
                batch, self._next = self._next, None
                assert batch is not None
                size += batch.nbytes
                self.taken.append(batch)
                if self._pace is not None:
                    self._pace.wait(batch.nbytes)
                yield batch
        except BaseException as failure:
            # What passes through an Arrow stream arrives as text.
            self._failure = failure
            raise


class _Pace:
    """Lets bytes through at a steady rate; what was not used is kept for no longer than a second."""

    def __init__(
        self,
        bytes_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_s = bytes_s
        self._clock = clock
        self._sleep = sleep
        self._due = clock()

    def wait(self, size: int) -> None:
        now = self._clock()
        self._due = max(self._due, now - 1.0)
        if self._due > now:
            self._sleep(self._due - now)
        self._due += size / self._bytes_s


_KEY_SHOWN: Final = 80


def _undelivered(
    batches: list[pa.RecordBatch], topic: str | None, index: int, error: AioprodError, count: int
) -> UndeliveredRowsError:
    """The error for `count` rows, of which the one at `index` of the batches is the first."""
    for batch in batches:
        if index < batch.num_rows:
            break
        index -= batch.num_rows
    row = {name: batch.column(name)[index].as_py() for name in batch.schema.names if name in ("key", "value", "topic")}
    key, value = row.get("key"), row.get("value")
    shown = repr(key) if key is None or len(key) <= _KEY_SHOWN else f"{key[:_KEY_SHOWN]!r}..."
    size = 0 if value is None else len(value if isinstance(value, bytes) else value.encode())
    return UndeliveredRowsError(
        f"{'A row' if count == 1 else f'{count} rows, the first one'} with the key {shown} and a value of {size} bytes "
        f"can't be delivered to topic {row.get('topic', topic)!r}: {error}"
    )
