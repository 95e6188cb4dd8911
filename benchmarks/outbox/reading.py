"""When each order can be read in Kafka, by an independent consumer with read_committed."""

from __future__ import annotations

import json
import threading
import time

from confluent_kafka import Consumer, TopicPartition

__all__ = ["Reading"]


class Reading:
    """Reads a topic in a thread, until it is closed."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 500,
            }
        )
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        self._read: list[tuple[bytes, float]] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._read)

    @property
    def span_s(self) -> float:
        """From the first record to the last one."""
        return self._read[-1][1] - self._read[0][1]

    def times(self) -> dict[str, float]:
        """When each order was there, by its id, in monotonic seconds."""
        return {json.loads(value)["id"]: at for value, at in self._read}

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._ends.is_set():
            messages = [self._consumer.poll(0.1)]
            if messages[0] is not None:
                messages += self._consumer.consume(10_000, 0)
            now = time.monotonic()
            self._read += [(m.value() or b"", now) for m in messages if m is not None and m.error() is None]
