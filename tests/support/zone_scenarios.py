"""What brokers in three racks answer (KIP-392), as scenarios that run against fake and real clusters.

Broker n is in the n-th rack of RACKS, and each of them is a replica of every partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from aioprod import Producer
from aioprod.errors import ErrorCode
from aioprod.messages import FetchRequest, ListOffsetsRequest, MetadataRequest
from aioprod.messages.fetch import FetchPartition, FetchTopic, PartitionData
from aioprod.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from aioprod.messages.metadata import MetadataRequestTopic, MetadataResponse
from aioprod.records import parse_batches
from aioprod.testing.kafka.rpc import Address, call
from aioprod.wire.schema import ZERO_UUID

__all__ = ["RACKS", "SCENARIOS", "Scenario", "ZoneBench", "values"]

RACKS: Final = ("a", "b", "c")
RECORDS: Final = 3
_PATIENCE_S: Final = 30.0
_AGES_MS: Final = 3_600_000

Scenario = Callable[["ZoneBench"], Awaitable[None]]


class OldFetch(FetchRequest):
    """A Fetch request in a version that only leaders answer."""

    __slots__ = ()

    VERSIONS = (4, 10)


@dataclass
class ZoneBench:
    """A topic of one partition with RECORDS records."""

    topic: str
    metadata: MetadataResponse
    addresses: Mapping[int, Address]
    leader: int
    leader_epoch: int

    @classmethod
    async def open(cls, bootstrap: str, topic: str) -> ZoneBench:
        """Fill a topic that exists, and see who leads it."""
        async with Producer(bootstrap) as producer:
            for number in range(RECORDS):
                await producer.send(topic, b"%d" % number)
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        metadata = await call(Address(host, int(port)), MetadataRequest(topics=(MetadataRequestTopic(name=topic),)))
        (partition,) = metadata.topics[0].partitions
        addresses = {row.node_id: Address(row.host, row.port) for row in metadata.brokers}
        return cls(topic, metadata, addresses, partition.leader_id, partition.leader_epoch)

    @property
    def follower(self) -> int:
        return self.leader % len(RACKS) + 1

    async def fetch(
        self,
        node_id: int,
        offset: int = 0,
        rack: str = "",
        *,
        wait_ms: int = 0,
        epoch: int = -1,
        kind: type[FetchRequest] = FetchRequest,
    ) -> PartitionData:
        """What a broker answers."""
        topic_id = self.metadata.topics[0].topic_id if kind is FetchRequest else ZERO_UUID
        row = FetchPartition(
            partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1_000_000
        )
        request = kind(
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=(FetchTopic(topic=self.topic, topic_id=topic_id, partitions=(row,)),),
            forgotten_topics_data=(),
            rack_id=rack,
        )
        response = await call(self.addresses[node_id], request)
        return response.responses[0].partitions[0]

    async def settled(self, node_id: int) -> None:
        """Wait until a follower knows that all records are acknowledged."""
        async with asyncio.timeout(_PATIENCE_S):
            while (await self.fetch(node_id)).high_watermark < RECORDS:
                await asyncio.sleep(0.01)


def values(row: PartitionData) -> list[bytes | None]:
    return [record.value for batch in parse_batches(row.records or b"") for record in batch.records()]


async def metadata_has_racks(bench: ZoneBench) -> None:
    """That of each broker, which is a replica in sync."""
    assert {row.node_id: row.rack for row in bench.metadata.brokers} == dict(enumerate(RACKS, start=1))
    (partition,) = bench.metadata.topics[0].partitions
    assert sorted(partition.replica_nodes) == sorted(partition.isr_nodes) == [1, 2, 3]


async def leader_names_the_follower_of_a_rack(bench: ZoneBench) -> None:
    """It answers at once, without records, and with the offsets of the log."""
    for follower in {1, 2, 3} - {bench.leader}:
        for offset in (0, RECORDS):
            row = await bench.fetch(bench.leader, offset, RACKS[follower - 1], wait_ms=_AGES_MS)
            assert (row.error_code, row.preferred_read_replica, bytes(row.records or b"")) == (0, follower, b"")
            assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (RECORDS, RECORDS, 0)


async def leader_names_nobody(bench: ZoneBench) -> None:
    """For clients in its own rack, in one that no broker has, and in none."""
    for rack in (RACKS[bench.leader - 1], "nowhere", ""):
        row = await bench.fetch(bench.leader, rack=rack)
        assert (row.error_code, row.preferred_read_replica, values(row)) == (0, -1, [b"0", b"1", b"2"])


async def follower_answers(bench: ZoneBench) -> None:
    """Whatever the client's rack is; but not in versions before KIP-392."""
    await bench.settled(bench.follower)
    for rack in ("", *RACKS):
        row = await bench.fetch(bench.follower, 1, rack, epoch=bench.leader_epoch)
        assert (row.error_code, row.preferred_read_replica) == (0, -1)
        assert values(row)[-2:] == [b"1", b"2"]
    old = await bench.fetch(bench.follower, kind=OldFetch)
    assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def offset_that_the_log_does_not_have(bench: ZoneBench) -> None:
    """Leader and follower answer the same error, and the leader names nobody."""
    for node_id in (bench.leader, bench.follower):
        row = await bench.fetch(node_id, RECORDS + 1, RACKS[bench.follower - 1])
        assert (row.error_code, row.preferred_read_replica) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def epochs_at_a_follower(bench: ZoneBench) -> None:
    """They are compared as a leader compares them."""
    row = await bench.fetch(bench.follower, epoch=bench.leader_epoch + 1)
    assert row.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def offsets_at_a_follower(bench: ZoneBench) -> None:
    """Only the leader looks offsets up."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(topics=(ListOffsetsTopic(name=bench.topic, partitions=(wanted,)),))
    found = [
        (await call(bench.addresses[node_id], request)).topics[0].partitions[0]
        for node_id in (bench.leader, bench.follower)
    ]
    assert [(row.error_code, row.offset) for row in found] == [(0, RECORDS), (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


SCENARIOS: Final[tuple[Scenario, ...]] = (
    metadata_has_racks,
    leader_names_the_follower_of_a_rack,
    leader_names_nobody,
    follower_answers,
    offset_that_the_log_does_not_have,
    epochs_at_a_follower,
    offsets_at_a_follower,
)
