"""`FakeState`: what all brokers of one fake cluster share."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from contextlib import suppress
from random import Random

from aioprod.records.parser import ControlType
from aioprod.testing.fake.state.fetch_sessions import FetchSessions
from aioprod.testing.fake.state.groups import Groups
from aioprod.testing.fake.state.log import FakePartition
from aioprod.testing.fake.state.timers import Timers
from aioprod.testing.fake.state.topics import FakeTopic, Topics
from aioprod.testing.fake.state.transactions import Transaction, Transactions
from aioprod.types import TopicPartition

__all__ = ["FakeState"]

Address = tuple[str, int]


class FakeState:
    """Topics, logs, coordinators, and settings that a test may change.

    `nodes` has the addresses of the brokers that are up, by id, and `frozen` the ids of the frozen ones. `coordinators`
    overrides which broker coordinates a group or transactional id, `racks` has the racks of brokers that have one.
    `leader_hints`: NOT_LEADER_OR_FOLLOWER comes with the new leader (KIP-951).
    """

    def __init__(self, seed: int, timers: Timers) -> None:
        self.nodes: dict[int, Address] = {}
        self.frozen: set[int] = set()
        self.racks: dict[int, str] = {}
        self.topics = Topics(Random(seed))
        self._fetch_sessions: dict[int, FetchSessions] = {}
        self._session_random = Random(seed)
        self.transactions = Transactions(timers, self.new_producer_id, self._write_markers)
        self.timers = timers
        self.coordinators: dict[str, int] = {}
        self.groups = Groups(timers, Random(seed), self.topics, self.coordinator)
        self.cluster_id = "fake-cluster"
        self.auto_create = True
        self.default_partitions = 1
        self.message_max_bytes = 1_048_588
        self.offset_metadata_max_bytes = 4096
        self.leader_hints = True
        self.features_epoch = 0
        self._records_arrived = asyncio.Event()
        self._ids: list[int] = []
        self._last_producer_id = 999

    # --- topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        leaders: list[int] | None = None,
    ) -> FakeTopic:
        """Create a topic; `leaders`, by default the brokers that are up, lead its partitions in turn."""
        return self.topics.create(name, partitions, leaders or sorted(self.nodes), config or {})

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and with it the offsets that groups have committed for it."""
        del self.topics[name]
        self.groups.forget_topic(name)

    def move_leader(self, tp: TopicPartition, leader: int | None) -> None:
        """Set the leader of a partition (None for none) under the next leader epoch."""
        partition = self.topics[tp.topic].partitions[tp.partition]
        partition.leader = leader
        partition.leader_epoch += 1
        self.wake_fetches()

    def read_replica(self, partition: FakePartition, rack: str, offset: int) -> int:
        """The follower from which clients of a rack read at this offset, -1 for the leader (KIP-392).

        Kafka's RackAwareReplicaSelector chooses the leader if it is in that rack itself, else, of the followers there
        that have the offset, the one with most of the log.
        """
        if self.racks.get(partition.leader or 0) == rack:
            return -1
        ends = {
            node_id: partition.replica(node_id).log_end for node_id in self.nodes if self.racks.get(node_id) == rack
        }
        fitting = [(end, node_id) for node_id, end in ends.items() if partition.first_offset <= offset <= end]
        return max(fitting, default=(0, -1))[1]

    def wake_fetches(self) -> None:
        """Wake the fetches that wait for records: they read again."""
        self._records_arrived.set()
        self._records_arrived = asyncio.Event()

    async def wait_for_records(self, timeout_s: float) -> None:
        """Wait until there may be records to read, for no longer than `timeout_s` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._records_arrived.wait()

    def fetch_sessions(self, node_id: int) -> FetchSessions:
        """The fetch sessions of a broker."""
        return self._fetch_sessions.setdefault(node_id, FetchSessions(self._session_random))

    # --- coordinators

    def finalize(self, transaction_version: int) -> None:
        """Set the feature `transaction.version`; 0 is for brokers that don't have it."""
        self.transactions.version = transaction_version
        self.features_epoch += 1

    def new_producer_id(self) -> int:
        """A producer id that was not assigned before."""
        self._last_producer_id += 1
        return self._last_producer_id

    def broker_started(self, node_id: int, address: Address) -> None:
        """Add a broker that has started, and update the coordinators."""
        self.nodes[node_id] = address
        self.fetch_sessions(node_id).clear()
        self._ids = sorted({*self._ids, node_id})
        self.groups.update_coordinators()

    def coordinator(self, key: str) -> int | None:
        """The broker that coordinates a group or transactional id: always the same one while it is up."""
        if key in self.coordinators:
            return self.coordinators[key]
        start = zlib.crc32(key.encode()) % max(1, len(self._ids))
        return next((node_id for node_id in self._ids[start:] + self._ids[:start] if node_id in self.nodes), None)

    def is_serving(self, node_id: int | None) -> bool:
        """Whether a broker is up and not frozen."""
        return node_id in self.nodes and node_id not in self.frozen

    def _write_markers(self, one: Transaction, kind: ControlType) -> None:
        if not self.is_serving(self.coordinator(one.transactional_id)):
            return
        timestamp = int(self.timers.now() * 1000)
        for tp in sorted(one.partitions):
            partition = self.topics.partition(tp)
            if partition is None or self.is_serving(partition.leader):
                one.partitions.discard(tp)
                if partition is not None:
                    partition.end_transaction(kind, one.producer_id, one.epoch, timestamp)
        for group_id in sorted(one.groups):
            if self.is_serving(self.coordinator(group_id)):
                one.groups.discard(group_id)
                if group_id in self.groups:
                    self.groups[group_id].end_transaction(one.producer_id, commits=kind == ControlType.COMMIT)
        self.wake_fetches()
