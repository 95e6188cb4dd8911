"""A member by confluent-kafka: `python -m integration.group.programs.confluent JOB`; it leaves when it reads a line.

The generation is the first field after the magic word of its serialized group metadata. librdkafka's own thread may
know a generation before the application, so a report has that of the last rebalance of which the application got a
callback. Only librdkafka's log shows the leader, without the assignment.
"""

from __future__ import annotations

import json
import logging
import re
import struct
import sys
import threading
import time
from collections.abc import Iterable
from typing import Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Message

from integration.group.programs.telling import COMMIT_EVERY_S, POLL_S, Job, check, tell
from integration.group.reports import Said

__all__ = ["ConfluentMember"]

_METADATA: Final = b"CGMDv2:"
_JOINED: Final = re.compile(r"JoinGroup response: GenerationId (-?\d+), Protocol \S*, LeaderId (\S+) \(me\)")

Place = tuple[str, int]


class ConfluentMember(logging.Handler):
    """One consumer; it is its logger's handler, too."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        logger = logging.Logger("librdkafka", logging.DEBUG)
        logger.addHandler(self)
        self._topics = job.topics
        self._generation = -1
        self._member = ""
        self._uncommitted: dict[Place, int] = {}
        self._committed_at = 0.0
        self._consumer = Consumer(
            {
                "bootstrap.servers": job.bootstrap_servers,
                "group.id": job.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **_protocol(job),
                "max.poll.interval.ms": job.max_poll_interval_ms,
                "debug": "cgrp",
            },
            logger=logger,
        )

    def emit(self, record: logging.LogRecord) -> None:
        """What librdkafka logs, called within `poll`."""
        if joined := _JOINED.search(record.getMessage()):
            tell(Said.LEADS, joined[2], int(joined[1]))

    def run(self, leaving: threading.Event) -> None:
        """Handle records until it is to leave."""
        tell(Said.BEGINS, "", -1)
        self._consumer.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        while not leaving.is_set():
            message = self._consumer.poll(POLL_S)
            if self._moved_on():
                tell(Said.ASSIGNED, self._member, self._generation)
            if message is not None:
                self._handle(message)
            if time.monotonic() > self._committed_at + COMMIT_EVERY_S:
                self._commit()
        tell(Said.LEAVES, self._member, self._generation)
        self._consumer.close()
        tell(Said.LEFT, self._member, self._generation)

    def _handle(self, message: Message) -> None:
        if error := message.error():
            raise KafkaException(error)
        topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        check(value, offset)
        tell(Said.HANDLED, self._member, self._generation, [(topic, partition)], [offset])
        self._uncommitted[topic, partition] = offset + 1

    def _commit(self) -> None:
        """What fails is tried again with what comes later, as long as the partitions stay."""
        self._committed_at = time.monotonic()
        offsets = self._uncommitted
        if not offsets:
            return
        try:
            self._consumer.commit(
                offsets=[confluent_kafka.TopicPartition(*place, offset) for place, offset in offsets.items()],
                asynchronous=False,
            )
        except KafkaException as error:
            tell(Said.REFUSED, self._member, self._generation, offsets, why=str(error))
            return
        self._uncommitted = {}
        tell(Said.COMMITTED, self._member, self._generation, offsets, offsets.values())

    def _moved_on(self) -> bool:
        """Take over the generation; whether it is a new one."""
        metadata = self._consumer.consumer_group_metadata()
        assert metadata.startswith(_METADATA)
        generation, names = struct.unpack_from("=i", metadata, len(_METADATA))[0], metadata[len(_METADATA) + 4 :]
        if generation in (-1, self._generation):
            return False
        self._generation = generation
        self._member = names.split(b"\0")[1].decode()
        return True

    def _on_assign(self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self._moved_on()
        tell(Said.ASSIGNED, self._member, self._generation, _places(partitions))

    def _on_revoke(self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self._commit()
        self._gone(Said.REVOKED, partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self._gone(Said.LOST, partitions)

    def _gone(self, said: Said, partitions: list[confluent_kafka.TopicPartition]) -> None:
        for place in _places(partitions):
            self._uncommitted.pop(place, None)
        tell(said, self._member, self._generation, _places(partitions))


def _protocol(job: Job) -> dict[str, str | int]:
    if not job.strategies:
        return {"group.protocol": "consumer"}
    return {
        "partition.assignment.strategy": ",".join(job.strategies),
        "session.timeout.ms": job.session_timeout_ms,
        "heartbeat.interval.ms": job.heartbeat_interval_ms,
    }


def _places(partitions: Iterable[confluent_kafka.TopicPartition]) -> list[Place]:
    return [(place.topic, place.partition) for place in partitions]


def main(job: Job) -> None:
    leaving = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        leaving.set()

    threading.Thread(target=listen, daemon=True).start()
    ConfluentMember(job).run(leaving)


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
