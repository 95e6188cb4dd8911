"""Reading everything back with a client that shares no code with aioprod: confluent-kafka, on librdkafka."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from examples.demo.compare import Digests

__all__ = ["read_back"]

BATCH = 10_000
SILENCE_S_MAX = 30.0
"""A broker that says nothing for so long will not say anything any more."""


def read_back(bootstrap_servers: str, topic: str, partitions: int, show: Callable[[int, str], None]) -> Digests:
    """Read a topic from its beginning to its end and digest it; blocks. `show(records, rate)` is called per batch.

    Raises KafkaException for what librdkafka reports, also when the checksum of a batch is wrong, and TimeoutError when
    nothing arrives for 30 s.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "aioprod-demo",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        return _read_assigned(consumer, partitions, show)
    finally:
        consumer.close()


def _read_assigned(consumer: Consumer, partitions: int, show: Callable[[int, str], None]) -> Digests:
    digests = Digests()
    count = 0
    start = last_arrival = time.perf_counter()
    open_partitions = set(range(partitions))
    while open_partitions:
        messages = consumer.consume(BATCH, timeout=0.1)
        now = time.perf_counter()
        if messages:
            last_arrival = now
        elif now - last_arrival > SILENCE_S_MAX:
            raise TimeoutError(f"No record and no end of a partition for {SILENCE_S_MAX:.0f} s; {count:,} were read.")
        for message in messages:
            error = message.error()
            if error is None:
                digests[message.key()].add(message.value())
                count += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            else:
                raise KafkaException(error)
        show(count, f"{count / (now - start):,.0f}/s")
    return digests
