"""DescribeLogDirs (key 35): the folders of one broker, and the replicas in them (KIP-113).

Versions: 2 flexible; 3 an error for all; 4 sizes of the volumes (KIP-827).
"""

from __future__ import annotations

from aioprod.wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, Struct, array, wire

__all__ = [
    "DescribableLogDirTopic",
    "DescribeLogDirsPartition",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeLogDirsResult",
    "DescribeLogDirsTopic",
]


class DescribeLogDirsPartition(Struct):
    """One replica: bytes, how many offsets it is behind, and whether it is to replace the present one."""

    partition_index: int = wire(INT32)
    partition_size: int = wire(INT64)
    offset_lag: int = wire(INT64)
    is_future_key: bool = wire(BOOL)


class DescribeLogDirsTopic(Struct):
    """Replicas of one topic."""

    name: str = wire(STRING)
    partitions: tuple[DescribeLogDirsPartition, ...] = wire(array(DescribeLogDirsPartition))


class DescribeLogDirsResult(Struct):
    """One folder; the bytes of its volume are -1 where they are not known."""

    error_code: int = wire(INT16)
    log_dir: str = wire(STRING)
    topics: tuple[DescribeLogDirsTopic, ...] = wire(array(DescribeLogDirsTopic))
    total_bytes: int = wire(INT64, "4+", default=-1, ignorable=True)
    usable_bytes: int = wire(INT64, "4+", default=-1, ignorable=True)


class DescribeLogDirsResponse(Response):
    """The folders of the broker that answers."""

    API_KEY = 35
    NAME = "DescribeLogDirs"
    VERSIONS = (1, 4)
    FLEXIBLE = 2

    throttle_time_ms: int = wire(INT32, ignorable=True)
    error_code: int = wire(INT16, "3+", ignorable=True)
    results: tuple[DescribeLogDirsResult, ...] = wire(array(DescribeLogDirsResult))


class DescribableLogDirTopic(Struct):
    """Partitions of one topic."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    """The partitions, None for all."""

    API_KEY = 35
    NAME = "DescribeLogDirs"
    VERSIONS = (1, 4)
    FLEXIBLE = 2
    RESPONSE = DescribeLogDirsResponse

    topics: tuple[DescribableLogDirTopic, ...] | None = wire(array(DescribableLogDirTopic), nullable="0+")
