"""The folders of brokers, and the sizes of the replicas in them (DescribeLogDirs)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from aioprod._authorization_errors import Right
from aioprod.calls.any_broker import FailureWording, ItemResult, request_any_broker
from aioprod.calls.session import Session
from aioprod.errors import ErrorCode
from aioprod.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from aioprod.messages.describe_log_dirs import DescribeLogDirsResult
from aioprod.types import TopicPartition

__all__ = ["LogDir", "ReplicaSize", "log_dirs", "topic_sizes"]


_DESCRIBE: Final = Right("DESCRIBE", "cluster", "kafka-cluster")


class ReplicaSize(NamedTuple):
    """A replica: its bytes, how many offsets it is behind, and whether it is to replace the one in another folder."""

    size: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A folder of a broker."""

    path: str
    error: str | None
    """Why the folder can't be used."""
    total_bytes: int | None
    """The size of its volume; None before Kafka 3.3."""
    usable_bytes: int | None
    """What is free there; None before Kafka 3.3."""
    replicas: Mapping[TopicPartition, ReplicaSize]


async def log_dirs(session: Session, deadline: float) -> dict[int, tuple[LogDir, ...]]:
    """The folders of each broker that is up, by its id."""
    nodes = [node.id for node in session.cluster().nodes]
    answers = await asyncio.gather(*(_of_broker(session, node_id, deadline) for node_id in nodes))
    return dict(zip(nodes, answers, strict=True))


async def topic_sizes(
    session: Session, topics: Iterable[str] | None, deadline: float
) -> dict[TopicPartition, dict[int, int]]:
    """The bytes of each partition by broker, of these topics or of all; replicas that are being moved are left out."""
    wanted = None if topics is None else frozenset([topics] if isinstance(topics, str) else topics)
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for node_id, folders in (await log_dirs(session, deadline)).items():
        for folder in folders:
            for tp, replica in folder.replicas.items():
                if not replica.is_future and (wanted is None or tp.topic in wanted):
                    sizes.setdefault(tp, {})[node_id] = replica.size
    return dict(sorted(sizes.items()))


async def _of_broker(session: Session, node_id: int, deadline: float) -> tuple[LogDir, ...]:
    def result(response: DescribeLogDirsResponse) -> ItemResult:
        # Before version 3 a client without the right gets no folder, and no error.
        denied = not response.results and response.error_code == ErrorCode.NONE
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if denied else ErrorCode.of(response.error_code)
        return ItemResult(code)

    response = await request_any_broker(
        session,
        DescribeLogDirsRequest(topics=None),
        result,
        FailureWording(
            f"The folders of broker {node_id} could not be listed", [Right("DESCRIBE", "cluster", "kafka-cluster")]
        ),
        deadline,
        node_id=node_id,
    )
    return tuple(_folder(row) for row in response.results)


def _folder(row: DescribeLogDirsResult) -> LogDir:
    replicas = {
        TopicPartition(topic.name, one.partition_index): ReplicaSize(
            one.partition_size, one.offset_lag, one.is_future_key
        )
        for topic in row.topics
        for one in topic.partitions
    }
    error = None if row.error_code == ErrorCode.NONE else ErrorCode.name_of(ErrorCode.of(row.error_code))
    total, usable = (None if number < 0 else number for number in (row.total_bytes, row.usable_bytes))
    return LogDir(row.log_dir, error, total, usable, replicas)
