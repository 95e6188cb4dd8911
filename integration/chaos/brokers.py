"""The cluster of a run: its topics, the leaders of its partitions over time, and leader elections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from aioprod.errors import AioprodError, ErrorCode
from aioprod.messages import CreateTopicsRequest, MetadataRequest
from aioprod.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from aioprod.messages.metadata import MetadataRequestTopic
from aioprod.testing import KafkaCluster
from integration.chaos.ledger import Place
from integration.chaos.messages import (
    AlterPartitionReassignmentsRequest,
    ElectionPartitions,
    ElectLeadersRequest,
    ReassignedPartition,
    ReassignedTopic,
)
from integration.chaos.modes import MAIN, SOLO, TOPICS

__all__ = ["PROPERTIES", "Brokers", "Change"]

PROPERTIES: Final[dict[str, Any]] = {"auto_create_topics_enable": False, "auto_leader_rebalance_enable": False}
_POLL_S: Final = 0.2
_HEALING_TIMEOUT_S: Final = 90.0


class PartitionState(NamedTuple):
    """What the cluster says of a partition; leader -1 is none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Change(NamedTuple):
    """From `at` on (seconds of the monotonic clock) a partition is led by another broker."""

    at: float
    place: Place
    leader: int


class Brokers:
    """Three brokers with the topics of a run; asks them past the proxies."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self.leaders: dict[Place, int] = {}
        self.changes: list[Change] = []

    async def create_topics(self, topics: Iterable[str]) -> None:
        """Make the topics, their leaders spread evenly, and wait until all replicas are in sync."""
        creatable = []
        ids = self.cluster.broker_ids
        for topic in topics:
            placed = [
                CreatableReplicaAssignment(partition_index=index, broker_ids=_rotated(ids, index, topic))
                for index in range(TOPICS[topic])
            ]
            settings = () if topic == SOLO else (CreatableTopicConfig(name="min.insync.replicas", value="2"),)
            creatable.append(
                CreatableTopic(
                    name=topic, num_partitions=-1, replication_factor=-1, assignments=tuple(placed), configs=settings
                )
            )
        answer = await self.cluster.call(CreateTopicsRequest(topics=tuple(creatable)))
        assert [topic.error_code for topic in answer.topics] == [0] * len(creatable), answer
        await self.healed(topics)

    async def states(self, topics: Iterable[str]) -> dict[Place, PartitionState]:
        """What a serving broker knows of the partitions of the topics that exist."""
        wanted = tuple(MetadataRequestTopic(name=topic) for topic in topics)
        answer = await self.cluster.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        return {
            Place(topic.name or "", one.partition_index): PartitionState(
                one.leader_id, one.replica_nodes, one.isr_nodes
            )
            for topic in answer.topics
            for one in topic.partitions
        }

    async def healed(self, topics: Iterable[str] = (MAIN, SOLO)) -> None:
        """Wait until every partition has a leader and all its replicas; raises TimeoutError after 90 s."""
        count = sum(TOPICS[topic] for topic in topics)
        async with asyncio.timeout(_HEALING_TIMEOUT_S):
            while True:
                try:
                    states = await self.states(topics)
                    if len(states) == count and all(
                        s.leader > 0 and set(s.replicas) == set(s.in_sync) for s in states.values()
                    ):
                        return
                except (OSError, AioprodError):
                    pass  # it answers when it is back
                await asyncio.sleep(_POLL_S)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Note who leads what for as long as the block lasts."""
        self._note(await self.states(TOPICS))
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_POLL_S)
            try:
                self._note(await self.states(TOPICS))
            except (OSError, AioprodError):
                continue  # the broker that was asked has just gone

    def _note(self, states: dict[Place, PartitionState]) -> None:
        now = time.monotonic()
        for place, state in states.items():
            if self.leaders.get(place) != state.leader:
                self.leaders[place] = state.leader
                self.changes.append(Change(now, place, state.leader))

    async def move_leaders(self) -> None:
        """Give each partition of the main topic its next replica as preferred leader, and elect it."""
        states = {place.partition: state for place, state in (await self.states([MAIN])).items()}
        moved = tuple(
            ReassignedPartition(partition_index=index, replicas=state.replicas[1:] + state.replicas[:1])
            for index, state in sorted(states.items())
        )
        topics = (ReassignedTopic(name=MAIN, partitions=moved),)
        answer = await self.cluster.call(AlterPartitionReassignmentsRequest(topics=topics))
        codes = [answer.error_code] + [row.error_code for topic in answer.responses for row in topic.partitions]
        assert not any(codes), answer
        await self.elect_preferred()

    async def elect_preferred(self) -> None:
        """Let each partition of the main topic be led by the first of its replicas."""
        partitions = ElectionPartitions(topic=MAIN, partitions=tuple(range(TOPICS[MAIN])))
        answer = await self.cluster.call(ElectLeadersRequest(election_type=0, topic_partitions=(partitions,)))
        found = {row.error_code for topic in answer.replica_election_results for row in topic.partition_result}
        fine = {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        assert answer.error_code == 0, answer
        assert found <= fine, answer


def _rotated(ids: tuple[int, ...], index: int, topic: str) -> tuple[int, ...]:
    first = index % len(ids)
    return ids[first : first + 1] if topic == SOLO else ids[first:] + ids[:first]
