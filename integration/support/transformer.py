"""A program that reads one topic and writes another, with its offsets in its transactions: killed at any time, and
started again, it writes each record once.

    python -m integration.support.transformer aioprod SERVERS INPUT OUTPUT GROUP SEED

Prints a line for each transaction that was committed, and "done" when the input was read to its end. It is the only
member of its group, by its transactional id: a new process fences the one before, and only then fetches its offsets.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Final

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message

from aioprod import TopicPartition
from integration.support.transactional import CLIENTS, TIMEOUT_S, Ended, Record

ABORTED_SHARE: Final = 0.15


class Input:
    """The topic that is read: the next offset of each partition, and whether all was read."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # It is this that makes it wait for offsets of a transaction that is still ending (KIP-447).
                "isolation.level": "read_committed",
            }
        )
        self.next: dict[int, int] = {}
        self._topic = topic
        self._read: set[int] = set()

    @property
    def is_read(self) -> bool:
        return self._read >= self.next.keys()

    def open(self) -> None:
        """Begin where the group is."""
        indexes = self.consumer.list_topics(self._topic, TIMEOUT_S).topics[self._topic].partitions
        places = [confluent_kafka.TopicPartition(self._topic, index) for index in indexes]
        self.next = {place.partition: max(place.offset, 0) for place in self.consumer.committed(places, TIMEOUT_S)}
        self.seek()

    def seek(self) -> None:
        """Read (again) from where the group is."""
        self._read.clear()
        self.consumer.assign(
            [
                confluent_kafka.TopicPartition(self._topic, index, offset or OFFSET_BEGINNING)
                for index, offset in self.next.items()
            ]
        )

    def some(self, count: int) -> list[Message]:
        """What comes in a moment, `count` records at most."""
        messages = []
        for message in self.consumer.consume(count, timeout=0.2):
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._read.add(partition)
        return messages


def transformed(message: Message) -> Record:
    """What is written for a record: the partition stays, so that the order can be checked."""
    partition, value = message.partition(), message.value()
    assert partition is not None
    assert isinstance(value, bytes)
    return partition, b"<" + value + b">"


async def main(client: str, bootstrap_servers: str, source: str, target: str, group: str, seed: str) -> None:
    chance = random.Random(seed)
    producer = CLIENTS[client](bootstrap_servers, f"{group}-transformer", group)
    await producer.start()
    reading = Input(bootstrap_servers, source, group)
    await asyncio.to_thread(reading.open)
    while not reading.is_read:
        messages = await asyncio.to_thread(reading.some, chance.randrange(1, 300))
        if not messages:
            continue
        after = dict(reading.next)
        for message in messages:
            after[message.partition() or 0] = (message.offset() or 0) + 1
        offsets = {TopicPartition(source, index): offset for index, offset in after.items()}
        ended = await producer.transact(
            target,
            [transformed(message) for message in messages],
            commit=chance.random() > ABORTED_SHARE,
            flush=chance.random() < 0.5,
            offsets=offsets,
            consumer=reading.consumer,
        )
        if ended is Ended.COMMITTED:
            reading.next = after
            print(f"committed {len(messages)}", flush=True)
        else:
            reading.seek()
    await producer.close()
    reading.consumer.close()
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
