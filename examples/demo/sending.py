"""The demo's main job: as many records as there are, as fast as they go, and how long each took to be acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from aioprod import Producer, RecordMetadata
from aioprod.errors import AioprodError, BufferFullError
from aioprod.metrics import Histogram
from examples.demo.compare import Digests
from examples.demo.source import Source

__all__ = ["Sent", "send"]

BURST = 256
"""Records that are handed over before the event loop gets a turn: that is when they leave."""
SAMPLED = 32
"""Of so many records one is timed from its send to its acknowledgement."""
SHOWN_EVERY_S = 0.1


@dataclass(slots=True)
class Sent:
    """What was sent; `latency` has the milliseconds from send to acknowledgement of the sampled records."""

    digests: Digests = field(default_factory=Digests)
    value_bytes: int = 0
    seconds: float = 0.0
    acknowledged: int = 0
    errors: list[AioprodError] = field(default_factory=list)
    latency: Histogram = field(default_factory=lambda: Histogram("latency", "From send to acknowledgement, in ms."))

    @property
    def rate(self) -> float:
        """Acknowledged records per second."""
        return self.acknowledged / self.seconds if self.seconds else 0.0

    def describe(self) -> str:
        """Rate and percentiles, for the progress bar."""
        p50, p99 = self.latency.percentile(50), self.latency.percentile(99)
        return f"{self.rate:,.0f}/s  acknowledged after p50 {p50:.1f} ms, p99 {p99:.1f} ms"

    def timed(self) -> Callable[[RecordMetadata | None, AioprodError | None], None]:
        """A delivery callback that times its record from now on."""
        start = time.perf_counter()

        def on_delivery(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
            if error is None:
                self.latency.record((time.perf_counter() - start) * 1000)
            else:
                self.errors.append(error)

        return on_delivery


async def send(
    producer: Producer, topic: str, sources: Iterable[Source], sent: Sent, show: Callable[[int, str], None]
) -> None:
    """Send each line of each source, and wait until all have their outcome, which goes to `sent`.

    `show(acknowledged, rate and percentiles)` is called now and then. Records that fail without being sampled go to the
    producer's `on_error`.
    """
    start = shown = time.perf_counter()
    count = 0
    for source in sources:
        for line in source.lines():
            on_delivery = sent.timed() if count % SAMPLED == 0 else None
            try:
                producer.send_nowait(topic, line, key=source.key, on_delivery=on_delivery)
            except BufferFullError:
                await producer.drain()
                producer.send_nowait(topic, line, key=source.key, on_delivery=on_delivery)
            sent.digests[source.key].add(line)
            sent.value_bytes += len(line)
            count += 1
            if count % BURST:
                continue
            await producer.drain()
            now = time.perf_counter()
            if now - shown >= SHOWN_EVERY_S:
                shown = now
                sent.seconds = now - start
                sent.acknowledged = count - producer.buffered.records - len(sent.errors)
                show(sent.acknowledged, sent.describe())
    await producer.flush()
    sent.seconds = time.perf_counter() - start
    sent.acknowledged = count - len(sent.errors)
    show(sent.acknowledged, sent.describe())
