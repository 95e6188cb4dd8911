"""The topics of a fake cluster."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from aioprod.errors import ErrorCode
from aioprod.records.parser import ParsedRecord
from aioprod.testing.fake.state.log import FakePartition, Isolation
from aioprod.types import TopicPartition

__all__ = ["FakeTopic", "Topics", "led_partition", "replicated_partition"]

_UUID_BITS: Final = 128


@dataclass
class FakeTopic:
    """A topic; tests may change its partitions. `config` has its settings by Kafka's names."""

    name: str
    id: uuid.UUID
    partitions: list[FakePartition]
    config: Mapping[str, str] = field(default_factory=dict)

    def records(self, isolation: Isolation = "read_committed") -> list[ParsedRecord]:
        """The records that a consumer sees, partition by partition."""
        return [record for partition in self.partitions for record in partition.records(isolation)]


class Topics(dict[str, FakeTopic]):
    """Topics by name. Their ids come from `random`, so that the same seed gives the same ones."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def create(self, name: str, partitions: int, leaders: list[int], config: Mapping[str, str]) -> FakeTopic:
        """Create a topic; `leaders` lead its partitions in turn."""
        topic_id = uuid.UUID(int=self._random.getrandbits(_UUID_BITS))
        logs = [FakePartition(leaders[index % len(leaders)]) for index in range(partitions)]
        self[name] = FakeTopic(name, topic_id, logs, config)
        return self[name]

    def find(self, name: str, topic_id: uuid.UUID, *, by_id: bool) -> FakeTopic | None:
        """The topic of a request, by name or by id; None if it is unknown."""
        if not by_id:
            return self.get(name)
        return next((topic for topic in self.values() if topic.id == topic_id), None)

    def partition(self, tp: TopicPartition) -> FakePartition | None:
        """The partition, None if it does not exist."""
        topic = self.get(tp.topic)
        return topic.partitions[tp.partition] if topic and 0 <= tp.partition < len(topic.partitions) else None


def led_partition(
    topic: FakeTopic | None, index: int, node_id: int, unknown: ErrorCode, leader_epoch: int = -1
) -> tuple[FakePartition | None, ErrorCode]:
    """The partition if `node_id` leads it, else the error to answer: `unknown` if it does not exist.

    `leader_epoch` is the one that the client knows, -1 if it knows none.
    """
    partition, error = replicated_partition(topic, index, unknown, leader_epoch)
    if partition is not None and partition.leader != node_id:
        return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
    return partition, error


def replicated_partition(
    topic: FakeTopic | None, index: int, unknown: ErrorCode, leader_epoch: int = -1
) -> tuple[FakePartition | None, ErrorCode]:
    """As `led_partition`, but from any replica, as each broker is one."""
    if topic is None or not 0 <= index < len(topic.partitions):
        return None, unknown
    partition = topic.partitions[index]
    if leader_epoch > partition.leader_epoch:
        return None, ErrorCode.UNKNOWN_LEADER_EPOCH
    if -1 < leader_epoch < partition.leader_epoch:
        return None, ErrorCode.FENCED_LEADER_EPOCH
    return partition, ErrorCode.NONE
