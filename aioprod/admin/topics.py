"""Creating, deleting and growing topics (CreateTopics, DeleteTopics, CreatePartitions)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from aioprod._authorization_errors import Right
from aioprod.admin.configs import kafka_text
from aioprod.calls.any_broker import FailureWording, ItemResult, request_for_each
from aioprod.calls.session import Session, check_topic_name
from aioprod.cluster import Node, PartitionInfo
from aioprod.cluster.topic_metadata import NodeTable, partitions_of
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    ErrorCode,
    MetadataTimeoutError,
    TopicExistsError,
    UnknownTopicError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    MetadataResponse,
)
from aioprod.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from aioprod.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreatableTopicResult
from aioprod.messages.delete_topics import DeletableTopicResult
from aioprod.messages.negotiation import ByVersion
from aioprod.types import TopicPartition

__all__ = [
    "DeleteByName",
    "check_partitions_exist",
    "create_topics",
    "delete_topics",
    "described_topics",
    "grow_topic",
]

_FIRST_WITH_DEFAULTS: Final = 4
"""The CreateTopics version from which brokers choose partition counts and replication factors (KIP-464)."""
_CREATE_ANY: Final = "CREATE on the cluster"


class DeleteByName(DeleteTopicsRequest):
    """A DeleteTopics request in the versions with names, which all brokers support (KIP-516)."""

    __slots__ = ()

    VERSIONS = (1, 5)


async def create_topics(
    session: Session,
    counts: Mapping[str, int],
    replication_factor: int,
    config: Mapping[str, object] | None,
    exists_ok: bool,
    timeout: float,
) -> dict[str, AioprodError]:
    """Create topics of these partition counts, and wait for their leaders; returns the errors of those that failed."""
    for name in counts:
        check_topic_name(name)
    deadline = session.clock() + timeout
    settings = [
        CreatableTopicConfig(name=key.replace("_", "."), value=kafka_text(value))
        for key, value in (config or {}).items()
    ]

    def build(names: Sequence[str], version: int) -> CreateTopicsRequest:
        if version < _FIRST_WITH_DEFAULTS and -1 in (replication_factor, *(counts[name] for name in names)):
            raise UnsupportedVersionError(
                f"Topic {names[0]!r} could not be created: the broker chooses no number of partitions or replicas.",
                hint="Give partitions and replication_factor: brokers from 2.4 on choose them (KIP-464).",
            )
        rows = [
            CreatableTopic(
                name=name,
                num_partitions=counts[name],
                replication_factor=replication_factor,
                assignments=(),
                configs=tuple(settings),
            )
            for name in names
        ]
        return CreateTopicsRequest(topics=tuple(rows), timeout_ms=round(timeout * 1000))

    def results(response: CreateTopicsResponse) -> dict[str, ItemResult]:
        return _results(response.topics)

    def wording(name: str) -> FailureWording:
        return FailureWording(f"Topic {name!r} could not be created", [Right("CREATE", "topic", name)], _CREATE_ANY)

    def request(names: Sequence[str]) -> ByVersion[CreateTopicsResponse]:
        return ByVersion(CreateTopicsRequest, partial(build, names))

    failures = await request_for_each(session, counts, request, results, wording, deadline)
    if exists_ok:
        failures = {name: error for name, error in failures.items() if not isinstance(error, TopicExistsError)}
    for name in [name for name in counts if name not in failures]:
        try:
            await session.wait_for_leaders(name, deadline)
        except (MetadataTimeoutError, AuthorizationError) as error:
            failures[name] = error
    return failures


async def delete_topics(
    session: Session, names: Sequence[str], missing_ok: bool, timeout: float
) -> dict[str, AioprodError]:
    """Delete topics; returns the errors of those that failed."""
    for name in names:
        check_topic_name(name)

    def build(some: Sequence[str]) -> DeleteByName:
        return DeleteByName(topic_names=tuple(some), timeout_ms=round(timeout * 1000))

    def results(response: DeleteTopicsResponse) -> dict[str, ItemResult]:
        return _results(response.responses)

    def wording(name: str) -> FailureWording:
        return FailureWording(f"Topic {name!r} could not be deleted", [Right("DELETE", "topic", name)])

    deadline = session.clock() + timeout
    failures = await request_for_each(session, names, build, results, wording, deadline)
    if missing_ok:
        failures = {name: error for name, error in failures.items() if not isinstance(error, UnknownTopicError)}
    return failures


async def grow_topic(session: Session, topic: str, count: int, timeout: float) -> None:
    """Increase the partitions of a topic, and wait for their leaders."""
    check_topic_name(topic)
    deadline = session.clock() + timeout

    def build(names: Sequence[str]) -> CreatePartitionsRequest:
        rows = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name in names]
        return CreatePartitionsRequest(topics=tuple(rows), timeout_ms=round(timeout * 1000))

    def results(response: CreatePartitionsResponse) -> dict[str, ItemResult]:
        return _results(response.results)

    def wording(name: str) -> FailureWording:
        return FailureWording(f"Topic {name!r} could not get more partitions", [Right("ALTER", "topic", name)])

    failures = await request_for_each(session, [topic], build, results, wording, deadline)
    for failure in failures.values():
        raise failure
    await session.wait_for_leaders(topic, deadline, count=count)


def described_topics(response: MetadataResponse, *, internal: bool) -> dict[str, tuple[PartitionInfo, ...]]:
    """The partitions of each topic in a response about all of them, sorted by name."""
    table = NodeTable({row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in response.brokers})
    return {
        topic.name: tuple(known.info for known in partitions_of(topic, table, epochs=False).values())
        for topic in sorted(response.topics, key=lambda topic: topic.name or "")
        if topic.name and (internal or not topic.is_internal)
    }


async def check_partitions_exist(session: Session, partitions: Collection[TopicPartition]) -> None:
    """Raise UsageError unless each exists, and what `Session.partitions` raises about its topic."""
    for topic in dict.fromkeys(tp.topic for tp in partitions):
        known = {info.partition for info in await session.partitions(topic)}
        missing = sorted(tp.partition for tp in partitions if tp.topic == topic and tp.partition not in known)
        if missing:
            raise UsageError(f"Topic {topic!r} has no partition {missing[0]}: it has {len(known)}.")


def _results(
    rows: Iterable[CreatableTopicResult | DeletableTopicResult | CreatePartitionsTopicResult],
) -> dict[str, ItemResult]:
    return {row.name or "": ItemResult(ErrorCode.of(row.error_code), row.error_message) for row in rows}
