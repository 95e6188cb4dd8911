"""What all brokers of one fake cluster share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from aioprod.testing.fake.faults import Fault
from aioprod.testing.fake.topics import FakeTopic, Topics
from aioprod.types import TopicPartition

__all__ = ["Call", "FakeState"]

Address = tuple[str, int]


class FakeState:
    """Topics, logs, coordinators, and settings for a test to change. `nodes` maps the ids of those alive to addresses.

    `leader_hints`: whether brokers name the new leader (KIP-951).
    """

    def __init__(self, seed: int) -> None:
        self.nodes: dict[int, Address] = {}
        self.topics = Topics(Random(seed))
        self.cluster_id = "fake-cluster"
        self.auto_create = True
        self.default_partitions = 1
        self.message_max_bytes = 1_048_588
        self.leader_hints = True
        self._last_producer_id = 999

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> FakeTopic:
        """Create a topic whose leaders are the nodes in turn."""
        return self.topics.create(name, partitions, sorted(self.nodes), config or {})

    def move_leader(self, tp: TopicPartition, leader: int | None) -> None:
        """Elect another leader, or none."""
        partition = self.topics[tp.topic].partitions[tp.partition]
        partition.leader = leader
        partition.leader_epoch += 1

    def new_producer_id(self) -> int:
        """One that nobody had before."""
        self._last_producer_id += 1
        return self._last_producer_id


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way through a broker: what it may touch, who handles it, its version, what goes wrong."""

    state: FakeState
    node_id: int
    version: int
    fault: Fault
