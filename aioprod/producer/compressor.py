"""Compressing batches: small ones where they are needed, in threads those that would hold the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.states import COMPLETED
from aioprod.producer.environment import Environment, Threads
from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.compression import Compression, inline_size

__all__ = ["INLINE_S", "Compressor"]

INLINE_S: Final = 0.001
"""What compressing one batch may take on the event loop."""
_FORGET: Final = 0.9
"""How much of the slowest pace seen stays when the next batch takes less."""


class Compressor:
    """Compresses the batches of one producer, each once: small ones on the loop, large ones in a thread.

    Compressed batches take at most as much memory again as their records, which `buffer.memory` bounds.
    """

    def __init__(
        self,
        codec: Compression,
        level: int | None,
        environment: Environment,
        *,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[Batch, Exception | None], None],
    ) -> None:
        self._codec = codec
        self._level = level
        self._loop = loop
        self._ended = ended
        """Called in the loop with a batch that a thread has compressed, and with its error if it failed."""
        self._timer = environment.thread_time
        """The seconds that the present thread has run."""
        size = environment.inline_size
        self._inline_size_max = inline_size(codec, level, INLINE_S) if size is None else size
        self.inline_size = self._inline_size_max
        """Batches up to this size are compressed on the loop, as that took less than `INLINE_S` for earlier ones."""
        self._new_threads = environment.threads
        self._threads: Threads | None = None
        """None until a batch needs them; they take batches in the order in which these came."""
        self._closed = False

    def add(self, batch: Batch) -> None:
        """Compress a batch that takes no more records in a thread, if it is large; it can't be sent before that ended.

        One with withdrawn records has to be re-encoded first, and is added again then. Where no thread can be started,
        the batch is compressed on the loop like a small one.
        """
        builder = batch.builder
        if builder.size <= self.inline_size or builder.compressed or batch.withdrawn or self._closed:
            return
        batch.compressing = True
        job = [batch]
        try:
            if self._threads is None:
                self._threads = self._new_threads()
            self._threads.submit(self._work, job)
        except Exception:
            # No thread can be started. The job may be in the queue of those that run, and one of them may have it.
            if _taken(job) is not None:
                batch.compressing = False

    def compress(self, builder: RecordBatchBuilder) -> None:
        """Compress here and now; raises what the codec raises."""
        start = self._timer()
        builder.compress(self._codec, self._level)
        self._learn(builder.size, self._timer() - start)

    def close(self) -> None:
        """Start no more compressions; does not wait for the threads."""
        self._closed = True
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _work(self, job: list[Batch]) -> None:
        """Compress one batch in a thread, unless the loop took it; nothing else uses its builder meanwhile."""
        batch = _taken(job)
        if batch is None:
            return
        error: Exception | None = None
        start = self._timer()
        try:
            if batch.state != COMPLETED:
                batch.builder.compress(self._codec, self._level)
        except Exception as raised:
            error = raised
        took_s = self._timer() - start
        # In a loop that was closed meanwhile nothing waits for the batch.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._back, batch, error, took_s)

    def _back(self, batch: Batch, error: Exception | None, took_s: float) -> None:
        if batch.builder.compressed:
            self._learn(batch.builder.size, took_s)
        self._ended(batch, error)

    def _learn(self, size: int, took_s: float) -> None:
        """Adapt `inline_size` to the measured pace: some data takes a hundred times as long as usual."""
        pace = size * INLINE_S / took_s if took_s > 0.0 else self._inline_size_max
        recovered = self.inline_size / _FORGET
        self.inline_size = int(min(pace, recovered, self._inline_size_max))


def _taken(job: list[Batch]) -> Batch | None:
    """The batch of a job; None for the second caller."""
    try:
        return job.pop()
    except IndexError:
        return None
