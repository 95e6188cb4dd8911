"""Short calls for Metadata responses, and a `Metadata` with a predictable backoff."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from aioprod.cluster import Metadata, MetadataUpdate
from aioprod.errors import ErrorCode
from aioprod.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

MAX_AGE_S = 300.0
MAX_IDLE_S = 100.0
NO_ID = UUID(int=0)


def backoff(attempts: int) -> float:
    """1, 2, 4 ... at most 8 seconds."""
    return min(2.0**attempts, 8.0)


def new_metadata() -> Metadata:
    return Metadata(max_age_s=MAX_AGE_S, max_idle_s=MAX_IDLE_S, backoff=backoff)


def broker(node_id: int, host: str | None = None) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id=node_id, host=host or f"host{node_id}", port=9092, rack=f"rack{node_id}")


def partition(index: int, leader: int = 1, epoch: int = 1, error: int = 0) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=(1, 2),
        isr_nodes=(1,),
        offline_replicas=(9,),
    )


def topic(
    name: str | None,
    partitions: Sequence[MetadataResponsePartition] = (),
    *,
    error: int = 0,
    topic_id: UUID = NO_ID,
    is_internal: bool = False,
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, is_internal=is_internal, partitions=tuple(partitions)
    )


def failed(name: str, error: ErrorCode) -> MetadataResponseTopic:
    return topic(name, error=error)


def response(
    *topics: MetadataResponseTopic,
    brokers: Iterable[MetadataResponseBroker] = (broker(1), broker(2)),
    controller: int = 1,
    cluster_id: str | None = "cluster",
    error: int = 0,
) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(brokers), cluster_id=cluster_id, controller_id=controller, topics=topics, error_code=error
    )


def names(request: MetadataRequest) -> list[str | None]:
    assert request.topics is not None
    return [topic.name for topic in request.topics]


def exchange(metadata: Metadata, now: float, *topics: MetadataResponseTopic, version: int = 12) -> MetadataUpdate:
    """Send a request at `now`, and apply this response at once."""
    metadata.build_request(now, True)
    return metadata.handle_response(response(*topics), now, version=version)
