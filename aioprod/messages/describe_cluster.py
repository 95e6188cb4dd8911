"""DescribeCluster (key 60): brokers and controller of the cluster.

Versions: 1 endpoint type (1 brokers, 2 controllers; KIP-919); 2 fenced brokers.
"""

from __future__ import annotations

from aioprod.wire.schema import BOOL, INT8, INT16, INT32, STRING, TEXT, Request, Response, Struct, array, wire

__all__ = ["DescribeClusterBroker", "DescribeClusterRequest", "DescribeClusterResponse"]


class DescribeClusterBroker(Struct):
    """A broker and where to reach it."""

    broker_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable="0+", default=None)
    is_fenced: bool = wire(BOOL, "2+")


class DescribeClusterResponse(Response):
    """The cluster. Authorized operations are bits; the default means that they were not requested."""

    API_KEY = 60
    NAME = "DescribeCluster"
    VERSIONS = (0, 2)
    FLEXIBLE = 0

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, nullable="0+", default=None)
    endpoint_type: int = wire(INT8, "1+", default=1)
    cluster_id: str = wire(TEXT)
    controller_id: int = wire(INT32, default=-1)
    brokers: tuple[DescribeClusterBroker, ...] = wire(array(DescribeClusterBroker))
    cluster_authorized_operations: int = wire(INT32, default=-0x8000_0000)


class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """What to describe."""

    API_KEY = 60
    NAME = "DescribeCluster"
    VERSIONS = (0, 2)
    FLEXIBLE = 0
    RESPONSE = DescribeClusterResponse

    include_cluster_authorized_operations: bool = wire(BOOL)
    endpoint_type: int = wire(INT8, "1+", default=1)
    include_fenced_brokers: bool = wire(BOOL, "2+")
